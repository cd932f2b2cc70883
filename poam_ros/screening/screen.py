"""False echoes: which placed pings are accepted, which are held until others confirm them.

A false echo comes late (it went to and fro twice, or by a detour) or early (fish, bubbles): its
range is another than what the pings beside it measured, by a ratio. So are the first pings beyond
a cliff. They differ in what comes next: ground goes on smoothly, an echo jumps back or jitters.

The same pings and the same predictions are judged the same. Metres everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.maps import Predicted
from ..core.samples import Samples
from .settings import ScreeningSettings
from .track import (
    JUMP_SIGMAS,
    AcceptedTrack,
    TrackPoint,
    confirmed_by_other_passes,
    is_smooth,
    neighbourhood_radius,
    similar_ranges,
)
from .viterbi import BottomPath, PredictedRanges, follow

Predict = Callable[[np.ndarray], Predicted]
"""Mean and variance of a ping at places [N, 2]."""

MULTIPLE_TOLERANCE = 0.06  # how near to a multiple, relatively, a range is taken for one
MAX_MULTIPLE_SIGMAS = (
    6.0  # deviations from the map beyond which a is_smooth multiple is not accepted
)
MAX_FIRST_SIGMAS = 3.0  # the same, of pings that come after no others
LONG_RUN_FACTOR = (
    5  # times ``confirm_pings``: a is_smooth multiple is accepted before there is a map
)
MAX_OPEN_RUNS = 4  # runs at most that doubted pings may go on with
LOOKAHEAD_PINGS = 11  # pings whose median the first one is held against
MAX_REPLAYED_HELD = 40  # held pings at most that are judged with those that follow


@dataclass
class ScreenerState:
    """What a judgement leaves to the next one.

    Attributes:
        held: what waits to be confirmed_by_other_passes, in the order of arrival.
        runs, expected, distances: of each held ping its run, the range that was expected instead (NaN
            where there was none), and the way that the vehicle had made.
        open: the runs that may go on, and where each is.
        flanked: runs on whose both sides the ground was where it was expected.
        run_count: runs so far.
    """

    held: Samples = field(default_factory=Samples.empty)
    runs: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    expected: np.ndarray = field(default_factory=lambda: np.empty(0))
    distances: np.ndarray = field(default_factory=lambda: np.empty(0))
    track: AcceptedTrack = field(default_factory=AcceptedTrack)
    open: dict[int, TrackPoint] = field(default_factory=dict)
    enclosed_runs: set[int] = field(default_factory=set)
    run_count: int = 0


class _ScreeningPass:
    """One judgement; rows are those of ``pings``, the held ones first."""

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
        self.seen = before  # rows judged at least once
        tail = int((state.distances > self.track.reached).sum())
        self.first = before - min(tail, MAX_REPLAYED_HELD)  # row of the path
        self.path = self._follow() if self.first < count else None

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(~(self.accepted | self.refused)[: self.seen])

    def screen_new(self) -> None:
        """The new pings: each is accepted, or part of a run of doubted ones."""
        before = self.seen
        for row in range(self.first, before):
            if self._linked(row):  # what came after explains it
                self._accept(np.array([row]))
        for row in range(before, len(self.pings)):
            self._screen(row)

    def _screen(self, row: int) -> None:
        place, state, ratio = self._place(row), self.state, self.settings.echo_ratio
        self.distances[row] = self.track.go(place)
        expected, tolerance = self.track.expected(place), JUMP_SIGMAS * self.track.scatter
        self.seen, open_runs = row + 1, []
        assert self.path is not None
        if self.path.is_bottom[row - self.first]:
            open_runs = [
                run
                for run, last in state.open.items()
                if last.beside(place) and similar_ranges(place.range, last.range, ratio, tolerance)
            ]
            agrees = self._linked(row) or self.track.agrees(place, ratio)
            if agrees or self._supported(row, place, expected):
                # Where the map knows the ground that a run goes on to, the run was ground as well.
                self._close([] if agrees else open_runs, agrees, before=row)
                self._accept(np.array([row]))
                return
        if not open_runs:
            state.run_count += 1
            if len(state.open) == MAX_OPEN_RUNS:
                del state.open[min(state.open)]
        run = open_runs[-1] if open_runs else state.run_count
        self.runs[row], self.expected[row] = run, expected
        state.open[run] = place

    def _follow(self) -> BottomPath:
        """The likeliest path from what is accepted through the rows from ``first`` on."""
        rows, mapped = slice(self.first, None), None
        if self.mean is not None and self.std is not None:
            ranges = self.range[rows] + self.pings.z[rows] - self.mean[rows]
            mapped = PredictedRanges(ranges, self.std[rows] ** 2)
        xy, ratio = self.pings.xy[rows], self.settings.echo_ratio
        return follow(self.track.accepted, xy, self.range[rows], mapped, ratio)

    def _linked(self, row: int) -> bool:
        """Whether the ground goes on to a ping from one that is accepted."""
        assert self.path is not None
        i = row - self.first
        ground, origin, jumped = (column[i] for column in self.path)
        known = origin < 0 or self.accepted[self.first + origin]
        return bool(ground and known and not jumped)

    def save_state(self) -> None:
        """Remember what the next judgement needs."""
        state, rows = self.state, self.held
        state.held, state.runs = self.pings[rows], self.runs[rows]
        state.expected, state.distances = self.expected[rows], self.distances[rows]
        held = set(state.runs.tolist())
        state.open = {run: last for run, last in state.open.items() if run in held}
        state.enclosed_runs &= held

    def review(self, final: bool) -> None:
        """What later pings and a newer map say of those that are held."""
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
        """Whether the map, or else the pings to come, expect what the track does not."""
        ratio = self.settings.echo_ratio
        if self.mean is None:
            if not np.isnan(expected):
                return False
            ahead = self.range[row : row + LOOKAHEAD_PINGS]
            return similar_ranges(place.range, float(np.median(ahead)), ratio, 0.0)
        if np.isnan(expected):
            mapped = place.range + self.pings.z[row] - self.mean[row]
            fits = abs(self._score(row)) <= self.settings.echo_deviations
            return bool(fits) or similar_ranges(place.range, mapped, ratio, 0.0)
        return bool(self._mapped(np.array([row]), expected)[0])

    def _score(self, rows: np.ndarray | int, z: np.ndarray | None = None) -> np.ndarray:
        """Deviations from the map."""
        assert self.mean is not None and self.std is not None
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
        tolerance = self.track.tolerance(self.range[rows])
        where = self.pings.xy[rows], self.pings.z[rows], self.distances[rows]
        return confirmed_by_other_passes(*where, tolerance, self.settings.confirm_radius)

    def _close(self, known: list[int], back: bool, before: int) -> None:
        """Runs have ended: they were ground, or too short ever to be confirmed."""
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
        """Whether a run of doubted pings goes on as ground does, for as long as an echo would not,
        and is no multiple of the depth."""
        ranges, expected = self.range[rows], float(self.expected[rows[0]])
        least, mapped = self.settings.confirm_pings, self.mean is not None
        if len(rows) < least or not is_smooth(ranges, self.track.scatter):
            return False
        ratio = float(np.median(ranges)) / expected
        if ratio < 1:  # no echo comes so early; and a shoal is not to be missed
            return True
        if self.runs[rows[0]] in self.state.enclosed_runs:
            return False
        if self.distances[rows[-1]] - self.distances[rows[0]] < neighbourhood_radius(expected):
            return False
        alone = bool(np.isnan(expected))  # nothing but the map speaks against it
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


#: Classes whose attributes are written as JSON, by their tag, and the keys of attributes that are
#: called otherwise there.
_CLASSES: dict[str, tuple[type, dict[str, str]]] = {
    "Memory": (
        ScreenerState,
        {"distances": "ways", "enclosed_runs": "flanked", "run_count": "begun"},
    ),
    "Track": (AcceptedTrack, {"_accepted": "_believed", "_distance": "_way"}),
}


def dump_state(state: ScreenerState) -> str:
    """The text, to the last bit of every number."""
    return json.dumps(_plain(state))


def load_state(text: str) -> ScreenerState:
    """What ``dump_state`` was given.

    Raises:
        InputError: the text is of other rules than these.
    """
    try:
        state = _value(json.loads(text))
        if not isinstance(state, ScreenerState):
            raise TypeError("no state")
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"what the screen remembered is of other rules ({error})") from None
    return state


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is an object of one entry, named by its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for tag, (kind, keys) in _CLASSES.items():
        if isinstance(value, kind):
            return {tag: {keys.get(n, n): _plain(part) for n, part in vars(value).items()}}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), value.ravel().tolist()]}
    if isinstance(value, Samples):
        return {"Samples": [_plain(array) for array in value.arrays]}
    if isinstance(value, TrackPoint):
        return {"Place": [_plain(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, (set, tuple, list)):
        parts = sorted(value) if isinstance(value, set) else value
        return {type(value).__name__: [_plain(part) for part in parts]}
    raise TypeError(f"no way to write a {type(value).__name__}")


def _value(plain: Any) -> Any:
    """What ``_plain`` was given.

    Raises:
        ValueError, TypeError, KeyError: it is of other code.
    """
    if not isinstance(plain, dict):
        return plain
    [(kind, parts)] = plain.items()
    if kind in _CLASSES:
        made, keys = _CLASSES[kind][0](), _CLASSES[kind][1]
        names = {keys.get(name, name): name for name in vars(made)}
        if names.keys() != parts.keys():
            raise KeyError(f"{kind} has other attributes")
        vars(made).update({names[key]: _value(part) for key, part in parts.items()})
        return made
    if kind == "array":
        dtype, shape, values = parts
        return np.array(values, dtype=dtype).reshape(shape)
    if kind == "Samples":
        return Samples(*map(_value, parts))
    if kind == "Place":
        return TrackPoint(*map(_value, parts))
    if kind == "dict":
        return {_value(key): _value(part) for key, part in parts}
    return {"set": set, "tuple": tuple, "list": list}[kind](map(_value, parts))


__all__ = ["FALSE_ECHO", "Screener", "ScreeningResult", "ScreeningSettings"]

#: Why pings are refused that nothing confirms.
FALSE_ECHO = "false_echo"


@dataclass(frozen=True)
class ScreeningResult:
    """What became of the pings: those accepted, in the order of arrival, and those refused;
    ``held``: those that wait."""

    accepted: Samples
    refused: Samples
    held: Samples


class Screener:
    """Judges placed pings, batch after batch, and holds those that it doubts."""

    def __init__(self, settings: ScreeningSettings) -> None:
        self.settings = settings
        self.clear()

    @property
    def held(self) -> Samples:
        """What waits to be confirmed_by_other_passes, in the order of arrival."""
        return self._state.held

    def clear(self) -> None:
        """Forget the track and what is held."""
        self._state = ScreenerState()

    def dump_state(self) -> str:
        """What it goes by beside what is held, as text."""
        return dump_state(replace(self._state, held=Samples.empty()))

    def load_state(self, held: Samples, text: str) -> None:
        """Go on where another screen was, which held these pings and remembered this.

        Raises:
            InputError: the other's rules were not these.
        """
        self._state = replace(load_state(text), held=held)

    def screen(
        self, fresh: Samples, predict: Predict | None, final: bool = False
    ) -> ScreeningResult:
        """Judge new pings, and those held so far again.

        Args:
            fresh: placed pings with their ranges, in the order of arrival.
            predict: what the map expects; None where there is none yet. May raise; then nothing
                was judged.
            final: nothing comes after this: what nothing has confirmed is refused.
        """
        state = self._state
        screening = _ScreeningPass(self.settings, state, fresh, predict)
        screening.screen_new()
        screening.review(final)
        screening.save_state()
        accepted, refused = (
            screening.pings[np.flatnonzero(heap)]
            for heap in (screening.accepted, screening.refused)
        )
        return ScreeningResult(accepted, refused, state.held)
