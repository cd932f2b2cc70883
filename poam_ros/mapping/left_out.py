"""Soundings that are left out of a map, and why; ``left_out.csv`` lists every one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..frontend.refused_pings import FALSE_ECHO, WITHDRAWN, RefusedPings
from ..outputs.folder import LEFT_OUT, millimetres, write_table

if TYPE_CHECKING:
    from .soundings import Soundings

#: Times before this (ns) are not dates: they count from a beginning of the log's own.
DATES = int(datetime(1980, 1, 1, tzinfo=timezone.utc).timestamp()) * SECOND
COLUMNS = (
    "file", "row", "time", "line", "x", "y", "z", "depth", "reason", "why", "who", "when",
)  # fmt: skip
#: Reasons of soundings that reached the model's queue but not the map, and of those that validate
#: it.
DROPPED, HELD_OUT = "dropped", "held_out"
#: What false echoes are, by the factor that the screening of the whole record found.
ECHOES = {2: "double echo", 3: "triple echo", 0: "neither bottom nor multiple"}


class LeftOut(NamedTuple):
    """M soundings that are left out of the map for one reason.

    Attributes:
        reason: as in the ledger.
        row: in the log [M]; -1 without one.
        stamp_ns: times of measurement [M], in ns; 0 where unknown.
        xyz: places and elevations [M, 3], in m; NaN where unknown.
        depth: below the water surface [M], in m; NaN where unknown.
        line: names of the survey lines [M]; empty where unknown.
        why: details of the reason; who, when: as a person wrote them.
    """

    reason: str
    row: np.ndarray
    stamp_ns: np.ndarray
    xyz: np.ndarray
    depth: np.ndarray
    line: np.ndarray
    why: str = ""
    who: str = ""
    when: str = ""

    @classmethod
    def of(cls, pings: RefusedPings) -> tuple[LeftOut, ...]:
        """Pings that a front end refused, by reason."""
        every = (pings[pings.reason == reason] for reason in dict.fromkeys(pings.reason.tolist()))
        return tuple(
            cls(str(each.reason[0]), np.full(len(each), -1), each.stamp_ns, each.xyz,
                np.full(len(each), np.nan), np.full(len(each), "", dtype=object))
            for each in every
        )  # fmt: skip


def left_out(
    soundings: Soundings,
    held: np.ndarray | None,
    mapped: np.ndarray,
    echoes: np.ndarray,
    withdrawn: np.ndarray,
    factors: np.ndarray,
) -> Iterator[LeftOut]:
    """Everything that is not in the map: first what readers, rules and persons left out, then what
    the model loop did. ``held`` [N]: those that validate the map; ``mapped``, ``echoes`` (refused),
    ``withdrawn``: rows; ``factors`` [N]: what screening found each to be (``Compared.multiple``).
    """
    yield from soundings.left_out
    rest = ~np.isin(soundings.row, mapped)
    if held is not None:
        yield soundings.left(held, HELD_OUT)
        rest &= ~held
    out = np.isin(soundings.row, withdrawn) & rest
    false = np.isin(soundings.row, echoes) & rest & ~out
    for factor, why in ECHOES.items():
        yield soundings.left(false & (factors == factor), FALSE_ECHO, why)
    yield soundings.left(out, WITHDRAWN, "crossing lines")
    yield soundings.left(rest & ~out & ~false, DROPPED, "the model could not learn its batch")


def write_left_out(
    folder: Path, log: Path, soundings: Soundings, parts: Iterator[LeftOut], water_level: float
) -> None:
    """Write ``left_out.csv`` of a run's folder, by file and row. ``log``: the file of the record,
    if it is a single one; ``water_level`` (m): for depths where no other is known."""
    files = soundings.files or ((str(log), 0),)
    begins = [first for _, first in files]
    every = [(row, part, i) for part in parts for i, row in enumerate(part.row.tolist())]

    def rows() -> Iterator[list[Any]]:
        for row, part, i in sorted(every, key=lambda each: (each[0] < 0, each[0])):
            path, first = files[max(0, bisect_right(begins, row) - 1)]
            x, y, z = part.xyz[i].tolist()
            depth = float(part.depth[i])
            depth = water_level - z if depth != depth else depth
            yield [
                path, "" if row < 0 else row - first, time_text(int(part.stamp_ns[i])),
                part.line[i], *map(millimetres, (x, y, z, depth)), part.reason, part.why, part.who,
                part.when,
            ]  # fmt: skip

    write_table(folder / LEFT_OUT, COLUMNS, rows())


def time_text(stamp_ns: int) -> str:
    """A time (UTC) to the microsecond, or s since the log's own beginning; empty if unknown (0)."""
    if not stamp_ns:
        return ""
    if stamp_ns < DATES:
        return f"{stamp_ns / SECOND:.3f}"
    text = str(np.datetime64(round(stamp_ns / 1000), "us"))
    return text.rstrip("0").rstrip(".") + "Z"
