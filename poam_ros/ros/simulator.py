"""The simulator node: replaces a vehicle and publishes simulated time."""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TransformStamped
from nav_msgs.msg import Odometry
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import PointCloud2, Range
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geometry import Extent, Grid
from ..core.settings import instance
from ..frontend.odometry import bare_frame
from ..planning.pilots import start_pose
from ..simulation.simulator import Pacer, Simulation, SimulationStep, SonarSettings
from ..simulation.terrain import Terrain, load_terrain
from ..simulation.vehicle import Pose
from . import messages
from .node import CLOCK, GOAL, LATCHED, SENSOR_PUBLISH, BaseNode, run_node
from .parameters import SIMULATOR

CONTROL_PERIOD_S = 0.1  # simulated time between two steps of the vehicle, and two odometries
TICK_S = 0.01  # wall time between two checks of the clock
MISSION_TIMEOUT_S = 60.0  # wall time to wait for a mission
REPORT_PERIOD_S = 1.0  # wall time
MAX_CLOCK_OFFSET_S = 0.25  # of stamps from the wall clock, plus a control period
GOAL_TOLERANCE = 1e-6  # m outside the workspace: rounding
START_NS = SECOND  # start of simulated time: in ROS, zero means "no time yet"
TOO_SLOW = "too slow: lower the simulation's speed, or stop other programs"
GOAL_REFUSALS = ("frame", "not_finite")
ODOMETRY_FRAME, BASE_FRAME, SONAR_FRAME = "odom", "base_link", "sonar_link"
MAX_TERRAIN_CELLS = 400  # rows or columns of the terrain message


class SimulatorNode(BaseNode):
    """Steps a ``Simulation`` by a steady clock, and publishes what a vehicle would.

    With ``use_sim_time`` it publishes ``/clock``, ``speed`` times as fast as wall time. Without,
    stamps follow the wall clock and the speed is 1. If the machine cannot keep up, simulated time
    slows down (diagnostics report the speed achieved). It never goes back.

    Raises:
        InputError: a parameter or the terrain is wrong.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("simulator", SIMULATOR, **options)
        self._simulated_time = bool(self.get_parameter("use_sim_time").value)
        self.check("speed", self.values.speed)

    def open(self) -> None:
        """Load the terrain, create the topics, and start time.

        Raises:
            InputError: the terrain is wrong, or the vehicle's start lies outside it.
        """
        super().open()
        self.simulation = self._build()
        self._offset_ns = START_NS
        self._follow_wall_clock()
        p = self.values
        self._make_messages()
        grid, elevation = thinned(self._terrain, MAX_TERRAIN_CELLS)
        layers = {"z": elevation, "rgb": messages.colours(grid, elevation)}
        terrain = self.create_publisher(PointCloud2, "terrain", LATCHED)
        terrain.publish(messages.write_cloud(grid, layers, self.now_ns, p.frame_id))
        self.create_service(Trigger, "~/reset", self._on_reset)
        self._pacer = Pacer(CONTROL_PERIOD_S, p.speed, tick=TICK_S)
        self._goal_ns: int | None = None  # simulation time of the last goal
        self._waiting_since = time.monotonic() if p.wait_for_mission else None
        self._reported = (time.monotonic(), self.simulation.time_ns, self.waiting)
        self._goals = self.create_subscription(PoseStamped, "goal_pose", self._on_goal, GOAL)
        self.create_timer(TICK_S, self._on_tick)
        self.create_timer(REPORT_PERIOD_S, self._report_speed)

    def _build(self) -> Simulation:
        p = self.values
        environment, self._workspace = Extent.of(p.environment), Extent.of(p.workspace)
        low, high = p.elevation_range
        scale = (low, high) if low != high else None
        self._terrain = load_terrain(p.terrain, environment, elevation_range=scale, seed=p.seed)
        return Simulation(
            self._terrain,
            start=Pose(*start_pose(self._workspace)),
            environment=environment,
            sonar=instance(SonarSettings, vars(p)),
            control_rate=1.0 / CONTROL_PERIOD_S,
            max_speed=p.max_speed,
            max_turn_rate=p.max_turn_rate,
            current=p.current,
            seed=p.seed,
        )

    @property
    def now_ns(self) -> int:
        """The present stamp."""
        return self.simulation.time_ns + self._offset_ns

    @property
    def waiting(self) -> bool:
        """Whether time waits for a mission."""
        return self._waiting_since is not None

    def _follow_wall_clock(self) -> None:
        if not self._simulated_time:
            self._offset_ns = time.time_ns() - self.simulation.time_ns

    def _on_tick(self) -> None:
        """Take the control steps that are due."""
        if self._waiting_since is not None and not self._mission_connected():
            return
        for _ in range(self._pacer.due(time.monotonic())):
            self._step()
        if abs(time.time_ns() - self.now_ns) / SECOND > MAX_CLOCK_OFFSET_S + self._pacer.period:
            # After the machine was suspended, or the clock was set.
            self._follow_wall_clock()

    def _mission_connected(self) -> bool:
        """Whether mapper and planner are there, or the wait is over.

        The mapper publishes `map/samples` once it has subscribed to the sensors.
        """
        assert self._waiting_since is not None
        late = time.monotonic() - self._waiting_since > MISSION_TIMEOUT_S
        publishers = map(self.count_publishers, ("map/samples", self._goals.topic_name))
        subscribers = (
            out.get_subscription_count() for out in (self._odometry_out, self._range_out)
        )
        ready = all(subscribers) and all(publishers)
        if late and not ready:
            self.get_logger().warning("no mission appeared; simulated time starts without one")
        if late or ready:
            self._waiting_since = None
        return not self.waiting

    def _step(self) -> None:
        """One control period: move the vehicle, and publish its sensors."""
        simulation = self.simulation
        stale_ns = round(self.values.goal_timeout * SECOND)
        if self._goal_ns is not None and simulation.time_ns - self._goal_ns > stale_ns:
            simulation.set_goal(None)
            self._goal_ns = None
        self.send(simulation.step())

    def _on_goal(self, message: PoseStamped) -> None:
        """Take a goal in the map's frame; another is refused with a warning.

        A goal outside the workspace is moved into it, with a warning. No old goal comes: they are
        not latched.
        """
        p, place = self.values, message.pose.position
        goal = np.array((place.x, place.y))
        frame = bare_frame(message.header.frame_id)
        if frame != p.frame_id:
            text = f"goal refused: expected frame {p.frame_id!r}, got '{shown(frame)}'"
            self.warnings.add("frame", text)
        elif not np.all(np.isfinite(goal)):
            text = f"goal refused: expected finite x and y, got {goal.tolist()}"
            self.warnings.add("not_finite", text)
        else:
            nearest = self._workspace.clip(goal)
            if not self._workspace.contains(goal, slack=GOAL_TOLERANCE):
                self.warnings.add(
                    "outside",
                    f"goal {goal.tolist()} is outside the workspace: moved to the nearest point in "
                    f"it, {nearest.tolist()}",
                )
            self.simulation.set_goal(nearest)
            self._goal_ns = self.simulation.time_ns

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.simulation.reset()
        self._goal_ns = None
        response.success = True
        response.message = "the vehicle is at its start again; time continues"
        return response

    def check(self, name: str, value: Any) -> None:
        """Refuse what cannot change, besides wrong values."""
        super().check(name, value)
        if name == "use_sim_time" and value != self._simulated_time:
            raise InputError("parameter use_sim_time: expected only at the simulator's start")
        if name == "speed" and not self._simulated_time and value != 1:
            raise InputError(
                f"parameter speed: expected 1 where use_sim_time is false, got {value!r}"
            )

    def changed(self, names: frozenset[str]) -> None:
        """Apply a new speed."""
        if "speed" in names:
            self._pacer.speed = self.values.speed

    def _report_speed(self) -> None:
        """Publish diagnostics: speed of simulated time, and refused goals."""
        now, time_ns = time.monotonic(), self.simulation.time_ns
        (since, since_ns, waited), self._reported = self._reported, (now, time_ns, self.waiting)
        achieved = (time_ns - since_ns) / SECOND / (now - since)
        speed = self.values.speed
        slow = not waited and achieved < 0.8 * speed
        text = "waiting for a mission" if self.waiting else TOO_SLOW if slow else "running"
        if slow:
            self.get_logger().warning(
                f"simulated time runs at {achieved:.1f} x real time instead of {speed:g}",
                throttle_duration_sec=30.0,
                throttle_time_source_type=self.steady_clock,
                skip_first=True,
            )
        counts = self.warnings.counts
        values = {
            "speed": speed,
            "achieved_speed": achieved,
            "time_s": time_ns / SECOND,
            **{f"goals_refused_{reason}": counts[reason] for reason in GOAL_REFUSALS},
            "goals_outside_workspace": counts["outside"],
        }
        self.report(DiagnosticStatus.WARN if slow else DiagnosticStatus.OK, text, values)

    def _make_messages(self) -> None:
        """The messages of every control period: creating one costs more than sending it."""
        frame_id, simulation = self.values.frame_id, self.simulation
        self._stamp = stamp = Time()
        self._time = Clock(clock=stamp)
        self._odometry = Odometry(
            header=Header(stamp=stamp, frame_id=frame_id), child_frame_id=BASE_FRAME
        )
        self._transform = TransformStamped(
            header=Header(stamp=stamp, frame_id=ODOMETRY_FRAME), child_frame_id=BASE_FRAME
        )
        self._odometry.pose.pose.position.z = simulation.sonar_z
        self._transform.transform.translation.z = simulation.sonar_z
        self._range = Range(
            header=Header(frame_id=SONAR_FRAME), radiation_type=Range.ULTRASOUND,
            field_of_view=getattr(self.values, "sonar.field_of_view"),
            min_range=float(simulation.settings.min_range),
            max_range=float(simulation.settings.max_range),
        )  # fmt: skip
        # A publisher's default events cost the executor most of its time. Subscribers report
        # incompatible QoS as well.
        events = PublisherEventCallbacks(use_default_callbacks=False)
        publisher = partial(self.create_publisher, event_callbacks=events)
        self._odometry_out = publisher(Odometry, "odom", SENSOR_PUBLISH)
        self._range_out = publisher(Range, "sonar/range", SENSOR_PUBLISH)
        self._clock_out = publisher(Clock, "/clock", CLOCK) if self._simulated_time else None
        self._transforms = transform_broadcaster(self, frame_id)

    def send(self, step: SimulationStep) -> None:
        """Publish a step; stamps are the simulation's time plus an offset."""
        self._stamp.sec, self._stamp.nanosec = divmod(step.time_ns + self._offset_ns, SECOND)
        if self._clock_out is not None:
            self._clock_out.publish(self._time)
        pose, moved = self._odometry.pose.pose, self._transform.transform
        for place in (pose.position, moved.translation):
            place.x, place.y = step.pose.x, step.pose.y
        for turn in (pose.orientation, moved.rotation):
            _, _, turn.z, turn.w = messages.yaw_to_quaternion(step.pose.yaw)
        crab, twist = step.direction - step.pose.yaw, self._odometry.twist.twist
        twist.linear.x, twist.linear.y = step.speed * math.cos(crab), step.speed * math.sin(crab)
        twist.angular.z = step.turn_rate
        self._odometry_out.publish(self._odometry)
        if self._transforms is not None:
            self._transforms.sendTransform(self._transform)
        for ping in step.pings:
            stamp = self._range.header.stamp
            stamp.sec, stamp.nanosec = divmod(ping.stamp_ns + self._offset_ns, SECOND)
            self._range.range = float(ping.range)
            self._range_out.publish(self._range)


def thinned(terrain: Terrain, cells: int) -> tuple[Grid, np.ndarray]:
    """The cells of the terrain; every k-th if a side has more than ``cells``."""
    stride = math.ceil(max(terrain.elevation.shape) / cells)
    some = slice(stride // 2, None, stride)
    whole = Grid.dividing(terrain.extent, terrain.elevation.shape)
    return Grid(whole.x[some], whole.y[some]), terrain.elevation[some, some]


def transform_broadcaster(node: Node, frame_id: str) -> Any:
    """A tf2 broadcaster that has sent the static transforms; None without tf2_ros.

    The tree is that of REP-105: map -> odom -> base_link -> sonar_link. The simulated odometry does
    not drift, so map and odom are equal.
    """
    try:
        from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster
    except ImportError:
        node.get_logger().info("tf2_ros is not installed: no transforms are published")
        return None
    mount = TransformStamped(child_frame_id=SONAR_FRAME)
    mount.header.frame_id = BASE_FRAME
    # The beam is the x axis of its frame: a quarter turn about y points it down (REP-103).
    mount.transform.rotation.y = mount.transform.rotation.w = math.sqrt(0.5)
    origin = TransformStamped(child_frame_id=ODOMETRY_FRAME)
    origin.header.frame_id = frame_id
    broadcaster = TransformBroadcaster(node)
    broadcaster.static = StaticTransformBroadcaster(node)  # keeps it alive
    broadcaster.static.sendTransform([origin, mount])
    return broadcaster


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, SimulatorNode)


if __name__ == "__main__":
    sys.exit(main())
