"""The thread that owns the model: takes what waits, learns, draws the map. Imports no rclpy."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ..clock import SECOND
from ..errors import CholeskyError, InputError
from ..geometry import Grid
from ..mapping import BathymetricMapper
from ..maps import ElevationMap, UpdateReport

#: Fewer pings than this give no deviation worth scaling by.
LEAST_PILOT = 5
#: How often a batch is tried that fails for a reason that is no matter of numbers.
TRIES = 3
PAUSE_S = 0.5  # after an unforeseen failure, so that it is not repeated without end


class BatchRule(Protocol):
    """When a batch closes; the values may change at any time."""

    batch_size: int
    batch_period: float


@dataclass(frozen=True)
class Hooks:
    """What the worker calls, on its own thread, but for ``now_ns`` and ``may_start``.

    Attributes:
        now_ns: ROS time.
        may_start: (waiting pings) -> whether the first batch may be closed.
        publish: (snapshot, stamp_ns) -> None; the stamp is when the snapshot's batch closed.
        cleared: () -> None, after a reset.
        finish: (snapshot or None, xy [N, 2], z [N]) -> None, once the mission is done.
        log: anything with ``info``, ``warning`` and ``error`` as an rclpy logger has.
    """

    now_ns: Callable[[], int]
    may_start: Callable[[int], bool]
    publish: Callable[[ElevationMap, int], None]
    cleared: Callable[[], None]
    finish: Callable[[ElevationMap | None, np.ndarray, np.ndarray], None]
    log: Any


@dataclass
class Status:
    """What happened so far. Written by the worker, read by the diagnostics."""

    updates: int = 0
    samples: int = 0
    predict_s: float = 0.0
    publish_s: float = 0.0
    map_stamp_ns: int | None = None
    report: UpdateReport | None = None
    failing: str = ""
    finished: bool = False  # the last map of a mission is published and its results are kept
    errors: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class MapWorker:
    """Batches in, maps out. Every method but the thread's own returns at once.

    A batch closes at ``batch_size`` waiting pings, when the oldest of them has waited
    ``batch_period`` seconds of ROS time, or at the mission's end. All that waits goes into it, so
    that what came while the model was busy makes one batch.
    """

    def __init__(
        self, mapper: BathymetricMapper, grid: Grid, rule: BatchRule, hooks: Hooks
    ) -> None:
        self._mapper, self._grid, self._rule, self._hooks = mapper, grid, rule, hooks
        self.status = Status()
        self._changed = threading.Condition()
        self._waiting: list[np.ndarray] = []
        self._held = 0  # waiting pings that failed already, and wait for company
        self._oldest_ns: int | None = None
        self._tries = 0
        self._finishing = self._stopping = self._resetting = False
        self._snapshot: ElevationMap | None = None
        # A daemon, so that a model in the middle of an update never keeps the process alive.
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the model's thread runs."""
        return self._thread.is_alive()

    @property
    def extra_jitter(self) -> float:
        """As the mapper's."""
        return self._mapper.extra_jitter

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Pings that wait for the model."""
        return sum(map(len, self._waiting))

    @property
    def targets(self) -> np.ndarray:
        """Elevations of all samples in the model, [N]; for the worker's own thread."""
        return self._mapper.z

    def add(self, samples: np.ndarray) -> None:
        """Queue accepted pings x, y, z [N, 3]."""
        if len(samples):
            with self._changed:
                self._waiting.append(samples)
                if self._oldest_ns is None:
                    self._oldest_ns = self._hooks.now_ns()
                self._changed.notify()

    def wake(self) -> None:
        """Look at once whether a batch closes: what ``may_start`` says has changed."""
        with self._changed:
            self._changed.notify()

    def finish(self) -> None:
        """The mission is done: a last batch, a last map, then ``Hooks.finish``."""
        with self._changed:
            self._finishing, self.status.finished = True, False
            self._changed.notify()

    def reset(self) -> None:
        """Forget model, data and what waits, after the update that is under way."""
        with self._changed:
            self._resetting, self._finishing = True, False
            self._forget_waiting()
            self._changed.notify()

    def stop(self, timeout: float = 5.0) -> bool:
        """End the thread; whether it ended within the timeout (s)."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def remains(self) -> tuple[ElevationMap | None, np.ndarray, np.ndarray]:
        """What a stopped worker leaves: its latest map, or None, and all accepted pings in order.

        These are xy [N, 2] and z [N]: the model's samples, then what still waited for it.
        """
        waiting = np.concatenate([np.empty((0, 3)), *self._waiting])
        xy = np.concatenate((self._mapper.xy, waiting[:, :2]))
        return self._snapshot, xy, np.concatenate((self._mapper.z, waiting[:, 2]))

    def _forget_waiting(self) -> None:
        self._waiting, self._held, self._tries, self._oldest_ns = [], 0, 0, None

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception as error:  # whatever it is, the thread goes on, and says so
                if not self._stopping:
                    self._failed(error, f"{error}\n{traceback.format_exc()}")
                    time.sleep(PAUSE_S)

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        with self._changed:
            # The wait ends by itself because a batch also closes as ROS time passes.
            while not (self._stopping or self._resetting or self._due()):
                self._changed.wait(0.05)
            if self._stopping:
                return
            resetting, final = self._resetting, self._finishing
            self._resetting = self._finishing = False
            batch = np.concatenate(self._waiting) if self._waiting else np.empty((0, 3))
            self._waiting, self._oldest_ns = [], None
        if resetting:
            self._mapper.reset()
            self._snapshot, self.status = None, Status()
            self._hooks.cleared()
            # What was queued after the reset was asked for belongs to the new map.
            self._put_back(batch, hold=False)
        else:
            self._work(batch, final)

    def _due(self) -> bool:
        """Whether a batch closes now."""
        if self._finishing:
            return True
        count = self.backlog
        fresh = count - self._held
        if fresh <= 0 or (not self._mapper.initialised and not self._hooks.may_start(count)):
            return False
        now = self._hooks.now_ns()
        if self._oldest_ns is None or self._oldest_ns > now:  # the clock was set back
            self._oldest_ns = now
        age = (now - self._oldest_ns) / SECOND
        return fresh >= self._rule.batch_size or age >= self._rule.batch_period

    def _put_back(self, batch: np.ndarray, hold: bool = True) -> None:
        """Keep a batch for the next try, which waits for new pings if ``hold``."""
        with self._changed:
            if self._resetting or not len(batch):
                return
            self._waiting.insert(0, batch)
            self._held = len(batch) if hold else 0
            if not hold and self._oldest_ns is None:
                self._oldest_ns = self._hooks.now_ns()

    def _work(self, batch: np.ndarray, final: bool) -> None:
        stamp_ns = self._hooks.now_ns()
        learned = self._learn(batch) if len(batch) else False
        tries = 1
        while final and len(batch) and not learned and self.backlog and tries < TRIES:
            with self._changed:
                batch, self._waiting = np.concatenate(self._waiting), []
            learned, tries = self._learn(batch), tries + 1
        if self._stopping or self._resetting:
            return
        stale = self._snapshot is None or self._snapshot.samples != self._mapper.samples
        if self._mapper.initialised and (learned or stale):
            self._draw(stamp_ns)
        if final:
            self._conclude()

    def _learn(self, batch: np.ndarray) -> bool:
        """Update the model with a batch; whether the batch is in it now."""
        if not self._mapper.initialised and (
            len(batch) < LEAST_PILOT or not np.ptp(batch[:, 2]) > 0
        ):
            self._hooks.log.warning(
                f"first batch: {len(batch)} pings of elevations that do not differ enough to "
                f"scale by (at least {LEAST_PILOT} are needed); waiting for more",
                throttle_duration_sec=10.0,
            )
            self._put_back(batch)
            return False
        before = self._mapper.samples
        try:
            report = self._mapper.update(batch[:, :2], batch[:, 2])
        except CholeskyError as error:
            self._failed(error, f"{error}; its {len(batch)} pings are kept for the next batch")
            self._put_back(batch)
            return False
        except Exception as error:
            self._give_up_or_keep(error, batch, entered=self._mapper.samples > before)
            return False
        self._held = self._tries = 0
        status = self.status
        status.report, status.failing = report, ""
        status.updates, status.samples = status.updates + 1, report.samples
        return True

    def _give_up_or_keep(self, error: Exception, batch: np.ndarray, entered: bool) -> None:
        """An update failed for no reason of numbers: keep its batch, but not for ever."""
        self._tries += 1
        if entered:
            outcome = "its pings are in the map's data"
        elif self._tries < TRIES and not isinstance(error, InputError):
            outcome = f"its {len(batch)} pings are kept (try {self._tries} of {TRIES})"
            self._put_back(batch)
        else:
            outcome = f"its {len(batch)} pings are dropped"
            self.status.dropped[type(error).__name__] += len(batch)
            self._held = self._tries = 0
        self._failed(error, f"{error}; {outcome}\n{traceback.format_exc()}")

    def _draw(self, stamp_ns: int) -> None:
        """Predict the map and publish it."""
        try:
            start = perf_counter()
            snapshot = self._mapper.map(self._grid)
            predicted = perf_counter()
            self.status.predict_s = predicted - start
            self._hooks.publish(snapshot, stamp_ns)
        except Exception as error:
            if not self._stopping:  # publishing fails while the node is shut down
                self._failed(error, f"no map: {error}\n{traceback.format_exc()}")
            return
        self._snapshot = snapshot
        self.status.publish_s = perf_counter() - predicted
        self.status.map_stamp_ns = stamp_ns

    def _conclude(self) -> None:
        try:
            self._hooks.finish(self._snapshot, self._mapper.xy, self._mapper.z)
        except Exception as error:
            self._failed(error, f"results: {error}\n{traceback.format_exc()}")
        self.status.finished = True

    def _failed(self, error: Exception, text: str) -> None:
        self.status.failing = f"{type(error).__name__}: {error}"
        self.status.errors[type(error).__name__] += 1
        self._hooks.log.error(f"{type(error).__name__}: {text}", throttle_duration_sec=5.0)
