"""Depths in GPX: in the extensions of tracks' and routes' points and of waypoints."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from xml.parsers import expat

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from ..core.reading import DEEPEST, MemoryMeter
from .cells import SPELLINGS, UNITS
from .raw import RawSoundings, ReadOptions

POINTS = ("trkpt", "rtept", "wpt")
#: Bytes of memory that a point takes.
POINT_BYTES = 600
CHUNK = 1 << 20
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d+)?(?:Z|([+-]\d\d:\d\d))?$")
#: Elements of a point that are no depths, whatever they are called.
OTHERS = ("time", "name", "cmt", "desc")


def is_gpx(path: Path, head: bytes) -> bool:
    """Whether a file is GPX."""
    return b"<gpx" in head[:4000]


class _Points:
    """Collects the points of a file.

    Attributes:
        points: latitude, longitude (degrees), and the texts of the elements inside, by their names
            without name spaces; the unit that an element has as an attribute stands behind it.
        names: how many points have each element.
    """

    def __init__(self, path: Path) -> None:
        self.points: list[tuple[float, float, dict[str, str]]] = []
        self.names: Counter[str] = Counter()
        self._memory = MemoryMeter(f"{path}: its content")
        self._inside: dict[str, str] | None = None
        self._depth = 0
        self._place, self._text, self._unit = (np.nan, np.nan), "", ""

    def parse(self, path: Path) -> None:
        """Read a file in parts, without entities: these may grow without bounds, or name files.

        Raises:
            OSError: it cannot be read.
            InputError: it declares entities, or takes too much memory.
            ExpatError: it is no XML.
        """
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler = self._hear
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                parser.Parse(data)
            parser.Parse(b"", True)

    def _refuse(self, *_: object) -> None:
        raise InputError("expected GPX without a document type, as entities are not read")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        self._depth += 1
        if self._depth > DEEPEST:
            raise InputError("nested too deep")
        self._text, self._unit = "", attributes.get("unit", attributes.get("uom", ""))
        if name in POINTS:
            self._inside = {}
            self._place = _float(attributes.get("lat", "")), _float(attributes.get("lon", ""))

    def _hear(self, text: str) -> None:
        if self._inside is not None and len(self._text) < 1000:
            self._text += text

    def _end(self, name: str) -> None:
        name = name.rpartition(" ")[2]
        self._depth -= 1
        if self._inside is None:
            return
        if name in POINTS:
            self._memory.add(POINT_BYTES)
            self.points.append((*self._place, self._inside))
            self.names.update(self._inside.keys())
            self._inside = None
        elif text := self._text.strip():
            self._inside[name] = f"{text} {self._unit}".strip()
        self._text = ""


def read_gpx(path: Path, options: ReadOptions) -> RawSoundings:
    """The points that have a depth: an element of the name depth, or one that a person names
    (``--columns depth=NAME``, or ``z=NAME`` for elevations), in m unless a unit stands beside it.

    Raises:
        InputError: the file is no GPX, or no point has a depth.
    """
    found = _Points(path)
    refused = Counter[str]()
    try:
        found.parse(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (expat.ExpatError, UnicodeError, ValueError) as error:
        if not found.points:
            raise InputError(f"{path}: expected GPX ({error})") from None
        refused["unreadable_rest"] += 1
    down = "z" not in options.columns
    wanted = options.columns.get("depth" if down else "z", "")
    name = next((n for n in found.names if n == wanted), "") if wanted else _depth_of(found.names)
    if not name:
        there = ", ".join(f"{n} {shown(each, 20)}" for each, n in found.names.most_common(12))
        raise InputError(
            f"{path}: expected points with an element {wanted or 'depth'}, got "
            f"{quantity(len(found.points), 'point')} with {there or 'nothing inside'}"
            f"{'; ele is the height of the antenna' if 'ele' in found.names else ''}"
        )
    rows = [(i, *point) for i, point in enumerate(found.points) if name in point[2]]
    row, latitude, longitude, inside = zip(*rows, strict=True)
    stamps = np.array([stamp_of(each.get("time", "")) for each in inside], dtype=np.int64)
    refused["no_depth"] += len(found.points) - len(rows)
    height = np.array([_metres(each[name], options.units) for each in inside])
    return RawSoundings(
        np.column_stack((latitude, longitude)), height, down=down,
        stamp_ns=stamps if stamps.any() else None, row=np.array(row),
        understood=f"{'depth' if down else 'z'} {name} ({options.units or 'm'})"
        f"{', time UTC' if stamps.any() else ''}",
        layout=f"GPX, {quantity(len(found.points), 'point')}", refused=+refused,
    )  # fmt: skip


def _depth_of(names: Counter[str]) -> str:
    """The element that most points have of those whose name ends in depth; empty: none."""
    found = [name for name, _ in names.most_common() if name.lower().endswith("depth")]
    return next((name for name in found if name not in OTHERS), "")


def _metres(text: str, unit: str) -> float:
    """A depth in m; NaN if it is none. ``unit``: where none stands beside it."""
    value, _, beside = text.replace(",", ".").partition(" ")
    scale = UNITS.get(SPELLINGS.get(beside.lower(), "") if beside else unit or "m", np.nan)
    return scale * _float(value)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def stamp_of(text: str) -> int:
    """A time in ISO 8601 as ns since 1970, UTC where it names no zone; 0 if it is none."""
    found = _TIME.match(text)
    if found is None:
        return 0
    try:
        when = datetime.fromisoformat(found[1] + (found[3] or "+00:00"))
    except ValueError:
        return 0
    return round((when.timestamp() + float(found[2] or 0)) * SECOND)
