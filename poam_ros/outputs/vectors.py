"""Vector layers of a map: its soundings, and its contours: lines at round levels, the area beyond
each, and its 95 % band.

Lines and polygons follow the map's values, interpolated between the centres of cells, without
smoothing. Polygons are closed along the edge of the map, and each lies within that of the level
before it. The band of a level holds the places where the level is in the map's 95 % interval.
"""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from ..core.errors import InputError, requires_extra
from ..core.files import atomic_write
from ..core.geodesy import WGS84
from .chart import UNITS, Chart, ExportSettings
from .folder import make_folder, write_table
from .run import Run
from .volume import round_step

#: Approximate number of contours without a given interval; maximum number of any map.
WANTED, MAX_LEVELS = 12, 1000
LINE, AREA, BAND = "contour", "area", "band"
#: Decimals of degrees (1 cm) and of metres.
DIGITS, METRES = 7, 3
#: Files of soundings.
ENDINGS = (".csv", ".gpkg", ".xyz")
#: Colour (alpha, blue, green, red), width of lines and visibility of each kind in a KML file.
KML_STYLES = (
    (LINE, "<LineStyle><color>ff703c14</color><width>1.5</width></LineStyle>", 1),
    (AREA, "<LineStyle><width>0</width></LineStyle><PolyStyle><color>30c08040</color></PolyStyle>",
     0),
    (BAND, "<LineStyle><width>0</width></LineStyle><PolyStyle><color>4000a5ff</color></PolyStyle>",
     0),
)  # fmt: skip


class Feature(NamedTuple):
    """A line, or a polygon with its holes.

    Attributes:
        kind: ``LINE``; ``AREA``, all that is at least as deep; or ``BAND``, where the line may lie.
        level: of the contour, in the unit of the settings.
        shape: a shapely geometry, north-up in m, or in degrees.
        attributes: as in files: the level; of lines also the widest 95 % interval of the map along
            them, and whether they are closed.
    """

    kind: str
    level: float
    shape: Any
    attributes: dict[str, Any]


def contours(chart: Chart, degrees: bool = False) -> list[Feature]:
    """All features of a map in drawing order: bands, areas, lines.

    ``degrees``: in longitude and latitude, of a map with a georeference.

    Raises:
        InputError: the map has no value, or the interval gives too many levels.
    """
    with requires_extra("contours", "matplotlib"):
        from contourpy import FillType, LineType, contour_generator
    import shapely

    scale = UNITS[chart.settings.units]
    values, half = chart.height / scale, chart.uncertainty / scale
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise InputError("contours: expected a map with values, got none")
    kinds: dict[str, Any] = {"fill_type": FillType.OuterOffset, "line_type": LineType.Separate}
    x, y, name = chart.grid.x, chart.grid.y, _level_name(chart)
    heights: Any = contour_generator(x, y, np.ma.masked_invalid(values), **kinds)
    deepest = np.inf if chart.settings.depth else -np.inf
    bands, areas, lines = [], [], list[Feature]()
    for level in levels_of(finite, chart.settings.contour_interval):
        own = {name: round(level, 4)}
        ends = sorted((level, deepest))
        areas += [Feature(AREA, level, shape, own) for shape in _filled(heights, *ends)]
        # Signed, so that places between two cells on either side of the line are in the band.
        band = contour_generator(x, y, np.ma.masked_invalid((values - level) / half), **kinds)
        bands += [Feature(BAND, level, shape, own) for shape in _filled(band, -1.0, 1.0)]
        for line in heights.lines(level):
            if len(line) > 1:
                widest = float(chart.grid.interpolate(np.nan_to_num(half), line).max())
                shape = shapely.LineString(line)
                more = {"low": round(level - widest, 4), "high": round(level + widest, 4)}
                more["closed"] = shape.is_closed
                lines.append(Feature(LINE, level, shape, {**own, **more}))
    features = [*bands, *areas, *lines]
    if degrees and chart.place is not None:
        place, shapes = chart.place, np.array([each.shape for each in features], dtype=object)
        shapes = shapely.transform(shapes, lambda xy: place.degrees(xy).round(DIGITS))
        features = [f._replace(shape=own) for f, own in zip(features, shapes, strict=True)]
    return features


def levels_of(values: np.ndarray, interval: float) -> list[float]:
    """Multiples of the interval within the range of the values; 0: of a round interval."""
    low, high = float(values.min()), float(values.max())
    step = interval or round_step(max(high - low, 1e-6) / WANTED)
    first, last = int(np.floor(low / step)) + 1, int(np.ceil(high / step)) - 1
    if last - first >= MAX_LEVELS:
        raise InputError(
            f"contour_interval: expected at most {MAX_LEVELS} levels, got {last - first + 1} "
            f"between {low:g} and {high:g} m"
        )
    return [round(k * step, 9) for k in range(first, last + 1)]


def _filled(generator: Any, low: float, high: float) -> Iterator[Any]:
    """Polygons between two values; borders counter-clockwise, holes clockwise (RFC 7946, 3.1.6)."""
    from shapely.geometry.polygon import Polygon, orient

    for points, offsets in zip(*generator.filled(low, high), strict=True):
        border, *holes = (points[a:b] for a, b in pairwise(offsets))
        if Polygon(border).area > 0:
            yield orient(Polygon(border, holes))


def _level_name(chart: Chart) -> str:
    """The attribute with the level: elevation or depth, with its unit if that is not m."""
    unit = chart.settings.units
    return chart.height_name if unit == "m" else f"{chart.height_name}_{unit}"


def geojson(chart: Chart, name: str) -> dict[str, bytes]:
    """A FeatureCollection in degrees (RFC 7946); ``kind`` is contour, area or band."""
    from shapely.geometry import mapping

    written = [
        {"type": "Feature", "properties": {"kind": each.kind, **each.attributes},
         "geometry": mapping(each.shape)}
        for each in contours(chart, degrees=True)
    ]  # fmt: skip
    tree = {"type": "FeatureCollection", "provenance": dict(chart.provenance), "features": written}
    return {name: json.dumps(tree).encode()}


def kml(chart: Chart, name: str) -> dict[str, bytes]:
    """Folders of lines, areas and bands, in degrees (OGC 12-007r2).

    Written here: pyogrio passes no styles to GDAL's driver, which refuses borders that touch
    themselves where they are rounded, and is silent where the disk is full.
    """

    def places(tag: str, line: Any) -> str:
        text = " ".join(f"{lon:.7f},{lat:.7f}" for lon, lat in line.coords)
        return f"<{tag}><coordinates>{text}</coordinates></{tag}>"

    folders = dict.fromkeys((kind for kind, *_ in KML_STYLES), "")
    for kind, level, shape, attributes in contours(chart, degrees=True):
        data = "".join(
            f'<Data name="{key}"><value>{value}</value></Data>'
            for key, value in {"kind": kind, **attributes}.items()
        )
        if kind == LINE:
            geometry = places("LineString", shape)
        else:
            rings = (("outer", shape.exterior), *(("inner", hole) for hole in shape.interiors))
            borders = (f"<{side}BoundaryIs>{places('LinearRing', ring)}</{side}BoundaryIs>"
                       for side, ring in rings)  # fmt: skip
            geometry = f"<Polygon>{''.join(borders)}</Polygon>"
        folders[kind] += (
            f"<Placemark><name>{level:g} {chart.settings.units}</name><styleUrl>#{kind}</styleUrl>"
            f"<ExtendedData>{data}</ExtendedData>{geometry}</Placemark>"
        )
    described = escape("; ".join(f"{key}: {text}" for key, text in chart.provenance.items()))
    styles = "".join(f'<Style id="{kind}">{style}</Style>' for kind, style, _ in KML_STYLES)
    body = "".join(
        f"<Folder><name>{kind}</name><visibility>{shown}</visibility>{folders[kind]}</Folder>"
        for kind, _, shown in KML_STYLES
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2">'
        f"<Document><name>{escape(chart.provenance['title'])}</name>"
        f"<description>{described}</description>{styles}{body}</Document></kml>\n"
    )
    return {name: text.encode()}


def geopackage(chart: Chart, name: str) -> dict[str, bytes]:
    """A GeoPackage with the layers ``contour``, ``area`` and ``band``, in the map's metres.

    Raises:
        OSError: the folder for temporary files is full.
    """
    layers, features = {}, contours(chart)
    for kind, geometry in ((LINE, "LineString"), (AREA, "Polygon"), (BAND, "Polygon")):
        chosen = [feature for feature in features if feature.kind == kind]
        names = [_level_name(chart), *(("low", "high", "closed") if kind == LINE else ())]
        columns = {key: np.array([f.attributes[key] for f in chosen], dtype=float) for key in names}
        layers[kind] = geometry, np.array([f.shape for f in chosen], dtype=object), columns
    crs = chart.crs_wkt if chart.place is not None else None
    return {name: geopackage_of(name, layers, crs, dict(chart.provenance))}


def geopackage_of(
    name: str,
    layers: Mapping[str, tuple[str, np.ndarray, Mapping[str, np.ndarray]]],
    crs: str | None,
    metadata: dict[str, str] | None = None,
) -> bytes:
    """The content of a GeoPackage.

    Args:
        name: of the file, for messages.
        layers: kind of geometry, geometries of shapely [N], and columns [N], by name of the layer.
        crs: coordinate system; None: unknown.
        metadata: of the dataset.

    Raises:
        InputError: pyogrio is not installed.
        OSError: the folder for temporary files is full.
    """
    with requires_extra(name, "pyogrio"):
        import shapely
        from pyogrio import raw

    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # without an origin there is no system
        path = f"{folder}/layers.gpkg"
        for number, (layer, (kind, shapes, columns)) in enumerate(layers.items()):
            first = number == 0
            try:
                raw.write(
                    path, shapely.to_wkb(shapes), [*columns.values()], [*columns], layer=layer,
                    driver="GPKG", geometry_type=kind, crs=crs, append=not first,
                    dataset_metadata=metadata if first else None,
                )  # fmt: skip
            except RuntimeError as error:  # GDAL's, which repeats all of its SQL
                why = str(error).rpartition(": ")[2]
                raise OSError(errno.EIO, why, f"{name} (first {path})") from None
        with open(path, "rb") as file:
            return file.read()


def export_soundings(run: Run | Path, to: Path, settings: ExportSettings) -> Path:
    """Write the soundings that are in a map: longitude and latitude (WGS 84), or x and y in m
    without an origin or where ``settings`` ask for a projected system; elevation or depth in m.

    ``.csv`` and ``.gpkg`` also have the other columns of ``samples.csv`` (line, row, file, day);
    ``.xyz`` has three columns without a header.

    Returns:
        The file.

    Raises:
        InputError: the ending is another one, the run has no soundings, or pyogrio is missing.
        OSError: the file cannot be written.
    """
    ending = to.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"to: expected a file that ends with {', '.join(ENDINGS)}, got {to.name}")
    run, place = Run.of(run), settings.place
    samples, xy = run.mapped, run.xy
    if "z" not in samples or not len(xy):
        raise InputError(f"{run.folder / 'samples.csv'}: expected soundings with z, got none")
    names, crs, digits = ("x", "y"), None, METRES
    if place is not None:
        xy, crs = place.to_projected(xy), place.system().to_wkt()
        if not place.crs:
            xy, names, crs, digits = place.degrees(xy), ("longitude", "latitude"), WGS84, DIGITS
    height = settings.water_level - samples["z"] if settings.depth else samples["z"]
    columns = {name: each.round(digits) for name, each in zip(names, xy.T, strict=True)}
    columns["depth" if settings.depth else "elevation"] = height.round(METRES)
    columns |= {name: each for name, each in samples.items() if name not in ("x", "y", "z")}
    if "row" in columns:  # of the log, from 0
        columns["row"] = columns["row"].astype(np.int64)
    make_folder(to.parent)
    if ending == ".gpkg":
        with requires_extra(to.name, "pyogrio"):
            import shapely
        shapes = shapely.points(*(columns.pop(name) for name in names))
        fields = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in columns.items()}
        content = geopackage_of(to.name, {"soundings": ("Point", shapes, fields)}, crs)
        with atomic_write(to) as file:
            file.write(content)
        return to
    rows = zip(*(map(str, each.tolist()) for each in columns.values()), strict=True)
    if ending == ".csv":
        write_table(to, [*columns], rows)
    else:
        with atomic_write(to) as file:
            file.writelines(f"{' '.join(row[:3])}\n".encode() for row in rows)
    return to
