"""Recordings without ROS 2: both storages, torn files, topics, and the front_end's refusals."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="recordings need the extra `bags`")
pytest.importorskip("mcap", reason="recordings need the extra `bags`")

from read_only import read_only
from recorded import recorded
from ros_bag import START, place, write_bag, write_events
from soundings import ground

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.errors import InputError, Question
from poam_ros.core.settings import values_of
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.pings import RawPing
from poam_ros.importers.bags import read_recording
from poam_ros.importers.options import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.models.registry import ModelSettings, SparseOptions
from poam_ros.screening import ScreeningSettings
from poam_ros.simulation.lockstep import LockstepMission
from poam_ros.simulation.settings import MissionSettings
from poam_ros.simulation.simulator import SonarSettings
from poam_ros.simulation.terrain import load_terrain

FILES = {"mcap": ".mcap", "sqlite3": ".db3"}
#: Where the vehicle of ``write_bag`` pings.
PLACE = np.array([place(0.5 * k) for k in range(121)])


def read(path, **settings):
    return read_recording(path, ReadOptions(settings=settings))


def driven(max_samples, **settings):
    """A mission at its end, what it took, and the settings of its front end by name."""
    model = ModelSettings(options=SparseOptions(num_inducing=40, steps=1, minibatch=16))
    settings = {"policy": "deployed", "model": model, "max_samples": max_samples, **settings}
    mission = LockstepMission(load_terrain("seamounts"), MissionSettings(**settings))
    record, placing = recorded(mission.session), mission.session.front_end.settings
    list(mission.epochs())
    return mission.session, record, {**values_of(placing), "workspace": placing.workspace.bounds}


def only_file(folder):
    (file,) = (path for path in folder.iterdir() if path.suffix in FILES.values())
    return file


@pytest.mark.parametrize(
    ("how", "whole_folder"),
    [({}, True), ({}, False), ({"storage": "sqlite3"}, True), ({"storage": "sqlite3"}, False),
     ({"release": "ROS2_HUMBLE"}, True), ({"storage": "sqlite3", "release": "ROS2_HUMBLE"}, True),
     ({"stamped": False}, True)],
)  # fmt: skip
def test_pings_are_placed_as_the_live_mapper_does(how, whole_folder, tmp_path):
    folder = write_bag(tmp_path / "dive", **how)
    found = read(folder if whole_folder else only_file(folder))
    assert len(found) == 121 and not found.refused
    np.testing.assert_allclose(found.xy, PLACE, atol=1e-9)
    np.testing.assert_allclose(found.z, ground(*PLACE.T), atol=1e-5)  # ranges are float32
    np.testing.assert_allclose(found.pings.range, -1 - found.z)
    assert found.source["understood"] == "positions on /odom, ranges on /sonar/range"


@pytest.mark.parametrize("storage", FILES)
def test_a_recording_that_was_cut_off_is_read_up_to_there(storage, tmp_path):
    """Half of a file of more than one chunk, and a database with damaged pages."""
    folder = write_bag(tmp_path / "dive", storage, seconds=1200)
    whole, file = read(folder), only_file(folder)
    data = file.read_bytes()
    left = data[: len(data) // 2]
    file.write_bytes(left + bytes(len(data) - len(left)) * (storage == "sqlite3"))
    (folder / "metadata.yaml").unlink()  # it is written when the recording ends
    found = read(folder)
    assert 100 < len(found) < 2300
    np.testing.assert_array_equal(found.z, whole.z[: len(found)])
    assert found.source["understood"].startswith(f"{file.name} is cut short (")


def test_a_database_on_a_disk_that_cannot_be_written_is_read(tmp_path):
    """rosbag2 writes ahead, and a file stays one of that kind."""
    folder = write_bag(tmp_path / "dive", "sqlite3", seconds=30)
    with closing(sqlite3.connect(only_file(folder))) as db:
        assert db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    whole = read(folder)
    for file in folder.glob("*.db3-*"):  # of that reading; a disk that is read-only has none
        file.unlink()
    with read_only(folder) as there:
        found = read(there)
    np.testing.assert_array_equal(found.z, whole.z)


#: Topics without messages, of what looks above the water, and of another number.
OTHERS = [
    ("/a/odom", "Odometry", None), ("/a/range", "Range", None), ("/lidar/range", "Range", 0.5),
    ("/power/volts", "Float64", 14.8),
]  # fmt: skip


@pytest.mark.parametrize(
    ("storage", "kinds"),
    [("mcap", ("Odometry", "Range")), ("sqlite3", ("Odometry", "Range")),
     ("mcap", ("NavSatFix", "Float64")), ("sqlite3", ("PoseStamped", "Float64")),
     ("mcap", ("PoseWithCovarianceStamped", "Float64"))],
)  # fmt: skip
def test_topics_and_times_are_chosen(storage, kinds, tmp_path):
    """And those that fit are offered, but a water level not as a range."""
    topics, named = ("/where", "/sonar/depth"), {"odom_topic": "/where"}
    folder = write_bag(tmp_path / "dive", storage, topics=topics, kinds=kinds, others=OTHERS)
    words = r"has messages on /lidar.*: poam map \S*dive --odom-topic /where --range-topic /sonar/d"
    for said in ({}, {**named, "level_topic": "/power/volts"}):
        with pytest.raises(InputError, match=words + "epth$"):
            read(folder, **said)
    named["range_topic"] = "/sonar/depth"
    found = read(folder, **named)
    np.testing.assert_allclose(found.xy - found.xy[0], PLACE[: len(found)] - PLACE[0], atol=0.01)
    z = ground(*PLACE.T)[: len(found)] + (kinds[0] == "NavSatFix")  # of a boat
    np.testing.assert_allclose(found.z, z, atol=1e-5)
    assert len(found) >= 120 and ("origin" in found.source) == (kinds[0] == "NavSatFix")
    part = read_recording(folder, ReadOptions(settings=named, start=10, stop=20))
    assert ((part.stamp_ns[[0, -1]] - START) / SECOND).tolist() == [10, 20]
    with pytest.raises(InputError, match=r"expected nav_msgs/msg/Odometry or .* on /sonar/depth"):
        read(folder, odom_topic="/sonar/depth", range_topic="/x")
    if storage == "sqlite3":  # which reads no bytes of other types
        with closing(sqlite3.connect(only_file(folder))) as db, db:
            db.execute("UPDATE topics SET type = 'std_msgs/msg/Int32' WHERE name = '/where'")
        with pytest.raises(InputError, match="on /where, got std_msgs/msg/Int32"):
            read(folder, **named)


def test_what_is_no_recording_is_said(tmp_path):
    with pytest.raises(InputError, match="expected a rosbag2 folder"):
        read(tmp_path)
    for name, words in (("a.mcap", "expected an MCAP file"), ("a.db3", "rosbag2 database")):
        (tmp_path / name).write_bytes(b"nothing of the kind, but long enough to be looked at")
        with pytest.raises(InputError, match=words):
            read(tmp_path / name)


def test_a_recorded_mission_gives_the_samples_that_it_took(tmp_path):
    """The same pings, the same refusals; to the float32 of the message, which ranges come in."""
    sonar = SonarSettings(dropout=0.1, outlier=0.05, nan=0.04, inf=0.06, latency=0.5)
    session, record, placing = driven(300, sonar=sonar)
    folder, ledger = write_events(tmp_path / "mission", record), session.front_end.ledger
    found, lived = read(folder, **placing), session.all_samples()
    assert len(found) == len(lived) == 300
    np.testing.assert_allclose(found.xy, lived.xy, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.z, lived.z, rtol=0, atol=1e-4)
    assert found.refused == ledger.rejected and sum(ledger.rejected.values()) > 20
    again = {
        (part.reason, number, stamp): tuple(xyz[:2])
        for part in found.left_out
        for number, (stamp, xyz) in enumerate(zip(part.stamp_ns, part.xyz, strict=True))
    }
    lived = {row[:3]: row[3:][:2] for row in ledger.refused.rows}
    known = [key for key in lived if np.isfinite(lived[key]).all()]
    assert again.keys() >= lived.keys() and len(known) > 20
    places = [[every[key] for key in known] for every in (lived, again)]
    np.testing.assert_allclose(*places, rtol=0, atol=1e-9)


def test_pings_of_a_take_over_are_read_and_those_of_a_pause_refused(tmp_path):
    _, record, placing = driven(60)
    half = len(record) // 2
    pause = [(record[half][0], "mission", ["paused"])]
    taken = [(record[half][0], "taken_over", ["exploring"])]
    rest = [each for each in record[half:] if each[1] != "mission"]
    for name, events, all_mapped in (("pause", pause, False), ("taken", taken + pause, True)):
        found = read(write_events(tmp_path / name, [*record[:half], *events, *rest]), **placing)
        assert (len(found) == 60) == all_mapped and ("paused" in found.refused) != all_mapped


def test_a_recorded_screened_mission_gives_the_pings_that_it_believed(tmp_path):
    """By the batches of a mapper that keeps up, the same model knows as much at each judgement."""
    small = {"method": "nngp", "nngp.hidden": 8, "nngp.lattice": 8, "nngp.first_steps": 20,
             "nngp.early_steps": 2}  # fmt: skip
    sonar = SonarSettings(dropout=0.1, latency=0.5, false_echo=0.1, max_range=2000.0)
    how = {"model": ModelSettings.of(small), "screening": ScreeningSettings(True), "seed": 1}
    session, record, placing = driven(600, sonar=sonar, **how)
    lived, how = session.all_samples(), SoundingMapSettings(**how)
    found = read(write_events(tmp_path / "mission", record), **placing)
    assert len(found.batches(how)) == session.status.updates > 1
    mapper, _, withdrawn = learn(found, session.mapper.workspace, how)
    stamps = [np.sort(each.stamp_ns) for each in (withdrawn, session.withdrawn)]
    np.testing.assert_array_equal(*stamps)
    assert len(withdrawn) > 20
    np.testing.assert_array_equal(mapper.data.stamp_ns, lived.stamp_ns)


def test_pings_that_cannot_be_one_survey_are_asked_about(tmp_path):
    """The same look as at a table; the vehicle went along a straight line."""
    folder = write_bag(tmp_path / "dive")
    with pytest.raises(Question, match="without an area"):
        read_soundings(folder)
    assert len(read_soundings(folder, ReadOptions(trusted=True))) == 121


@pytest.mark.parametrize(
    ("z", "vertical", "named"), [(408.0, "", True), (408.0, "datum", False), (-0.4, "", False)]
)
def test_an_altitude_as_z_is_named(tmp_path, z, vertical, named):
    """The map is at that height all the same: it may be meant."""
    record = []
    for i in range(100):
        now = Moment(i * SECOND, float(i))
        record.append((now, "odometry", [VehicleState(i * SECOND, (float(i), 0.0, z))]))
        record.append((now, "ping", [RawPing(i * SECOND, 5.0 + i % 3, 0.1, 50.0)]))
    found = read(write_events(tmp_path / "bag", record), **{"odometry.vertical": vertical})
    assert len(found) == 100 and found.pings.z[0] == pytest.approx(z - 5)
    said = "z of 100 positions is more than 1 m above the water" in found.source["understood"]
    assert said == named
