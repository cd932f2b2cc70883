"""The planner node: pilot survey, waypoints from the map, and the mission's state."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry, Path
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger

from ...clock import SECOND
from ...errors import InputError
from ...geometry import Extent, is_place
from ...maps import ElevationMap
from ...planning.pilots import PILOTS
from ...planning.planners import PLANNERS
from ...planning.views import GridView
from ...settings import instance
from ...survey.mission import DONE, PILOT, Mission
from .. import clouds, messages, qos
from ..parameters import PLANNER
from ..running import run_node, subscribe
from ..shell import NodeShell
from ..transforms import FrameChanger

GOAL_PERIOD = 1.0  # s of ROS time between two goals that are the same
REPORT_PERIOD = 1.0  # s of wall time
ODOMETRY_PATIENCE = 15.0  # s of wall time without odometry before this is said
ODOMETRY_REFUSALS = "odometry_frame", "odometry_not_finite"
MAP_REFUSALS = "map_frame", "map_unreadable", "map_unusable"


class PlannerNode(NodeShell):
    """Feeds a ``Mission`` with odometry, maps and counts, and publishes what it decides.

    A mission begins with ``configure``; an inactive planner hears nothing and sends nothing.

    Attributes:
        mission: what the node feeds.
        latest_map: by which waypoints are chosen; None before there is one.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **node_arguments: Any) -> None:
        super().__init__("planner", PLANNER, **node_arguments)

    def configure(self) -> None:
        """A mission that has not begun, and the publishers of what it decides."""
        super().configure()
        p, workspace = self.values, Extent.of(self.values.workspace)
        # The pilot's draws and the waypoints' do not disturb each other.
        pilot, waypoints = map(np.random.default_rng, np.random.SeedSequence(p.seed).spawn(2))
        self._rng = waypoints
        self.mission = Mission(
            PILOTS[p.pilot](workspace, pilot),
            workspace,
            arrival=self._arrival,
            max_samples=p.max_samples,
            max_duration=p.max_duration,
        )
        self.latest_map: ElevationMap | None = None
        self._frames = FrameChanger(self, p.frame_id)
        self.held.callback(self._frames.close)
        self._z = 0.0  # the vehicle's depth, which goals keep
        self._yaw = math.nan
        self._clipped = 0  # goals that this was said of
        self._published: tuple[str | None, np.ndarray | None] = (None, None)
        self._goals = self.create_publisher(PoseStamped, "goal_pose", qos.GOAL)
        self._plans = self.create_publisher(Path, "plan", qos.KEPT)
        self._states = self.create_publisher(String, "mission/state", qos.LATCHED)

    def activate(self) -> None:
        """Listen, answer, and say the state."""
        super().activate()
        self._heard = time.monotonic()  # the last odometry that was usable
        subscribe(self, Odometry, "odom", self._on_odometry, qos.SENSOR_READ)
        self.create_subscription(PointCloud2, "map/points", self._on_map, qos.LATCHED)
        self.create_subscription(UInt64, "map/samples", self._on_samples, qos.LATCHED)
        for name in ("pause", "resume"):
            self.create_service(Trigger, f"~/{name}", partial(self._answer, name))
        self.create_timer(GOAL_PERIOD, self._on_timer)
        self.create_timer(REPORT_PERIOD, self._report, clock=self.steady)
        self._announce()

    def changed(self, names: frozenset[str]) -> None:
        """Limits of the mission and of arrival; options of the planner are read at every choice."""
        mission, p = self.mission, self.values
        mission.arrival, mission.max_duration = self._arrival, p.max_duration
        mission.max_samples = p.max_samples
        mission.count_samples(mission.samples)
        self._announce()

    @property
    def _arrival(self) -> dict[str, float]:
        """What a ``GoalWatch`` judges arrival by."""
        names = ("goal_radius", "capture_radius", "max_speed")
        return {name: getattr(self.values, name) for name in names}

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(messages.read_odometry(message))
        if state is None:
            self.refusals.add("odometry_frame", self._frames.reason)
            return
        position = np.array(state.position[:2])
        if not (is_place(position) and math.isfinite(state.position[2])):
            self.refusals.add(
                "odometry_not_finite", f"odometry: expected numbers, got {state.position}"
            )
            return
        if self.now_ns == 0:
            return  # simulated time has not begun
        self._heard, self._z, self._yaw = time.monotonic(), state.position[2], state.yaw
        arrival = self.mission.locate(position, self.now_ns / SECOND, state.stamp_ns / SECOND)
        if arrival == "timeout":
            count = self.mission.arrivals["timeout"]
            self.get_logger().warning(f"a goal was not reached in time: given up ({count} so far)")
        self._announce()

    def _on_map(self, message: PointCloud2) -> None:
        frame, expected = messages.bare_frame(message.header.frame_id), self.values.frame_id
        if frame != expected:
            self.refusals.add("map_frame", f"map/points: expected {expected}, got {frame}")
            return
        try:
            self.latest_map = clouds.read_map_cloud(message)
        except InputError as error:
            self.refusals.add("map_unreadable", str(error))
            return
        self.mission.explore_with(self._choose)
        self._announce()

    def _on_samples(self, message: UInt64) -> None:
        self.mission.count_samples(message.data)
        self._announce()

    def _choose(self, position: np.ndarray) -> np.ndarray | None:
        """The next waypoints by the latest map; None, and a warning, where the map allows none."""
        latest, mission, planner = self.latest_map, self.mission, PLANNERS[self.values.planner]
        assert latest is not None
        view = GridView(latest, *mission.track.around(latest.stamp_ns / SECOND))
        situation = mission.situation(self._yaw, self.values.max_speed)
        try:
            options: Any = instance(planner.options, vars(self.values))
            return planner.path(view, situation, options, self._rng)
        except InputError as error:
            self.refusals.add("map_unusable", f"no waypoint from this map: {error}")
            return None

    def _on_timer(self) -> None:
        """Let the time limit act without odometry, and repeat the goal while it holds."""
        self.mission.tick(self.now_ns / SECOND)
        if not self._announce() and self.mission.goal is not None:
            self._send_goal()

    def _announce(self) -> bool:
        """Publish the state and the goal where they changed; whether a goal was sent."""
        if not self.active:
            return False
        mission, (state, goal) = self.mission, self._published
        self._published = mission.state, mission.goal
        if mission.state != state:
            self._announce_state(state)
        if mission.clipped > self._clipped:
            self._clipped = mission.clipped
            text = f"goals outside the workspace were moved into it: {self._clipped} so far"
            self.refusals.add("goal_clipped", text)
        if mission.goal is goal:
            return False
        frame, now_ns = self.values.frame_id, self.now_ns
        self._plans.publish(messages.write_path(mission.plan, now_ns, frame, self._z))
        if mission.goal is None:
            return False
        self._send_goal()
        return True

    def _announce_state(self, previous: str | None) -> None:
        mission = self.mission
        self._states.publish(String(data=mission.state))
        self.get_logger().info(
            f"{mission.state} at {mission.samples} samples"
            + (", waiting for the first map" if mission.waits_for_map else "")
        )
        if (previous, mission.state) == (PILOT, DONE):
            self.get_logger().warning(
                f"the mission ended inside its pilot survey: max_samples {mission.max_samples}"
                f" or max_duration {mission.max_duration:g} s left nothing to explore"
            )

    def _send_goal(self) -> None:
        goal, position = self.mission.goal, self.mission.position
        assert goal is not None and position is not None
        yaw = math.atan2(goal[1] - position[1], goal[0] - position[0])
        frame = self.values.frame_id
        self._goals.publish(messages.write_pose(goal.tolist(), self.now_ns, frame, self._z, yaw))

    def _answer(
        self, service: str, _: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Pause or resume."""
        response.success, response.message = getattr(self.mission, service)()
        self._announce()
        return response

    def _report(self) -> None:
        """Diagnostics, by wall time: the mission, the goals, and what was refused."""
        mission = self.mission
        silent = time.monotonic() - self._heard > ODOMETRY_PATIENCE
        if silent:
            sources = self.resolve_topic_name("odom")
            sources += " and for /clock" if self.now_ns == 0 else ""
            self.get_logger().warning(
                f"no odometry: waiting for it on {sources}", throttle_duration_sec=10.0
            )
        text = "waiting for the first map" if mission.waits_for_map else mission.state
        if silent:
            text = "no odometry"
        values = mission.facts()
        for reason in ODOMETRY_REFUSALS + MAP_REFUSALS:
            values[f"refused_{reason}"] = self.refusals.counts[reason]
        level = DiagnosticStatus.WARN if silent and mission.state != DONE else DiagnosticStatus.OK
        self.report(level, text, values)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit status."""
    return run_node(PlannerNode, args)


if __name__ == "__main__":
    sys.exit(main())
