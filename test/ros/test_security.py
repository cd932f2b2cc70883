"""The policy (config/security) allows what the nodes do, and names nothing by a wildcard."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

from rclpy.node import Node

from poam_ros.ros.common.bring_up import BringUp
from poam_ros.ros.mapper.node import MapperNode
from poam_ros.ros.mavlink.node import MavlinkNode
from poam_ros.ros.monitor.node import MonitorNode
from poam_ros.ros.planner.node import PlannerNode
from poam_ros.ros.simulator.node import SimulatorNode

pytestmark = pytest.mark.ros
POLICY = ET.parse(Path(__file__).parents[2] / "config" / "security" / "poam.policy.xml").getroot()
PROFILES = {profile.get("node"): profile for profile in POLICY.iter("profile")}
KINDS = {
    "mapper": MapperNode, "planner": PlannerNode, "simulator": SimulatorNode,
    "monitor": MonitorNode, "mavlink": MavlinkNode,
}  # fmt: skip
#: How rclpy's view of a node is called, and where the policy has it.
OPENED = {
    "publisher": ("topics", "publish"), "subscriber": ("topics", "subscribe"),
    "service": ("services", "reply"), "client": ("services", "request"),
}  # fmt: skip


def allowed(node, what):
    """Full names of what the policy allows a node."""
    section, how = OPENED[what]
    names = [
        expression.text
        for part in PROFILES[node].iter(section)
        if part.get(how) == "ALLOW"
        for expression in part
    ]
    full = {"~": lambda name: f"/{node}{name[1:]}", "/": lambda name: name}
    return {full.get(name[0], lambda name: f"/{name}")(name) for name in names}


def opened(node, what):
    pairs = getattr(node, f"get_{what}_names_and_types_by_node")(node.get_name(), "/")
    return {name for name, _ in pairs}


@pytest.mark.parametrize("name", [*KINDS, "bring_up"])
def test_the_policy_allows_what_a_node_opens(name, ros, eventually):
    if name == "mavlink":
        pytest.importorskip("pymavlink")
    given = {"managed": True} | ({"origin": [47.3, 8.55]} if name == "mavlink" else {})
    if name == "bring_up":
        node = ros(lambda: BringUp(["mapper", "planner"]))
    else:
        node = ros(KINDS[name], parameters=given)
    eventually(lambda: f"/{name}/get_parameters" in opened(node, "service"))
    for what in OPENED:
        missing = opened(node, what) - allowed(name, what)
        assert not missing, f"not in config/security/poam.policy.xml, {what} of {name}: {missing}"


def test_the_policy_lets_the_doctor_subscribe(ros):
    node = ros(lambda: Node("poam_doctor"))
    assert "/diagnostics" in allowed("poam_doctor", "subscriber")
    for what in OPENED:
        assert opened(node, what) <= allowed("poam_doctor", what)


def test_the_policy_holds_no_wildcard_and_an_enclave_for_each_node():
    enclaves = {enclave.get("path") for enclave in POLICY.iter("enclave")}
    assert {f"/poam/{name}" for name in KINDS} <= enclaves
    expressions = [e.text for p in PROFILES.values() for part in p for e in part]
    assert expressions and not any("*" in text for text in expressions)
