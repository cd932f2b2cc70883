"""Writers of rasters, points, meshes, pictures and pages: a chart to the contents of files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import yaml

from ...core.errors import InputError, requires_extra, shown
from ...core.geodesy import GeoReference
from ...core.geometry import Grid
from ..plates import draw_chart
from ..view.page import standalone
from ..view.scene import scene_of
from ..view.texts import refused
from .chart import Chart

#: Value of a cell that is dry or has no value, in integer layers.
_NOTHING = -1


def netcdf(chart: Chart, name: str) -> dict[str, bytes]:
    """A CF-1.8 file: elevation or depth [y, x], and its ancillary variables; row 0 is south."""
    from scipy.io import netcdf_file

    content = io.BytesIO()
    file = netcdf_file(content, "w", version=2)
    _describe(file, {"Conventions": "CF-1.8", **chart.provenance})
    _axes(file, chart)
    layers = _layers(chart)
    mapping = {}
    if chart.place is not None:
        mapping = {"grid_mapping": "crs"}
        _describe(file.createVariable("crs", "i4", ()), _projection(chart, chart.place))
    for number, (key, (values, kind, more)) in enumerate(layers.items()):
        layer = file.createVariable(key, kind, ("y", "x"))
        layer[:] = values
        rest = " ".join([*layers][1:]) if number == 0 else ""
        _describe(layer, {**more, **mapping, **({"ancillary_variables": rest} if rest else {})})
    file.flush()
    return {name: content.getvalue()}


def _axes(file: Any, chart: Chart) -> None:
    for key, values in (("x", chart.grid.x), ("y", chart.grid.y)):
        file.createDimension(key, len(values))
        axis = file.createVariable(key, "f8", (key,))
        axis[:] = values
        georeferenced = {
            "standard_name": f"projection_{key}_coordinate",
            "long_name": "easting" if key == "x" else "northing",
        }
        local = {"long_name": f"{key} in the map's own frame"}
        where = local if chart.place is None else georeferenced
        _describe(axis, {**where, "units": "m", "axis": key.upper()})


def _layers(chart: Chart) -> dict[str, tuple[np.ndarray, str, dict[str, Any]]]:
    """Values, type and attributes of each variable by name; the first is the map."""
    standard, nan = _standard_name(chart), np.float32(np.nan)
    whole = {"_FillValue": np.int32(_NOTHING)}
    metres = {"_FillValue": nan, "units": "m"}
    density = np.where(np.isfinite(chart.density), chart.density, _NOTHING)
    tvu = np.where(np.isfinite(chart.tvu), chart.tvu, _NOTHING)
    way = "down" if chart.settings.depth else "up"
    title = {"standard_name": standard, "long_name": f"{chart.height_name}, positive {way}"}
    return {
        chart.height_name: (chart.height, "f4", {**metres, **title}),
        "uncertainty": (chart.uncertainty, "f4", {**metres, "long_name": "uncertainty (95 %)"}),
        "sigma": (
            chart.deviation, "f4",
            {**metres, "standard_name": f"{standard} standard_error", "long_name": "1 sigma"},
        ),
        "density": (
            density, "i4",
            {**whole, "standard_name": f"{standard} number_of_observations", "units": "1",
             "long_name": "pings per cell; 0 where the map is interpolated"},
        ),
        "tvu": (
            tvu, "i4",
            {**whole, "long_name": "TVU within (IHO S-44 edition 6)",
             "flag_values": np.arange(5, dtype=np.int32),
             "flag_meanings": "none within_2 within_1a_1b within_special within_exclusive"},
        ),
        "uncertainty_other_survey": (
            chart.uncertainty_other_survey, "f4", {**metres, "long_name": BANDS[-1]},
        ),
    }  # fmt: skip


def _standard_name(chart: Chart) -> str:
    """The name in CF's table of standard names."""
    if not chart.settings.depth:
        return "height_above_geopotential_datum"
    if chart.datum is None or chart.datum.is_water:
        return "sea_floor_depth_below_sea_surface"
    return "sea_floor_depth_below_geopotential_datum"


def _projection(chart: Chart, place: GeoReference) -> dict[str, Any]:
    """The coordinate system as CF describes it (appendix F)."""
    attributes = {**place.system().to_cf(), "crs_wkt": chart.crs_wkt}
    return (
        attributes
        if chart.datum is None
        else {**attributes, "geopotential_datum_name": chart.datum.name}
    )


def _describe(thing: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        setattr(thing, key, value.encode() if isinstance(value, str) else value)


#: Value of empty cells in a BAG, by its specification.
BAG_NODATA = 1e6
#: A BAG must name its vertical datum; the template's unknown one would be read as a depth datum.
_UNKNOWN = 'VERT_CS["unknown",VERT_DATUM["unknown",2005],UNIT["metre",1],AXIS["Up",UP]]'
#: Names of the GeoTIFF's bands after the first, which is elevation or depth.
BANDS = (
    "uncertainty (95 %)",
    "density (pings per cell)",
    "sigma (1 sigma)",
    "TVU within, S-44 ed. 6 (0: none, 1: 2, 2: 1a and 1b, 3: Special, 4: Exclusive)",
    "uncertainty of another survey (95 %)",
)


def geotiff(chart: Chart, name: str) -> dict[str, bytes]:
    """A GeoTIFF: elevation or depth and ``BANDS``, NaN in empty cells, provenance in the tags."""
    layers = (
        chart.height, chart.uncertainty, chart.density, chart.deviation, chart.tvu,
        chart.uncertainty_other_survey,
    )  # fmt: skip
    bands = dict(zip((chart.height_name, *BANDS), layers, strict=True))
    options = raster_options(name, chart.grid, chart.crs_wkt)
    options |= {"predictor": 3, "interleave": "band"}
    units = ("metre", "metre", "", "metre", "", "metre")
    return {name: geotiff_of(bands, options, chart.provenance, units)}


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
    steps = "; ".join(f"{key}: {text}" for key, text in texts.items())
    title = f"<gmd:title><gco:CharacterString>{escape(texts['title'])}</gco:CharacterString>"
    metadata = {
        "VAR_ABSTRACT": abstract, "VAR_PROCESS_STEP_DESCRIPTION": steps,
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
        metadata["VAR_VERT_WKT"] = _UNKNOWN
    options = {**raster_options(name, chart.grid, chart.crs_wkt), **metadata, "nodata": BAG_NODATA}
    from rasterio import MemoryFile

    with MemoryFile() as file:
        with file.open(driver="BAG", count=2, **options) as raster:
            for number, layer in enumerate((chart.elevation, chart.uncertainty), start=1):
                values = _north_first(layer)
                raster.write(np.where(np.isfinite(values), values, BAG_NODATA), number)
        return {name: bytes(file.read())}


def raster_options(
    name: str, grid: Grid, crs_wkt: str, place: GeoReference | None = None
) -> dict[str, Any]:
    """Options with which a raster on a grid is opened.

    Args:
        name: of the file, for the message that rasterio is missing.
        grid: of the cells.
        crs_wkt: coordinate system.
        place: of a grid in the map's own coordinates; None: they are those of the system.

    Raises:
        InputError: rasterio is not installed.
    """
    with requires_extra(name, "rasterio"):
        from rasterio import Affine
        from rasterio.crs import CRS
    borders, (rows, columns), (width, height) = grid.borders, grid.shape, grid.cell_size
    corner = Affine(width, 0.0, borders.xmin, 0.0, -height, borders.ymax)
    if place is not None:
        ends = np.array([[borders.xmin, borders.ymax]]) + [[0, 0], [width, 0], [0, -height]]
        (c, f), right, below = place.to_projected(ends)
        corner = Affine(right[0] - c, below[0] - c, c, right[1] - f, below[1] - f, f)
    crs = CRS.from_wkt(crs_wkt)
    return {"width": columns, "height": rows, "dtype": "float32", "crs": crs, "transform": corner}


def geotiff_of(
    layers: Mapping[str, np.ndarray],
    options: Mapping[str, Any],
    tags: Mapping[str, str],
    units: Sequence[str] = (),
) -> bytes:
    """A GeoTIFF of layers [rows, columns] by name, row 0 south; NaN in empty cells.

    ``options``: of ``raster_options``; ``units``: of the layers, empty: not said.
    """
    from rasterio import MemoryFile

    with MemoryFile() as file:
        packed = {"compress": "deflate", "nodata": np.nan, "count": len(layers)}
        with file.open(driver="GTiff", **{**options, **packed}) as raster:
            for number, (name, layer) in enumerate(layers.items(), start=1):
                raster.write(_north_first(layer), number)
                raster.set_band_description(number, name)
            if units:
                raster.units = units
            raster.update_tags(**tags)
        return bytes(file.read())


def _north_first(layer: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(layer[::-1], dtype=np.float32)


#: Grey values of a trinary map, as Nav2's map saver writes them.
FREE, OCCUPIED = 254, 0


def nav2(chart: Chart, name: str) -> dict[str, bytes]:
    """A Nav2 map, YAML and PGM, in the map frame: occupied where, at 95 %, the bottom may be nearer
    to the water level than the clearance. Far from all pings the uncertainty makes it so.

    Raises:
        InputError: if the cells are not square.
    """
    width, height = chart.cell
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
    columns = ["x", "y", chart.height_name, "uncertainty", "sigma", "density"]
    rows = np.column_stack((chart.grid.points, *(layer.ravel() for layer in layers)))
    rows = rows[np.isfinite(rows[:, 2])]
    formats = ["%.4f"] * 2 + ["%.4f"] * 3 + ["%d"]
    if chart.place is not None:
        columns += ["longitude", "latitude"]
        rows = np.column_stack((rows, chart.place.degrees(rows[:, :2])))
        formats += ["%.9f"] * 2
    line = ",".join(formats) + "\n"
    text = ",".join(columns) + "\n" + "".join(line % tuple(row) for row in rows)
    beside = yaml.safe_dump(dict(chart.provenance), sort_keys=False, allow_unicode=True)
    return {f"{name}.yaml": beside.encode(), name: text.encode()}


def picture(chart: Chart, name: str) -> dict[str, bytes]:
    """A PNG of the map, its uncertainty, its ping density and TVU."""
    with requires_extra(name, "matplotlib"):
        figure = draw_chart(chart)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110, metadata=dict(chart.provenance))
    return {name: content.getvalue()}


def page(chart: Chart, name: str) -> dict[str, bytes]:
    """A self-contained HTML page: layers, values under the pointer, numbers."""
    with requires_extra(name, "bokeh", "view"):
        import bokeh  # noqa: F401
    scene = scene_of(chart, remarks=refused(chart.unmapped.refused))
    return {name: standalone(scene).encode()}
