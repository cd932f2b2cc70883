"""Updates the model with batches, and draws its maps."""

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
from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples
from ..frontend.batching import DEFAULT_TRAINING, TrainingSettings
from ..frontend.events import BatchLearned, LoopEvent, MapDrawn, Message, Problem
from ..journal.folder import Checkpoint
from ..journal.tables import DROP, REINSTATE, UPDATE, WITHDRAW, JournalStep

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

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
        training: how long an update trains; may be replaced at any time.

    Attributes:
        withdrawals: which accepted pings are not to be learned.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        grid: Grid | None,
        training: TrainingSettings = DEFAULT_TRAINING,
    ) -> None:
        self.mapper, self.grid, self.training = mapper, grid, training
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

    def learn(self, batch: Samples) -> tuple[LoopEvent | None, bool]:
        """Update the model with a batch; returns the event, and whether to retry the batch. None:
        all of its pings are withdrawn."""
        batch = self.withdrawals.to_learn(batch)
        count = quantity(len(batch), "ping")
        if not len(batch):
            return None, True
        if not self.mapper.initialised and (
            len(batch) < MIN_FIRST_BATCH or not np.ptp(batch.z) > 0
        ):
            text = (
                f"first batch: {count}, too few or too similar in elevation "
                f"to scale by (at least {MIN_FIRST_BATCH} are needed); waiting for more"
            )
            return Problem(Message("first_batch", text), error=False), True
        self._began = perf_counter()
        try:
            report = self.mapper.learn(batch, self.training.stop_condition())
        except CholeskyError as error:
            return self.failed(error, f"{count} will be retried with the next batch"), True
        except Exception as error:  # not by numerics: tried a few times, then dropped
            self._tries += 1
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
        return Problem(Message(kind, f"{kind}: {error}; {outcome}"))
