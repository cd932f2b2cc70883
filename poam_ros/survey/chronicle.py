"""What of a survey is kept, and taken up again after a restart: the model's side of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from ..clock import Moment
from .batching import Backlog
from .events import Note, Outcome, Trouble
from .keeping import Keeping, NothingKept
from .learner import Learner
from .logged import Step
from .resuming import Resumption


class Chronicle:
    """Hands on to ``keeping`` what belongs to the mission that is kept now.

    Attributes:
        keeping: accepted pings count, and are learned, once it has kept them.
        resumption: what is still to be repeated; None where nothing is.
        resetting: a reset was asked for that the model has not seen: what it does until then
            belongs to no mission any more. Changed under ``lock`` alone.
        lock: never held while the model works.
    """

    def __init__(self) -> None:
        self.keeping: Keeping = NothingKept()
        self.resumption: Resumption | None = None
        self.resetting = False
        self.lock = threading.Lock()

    def record(self, step: Step) -> None:
        """The model did something."""
        with self.lock:
            if not self.resetting:
                self.keeping.record(step)

    def keep_model(self, learner: Learner, now: Moment) -> Iterator[Outcome]:
        """Keep the model's state if it is time to."""
        with self.lock:
            mark = None if self.resetting else self.keeping.mark(now)
        if mark is not None and (text := self.keeping.checkpoint(mark, learner.mapper)):
            yield Trouble(Note("checkpoint", text))

    def take_up(self, learner: Learner, backlog: Backlog, now: Moment) -> Iterator[Outcome]:
        """Bring the model to where the log ends; the pings that wait there come first in line."""
        resumption = self.resumption
        assert resumption is not None
        for outcome in resumption.run(learner, now.ros_ns):
            yield outcome
            if self.resetting:
                return
        with self.lock:
            if not self.resetting:
                self.resumption = None
                backlog.put_back(resumption.rest, now.ros_ns, hold=False)
