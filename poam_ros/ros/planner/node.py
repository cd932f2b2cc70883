"""The planner node: pilot survey, waypoints from the map, and the mission state."""

from __future__ import annotations

import importlib
import math
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.subscription import Subscription
from sensor_msgs.msg import PointCloud2, Range
from std_msgs.msg import Float64, UInt64
from std_srvs.srv import Trigger

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...core.geometry import Extent, is_place
from ...core.maps import ElevationMap
from ...core.settings import instance
from ...frontend.events import PAUSED
from ...frontend.odometry import JUMP, MOVED, JumpDetector
from ...mission.chooser import WaypointChooser
from ...mission.mission import Mission
from ...mission.store import MissionStore, MissionStoreSettings
from ...mission.target import MapTarget, TargetSettings
from ...mission.watchdog import MAP, SONAR, Autopilot, Watchdog, WatchdogSettings
from ...planning.areas import AreaSettings
from ...planning.clearance import ClearanceSettings
from ...planning.pilots import PILOTS
from ...planning.planners import PLANNERS
from ..common import clouds, messages, qos
from ..common.executor import run_node, subscribe
from ..common.node import ManagedNode
from ..common.parameters import PLANNER
from ..common.transforms import FrameTransformer
from .goals import open_goals
from .topics import MissionTopics, planner_status

POLL_PERIOD_S = 1.0  # between two checks of limits and watchdog
REPORT_PERIOD_S = 1.0
ODOMETRY_TIMEOUT_S = 15.0  # without odometry, until it is reported
SERVICES = "start", "stop", "pause", "resume"


class PlannerNode(ManagedNode):
    """Feeds a ``Mission`` with odometry, maps and counts of samples, and publishes its decisions.

    ``configure`` creates the mission. An inactive planner receives and sends nothing.

    Attributes:
        mission: the present mission.
        target: its map target.
        latest_map: for the choice of waypoints; None before the first map.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **node_arguments: Any) -> None:
        super().__init__("planner", PLANNER, **node_arguments)

    def configure(self) -> None:
        """Create the mission, or restore a stored one, and the publishers."""
        super().configure()
        p, workspace = self.values, Extent.of(self.values.workspace)
        areas = instance(AreaSettings, vars(p)).open(workspace)
        # Separate random generators for pilot survey and waypoints.
        pilot, waypoints = map(np.random.default_rng, np.random.SeedSequence(p.seed).spawn(2))
        self.mission = Mission(
            PILOTS[p.pilot](workspace, pilot),
            workspace,
            areas=areas,
            clearance=instance(ClearanceSettings, vars(p)),
            arrival=self._arrival,
            max_samples=p.max_samples,
            max_duration=p.max_duration,
            autostart=p.autostart,
            on_done=p.on_done,
        )
        self._store = MissionStore(instance(MissionStoreSettings, vars(p)), waypoints)
        self.on_exit.callback(self._store.close)
        if found := self._store.restore(self.mission):
            self.get_logger().warning(found)
        self.watchdog = Watchdog(instance(WatchdogSettings, vars(p)), areas)
        self.autopilot, self._jumps = Autopilot(), JumpDetector()
        self.target = MapTarget(instance(TargetSettings, vars(p)), self.mission.state)
        self._chooser = WaypointChooser(self.mission, self.target, p.planner, waypoints)
        self.latest_map: ElevationMap | None = None
        self._frames = FrameTransformer(self, p.frame_id)
        self.on_exit.callback(self._frames.close)
        self._topics = MissionTopics(self, self.mission, open_goals(self, p.goal_action))

    def activate(self) -> None:
        """Subscribe, offer the services, and publish the state."""
        super().activate()
        self._odometry_time = time.monotonic()  # time of the last usable odometry
        self._repeat_time = -math.inf  # time of the last repetition of a goal
        self._sonar: Subscription | None = None
        subscribe(self, Odometry, "odom", self._on_odometry, qos.SENSOR_READ)
        self.create_subscription(PointCloud2, "map/points", self._on_map, qos.LATCHED)
        self.create_subscription(UInt64, "map/samples", self._on_samples, qos.LATCHED)
        self.create_subscription(Float64, "water_level", self._on_level, qos.SENSOR_READ)
        with suppress(ImportError):  # only if MAVROS is installed
            kind = importlib.import_module("mavros_msgs.msg").State
            self.create_subscription(kind, "mavros/state", self._on_autopilot, qos.SENSOR_READ)
        for name in SERVICES:
            self.create_service(Trigger, f"~/{name}", partial(self._answer, name))
        self.create_timer(POLL_PERIOD_S, self._on_timer)
        self.create_timer(REPORT_PERIOD_S, self._report)
        self._announce()

    def deactivate(self) -> None:
        """Let the vehicle hold station, and stop."""
        if self.active and self.mission.goal is not None:
            self._topics.hold()
        super().deactivate()

    def changed(self, names: frozenset[str]) -> None:
        """Apply new limits; options of the planner are read at every choice."""
        p = self.values
        self.mission.change(self._arrival, p.max_samples, p.max_duration)
        self.watchdog.change(instance(WatchdogSettings, vars(p)))
        self.target.change(instance(TargetSettings, vars(p)))
        self._announce()

    @property
    def _arrival(self) -> dict[str, float]:
        """The settings of an ``ArrivalDetector``."""
        names = ("goal_radius", "capture_radius", "max_speed")
        return {name: getattr(self.values, name) for name in names}

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(messages.read_odometry(message))
        if state is None:
            self.warnings.add("odometry_frame", self._frames.reason)
            return
        position = np.array(state.position[:2])
        if not (is_place(position) and math.isfinite(state.position[2])):
            self.warnings.add(
                "odometry_not_finite", f"odometry: expected numbers, got {state.position}"
            )
            return
        if self.now_ns == 0:
            return  # simulated time has not begun
        fault = self._jumps.check(state, self.values.max_speed, self.watchdog.settings.max_jump)
        if fault == JUMP:
            text = f"odometry: a position {self._jumps.distance:.1f} m from the last one is ignored"
            self.warnings.add("odometry_jump", text)
            return
        self._odometry_time = time.monotonic()
        if self._sonar is None:  # not before: a simulator waits until the mapper is subscribed
            self._sonar = subscribe(self, Range, "sonar/range", self._on_ping, qos.SENSOR_READ)
        self._topics.set_vehicle(state.position[2], state.yaw)
        if fault == MOVED:
            text = f"odometry jumped by {self._jumps.distance:.1f} m and stays there"
            self.get_logger().warning(text)
            self.watchdog.position_jumped(self.mission, position, self._jumps.distance)
        now_s = self.moment.limit_s
        arrival = self.mission.update_position(position, now_s, state.stamp_ns / SECOND)
        if arrival == "timeout":
            count = self.mission.goals.results["timeout"]
            self.get_logger().warning(
                f"a goal was given up, as it was not reached in time ({count} so far)"
            )
        self.watchdog.position_received(self.mission, messages.position_std(message))
        self._announce()
        self._repeat(now_s)

    def _on_autopilot(self, message: Any) -> None:
        """A mavros_msgs/State."""
        self.autopilot.update(self.mission, message.mode, message.armed, message.connected)
        self._announce()

    def _on_ping(self, message: Range) -> None:
        self.watchdog.received(SONAR)
        self.mission.sounded(messages.read_range(message))
        self._announce()

    def _on_map(self, message: PointCloud2) -> None:
        frame, expected = messages.bare_frame(message.header.frame_id), self.values.frame_id
        if frame != expected:
            self.warnings.add("map_frame", f"map/points: expected {expected}, got '{shown(frame)}'")
            return
        try:
            self.latest_map = clouds.read_map_cloud(message)
        except InputError as error:
            self.warnings.add("map_unreadable", str(error))
            return
        self.watchdog.received(MAP)
        self.mission.learn(self.latest_map)
        self.target.assess(self.mission, self.latest_map, self.moment.limit_s)
        self.mission.set_planner(self._next_waypoints)
        self._announce()

    def _on_samples(self, message: UInt64) -> None:
        if message.data < self.mission.budget.samples:  # the mapper was reset: the map is gone
            self.latest_map = None
            self.target.forget()
            self.mission.set_planner(None)
        if self.mission.state == PAUSED:  # otherwise only a map shows that the mapper works
            self.watchdog.received(MAP)
        self.mission.count_samples(message.data)
        self._announce()

    def _on_level(self, message: Float64) -> None:
        if fault := self.target.set_water_level(message.data):
            self.warnings.add("water_level", fault)

    def _next_waypoints(self, position: np.ndarray) -> np.ndarray | None:
        """The next waypoints from the latest map; None, with a warning, if it allows none."""
        values, now_s = self.values, self.moment.limit_s
        latest, yaw = self.latest_map, self._topics.yaw
        try:
            options: Any = instance(PLANNERS[values.planner].options, vars(values))
            return self._chooser.path(latest, now_s, yaw, values.max_speed, options)
        except InputError as error:
            self.warnings.add("map_unusable", f"no waypoint from this map: {error}")
            return None

    def _on_timer(self) -> None:
        """Let limits and watchdogs act without odometry."""
        now = self.moment
        self.mission.tick(now.limit_s)
        self.target.tick(self.mission, now.limit_s)
        self.watchdog.check(self.mission, now.steady_s, now.limit_s)
        self._announce()
        self._repeat(now.limit_s)
        self._topics.goals.poll()

    def _repeat(self, now_s: float) -> None:
        """Send the goal again every ``goal_period`` of ROS time.

        Called by odometry as well as by the timer, which is too slow in a fast simulation.
        """
        period = self.values.goal_period
        if period and now_s - self._repeat_time >= period:
            # At regular times, without catching up on missed ones.
            self._repeat_time = max(self._repeat_time + period, now_s - period / 2)
            self._topics.repeat()

    def _announce(self) -> None:
        self.target.update_reason(self.mission)
        if self.active:
            self._store.save(self.mission, time.monotonic())
            if self._topics.announce():
                self._report()
            if self._store.failing:
                self.warnings.add("disk", self._store.failing)

    def _answer(
        self, service: str, _: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Start, stop, pause or resume."""
        if service == "start" and self.now_ns == 0:
            response.message = "no time yet: nothing is published on /clock"
            return response
        given = (self.moment.limit_s,) if service == "start" else ()
        response.success, response.message = getattr(self.mission, service)(*given)
        if response.success and service in ("start", "resume"):
            self.autopilot.agree()
        self._announce()
        return response

    def _report(self) -> None:
        """Publish diagnostics, once a second and with every new state or reason."""
        silent = time.monotonic() - self._odometry_time > ODOMETRY_TIMEOUT_S
        if silent:
            text = f"no odometry: waiting for {self.resolve_topic_name('odom')}"
            if self.now_ns == 0:
                text += " and /clock"
            self.get_logger().warning(text, throttle_duration_sec=10.0)
        failing, counts = self._store.failing, self.warnings.counts
        self.report(*planner_status(self.mission, self.target, counts, silent, failing))


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, PlannerNode)


if __name__ == "__main__":
    sys.exit(main())
