"""Soundings of a rosbag2 recording, by the live mapper's front end in event time. No ROS 2.

Files (folders, MCAP, SQLite) are read from the front, in the order of recording. One cut off by a
power failure has neither index nor end: it is read up to the cut.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, pasted, quantity, requires_extra
from ..core.geodesy import GeoReference
from ..core.geometry import Extent
from ..core.reading import RECORD_FACTOR, allowance, refuse_larger
from ..core.samples import SampleQueue, Samples, TimedBatches
from ..core.settings import Settings, instance, nested, setting, values_of
from ..frontend.events import mapped_state
from ..frontend.front_end import ABOVE_WATER, MAX_ABOVE, OVERLOAD, FrontEnd
from ..frontend.odometry import OdometryRefused, VehicleState, read_odometry, read_pose, stamp_to_ns
from ..frontend.pings import FrontEndSettings, RawPing, read_range
from ..frontend.refused_pings import RefusedPing, RefusedPings
from ..journal.folder import plain
from ..journal.tables import OTHERS, read_only
from ..mapping.soundings import LeftOut, Soundings
from .options import ReadOptions

SUFFIXES = (".mcap", ".db3")
#: Types of positions and of ranges, the better first; and of states.
POSITIONS = (
    "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped", "sensor_msgs/msg/NavSatFix",
)  # fmt: skip
RANGES = "sensor_msgs/msg/Range", "std_msgs/msg/Float64", "std_msgs/msg/Float32"
#: In the last part of a topic's name: what a number is the range of.
NAMED = re.compile(r"depth|range|distance|sonar|ping|echo|altitude", re.IGNORECASE)
#: In a topic's name: what measures above the water.
ABOVE = re.compile(r"lidar|laser|radar|infrared|ultrasonic", re.IGNORECASE)
STATE = ("std_msgs/msg/String",)


@dataclass(frozen=True)
class BagSettings(Settings):
    """Topics of a recording, and the part of it that is read."""

    odom_topic: str = setting(
        "/odom", "Topic of positions: nav_msgs/Odometry, PoseStamped, NavSatFix"
    )
    range_topic: str = setting(
        "/sonar/range", "Topic of ranges: sensor_msgs/Range, Float64, Float32 (m)"
    )
    level_topic: str = setting("/water_level", "Topic of the water level, if there is one")
    state_topic: str = setting(
        "/mission/state", "Topic of the mission state; in some states pings are refused"
    )
    taken_over_topic: str = setting(
        "/mission/taken_over", "Topic of take-overs of the vehicle, during which its pings are "
        "mapped"
    )  # fmt: skip
    start: float = setting(0.0, "Skip this much at the beginning", "s", 0.0, 1e9)
    stop: float = setting(0.0, "Stop this long after the beginning. 0: at the end", "s", 0.0, 1e9)


#: A ping, a position, a mission's state, a water level.
Event = RawPing | VehicleState | OdometryRefused | str | float


def replayed(
    settings: FrontEndSettings, events: Iterable[tuple[int, Event]], wait: float
) -> tuple[FrontEnd, list[Samples], RefusedPings]:
    """Feed a front end with what a log has, each with its time (ns), in the order of the log. Pings
    at its end wait for odometry this long (s).

    Returns:
        The front end; accepted pings, in batches as of a mapper with default settings that keeps
        up; refused pings.
    """
    front_end, queue = FrontEnd(settings), SampleQueue(TimedBatches())
    batches, refused, now = list[Samples](), list[RefusedPing](), Moment(0, 0.0)
    for ns, event in events:
        now, last = Moment(ns, ns / SECOND), None  # the last pings of a mission
        if isinstance(event, RawPing):
            front_end.ping(event, now, OVERLOAD if queue.full else "")
        elif isinstance(event, str):
            last = front_end.mission(event, now)
        elif isinstance(event, float):
            front_end.water_level(event, now)
        else:
            front_end.odometry(event, now)
        queue.add(front_end.take(now) if last is None else last, ns)
        begun = bool(batches) or front_end.pilot.over(len(queue))
        if (last is not None and len(queue)) or (begun and queue.batch_due(ns)):
            batches.append(queue.take())
        refused += front_end.ledger.take_refused()
    queue.add(front_end.take(Moment(now.ros_ns, now.steady_s + wait)), now.ros_ns)
    refused += front_end.ledger.take_refused()
    return front_end, [*batches, queue.take()], RefusedPings.of(refused)


def read_recording(path: Path, options: ReadOptions) -> Soundings:
    """Place the pings of a recording as the front end of a live mapper would, in order.

    Args:
        path: a rosbag2 folder, .mcap or .db3.
        options: ``settings`` of ``FrontEndSettings`` and ``BagSettings``, and ``workspace`` (xmin
            xmax ymin ymax, in m), without which pings anywhere are accepted.

    Returns:
        The accepted pings in order, with the batches of a mapper with default settings that keeps
        up, from ``start`` to ``stop``. ``source`` says where the recording is cut short.

    Raises:
        InputError: nothing can be read, a topic has another type, or no ping is accepted.
    """
    given, bounds = dict(options.settings), options.settings.get("workspace")
    given["sonar.base_frame"] = ""
    placing = instance(FrontEndSettings, given, workspace=Extent.of(bounds) if bounds else None)
    recording = Recording(path, instance(BagSettings, given))
    front_end, batches, left_out = replayed(placing, recording, 2 * placing.odometry_wait)
    samples, refused = Samples.joined(batches), recording.refused + front_end.ledger.rejected
    if not len(samples):
        raise recording.nothing(refused)
    topics = recording.settings
    words = [f"{name} is cut short ({why}): read up to there"
             for name, why in recording.torn.items()]  # fmt: skip
    words.append(f"positions on {topics.odom_topic}, ranges on {topics.range_topic}")
    above = front_end.ledger.suspect[ABOVE_WATER]
    if 2 * above > front_end.buffer.added:
        words.append(
            f"z of {quantity(above, 'position')} is more than {MAX_ABOVE:g} m above the water: an "
            "altitude of GNSS (odometry.surface=true where the vehicle floats), or a height above "
            "the map's datum (odometry.vertical=datum)"
        )
    source = {
        "understood": "; ".join(words),
        "recording": asdict(topics),
        "gate": nested(plain(values_of(placing))),
        **(recording.frame.values if recording.frame is not None else {}),
    }
    batch = np.repeat(np.arange(len(batches)), [len(each) for each in batches])
    return Soundings.of(
        samples, refused=refused, source=source, batch=batch, left_out=LeftOut.of(left_out)
    ).between(options.start, options.stop)


#: Of a message: topic, type, time of recording (ns), CDR bytes (empty where nobody wants them).
Recorded = tuple[str, str, int, bytes]


class Recording:
    """The events of a recording, each with its time (ns), in the order of recording.

    Args:
        path: a rosbag2 folder, or one of its files.
        settings: which topics.

    Attributes:
        settings: see there.
        heard: number of messages by topic and type, as far as they were met.
        refused: number of messages that cannot be decoded.
        torn: what stopped reading, by file.
        frame: around the first of a receiver's positions; None without any.

    Raises:
        InputError: a library is not installed.
    """

    def __init__(self, path: Path, settings: BagSettings) -> None:
        with requires_extra(f"{path}: a recording", "mcap and rosbags", "bags"):
            import mcap.stream_reader  # noqa: F401
            from rosbags import typesys
        self._path, self.settings = path, settings
        self.heard, self.refused = Counter[tuple[str, str]](), Counter[str]()
        self.torn = dict[str, str]()
        self.frame: GeoReference | None = None
        self._frame_id, self._states = "", ["", ""]
        # Of what is read, Range alone differs between releases: Humble's is shorter.
        releases = typesys.Stores.ROS2_JAZZY, typesys.Stores.ROS2_HUMBLE
        self._stores = [typesys.get_typestore(each) for each in releases]
        # Types and meaning of each topic.
        self._topics: dict[str, tuple[tuple[str, ...], Callable[[Any], Event | None]]] = {
            settings.odom_topic: (POSITIONS, self._position),
            settings.range_topic: (RANGES, _ping),
            settings.level_topic: (RANGES[1:2], lambda message: float(message.data)),
            settings.state_topic: (STATE, partial(self._state, 0)),
            settings.taken_over_topic: (STATE, partial(self._state, 1)),
        }

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        """Raises an ``InputError``: there is no recording, nothing of it can be read, or a topic
        has another type."""
        for topic, kind, time_ns, data in self._messages():
            self.heard[topic, kind] += 1
            if topic not in self._topics:
                continue
            kinds, meaning = self._topics[topic]
            if kind not in kinds:
                words = f"expected {' or '.join(kinds)} on {topic}, got {kind}"
                raise InputError(f"{self._path}: {words}")
            if not data:
                continue
            try:
                event = meaning(self._decoded(kind, data))
            except InputError:  # a package is missing
                raise
            except Exception:  # bytes of something else
                self.refused["unreadable_message"] += 1
                continue
            if isinstance(event, RawPing | VehicleState) and not event.stamp_ns:
                event = replace(event, stamp_ns=time_ns)  # of a driver that does not stamp
            if event is not None:
                yield time_ns, event

    def _messages(self) -> Iterator[Recorded]:
        files = [self._path]
        if self._path.is_dir():
            # Numbers in names by their size, as dive_2 before dive_10.
            files = sorted(
                (file for file in self._path.iterdir() if file.suffix in SUFFIXES),
                key=lambda file: re.sub(r"\d+", lambda digits: digits[0].zfill(20), file.name),
            )
        if not files or not all(file.is_file() for file in files):
            raise InputError(
                f"{self._path}: expected a rosbag2 folder with .mcap or .db3 files, or such a file "
                "(compressed ones: ros2 bag convert)"
            )
        for file in files:
            try:
                yield from (_mcap if file.suffix == ".mcap" else _sqlite)(file)
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
            except Exception as error:  # of decoding, of SQLite: each library has its own
                text = f"{type(error).__name__} {error}".strip()
                if not self.heard:
                    kind = "an MCAP file" if file.suffix == ".mcap" else "a rosbag2 database"
                    raise InputError(f"{file}: expected {kind} ({text})") from None
                self.torn[file.name] = text

    def _decoded(self, kind: str, data: bytes) -> Any:
        """By the message definitions of the release of ROS 2 that they fit."""
        for store in self._stores:
            with contextlib.suppress(Exception):
                return store.deserialize_cdr(data, kind)
        raise ValueError

    def _position(self, message: Any) -> VehicleState | OdometryRefused:
        """Positions in the frame of the first message; other frames are refused, as without tf2.
        Those of a receiver on the water are in metres from the first one; the vehicle is taken as
        level."""
        if hasattr(message, "pose"):
            state = (read_odometry if hasattr(message, "twist") else read_pose)(message)
            self._frame_id = self._frame_id or state.frame_id
            return state if state.frame_id == self._frame_id else OdometryRefused("frame")
        place = message.latitude, message.longitude
        known = any(place) and abs(place[0]) < 89.9 and abs(place[1]) <= 180  # as of GeoReference
        if message.status.status < 0 or not known:
            return OdometryRefused("no_fix")
        self.frame = self.frame or GeoReference(*place)
        return VehicleState(stamp_to_ns(message.header.stamp), (*self.frame.metres(*place), 0.0))

    def _state(self, which: int, message: Any) -> str | None:
        self._states[which] = message.data
        return mapped_state(*self._states) if self._states[0] else None

    def nothing(self, refused: Counter[str]) -> InputError:
        """The error for a recording of which no ping is accepted: why, which topics it has, and, if
        it lacks those that were named, the command that maps those that fit."""
        words, heard, wanted = list[str](), sorted(self.heard), self.settings
        names = {"--odom-topic": wanted.odom_topic, "--range-topic": wanted.range_topic}
        for option, own in names.items():
            kinds, _ = self._topics[own]
            fits = sorted(
                (topic != own, bool(ABOVE.search(topic)), kinds.index(kind),
                 not NAMED.search(topic.rpartition("/")[2]), topic)
                for topic, kind in heard
                if kind in kinds and (topic == own or topic not in self._topics)
            )  # fmt: skip
            words += [option, fits[0][-1]] if fits else []
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items())
        there = ", ".join(f"{topic} ({kind}, {self.heard[topic, kind]})" for topic, kind in heard)
        text = (
            f"{self._path}: expected positions on {wanted.odom_topic} and ranges on "
            f"{wanted.range_topic}, got no ping accepted (refused: {reasons or 'none'}); the "
            f"recording has messages on {there or 'no topic'}"
        )
        if not {*names.values()} <= {topic for topic, _ in heard}:
            text += ". Name them, as in --odom-topic TOPIC --range-topic TOPIC"
            text += f": {pasted('map', self._path)} {shlex.join(words)}" * (len(words) == 4)
        return InputError(text)


def _ping(message: Any) -> RawPing:
    if hasattr(message, "min_range"):
        return read_range(message)
    return RawPing(0, float(message.data), 0.0, math.inf)


def is_bag(path: Path) -> bool:
    """Whether a path is read as a rosbag2 recording."""
    return path.is_dir() or path.suffix in SUFFIXES


def mcap_messages(stream: BinaryIO) -> Iterator[tuple[Any, Any, Any]]:
    """Schema (None without one), channel and message of each message of an MCAP file, from the
    front.

    Raises:
        InputError: a chunk holds more than is allowed.
        Exception: whatever a torn file makes the library raise.
    """
    from mcap.records import Channel, Chunk, Message, Schema
    from mcap.stream_reader import StreamReader, breakup_chunk

    schemas, channels = dict[int, Schema](), dict[int, Channel]()
    longest = max(1, min(os.fstat(stream.fileno()).st_size, allowance()))
    for outer in StreamReader(stream, emit_chunks=True, record_size_limit=longest).records:
        if isinstance(outer, Chunk):
            refuse_larger("a chunk", outer.uncompressed_size, RECORD_FACTOR)
        for record in breakup_chunk(outer) if isinstance(outer, Chunk) else [outer]:
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message):
                channel = channels[record.channel_id]
                yield schemas.get(channel.schema_id), channel, record


def _mcap(file: Path) -> Iterator[Recorded]:
    """The messages of a file."""
    with file.open("rb") as own:
        for schema, channel, message in mcap_messages(own):
            if schema is not None and channel.message_encoding == "cdr":
                yield channel.topic, schema.name, message.log_time, message.data


def _sqlite(file: Path) -> Iterator[Recorded]:
    """Likewise. A topic's type alone decides whether bytes are read: a camera's are not."""
    kinds = (*POSITIONS, *RANGES, *STATE)
    with closing(read_only(file)) as connection:  # neither a lock nor a journal is left beside it
        if connection.execute(OTHERS).fetchone()[0]:
            raise InputError("expected a rosbag2 database, got one with computed rows")
        # By number, which is the order of recording and of the file: no index is needed for it.
        rows = connection.execute(
            f"SELECT name, type, timestamp, CASE WHEN type IN ({','.join('?' * len(kinds))}) THEN "
            "data END FROM messages CROSS JOIN topics ON topics.id = topic_id ORDER BY messages.id",
            kinds,
        )
        for name, kind, time_ns, data in rows:
            refuse_larger("a message", len(data := bytes(data or b"")), RECORD_FACTOR)
            yield str(name), str(kind), time_ns, data
