"""Recordings as `ros2 bag record` writes them, of a vehicle over the ground of `soundings.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from soundings import ground

from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.pings import RawPing

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def write_bag(folder: Path, storage: str, seconds: int = 60, topics: tuple[str, str] = ()) -> Path:
    """A bag folder: odometry at 5 Hz and pings at 2 Hz from a vehicle at 1 m/s, 1 m deep.

    ``storage``: mcap or sqlite3. ``topics``: of both; others then have no messages.
    """
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    names = topics or ("/odom", "/sonar/range")
    plugin = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}[storage]
    kinds = ("nav_msgs/msg/Odometry", "sensor_msgs/msg/Range")
    with Writer(folder, version=9, storage_plugin=plugin) as writer:
        links = [
            writer.add_connection(name, kind, typestore=store)
            for name, kind in zip(names, kinds, strict=True)
        ]
        for name, kind in zip(("/a/odom", "/a/range"), kinds if topics else (), strict=False):
            writer.add_connection(name, kind, typestore=store)
        for tick in range(10 * seconds + 1):
            time_ns = START + tick * SECOND // 10
            x, y = place(tick / 10)
            if tick % 2 == 0:
                data = store.serialize_cdr(_odometry(store, time_ns, x, y), kinds[0])
                writer.write(links[0], time_ns, data)
            if tick % 5 == 0:
                measured = float(-1.0 - ground(np.array(x), np.array(y)))
                data = store.serialize_cdr(_range(store, time_ns, measured), kinds[1])
                writer.write(links[1], time_ns, data)
    return folder


def write_plain_bag(
    folder: Path, kind: str, seconds: int = 60, storage: str = "mcap"
) -> Path:  # fmt: skip
    """Positions of a type without speeds on `/where`; Float64 on `/power/volts`, and of depths on
    `/sonar/depth`. ``storage``: mcap or sqlite3."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    package = "sensor_msgs" if kind == "NavSatFix" else "geometry_msgs"
    kinds = f"{package}/msg/{kind}", "std_msgs/msg/Float64"
    with Writer(folder, version=9, storage_plugin=StoragePlugin[storage.upper()]) as writer:
        links = [
            writer.add_connection(name, each, typestore=store)
            for name, each in zip(("/where", "/sonar/depth"), kinds, strict=True)
        ]
        links.append(writer.add_connection("/power/volts", kinds[1], typestore=store))
        for tick in range(10 * seconds + 1):
            time_ns = START + tick * SECOND // 10
            x, y = place(tick / 10)
            if tick % 2 == 0:
                message = _position(store, kind, time_ns, x, y)
                writer.write(links[0], time_ns, store.serialize_cdr(message, kinds[0]))
            if tick % 5 == 0:
                depth = store.types[kinds[1]](float(-ground(np.array(x), np.array(y))))
                writer.write(links[1], time_ns, store.serialize_cdr(depth, kinds[1]))
                volts = store.types[kinds[1]](14.8)
                writer.write(links[2], time_ns, store.serialize_cdr(volts, kinds[1]))
    return folder


def _position(store: Any, kind: str, time_ns: int, x: float, y: float) -> Any:
    kinds = store.types
    if kind != "NavSatFix":
        pose = _odometry(store, time_ns, x, y).pose
        body = pose if kind == "PoseWithCovarianceStamped" else pose.pose
        return kinds[f"geometry_msgs/msg/{kind}"](_header(store, time_ns, "map"), body)
    status = kinds["sensor_msgs/msg/NavSatStatus"](0, 1)
    north, east = 47.0 + y / 111_178.7, 8.0 + x / 76_055.6  # a degree on WGS 84 there, in m
    where = _header(store, time_ns, "gps"), status, north, east, 400.0, np.zeros(9), 0
    return kinds["sensor_msgs/msg/NavSatFix"](*where)


def write_events(folder: Path, record: list, wall: bool = False) -> Path:
    """A bag of a record of ``recorded``; ticks and the like leave no message.

    Besides, ``taken_over``: the mission's state when somebody else took the vehicle.

    ``wall``: messages are recorded in wall time, as ros2 bag does by itself, whatever their stamps.
    """
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    kinds = {
        "odometry": ("/odom", "nav_msgs/msg/Odometry", _odometry_of),
        "ping": ("/sonar/range", "sensor_msgs/msg/Range", _range_of),
        "mission": ("/mission/state", "std_msgs/msg/String", _text_of),
        "taken_over": ("/mission/taken_over", "std_msgs/msg/String", _text_of),
    }
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        links = {
            name: writer.add_connection(topic, kind, typestore=store)
            for name, (topic, kind, _) in kinds.items()
        }
        for now, name, args in record:
            if name in kinds:
                _, kind, write = kinds[name]
                data = store.serialize_cdr(write(store, args[0]), kind)
                time_ns = START + round(now.steady_s * SECOND) if wall else now.ros_ns
                writer.write(links[name], time_ns, data)
    return folder


def _odometry_of(store: Any, state: VehicleState) -> Any:
    message = _odometry(store, state.stamp_ns, *state.position[:2])
    pose = message.pose.pose
    pose.position.z = state.position[2]
    q = pose.orientation
    q.x, q.y, q.z, q.w = map(float, state.quaternion)
    return message


def _range_of(store: Any, ping: RawPing) -> Any:
    message = _range(store, ping.stamp_ns, ping.range)
    message.min_range, message.max_range = ping.min_range, ping.max_range
    return message


def _text_of(store: Any, text: str) -> Any:
    return store.types["std_msgs/msg/String"](text)


def place(seconds: float) -> tuple[float, float]:
    """Where the vehicle is."""
    return seconds, 5.0


def _header(store: Any, time_ns: int, frame: str) -> Any:
    stamp = store.types["builtin_interfaces/msg/Time"](time_ns // SECOND, time_ns % SECOND)
    return store.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)


def _odometry(store: Any, time_ns: int, x: float, y: float) -> Any:
    kinds = store.types
    point, vector = kinds["geometry_msgs/msg/Point"], kinds["geometry_msgs/msg/Vector3"]
    attitude = kinds["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
    pose = kinds["geometry_msgs/msg/Pose"](point(x, y, -1.0), attitude)
    twist = kinds["geometry_msgs/msg/Twist"](vector(1.0, 0.0, 0.0), vector(0.0, 0.0, 0.0))
    unknown = np.zeros(36)
    return kinds["nav_msgs/msg/Odometry"](
        _header(store, time_ns, "map"),
        "base_link",
        kinds["geometry_msgs/msg/PoseWithCovariance"](pose, unknown),
        kinds["geometry_msgs/msg/TwistWithCovariance"](twist, unknown),
    )


def _range(store: Any, time_ns: int, measured: float) -> Any:
    header = _header(store, time_ns, "sonar_link")
    return store.types["sensor_msgs/msg/Range"](header, 0, 0.05, 0.5, 100.0, measured, 0.0)
