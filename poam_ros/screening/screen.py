"""Screening for false echoes: pings are accepted, held until others confirm them, or refused.

A false echo is late (a multiple, or a detour) or early (fish, bubbles): its range differs by a
ratio from that of its neighbours. So does the range of the first pings beyond a cliff. What follows
tells them apart: the bottom continues smoothly, an echo jumps back or scatters.

The same pings with the same predictions give the same result. Metres everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.maps import Predicted
from ..core.samples import Samples
from ..core.settings import Settings, setting
from .lines import usual_step
from .track import (
    JUMP_SIGMAS,
    ScreenerState,
    TrackPoint,
    confirmed_by_other_passes,
    dump_state,
    is_smooth,
    load_state,
    neighbourhood_radius,
    similar_ranges,
)
from .viterbi import BottomPath, PredictedRanges, follow

Predict = Callable[[np.ndarray], Predicted]
"""Mean and variance of a ping at places [N, 2]."""

#: Why pings are refused that nothing confirms.
FALSE_ECHO = "false_echo"

MULTIPLE_TOLERANCE = 0.06  # relative difference from a multiple of the expected range
MAX_MULTIPLE_SIGMAS = 6.0  # a smooth multiple is accepted within this of the map
MAX_FIRST_SIGMAS = 3.0  # the same for a run without an expected range
LONG_RUN_FACTOR = 5  # without a map, a smooth multiple is accepted after this times confirm_pings
MAX_OPEN_RUNS = 4  # runs that a held ping may continue
LOOKAHEAD_PINGS = 11  # the first ping is compared with the median of these
CONFIRM_RADIUS = 5.0  # m, within which held pings of another pass confirm
MAX_REPLAYED_HELD = 40  # newest held pings that are screened again with those that follow


@dataclass(frozen=True)
class ScreeningSettings(Settings):
    """Which pings are held, and what confirms them.

    ``held_pings``: largest number of held pings; beyond that, the oldest is refused.
    """

    prefix = "screening"

    enabled: bool = setting(
        False, "Hold pings that contradict the track and the map until others confirm them"
    )
    echo_ratio: float = setting(
        1.35, "Hold a ping whose range is this many times the expected one, or its inverse",
        minimum=1.01, maximum=10.0,
    )  # fmt: skip
    map_sigmas: float = setting(
        2.0, "Accept a ping within this many standard deviations of the map",
        minimum=0.1, maximum=100.0,
    )  # fmt: skip
    confirm_pings: int = setting(
        8, "Accept held pings as bottom when this many in a row are smooth", "", 2, 10_000
    )
    crossings: bool = setting(
        True, "Withdraw accepted pings that crossing lines show to be multiples"
    )
    position_std: float = setting(
        0.35, "Standard deviation of positions over a survey. Differences at crossings that it "
        "explains are no shift of the origin. Raise it for fixes that wander more. 0: never look "
        "for a shift",
        "m", 0.0, 100.0,
    )  # fmt: skip
    held_pings: int = 1000


@dataclass(frozen=True)
class ScreeningResult:
    """The newly accepted pings in order of arrival, the newly refused ones, and all held ones."""

    accepted: Samples
    refused: Samples
    held: Samples


class Screener:
    """Screens placed pings batch by batch, and holds those that contradict track and map."""

    def __init__(self, settings: ScreeningSettings) -> None:
        self.settings = settings
        self.clear()

    @property
    def held(self) -> Samples:
        """The held pings in order of arrival."""
        return self._state.held

    def clear(self) -> None:
        """Forget the track and the held pings."""
        self._state = ScreenerState()

    def dump_state(self) -> str:
        """The state without the held pings, as JSON."""
        return dump_state(replace(self._state, held=Samples.empty()))

    def load_state(self, held: Samples, text: str) -> None:
        """Continue from the state of another screener, given its held pings.

        Raises:
            InputError: the other screener had other rules.
        """
        self._state = replace(load_state(text), held=held)

    def screen(
        self, fresh: Samples, predict: Predict | None, final: bool = False
    ) -> ScreeningResult:
        """Screen new pings, and the held ones again.

        Args:
            fresh: placed pings with their ranges, in order of arrival.
            predict: the map's prediction; None: there is no map. If it raises, nothing changes.
            final: whether nothing follows: held pings that nothing confirms are refused.
        """
        screening = _ScreeningPass(self.settings, self._state, fresh, predict)
        screening.screen_new()
        screening.review(final)
        screening.save_state()
        pings = screening.pings
        return ScreeningResult(
            pings[np.flatnonzero(screening.accepted)],
            pings[np.flatnonzero(screening.refused)],
            self._state.held,
        )


class _ScreeningPass:
    """One call of ``Screener.screen``; rows are those of ``pings``, the held ones first."""

    def __init__(
        self,
        settings: ScreeningSettings,
        state: ScreenerState,
        fresh: Samples,
        predict: Predict | None,
    ) -> None:
        self.settings, self.state, self.track = settings, state, state.track
        self.pings = Samples.joined([state.held, fresh])
        self.range = self.pings.range
        count, before = len(self.pings), len(state.held)
        self.mean: np.ndarray | None = None
        self.std: np.ndarray | None = None
        if predict is not None and count:
            predicted = predict(self.pings.xy)
            self.mean, self.std = predicted.mean, np.sqrt(predicted.variance)
        self.runs = np.concatenate([state.runs, np.zeros(count - before, dtype=int)])
        self.expected = np.concatenate([state.expected, np.full(count - before, np.nan)])
        self.distances = np.concatenate([state.distances, np.zeros(count - before)])
        self.accepted, self.refused = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.seen = before  # rows screened at least once
        tail = int((state.distances > self.track.reached).sum())
        self.first = before - min(tail, MAX_REPLAYED_HELD)  # first row of the path
        near = np.concatenate([self.track.accepted[:, :2], self.pings.xy[self.first :]])
        self.step = usual_step(np.hypot(*np.diff(near, axis=0).T))  # of the track, in m
        self.path = self._follow() if self.first < count else None

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(~(self.accepted | self.refused)[: self.seen])

    def screen_new(self) -> None:
        """Accept each new ping, or add it to a run of held pings."""
        before = self.seen
        for row in range(self.first, before):
            if self._linked(row):  # explained by the pings that followed
                self._accept(np.array([row]))
        for row in range(before, len(self.pings)):
            self._screen(row)

    def _screen(self, row: int) -> None:
        place, state, ratio = self._place(row), self.state, self.settings.echo_ratio
        self.distances[row] = self.track.go(place)
        expected = self.track.expected(place, self.step)
        tolerance = JUMP_SIGMAS * self.track.scatter
        self.seen, continued = row + 1, []
        assert self.path is not None
        if self.path.is_bottom[row - self.first]:
            continued = [
                run
                for run, last in state.open.items()
                if last.beside(place, self.step)
                and similar_ranges(place.range, last.range, ratio, tolerance)
            ]
            agrees = self._linked(row) or self.track.agrees(place, ratio, self.step)
            if agrees or self._supported(row, place, expected):
                # If the map supports the bottom that a run leads to, the run was bottom, too.
                self._close([] if agrees else continued, agrees, before=row)
                self._accept(np.array([row]))
                return
        if not continued:
            state.run_count += 1
            if len(state.open) == MAX_OPEN_RUNS:
                del state.open[min(state.open)]
        run = continued[-1] if continued else state.run_count
        self.runs[row], self.expected[row] = run, expected
        state.open[run] = place

    def _follow(self) -> BottomPath:
        """The most likely path from the accepted pings through the rows from ``first`` on."""
        rows, mapped = slice(self.first, None), None
        if self.mean is not None and self.std is not None:
            ranges = self.range[rows] + self.pings.z[rows] - self.mean[rows]
            mapped = PredictedRanges(ranges, self.std[rows] ** 2)
        xy, ratio = self.pings.xy[rows], self.settings.echo_ratio
        return follow(self.track.accepted, xy, self.range[rows], mapped, ratio, self.step)

    def _linked(self, row: int) -> bool:
        """Whether the bottom continues to a ping from an accepted one, without a jump."""
        assert self.path is not None
        i = row - self.first
        is_bottom, origin, jumped = (column[i] for column in self.path)
        known = origin < 0 or self.accepted[self.first + origin]
        return bool(is_bottom and known and not jumped)

    def save_state(self) -> None:
        """Store what the next screening needs."""
        state, rows = self.state, self.held
        state.held, state.runs = self.pings[rows], self.runs[rows]
        state.expected, state.distances = self.expected[rows], self.distances[rows]
        held = set(state.runs.tolist())
        state.open = {run: last for run, last in state.open.items() if run in held}
        state.enclosed_runs &= held

    def review(self, final: bool) -> None:
        """Accept held pings that runs, other passes or the map confirm; refuse surplus ones."""
        for run in np.unique(self.runs[self.held]):
            rows = self._rows(run)
            if self._is_bottom(rows):
                self._accept(rows)
        rows = self.held
        if len(rows):
            self._accept(rows[self._mapped(rows) | self._confirmed(rows)])
        rows = self.held
        self.refused[rows if final else rows[: max(0, len(rows) - self.settings.held_pings)]] = True

    def _supported(self, row: int, place: TrackPoint, expected: float) -> bool:
        """Whether the map, or else the pings that follow, support a ping against the track."""
        ratio = self.settings.echo_ratio
        if self.mean is None:
            if not np.isnan(expected):
                return False
            ahead = self.range[row : row + LOOKAHEAD_PINGS]
            return similar_ranges(place.range, float(np.median(ahead)), ratio, 0.0)
        if np.isnan(expected):
            mapped = place.range + self.pings.z[row] - self.mean[row]
            fits = abs(self._score(row)) <= self.settings.map_sigmas
            return bool(fits) or similar_ranges(place.range, mapped, ratio, 0.0)
        return bool(self._mapped(np.array([row]), expected)[0])

    def _score(self, rows: np.ndarray | int, z: np.ndarray | None = None) -> np.ndarray:
        """Differences from the map in standard deviations."""
        assert self.mean is not None and self.std is not None
        z = self.pings.z[rows] if z is None else z
        return (z - self.mean[rows]) / self.std[rows]

    def _mapped(self, rows: np.ndarray, expected: float | None = None) -> np.ndarray:
        """Whether the map supports the pings, and not the ranges that the track expected."""
        if self.mean is None:
            return np.zeros(len(rows), dtype=bool)
        expected = self.expected[rows] if expected is None else expected
        limit = self.settings.map_sigmas
        other = self._score(rows, self.pings.z[rows] + self.range[rows] - expected)
        return (np.abs(self._score(rows)) <= limit) & ~(np.abs(other) <= limit)

    def _confirmed(self, rows: np.ndarray) -> np.ndarray:
        """Whether held pings of other passes agree, and more agree than disagree."""
        tolerance = self.track.tolerance(self.range[rows])
        where = self.pings.xy[rows], self.pings.z[rows], self.distances[rows]
        return confirmed_by_other_passes(*where, tolerance, CONFIRM_RADIUS)

    def _close(self, known: list[int], back: bool, before: int) -> None:
        """End all open runs: accept those that are bottom, refuse those too short to confirm."""
        for run in self.state.open:
            rows = self._rows(run)
            rows = rows[rows < before]
            if not len(rows):
                continue
            if back and self.range[rows[0]] > self.expected[rows[0]]:
                self.state.enclosed_runs.add(run)
            if run in known or self._is_bottom(rows):
                self._accept(rows)
            elif len(rows) < self.settings.confirm_pings:
                self.refused[rows] = True
        self.state.open.clear()

    def _rows(self, run: int) -> np.ndarray:
        held = self.held
        return held[self.runs[held] == run]

    def _is_bottom(self, rows: np.ndarray) -> bool:
        """Whether a run of held pings is as smooth as the bottom, longer than an echo would be,
        and no multiple of the expected range."""
        ranges, expected = self.range[rows], float(self.expected[rows[0]])
        least, mapped = self.settings.confirm_pings, self.mean is not None
        if len(rows) < least or not is_smooth(ranges, self.track.scatter):
            return False
        ratio = float(np.median(ranges)) / expected
        if ratio < 1:  # a smooth run of early echoes is unlikely, and a shoal must not be missed
            return True
        if self.runs[rows[0]] in self.state.enclosed_runs:
            return False
        length = self.distances[rows[-1]] - self.distances[rows[0]]
        if length < neighbourhood_radius(expected, self.step):
            return False
        alone = bool(np.isnan(expected))  # only the map can contradict it
        limit = MAX_FIRST_SIGMAS if alone else MAX_MULTIPLE_SIGMAS
        if mapped and np.median(np.abs(self._score(rows))) <= limit:
            return True
        if alone:
            return not mapped
        times = round(ratio)
        if times < 2 or abs(ratio / times - 1) > MULTIPLE_TOLERANCE:
            return True
        return not mapped and len(rows) >= LONG_RUN_FACTOR * least

    def _accept(self, rows: np.ndarray) -> None:
        self.accepted[rows] = True
        for row in rows:
            self.track.add(self._place(row), float(self.distances[row]))

    def _place(self, row: int) -> TrackPoint:
        x, y = self.pings.xy[row].tolist()
        return TrackPoint(x, y, float(self.range[row]))
