"""What the crossings of a table's lines say of its soundings: what is left out of the map, the list
of crossings, and a sentence for each line that something is left out of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..outputs.folder import write_table
from ..screening.crossings import Crossings, find_crossings
from .soundings import SoundingMapSettings, Soundings

#: The file of a run's crossings, and its columns.
CROSSINGS = "crossings.csv"
COLUMNS = ("line", "other", "day", "x", "y", "difference")
#: Times before this are no dates but counted from some begin.
DATES = int(datetime(1980, 1, 1, tzinfo=timezone.utc).timestamp()) * SECOND
NAMES = {2: "double", 3: "triple"}


@dataclass(frozen=True)
class Crossed:
    """What the crossings of soundings say.

    Attributes:
        soundings: that were judged, N.
        refused: which of them are multiples [N], boolean.
        line: index of each one's line [N].
        names: of the lines.
        found: the judgement and the crossings; None where nothing was judged.
    """

    soundings: Soundings
    refused: np.ndarray
    line: np.ndarray
    names: tuple[str, ...]
    found: Crossings | None

    def write(self, folder: Path) -> None:
        """Write ``crossings.csv``: a row per crossing, elevations of ``line`` less those of
        ``other`` in m, and the day (UTC) of ``line``. Nothing where nothing was judged."""
        if self.found is None:
            return
        found = self.found
        ends = zip(found.row, found.other, strict=True)
        lines = ([self.names[self.line[i]] for i in pair] for pair in ends)
        places = ([f"{v:.3f}" for v in p] for p in np.column_stack((found.xy, found.difference)))
        days = map(self._day, found.row)
        rows = ([*pair, day, *place] for pair, day, place in zip(lines, days, places, strict=True))
        write_table(folder / CROSSINGS, COLUMNS, rows)

    def _day(self, row: int) -> str:
        stamp = self.soundings.stamp_ns
        if stamp is None or stamp[row] < DATES:
            return ""
        return f"{datetime.fromtimestamp(int(stamp[row]) // SECOND, timezone.utc):%Y-%m-%d}"

    def sentences(self) -> list[str]:
        """One for each line that something is left out of, in the order of the lines."""
        if self.found is None:
            return []
        said, found = [], self.found
        for number in np.unique(self.line[self.refused]).tolist():
            own, others = self.line[found.row] == number, self.line[found.other] == number
            across = own != others  # not where it crosses itself
            differences = np.where(own, 1, -1)[across] * found.difference[across]
            text = f"line {self.names[number]}: {len(differences)} crossings"
            if len(differences):
                text += f", median {np.median(differences):+.1f} m"
            kinds = found.multiple[self.line == number]
            counts = ((name, int((kinds == m).sum())) for m, name in NAMES.items())
            parts = [f"{name} echoes, {n} soundings left out" for name, n in counts if n]
            said.append(f"{text}: {'; '.join(parts)}")
        return said


def cross(soundings: Soundings, settings: SoundingMapSettings) -> Crossed:
    """Judge soundings of a table by the crossings of their lines, where they are screened.

    Lines are the groups that have names, else those found in the track. Recordings and missions
    are not judged: their maps are those that the vehicle had.
    """
    table = soundings.steps is None and soundings.batch is None and soundings.taken is None
    samples = soundings.samples(settings.water_level)
    nothing = np.zeros(len(soundings), dtype=bool)
    if not (table and settings.screened(samples, say=False).screening.enabled):
        return Crossed(soundings, nothing, nothing.astype(np.int64), (), None)
    if soundings.names:
        line, names = soundings.group, soundings.names
    else:
        line = soundings.lines()
        names = tuple(f"{i + 1}" for i in range(int(line[-1]) + 1))
    found = find_crossings(soundings.xy, soundings.z, line, samples.range)
    return Crossed(soundings, found.multiple > 1, line, names, found)
