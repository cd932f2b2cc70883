"""A mission over real topics, recorded at the mapper's session: what it replays to."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("torch")

from rclpy.parameter import Parameter
from recorded import check_replayed

from poam_ros.ros.nodes.mapper import MapperNode
from poam_ros.ros.nodes.planner import PlannerNode
from poam_ros.ros.nodes.simulator import SimulatorNode

pytestmark = pytest.mark.ros

EVERY = {"use_sim_time": True, "workspace": [-8.0, 8.0, -8.0, 8.0]}
SIMULATOR = {
    "terrain": "seamounts", "speed": 20.0, "wait_for_mission": True, "latency": 0.3,
    "dropout": 0.1, "outlier": 0.05, "nan": 0.05, "inf": 0.05,
}  # fmt: skip
MAPPER = {"num_inducing": 40, "steps": 2, "minibatch": 32, "range_time_offset": -0.3}
PLANNER = {"pilot": "lawnmower", "max_samples": 250, "autostart": True}


def test_a_ring_mission_replays_to_the_same_refusals_and_samples(ros, eventually):
    def start(kind, up=True, **values):
        overrides = [Parameter(name, value=value) for name, value in {**EVERY, **values}.items()]
        return ros(kind, up=up, parameter_overrides=overrides)

    mapper, record = start(MapperNode, up=False, **MAPPER), []
    mapper.configure()
    mapper.session.record = lambda now, event: record.append((now, event))
    mapper.activate()
    start(PlannerNode, **PLANNER)
    start(SimulatorNode, **SIMULATOR)
    session = mapper.session
    eventually(lambda: session.status.finished, timeout=180, what="the mission does not end")
    mapper.deactivate()  # nothing more is heard
    assert session.gate.accepted >= 250 and session.status.updates > 3
    assert {"nan", "no_return", "too_close", "out_of_range"} <= set(session.gate.rejected)
    check_replayed(record, session)
