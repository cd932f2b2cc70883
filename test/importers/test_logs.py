"""Logs as further programs write them: what a ground station, BlueOS or a driver leaves out."""

import json
import struct

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.importers.options import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

COUNT = 60
INDEX = np.arange(COUNT)
NORTH = 53.1 + 1e-5 * INDEX
EAST = -8.6 + 2e-5 * np.sin(INDEX / 9)
DEPTH = np.round(4 + np.sin(INDEX / 7), 2)
BEGIN = 1_748_822_370


def sent(ranges="DISTANCE_SENSOR", system=1, component=1, epoch=False, boots=1, ahead=False):
    """Seconds and packed messages of a boat each second: positions of its receiver, and ranges.

    ``system``, ``component``: of the sonar. ``epoch``: whether the receiver's times count from
    1970. ``boots``: how often the autopilot starts. ``ahead``: whether a sonar of its own looks
    ahead.
    """
    dialect = pytest.importorskip("pymavlink.dialects.v20.ardupilotmega")
    link, sonar = dialect.MAVLink(None, 1, 1), dialect.MAVLink(None, system, component)
    for i in range(COUNT):
        ms, place = 5000 + 1000 * (i % (COUNT // boots)), (int(1e7 * NORTH[i]), int(1e7 * EAST[i]))
        us = 10**6 * (BEGIN + i) if epoch else 1000 * ms
        gps = dialect.MAVLink_gps_raw_int_message(us, 3, *place, 0, 0, 0, 0, 0, 9)
        ping = dialect.MAVLink_rangefinder_message(DEPTH[i], 0.0)
        if ranges == "DISTANCE_SENSOR":
            values = ms, 10, 5000, round(100 * DEPTH[i]), 0, 0, 25, 0
            ping = dialect.MAVLink_distance_sensor_message(*values)
        other = dialect.MAVLink_distance_sensor_message(ms, 10, 5000, 900, 0, 0, 0, 0)
        for message, by in ((gps, link), (ping, sonar), *[(other, link)] * ahead):
            message.pack(by)
            yield BEGIN + i, message


def telemetry(path, torn=(), **how):
    """``torn``: numbers of messages whose time is nonsense."""
    path.write_bytes(b"".join(
        struct.pack(">Q", 2**64 - 1 if i in torn else 10**6 * s) + bytes(message.get_msgbuf())
        for i, (s, message) in enumerate(sent(**how))
    ))  # fmt: skip
    return path


def check(found, lost=1):
    assert COUNT - lost <= len(found) <= COUNT, found.refused
    number = np.abs(-found.z[:, None] - DEPTH).argmin(1)
    np.testing.assert_allclose(-found.z, DEPTH[number], atol=0.006)
    true = found.projection.local_metres(NORTH, EAST)
    apart = np.hypot(*(found.xy[:, None] - true[None]).transpose(2, 0, 1))
    near = np.abs(DEPTH[None] + found.z[:, None]) < 0.006
    assert (np.where(near, apart, np.inf).min(1) < 1.5).all()


@pytest.mark.parametrize(
    "how",
    [{"component": 194}, {"component": 194, "ahead": True}, {"system": 2, "component": 191},
     {"epoch": True},
     {"ranges": "RANGEFINDER"}, {"ranges": "RANGEFINDER", "epoch": True}, {"boots": 2}],
    ids=str,
)  # fmt: skip
def test_a_sonar_of_another_component_and_clocks_of_all_kinds(how, tmp_path):
    check(read_soundings(telemetry(tmp_path / "a.tlog", **how)))


def test_messages_at_impossible_times_are_counted(tmp_path):
    found = read_soundings(telemetry(tmp_path / "a.tlog", torn=(30, 31, 90)))
    assert found.refused["no_time"] == 3
    check(found, lost=4)


def test_a_recording_of_blueos_that_begins_with_video_is_recognised(tmp_path):
    path, writer = tmp_path / "log.mcap", pytest.importorskip("mcap.writer")
    with path.open("wb") as file:
        log = writer.Writer(file)
        log.start()
        schema = log.register_schema("foxglove_msgs/msg/CompressedVideo", "ros2msg", b"")
        video = log.register_channel("video", "cdr", schema)
        channel = log.register_channel("mavlink", "json", 0)
        for number, (seconds, message) in enumerate(sent()):
            if number % 5 == 0:
                log.add_message(video, seconds * 10**9, bytes(99), seconds * 10**9)
            fields = message.to_dict()
            fields["type"] = fields.pop("mavpackettype")
            text = json.dumps({"header": {}, "message": fields}).encode()
            log.add_message(channel, seconds * 10**9, text, seconds * 10**9)
        log.finish()
    assert find_reader(path) == "blueos"
    check(read_soundings(path))


def test_a_quality_of_0_in_a_log_of_ardupilot_is_no_reading(tmp_path):
    """On a link it is sent as 1, since 0 stands for an unknown one there; -1 is that of the log."""
    pytest.importorskip("pymavlink")
    lines = ["FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format,Columns",
             "FMT, 130, 30, GPS, QBBIHLL, TimeUS,I,Status,GMS,GWk,Lat,Lng",
             "FMT, 131, 30, RFND, QBCBBb, TimeUS,Instance,Dist,Stat,Orient,Quality"]  # fmt: skip
    for i in range(COUNT):
        us, bad = 10**6 * i, i % 5 == 4
        depth, quality = (2.5, 0) if bad else (DEPTH[i], (-1, 80)[i % 2])
        lines += [f"GPS, {us}, 0, 3, {1000 * i}, 2300, {NORTH[i]:.7f}, {EAST[i]:.7f}",
                  f"RFND, {us}, 0, {depth:.2f}, 4, 25, {quality}"]  # fmt: skip
    (tmp_path / "log.log").write_text("\n".join([*lines, ""]))
    found = read_soundings(tmp_path / "log.log")
    check(found, lost=1 + COUNT // 5)
    assert found.refused["nan"] == COUNT // 5


def bag(folder, release="ROS2_JAZZY", stamped=True, topics=("/sonar/depth",)):
    """Ranges on several topics, and a receiver's positions, 5 a second; of a lidar 0.5 m."""
    bags = pytest.importorskip("rosbags.rosbag2")
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores[release])
    kinds, second = store.types, 10**9
    fix, ranged = "sensor_msgs/msg/NavSatFix", "sensor_msgs/msg/Range"
    with bags.Writer(folder, version=8, storage_plugin=bags.StoragePlugin.SQLITE3) as writer:
        links = [writer.add_connection(name, ranged, typestore=store) for name in topics]
        places = writer.add_connection("/gps", fix, typestore=store)
        for i in range(COUNT):
            ns = (BEGIN + i) * second
            stamp = kinds["builtin_interfaces/msg/Time"](
                *(divmod(ns, second) if stamped else (0, 0))
            )
            header = kinds["std_msgs/msg/Header"](stamp, "sonar")
            status = kinds["sensor_msgs/msg/NavSatStatus"](0, 1)
            place = kinds[fix](header, status, NORTH[i], EAST[i], 0.0, np.zeros(9), 0)
            writer.write(places, ns, store.serialize_cdr(place, fix))
            for name, link in zip(topics, links, strict=True):
                distance = 0.5 if "lidar" in name else float(DEPTH[i])
                values = [0, 0.05, 0.1, 50.0, distance, 0.0][: 5 + (release != "ROS2_HUMBLE")]
                message = kinds[ranged](header, *values)
                writer.write(link, ns, store.serialize_cdr(message, ranged))
    return folder


@pytest.mark.parametrize("how", [{"release": "ROS2_HUMBLE"}, {"stamped": False}], ids=str)
def test_a_recording_of_humble_and_one_of_drivers_that_do_not_stamp(how, tmp_path):
    pytest.importorskip("pyproj")
    topics = {"odom_topic": "/gps", "range_topic": "/sonar/depth"}
    options = ReadOptions(settings={**topics, "odometry.timeout": 2.0}, trusted=True)
    found = read_soundings(bag(tmp_path / "dive", **how), options)
    assert len(found) == COUNT
    np.testing.assert_allclose(-found.z, DEPTH, atol=1e-5)
    np.testing.assert_allclose(np.ptp(found.xy[:, 1]), 111_270 * np.ptp(NORTH), rtol=0.01)


def test_a_lidar_is_not_offered_where_there_is_a_sonar(tmp_path):
    folder = bag(tmp_path / "dive", topics=("/lidar/range", "/sonar/depth"))
    with pytest.raises(InputError, match=r"--odom-topic /gps --range-topic /sonar/depth$"):
        read_soundings(folder)
