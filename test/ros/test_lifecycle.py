"""Managed nodes over the standard services, on real rclpy."""

import subprocess

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import Feeder
from heard import Listener, answer
from launched import node_command
from lifecycle_msgs.msg import Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState

from poam_ros.core.errors import InputError
from poam_ros.ros.common.bring_up import BringUp
from poam_ros.ros.mapper.node import MapperNode
from poam_ros.ros.monitor.node import MonitorNode
from poam_ros.ros.planner.node import PlannerNode
from poam_ros.ros.simulator.node import SimulatorNode

pytestmark = pytest.mark.ros
SMALL = {
    "sparse.num_inducing": 40, "sparse.steps": 2, "sparse.minibatch": 32, "resolution": 5.0,
    "batch.size": 20,
    "batch.period": 3600.0,
}  # fmt: skip
NODES = {
    "mapper": MapperNode, "planner": PlannerNode, "simulator": SimulatorNode,
    "monitor": MonitorNode,
}  # fmt: skip


class Operator(Listener):
    """Changes a node's state as `ros2 lifecycle` does, and hears what it says of it."""

    def __init__(self, name, eventually):
        super().__init__("operator")
        self.name, self._eventually = name, eventually
        self.services_of = {
            kind: self.create_client(kind, f"{name}/{service}")
            for kind, service in (
                (ChangeState, "change_state"), (GetState, "get_state"),
                (GetAvailableTransitions, "get_available_transitions"),
            )
        }  # fmt: skip
        self.listen(TransitionEvent, f"{name}/transition_event", 100)

    @property
    def events(self):
        heard = self.heard[f"{self.name}/transition_event"]
        return [(event.start_state.label, event.goal_state.label) for event in heard]

    def ask(self, kind, **fields):
        return answer(self.services_of[kind], self._eventually, **fields)

    def change(self, number=0, label=""):
        transition = Transition(id=number, label=label)
        return self.ask(ChangeState, transition=transition).success

    @property
    def state(self):
        return self.ask(GetState).current_state.label


def entities(node):
    """How many of each kind a node has."""
    kinds = node.publishers, node.subscriptions, node.services, node.clients, node.timers
    return [len(list(kind)) for kind in (*kinds, node.waitables)]


@pytest.fixture
def operator(ros, eventually):
    """`operator(name)`: a managed node that came up as its main does, and who changes its state."""

    def make(name, kind=None):
        parameters = {"managed": True} | (SMALL if name == "mapper" else {})
        node = ros(kind or NODES[name], up=False, parameters=parameters)
        node.start_up()
        operator = ros(lambda: Operator(name, eventually))
        # Transitions are not kept for who comes late.
        eventually(lambda: node.count_subscribers(f"{name}/transition_event"))
        eventually(lambda: operator.count_publishers(f"{name}/transition_event"))
        return node, operator

    return make


def test_a_mapper_changes_its_states_by_services(operator, ros, eventually):
    mapper, operator = operator("mapper")
    vehicle = ros(Feeder)
    assert operator.state == "unconfigured" and not mapper.configured
    assert operator.change(label="configure") and operator.state == "inactive"
    assert not vehicle.connected()
    assert operator.change(Transition.TRANSITION_ACTIVATE) and operator.state == "active"
    eventually(vehicle.connected)
    vehicle.say("exploring")
    eventually(lambda: mapper.session.mission_state == "exploring")
    vehicle.drive(25)
    eventually(lambda: mapper.session.status.samples >= 20 and mapper.session.samples == 25)

    assert operator.change(Transition.TRANSITION_DEACTIVATE) and operator.state == "inactive"
    eventually(lambda: not vehicle.connected())
    assert not mapper.thread.alive
    kept, heard = mapper.session, len(vehicle.reports)
    vehicle.drive(25)  # to nobody
    assert kept.samples == 25 and len(vehicle.reports) == heard
    assert operator.change(Transition.TRANSITION_ACTIVATE)
    assert mapper.session is kept and kept.status.samples >= 20
    eventually(vehicle.connected)
    vehicle.drive(25)
    eventually(lambda: kept.status.samples >= 40)

    assert operator.change(Transition.TRANSITION_DEACTIVATE)
    assert operator.change(Transition.TRANSITION_CLEANUP) and operator.state == "unconfigured"
    assert operator.change(Transition.TRANSITION_CONFIGURE)
    assert mapper.session is not kept and mapper.session.status.samples == 0
    assert operator.change(label="shutdown") and operator.state == "finalized"
    assert not operator.change(label="configure")

    def ways():
        return [pair for pair in operator.events if pair[1] in ("inactive", "active")]

    wanted = [("configuring", "inactive"), ("activating", "active")]
    eventually(lambda: ways()[:2] == wanted)


@pytest.mark.parametrize("name", NODES)
def test_every_node_can_be_managed_and_survives_odd_requests(operator, name):
    """It leaves nothing behind, and begins anew each time."""
    node, operator = operator(name)
    bare = entities(node)
    for number, label in ((3, ""), (0, ""), (99, ""), (0, "nonsense"), (0, "\u00e4" * 5000)):
        assert not operator.change(number, label)
    assert operator.state == "unconfigured"
    for _ in range(2):
        assert operator.change(1)
        configured = entities(node)
        if name == "planner":
            assert node.mission.state == "waiting" and node.mission.position is None
            node.in_turn(node.mission.update_position, np.zeros(2), 0.0)
        assert operator.change(3) and node.active
        assert not operator.change(1) and not operator.change(2)
        assert operator.change(4) and entities(node) == configured
        assert operator.change(2) and entities(node) == bare and not node.configured
    offered = operator.ask(GetAvailableTransitions).available_transitions
    assert [way.transition.label for way in offered] == ["configure", "shutdown"]


def test_a_failed_transition_restores_the_state(operator):
    class Fragile(PlannerNode):
        broken = "configure"

        def configure(self):
            super().configure()
            if self.broken == "configure":
                raise InputError("a wrong value")

        def activate(self):
            super().activate()
            if self.broken == "activate":
                raise RuntimeError("no such luck")

    node, operator = operator("planner", Fragile)
    assert not operator.change(label="configure") and operator.state == "unconfigured"
    node.broken = "activate"
    assert operator.change(label="configure")
    assert not operator.change(label="activate") and operator.state == "inactive"
    node.broken = ""
    assert operator.change(label="activate") and operator.state == "active"


class Looks(BringUp):
    """Counts how often it has looked at its nodes."""

    looks = 0

    async def _poll(self):
        await super()._poll()
        self.looks += 1

    def some(self, eventually):
        before = self.looks
        eventually(lambda: self.looks >= before + 3)


def test_nodes_are_brought_up_in_order_and_again_after_a_restart(
    ros, eventually, ros_env, monkeypatch
):
    """The second waits for the first; what an operator takes down stays down."""
    monkeypatch.setattr("poam_ros.ros.common.bring_up.POLL_PERIOD_S", 0.3)
    command = node_command("planner", {"managed": True})
    bring_up = ros(lambda: Looks(["planner", "monitor"]))
    monitor = ros(MonitorNode, up=False, parameters={"managed": True})
    ruler = ros(lambda: Operator("planner", eventually))
    bring_up.some(eventually)
    assert not monitor.configured
    planner = subprocess.Popen(command, env=ros_env)
    try:
        eventually(lambda: monitor.active)
        assert ruler.state == "active"
        assert ruler.change(label="deactivate")
        bring_up.some(eventually)
        assert ruler.state == "inactive"
        planner.kill()
        planner.wait()
        ruler.heard.forget("planner/transition_event")
        planner = subprocess.Popen(command, env=ros_env)
        eventually(lambda: ("activating", "active") in ruler.events)
        assert monitor.active
    finally:
        planner.kill()
        planner.wait()
