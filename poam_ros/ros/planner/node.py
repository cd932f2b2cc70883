"""The planner node: pilot survey, waypoints from the map, and the mission state."""

from __future__ import annotations

import importlib
import math
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

from nav_msgs.msg import Odometry
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger

from ...core.errors import InputError, shown
from ...core.settings import instance
from ...frontend.odometry import JUMP
from ...mission.guidance import Guidance
from ..common import clouds, messages, qos
from ..common.executor import run_node, subscribe
from ..common.inputs import Inputs
from ..common.node import BaseNode
from ..common.parameters import PLANNER, RangeSettings
from ..common.transforms import FrameTransformer
from .goals import open_goals
from .topics import MissionTopics, planner_status

POLL_PERIOD_S = 1.0  # between two checks of limits and watchdog
REPORT_PERIOD_S = 1.0
ODOMETRY_TIMEOUT_S = 15.0  # without odometry, until it is reported
AUTOPILOT_TIMEOUT_S = 10.0  # without the autopilot's state, until it is reported
SERVICES = "start", "stop", "pause", "resume"


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
        self._frames = FrameTransformer(self, p.frame_id)
        self.on_exit.callback(self._frames.close)
        goals = open_goals(self, vars(p)["goals.action"], self._on_interrupted)
        self._topics = MissionTopics(self, self.guidance, goals)
        self._odometry_time = time.monotonic()  # time of the last usable odometry
        self._repeat_time = -math.inf  # time of the last repetition of a goal
        self._listen()
        for name in SERVICES:
            self.create_service(Trigger, f"~/{name}", partial(self._answer, name))
        self.create_timer(POLL_PERIOD_S, self._on_timer)
        self.create_timer(REPORT_PERIOD_S, self._report)
        self._announce()
        self.on_exit.callback(self._hold)

    def _listen(self) -> None:
        self._inputs = Inputs(self, instance(RangeSettings, vars(self.values)))
        ranges = self._inputs.ranges.kind
        subscribe(self, Odometry, "odom", self._on_odometry, qos.SENSOR_READ)
        subscribe(self, ranges, "sonar/range", self._on_ping, qos.SENSOR_READ)
        self.create_subscription(PointCloud2, "map/points", self._on_map, qos.LATCHED)
        self.create_subscription(UInt64, "map/samples", self._on_samples, qos.LATCHED)
        self._inputs.listen_to_level(self._on_level)
        self._autopilot_topic, self._autopilot_time = "", time.monotonic()
        with suppress(ImportError):  # only if MAVROS is installed
            if self.values.mavros:
                kind = importlib.import_module("mavros_msgs.msg").State
                topic = f"{self.values.mavros.rstrip('/')}/state"
                self.create_subscription(kind, topic, self._on_autopilot, qos.SENSOR_READ)
                self._autopilot_topic = self.resolve_topic_name(topic)
        self.create_subscription(String, "map/shift", self._on_shift, qos.GOAL)  # no old one

    def _hold(self) -> None:
        """Let the vehicle hold station: the node is about to end."""
        if self.mission.goal is not None:
            self._topics.hold()

    def changed(self, names: frozenset[str]) -> None:
        """Apply new limits; options of the planner are read at every choice."""
        self.guidance.change()
        self._announce()

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(self._inputs.odometry(message))
        if state is None:
            self.warnings.add("odometry_frame", self._frames.reason)
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

    def _on_ping(self, message: Any) -> None:
        self.guidance.ping(self._inputs.ping(message))
        self._announce()

    def _on_map(self, message: PointCloud2) -> None:
        frame, expected = messages.bare_frame(message.header.frame_id), self.values.frame_id
        if frame != expected:
            self.warnings.add("map_frame", f"map/points: expected {expected}, got '{shown(frame)}'")
            return
        try:
            drawn = clouds.read_map_cloud(message)
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
        self.guidance.save(time.monotonic())
        if self._topics.announce():
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
        self._announce()
        return response

    def _report(self) -> None:
        """Publish diagnostics, once a second and with every new state or reason."""
        silent = ""
        if time.monotonic() - self._odometry_time > ODOMETRY_TIMEOUT_S:
            clock = " and /clock (use_sim_time)" if self.now_ns == 0 else ""
            silent = f"no odometry: waiting for {self.resolve_topic_name('odom')}{clock}"
            self.warnings.remind("no_odometry", silent)
        unheard, text = time.monotonic() - self._autopilot_time > AUTOPILOT_TIMEOUT_S, ""
        if self._autopilot_topic and unheard:
            text = f"nobody publishes {self._autopilot_topic}: take-overs are not noticed"
            self.warnings.remind("no_autopilot", f"{text} (parameter mavros; '': do not listen)")
        self.report(*planner_status(self.guidance, self.warnings.counts, silent, text))


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, PlannerNode)


if __name__ == "__main__":
    sys.exit(main())
