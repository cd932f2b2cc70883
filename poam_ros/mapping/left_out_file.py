"""``left_out.csv``: every sounding of a log that is not in its map, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..frontend.refused_pings import FALSE_ECHO, WITHDRAWN
from ..outputs.folder import LEFT_OUT, millimetres, write_table
from ..screening.hypotheses import OTHER_ECHO
from .exclusions import DATES
from .left_out import LeftOut
from .soundings import Soundings

COLUMNS = (
    "file", "row", "time", "line", "x", "y", "z", "depth", "reason", "why", "who", "when",
)  # fmt: skip
#: Reasons of soundings that reached the model's queue but not the map, and of those that validate
#: it.
DROPPED, HELD_OUT = "dropped", "held_out"
#: What false echoes are, by the factor that the screening of the whole record found.
ECHOES = {2: "double echo", 3: "triple echo", OTHER_ECHO: "neither bottom nor multiple"}


def left_out(
    soundings: Soundings,
    held: np.ndarray | None,
    mapped: np.ndarray,
    echoes: np.ndarray,
    withdrawn: np.ndarray,
    factors: np.ndarray,
) -> Iterator[LeftOut]:
    """Everything that is not in the map: first what readers, rules and persons left out, then what
    the model loop did.

    Args:
        soundings: of the record.
        held: those that validate the map [N], boolean; None: none.
        mapped: rows of those in the map.
        echoes: rows of those that were refused as false echoes.
        withdrawn: rows of those that were accepted and later withdrawn.
        factors: what the screening of the whole record found each to be [N], as
            ``Compared.multiple``; 1 where there was none.
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
    """Write ``left_out.csv``, by file and row.

    Args:
        folder: of the run.
        log: the file of the record, if it is a single one.
        soundings: of the record.
        parts: the soundings left out.
        water_level: used for depths where no other level is known, in m.
    """
    files = [(path, first) for path, first in soundings.files] or [(str(log), 0)]
    begins = np.array([first for _, first in files])

    def rows() -> Iterator[list[Any]]:
        every = [part for part in parts if len(part.row)]
        if not every:
            return
        source = np.repeat(np.arange(len(every)), [len(part.row) for part in every])
        index = np.concatenate([np.arange(len(part.row)) for part in every])
        row = np.concatenate([part.row for part in every])
        for at in np.lexsort((np.arange(len(row)), row, row < 0)).tolist():  # without one: last
            part, i = every[source[at]], int(index[at])
            number = max(0, int(np.searchsorted(begins, row[at], side="right")) - 1)
            own = "" if row[at] < 0 else int(row[at]) - files[number][1]
            x, y, z = part.xyz[i].tolist()
            depth = float(part.depth[i])
            depth = water_level - z if depth != depth else depth
            yield [
                files[number][0], own, time_text(int(part.stamp_ns[i])), part.line[i],
                *map(millimetres, (x, y, z, depth)), part.reason, part.why, part.who, part.when,
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
