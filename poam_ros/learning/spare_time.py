"""What is made of the time between updates: more training, in slices nobody has to wait for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from time import perf_counter

from ..core.clock import Moment
from ..frontend.events import Outcome, Trained
from ..journal.records import TRAIN, Step
from .learner import Learner

#: s, about as long as a batch that comes due may wait for a slice.
SLICE_S = 0.03
#: s between two maps that differ by training alone.
REDRAW_S = 5.0
#: s until the next try, after a failure.
PATIENCE_S = 10.0


class SpareTime:
    """Doles out training, so that it takes its share of the time (``Effort.training_duty``).

    Args:
        learner: whose model is trained.
        record: called with what it did.
    """

    def __init__(self, learner: Learner, record: Callable[[Step], object]) -> None:
        self._learner, self._record = learner, record
        self._steps = 1
        self._rests_until = self._redraws_at = -math.inf

    def rest(self, now: Moment) -> float:
        """How long until there is something to do, in s; infinite where nothing ever is."""
        learner = self._learner
        idle = not learner.mapper.initialised or learner.status.finished
        if idle or not learner.effort.training_duty:
            return math.inf
        return max(0.0, self._rests_until - now.steady_s)

    def train(self, steps: int) -> Outcome:
        """So many steps on the data that the model has."""
        outcome = self._learner.train(steps)
        if isinstance(outcome, Trained):
            self._record(Step(TRAIN, steps=outcome.report.steps))
        return outcome

    def use(self, now: Moment) -> Iterator[Outcome]:
        """A slice of training, and every few seconds the map."""
        start = perf_counter()
        outcome = self.train(self._steps)
        yield outcome
        if not isinstance(outcome, Trained):
            self._rests_until = now.steady_s + PATIENCE_S
            return
        # A power of two: it seldom changes, and slices alike are one line of a log.
        fit = SLICE_S * self._steps / max(perf_counter() - start, 1e-9)
        self._steps = 2 ** min(6, int(math.log2(max(fit, 1.0))))
        if now.steady_s >= self._redraws_at:
            self._redraws_at = now.steady_s + REDRAW_S
            yield from self._learner.draw(now.ros_ns)
        busy = perf_counter() - start
        self._rests_until = now.steady_s + busy / max(self._learner.effort.training_duty, 1e-9)
