"""The standard lifecycle services, for managed nodes.

rclpy's own ``LifecycleNode`` is not used: there, a request for a transition that is invalid in the
present state raises an exception that ends the node, and an error in a transition is lost.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from lifecycle_msgs.msg import State, Transition, TransitionDescription, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState
from rclpy.node import Node

from ...core.errors import InputError

EVENTS = 10  # queue depth of transition events, as in rcl


class _Transition(NamedTuple):
    """A transition from ``start`` via a transition state to ``goal``; back if ``method`` fails."""

    id: int
    label: str
    start: int
    via: int
    goal: int
    method: str


STATES = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
    State.TRANSITION_STATE_CONFIGURING: "configuring",
    State.TRANSITION_STATE_CLEANINGUP: "cleaningup",
    State.TRANSITION_STATE_SHUTTINGDOWN: "shuttingdown",
    State.TRANSITION_STATE_ACTIVATING: "activating",
    State.TRANSITION_STATE_DEACTIVATING: "deactivating",
}
_UNCONFIGURED, _INACTIVE, _ACTIVE, _FINALIZED = list(STATES)[:4]
_CONFIGURING, _CLEANING, _SHUTTING, _ACTIVATING, _DEACTIVATING = list(STATES)[4:]
TRANSITIONS = tuple(
    _Transition(*row)
    for row in (
        (Transition.TRANSITION_CONFIGURE, "configure",
         _UNCONFIGURED, _CONFIGURING, _INACTIVE, "configure"),
        (Transition.TRANSITION_CLEANUP, "cleanup", _INACTIVE, _CLEANING, _UNCONFIGURED, "cleanup"),
        (Transition.TRANSITION_ACTIVATE, "activate", _INACTIVE, _ACTIVATING, _ACTIVE, "activate"),
        (Transition.TRANSITION_DEACTIVATE, "deactivate",
         _ACTIVE, _DEACTIVATING, _INACTIVE, "deactivate"),
        (Transition.TRANSITION_UNCONFIGURED_SHUTDOWN, "shutdown",
         _UNCONFIGURED, _SHUTTING, _FINALIZED, "shut_down_node"),
        (Transition.TRANSITION_INACTIVE_SHUTDOWN, "shutdown",
         _INACTIVE, _SHUTTING, _FINALIZED, "shut_down_node"),
        (Transition.TRANSITION_ACTIVE_SHUTDOWN, "shutdown",
         _ACTIVE, _SHUTTING, _FINALIZED, "shut_down_node"),
    )
)  # fmt: skip
_UNDO = {"configure": "cleanup", "activate": "deactivate"}


class Lifecycle:
    """Offers the transitions of a node as services, and publishes them on ``~/transition_event``.

    A transition that fails leaves the node in the state before, logs the reason, and is answered
    with ``success`` false. So is one that is invalid in the present state.

    Args:
        node: with ``configure``, ``activate``, ``deactivate``, ``cleanup`` and ``shut_down_node``.
    """

    def __init__(self, node: Any) -> None:
        self._node = node
        self._finalized = False
        self._events = node.create_publisher(TransitionEvent, "~/transition_event", EVENTS)
        offered: tuple[tuple[type, str, Callable[[Any, Any], Any]], ...] = (
            (ChangeState, "change_state", self._on_change),
            (GetState, "get_state", self._on_state),
            (GetAvailableStates, "get_available_states", self._on_states),
            (GetAvailableTransitions, "get_available_transitions", self._on_transitions),
            (GetAvailableTransitions, "get_transition_graph", self._on_graph),
        )
        for kind, name, answer in offered:
            node.create_service(kind, f"~/{name}", answer)

    @property
    def state(self) -> int:
        """The present state, a primary one of ``lifecycle_msgs.msg.State``."""
        if self._finalized:
            return _FINALIZED
        if self._node.active:
            return _ACTIVE
        return _INACTIVE if self._node.configured else _UNCONFIGURED

    def _on_change(self, request: Any, response: Any) -> Any:
        wanted = request.transition
        for step in TRANSITIONS:
            named = step.label == wanted.label if wanted.label else step.id == wanted.id
            if named and step.start == self.state:
                response.success = self._take(step)
                return response
        text = f"transition {wanted.label or wanted.id!r} is invalid in state {STATES[self.state]}"
        self._node.warnings.add("transition", f"{text[:200]}: ignored")
        response.success = False
        return response

    def _take(self, step: _Transition) -> bool:
        """Make a transition; returns whether it succeeded."""
        self._publish_event(step.id, step.label, step.start, step.via)
        try:
            getattr(self._node, step.method)()
        except Exception as error:
            reason = str(error) if isinstance(error, InputError) else traceback.format_exc()
            self._node.get_logger().error(f"{step.label} failed: {reason}")
            self._undo(step.method)
            self._publish_event(0, "transition_failure", step.via, self.state)
            return False
        self._finalized = step.goal == _FINALIZED
        self._publish_event(0, "transition_success", step.via, self.state)
        self._node.get_logger().info(f"{STATES[self.state]}")
        return True

    def _undo(self, done: str) -> None:
        """Undo the part of a failed transition that was done."""
        if done not in _UNDO:
            return
        try:
            getattr(self._node, _UNDO[done])()
        except Exception:
            self._node.get_logger().error(f"{_UNDO[done]} failed: {traceback.format_exc()}")

    def _publish_event(self, number: int, label: str, start: int, goal: int) -> None:
        event = TransitionEvent(timestamp=Node.get_clock(self._node).now().nanoseconds)
        event.transition = Transition(id=number, label=label)
        event.start_state, event.goal_state = _state(start), _state(goal)
        self._events.publish(event)

    def _on_state(self, _: Any, response: Any) -> Any:
        response.current_state = _state(self.state)
        return response

    def _on_states(self, _: Any, response: Any) -> Any:
        response.available_states = [_state(number) for number in STATES]
        return response

    def _on_transitions(self, _: Any, response: Any) -> Any:
        steps = [step for step in TRANSITIONS if step.start == self.state]
        response.available_transitions = [_description(step) for step in steps]
        return response

    def _on_graph(self, _: Any, response: Any) -> Any:
        response.available_transitions = [_description(step) for step in TRANSITIONS]
        return response


def _state(number: int) -> State:
    return State(id=number, label=STATES[number])


def _description(step: _Transition) -> TransitionDescription:
    return TransitionDescription(
        transition=Transition(id=step.id, label=step.label),
        start_state=_state(step.start),
        goal_state=_state(step.goal),
    )
