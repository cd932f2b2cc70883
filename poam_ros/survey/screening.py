"""False echoes: which placed pings are believed, which are held until others confirm them.

A false echo comes late (it went to and fro twice, or by a detour) or early (fish, bubbles): its
range is another than what the pings beside it measured, by a ratio. So are the first pings beyond
a cliff. They differ in what comes next: ground goes on smoothly, an echo jumps back or jitters.

The same pings and the same predictions are judged the same. Metres everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..maps import Predicted
from ..samples import Samples
from ..settings import check, setting
from .along_track import Place, Track, alike, smooth

Predict = Callable[[np.ndarray], Predicted]
"""Mean and variance of a ping at places [N, 2]."""

#: Why pings are refused that nothing confirms.
FALSE_ECHO = "false_echo"
MULTIPLE = 0.06  # how near to a multiple, relatively, a range is taken for one
CONTRADICTED = 6.0  # deviations from the map beyond which a smooth multiple is not believed
LONG = 5  # times ``confirm_pings``: a smooth multiple is believed before there is a map
OTHERS = 3  # held pings of another pass that confirm one
ANOTHER_PASS = 4.0  # times ``confirm_radius``: the way between two passes
AHEAD = 11  # pings whose median the first one is held against


@dataclass(frozen=True)
class ScreeningSettings:
    """Which pings are doubted, and what confirms them.

    Raises:
        InputError: a value is outside its range.
    """

    screening: bool = setting(
        False, "Pings that contradict track and map are held until others confirm them"
    )
    echo_ratio: float = setting(
        1.35,
        "A ping is doubted whose range is this many times the expected one, or as small a part",
        minimum=1.01,
        maximum=10.0,
    )
    echo_deviations: float = setting(
        2.0,
        "Deviations from the map within which it vouches for a ping",
        minimum=0.1,
        maximum=100.0,
    )
    confirm_pings: int = setting(8, "Smooth doubted pings in a row that are ground", "", 2, 10_000)
    confirm_radius: float = setting(
        5.0, "Held pings of another pass this near confirm each other", "m", 0.0, 1e5
    )
    held_pings: int = setting(
        1000, "Pings held at most; beyond that the oldest are refused", "", 0, 100_000
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Judgement:
    """What became of the pings: those believed, in the order of arrival, and how many were refused;
    ``held``: those that wait."""

    accepted: Samples
    refused: int
    held: Samples


class Screen:
    """Judges placed pings, batch after batch, and holds those that it doubts.

    Attributes:
        held: what waits to be confirmed, in the order of arrival.
    """

    def __init__(self, settings: ScreeningSettings) -> None:
        self.settings = settings
        self.clear()

    def clear(self) -> None:
        """Forget the track and what is held."""
        self.held = Samples.empty()
        # Of each held ping: its run, the range that was expected, the way that had been made.
        self.runs, self.expected, self.ways = np.empty(0, dtype=int), np.empty(0), np.empty(0)
        self.track = Track()
        self.open = False  # the last run may go on
        self.begun = 0  # runs so far

    def judge(self, fresh: Samples, predict: Predict | None, final: bool = False) -> Judgement:
        """Judge new pings, and those held so far again.

        Args:
            fresh: placed pings with their ranges, in the order of arrival.
            predict: what the map expects; None where there is none yet. May raise; then nothing
                was judged.
            final: nothing comes after this: what nothing has confirmed is refused.
        """
        trial = _Trial(self, fresh, predict)
        for row in range(len(self.held), len(trial.pings)):
            trial.judge(row)
        trial.review(final)
        self.held = trial.pings[trial.held]
        self.runs, self.expected = trial.runs[trial.held], trial.expected[trial.held]
        self.ways = trial.ways[trial.held]
        self.open = self.open and bool(len(self.held)) and self.runs[-1] == self.begun
        accepted = trial.pings[np.flatnonzero(trial.believed)]
        return Judgement(accepted, int(trial.refused.sum()), self.held)


class _Trial:
    """One judgement; rows are those of ``pings``, the held ones first."""

    def __init__(self, screen: Screen, fresh: Samples, predict: Predict | None) -> None:
        self.screen, self.settings, self.track = screen, screen.settings, screen.track
        self.pings = Samples.joined([screen.held, fresh])
        self.range = self.pings.measured[:, 0]
        count, before = len(self.pings), len(screen.held)
        self.mean = self.std = None
        if predict is not None and count:
            predicted = predict(self.pings.xy)
            self.mean, self.std = predicted.mean, np.sqrt(predicted.variance)
        self.runs = np.concatenate([screen.runs, np.zeros(count - before, dtype=int)])
        self.expected = np.concatenate([screen.expected, np.full(count - before, np.nan)])
        self.ways = np.concatenate([screen.ways, np.zeros(count - before)])
        self.believed, self.refused = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.seen = before  # rows judged at least once

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(~(self.believed | self.refused)[: self.seen])

    def judge(self, row: int) -> None:
        """One new ping: believed, or part of a run of doubted ones."""
        place = self._place(row)
        self.ways[row] = self.track.go(place)
        expected, ratio = self.track.expected(place), self.settings.echo_ratio
        continues = self.screen.open and self.track.continues(place, ratio)
        agrees = self.track.agrees(place, ratio)
        if agrees or self._vouched(row, place, expected):
            # Where the map knows the ground that a run goes on to, the run was ground as well.
            self._close(known=continues and not agrees)
            self._believe(np.array([row]))
            self.seen = row + 1
            return
        if not continues:
            self._close()
            self.screen.open = True
            self.screen.begun += 1
        self.runs[row], self.expected[row] = self.screen.begun, expected
        self.track.doubted = place
        self.seen = row + 1

    def review(self, final: bool) -> None:
        """What later pings and a newer map say of those that are held."""
        for run in np.unique(self.runs[self.held]):
            rows = self._rows(run)
            if self._is_ground(rows):
                self._believe(rows)
        rows = self.held
        if len(rows):
            self._believe(rows[self._mapped(rows) | self._confirmed(rows)])
        rows = self.held
        self.refused[rows if final else rows[: max(0, len(rows) - self.settings.held_pings)]] = True

    def _vouched(self, row: int, place: Place, expected: float) -> bool:
        """Whether the map, or else the pings to come, expect what the track does not."""
        ratio = self.settings.echo_ratio
        if self.mean is None:
            if not np.isnan(expected):
                return False
            ahead = self.range[row : row + AHEAD]
            return alike(place.range, float(np.median(ahead)), ratio, 0.0)
        if np.isnan(expected):
            mapped = place.range + self.pings.z[row] - self.mean[row]
            return abs(self._score(row)) <= self.settings.echo_deviations or alike(
                place.range, mapped, ratio, 0.0
            )
        return bool(self._mapped(np.array([row]), expected)[0])

    def _score(self, rows: np.ndarray | int, z: np.ndarray | None = None) -> np.ndarray:
        """Deviations from the map."""
        z = self.pings.z[rows] if z is None else z
        return (z - self.mean[rows]) / self.std[rows]

    def _mapped(self, rows: np.ndarray, expected: float | None = None) -> np.ndarray:
        """Whether the map has the pings, and not what the track expected there."""
        if self.mean is None:
            return np.zeros(len(rows), dtype=bool)
        expected = self.expected[rows] if expected is None else expected
        limit = self.settings.echo_deviations
        other = self._score(rows, self.pings.z[rows] + self.range[rows] - expected)
        return (np.abs(self._score(rows)) <= limit) & ~(np.abs(other) <= limit)

    def _confirmed(self, rows: np.ndarray) -> np.ndarray:
        """Whether held pings of another pass found the same, and more of them than did not."""
        xy, z, way = self.pings.xy[rows], self.pings.z[rows], self.ways[rows]
        radius = self.settings.confirm_radius
        near = ((xy[:, None] - xy) ** 2).sum(-1) <= radius**2
        near &= np.abs(way[:, None] - way) > ANOTHER_PASS * radius
        room = self.track.room(self.range[rows])
        same = near & (np.abs(z[:, None] - z) <= room[:, None])
        return (same.sum(1) >= OTHERS) & (2 * same.sum(1) > near.sum(1))

    def _close(self, known: bool = False) -> None:
        """The run has ended: it was ground, or too short ever to be confirmed."""
        if not self.screen.open:
            return
        self.screen.open = False
        rows = self._rows(self.screen.begun)
        if known or self._is_ground(rows):
            self._believe(rows)
        elif len(rows) < self.settings.confirm_pings:
            self.refused[rows] = True

    def _rows(self, run: int) -> np.ndarray:
        held = self.held
        return held[self.runs[held] == run]

    def _is_ground(self, rows: np.ndarray) -> bool:
        """Whether a run of doubted pings goes on smoothly, and is no multiple of the depth."""
        ranges, expected = self.range[rows], float(self.expected[rows[0]])
        least = self.settings.confirm_pings
        if len(rows) < least or not smooth(ranges, self.track.scatter):
            return False
        if self.mean is not None and np.median(np.abs(self._score(rows))) <= CONTRADICTED:
            return True
        if np.isnan(expected):
            return self.mean is None
        ratio = float(np.median(ranges)) / expected
        times = round(ratio)
        if times < 2 or abs(ratio / times - 1) > MULTIPLE:
            return True
        return self.mean is None and len(rows) >= LONG * least

    def _believe(self, rows: np.ndarray) -> None:
        self.believed[rows] = True
        for row in rows:
            self.track.add(self._place(row))

    def _place(self, row: int) -> Place:
        return Place(*self.pings.xy[row].tolist(), float(self.range[row]))
