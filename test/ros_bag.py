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
#: Of types of messages.
PACKAGES = {
    "Odometry": "nav_msgs", "NavSatFix": "sensor_msgs", "Range": "sensor_msgs",
    "Float64": "std_msgs", "PoseStamped": "geometry_msgs",
    "PoseWithCovarianceStamped": "geometry_msgs",
}  # fmt: skip


def write_bag(
    folder: Path, storage: str = "mcap", seconds: int = 60,
    topics: tuple[str, str] = ("/odom", "/sonar/range"),
    kinds: tuple[str, str] = ("Odometry", "Range"), others: Any = (), release: str = "ROS2_JAZZY",
    stamped: bool = True,
) -> Path:  # fmt: skip
    """A bag folder: positions at 5 Hz and ranges at 2 Hz of a vehicle at 1 m/s, 1 m deep.

    ``storage``: mcap or sqlite3. ``topics``: of both, of types ``kinds``. ``others``: further
    topics: name, type and a number that is sent with the ranges; None: there is no message.
    ``stamped``: whether the messages have times of their own.
    """
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores[release])
    with Writer(folder, version=9, storage_plugin=StoragePlugin[storage.upper()]) as writer:
        links = {
            name: writer.add_connection(name, f"{PACKAGES[kind]}/msg/{kind}", typestore=store)
            for name, kind, *_ in [*zip(topics, kinds, strict=True), *others]
        }

        def write(name: str, kind: str, ns: int, x: float, y: float, measured: float) -> None:
            message = _message(store, kind, stamped * ns, x, y, measured)
            data = store.serialize_cdr(message, links[name].msgtype)
            writer.write(links[name], ns, data)

        for tick in range(10 * seconds + 1):
            at = START + tick * SECOND // 10, *place(tick / 10)
            measured = float(-1.0 - ground(*map(np.array, at[1:])))
            if tick % 2 == 0:
                write(topics[0], kinds[0], *at, measured)
            if tick % 5 == 0:
                write(topics[1], kinds[1], *at, measured)
                for name, kind, number in others:
                    if number is not None:
                        write(name, kind, *at, number)
    return folder


def _message(store: Any, kind: str, time_ns: int, x: float, y: float, measured: float) -> Any:
    kinds = store.types
    if kind == "Odometry":
        return _odometry(store, time_ns, x, y)
    if kind == "Range":
        return _range(store, time_ns, measured)
    if kind == "Float64":
        return kinds["std_msgs/msg/Float64"](measured)
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
    kind, variance = store.types["sensor_msgs/msg/Range"], (0.0,)
    values = _header(store, time_ns, "sonar_link"), 0, 0.05, 0.5, 100.0, measured
    return kind(*values, *variance * ("variance" in kind.__dataclass_fields__))  # Humble's has none
