"""Judges pings before each batch, updates the model with batches, and draws its maps."""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import CholeskyError, InputError, quantity
from ..core.geometry import Grid
from ..core.maps import ElevationMap, StopCondition, UpdateReport
from ..core.samples import Samples
from ..frontend.events import BatchLearned, LoopEvent, MapDrawn, PositionsShifted, Problem
from ..journal.folder import Checkpoint
from ..journal.tables import DROP, REINSTATE, UPDATE, WITHDRAW, JournalStep
from ..screening import ScreeningSettings
from ..screening.judge import NEWEST, Judge, LineVerdict, PingBlocks, ShiftWatch, line_verdicts
from ..screening.lines import JUMP, LEAST_STEP, STRIDE

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper
    from .recovery import Recovery

MAX_DURATIONS = 500
#: Fewer pings than this have no useful standard deviation to scale by.
MIN_FIRST_BATCH = 5
#: Tries of a batch that fails for another reason than numerics.
TRIES = 3


class Durations:
    """The newest durations, in s. Written on one thread, read on any."""

    def __init__(self) -> None:
        self._taken: deque[float] = deque(maxlen=MAX_DURATIONS)

    def add(self, seconds: float) -> None:
        """Add a duration in s."""
        self._taken.append(seconds)

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def last(self) -> float:
        """The last duration; NaN: none."""
        return self._taken[-1] if self._taken else float("nan")

    def quantile(self, share: float) -> float:
        """The smallest duration that this share of them does not exceed; NaN: none."""
        taken = list(self._taken) or [float("nan")]
        return float(np.quantile(taken, share, method="inverted_cdf"))


@dataclass
class UpdaterStatus:
    """What happened so far. Written on the model's thread, read on any."""

    updates: int = 0
    samples: int = 0
    predict_s: float = float("nan")
    map_stamp_ns: int | None = None
    report: UpdateReport | None = None
    failing: str = ""
    #: Of an update and its map, including publication.
    times: Durations = field(default_factory=Durations)
    finished: bool = False  # the mission's last batch was processed, and its events were taken
    errors: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    withdrawn: int = 0  # accepted pings that are withdrawn now


class Withdrawals:
    """The pings that are withdrawn, and those that were reinstated and are not in the model yet.

    Attributes:
        withdrawn: accepted pings that are false echoes by the judge's verdict.
        multiple: 2 or 3 if a withdrawn ping is a double or triple echo, else 0 [n].
    """

    def __init__(self) -> None:
        self.withdrawn = self._reinstated = Samples.empty()
        self.multiple = np.empty(0, dtype=np.int64)

    def apply(self, step: JournalStep, pings: Samples, model: Samples) -> None:
        """Withdraw or reinstate the pings of a step; ``model``: the pings in the model."""
        others = ~np.isin(self.withdrawn.number, pings.number)
        self.withdrawn, self.multiple = self.withdrawn[others], self.multiple[others]
        self._reinstated = without(self._reinstated, pings.number)
        if step.kind == WITHDRAW:
            self.withdrawn = Samples.joined([self.withdrawn, pings])
            self.multiple = np.r_[self.multiple, np.full(len(pings), step.steps)]
        else:
            missing = without(pings, model.number)
            self._reinstated = Samples.joined([self._reinstated, missing])

    def to_learn(self, batch: Samples) -> Samples:
        """What enters the model with a batch: reinstated pings, then those not withdrawn."""
        if not (len(self.withdrawn) or len(self._reinstated)):
            return batch
        others = np.concatenate((self.withdrawn.number, self._reinstated.number))
        return Samples.joined([self._reinstated, without(batch, others)])

    def learned(self) -> None:
        """The reinstated pings are in the model."""
        self._reinstated = Samples.empty()


def without(pings: Samples, numbers: np.ndarray) -> Samples:
    """The pings that have none of the numbers."""
    return pings[~np.isin(pings.number, numbers)]


class ModelUpdater:
    """Updates a model and draws its maps.

    Args:
        mapper: the model, in metres.
        grid: of the maps; None: none are drawn.

    Attributes:
        withdrawals: which accepted pings are not to be learned.
    """

    def __init__(self, mapper: BathymetricMapper, grid: Grid | None) -> None:
        self.mapper, self.grid = mapper, grid
        self._clear()

    def _clear(self) -> None:
        self.status, self.withdrawals = UpdaterStatus(), Withdrawals()
        self.map: ElevationMap | None = None
        self._learned: BatchLearned | None = None
        self._tries = 0
        self._changed = False  # pings were withdrawn since the last map
        self._began = float("nan")  # begin of the update that is not in a map yet

    def reset(self) -> None:
        """Clear model, data, map and status."""
        self.mapper.reset()
        self._clear()

    def learn(self, batch: Samples, budget: float = 0.0) -> tuple[LoopEvent | None, bool]:
        """Update the model with a batch, training for at most ``budget`` s (0: no limit); returns
        the event, and whether to retry the batch. None: all of its pings are withdrawn."""
        batch = self.withdrawals.to_learn(batch)
        if not len(batch):
            return None, True
        if not self.mapper.initialised and (
            len(batch) < MIN_FIRST_BATCH or not np.ptp(batch.z) > 0
        ):
            text = (
                f"first batch: {quantity(len(batch), 'ping')}, too few or too similar in elevation "
                f"to scale by (at least {MIN_FIRST_BATCH} are needed); waiting for more"
            )
            return Problem("first_batch", text, error=False), True
        self._began = perf_counter()
        end = self._began + budget
        enough: StopCondition | None = (lambda taken: perf_counter() >= end) if budget else None
        try:
            report = self.mapper.learn(batch, enough)
        except Exception as error:
            count = quantity(len(batch), "ping")
            if isinstance(error, CholeskyError):
                return self.failed(error, f"{count} will be retried with the next batch"), True
            self._tries += 1  # not by numerics: tried a few times, then dropped
            retry = self._tries < TRIES and not isinstance(error, InputError)
            outcome = f"{count} will be retried (try {self._tries} of {TRIES} failed)"
            if not retry:
                outcome, self._tries = f"{count} dropped", 0
                self.status.dropped[type(error).__name__] += len(batch)
            return self.failed(error, f"{outcome}\n{traceback.format_exc()}"), retry
        return self._updated(report), False

    def repeat(self, step: JournalStep, batch: Samples) -> LoopEvent | None:
        """Repeat a step of the journal, with its number of training steps.

        Raises:
            Exception: any error of the model; the updater is then as before the call.
        """
        if step.kind == UPDATE:
            batch = self.withdrawals.to_learn(batch)
            return self._updated(self.mapper.learn(batch, lambda taken: taken >= step.steps))
        if step.kind in (WITHDRAW, REINSTATE):
            self.change([(step, batch)])
        self._account(step)
        return None

    def change(self, changes: Sequence[tuple[JournalStep, Samples]]) -> None:
        """Withdraw or reinstate the pings of each step. Reinstated ones are learned with the next
        batch.

        Raises:
            Exception: any error of the model; the updater is then as before the call.
        """
        gone = [pings.number for step, pings in changes if step.kind == WITHDRAW]
        if gone and self.mapper.forgets:
            self.mapper.withdraw(np.concatenate(gone))
            self._changed = True
        for step, pings in changes:
            self.withdrawals.apply(step, pings, self.mapper.data)
        self.status.withdrawn = len(self.withdrawals.withdrawn)

    def recover(
        self,
        checkpoint: Checkpoint,
        data: Samples,
        withdrawals: Withdrawals,
        steps: Sequence[JournalStep],
    ) -> None:
        """Restore a model's state after these steps of the journal, with these pings in it.

        Raises:
            InputError: it is another model's state. Reset the updater then.
        """
        checkpoint.restore(self.mapper, data)
        self.status.samples = len(data)
        self.withdrawals, self.status.withdrawn = withdrawals, len(withdrawals.withdrawn)
        self.status.updates = sum(step.kind == UPDATE for step in steps)
        for step in steps:
            self._account(step)
        if len(data):
            targets = float(data.z.mean()), float(data.z.var())
            self._learned = BatchLearned(UpdateReport({}, samples=len(data)), targets)

    def _account(self, step: JournalStep) -> None:
        if step.kind == DROP:
            self.status.dropped["before the restart"] += step.last - step.first + 1

    def _updated(self, report: UpdateReport) -> BatchLearned:
        """A batch is in the model."""
        self._tries = 0
        self.withdrawals.learned()
        z, status = self.mapper.z, self.status
        status.report, status.failing = report, ""
        status.updates, status.samples = status.updates + 1, report.samples
        self._learned = BatchLearned(report, (float(z.mean()), float(z.var())))
        return self._learned

    def draw(self, stamp_ns: int) -> Iterator[LoopEvent]:
        """Predict the map if the model has changed since the last one.

        If pings were only withdrawn the map keeps its stamp: it has no newer ones.
        """
        latest = self.map
        if self.grid is None or not self.mapper.initialised:
            return
        if latest is not None and latest.samples == self.mapper.samples:
            if not self._changed:
                return
            stamp_ns = latest.stamp_ns
        try:
            start = perf_counter()
            drawn = self.mapper.map(self.grid, stamp_ns).with_pings(self.mapper.data.xy)
            self.status.predict_s = perf_counter() - start
        except Exception as error:
            yield self.failed(error, f"no map\n{traceback.format_exc()}")
            return
        yield MapDrawn(drawn, self._learned, self.status.predict_s)
        self.map, self.status.map_stamp_ns, self._changed = drawn, stamp_ns, False
        if self._began == self._began:  # not after a restart
            self.status.times.add(perf_counter() - self._began)  # the caller has published it
        self._began = float("nan")

    def failed(self, error: Exception, outcome: str) -> Problem:
        """Count a failure; returns its event."""
        kind = type(error).__name__
        self.status.failing = f"{kind}: {error}"
        self.status.errors[kind] += 1
        return Problem(kind, f"{kind}: {error}; {outcome}")


#: Pings after a jump, in a row, at which a model that cannot forget learns them.
CONFIRMED = 64


class BatchVerdicts:
    """Withdraws and reinstates pings, and finds shifts of positions, before each batch is learned.

    Args:
        updater: of the model, which follows the verdicts.
        settings: of the screening.

    Attributes:
        settings: as given.
        watch: the crossings so far, and the last shift of positions.
        withdrawn_lines: the newest withdrawn lines. They are found when verdicts change, and may be
            read on any thread.
    """

    def __init__(self, updater: ModelUpdater, settings: ScreeningSettings) -> None:
        self._updater, self.settings = updater, settings
        self.clear()

    def clear(self) -> None:
        """Forget all pings."""
        self._blocks = PingBlocks()
        self._judge = Judge(self._blocks)
        self.watch = ShiftWatch(self._blocks, self.settings.position_std)
        self.withdrawn_lines: list[LineVerdict] = []

    def recover(self, recovery: Recovery) -> None:
        """Continue after the pings that were in batches before a restart."""
        begin, steps = 0, recovery.steps
        if not (self.settings.enabled or any(step.kind == WITHDRAW for step in steps)):
            return
        self._blocks.add(recovery.data[: max((step.last + 1 for step in steps), default=0)])
        for step in steps:
            if step.kind in (UPDATE, DROP):
                begin = step.last + 1
                continue
            rows = np.arange(step.first, step.last + 1)
            multiple = 1 if step.kind == REINSTATE else step.steps
            self._judge.follow(rows, np.full(len(rows), multiple), begin)
        self.watch.decide(self._updater.withdrawals.withdrawn.number)
        self._find_withdrawn_lines()

    def _find_withdrawn_lines(self) -> None:
        withdrawn = self._updater.withdrawals.withdrawn
        order = np.argsort(withdrawn.number, kind="stable")
        multiple = self._updater.withdrawals.multiple[order]
        self.withdrawn_lines = self._lines(withdrawn[order], multiple)[: -NEWEST - 1 : -1]

    def _lines(self, pings: Samples, multiple: np.ndarray) -> list[LineVerdict]:
        data = self._blocks.data
        stride = STRIDE * float(np.ptp(data.xy, axis=0).max()) if len(data) else 0.0
        return line_verdicts(pings, multiple, stride)

    def decide(self, batch: Samples, stamp_ns: int) -> tuple[list[JournalStep], list[LoopEvent]]:
        """Withdraw and reinstate pings near a batch, and those of the batch; look for a shift.

        Returns:
            The steps taken, and what changed or was found in words, or what failed.
        """
        steps, events = list[JournalStep](), list[LoopEvent]()
        if not self.settings.enabled:
            return steps, events
        updater, blocks = self._updater, self._blocks
        known = int(blocks.data.number[-1]) if len(blocks.data) else -1  # some in an earlier try
        blocks.add(batch[np.flatnonzero(batch.number > known)])
        try:
            rows, multiple = self._judge.judge(len(batch))
            pings = blocks.data[rows]
            cuts = np.flatnonzero((np.diff(pings.number) != 1) | (np.diff(multiple) != 0)) + 1
            changes = []  # a step for each run of successive numbers with one verdict
            for part in np.split(np.arange(len(rows)), cuts) if len(rows) else ():
                first, last = pings.number[part[[0, -1]]].tolist()
                what = int(multiple[part[0]])
                kind, what = (REINSTATE, 0) if what == 1 else (WITHDRAW, what)
                changes.append((JournalStep(kind, first, last, what, stamp_ns), pings[part]))
            text = self._said(pings, multiple)  # by the pings in the model before
            updater.change(changes)
            self._judge.follow(rows, multiple, len(blocks.data) - len(batch))
            steps += [step for step, _ in changes]
            if text:
                events.append(Problem("crossings", text, error=False))
            shift = self.watch.decide(updater.withdrawals.withdrawn.number)
            if shift is not None:
                events.append(PositionsShifted(shift.sentence))
            if steps:
                self._find_withdrawn_lines()
        except Exception as error:
            events.append(updater.failed(error, "no more pings are withdrawn or reinstated"))
        return steps, events

    def unconfirmed(self, batch: Samples) -> int:
        """The pings at the end of a batch, after a jump, that a model that cannot forget shall not
        learn yet: more pings will show what they are."""
        if not self.settings.enabled or self._updater.mapper.forgets:
            return 0
        rows = np.flatnonzero(~np.isin(batch.number, self._updater.withdrawals.withdrawn.number))
        rows = rows[np.isfinite(batch.range[rows])]
        ranges = batch.range[rows]
        low = np.minimum(ranges[1:], ranges[:-1])
        jumps = rows[1:][np.abs(np.diff(ranges)) > JUMP * low + LEAST_STEP]
        later = len(batch) - int(jumps[-1]) if len(jumps) else 0
        return later if later < CONFIRMED else 0

    def _said(self, pings: Samples, multiple: np.ndarray) -> str:
        """Changes of whole lines in words; says so if the model cannot follow them."""
        mapper, texts = self._updater.mapper, []
        for verdict in self._lines(pings, multiple):
            inside = int(np.isin(verdict.pings.number, mapper.data.number).sum())
            stay = inside and not mapper.forgets and verdict.multiple != 1
            more = f" ({inside} stay in the map: this model cannot forget pings)" if stay else ""
            texts.append(verdict.sentence + more)
        return "; ".join(texts)
