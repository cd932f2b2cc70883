"""A mission over real topics, recorded at the mapper's session: what it replays to."""

import pytest

pytest.importorskip("rclpy")

import numpy as np
from recorded import recorded
from ros_bag import write_events

from poam_ros.app.cli import main
from poam_ros.core.settings import values_of
from poam_ros.importers.options import ReadOptions
from poam_ros.journal.folder import read_mission
from poam_ros.journal.tables import UPDATE
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.planner import PlannerNode
from poam_ros.ros.simulator import SimulatorNode

pytestmark = pytest.mark.ros

EVERY = {"use_sim_time": True, "workspace": [-8.0, 8.0, -8.0, 8.0]}
SIMULATOR = {
    "terrain": "seamounts", "speed": 20.0, "wait_for_mission": True, "sonar.latency": 0.3,
    "sonar.dropout": 0.1, "sonar.outlier": 0.05, "sonar.nan": 0.05, "sonar.inf": 0.05,
}  # fmt: skip
PLANNER = {"planner": "max-entropy", "pilot": "diagonal", "autostart": True}


#: As a robot's mapper is set, with a model that is quick.
KEPT = {
    "method": "nngp", "nngp.hidden": 8, "nngp.lattice": 8, "nngp.first_steps": 20,
    "nngp.early_steps": 2,
    "screening.enabled": True, "sonar.time_offset": -0.3, "odometry.vertical": "datum",
}  # fmt: skip


class Recorded(MapperNode):
    """Records what its session is told."""

    def _open_session(self):
        super()._open_session()
        self.record = recorded(self.session)


@pytest.fixture
def ring(ros, eventually):
    """Called with the mapper's settings: the mapper after a mission, and what it was told."""

    def start(kind, **values):
        return ros(kind, parameters=EVERY | values)

    def sail(sonar=SIMULATOR, samples=250, **settings):
        mapper = start(Recorded, **settings)
        start(PlannerNode, **PLANNER, max_samples=samples)
        start(SimulatorNode, **sonar)
        status = mapper.session.status
        eventually(lambda: status.finished, what="the mission does not end")
        ros.end(mapper)  # nothing more is heard
        return mapper, mapper.record

    return sail


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_a_recorded_ring_mission_is_mapped_as_it_was_lived(ring, eventually, tmp_path):
    """From the recording the same pings; from the mission's log the same map, although some pings
    were withdrawn."""
    pytest.importorskip("rosbags", reason="recordings need the extra `bags`")
    pytest.importorskip("mcap", reason="recordings need the extra `bags`")
    from poam_ros.importers.bags import read_recording

    mission, out = tmp_path / "mission", tmp_path / "out"
    sonar = SIMULATOR | {"speed": 10.0, "sonar.false_echo": 0.1, "sonar.max_range": 2000.0}
    mapper, record = ring(sonar, 150, **KEPT, mission_dir=str(mission))
    session, front_end = mapper.session, mapper.session.front_end
    lived, drawn = session.all_samples(), session.map

    def kept():
        past = read_mission(mission).logged
        return (
            len(past.samples) == session.stored
            and sum(step.kind == UPDATE for step in past.steps) == session.status.updates
        )

    eventually(kept, what="the log is not written")
    assert len(session.withdrawn) > 0 and session.status.updates > 0
    bag = write_events(tmp_path / "bag", record, wall=True)

    settings = front_end.settings
    given = {**values_of(settings), "workspace": settings.workspace.bounds}
    placed = read_recording(bag, ReadOptions(settings=given)).pings
    assert len(placed) == session.stored == len(lived) + len(session.withdrawn)
    same = np.isin(placed.stamp_ns, lived.stamp_ns)
    assert same.sum() == len(lived)
    np.testing.assert_array_equal(placed.xy[same], lived.xy)
    np.testing.assert_array_equal(placed.z[same], lived.z)

    assert main(["map", str(mission), "--output", str(out)]) == 0
    found = read_table(out / "samples.csv", ("x", "y", "z"))
    written = np.column_stack((found["x"], found["y"], found["z"]))
    np.testing.assert_array_equal(written, np.round(np.column_stack((lived.xy, lived.z)), 3))
    again = read_map(out / "map.npz")
    np.testing.assert_array_equal(again.grid.x, drawn.grid.x)
    shown = np.isfinite(again.mean)  # a survey's map ends beyond its soundings
    assert shown[again.grid.counted(lived.xy) > 0].all()
    np.testing.assert_allclose(again.mean[shown], drawn.mean[shown], rtol=0, atol=1e-6)
    np.testing.assert_allclose(again.variance[shown], drawn.variance[shown], rtol=0, atol=1e-6)
