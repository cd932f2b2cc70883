"""A mapper that learns nothing and fails when it is told to, and a session around it."""

from __future__ import annotations

import numpy as np

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.errors import CholeskyError
from poam_ros.core.geometry import Extent, map_grid
from poam_ros.core.maps import ElevationMap, Predicted, StopCondition, UpdateReport
from poam_ros.core.samples import Samples, TimedBatches
from poam_ros.frontend.front_end import FrontEndSettings, RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.learning.session import SurveySession

WORKSPACE = Extent(-30, 30, -30, 30)
DEPTH = 100.0


class Mapper:
    """Keeps samples; ``failures`` are raised by the next calls of ``learn``, one each."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.batches: list[int] = []
        self.enough: list[StopCondition | None] = []
        self.during = lambda: None
        self.extra_jitter = 0.0
        self.unpredictable = False
        self.reset()

    def reset(self) -> None:
        self.data = Samples.empty()

    @property
    def initialised(self) -> bool:
        return len(self.data) > 0

    @property
    def samples(self) -> int:
        return len(self.data)

    @property
    def z(self) -> np.ndarray:
        return self.data.z

    def learn(self, batch: Samples, enough: StopCondition | None = None) -> UpdateReport:
        self.batches.append(len(batch))
        self.enough.append(enough)
        self.during()
        if self.failures:
            raise self.failures.pop(0)
        self.data = Samples.joined([self.data, batch])
        return UpdateReport({}, samples=len(self.data), batch=len(batch))

    forgets = True

    def withdraw(self, numbers: np.ndarray) -> None:
        self.data = self.data[~np.isin(self.data.number, numbers)]

    def predict(self, xy) -> Predicted:
        if self.unpredictable:
            raise CholeskyError("no prediction")
        nearest = ((xy[:, None] - self.data.xy) ** 2).sum(-1).argmin(1)
        return Predicted(self.data.z[nearest], np.full(len(xy), 4.0))

    def map(self, grid, stamp_ns):
        flat = np.zeros(grid.shape)
        return ElevationMap(grid, flat, flat + 1, samples=len(self.data), stamp_ns=stamp_ns)


class Survey:
    """A session that is fed by hand: 10 Hz odometry, a ping with each, and a clock of its own."""

    def __init__(self, **options) -> None:
        self.mapper = Mapper()
        options.setdefault("policy", TimedBatches(batch_size=20, batch_period=3600.0))
        options.setdefault("grid", map_grid(WORKSPACE, 10.0))
        front_end = options.pop("front_end", FrontEndSettings(workspace=WORKSPACE))
        self.session = SurveySession(self.mapper, front_end, **options)
        self.now = Moment(0, 0.0)
        self.samples: list[Samples] = []
        self.notes: list[str] = []
        self.front_end.warn = lambda reason, text: self.notes.append(reason)

    @property
    def front_end(self):
        return self.session.front_end

    def wait(self, seconds: float) -> None:
        ns = self.now.ros_ns + round(seconds * SECOND)
        self.now = Moment(ns, self.now.steady_s + seconds)

    def odometry(self, state: VehicleState | None = None) -> None:
        t = self.now.ros_ns / SECOND
        circle = VehicleState(self.now.ros_ns, (20 * np.sin(t), 20 * np.cos(t), DEPTH))
        self.session.odometry(state or circle, self.now)

    def ping(self, distance: float | RawPing | None = None, stamp_ns: int | None = None) -> None:
        stamp = self.now.ros_ns if stamp_ns is None else stamp_ns
        if not isinstance(distance, RawPing):
            ground = 20 + 5 * np.sin(stamp / SECOND)
            measured = DEPTH - ground if distance is None else distance
            distance = RawPing(stamp, measured, 1.0, 1000.0)
        self.session.ping(distance, self.now)

    def tick(self) -> None:
        samples = self.session.tick(self.now)
        if len(samples):
            self.samples.append(samples)

    def mission(self, state: str) -> None:
        self.session.mission(state, self.now)

    def reset(self) -> None:
        self.session.reset(self.now.ros_ns)

    def drive(self, steps: int, distance: float | None = None) -> None:
        for _ in range(steps):
            self.wait(0.1)
            self.odometry()
            self.ping(distance)
            self.tick()

    def learn(self, steps: int, distance: float | None = None) -> list:
        """Drive, and do all that is due; returns what came of it."""
        self.drive(steps, distance)
        return self.work()

    def work(self) -> list:
        """Everything that is due, and what came of it."""
        outcomes = []
        while self.session.due(self.now):
            outcomes += self.session.work(self.now)
        return outcomes

    def kinds(self) -> list[str]:
        return [type(outcome).__name__ for outcome in self.work()]
