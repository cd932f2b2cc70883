"""The model's side of a survey: a batch in, a map out, and what becomes of a batch that fails;
and what is made of the time between updates: more training, in slices nobody has to wait for."""

from __future__ import annotations

import math
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..core.clock import Moment
from ..core.errors import CholeskyError, InputError
from ..core.geometry import Grid
from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples
from ..frontend.batching import DEFAULT_TRAINING, TrainingSettings
from ..frontend.events import BatchLearned, LoopEvent, MapDrawn, Message, ModelTrained, Problem
from ..journal.checkpoint import Checkpoint
from ..journal.contents import DROP, TRAIN, UPDATE, JournalStep

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

MAX_DURATIONS = 500


class Durations:
    """Durations in s; a few numbers of them. Written on one thread, read on any."""

    def __init__(self) -> None:
        self._taken: deque[float] = deque(maxlen=MAX_DURATIONS)

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self._taken.append(seconds)

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def last(self) -> float:
        """The last one; NaN before there is one."""
        return self._taken[-1] if self._taken else float("nan")

    def quantile(self, share: float) -> float:
        """What this share of them does not exceed, without interpolation; NaN of none."""
        taken = list(self._taken)
        if not taken:
            return float("nan")
        return float(np.quantile(taken, share, method="inverted_cdf"))


#: Fewer pings than this give no deviation worth scaling by.
MIN_FIRST_BATCH = 5
#: How often a batch is tried that fails for a reason that is no matter of numbers.
TRIES = 3


@dataclass
class UpdaterStatus:
    """What happened so far. Written by whoever runs the model, read by anybody."""

    updates: int = 0
    samples: int = 0
    trained: int = 0  # steps between updates
    predict_s: float = float("nan")
    map_stamp_ns: int | None = None
    report: UpdateReport | None = None
    failing: str = ""
    times: Durations = field(
        default_factory=Durations
    )  # of an update and its map, publication included
    finished: bool = False  # the mission's last batch is dealt with, and what came of it is taken
    errors: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class ModelUpdater:
    """Feeds a model and draws its maps.

    Args:
        mapper: the model, in metres.
        grid: of the maps; None: none are drawn.
        training: how much an update trains; may be replaced at any time.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        grid: Grid | None,
        training: TrainingSettings = DEFAULT_TRAINING,
    ) -> None:
        self.mapper, self.grid, self.training = mapper, grid, training
        self.status = UpdaterStatus()
        self.map: ElevationMap | None = None
        self._learned: BatchLearned | None = None
        self._tries = 0
        self._retrained = False  # since the last map
        self._began = float("nan")  # of the update that is not in a map yet

    def reset(self) -> None:
        """Forget model, data and map."""
        self.mapper.reset()
        self.status, self.map, self._learned, self._tries = UpdaterStatus(), None, None, 0
        self._retrained = False

    def learn(self, batch: Samples) -> tuple[LoopEvent, bool]:
        """Update the model with a batch: what came of it, and whether the batch is to be kept."""
        if not self.mapper.initialised and (
            len(batch) < MIN_FIRST_BATCH or not np.ptp(batch.z) > 0
        ):
            text = (
                f"first batch: {len(batch)} pings of elevations that do not differ enough to "
                f"scale by (at least {MIN_FIRST_BATCH} are needed); waiting for more"
            )
            return Problem(Message("first_batch", text), error=False), True
        self._began = perf_counter()
        try:
            report = self.mapper.learn(batch, self.training.stop_condition())
        except CholeskyError as error:
            outcome = f"its {len(batch)} pings are kept for the next batch"
            return self.failed(error, outcome), True
        except Exception as error:
            return self._give_up_or_keep(error, batch)
        return self._took(report), False

    def repeat(self, step: JournalStep, batch: Samples) -> LoopEvent | None:
        """Do again what a log says, with as many training steps.

        Raises:
            Exception: whatever the model raises; the updater stands as before then.
        """
        if step.kind == UPDATE:
            return self._took(self.mapper.learn(batch, lambda taken: taken >= step.steps))
        if step.kind == TRAIN:
            for _ in range(step.times):
                self.mapper.train(step.steps)
        self._account(step)
        return None

    def recover(self, checkpoint: Checkpoint, data: Samples, steps: Sequence[JournalStep]) -> None:
        """Take up a model's state after these steps of a log, with these pings in it.

        Raises:
            InputError: it is another model's. The updater is to be reset then.
        """
        checkpoint.restore(self.mapper, data)
        self.status.samples = len(data)
        self.status.updates = sum(step.kind == UPDATE for step in steps)
        for step in steps:
            self._account(step)
        if len(data):
            targets = float(data.z.mean()), float(data.z.var())
            self._learned = BatchLearned(UpdateReport({}, samples=len(data)), targets)

    def _account(self, step: JournalStep) -> None:
        """Count a step of a log that was no update."""
        if step.kind == TRAIN:
            self.status.trained += step.steps * step.times
        elif step.kind == DROP:
            self.status.dropped["before the restart"] += step.last - step.first + 1

    def _took(self, report: UpdateReport) -> BatchLearned:
        """A batch is in the model."""
        self._tries = 0
        z, status = self.mapper.z, self.status
        status.report, status.failing = report, ""
        status.updates, status.samples = status.updates + 1, report.samples
        self._learned = BatchLearned(report, (float(z.mean()), float(z.var())))
        return self._learned

    def train(self, steps: int) -> LoopEvent:
        """Train on the data there are."""
        self._began = float("nan")
        try:
            report = self.mapper.train(steps)
        except Exception as error:
            return self.failed(error, "the map stays as it is")
        self.status.trained += report.steps
        self._retrained = self._retrained or report.steps > 0
        return ModelTrained(report)

    def draw(self, stamp_ns: int) -> Iterator[LoopEvent]:
        """Predict the map, where there is a model that has changed since the last one.

        Where training alone has changed it, its stamp stays: it holds no newer pings.
        """
        latest = self.map
        if self.grid is None or not self.mapper.initialised:
            return
        if latest is not None and latest.samples == self.mapper.samples:
            if not self._retrained:
                return
            stamp_ns = latest.stamp_ns
        try:
            start = perf_counter()
            drawn = self.mapper.map(self.grid, stamp_ns).with_pings(self.mapper.data.xy)
            self.status.predict_s = perf_counter() - start
        except Exception as error:
            yield self.failed(error, f"no map\n{traceback.format_exc()}")
            return
        self._retrained = False
        yield MapDrawn(drawn, self._learned, self.status.predict_s)
        self.map, self.status.map_stamp_ns = drawn, stamp_ns
        if self._began == self._began:  # of an update, not of training alone or a restart
            self.status.times.add(perf_counter() - self._began)  # whoever took it has published it
        self._began = float("nan")

    def failed(self, error: Exception, outcome: str) -> Problem:
        """Keep account of a failure, and say it."""
        kind = type(error).__name__
        self.status.failing = f"{kind}: {error}"
        self.status.errors[kind] += 1
        return Problem(Message(kind, f"{kind}: {error}; {outcome}"))

    def _give_up_or_keep(self, error: Exception, batch: Samples) -> tuple[LoopEvent, bool]:
        """An update failed for no reason of numbers: keep its batch, but not for ever."""
        self._tries += 1
        keep = self._tries < TRIES and not isinstance(error, InputError)
        if keep:
            outcome = f"its {len(batch)} pings are kept (try {self._tries} of {TRIES})"
        else:
            outcome = f"its {len(batch)} pings are dropped"
            self.status.dropped[type(error).__name__] += len(batch)
            self._tries = 0
        return self.failed(error, f"{outcome}\n{traceback.format_exc()}"), keep


#: s, about as long as a batch that comes due may wait for a slice.
SLICE_S = 0.03
#: s between two maps that differ by training alone.
REDRAW_S = 5.0
#: s until the next try, after a failure.
RETRY_S = 10.0


class IdleTraining:
    """Train between updates for a share of the time (``TrainingSettings.training_duty``).

    Args:
        updater: whose model is trained.
        record: called with what it did.
    """

    def __init__(self, updater: ModelUpdater, record: Callable[[JournalStep], object]) -> None:
        self._updater, self._record = updater, record
        self._steps = 1
        self._due_at = self._redraw_at = -math.inf

    def seconds_until_due(self, now: Moment) -> float:
        """How long until there is something to do, in s; infinite where nothing ever is."""
        updater = self._updater
        idle = not updater.mapper.initialised or updater.status.finished
        if idle or not updater.training.training_duty:
            return math.inf
        return max(0.0, self._due_at - now.steady_s)

    def train(self, steps: int) -> LoopEvent:
        """So many steps on the data that the model has."""
        outcome = self._updater.train(steps)
        if isinstance(outcome, ModelTrained):
            self._record(JournalStep(TRAIN, steps=outcome.report.steps))
        return outcome

    def train_slice(self, now: Moment) -> Iterator[LoopEvent]:
        """A slice of training, and every few seconds the map."""
        start = perf_counter()
        outcome = self.train(self._steps)
        yield outcome
        if not isinstance(outcome, ModelTrained):
            self._due_at = now.steady_s + RETRY_S
            return
        # A power of two: it seldom changes, and slices alike are one line of a log.
        fit = SLICE_S * self._steps / max(perf_counter() - start, 1e-9)
        self._steps = 2 ** min(6, int(math.log2(max(fit, 1.0))))
        if now.steady_s >= self._redraw_at:
            self._redraw_at = now.steady_s + REDRAW_S
            yield from self._updater.draw(now.ros_ns)
        busy = perf_counter() - start
        self._due_at = now.steady_s + busy / max(self._updater.training.training_duty, 1e-9)
