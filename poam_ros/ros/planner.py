"""The planner node: pilot survey, waypoints from the map, and the mission state."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry, Path
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from ..core.errors import InputError, shown
from ..frontend.events import DONE, OVER, PILOT
from ..frontend.odometry import JUMP, VehicleState
from ..frontend.pings import RawPing
from ..mission.guidance import Guidance
from ..mission.mission import OPERATOR
from . import messages
from .goals import open_goals
from .inputs import Inputs
from .node import GOAL, LATCHED, SENSOR_READ, BaseNode, run_node
from .parameters import PLANNER

POLL_PERIOD_S = 1.0  # between two checks of limits and watchdog
REPORT_PERIOD_S = 1.0
ODOMETRY_TIMEOUT_S = 15.0  # without odometry, until it is reported
AUTOPILOT_TIMEOUT_S = 10.0  # without the autopilot's state, until it is reported
OK, WARN = DiagnosticStatus.OK, DiagnosticStatus.WARN
SERVICES = "start", "stop", "pause", "resume"
#: Reasons of refused messages, as in the warnings.
REFUSALS = (
    "odometry_frame", "odometry_not_finite", "odometry_jump", "map_frame", "map_unreadable",
    "map_unusable",
)  # fmt: skip


class PlannerNode(BaseNode):
    """Feeds a ``Guidance`` with odometry, maps and counts of samples, and publishes its decisions.

    Attributes:
        guidance: the loop of the mission. ``mission``: the present mission.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **node_arguments: Any) -> None:
        super().__init__("planner", PLANNER, **node_arguments)

    def open(self) -> None:
        """Create the mission, or restore a stored one; publish its state, subscribe and serve."""
        super().open()
        p = self.values
        self.guidance = Guidance(vars(p), self.warnings.add, self.moment.ahead_s)
        self.ahead_s = self.guidance.ahead_s or self.ahead_s
        self.on_exit.callback(self.guidance.close)
        self.mission, self.autopilot = self.guidance.mission, self.guidance.autopilot
        if self.guidance.found:
            self.get_logger().warning(self.guidance.found)
        self._goals = open_goals(self, vars(p)["goals.action"], self._on_interrupted)
        self._open_topics()
        self._odometry_time = time.monotonic()  # time of the last usable odometry
        self._repeat_time = -math.inf  # time of the last repetition of a goal
        self._listen()
        for name in SERVICES:
            self.create_service(Trigger, f"~/{name}", partial(self._answer, name))
        self.create_timer(POLL_PERIOD_S, self._on_timer)
        self.create_timer(REPORT_PERIOD_S, self._report)
        self._announce()
        self.on_exit.callback(self._hold)

    def _open_topics(self) -> None:
        self._published: tuple[Any, ...] = (None,) * 5
        self._warned = {"clipped": 0, "unreachable": 0}  # number of goals with a warning
        self._plans = self.create_publisher(Path, "plan", LATCHED)
        self._states = self.create_publisher(String, "mission/state", LATCHED)
        self._takeovers = self.create_publisher(String, "mission/taken_over", LATCHED)
        self._taken_over = ""  # the last one published
        self._reasons = self.create_publisher(String, "mission/reason", LATCHED)
        self._areas = self.create_publisher(MarkerArray, "mission/areas", LATCHED)
        self._draw_areas()

    def _listen(self) -> None:
        self._inputs = Inputs(self, self._on_odometry, self._on_ping, self._on_level)
        self.create_subscription(PointCloud2, "map/points", self._on_map, LATCHED)
        self.create_subscription(UInt64, "map/samples", self._on_samples, LATCHED)
        self._autopilot_topic, self._autopilot_time = "", time.monotonic()
        with suppress(ImportError):  # only if MAVROS is installed
            if self.values.mavros:
                kind = importlib.import_module("mavros_msgs.msg").State
                topic = f"{self.values.mavros.rstrip('/')}/state"
                self.create_subscription(kind, topic, self._on_autopilot, SENSOR_READ)
                self._autopilot_topic = self.resolve_topic_name(topic)
        self.create_subscription(String, "map/shift", self._on_shift, GOAL)  # no old one
        self.create_subscription(String, "pings/fault", self._on_fault, LATCHED)

    def _hold(self) -> None:
        """Let the vehicle hold station: the node is about to end."""
        if self.mission.goal is not None and self.mission.position is not None:
            self._hold_at(self.mission.position)
            self._goals.settle()

    def changed(self, names: frozenset[str]) -> None:
        """Apply new limits; options of the planner are read at every choice."""
        self.guidance.change()
        self._announce()

    def _on_odometry(self, state: VehicleState | None, message: Odometry) -> None:
        if state is None:
            self.warnings.add("odometry_frame", self._inputs.frames.reason)
            return
        now = self.moment
        if now.ros_ns == 0:
            return  # simulated time has not begun
        if self.guidance.locate(state, messages.position_std(message), now) == JUMP:
            return
        self._odometry_time = now.steady_s
        self._announce()
        self._repeat(now.unadjusted_s)

    def _on_autopilot(self, message: Any) -> None:
        """A mavros_msgs/State."""
        self._autopilot_time = time.monotonic()
        self.autopilot.update(self.mission, message.mode, message.armed, message.connected)
        self._announce()

    def _on_interrupted(self, text: str) -> None:
        """Somebody else has given the vehicle a goal, or taken one from it."""
        self.autopilot.take_over(self.mission, text)
        self._announce()

    def _on_shift(self, message: String) -> None:
        """How crossings differ since some ping."""
        self.guidance.shift(message.data)
        self._announce()

    def _on_fault(self, message: String) -> None:
        """Why the mapper maps no ping."""
        self.guidance.mapped(message.data)

    def _on_ping(self, ping: RawPing) -> None:
        self.guidance.ping(ping)
        self._announce()

    def _on_map(self, message: PointCloud2) -> None:
        frame, expected = messages.bare_frame(message.header.frame_id), self.values.frame_id
        if frame != expected:
            self.warnings.add("map_frame", f"map/points: expected {expected}, got '{shown(frame)}'")
            return
        try:
            drawn = messages.read_map_cloud(message)
        except InputError as error:
            self.warnings.add("map_unreadable", str(error))
            return
        self.guidance.draw(drawn, self.moment)
        self._announce()

    def _on_samples(self, message: UInt64) -> None:
        self.guidance.count(message.data)
        self._announce()

    def _on_level(self, level: float) -> None:
        if fault := self.guidance.target.set_water_level(level):
            self.warnings.add("water_level", fault)

    def _on_timer(self) -> None:
        """Let limits and watchdogs act without odometry."""
        now = self.moment
        self.guidance.tick(now)
        self._announce()
        self._repeat(now.unadjusted_s)
        self._goals.poll()

    def _repeat(self, now_s: float) -> None:
        """Send the goal again every ``goal_period`` of ROS time.

        Called by odometry as well as by the timer, which is too slow in a fast simulation.
        """
        period = self.values.goal_period
        if period and now_s - self._repeat_time >= period:
            # At regular times, without catching up on missed ones.
            self._repeat_time = max(self._repeat_time + period, now_s - period / 2)
            if self.mission.goal is not None:
                self._send(self.mission.goal, self._goals.repeat)

    def _announce(self) -> None:
        self.guidance.save(time.monotonic())
        if self._publish_changes():
            self._report()
        if self.guidance.failing:
            self.warnings.remind("disk", self.guidance.failing)

    def _answer(
        self, service: str, _: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Start, stop, pause or resume."""
        if service == "start" and self.now_ns == 0:
            response.message = "no time yet: nothing is published on /clock"
            return response
        answer = self.guidance.command(service, self.moment.unadjusted_s)
        response.success, response.message = answer
        if service == "start" and response.success and self.guidance.fault is None:
            topic = self.resolve_topic_name("pings/fault")
            text = f"started without a mapper: nothing is published on {topic} yet"
            self.get_logger().warning(text)
        self._announce()
        return response

    def _report(self) -> None:
        """Publish diagnostics, once a second and with every new state or reason."""
        level, text = next(self._checks())
        values = self.mission.diagnostics() | self.guidance.target.diagnostics()
        values |= {f"refused_{reason}": self.warnings.counts[reason] for reason in REFUSALS}
        self.report(level, text, values | {"disk": self.guidance.failing or "ok"})

    def _checks(self) -> Iterator[tuple[bytes, str]]:
        """What is wrong, the worst first, and at last what the mission does."""
        mission, guidance, now_s, silent = self.mission, self.guidance, time.monotonic(), ""
        if now_s - self._odometry_time > ODOMETRY_TIMEOUT_S:
            clock = " and /clock (use_sim_time)" if self.now_ns == 0 else ""
            text = f"no odometry: waiting for {self.resolve_topic_name('odom')}{clock}"
            self.warnings.remind("no_odometry", text)
            silent = text
            if mission.state != DONE:
                yield WARN, text
        if fault := guidance.target.fault:
            see = "see water.level and docs/good-enough.md"
            yield WARN, f"the target cannot be met: {fault}; {see}"
        if self._autopilot_topic and now_s - self._autopilot_time > AUTOPILOT_TIMEOUT_S:
            text = f"nobody publishes {self._autopilot_topic}: take-overs are not noticed"
            self.warnings.remind("no_autopilot", f"{text} (parameter mavros; '': do not listen)")
            yield WARN, text
        unmapped = guidance.fault_text
        if mission.state == PILOT and not (mission.active or mission.ready):
            yield WARN, f"waiting for the first ping that can be mapped: {unmapped}"
        if unmapped and mission.active:
            self.warnings.remind("unmapped", unmapped)
            yield WARN, unmapped
        if guidance.failing:
            yield WARN, guidance.failing
        yield OK, silent or ("waiting for the first map" if mission.needs_goal else mission.state)

    def _publish_changes(self) -> bool:
        """Publish state, reason, plan and goal where new; the place to hold station once.

        Returns whether state or reason are new.
        """
        mission, (state, reason, goal, hold, drawn) = self.mission, self._published
        latest = self.guidance.map
        self._published = mission.state, mission.reason, mission.goal, mission.station, latest
        if mission.state != state or latest is not drawn:
            self._draw_areas()
        new = (mission.state, mission.reason) != (state, reason)
        taken_over = self.guidance.taken_over
        if taken_over:  # before the state, so that the pilot's pings are never refused as paused
            self._announce_taken_over(taken_over)
        if new:
            self._announce_state(state)
        self._announce_taken_over(taken_over)
        self._warn("clipped", "goals outside the navigable area were moved into it")
        self._warn("unreachable", "goals were given up because no route leads to them")
        if mission.goal is not goal:
            frame_id, z = self.values.frame_id, self.guidance.goal_z
            path = messages.write_path(mission.plan, self.now_ns, frame_id, z)
            self._plans.publish(path)
            if mission.goal is not None:
                self._send(mission.goal, self._goals.go)
        if mission.station is not hold and mission.station is not None:
            self._hold_at(mission.station)
        return new

    def _draw_areas(self) -> None:
        """Publish the borders at the water level, and on the map where that is land, and the state
        beside them."""
        level, drawn = self.guidance.target.present_level, self.guidance.map

        def heights(xy: np.ndarray) -> np.ndarray:
            flat = np.full(len(xy), level)
            return flat if drawn is None else np.fmax(flat, messages.surface(drawn)(xy))

        areas, state = self.mission.goals.routes.areas, self.mission.state
        where = self.now_ns, self.values.frame_id
        self._areas.publish(messages.write_areas(areas, heights, *where, state))

    def _announce_taken_over(self, state: str) -> None:
        if state != self._taken_over:
            self._taken_over = state
            self._takeovers.publish(String(data=state))

    def _announce_state(self, previous: str | None) -> None:
        mission, budget, log = self.mission, self.mission.budget, self.get_logger()
        self._reasons.publish(String(data=mission.reason))
        text = f"{mission.state} at {budget}: {mission.reason}"
        text += ", waiting for the first map" if mission.needs_goal else ""
        if not mission.causes <= {OPERATOR}:
            log.warning(text)
        else:
            log.info(text)
        if mission.state == previous:
            return
        self._states.publish(String(data=mission.state))
        if previous == PILOT and mission.state in OVER:
            log.warning(
                f"the mission ended during its pilot survey: max_samples {budget.max_samples}"
                f" or max_duration {budget.max_duration:g} s left nothing to explore"
            )

    def _warn(self, what: str, text: str) -> None:
        count = getattr(self.mission.goals, what)
        if count > self._warned[what]:
            self._warned[what] = count
            self.warnings.add(f"goal_{what}", f"{text}: {count} so far")

    def _send(self, goal: np.ndarray, how: Callable[[PoseStamped], None]) -> None:
        """Send a goal [2], with its own z and the yaw from the vehicle to it."""
        x, y = goal - self.mission.position
        how(self._pose(goal, self.guidance.goal_z, math.atan2(y, x)))

    def _hold_at(self, place: np.ndarray) -> None:
        """Hold station at a place [2], with the vehicle's present z and yaw."""
        yaw = 0.0 if math.isnan(self.guidance.yaw) else self.guidance.yaw
        self._goals.hold(self._pose(place, self.guidance.z, yaw))

    def _pose(self, place: np.ndarray, z: float, yaw: float) -> PoseStamped:
        return messages.write_pose(place.tolist(), self.now_ns, self.values.frame_id, z, yaw)


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, PlannerNode)


if __name__ == "__main__":
    sys.exit(main())
