"""Vehicles made of publishers: one that feeds a mapper pings, one that obeys a planner."""

from __future__ import annotations

import math
import threading
import time
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from driver_messages import write_odometry, write_range
from geometry_msgs.msg import PoseStamped
from heard import Listener, status_values
from kept import Crossed
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Range
from std_msgs.msg import String, UInt64

from poam_ros.core.clock import SECOND
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.ros.messages import read_report
from poam_ros.ros.node import GOAL, KEPT, LATCHED, SENSOR_PUBLISH

DEPTH = 100.0
#: Where a test is not about them: a busy machine keeps messages waiting.
PATIENT = {f"watchdog.{what}_timeout": 0.0 for what in ("odometry", "sonar", "map", "progress")}
QUIET = 1.5  # s of wall time after which nothing that was sent is still on its way


class Feeder(Listener):
    """Drives an endless curve of ``reach`` metres, 10 pings a second of stamped time.

    Attributes:
        reports: of every map.
        status: the mapper's newest diagnostics.
        sent, lost: pings; the transport is allowed to lose some, and a busy machine does.
    """

    def __init__(self, reach: float = 25.0, planner: bool = True):
        super().__init__("feeder")
        self._reach = reach
        self._odom = self.create_publisher(Odometry, "odom", SENSOR_PUBLISH)
        self._range = self.create_publisher(Range, "sonar/range", SENSOR_PUBLISH)
        self._state = self.create_publisher(String, "mission/state", LATCHED) if planner else None
        self.listen(String, "map/report", KEPT, read_report)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._keep_status, 10)
        self.status, self.sent, self.lost = {}, 0, 0
        self._rng, self._when = np.random.default_rng(0), time.monotonic()

    def connected(self):
        return self._odom.get_subscription_count() and self._range.get_subscription_count()

    def say(self, state):
        self._state.publish(String(data=state))

    @property
    def reports(self):
        return self.heard["map/report"]

    def _keep_status(self, message):
        self.status = status_values(message, "mapper") or self.status
        if self.status and time.monotonic() - self._when > QUIET:
            self.lost = self.sent - int(self.status["received"])

    @property
    def mapped(self):
        """Pings in the latest map."""
        reports = self.reports
        return reports[-1].samples if reports else 0

    def drive(self, count):
        """So many pings, each between two states."""
        if not self.sent:
            self.locate(1)  # ns; 0 would be no stamp
        for _ in range(count):
            self.sent += 1
            stamp = self.sent * SECOND // 10
            self.locate(stamp)
            self._range.publish(write_range(self._ping(stamp - SECOND // 20)))
            time.sleep(0.001)
        self._when = time.monotonic()

    def locate(self, stamp):
        """Where the vehicle is at a stamp."""
        self._odom.publish(write_odometry(VehicleState(stamp, (*self._place(stamp), DEPTH))))

    def _place(self, stamp):
        s = stamp / SECOND
        x, y = math.sin(0.0213 * s * 60 / self._reach), math.sin(0.01319 * s * 60 / self._reach)
        return self._reach * x, self._reach * y

    def _ping(self, stamp):
        x, y = self._place(stamp)
        ground = 20 + 8 * math.sin(x / 9) * math.cos(y / 7) + 3 * math.sin(x * y / 90)
        return RawPing(stamp, DEPTH - ground + self._rng.normal(0, 0.2), 1.0, 1000.0)


class Surveyor(Feeder):
    """Along the lines of ``Crossed``, whose second has double echoes."""

    def locate(self, stamp):
        self._odom.publish(write_odometry(VehicleState(stamp, (*self._place(stamp), 0.0))))

    def _at(self, stamp):
        return min(stamp * 10 // SECOND, len(Crossed.PLACES) - 1)

    def _place(self, stamp):
        return Crossed.PLACES[self._at(stamp)].tolist()

    def _ping(self, stamp):
        x, y = self._place(stamp)
        false = Crossed.LINES[self._at(stamp)] == Crossed.FALSE
        return RawPing(stamp, float(6 + np.sin(x / 9) + np.cos(y / 7)) * (1 + false), 0.1, 100.0)


planner_values = partial(status_values, name="planner")


class Guided(Listener):
    """A vehicle in ArduPilot's GUIDED mode: drives to the last goal it got, whatever comes after.

    Odometry at 20 Hz, pings at 10; ``odometry`` and ``sonar`` may be switched off. Their stamps are
    off by ``offset_s``.
    """

    SLOW = 0.005  # m/s: on its way, and nowhere within the time of a test
    PERIOD = 0.05  # s

    def __init__(self, place: tuple[float, float] = (9.0, -4.0), speed: float = 2.0) -> None:
        super().__init__("guided")
        self.place, self.speed = np.array(place), speed  # m, m/s
        self.target: np.ndarray | None = None
        self.trail: list[np.ndarray] = []
        self.told = 0  # how long the trail was at the last goal
        self.odometry = self.sonar = True
        self.std, self.offset_s, self.count = 0.0, 0.0, 0
        self._moving = threading.Lock()
        self.listen(String, "mission/state", KEPT)
        self.listen(String, "mission/reason", KEPT)
        self.listen(DiagnosticArray, "/diagnostics", 100, planner_values)
        self.create_subscription(PoseStamped, "goal_pose", self._on_goal, GOAL)
        self._odometry = self.create_publisher(Odometry, "odom", SENSOR_PUBLISH)
        self._pings = self.create_publisher(Range, "sonar/range", SENSOR_PUBLISH)
        self.samples = self.create_publisher(UInt64, "map/samples", LATCHED)
        self._faults = self.create_publisher(String, "pings/fault", LATCHED)
        self._faults.publish(String())  # for a mapper that can map
        self.create_timer(self.PERIOD, self._step)

    def _on_goal(self, message: PoseStamped) -> None:
        with self._moving:
            place = message.pose.position
            self.target, self.told = np.array((place.x, place.y)), len(self.trail)
        self.heard.keep("goal_pose", message)

    def jump(self, place: tuple[float, float], target: np.ndarray | None) -> None:
        """Move it to another place at once, with a target."""
        with self._moving:
            self.place, self.target = np.array(place), target

    def _step(self) -> None:
        self.count += 1
        with self._moving:
            if self.target is not None:
                way = self.target - self.place
                most = self.speed * self.PERIOD / max(np.linalg.norm(way), 1e-9)
                self.place = self.place + way * min(1.0, most)
        self.trail.append(self.place)
        stamp = self.get_clock().now().nanoseconds + round(self.offset_s * SECOND)
        if self.odometry:
            message = write_odometry(VehicleState(stamp, (*self.place.tolist(), 0.0)))
            message.pose.covariance[0] = message.pose.covariance[7] = self.std**2
            self._odometry.publish(message)
        if self.sonar and self.count % 2:
            self._pings.publish(write_range(RawPing(stamp, 5.0, 0.1, 50.0)))
