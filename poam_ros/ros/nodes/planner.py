"""The planner node: pilot survey, waypoints from the map, and the mission's state."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry, Path
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger

from ...clock import SECOND
from ...errors import InputError
from ...geometry import Extent
from ...maps import ElevationMap
from ...planning.pilots import PILOTS
from ...planning.planners import PLANNERS, discount_visited
from ...survey.mission import DONE, EXPLORING, PILOT, Mission
from ...survey.refusals import Refusals
from .. import clouds, messages, qos
from ..parameters import PLANNER, declare
from ..running import run_node, subscribe
from ..transforms import FrameChanger

GOAL_PERIOD = 1.0  # s of ROS time between two goals that are the same
REPORT_PERIOD = 1.0  # s of wall time
ODOMETRY_PATIENCE = 15.0  # s of wall time without odometry before this is said
TRACK_SPACING = 0.25  # m between two remembered places of the vehicle
TRACK_LENGTH = 2000  # of them at most


class PlannerNode(Node):
    """Feeds a ``Mission`` with odometry, maps and counts, and publishes what it decides.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **node_arguments: Any) -> None:
        super().__init__("planner", **node_arguments)
        self._p = declare(self, PLANNER, self._changed)
        p, self._workspace = self._p, Extent.of(self._p.workspace)
        # The pilot's draws and the waypoints' do not disturb each other.
        pilot, waypoints = np.random.SeedSequence(p.seed).spawn(2)
        self._rng = np.random.default_rng(waypoints)
        self._mission = Mission(
            PILOTS[p.pilot](self._workspace, np.random.default_rng(pilot)),
            self._workspace,
            arrival=self._arrival,
            max_samples=p.max_samples,
            max_duration=p.max_duration,
        )
        self._map: ElevationMap | None = None
        # Where the vehicle was (stamp in ns, x, y) since the latest map
        self._track: deque[tuple[int, float, float]] = deque(maxlen=TRACK_LENGTH)
        self._frames = FrameChanger(self, p.frame_id)
        self._z = 0.0  # the vehicle's depth, which goals keep
        self._heard = time.monotonic()  # the last odometry that was usable
        self._refusals = Refusals(self.get_logger().warning)
        self._published: tuple[str | None, np.ndarray | None] = (None, None)
        self._open()

    def _open(self) -> None:
        """Create publishers, subscriptions, services and timers; publish the first state."""
        self._goals = self.create_publisher(PoseStamped, "goal_pose", qos.GOAL)
        self._plans = self.create_publisher(Path, "plan", qos.KEPT)
        self._states = self.create_publisher(String, "mission/state", qos.LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        subscribe(self, Odometry, "odom", self._on_odometry, qos.SENSOR_READ)
        self.create_subscription(PointCloud2, "map/points", self._on_map, qos.LATCHED)
        self.create_subscription(UInt64, "map/samples", self._on_samples, qos.LATCHED)
        self.create_service(Trigger, "~/pause", self._on_pause)
        self.create_service(Trigger, "~/resume", self._on_resume)
        self.create_timer(GOAL_PERIOD, self._on_timer)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(REPORT_PERIOD, self._report, clock=steady)
        self._announce()

    @property
    def _arrival(self) -> dict[str, float]:
        """What a ``GoalWatch`` judges arrival by."""
        names = ("goal_radius", "capture_radius", "max_speed")
        return {name: getattr(self._p, name) for name in names}

    @property
    def _now_ns(self) -> int:
        return self.get_clock().now().nanoseconds

    @property
    def _now(self) -> float:
        return self._now_ns / SECOND

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(messages.read_odometry(message))
        if state is None:
            self._refusals.add("odometry_frame", self._frames.reason)
            return
        if not all(math.isfinite(value) for value in state.position):
            self._refusals.add(
                "odometry_not_finite", f"odometry: expected numbers, got {state.position}"
            )
            return
        if self._now_ns == 0:
            return  # simulated time has not begun
        self._heard, self._z = time.monotonic(), state.position[2]
        position, measured = np.array(state.position[:2]), state.stamp_ns / SECOND
        self._remember(state.stamp_ns, position)
        if self._mission.locate(position, self._now, measured) == "timeout":
            count = self._mission.arrivals["timeout"]
            self.get_logger().warning(f"a goal was not reached in time: given up ({count} so far)")
        self._announce()

    def _remember(self, stamp_ns: int, position: np.ndarray) -> None:
        """Keep the track that the next map will know of."""
        if self._track and math.dist(position, self._track[-1][1:]) < TRACK_SPACING:
            return
        self._track.append((stamp_ns, float(position[0]), float(position[1])))

    def _on_map(self, message: PointCloud2) -> None:
        frame = messages.bare_frame(message.header.frame_id)
        if frame != self._p.frame_id:
            self._refusals.add("map_frame", f"map/points: expected {self._p.frame_id}, got {frame}")
            return
        try:
            self._map = clouds.read_map_cloud(message)
            while self._track and self._track[0][0] <= self._map.stamp_ns:
                self._track.popleft()
        except InputError as error:
            self._refusals.add("map_unreadable", str(error))
            return
        self._mission.explore_with(self._choose)
        self._announce()

    def _on_samples(self, message: UInt64) -> None:
        self._mission.count_samples(message.data)
        self._announce()

    def _choose(self, position: np.ndarray) -> np.ndarray | None:
        """The next waypoint by the latest map; None, and a warning, where the map allows none."""
        latest, p = self._map, self._p
        assert latest is not None
        track = np.array([place[1:] for place in self._track])

        def predict_variance(xy: np.ndarray) -> np.ndarray:
            layers = (latest.variance, latest.lengthscale)
            variance, lengthscale = (latest.grid.interpolate(layer, xy) for layer in layers)
            return discount_visited(variance, xy, lengthscale, track)

        try:
            return PLANNERS[p.planner](
                predict_variance,
                self._workspace,
                position,
                self._rng,
                candidates=p.candidates,
                distance_weight=p.distance_weight,
            )
        except InputError as error:
            self._refusals.add("map_unusable", f"no waypoint from this map: {error}")
            return None

    def _on_timer(self) -> None:
        """Let the time limit act without odometry, and repeat the goal while it holds."""
        self._mission.tick(self._now)
        if not self._announce() and self._mission.goal is not None:
            self._send_goal()

    def _announce(self) -> bool:
        """Publish the state and the goal where they changed; whether a goal was sent."""
        mission, (state, goal) = self._mission, self._published
        self._published = mission.state, mission.goal
        if mission.state != state:
            self._states.publish(String(data=mission.state))
            self.get_logger().info(
                f"{mission.state} at {mission.samples} samples"
                + (", waiting for the first map" if self._waits_for_map else "")
            )
            if (state, mission.state) == (PILOT, DONE):
                self.get_logger().warning(
                    f"the mission ended inside its pilot survey: max_samples {mission.max_samples}"
                    f" or max_duration {mission.max_duration:g} s left nothing to explore"
                )
        if mission.goal is goal:
            return False
        self._plans.publish(
            messages.write_path(mission.plan, self._now_ns, self._p.frame_id, self._z)
        )
        if mission.goal is None:
            return False
        self._send_goal()
        return True

    def _send_goal(self) -> None:
        goal, position = self._mission.goal, self._mission.position
        assert goal is not None and position is not None
        yaw = math.atan2(goal[1] - position[1], goal[0] - position[0])
        self._goals.publish(
            messages.write_pose(goal.tolist(), self._now_ns, self._p.frame_id, self._z, yaw)
        )

    def _on_pause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = self._mission.pause()
        self._announce()
        return response

    def _on_resume(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = self._mission.resume()
        self._announce()
        return response

    def _changed(self, names: frozenset[str]) -> None:
        mission, p = self._mission, self._p
        mission.arrival, mission.max_duration = self._arrival, p.max_duration
        mission.max_samples = p.max_samples
        mission.count_samples(mission.samples)
        self._announce()

    @property
    def _waits_for_map(self) -> bool:
        return self._mission.state == EXPLORING and self._mission.goal is None

    def _report(self) -> None:
        """Diagnostics, by wall time: the mission, the goals, and what was refused."""
        mission = self._mission
        silent = time.monotonic() - self._heard > ODOMETRY_PATIENCE
        if silent:
            self.get_logger().warning(
                "no odometry: waiting for it on "
                + self.resolve_topic_name("odom")
                + (" and for /clock" if self._now_ns == 0 else ""),
                throttle_duration_sec=10.0,
            )
        text = "no odometry" if silent else mission.state
        if self._waits_for_map and not silent:
            text = "waiting for the first map"
        values: dict[str, object] = {
            "state": mission.state,
            "samples": mission.samples,
            # As text: a wall clock's seconds have more than six digits.
            "began_s": "" if mission.began is None else f"{mission.began:.3f}",
            "goals_reached": mission.arrivals["reached"],
            "goals_passed": mission.arrivals["passed"],
            "goals_timed_out": mission.arrivals["timeout"],
        }
        for reason in ("odometry_frame", "odometry_not_finite") + (
            "map_frame",
            "map_unreadable",
            "map_unusable",
        ):
            values[f"refused_{reason}"] = self._refusals.counts[reason]
        level = DiagnosticStatus.WARN if silent and mission.state != DONE else DiagnosticStatus.OK
        name = self.get_fully_qualified_name().lstrip("/")
        self._diagnostics.publish(
            messages.write_diagnostics(name, level, text, values, self._now_ns)
        )


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit status."""
    return run_node(PlannerNode, args)


if __name__ == "__main__":
    sys.exit(main())
