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
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

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
#: Types of positions and of ranges, the better first; of the water level, and of states.
POSITIONS = (
    "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped", "sensor_msgs/msg/NavSatFix",
)  # fmt: skip
RANGES = "sensor_msgs/msg/Range", "std_msgs/msg/Float64", "std_msgs/msg/Float32"
#: In the last part of a topic's name: what a number is the range of.
NAMED = re.compile(r"depth|range|distance|sonar|ping|echo|altitude", re.IGNORECASE)
LEVEL, STATE = ("std_msgs/msg/Float64",), ("std_msgs/msg/String",)


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

    @property
    def topics(self) -> dict[str, tuple[str, ...]]:
        """The types that each topic may have."""
        return {
            self.odom_topic: POSITIONS,
            self.range_topic: RANGES,
            self.level_topic: LEVEL,
            self.state_topic: STATE,
            self.taken_over_topic: STATE,
        }


#: A ping, a position, a mission's state, a water level.
Event = RawPing | VehicleState | OdometryRefused | str | float


class Replay:
    """Feeds a front end with what a log has, in its order.

    Attributes:
        batches: of accepted pings, closed as by a mapper with default settings that keeps up.
    """

    def __init__(self, settings: FrontEndSettings) -> None:
        self.front_end, self._queue = FrontEnd(settings), SampleQueue(TimedBatches())
        self.batches: list[Samples] = []
        self._now, self._refused = Moment(0, 0.0), list[RefusedPing]()

    def handle(self, event: Event, now: Moment) -> None:
        """Take what came."""
        queue, last = self._queue, None  # the last pings of a mission
        self._now = now
        if isinstance(event, RawPing):
            self.front_end.ping(event, now, OVERLOAD if queue.full else "")
        elif isinstance(event, str):
            last = self.front_end.mission(event, now)
        elif isinstance(event, float):
            self.front_end.water_level(event, now)
        else:
            self.front_end.odometry(event, now)
        queue.add(self.front_end.take(now) if last is None else last, now.ros_ns)
        begun = bool(self.batches) or self.front_end.pilot.over(len(queue))
        if (last is not None and len(queue)) or (begun and queue.batch_due(now.ros_ns)):
            self.batches.append(queue.take())
        self._refused += self.front_end.ledger.take_refused()

    def ended(self, wait: float) -> tuple[Samples, RefusedPings]:
        """All accepted and all refused pings, after those at the end have waited for odometry this
        long, in s."""
        later = Moment(self._now.ros_ns, self._now.steady_s + wait)
        self._queue.add(self.front_end.take(later), later.ros_ns)
        self.batches.append(self._queue.take())
        self._refused += self.front_end.ledger.take_refused()
        return Samples.joined(self.batches), RefusedPings.of(self._refused)


def read_recording(path: Path, options: ReadOptions) -> Soundings:
    """Place the pings of a recording as the front end of a live mapper would, in order.

    Args:
        path: a rosbag2 folder, .mcap or .db3.
        options: ``settings`` of ``FrontEndSettings`` and ``BagSettings``, and ``workspace`` (xmin
            xmax ymin ymax, in m), without which pings anywhere are accepted.

    Returns:
        The accepted pings in order, with the batches of a mapper with default settings that keeps
        up. ``source`` says how much of the recording could be read.

    Raises:
        InputError: nothing can be read, a topic has another type, or no ping is accepted.
    """
    given, bounds = dict(options.settings), options.settings.get("workspace")
    given |= {"start": options.start, "stop": options.stop, "sonar.base_frame": ""}
    settings = instance(BagSettings, given)
    placing = instance(FrontEndSettings, given, workspace=Extent.of(bounds) if bounds else None)
    replay, decoder = Replay(placing), _Decoder(path, settings)
    recording = Recording(path, settings.topics)
    heard, refused, first = Counter[str](), Counter[str](), None
    for raw in recording:
        heard[raw.topic] += 1
        if raw.kind not in (kinds := settings.topics[raw.topic]):
            wanted = " or ".join(kinds)
            raise InputError(f"{path}: expected {wanted} on {raw.topic}, got {raw.kind}")
        first = raw.time_ns if first is None else first
        since = (raw.time_ns - first) / SECOND
        if since < settings.start or 0 < settings.stop < since:
            continue
        try:
            event = decoder.event(raw)
        except InputError:  # a package is missing
            raise
        except Exception:  # bytes of something else
            refused["unreadable_message"] += 1
            continue
        if event is not None:
            replay.handle(event, Moment(raw.time_ns, raw.time_ns / SECOND))
    samples, left_out = replay.ended(2 * placing.odometry_wait)
    front_end, batches = replay.front_end, replay.batches
    refused += front_end.ledger.rejected
    if not len(samples):
        if not {settings.odom_topic, settings.range_topic} <= heard.keys():
            raise _topics_asked(recording, settings)
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items())
        there = ", ".join(f"{n} on {topic}" for topic, n in heard.items())
        raise InputError(
            f"{path}: expected pings with odometry, got none accepted (messages: "
            f"{there or 'none on these topics'}; refused: {reasons or 'none'})"
        )
    words = [
        f"{name} is cut short ({why}): read up to there" for name, why in recording.torn.items()
    ]
    read, size = recording.read, recording.size
    words.append(f"{100 * read / max(1, size):.0f} % of {size / 1e6:.1f} MB could be read")
    above = front_end.ledger.suspect[ABOVE_WATER]
    if 2 * above > front_end.buffer.added:
        words.append(
            f"z of {quantity(above, 'position')} is more than {MAX_ABOVE:g} m above the water: an "
            "altitude of GNSS (odometry.surface=true where the vehicle floats), or a height above "
            "the map's datum (odometry.vertical=datum)"
        )
    source = {
        "understood": "; ".join(words),
        "recording": {**asdict(settings), "bytes_read": read, "bytes": size},
        "gate": nested(plain(values_of(placing))),
        **(decoder.frame.values if decoder.frame is not None else {}),
    }
    batch = np.repeat(np.arange(len(batches)), [len(each) for each in batches])
    return Soundings.of(
        samples, refused=refused, source=source, batch=batch, left_out=LeftOut.of(left_out)
    )


def _topics_asked(recording: Recording, settings: BagSettings) -> InputError:
    """Which topics a recording has, and the command that maps those that fit."""
    words, topics = [], recording.topics
    for option, topic, kinds in (
        ("--odom-topic", settings.odom_topic, POSITIONS),
        ("--range-topic", settings.range_topic, RANGES),
    ):
        fits = sorted(
            (name != topic, kinds.index(kind), not NAMED.search(name.rpartition("/")[2]), name)
            for name, kind in topics.items()
            if kind in kinds and (name == topic or name not in settings.topics)
        )
        words += [option, fits[0][-1]] if fits else []
    there = ", ".join(f"{name} ({kind})" for name, kind in sorted(topics.items()))
    ask = f": {pasted('map', recording.path)} {shlex.join(words)}" if len(words) == 4 else ""
    return InputError(
        f"{recording.path}: expected positions on {settings.odom_topic} and ranges on "
        f"{settings.range_topic}; the recording has messages on {there or 'no topic'}. Name them, "
        f"as in --odom-topic TOPIC --range-topic TOPIC{ask}"
    )


class _Decoder:
    """The events of a recording's messages.

    Attributes:
        frame: around the first of a receiver's positions; None without any.
    """

    def __init__(self, path: Path, settings: BagSettings) -> None:
        with requires_extra(f"{path}: a recording", "rosbags", "bags"):
            from rosbags import typesys
        self._settings, self._library = settings, typesys
        self._stores = dict[tuple[str, str], Any]()
        self._jazzy = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
        self._frame_id, self._state, self._taken_over = "", "", ""
        self.frame: GeoReference | None = None

    def event(self, raw: RawMessage) -> Event | None:
        """The event of a message; raises whatever its bytes make the library raise."""
        message = self._decoded(raw)
        if raw.topic == self._settings.odom_topic:
            return self._position(raw.kind, message)
        if raw.topic == self._settings.range_topic:
            if raw.kind == RANGES[0]:
                return read_range(message)
            return RawPing(raw.time_ns, float(message.data), 0.0, math.inf)
        if raw.topic == self._settings.level_topic:
            return float(message.data)
        if raw.topic == self._settings.taken_over_topic:
            self._taken_over = message.data
        else:
            self._state = message.data
        return mapped_state(self._state, self._taken_over) if self._state else None

    def _decoded(self, raw: RawMessage) -> Any:
        """By the recording's message definitions, or else by those of Jazzy."""
        key = raw.kind, raw.definition
        if key not in self._stores:
            self._stores[key] = self._jazzy
            if raw.definition:
                store = self._library.get_typestore(self._library.Stores.EMPTY)
                with contextlib.suppress(Exception):  # a definition that it does not support
                    store.register(self._library.get_types_from_msg(raw.definition, raw.kind))
                    self._stores[key] = store
        return self._stores[key].deserialize_cdr(raw.data, raw.kind)

    def _position(self, kind: str, message: Any) -> VehicleState | OdometryRefused:
        """Positions in the frame of the first message; other frames are refused, as without tf2.
        Those of a receiver on the water are in metres from the first one; the vehicle is taken as
        level."""
        if kind != POSITIONS[3]:
            state = read_odometry(message) if kind == POSITIONS[0] else read_pose(message)
            self._frame_id = self._frame_id or state.frame_id
            return state if state.frame_id == self._frame_id else OdometryRefused("frame")
        place = message.latitude, message.longitude
        known = any(place) and abs(place[0]) < 89.9 and abs(place[1]) <= 180  # as of GeoReference
        if message.status.status < 0 or not known:
            return OdometryRefused("no_fix")
        self.frame = self.frame or GeoReference(*place)
        return VehicleState(stamp_to_ns(message.header.stamp), (*self.frame.metres(*place), 0.0))


class RawMessage(NamedTuple):
    """A recorded message: topic, type, the definition that came with it (empty without one), time
    of recording, and CDR bytes."""

    topic: str
    kind: str
    definition: str
    time_ns: int
    data: bytes


@dataclass
class Recording:
    """The messages of some topics, in the order of recording.

    Attributes:
        path: a rosbag2 folder, or one of its files.
        wanted: the topics.
        topics: all that have messages, with their types, as far as they were met.
        torn: what stopped reading, by file.
        read, size: bytes that could be read, and in all.
    """

    path: Path
    wanted: Collection[str]
    topics: dict[str, str] = field(default_factory=dict)
    torn: dict[str, str] = field(default_factory=dict)
    read: int = 0
    size: int = 0

    def __iter__(self) -> Iterator[RawMessage]:
        """Raises an ``InputError``: there is no recording, its libraries are not installed, or
        nothing of it can be read."""
        files = [self.path]
        if self.path.is_dir():
            # Numbers in names by their size, as dive_2 before dive_10.
            files = sorted(
                (file for file in self.path.iterdir() if file.suffix in SUFFIXES),
                key=lambda file: re.sub(r"\d+", lambda digits: digits[0].zfill(20), file.name),
            )
        if not files or not all(file.is_file() for file in files):
            raise InputError(
                f"{self.path}: expected a rosbag2 folder with .mcap or .db3 files, or such a file "
                "(compressed ones: ros2 bag convert)"
            )
        self.size = sum(file.stat().st_size for file in files)
        for file in files:
            before, size = self.read, file.stat().st_size
            try:
                for done, message in (_mcap if file.suffix == ".mcap" else _sqlite)(file):
                    self.read = before + min(done, size)
                    self.topics[message.topic] = message.kind
                    if message.topic in self.wanted and message.data:
                        yield message
                self.read = before + size
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
            except Exception as error:  # of decoding, of SQLite: each library has its own
                text = f"{type(error).__name__} {error}".strip()
                if not self.read:
                    kind = "an MCAP file" if file.suffix == ".mcap" else "a rosbag2 database"
                    raise InputError(f"{file}: expected {kind} ({text})") from None
                self.torn[file.name] = text


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


def _mcap(file: Path) -> Iterator[tuple[int, RawMessage]]:
    """The messages, each with the bytes that are read by then."""
    with requires_extra(f"{file}: a recording", "mcap and rosbags", "bags"), file.open("rb") as own:
        for schema, channel, message in mcap_messages(own):
            if schema is not None and channel.message_encoding == "cdr":
                text = schema.data if schema.encoding == "ros2msg" else b""
                of = channel.topic, schema.name, text.decode("utf-8", "replace")
                yield own.tell(), RawMessage(*of, message.log_time, message.data)


def _sqlite(file: Path) -> Iterator[tuple[int, RawMessage]]:
    """Likewise. A topic's type alone decides whether bytes are read: a camera's are not."""
    done = 0
    with closing(read_only(file)) as connection:  # neither a lock nor a journal is left beside it
        if connection.execute(OTHERS).fetchone()[0]:
            raise InputError("expected a rosbag2 database, got one with computed rows")
        # By number, which is the order of recording and of the file: no index is needed for it.
        # Whether a topic is wanted is looked up in few rows, not in each message.
        kinds = *POSITIONS, *RANGES, *STATE
        of = f"SELECT id FROM topics WHERE type IN ({','.join('?' * len(kinds))})"
        every = {number: (str(name), str(kind)) for number, name, kind
                 in connection.execute("SELECT id, name, type FROM topics")}  # fmt: skip
        rows = connection.execute(
            f"SELECT topic_id, timestamp, CASE WHEN topic_id IN ({of}) THEN data END "
            "FROM messages ORDER BY id", kinds,
        )  # fmt: skip
        for number, time_ns, data in rows:
            if number not in every:  # of a damaged page
                continue
            done += len(data or b"")
            refuse_larger("a message", len(data or b""), RECORD_FACTOR)
            yield done, RawMessage(*every[number], "", time_ns, bytes(data or b""))
