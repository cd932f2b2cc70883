"""False echoes: which placed pings are believed, which are held until others confirm them.

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
from .track import STEPS, AcceptedTrack, TrackPoint, alike, confirmed, reach, smooth
from .viterbi import BottomPath, PredictedRanges, follow

Predict = Callable[[np.ndarray], Predicted]
"""Mean and variance of a ping at places [N, 2]."""

MULTIPLE = 0.06  # how near to a multiple, relatively, a range is taken for one
CONTRADICTED = 6.0  # deviations from the map beyond which a smooth multiple is not believed
ALONE = 3.0  # the same, of pings that come after no others
LONG = 5  # times ``confirm_pings``: a smooth multiple is believed before there is a map
LEVELS = 4  # runs at most that doubted pings may go on with
AHEAD = 11  # pings whose median the first one is held against
TAIL = 40  # held pings at most that are judged with those that follow


@dataclass
class ScreenerState:
    """What a judgement leaves to the next one.

    Attributes:
        held: what waits to be confirmed, in the order of arrival.
        runs, expected, ways: of each held ping its run, the range that was expected instead (NaN
            where there was none), and the way that the vehicle had made.
        open: the runs that may go on, and where each is.
        flanked: runs on whose both sides the ground was where it was expected.
        begun: runs so far.
    """

    held: Samples = field(default_factory=Samples.empty)
    runs: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    expected: np.ndarray = field(default_factory=lambda: np.empty(0))
    ways: np.ndarray = field(default_factory=lambda: np.empty(0))
    track: AcceptedTrack = field(default_factory=AcceptedTrack)
    open: dict[int, TrackPoint] = field(default_factory=dict)
    flanked: set[int] = field(default_factory=set)
    begun: int = 0


class _ScreeningPass:
    """One judgement; rows are those of ``pings``, the held ones first."""

    def __init__(
        self,
        settings: ScreeningSettings,
        memory: ScreenerState,
        fresh: Samples,
        predict: Predict | None,
    ) -> None:
        self.settings, self.memory, self.track = settings, memory, memory.track
        self.pings = Samples.joined([memory.held, fresh])
        self.range = self.pings.range
        count, before = len(self.pings), len(memory.held)
        self.mean: np.ndarray | None = None
        self.std: np.ndarray | None = None
        if predict is not None and count:
            predicted = predict(self.pings.xy)
            self.mean, self.std = predicted.mean, np.sqrt(predicted.variance)
        self.runs = np.concatenate([memory.runs, np.zeros(count - before, dtype=int)])
        self.expected = np.concatenate([memory.expected, np.full(count - before, np.nan)])
        self.ways = np.concatenate([memory.ways, np.zeros(count - before)])
        self.believed, self.refused = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.seen = before  # rows judged at least once
        tail = int((memory.ways > self.track.reached).sum())
        self.first = before - min(tail, TAIL)  # row of the course
        self.course = self._follow() if self.first < count else None

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(~(self.believed | self.refused)[: self.seen])

    def judge(self) -> None:
        """The new pings: each is believed, or part of a run of doubted ones."""
        before = self.seen
        for row in range(self.first, before):
            if self._linked(row):  # what came after explains it
                self._believe(np.array([row]))
        for row in range(before, len(self.pings)):
            self._judge(row)

    def _judge(self, row: int) -> None:
        place, memory, ratio = self._place(row), self.memory, self.settings.echo_ratio
        self.ways[row] = self.track.go(place)
        expected, room = self.track.expected(place), STEPS * self.track.scatter
        self.seen, goes_on = row + 1, []
        assert self.course is not None
        if self.course.ground[row - self.first]:
            goes_on = [
                run
                for run, last in memory.open.items()
                if last.beside(place) and alike(place.range, last.range, ratio, room)
            ]
            agrees = self._linked(row) or self.track.agrees(place, ratio)
            if agrees or self._vouched(row, place, expected):
                # Where the map knows the ground that a run goes on to, the run was ground as well.
                self._close([] if agrees else goes_on, agrees, before=row)
                self._believe(np.array([row]))
                return
        if not goes_on:
            memory.begun += 1
            if len(memory.open) == LEVELS:
                del memory.open[min(memory.open)]
        run = goes_on[-1] if goes_on else memory.begun
        self.runs[row], self.expected[row] = run, expected
        memory.open[run] = place

    def _follow(self) -> BottomPath:
        """The likeliest course from what is believed through the rows from ``first`` on."""
        rows, mapped = slice(self.first, None), None
        if self.mean is not None and self.std is not None:
            ranges = self.range[rows] + self.pings.z[rows] - self.mean[rows]
            mapped = PredictedRanges(ranges, self.std[rows] ** 2)
        xy, ratio = self.pings.xy[rows], self.settings.echo_ratio
        return follow(self.track.believed, xy, self.range[rows], mapped, ratio)

    def _linked(self, row: int) -> bool:
        """Whether the ground goes on to a ping from one that is believed."""
        assert self.course is not None
        i = row - self.first
        ground, origin, jumped = (column[i] for column in self.course)
        known = origin < 0 or self.believed[self.first + origin]
        return bool(ground and known and not jumped)

    def leave(self) -> None:
        """Remember what the next judgement needs."""
        memory, rows = self.memory, self.held
        memory.held, memory.runs = self.pings[rows], self.runs[rows]
        memory.expected, memory.ways = self.expected[rows], self.ways[rows]
        held = set(memory.runs.tolist())
        memory.open = {run: last for run, last in memory.open.items() if run in held}
        memory.flanked &= held

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

    def _vouched(self, row: int, place: TrackPoint, expected: float) -> bool:
        """Whether the map, or else the pings to come, expect what the track does not."""
        ratio = self.settings.echo_ratio
        if self.mean is None:
            if not np.isnan(expected):
                return False
            ahead = self.range[row : row + AHEAD]
            return alike(place.range, float(np.median(ahead)), ratio, 0.0)
        if np.isnan(expected):
            mapped = place.range + self.pings.z[row] - self.mean[row]
            fits = abs(self._score(row)) <= self.settings.echo_deviations
            return bool(fits) or alike(place.range, mapped, ratio, 0.0)
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
        room = self.track.room(self.range[rows])
        where = self.pings.xy[rows], self.pings.z[rows], self.ways[rows]
        return confirmed(*where, room, self.settings.confirm_radius)

    def _close(self, known: list[int], back: bool, before: int) -> None:
        """Runs have ended: they were ground, or too short ever to be confirmed."""
        for run in self.memory.open:
            rows = self._rows(run)
            rows = rows[rows < before]
            if not len(rows):
                continue
            if back and self.range[rows[0]] > self.expected[rows[0]]:
                self.memory.flanked.add(run)
            if run in known or self._is_ground(rows):
                self._believe(rows)
            elif len(rows) < self.settings.confirm_pings:
                self.refused[rows] = True
        self.memory.open.clear()

    def _rows(self, run: int) -> np.ndarray:
        held = self.held
        return held[self.runs[held] == run]

    def _is_ground(self, rows: np.ndarray) -> bool:
        """Whether a run of doubted pings goes on as ground does, for as long as an echo would not,
        and is no multiple of the depth."""
        ranges, expected = self.range[rows], float(self.expected[rows[0]])
        least, mapped = self.settings.confirm_pings, self.mean is not None
        if len(rows) < least or not smooth(ranges, self.track.scatter):
            return False
        ratio = float(np.median(ranges)) / expected
        if ratio < 1:  # no echo comes so early; and a shoal is not to be missed
            return True
        if self.runs[rows[0]] in self.memory.flanked:
            return False
        if self.ways[rows[-1]] - self.ways[rows[0]] < reach(expected):
            return False
        alone = bool(np.isnan(expected))  # nothing but the map speaks against it
        limit = ALONE if alone else CONTRADICTED
        if mapped and np.median(np.abs(self._score(rows))) <= limit:
            return True
        if alone:
            return not mapped
        times = round(ratio)
        if times < 2 or abs(ratio / times - 1) > MULTIPLE:
            return True
        return not mapped and len(rows) >= LONG * least

    def _believe(self, rows: np.ndarray) -> None:
        self.believed[rows] = True
        for row in rows:
            self.track.add(self._place(row), float(self.ways[row]))

    def _place(self, row: int) -> TrackPoint:
        x, y = self.pings.xy[row].tolist()
        return TrackPoint(x, y, float(self.range[row]))


#: Classes whose attributes are written, by their tag in the file.
_CLASSES = {"Memory": ScreenerState, "Track": AcceptedTrack}


def text_of(memory: ScreenerState) -> str:
    """The text, to the last bit of every number."""
    return json.dumps(_plain(memory))


def memory_of(text: str) -> ScreenerState:
    """What ``text_of`` was given.

    Raises:
        InputError: the text is of other rules than these.
    """
    try:
        memory = _value(json.loads(text))
        if not isinstance(memory, ScreenerState):
            raise TypeError("no memory")
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"what the screen remembered is of other rules ({error})") from None
    return memory


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is an object of one entry, named by its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for tag, kind in _CLASSES.items():
        if isinstance(value, kind):
            return {tag: {name: _plain(part) for name, part in vars(value).items()}}
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
        made = _CLASSES[kind]()
        if vars(made).keys() != parts.keys():
            raise KeyError(f"{kind} has other attributes")
        vars(made).update({name: _value(part) for name, part in parts.items()})
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
    """What became of the pings: those believed, in the order of arrival, and those refused;
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
        """What waits to be confirmed, in the order of arrival."""
        return self._memory.held

    def clear(self) -> None:
        """Forget the track and what is held."""
        self._memory = ScreenerState()

    def remembered(self) -> str:
        """What it goes by beside what is held, as text."""
        return text_of(replace(self._memory, held=Samples.empty()))

    def recall(self, held: Samples, text: str) -> None:
        """Go on where another screen was, which held these pings and remembered this.

        Raises:
            InputError: the other's rules were not these.
        """
        self._memory = replace(memory_of(text), held=held)

    def judge(
        self, fresh: Samples, predict: Predict | None, final: bool = False
    ) -> ScreeningResult:
        """Judge new pings, and those held so far again.

        Args:
            fresh: placed pings with their ranges, in the order of arrival.
            predict: what the map expects; None where there is none yet. May raise; then nothing
                was judged.
            final: nothing comes after this: what nothing has confirmed is refused.
        """
        memory = self._memory
        trial = _ScreeningPass(self.settings, memory, fresh, predict)
        trial.judge()
        trial.review(final)
        trial.leave()
        accepted, refused = (
            trial.pings[np.flatnonzero(heap)] for heap in (trial.believed, trial.refused)
        )
        return ScreeningResult(accepted, refused, memory.held)
