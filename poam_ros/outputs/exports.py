"""Exports of a map: the table of formats, and their writers: a chart to the contents of files."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import yaml

from ..core.errors import InputError, requires_extra, shown
from ..core.files import atomic_write
from ..core.geodesy import WGS84, GeoReference, transformed
from ..core.geometry import Grid
from ..core.reading import parse_json
from ..core.vectors import MALFORMED, geojson_layer
from .chart import Chart, ExportSettings, read_chart
from .figures import blank_figure, plain, png
from .folder import make_folder
from .page import standalone
from .plates import draw_chart
from .run import Run
from .scene import scene_of
from .vectors import geojson, geopackage, kml

log = logging.getLogger(__name__)

#: Value of a cell that is dry or has no value, in integer layers; and in a BAG, by its
#: specification.
NOTHING, BAG_NODATA = -1, 1e6
#: A BAG must name its vertical datum; the template's unknown one would be read as a depth datum.
UNKNOWN_DATUM = 'VERT_CS["unknown",VERT_DATUM["unknown",2005],UNIT["metre",1],AXIS["Up",UP]]'
#: Driver and options of a GeoTIFF.
GEOTIFF = {"driver": "GTiff", "compress": "deflate", "predictor": "3", "interleave": "band"}
#: What another survey measures, as band of a GeoTIFF and variable of a NetCDF.
OTHER = "uncertainty of another survey (95 %)"
#: Grey values of a trinary map, as Nav2's map saver writes them.
FREE, OCCUPIED = 254, 0
#: Maximum number of rows of a section's table, and places along a cell.
ROWS, PER_CELL = 100_000, 2


def netcdf(chart: Chart, name: str) -> dict[str, bytes]:
    """A CF-1.8 file: elevation or depth [y, x], and its ancillary variables; row 0 is south."""
    from scipy.io import netcdf_file

    content = io.BytesIO()
    file = netcdf_file(content, "w", version=2)
    place = chart.place

    def describe(thing: Any, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            setattr(thing, key, value.encode() if isinstance(value, str) else value)

    describe(file, {"Conventions": "CF-1.8", **chart.provenance})
    for key, values in (("x", chart.grid.x), ("y", chart.grid.y)):
        file.createDimension(key, len(values))
        axis = file.createVariable(key, "f8", (key,))
        axis[:] = values
        where = {"long_name": f"{key} in the map's own frame"}
        if place is not None:
            long_name = "easting" if key == "x" else "northing"
            where = {"standard_name": f"projection_{key}_coordinate", "long_name": long_name}
        describe(axis, {**where, "units": "m", "axis": key.upper()})
    if place is not None:  # as CF describes it (appendix F)
        system = {**place.system().to_cf(), "crs_wkt": chart.crs_wkt}
        system |= {} if chart.datum is None else {"geopotential_datum_name": chart.datum.name}
        mapping = file.createVariable("crs", "i4", ())
        mapping.data.fill(0)
        describe(mapping, system)
    layers = _variables(chart)
    more = {} if place is None else {"grid_mapping": "crs"}
    for key, (values, attributes) in layers.items():
        number = attributes.get("units") == "m"
        layer = file.createVariable(key, "f4" if number else "i4", ("y", "x"))
        layer[:] = values if number else np.where(np.isfinite(values), values, NOTHING)
        describe(layer, {**attributes, **more})
        if key == chart.height_name:
            describe(layer, {"ancillary_variables": " ".join([*layers][1:])})
    file.flush()
    return {name: content.getvalue()}


def _variables(chart: Chart) -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    """Values and attributes of the variables of a NetCDF by name; the first is the map."""
    # The name in CF's table of standard names.
    standard, depth = "height_above_geopotential_datum", chart.settings.depth
    if depth:
        of_water = chart.datum is None or chart.datum.is_water
        standard = f"sea_floor_depth_below_{'sea_surface' if of_water else 'geopotential_datum'}"
    whole = {"_FillValue": np.int32(NOTHING)}
    metres = {"_FillValue": np.float32(np.nan), "units": "m"}
    return {
        chart.height_name: (
            chart.height,
            {**metres, "standard_name": standard,
             "long_name": f"{chart.height_name}, positive {'down' if depth else 'up'}"},
        ),
        "uncertainty": (chart.uncertainty, {**metres, "long_name": "uncertainty (95 %)"}),
        "sigma": (
            chart.deviation,
            {**metres, "standard_name": f"{standard} standard_error", "long_name": "1 sigma"},
        ),
        "density": (
            chart.density,
            {**whole, "standard_name": f"{standard} number_of_observations", "units": "1",
             "long_name": "pings per cell; 0 where the map is interpolated"},
        ),
        "tvu": (
            chart.tvu,
            {**whole, "long_name": "TVU within (IHO S-44 edition 6)",
             "flag_values": np.arange(5, dtype=np.int32),
             "flag_meanings": "none within_2 within_1a_1b within_special within_exclusive"},
        ),
        "uncertainty_other_survey": (
            chart.uncertainty_other_survey, {**metres, "long_name": OTHER},
        ),
    }  # fmt: skip


def geotiff(chart: Chart, name: str) -> dict[str, bytes]:
    """A GeoTIFF: elevation or depth and more bands, NaN in empty cells, provenance in the tags."""
    bands = {
        chart.height_name: chart.height,
        "uncertainty (95 %)": chart.uncertainty,
        "density (pings per cell)": chart.density,
        "sigma (1 sigma)": chart.deviation,
        "TVU within, S-44 ed. 6 (0: none, 1: 2, 2: 1a and 1b, 3: Special, 4: Exclusive)": chart.tvu,
        OTHER: chart.uncertainty_other_survey,
    }
    units = ("metre", "metre", "", "metre", "", "metre")
    content = raster_of(name, bands, chart.grid, chart.crs_wkt, tags=chart.provenance, units=units)
    return {name: content}


def bag(chart: Chart, name: str) -> dict[str, bytes]:
    """A Bathymetric Attributed Grid: elevation, positive up, and its 95 % uncertainty.

    A BAG has codes for kinds of uncertainty, but none for a Gaussian process. The code is
    ``unknown``; the abstract describes it.
    """
    texts = chart.provenance
    abstract = (
        f"{texts['title']}. Elevations, positive up, are the predictive mean of a Gaussian process "
        f"of {texts['samples']} soundings. The uncertainty is a Gaussian process's: 1.96 of its "
        "predictive standard deviations (95 %), noise included; it is not an estimate from "
        "repeated soundings. Cells without a sounding are interpolated. "
        f"Vertical datum: {texts['vertical_datum']}."
    )
    title = f"<gmd:title><gco:CharacterString>{escape(texts['title'])}</gco:CharacterString>"
    metadata = {
        "VAR_ABSTRACT": abstract,
        "VAR_PROCESS_STEP_DESCRIPTION": "; ".join(f"{key}: {text}" for key, text in texts.items()),
        "VAR_VERTICAL_UNCERT_CODE": "unknown", "VAR_DATE": texts["export_time"][:10],
        "VAR_DATETIME": texts["export_time"].rstrip("Z"),
        "VAR_XML_IDENTIFICATION_CITATION": f"<gmd:CI_Citation>{title}</gmd:title>"
        f"<gmd:date><gmd:CI_Date><gmd:date><gco:Date>{texts['export_time'][:10]}</gco:Date>"
        "</gmd:date><gmd:dateType><gmd:CI_DateTypeCode codeList="
        '"http://www.isotc211.org/2005/resources/Codelist/gmxCodelists.xml#CI_DateTypeCode" '
        'codeListValue="creation">creation</gmd:CI_DateTypeCode></gmd:dateType></gmd:CI_Date>'
        "</gmd:date></gmd:CI_Citation>",
    }  # fmt: skip
    if chart.datum is None:
        metadata["VAR_VERT_WKT"] = UNKNOWN_DATUM
    layers = {"elevation": chart.elevation, "uncertainty": chart.uncertainty}
    content = raster_of(
        name, layers, chart.grid, chart.crs_wkt, nodata=BAG_NODATA,
        options={"driver": "BAG", **metadata},
    )  # fmt: skip
    return {name: content}


def raster_of(
    name: str,
    layers: Mapping[str, np.ndarray],
    grid: Grid,
    crs_wkt: str,
    place: GeoReference | None = None,
    *,
    tags: Mapping[str, str] = MappingProxyType({}),
    units: Sequence[str] = (),
    nodata: float = np.nan,
    options: Mapping[str, str] = GEOTIFF,
) -> bytes:
    """A raster of layers [rows, columns] by name, row 0 south, NaN where empty.

    Args:
        name: of the file, for the message that rasterio is missing.
        layers: by name.
        grid: of the cells.
        crs_wkt: coordinate system.
        place: of a grid in the map's own coordinates; None: they are those of the system.
        tags: of the file.
        units: of the layers; empty: not said.
        nodata: value of empty cells.
        options: GDAL's driver, and its options.

    Raises:
        InputError: rasterio is not installed.
    """
    with requires_extra(name, "rasterio"):
        from rasterio import Affine, MemoryFile
        from rasterio.crs import CRS
    borders, (rows, columns), (width, height) = grid.borders, grid.shape, grid.cell_size
    corner = Affine(width, 0.0, borders.xmin, 0.0, -height, borders.ymax)
    if place is not None:
        ends = np.array([[borders.xmin, borders.ymax]]) + [[0, 0], [width, 0], [0, -height]]
        (c, f), right, below = place.to_projected(ends)
        corner = Affine(right[0] - c, below[0] - c, c, right[1] - f, below[1] - f, f)
    with MemoryFile() as file:
        with file.open(
            width=columns, height=rows, count=len(layers), dtype="float32", nodata=nodata,
            crs=CRS.from_wkt(crs_wkt), transform=corner, **options,
        ) as raster:  # fmt: skip
            for number, (band, layer) in enumerate(layers.items(), start=1):
                values = np.nan_to_num(layer[::-1], nan=nodata)
                raster.write(np.ascontiguousarray(values, dtype=np.float32), number)
                raster.set_band_description(number, band)
            if units:
                raster.units = units
            raster.update_tags(**tags)
        return bytes(file.read())


def nav2(chart: Chart, name: str) -> dict[str, bytes]:
    """A Nav2 map, YAML and PGM, in the map frame: occupied where, at 95 %, the bottom may be nearer
    to the water level than the clearance. Far from all pings the uncertainty makes it so.

    Raises:
        InputError: if the cells are not square.
    """
    width, height = chart.grid.cell_size
    if not np.isclose(width, height, rtol=1e-6):
        raise InputError(f"{name}: expected square cells, got {width:g} x {height:g} m")
    surely = chart.depth - chart.uncertainty  # shallowest depth at 95 %
    grey = np.where(surely > chart.settings.clearance, FREE, OCCUPIED)
    rows, columns = chart.grid.shape
    comments = [f"# {key}: {shown(text, 10_000)}" for key, text in chart.provenance.items()]
    image = Path(name).with_suffix(".pgm").name
    head = "\n".join(["P5", *comments, f"{columns} {rows}", "255\n"]).encode()
    borders = chart.grid.borders
    settings = {
        "image": image, "mode": "trinary", "resolution": width,
        "origin": [float(borders.xmin), float(borders.ymin), 0.0],
        "negate": 0, "occupied_thresh": 0.65, "free_thresh": 0.25,
    }  # fmt: skip
    text = "\n".join(comments) + "\n" + yaml.safe_dump(settings, sort_keys=False)
    return {image: head + grey[::-1].astype(np.uint8).tobytes(), name: text.encode()}


def table(chart: Chart, name: str) -> dict[str, bytes]:
    """A CSV table, row by row from the lower left, and its provenance as a YAML file beside it.

    Columns: x, y, elevation or depth, uncertainty (95 %), sigma, all in m, density (pings per
    cell), and longitude, latitude if the map has a georeference.
    """
    layers = (chart.height, chart.uncertainty, chart.deviation, chart.density)
    rows = np.column_stack((chart.grid.points, *(layer.ravel() for layer in layers)))
    columns = ("x", "y", chart.height_name, "uncertainty", "sigma", "density")
    beside = yaml.safe_dump(dict(chart.provenance), sort_keys=False, allow_unicode=True)
    content = _csv(chart, columns, rows[np.isfinite(rows[:, 2])])
    return {f"{name}.yaml": beside.encode(), name: content}


def _csv(chart: Chart, columns: Sequence[str], rows: np.ndarray) -> bytes:
    """Rows in m as CSV, with longitude and latitude as far as these are known."""
    formats = ["%d" if name in ("section", "density") else "%.4f" for name in columns]
    if chart.place is not None:
        x = columns.index("x")
        rows = np.column_stack((rows, chart.place.degrees(rows[:, x : x + 2])))
        columns, formats = (*columns, "longitude", "latitude"), [*formats, "%.9f", "%.9f"]
    content = io.BytesIO()
    np.savetxt(content, rows, formats, ",", header=",".join(columns), comments="")
    return content.getvalue()


def picture(chart: Chart, name: str) -> dict[str, bytes]:
    """A PNG of the map, its uncertainty, its ping density and TVU."""
    with requires_extra(name, "matplotlib"):
        figure = draw_chart(chart)
    return {name: png(figure, 110, metadata=dict(chart.provenance))}


def page(chart: Chart, name: str) -> dict[str, bytes]:
    """A self-contained HTML page: layers, values under the pointer, numbers."""
    with requires_extra(name, "bokeh", "view"):
        import bokeh  # noqa: F401
    return {name: standalone(scene_of(chart)).encode()}


@dataclass(frozen=True)
class Format:
    """A format of maps.

    Attributes:
        write: returns the contents of the files by name, the requested file last.
        summary: for ``--help``.
        origin: ``needed``, ``taken`` (optional) or ``refused``.
        depth: whether it can hold depths.
        crs: whether it holds a coordinate system; a vertical datum then needs an origin.
        units: whether heights may be in another unit than m.
    """

    write: Callable[[Chart, str], dict[str, bytes]]
    summary: str
    origin: str = "taken"
    depth: bool = True
    crs: bool = False
    units: bool = False


FORMATS = {
    ".tif": Format(geotiff, "GeoTIFF", crs=True),
    ".bag": Format(bag, "Bathymetric Attributed Grid", origin="needed", depth=False, crs=True),
    ".nc": Format(netcdf, "NetCDF-CF", crs=True),
    ".csv": Format(table, "XYZ table"),
    ".yaml": Format(nav2, "Nav2 map, with its .pgm", origin="refused", depth=False),
    ".geojson": Format(geojson, "contours, areas and bands", origin="needed", units=True),
    ".gpkg": Format(geopackage, "the same as GeoPackage", crs=True, units=True),
    ".kml": Format(kml, "the same as KML", origin="needed", units=True),
    ".png": Format(picture, "picture"),
    ".html": Format(page, "page with picture and numbers"),
}


def export_settings(run: Run | Path, to: Path, chosen: Mapping[str, Any]) -> ExportSettings:
    """The export settings of a run: as given, otherwise as recorded in the run.

    Args:
        run: the run, or its folder; its settings may have an origin and a water level.
        to: the file; its format may refuse an origin.
        chosen: fields of ``ExportSettings`` chosen by the user.

    Raises:
        InputError: if a value is wrong, there is no such run, or its config.yaml is no YAML.
    """
    own = dict((run := Run.of(run)).recorded)
    run.check_origin(chosen.get("origin"))
    wanted = FORMATS.get(to.suffix.lower())
    if chosen.get("origin") is not None or (wanted and wanted.origin == "refused"):
        own = {key: own[key] for key in own if key in ("water_level", "contour_interval")}
    elif "heading" in chosen:
        raise InputError("heading: needs --origin LAT LON as well")
    if chosen.get("units", "m") != "m":
        own.pop("contour_interval", None)  # which is in m
    return ExportSettings(**{**own, **chosen})


def export(
    run: Run | Path, to: Path, settings: ExportSettings, section: Sequence[str] = ()
) -> list[Path]:
    """Write the map of a run in the format of the file's ending.

    Args:
        run: the run, or its folder.
        to: the file.
        settings: of the export.
        section: write the values along these lines instead; see ``read_section_lines``.

    Returns:
        The files written, the requested one last. Each appears only when complete.

    Raises:
        InputError: if there is no such format, the settings do not suit it, the run has no map, a
            package for the format is not installed, or the folder cannot be written.
        OSError: a file cannot be written; earlier files by these names stay.
    """
    ending, placed = to.suffix.lower(), settings.origin is not None
    if (wanted := FORMATS.get(ending)) is None:
        raise InputError(f"to: expected a file that ends with {', '.join(FORMATS)}, got {to.name}")
    refusals = (
        (wanted.origin == "needed" and not placed,
         f"to: {ending} needs a georeference; expected --origin LAT LON"),
        (wanted.origin == "refused" and placed,
         f"to: {ending} is in the map's own frame; expected no --origin"),
        (settings.depth and not wanted.depth,
         f"to: {ending} holds elevations, positive up; expected no --depth"),
        (settings.units != "m" and not wanted.units,
         f"units: {ending} is in m; expected --units with contours: .geojson, .gpkg or .kml"),
        (settings.vertical_datum is not None and wanted.crs and not placed,
         f"vertical_datum: {ending} stores it together with the georeference; expected --origin "
         "LAT LON"),
        (section and ending != ".csv", f"to: expected a .csv file for a section, got {to.name}"),
    )  # fmt: skip
    for unfit, text in refusals:
        if unfit:
            raise InputError(text)
    chart = read_chart(run, settings)
    if "missing" in chart.provenance:
        log.warning("%s lacks %s", chart.provenance["title"], chart.provenance["missing"])
    if section:
        files = sections(chart, to.name, read_section_lines(section, chart.place))
    else:
        files = wanted.write(chart, to.name)
    make_folder(to.parent)
    for name, content in files.items():
        with atomic_write(to.parent / name) as file:
            file.write(content)
    return [to.parent / name for name in files]


def read_section_lines(words: Sequence[str], place: GeoReference | None) -> list[np.ndarray]:
    """Lines, each corners [K, 2] in the chart's coordinates.

    Args:
        words: the numbers x y x y ..., in m, as texts; or one GeoJSON file of lines, in degrees if
            the chart has a place on the Earth and else in m.
        place: of the chart.

    Raises:
        InputError: these are no lines.
    """
    wrong = InputError(
        "section: expected X Y X Y ... (m) or a GeoJSON file of lines, each of two corners or "
        f"more, got {' '.join(words)}"
    )
    try:
        texts = [part for text in words for part in text.split(",") if part]
        lines = [np.array(texts, dtype=float).reshape(-1, 2)]
    except ValueError:
        if len(words) > 1:
            raise wrong from None
        try:
            lines = [line for line, _ in geojson_layer(parse_json(Path(words[0]))).places]
        except OSError as error:
            raise InputError(f"{words[0]}: cannot be read ({error.strerror})") from None
        except MALFORMED as error:
            text = shown(str(error), 200)
            raise InputError(f"{words[0]}: expected GeoJSON of lines ({text})") from None
        if place is not None:
            lines = [transformed(WGS84, place.system(), line) for line in lines]
    if not lines or any(len(line) < 2 or not np.isfinite(line).all() for line in lines):
        raise wrong
    return lines


def sections(chart: Chart, name: str, lines: Sequence[np.ndarray]) -> dict[str, bytes]:
    """A CSV table of the values along lines, and a figure beside it if matplotlib is installed.

    Columns: section (from 1), distance along it, x, y, elevation or depth, low, high (95 %), all
    in m, and longitude, latitude if the map has a georeference. Places without a value are left
    out.

    Raises:
        InputError: no line meets a value of the map, or the lines are too long.
    """
    columns = ("section", "distance", "x", "y", chart.height_name, "low", "high")
    along = [_along(chart, number, line) for number, line in enumerate(lines, start=1)]
    table = np.concatenate(along)
    table = table[np.isfinite(table[:, 4])]
    if not len(table):
        raise InputError("section: no line crosses a part of the map with values")
    files = {name: _csv(chart, columns, table)}
    try:
        figure = blank_figure((10, 1.0 + 3.0 * len(lines)))
    except ImportError:
        return files
    axes = figure.subplots(len(lines), 1, squeeze=False)[:, 0]
    for number, (axis, rows) in enumerate(zip(axes, along, strict=True), start=1):
        _, distance, _, _, value, low, high = rows.T
        axis.fill_between(distance, low, high, alpha=0.3, label="95 % interval")
        axis.plot(distance, value)
        axis.set_title(plain(f"{chart.provenance['title']}: section {number}"))
        axis.set_ylabel(f"{chart.height_name} (m)")
        axis.grid(alpha=0.3)
        if chart.settings.depth:
            axis.invert_yaxis()
    axes[0].legend()
    axes[-1].set_xlabel("distance (m)")
    return {f"{Path(name).stem}.png": png(figure, 110), **files}


def _along(chart: Chart, number: int, line: np.ndarray) -> np.ndarray:
    """Number, distance, x, y, value and ends of its 95 % interval along a line, in m [R, 7]."""
    lengths = np.concatenate(([0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()))
    cell = min(chart.grid.cell_size)
    count = PER_CELL * lengths[-1] / cell
    if not 0 < count <= ROWS:
        raise InputError(
            f"section: expected a length of at most {ROWS / PER_CELL * cell:g} m, "
            f"got {lengths[-1]:g}"
        )
    distance = np.unique(np.append(np.linspace(0, lengths[-1], int(count) + 2), lengths))
    xy = np.column_stack([np.interp(distance, lengths, axis) for axis in line.T])
    value, half = (chart.grid.interpolate(v, xy) for v in (chart.height, chart.uncertainty))
    value[~chart.grid.borders.contains(xy)] = np.nan
    order = np.full(len(xy), float(number))
    return np.column_stack((order, distance, xy, value, value - half, value + half))
