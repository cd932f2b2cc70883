"""The mavlink node: odometry and pings from an ArduPilot autopilot, goals to it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import parameter_value_to_python
from rclpy.task import Future
from sensor_msgs.msg import Range
from std_msgs.msg import String, UInt64

from ...core.clock import SECOND, Moment
from ...core.errors import InputError, shown
from ...core.geometry import Extent
from ...core.settings import instance
from ...frontend.events import EXPLORING, PILOT
from ...frontend.odometry import VehicleState
from ...frontend.ranges import RawPing
from ...mavlink.frame import LocalFrame
from ...mavlink.link import Link
from ...mavlink.parameters import CHECKED, advice
from ...mavlink.settings import LinkSettings
from ...mavlink.vehicle import Vehicle
from ..common import messages, qos
from ..common.executor import run_node
from ..common.node import ManagedNode
from ..common.parameters import MAVLINK

PERIOD_S = 0.05  # between two looks at the link
REPORT_PERIOD_S = 1.0
#: s; a goal is sent again, where its arrival is not reported, until its last message is this old.
#: The planner repeats its goals, but the place to hold station only once.
GOAL_AGE_S = 3.0
#: s from the planner's first goal until it is told that it may not: the request may come later.
GRACE_S = 1.0
NOBODY = "nobody has started or resumed the mission since the link began"


@dataclass
class RequestedGoal:
    """The planner's goal or place to hold station: ``goal_pose`` does not tell them apart."""

    goal: np.ndarray | None = None
    station: np.ndarray | None = None


class MavlinkNode(ManagedNode):
    """Publishes a vehicle's messages as odometry and pings, and sends goals while it may.

    It may from a person's start or resume on (``mission/requests``) until a take-over. Why it may
    not is published on ``vehicle/refusal``, and pauses the planner.

    Attributes:
        vehicle: on the link.

    Raises:
        InputError: a parameter is wrong, or there is no origin.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("mavlink", MAVLINK, **options)

    def configure(self) -> None:
        """Open the link, and create the publishers."""
        super().configure()
        p, settings = self.values, instance(LinkSettings, vars(self.values))
        if not any(p.origin):
            raise InputError(
                "parameter origin: expected latitude and longitude of the map's (0, 0) in degrees, "
                "or the launch argument workspace_degrees"
            )
        self.vehicle = Vehicle(Link(settings), p.goal_period)
        latitude, longitude = p.origin
        self.vehicle.telemetry.frame = LocalFrame(latitude, longitude, p.heading)
        self.on_exit.callback(self.vehicle.link.close)
        if settings.warning:
            self.get_logger().warning(settings.warning)
        self._odometry = self.create_publisher(Odometry, "odom", qos.SENSOR_PUBLISH)
        self._ranges = self.create_publisher(Range, "sonar/range", qos.SENSOR_PUBLISH)
        self._refusals = self.create_publisher(String, "vehicle/refusal", qos.LATCHED)
        self._displaced = self.create_publisher(String, "vehicle/displaced", qos.LATCHED)
        self._published: str | None = None  # on vehicle/refusal
        self._boots = 0
        self._requests: int | None = None  # the planner's count, as it was last received
        self._owners = {
            self.create_client(GetParameters, f"{node}/get_parameters"): names
            for node, names in CHECKED.items()
        }
        self._asked: dict[tuple[str, ...], Future] = {}
        self._advice: list[str] | None = None

    def activate(self) -> None:
        """Listen to the vehicle and to the planner."""
        super().activate()
        self._wanted, self._goal_s, self._z = RequestedGoal(), -math.inf, 0.0
        self._position: np.ndarray | None = None
        self._reason = NOBODY  # of the last take-over
        self._driving_s = math.inf  # when the planner began to drive; infinite: it does not
        self.create_subscription(PoseStamped, "goal_pose", self._on_goal, qos.GOAL)
        self.create_subscription(String, "mission/state", self._on_state, qos.LATCHED)
        self.create_subscription(UInt64, "mission/requests", self._on_request, qos.LATCHED)
        self.create_timer(PERIOD_S, self._step)
        self.create_timer(REPORT_PERIOD_S, self._report)

    def deactivate(self) -> None:
        """Let the vehicle hold station if it drives to a goal of ours; then it is nobody's."""
        if self.active:
            vehicle, now = self.vehicle, self.moment
            vehicle.listen(now)
            if self._wanted.goal is not None and self._position is not None and not vehicle.stalled:
                vehicle.steering.hold(self._position, self._z)
            vehicle.authority.withdraw(NOBODY)
        super().deactivate()

    def _step(self) -> None:
        """Read the link, and send what is due: heartbeats first."""
        now, vehicle = self.moment, self.vehicle
        received, taken = vehicle.listen(now)
        if taken:
            self._taken(taken)
        if now.steady_s - self._goal_s > GOAL_AGE_S:
            self._wanted.goal = None
        if not vehicle.stalled:
            vehicle.steering.steer(self._wanted, self._z, now.steady_s)
        for message in received:
            self._take(message, now)
        self._publish_refusal(now)

    def _taken(self, reason: str) -> None:
        self._reason = reason
        if self._driving_s != math.inf:
            self._driving_s = -math.inf  # the planner is told at once
        self.get_logger().warning(f"no targets are sent any more: {reason}")

    def _take(self, message: Any, now: Moment) -> None:
        """Publish positions and ranges; stamps are brought from the steady clock to ROS time."""
        telemetry = self.vehicle.telemetry
        steady_ns = round(now.steady_s * SECOND)
        for event in telemetry.events(message, steady_ns):
            if isinstance(event, (VehicleState, RawPing)):
                event = replace(event, stamp_ns=event.stamp_ns - steady_ns + now.ros_ns)
            if isinstance(event, VehicleState):
                self._position, self._z = np.array(event.position[:2]), event.position[2]
                state = replace(event, frame_id=self.values.frame_id)
                self._odometry.publish(messages.write_odometry(state))
            elif isinstance(event, RawPing):
                self._ranges.publish(
                    messages.write_range(event, event.frame_id, event.field_of_view)
                )
        if telemetry.clock.boots != self._boots:
            self._boots = telemetry.clock.boots
            if text := self.vehicle.authority.restarted():
                self._taken(text)
        if text := telemetry.take_displacement():  # the vehicle is still ours, and holds station
            self._displaced.publish(String(data=text))

    def _publish_refusal(self, now: Moment) -> None:
        """Publish why the mission may not move the vehicle, where that is new."""
        text = self._refusal(now)
        if text != self._published:
            self._published = text
            self._refusals.publish(String(data=text))

    def _refusal(self, now: Moment) -> str:
        """A reason that is over still counts while the planner drives: it may not have heard."""
        authority, telemetry = self.vehicle.authority, self.vehicle.telemetry
        if now.steady_s - self._driving_s > GRACE_S:
            if not authority.granted:
                return self._reason
            return telemetry.fault if telemetry.delayed else ""
        status = authority.status
        return "there is no heartbeat of an autopilot" if status is None else status.refusal

    def _on_state(self, message: String) -> None:
        if message.data not in (PILOT, EXPLORING):
            self._driving_s = math.inf
        elif self._driving_s == math.inf:
            self._driving_s = self.moment.steady_s

    def _on_request(self, message: UInt64) -> None:
        """A person has started or resumed the mission, if the count is higher than the last one.

        The first one is latched, and of a request before this node; 0 is of a new planner.
        """
        known, self._requests = self._requests, message.data
        if known is None or message.data <= known:
            return
        vehicle = self.vehicle
        self._reason = vehicle.telemetry.fault or vehicle.authority.grant()
        if not self._reason:
            self._displaced.publish(String(data=""))
            vehicle.steering.forget(None)

    def _on_goal(self, message: PoseStamped) -> None:
        goal, frame = messages.read_pose(message), messages.bare_frame(message.header.frame_id)
        if frame != self.values.frame_id or not np.isfinite(goal).all():
            expected = f"expected finite x and y in frame {self.values.frame_id!r}"
            got = f"{goal.tolist()} in '{shown(frame)}'"
            self.warnings.add("goal", f"goal refused: {expected}, got {got}")
            return
        self._goal_s = self.moment.steady_s
        if self._wanted.goal is None or not np.array_equal(goal, self._wanted.goal):
            self._wanted.goal = goal

    def _advise(self) -> None:
        """Compare the autopilot's parameters with those of the mission, once all are known."""
        found = self.vehicle.parameters
        if self._advice is not None or self._position is None or not found.done:
            return
        for client, names in self._owners.items():
            if names not in self._asked and client.service_is_ready():
                request = GetParameters.Request(names=names)
                self._asked[names] = client.call_async(request)
        if len(self._asked) < len(CHECKED) or not all(f.done() for f in self._asked.values()):
            return
        values: dict[str, Any] = {}
        for names, asked in self._asked.items():
            given = map(parameter_value_to_python, asked.result().values)
            values |= zip(names, given, strict=False)
        if missing := [n for names in CHECKED.values() for n in names if values.get(n) is None]:
            self._advice = [f"planner and mapper lack {', '.join(missing)}: nothing is compared"]
        else:
            workspace = Extent.of(values["workspace"])
            self._advice = list(advice(found.values, values, workspace, self._position))
        for text in self._advice:
            self.get_logger().warning(f"check: {text}")

    def _report(self) -> None:
        """Publish diagnostics, once a second."""
        self._advise()
        vehicle, link = self.vehicle, self.vehicle.link
        status = vehicle.authority.status
        fault = link.failing or vehicle.telemetry.fault
        control = vehicle.control(self._wanted.goal is not None)
        values = {
            "url": link.settings.url,
            "mode": "" if status is None else status.mode,
            "armed": status is not None and status.armed,
            "control": control,
            "refusal": self._published,
            "targets_sent": vehicle.steering.sent,
            "messages_lost": vehicle.link.lost_share,
            **{f"left_out {reason}": n for reason, n in link.left_out.items()},
            **{f"ranges_left_out {reason}": n for reason, n in vehicle.telemetry.left_out.items()},
            **vehicle.parameters.values,
            **{f"check {n}": text for n, text in enumerate(self._advice or (), 1)},
        }
        level = DiagnosticStatus.WARN if fault else DiagnosticStatus.OK
        self.report(level, fault or control, values)


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, MavlinkNode)


if __name__ == "__main__":
    sys.exit(main())
