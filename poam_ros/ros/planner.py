"""The planner node: pilot survey, waypoints from the map, and the mission state."""

from __future__ import annotations

import importlib
import math
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatusArray
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry, Path
from rclpy.duration import Duration
from rclpy.task import Future
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from unique_identifier_msgs.msg import UUID
from visualization_msgs.msg import MarkerArray

from ..core.errors import InputError, LogThrottle, shown
from ..frontend.events import DONE, OVER, PILOT
from ..frontend.odometry import JUMP, VehicleState, bare_frame
from ..mission.guidance import Guidance
from ..mission.states import OPERATOR
from . import messages
from .inputs import Inputs
from .node import GOAL, LATCHED, SENSOR_READ, BaseNode, run_node
from .parameters import PLANNER

POLL_PERIOD_S = 1.0  # between two checks of limits and watchdog
REPORT_PERIOD_S = 1.0
ODOMETRY_TIMEOUT_S = 15.0  # without odometry, until it is reported
AUTOPILOT_TIMEOUT_S = 10.0  # without the autopilot's state, until it is reported
RETRY_S = 5.0  # wall time until a rejected or aborted goal of an action is sent again
SETTLE_TIMEOUT_S = 2.0  # for all subscribers to receive the last goal
OK, WARN = DiagnosticStatus.OK, DiagnosticStatus.WARN
ACCEPTED, EXECUTING, CANCELED, ABORTED = 1, 2, 5, 6  # of action_msgs/GoalStatus
REMEMBERED = 64  # newest goals of ours to an action
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
        self._published: tuple[Any, ...] = (None,) * 5
        self._warned = {"clipped": 0, "unreachable": 0}  # number of goals with a warning
        self._plans = self.create_publisher(Path, "plan", LATCHED)
        self._areas = self.create_publisher(MarkerArray, "mission/areas", LATCHED)
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
        guidance = self.guidance
        ping = self._announced(guidance.ping)
        self._inputs = Inputs(self, self._on_odometry, ping, self._on_level)
        self._autopilot_topic, self._autopilot_time = "", time.monotonic()
        for kind, topic, take, how in (
            (PointCloud2, "map/points", self._on_map, LATCHED),
            (UInt64, "map/samples", lambda message: guidance.count(message.data), LATCHED),
            (String, "map/shift", lambda message: guidance.shift(message.data), GOAL),  # no old one
            (String, "pings/fault", lambda message: guidance.mapped(message.data), LATCHED),
        ):
            self.create_subscription(kind, topic, self._announced(take), how)
        with suppress(ImportError):  # only if MAVROS is installed
            if self.values.mavros:
                kind = importlib.import_module("mavros_msgs.msg").State
                topic = f"{self.values.mavros.rstrip('/')}/state"
                called = self._announced(self._on_autopilot)
                self.create_subscription(kind, topic, called, SENSOR_READ)
                self._autopilot_topic = self.resolve_topic_name(topic)

    def _announced(self, take: Callable[[Any], object]) -> Callable[[Any], None]:
        """A function that takes something, and then publishes what has changed."""

        def called(something: Any) -> None:
            take(something)
            self._announce()

        return called

    def _hold(self) -> None:
        """Let the vehicle hold station: the node is about to end."""
        if self.mission.goal is not None and self.mission.position is not None:
            self._hold_at(self.mission.position)
            self._goals.settle()

    def changed(self, names: frozenset[str]) -> None:
        """Apply new limits and options of the planner."""
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

    def _on_interrupted(self, text: str) -> None:
        """Somebody else has given the vehicle a goal, or taken one from it."""
        self.autopilot.take_over(self.mission, text)
        self._announce()

    def _on_map(self, message: PointCloud2) -> None:
        frame, expected = bare_frame(message.header.frame_id), self.values.frame_id
        if frame != expected:
            self.warnings.add("map_frame", f"map/points: expected {expected}, got '{shown(frame)}'")
            return
        try:
            drawn = messages.read_map_cloud(message)
        except InputError as error:
            self.warnings.add("map_unreadable", str(error))
        else:
            self.guidance.draw(drawn, self.moment)

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
        self.report(level, text, values | {"disk": self.guidance.store.failing or "ok"})

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
        if guidance.store.failing:
            yield WARN, guidance.store.failing
        yield OK, silent or ("waiting for the first map" if mission.needs_goal else mission.state)

    def _announce(self) -> None:
        """Publish state, reason, plan and goal where new; the place to hold station once."""
        mission, guidance, (state, reason, goal, hold, drawn) = (
            self.mission, self.guidance, self._published
        )  # fmt: skip
        guidance.save(time.monotonic())
        self._published = mission.state, mission.reason, mission.goal, mission.station, guidance.map
        if mission.state != state or guidance.map is not drawn:
            self._draw_areas()
        if guidance.taken_over:  # before the state: no ping of the pilot's is refused as paused
            self.say("mission/taken_over", guidance.taken_over)
        new = (mission.state, mission.reason) != (state, reason)
        if new:
            self._log_state(state)
            self.say("mission/reason", mission.reason)
            self.say("mission/state", mission.state)
        self.say("mission/taken_over", guidance.taken_over)
        self._warn("clipped", "goals outside the navigable area were moved into it")
        self._warn("unreachable", "goals were given up because no route leads to them")
        if mission.goal is not goal:
            where = self.now_ns, self.values.frame_id, guidance.goal_z
            self._plans.publish(messages.write_path(mission.plan, *where))
            if mission.goal is not None:
                self._send(mission.goal, self._goals.go)
        if mission.station is not hold and mission.station is not None:
            self._hold_at(mission.station)
        if new:
            self._report()
        if guidance.store.failing:
            self.warnings.remind("disk", guidance.store.failing)

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

    def _log_state(self, previous: str | None) -> None:
        mission, budget, log = self.mission, self.mission.budget, self.get_logger()
        text = f"{mission.state} at {budget}: {mission.reason}"
        text += ", waiting for the first map" if mission.needs_goal else ""
        if not mission.causes <= {OPERATOR}:
            log.warning(text)
        else:
            log.info(text)
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


class TopicGoals:
    """Publishes goals on ``goal_pose``; the vehicle drives to the latest one.

    ``go`` sends a goal, ``repeat`` the same again; ``hold`` lets the vehicle hold station there.
    """

    def __init__(self, node: BaseNode) -> None:
        self._goals = node.create_publisher(PoseStamped, "goal_pose", GOAL)
        self.go = self.repeat = self.hold = self._goals.publish

    def poll(self) -> None:
        """Called once a second: nothing to do."""

    def settle(self) -> None:
        """Wait until the last goal has arrived: a destroyed publisher delivers nothing more."""
        self._goals.wait_for_all_acked(Duration(seconds=SETTLE_TIMEOUT_S))


class ActionGoals:
    """Sends goals to an action NavigateToPose of Nav2. Each preempts the one before; to hold
    station, goals are canceled.

    A rejected or aborted goal is sent again until the mission chooses another. A cancel is sent
    again until every goal has ended. A goal that somebody else cancelled or replaced is not sent
    again: a person is driving.

    Args:
        client: as ``rclpy.action.ActionClient``.
        make_goal: the action's goal from a pose.
        warnings: for ``action_missing``, ``goal_rejected`` and ``goal_aborted``.
        interrupted: called with a text when somebody else has cancelled or replaced a goal.
        clock: a steady clock, in s.
    """

    def __init__(
        self,
        client: Any,
        make_goal: Callable[[PoseStamped], Any],
        warnings: LogThrottle,
        interrupted: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._make_goal = client, make_goal
        self._warnings, self._interrupted, self._clock = warnings, interrupted, clock
        self._wanted: PoseStamped | None = None
        self._ours: deque[bytes] = deque(maxlen=REMEMBERED)  # identities; the last: the present one
        self._handles: dict[bytes, Any] = {}  # of accepted goals that have not ended
        self._again = math.inf  # when to send the present goal again

    def go(self, pose: PoseStamped) -> None:
        """Send a goal; the server preempts the one before."""
        self._wanted, self._again = pose, math.inf
        own = uuid.uuid4().bytes
        self._ours.append(own)
        if not self._client.server_is_ready():
            self._failed(own, "action_missing", "no server for goals.action")
            return
        identity = UUID(uuid=list(own))
        sent = self._client.send_goal_async(self._make_goal(pose), goal_uuid=identity)
        sent.add_done_callback(partial(self._answered, own))

    def repeat(self, pose: PoseStamped) -> None:
        """Nothing to do: a goal that is sent again would be a new one."""

    def hold(self, pose: PoseStamped) -> None:
        """Cancel all goals, also those that are not accepted yet."""
        self._wanted = None
        self._cancel()

    def poll(self) -> None:
        """Send goals or cancels again that had no effect."""
        if self._wanted is None:
            self._cancel()
        elif self._clock() >= self._again:
            self.go(self._wanted)

    def listen(self, message: GoalStatusArray) -> None:
        """Take the states of all goals that the server has, whoever sent them."""
        goals = [s for s in message.status_list if s.status in (ACCEPTED, EXECUTING)]
        active = {bytes(each.goal_info.goal_id.uuid) for each in goals}
        if self._wanted is not None and not active <= set(self._ours):
            self._interrupted("goals.action: somebody else has sent a goal")

    def settle(self) -> None:
        """Nothing to do: without spinning, the answer to a cancel cannot arrive."""

    def _answered(self, own: bytes, future: Future) -> None:
        handle = future.result()
        if handle is None or not handle.accepted:
            self._failed(own, "goal_rejected", "goals.action: the goal was rejected")
            self._cancel()  # the goal that it should have preempted
            return
        self._handles[own] = handle
        handle.get_result_async().add_done_callback(partial(self._ended, own))
        if self._wanted is None:
            self._cancel()

    def _ended(self, own: bytes, future: Future) -> None:
        self._handles.pop(own, None)
        answer = future.result()
        if answer is None or answer.status == ABORTED:
            self._failed(own, "goal_aborted", "goals.action: the goal was aborted")
        elif answer.status == CANCELED and self._is_wanted(own):
            self._interrupted("goals.action: somebody else has cancelled the goal")

    def _failed(self, own: bytes, reason: str, text: str) -> None:
        if self._is_wanted(own):
            self._again = self._clock() + RETRY_S
            self._warnings.add(reason, text)

    def _is_wanted(self, own: bytes) -> bool:
        return self._wanted is not None and own == self._ours[-1]

    def _cancel(self) -> None:
        for handle in self._handles.values():
            handle.cancel_goal_async()


def open_goals(
    node: BaseNode, action: str, interrupted: Callable[[str], object]
) -> TopicGoals | ActionGoals:
    """The topic, or the action with this name; closed with the node's present state.

    ``interrupted``: see ``ActionGoals``.

    Raises:
        InputError: an action is given, but nav2_msgs is not installed.
    """
    if not action:
        return TopicGoals(node)
    try:
        kind = importlib.import_module("nav2_msgs.action").NavigateToPose
    except ImportError:
        raise InputError(
            f"parameter goals.action: expected nav2_msgs to be installed for '{action}'; it is not"
        ) from None
    client = importlib.import_module("rclpy.action").ActionClient(node, kind, action)
    node.on_exit.callback(client.destroy)
    goals = ActionGoals(client, lambda pose: kind.Goal(pose=pose), node.warnings, interrupted)
    status = f"{action}/_action/status"
    node.create_subscription(GoalStatusArray, status, goals.listen, LATCHED)
    return goals


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, PlannerNode)


if __name__ == "__main__":
    sys.exit(main())
