"""Sends goals to the topic goal_pose, or to an action NavigateToPose of Nav2."""

from __future__ import annotations

import importlib
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatusArray
from geometry_msgs.msg import PoseStamped
from rclpy.duration import Duration
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from ..core.errors import InputError, LogThrottle
from .node import GOAL, LATCHED, BaseNode

RETRY_S = 5.0  # wall time until a rejected or aborted goal is sent again
SETTLE_TIMEOUT_S = 2.0  # for all subscribers to receive the last goal
ACCEPTED, EXECUTING, CANCELED, ABORTED = 1, 2, 5, 6  # of action_msgs/GoalStatus
REMEMBERED = 64  # newest goals of ours


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
    """Sends goals to an action. Each preempts the one before; to hold station, goals are canceled.

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
        self._ours: deque[bytes] = deque(maxlen=REMEMBERED)  # identities of the goals sent
        self._wanted: PoseStamped | None = None
        self._number = 0  # of the current goal; others are to end
        self._handles: dict[int, Any] = {}  # of accepted goals that have not ended
        self._again: float | None = None  # when to send the current goal again

    def go(self, pose: PoseStamped) -> None:
        """Send a goal; the server preempts the one before."""
        self._wanted = pose
        self._send()

    def repeat(self, pose: PoseStamped) -> None:
        """Nothing to do: a goal that is sent again would be a new one."""

    def hold(self, pose: PoseStamped) -> None:
        """Cancel all goals, also those that are not accepted yet."""
        self._wanted, self._again = None, None
        self._number += 1
        self._cancel()

    def poll(self) -> None:
        """Send goals or cancels again that had no effect."""
        if self._wanted is None:
            self._cancel()
        elif self._again is not None and self._clock() >= self._again:
            self._send()

    def listen(self, message: GoalStatusArray) -> None:
        """Take the states of all goals that the server has, whoever sent them."""
        goals = [s for s in message.status_list if s.status in (ACCEPTED, EXECUTING)]
        active = {bytes(each.goal_info.goal_id.uuid) for each in goals}
        if self._wanted is not None and not active <= set(self._ours):
            self._interrupted("goals.action: somebody else has sent a goal")

    def settle(self) -> None:
        """Nothing to do: without spinning, the answer to a cancel cannot arrive."""

    def _send(self) -> None:
        assert self._wanted is not None
        self._number += 1
        number, self._again = self._number, None
        if not self._client.server_is_ready():
            self._failed(number, "action_missing", "no server for goals.action")
            return
        identity = UUID(uuid=list(uuid.uuid4().bytes))
        self._ours.append(bytes(identity.uuid))
        sent = self._client.send_goal_async(self._make_goal(self._wanted), goal_uuid=identity)
        sent.add_done_callback(lambda future: self._answered(number, future))

    def _answered(self, number: int, future: Future) -> None:
        handle = future.result()
        if handle is None or not handle.accepted:
            self._failed(number, "goal_rejected", "goals.action: the goal was rejected")
            self._cancel()  # the goal that it should have preempted
            return
        self._handles[number] = handle
        handle.get_result_async().add_done_callback(lambda future: self._ended(number, future))
        if self._wanted is None:
            self._cancel()

    def _ended(self, number: int, future: Future) -> None:
        self._handles.pop(number, None)
        answer = future.result()
        if answer is None or answer.status == ABORTED:
            self._failed(number, "goal_aborted", "goals.action: the goal was aborted")
        elif answer.status == CANCELED and number == self._number and self._wanted is not None:
            self._interrupted("goals.action: somebody else has cancelled the goal")

    def _failed(self, number: int, reason: str, text: str) -> None:
        if number == self._number and self._wanted is not None:
            self._again = self._clock() + RETRY_S
            self._warnings.add(reason, text)

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
