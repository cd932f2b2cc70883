"""Configures and activates managed nodes in order, also after they were restarted."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from lifecycle_msgs.msg import State, Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from ...core.log_throttle import LogThrottle
from .executor import run_node

POLL_PERIOD_S = 1.0  # wall time between two polls
# Wall time for an answer. A killed node stays visible for some seconds, but does not answer. A
# transition takes longer: configuring a node loads torch, or a mission.
ANSWER_TIMEOUT_S, TRANSITION_TIMEOUT_S = 3.0, 120.0
UNCONFIGURED, INACTIVE = State.PRIMARY_STATE_UNCONFIGURED, State.PRIMARY_STATE_INACTIVE
ACTIVE = State.PRIMARY_STATE_ACTIVE
MIN_AGREEING_POLLS = 2


class ManagedNodeClient:
    """Brings a managed node up once after each of its starts.

    Transitions by hand are respected: a node that is deactivated or cleaned up publishes that on
    ``transition_event``. A node that is unconfigured without such an event was restarted.

    Args:
        node: creates the clients.
        name: of the managed node, relative to the namespace of ``node``.
        group: callback group of the clients, so that a callback can wait for an answer.
    """

    def __init__(self, node: Node, name: str, group: ReentrantCallbackGroup) -> None:
        self.name, self._node = name, node
        self._get = node.create_client(GetState, f"{name}/get_state", callback_group=group)
        self._change = node.create_client(ChangeState, f"{name}/change_state", callback_group=group)
        node.create_subscription(
            TransitionEvent, f"{name}/transition_event", self._on_event, 10, callback_group=group
        )
        self._due, self._last_state, self._restart_polls = True, UNCONFIGURED, 0
        self.up = False  # whether it was active once: the nodes after it need not wait any more
        self._waiting: tuple[Any, float] | None = None  # the awaited answer and its deadline

    async def poll(self) -> None:
        """Bring the node up if it was started."""
        if not self._get.service_is_ready():
            return
        answer = await self._ask(self._get, GetState.Request(), ANSWER_TIMEOUT_S)
        if answer is None:
            return
        state = answer.current_state.id
        self._restart_polls = (
            self._restart_polls + 1 if state == UNCONFIGURED != self._last_state else 0
        )
        if self._restart_polls >= MIN_AGREEING_POLLS:
            self._due, self._last_state, self._restart_polls = True, UNCONFIGURED, 0
            self._node.get_logger().info(f"{self.name} was restarted")
        if self._due and state == UNCONFIGURED and await self._step("configure"):
            state = INACTIVE
        if self._due and state == INACTIVE and await self._step("activate"):
            state = ACTIVE
        if state == ACTIVE:
            self.up, self._due = True, False

    async def _step(self, label: str) -> bool:
        number = getattr(Transition, f"TRANSITION_{label.upper()}")
        request = ChangeState.Request(transition=Transition(id=number))
        answer = await self._ask(self._change, request, TRANSITION_TIMEOUT_S)
        if answer is not None and answer.success:
            self._node.get_logger().info(f"{self.name}: {label} done")
            return True
        if answer is not None:  # without an answer the next poll asks again
            self._due = False
            self._node.get_logger().error(
                f"{self.name} failed to {label}; see its log. Restart it, or call "
                f"{self.name}/change_state"
            )
        return False

    async def _ask(self, client: Any, request: Any, timeout: float) -> Any:
        """The answer; None after the timeout."""
        future = client.call_async(request)
        self._waiting = future, time.monotonic() + timeout
        answer = await future
        self._waiting = None
        return answer

    def check_timeout(self) -> None:
        """Give up an answer that is late: the node may have died."""
        if self._waiting is not None and time.monotonic() > self._waiting[1]:
            self._waiting[0].cancel()

    def _on_event(self, message: TransitionEvent) -> None:
        self._last_state = message.goal_state.id


class BringUp(Node):
    """Brings the nodes up one after the other.

    Args:
        names: of the managed nodes, in order.
    """

    def __init__(self, names: Sequence[str], **options: Any) -> None:
        super().__init__("bring_up", **options)
        group, steady = ReentrantCallbackGroup(), Clock(clock_type=ClockType.STEADY_TIME)
        self.managed = [ManagedNodeClient(self, name, group) for name in names]
        self._reminders = LogThrottle(self.get_logger().info)
        alone = MutuallyExclusiveCallbackGroup()
        self.create_timer(POLL_PERIOD_S, self._poll, callback_group=alone, clock=steady)
        self.create_timer(POLL_PERIOD_S, self._check_timeouts, callback_group=group, clock=steady)

    async def _poll(self) -> None:
        for managed in self.managed:
            await managed.poll()
            if not managed.up:
                self._reminders.remind(managed.name, f"waiting for {managed.name}")
                return

    def _check_timeouts(self) -> None:
        for managed in self.managed:
            managed.check_timeout()


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; the arguments are names of managed nodes (default: mapper planner)."""
    names = remove_ros_args(sys.argv if args is None else ["bring_up", *args])[1:]
    return run_node(lambda: BringUp(names or ["mapper", "planner"]), args)


if __name__ == "__main__":
    sys.exit(main())
