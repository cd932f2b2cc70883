"""`~/save_map` and `map/tvu` of the mapper, on real rclpy; the files are read back."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import Feeder
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64
from std_srvs.srv import Trigger
from toy import Toy, ToyOptions

from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.outputs.run import Run
from poam_ros.planning.tvu import tvu_ratio
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.messages import read_map_cloud
from poam_ros.ros.node import LATCHED, SENSOR_PUBLISH

pytestmark = pytest.mark.ros
GIVEN = {
    "method": "toy", "screening.enabled": False, "resolution": 5.0, "batch.size": 20,
    "odometry.vertical": "",
    "batch.period": 3600.0, "pilot_samples": 60,
    # The feeder's vehicle is 100 m above the datum: so the sonar is at 0, and the ground below it.
    "sonar.offset": [0.0, 0.0, -100.0],
}  # fmt: skip


@pytest.fixture
def ring(ros, eventually, monkeypatch):
    """`ring(**parameters)`: a mapper, a vehicle and an operator; `ask()` is ~/save_map's answer."""
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))

    def make(mapped=True, **changed):
        mapper, vehicle = ros(MapperNode, parameters=GIVEN | changed), ros(Feeder)
        client = vehicle.create_client(Trigger, "mapper/save_map")
        eventually(vehicle.connected)
        eventually(client.service_is_ready)

        def ask():
            future = client.call_async(Trigger.Request())
            eventually(future.done)
            return future.result()

        if mapped:
            feed(vehicle, mapper, eventually)
        return SimpleNamespace(mapper=mapper, vehicle=vehicle, ask=ask)

    return make


def feed(vehicle, mapper, eventually):
    """Drive until there is a map; the transport may lose pings, so some more."""
    vehicle.say("exploring")
    eventually(lambda: mapper.session.pilot.state == "exploring")

    def mapped():
        vehicle.drive(20)
        return mapper.session.map

    eventually(mapped)


def test_a_map_of_a_simulation_says_so_wherever_it_is_saved(ros, ring, tmp_path):
    """Also in exports; a mission of a vehicle does not."""
    for simulated in (False, True):
        p = ring(output=str(tmp_path / str(simulated)), simulated=simulated)
        assert p.ask().success
        ros.end(p.mapper, p.vehicle)
        (folder,) = (tmp_path / str(simulated) / "saved").iterdir()
        assert Run.open(folder).simulated == simulated
        said = read_chart(folder, ExportSettings()).provenance
        assert ("SIMULATED" in said["title"]) == simulated


def test_maps_are_saved_completely_and_side_by_side(ring, eventually, tmp_path):
    p = ring(output=str(tmp_path), origin=[17.5, -91.2], heading=30.0, **{"water.level": 1.5})
    first = p.ask()
    assert first.success, first.message
    (folder,) = (tmp_path / "saved").iterdir()
    samples = read_map(folder / "map.npz").samples
    assert folder.name == f"map-001-{samples}-samples" and str(folder) in first.message
    names = {"config.yaml", "map.npz", "samples.csv"}
    assert {path.name for path in folder.iterdir()} == names | {"SHA256SUMS"}
    assert all(name in first.message for name in names)
    pings = read_table(folder / "samples.csv")
    assert len(pings["z"]) == samples and pings["z"].max() < -50
    place = {"origin": (17.5, -91.2), "heading": 30.0, "water_level": 1.5}
    assert Run.open(folder).recorded == place

    tide = p.vehicle.create_publisher(Float64, "water_level", SENSOR_PUBLISH)
    eventually(lambda: tide.get_subscription_count())

    def heard():
        tide.publish(Float64(data=2.5))
        return p.mapper.session.front_end.level(p.mapper.moment) == 2.5

    eventually(heard)
    assert p.ask().success
    earlier, later = sorted((tmp_path / "saved").iterdir())
    assert earlier == folder and later.name.startswith("map-002-")
    level = Run.open(later).node("mapper")["water.level"]
    assert level == 2.5


def test_the_answer_says_why_nothing_is_saved(ring, eventually, tmp_path):
    p = ring(mapped=False, output=str(tmp_path))
    answer = p.ask()
    assert not answer.success and "there is no map yet" in answer.message
    feed(p.vehicle, p.mapper, eventually)
    (tmp_path / "saved").write_text("in the way")
    answer = p.ask()
    assert not answer.success and "nothing is saved: cannot write (" in answer.message
    (tmp_path / "saved").unlink()
    answer = p.ask()
    assert answer.success, answer.message


def test_without_a_folder_the_answer_names_the_parameters(ring):
    answer = ring().ask()
    assert not answer.success and "set the parameter output or mission_dir" in answer.message


def test_map_tvu_shows_the_ratio_to_the_order_s_tvu(ring, eventually):
    p = ring(mapped=False, **{"target.tvu": "2"})
    heard = p.vehicle.heard
    p.vehicle.listen(PointCloud2, "map/points", LATCHED)
    p.vehicle.listen(OccupancyGrid, "map/tvu", LATCHED)
    eventually(lambda: heard["map/tvu"] and set(heard["map/tvu"][0].data) == {-1})  # no map yet
    feed(p.vehicle, p.mapper, eventually)

    def pair():
        stamps = {str(layer.header.stamp): layer for layer in heard["map/tvu"]}
        clouds = heard["map/points"]
        return [(c, stamps[key]) for c in clouds if (key := str(c.header.stamp)) in stamps]

    cloud, layer = eventually(pair)[-1]
    drawn, shown = read_map_cloud(cloud), np.array(layer.data).reshape(12, 12)
    part = tvu_ratio("2", -drawn.mean, np.sqrt(drawn.variance))
    assert drawn.density.sum() > 0  # and says where its pings are
    assert (shown[part > 1 + 1e-6] > 50).all() and (shown[part < 1 - 1e-6] <= 50).all()
    np.testing.assert_allclose(shown, np.clip(50 * part, 0, 100), atol=1.01)
