"""docs/interfaces.md lists what each node subscribes to, publishes and serves."""

import re

import pytest
from pages import ROOT, tables

pytest.importorskip("rclpy")

from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.monitor import MonitorNode
from poam_ros.ros.parameters import NODES
from poam_ros.ros.planner import PlannerNode
from poam_ros.ros.simulator import SimulatorNode

pytestmark = pytest.mark.ros
KINDS = {
    "mapper": MapperNode, "planner": PlannerNode, "simulator": SimulatorNode,
    "monitor": MonitorNode,
}  # fmt: skip
#: What rclpy, or a package that may be missing, opens as well.
OTHERS = {"/rosout", "/parameter_events", "/tf", "/tf_static", "/mavros/state"}
ROWS = {
    re.findall(r"`(\w+)`", row["node"])[0]: row
    for row in next(t for t in tables(ROOT / "docs" / "interfaces.md") if t and "node" in t[0])
}


def documented(row, column):
    return {f"/{name.strip('/')}" for name in re.findall(r"`([a-z/][\w/]*)`", row[column])}


@pytest.mark.parametrize("name", NODES)
def test_the_table_lists_what_a_node_opens(name, ros, eventually):
    given = {"use_sim_time": True} if name == "simulator" else None  # it publishes the clock then
    node, row = ros(KINDS[name], parameters=given), ROWS[name]

    def opened(what):
        pairs = getattr(node, f"get_{what}_names_and_types_by_node")(name, "/")
        return {topic: kinds for topic, kinds in pairs if topic not in OTHERS}

    def differences():
        """What is documented and not opened, or the other way round; by kind."""
        served = {n for n, kinds in opened("service").items() if "std_srvs/srv/Trigger" in kinds}
        heard = opened("subscriber").keys() - {"/clock"}  # rclpy's, with use_sim_time
        said = re.findall(r"`~(/\w+)`", row["services (`std_srvs/Trigger`)"])
        return [
            documented(row, "subscribes") ^ heard,
            documented(row, "publishes") ^ opened("publisher").keys(),
            served ^ {f"/{name}{service}" for service in said},
        ]

    # Its own graph becomes known only by and by.
    eventually(lambda: not any(differences()), timeout=60.0, what=f"the table of {name}")
