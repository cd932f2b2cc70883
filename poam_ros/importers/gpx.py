"""Depths in GPX, in the extensions of tracks' and routes' points and of waypoints: as a table."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ..core.errors import InputError, quantity
from ..core.reading import MemoryMeter
from .options import ReadOptions
from .raw import RawSoundings
from .tables import of_rows

POINTS = ("trkpt", "rtept", "wpt")
#: Bytes of memory that a point takes.
POINT_BYTES = 600
#: The height of the antenna, which is no depth unless a person says so.
ANTENNA = "ele"


def is_gpx(path: Path, head: bytes) -> bool:
    """Whether a file is GPX."""
    return b"<gpx" in head[:4000]


def read_gpx(path: Path, options: ReadOptions) -> RawSoundings:
    """The points that have a depth: an element that is called as a table's column would be, or one
    that a person names (``--columns depth=NAME``), in m unless a unit stands beside it.

    Raises:
        InputError: the file is no GPX, or no point has a depth.
    """
    points, torn = list[dict[str, str]](), ""
    try:
        _read(path, points)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ElementTree.ParseError, UnicodeError, ValueError) as error:
        if isinstance(error, InputError) or not points:
            raise InputError(f"{path}: expected GPX ({error})") from None
        torn = f", read up to a tear ({error})"
    named = {*options.columns.values()}
    header = {name: None for point in points for name in point if name != ANTENNA or name in named}
    kind = f"GPX, {quantity(len(points), 'point')}{torn}"
    rows = [[point.get(name, "") for name in header] for point in points]
    return of_rows(path, options, tuple(header), rows, kind)


def _read(path: Path, points: list[dict[str, str]]) -> None:
    """Append the points of a file: the texts of their elements by name, without name spaces; the
    unit that an element has as an attribute stands behind its text."""
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
            points.append(texts)
        element.clear()
