"""Files that become tables: points of GIS files and of GPX, and logs with a row per value: deltas
of Signal K (a line of JSON each), and the CSV of InfluxDB."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import shapely
from shapely.errors import ShapelyError

from ..core.errors import InputError, quantity, requires_extra
from ..core.files import UNREADABLE
from ..core.geodesy import WGS84, transformed
from ..core.reading import LONGEST_LINE, MemoryMeter, refuse_large_dataset
from .columns import MEANINGS, Table, meanings_of
from .options import ReadOptions
from .raw import RawSoundings
from .tables import soundings

#: Endings of files of points. (A GeoPackage has its signature at byte 68.)
FEATURE_FILES = (".geojson", ".gpkg", ".shp", ".fgb", ".kml")
#: Attributes that repeat what a point's geometry says.
PLACE_NAMES = {name for m in ("x", "y", "latitude", "longitude") for name in MEANINGS[m][0]}
#: Bytes in which properties of a whole collection stand, and one of them.
HEAD = 65_536
_UNIT = re.compile(rb'"depth_?units?"\s*:\s*"(\w+)"', re.IGNORECASE)
#: Points of GPX; and the height of the antenna, which is no depth unless a person says so.
POINTS, ANTENNA = ("trkpt", "rtept", "wpt"), "ele"
#: Bytes of memory that a point of GPX takes, and a value of a log.
POINT_BYTES, VALUE_BYTES = 600, 300

#: Source, name, time and value.
Value = tuple[str, str, str, Any]


def is_features(path: Path, head: bytes) -> bool:
    """Whether a file is a GIS file."""
    begin = head[:2000].lstrip()
    return (
        path.suffix.lower() in FEATURE_FILES
        or head[68:72] == b"GPKG"
        or (begin.startswith(b"{") and b"Feature" in begin)
    )


def is_gpx(path: Path, head: bytes) -> bool:
    """Whether a file is GPX."""
    return b"<gpx" in head[:4000]


def is_signalk(path: Path, head: bytes) -> bool:
    """Whether a file has deltas of Signal K, or is a table of InfluxDB with a row per value."""
    deltas = b"{" in head and b'"updates"' in head and b'"path"' in head
    return deltas or all(name in head for name in (b"_time", b"_value", b"_field"))


def read_features(path: Path, options: ReadOptions) -> RawSoundings:
    """Read the points of the first layer that has depths: in an attribute, found like a table's
    column, or else as the points' third coordinate.

    Raises:
        InputError: the file cannot be read, has no such points, or pyogrio is not installed.
    """
    with requires_extra(f"{path}: points in this format", "pyogrio"):
        from pyogrio import list_layers, raw
        from pyogrio.errors import DataLayerError, DataSourceError, GeometryError
    faults, contents = list[InputError](), list[str]()
    try:
        refuse_large_dataset(path)
        for layer in map(str, list_layers(path)[:, 0]):
            meta, _, geometries, values = raw.read(path, layer=layer)
            shapes = shapely.from_wkb(geometries)
            points = shapely.get_geometry(shapes, 0)  # of a shape with one alone
            points[shapely.get_num_geometries(shapes) > 1] = None
            contents.append(f"{layer}: {len(points)} features, {', '.join(meta['fields'])[:120]}")
            if np.isfinite(shapely.get_x(points)).any():
                try:
                    return soundings(path, options, *_table_of(path, meta, points, values))
                except InputError as error:
                    faults.append(error)
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError, ShapelyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected points with depths ({reason})") from None
    nothing = f"{path}: expected points with depths, got none ({'; '.join(contents)})"
    raise (faults or [InputError(nothing)])[0]


def _table_of(
    path: Path, meta: Mapping[str, Any], points: np.ndarray, values: list[np.ndarray]
) -> tuple[Table, str]:
    """The table of a layer, and the system of x and y; empty: unknown. The arguments are the
    layer's description, points and attributes as pyogrio reads them."""
    with requires_extra(f"{path}: its coordinates", "pyproj"):
        from pyproj import CRS
    crs = CRS.from_user_input(meta["crs"]) if meta["crs"] else None
    degrees = crs is not None and crs.is_geographic
    xyz = np.column_stack([each(points) for each in (shapely.get_x, shapely.get_y, shapely.get_z)])
    if crs is not None and degrees and (flat := crs.to_2d()).to_epsg() != 4326:
        xyz[:, :2] = transformed(flat, WGS84, xyz[:, :2])
    columns = dict(zip(("longitude", "latitude") if degrees else ("x", "y"), xyz.T, strict=False))
    fields = zip(map(str, meta["fields"]), values, strict=True)
    columns |= {name: cells for name, cells in fields if name.lower() not in PLACE_NAMES}
    if np.isfinite(xyz[:, 2]).any() and xyz[:, 2].any():
        columns.setdefault("z", xyz[:, 2])
    with path.open("rb") as file:
        head = file.read(HEAD)
    # Of a whole collection, as in crowd-sourced bathymetry (IHO B-12); pyogrio does not give it.
    if head.lstrip().startswith(b"{") and (unit := _UNIT.search(head)):
        columns["depth unit"] = np.full(len(points), unit[1].decode())
    rows = (
        ["" if cell is None or cell != cell else str(cell) for cell in row]
        for row in zip(*(cells.tolist() for cells in columns.values()), strict=True)
    )
    kind = f"points of {path.suffix[1:] or 'a GIS'}"
    table = Table.of(tuple(columns), rows, kind, str(path), comma=True)  # in texts: 8,2 m
    return table, "" if degrees or crs is None else str(meta["crs"])


def read_gpx(path: Path, options: ReadOptions) -> RawSoundings:
    """Read the points that have a depth: an element that is called as a table's column would be, or
    one that a person names (``--columns depth=NAME``), in m unless a unit stands beside it.

    Raises:
        InputError: the file is no GPX, or no point has a depth.
    """
    points, torn, leave = list[dict[str, str]](), "", {ANTENNA} - {*options.columns.values()}
    try:
        for point in _points_of(path):
            points.append({name: text for name, text in point.items() if name not in leave})
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ElementTree.ParseError, UnicodeError, ValueError) as error:
        if isinstance(error, InputError) or not points:
            raise InputError(f"{path}: expected GPX ({error})") from None
        torn = f", read up to a tear ({error})"
    kind = f"GPX, {quantity(len(points), 'point')}{torn}"
    return soundings(path, options, Table.of_rows(points, kind, str(path)))


def _points_of(path: Path) -> Iterator[dict[str, str]]:
    """The points of a file: the texts of their elements by name, without name spaces; the unit that
    an element has as an attribute stands behind its text."""
    memory, inside = MemoryMeter(f"{path}: its content"), 0
    for event, element in ElementTree.iterparse(path, ("start", "end")):
        is_point = element.tag.rpartition("}")[2] in POINTS
        inside += is_point and (1 if event == "start" else -1)
        if event == "start" or inside:
            continue
        if is_point:
            memory.add(POINT_BYTES)
            texts = {"latitude": element.get("lat", ""), "longitude": element.get("lon", "")}
            for each in element.iter():
                unit = each.get("unit", each.get("uom", ""))
                if each is not element and (text := (each.text or "").strip()):
                    texts[each.tag.rpartition("}")[2]] = f"{text} {unit}".strip()
            yield texts
        element.clear()


def read_signalk(path: Path, options: ReadOptions) -> RawSoundings:
    """Read depths at positions of the source that has the most, interpolated to their times: a row
    for each time, with a column for each name and source of places and depths.

    Raises:
        InputError: the file cannot be read, has no positions or no depths, or sources contradict
            each other.
    """
    refused, heard, memory = Counter[str](), Counter[str](), MemoryMeter(f"{path}: its content")
    wanted, counts = dict[str, bool](), Counter[tuple[str, str]]()
    times = defaultdict[str, dict[tuple[str, str], str]](dict)
    try:
        with path.open("rb") as file:
            values = _deltas if b'"updates"' in file.read(4000) else _values
        for source, name, time, value in values(path, refused):
            parts = value if isinstance(value, dict) else {"": value}
            for part, each in parts.items():
                full = f"{name}.{part}" if part else name
                heard[full] += 1
                if full not in wanted:
                    wanted[full] = bool({*meanings_of(full)} & {"latitude", "longitude", "depth"})
                if wanted[full]:
                    memory.add(VALUE_BYTES)
                    counts[full, source] += 1
                    times[time][full, source] = "" if each is None else str(each)
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None
    columns = dict[tuple[str, str], str]()
    for name, source in (key for key, _ in counts.most_common()):
        columns[name, source] = f"{name} ({source})" if name in columns.values() else name
    rows = [[time, *(row.get(key, "") for key in columns)] for time, row in sorted(times.items())]
    there = ", ".join(f"{count} {name[:40]}" for name, count in heard.most_common(12))
    kind = f"a row per value: {there or 'none'}"
    whole = Table.of(("time", *columns.values()), rows, kind, str(path))
    return soundings(path, options, whole, refused=refused)


def _deltas(path: Path, refused: Counter[str]) -> Iterator[Value]:
    """The values of deltas, a line each; a server's log has the time and the connection before."""
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(LONGEST_LINE):
            line = line[max(line.find("{"), 0) :].strip(" \r\n,[]")
            try:
                for update in json.loads(line)["updates"]:
                    source = str(update.get("$source") or update.get("source", {}).get("label", ""))
                    for each in update.get("values", ()):
                        yield source, str(each["path"]), str(update["timestamp"]), each["value"]
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                refused["bad_message"] += bool(line)


def _values(path: Path, refused: Counter[str]) -> Iterator[Value]:
    """The values of InfluxDB's tables, one below the other, each with columns of its own: a row
    each, with the name of a field."""
    header: list[str] = []
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for row in csv.reader(file):
            if {"_time", "_value"} <= {*row}:
                header = row
            elif row and not row[0].startswith("#"):
                try:
                    cells = dict(zip(header, row, strict=True))
                    value, field = cells["_value"], cells.get("_field", "")
                    every = json.loads(value) if value.startswith("{") else value
                except (ValueError, KeyError):
                    refused["bad_message"] += 1
                    continue
                field = "" if every is not value or field == "value" else field
                name = ".".join(filter(None, (cells.get("_measurement"), field)))
                yield cells.get("source", cells.get("$source", "")), name, cells["_time"], every
