"""Soundings of a rosbag2 recording, by the live mapper's front end in event time. No ROS 2."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, pasted, quantity, requires_extra
from ..core.geometry import Extent
from ..core.settings import Settings, instance, nested, setting, values_of
from ..frontend.events import mapped_state
from ..frontend.front_end import ABOVE_WATER, MAX_ABOVE
from ..frontend.odometry import OdometryRefused, VehicleState
from ..frontend.ranges import RawPing
from ..frontend.settings import FrontEndSettings
from ..mapping.left_out import LeftOut
from ..mapping.soundings import Soundings
from ..mavlink.frame import LocalFrame
from .bag_files import RawMessage, ReadProgress, bag_messages
from .messages import read_odometry, read_pose, read_range, stamp_to_ns
from .options import ReadOptions
from .replay import Event, Replay

#: Types of positions and of ranges, the better first; of the water level, and of states.
POSITIONS = (
    "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped", "sensor_msgs/msg/NavSatFix",
)  # fmt: skip
RANGES = "sensor_msgs/msg/Range", "std_msgs/msg/Float64", "std_msgs/msg/Float32"
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


FRAME = "frame"


class Decoder:
    """Decodes CDR bytes by the recording's message definitions, or else by those of Jazzy."""

    def __init__(self) -> None:
        with requires_extra("a recording", "rosbags", "bags"):
            from rosbags.typesys import Stores, get_types_from_msg, get_typestore
        self._jazzy = get_typestore(Stores.ROS2_JAZZY)
        self._empty: Callable[[], Any] = lambda: get_typestore(Stores.EMPTY)
        self._parse = get_types_from_msg
        self._stores: dict[tuple[str, str], Any] = {}

    def decode(self, raw: RawMessage) -> Any:
        """The message; raises whatever its bytes make the library raise."""
        key = raw.kind, raw.definition
        if key not in self._stores:
            self._stores[key] = self._store(raw)
        return self._stores[key].deserialize_cdr(raw.data, raw.kind)

    def _store(self, raw: RawMessage) -> Any:
        if not raw.definition:
            return self._jazzy
        store = self._empty()
        try:
            store.register(self._parse(raw.definition, raw.kind))
        except Exception:  # a definition that the parser does not support
            return self._jazzy
        return store


def read_bag(
    path: Path, settings: BagSettings, placing: FrontEndSettings
) -> tuple[Soundings, ReadProgress]:
    """Place the pings of a recording as the front end of a live mapper would, in order.

    Args:
        path: a rosbag2 folder, .mcap or .db3.
        settings: topics, and the part to be read.
        placing: how pings are placed; without a workspace, pings anywhere are accepted.

    Returns:
        The accepted pings in order, with the batches of a mapper with default settings that keeps
        up; and how much of the recording could be read.

    Raises:
        InputError: nothing can be read, a topic has another type, or no ping is accepted.
    """
    reach, replay = ReadProgress(), Replay(placing)
    events = _Events(path, settings, reach)
    for now, event in events:
        replay.handle(event, now)
    samples, left_out = replay.ended(2 * placing.odometry_wait)
    front_end, batches = replay.front_end, replay.batches
    refused = +(front_end.ledger.rejected + events.refused)
    if not len(samples):
        if any(topic not in events.heard for topic in (settings.odom_topic, settings.range_topic)):
            raise _topics_asked(path, settings, reach)
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items())
        heard = ", ".join(f"{n} on {topic}" for topic, n in events.heard.items())
        raise InputError(
            f"{path}: expected pings with odometry, got none accepted (messages: "
            f"{heard or 'none on these topics'}; refused: {reasons or 'none'})"
        )
    remark = ""
    above = front_end.ledger.suspect[ABOVE_WATER]
    if 2 * above > front_end.buffer.added:
        remark = (
            f"z of {quantity(above, 'position')} is more than {MAX_ABOVE:g} m above the water: an "
            "altitude of GNSS (odometry.surface=true where the vehicle floats), or a height above "
            "the map's datum (odometry.vertical=datum)"
        )
    given = values_of(placing).items()
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given}
    source = {
        "remark": remark,
        "recording": {**asdict(settings), "bytes_read": reach.read, "bytes": reach.size},
        "gate": nested(plain),
        **(events.frame.values if events.frame is not None else {}),
    }
    batch = np.repeat(np.arange(len(batches)), [len(each) for each in batches])
    return Soundings.of(
        samples, refused=refused, refused_pings=front_end.ledger.refused, source=source,
        batch=batch, left_out=LeftOut.of(left_out),
    ), reach  # fmt: skip


def _topics_asked(path: Path, settings: BagSettings, reach: ReadProgress) -> InputError:
    """Which topics a recording has, and the command that maps those that fit."""
    options = []
    for option, topic, kinds in (
        ("--odom-topic", settings.odom_topic, POSITIONS),
        ("--range-topic", settings.range_topic, RANGES),
    ):
        fitting = sorted(
            (kinds.index(kind), name) for name, kind in reach.topics.items() if kind in kinds
        )
        if topic not in reach.topics and fitting:
            options += [option, fitting[0][1]]
        elif topic in reach.topics:
            options += [option, topic]
    there = ", ".join(f"{name} ({kind})" for name, kind in sorted(reach.topics.items()))
    ask = f": {pasted('map', path)} {shlex.join(options)}" if len(options) == 4 else ""
    return InputError(
        f"{path}: expected positions on {settings.odom_topic} and ranges on "
        f"{settings.range_topic}; the recording has {there or 'no topic'}. Name them, as in "
        f"--odom-topic TOPIC --range-topic TOPIC{ask}"
    )


def read_recording(path: Path, options: ReadOptions) -> Soundings:
    """As ``read_bag``, by the options' settings: of ``FrontEndSettings``, ``BagSettings``, and
    ``workspace`` (xmin xmax ymin ymax, in m). ``source`` says how far the file could be read."""
    given = options.settings
    bounds = given.get("workspace")
    placing = instance(
        FrontEndSettings,
        {name: value for name, value in given.items() if name != "sonar.base_frame"},
        workspace=Extent.of(bounds) if bounds else None,
    )
    crop = {"start": options.start, "stop": options.stop}
    found, reach = read_bag(path, instance(BagSettings, {**given, **crop}), placing)
    parts = [
        f"{name} is cut short ({reason}): read up to there" for name, reason in reach.torn.items()
    ]
    parts.append(f"{100 * reach.share:.0f} % of {reach.size / 1e6:.1f} MB could be read")
    parts += [found.source["remark"]] if found.source["remark"] else []
    return replace(found, source={**found.source, "understood": "; ".join(parts)})


class _Events:
    """The events of a recording, in the order of recording."""

    def __init__(self, path: Path, settings: BagSettings, reach: ReadProgress) -> None:
        self._path, self._settings, self._reach = path, settings, reach
        self._decoder = Decoder()
        self._frame: str | None = None
        self.frame: LocalFrame | None = None  # of a receiver's positions
        self._state = self._taken_over = ""
        self.heard: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[Moment, Event]]:
        kinds, first = self._settings.topics, None
        for raw in bag_messages(self._path, frozenset(kinds), self._reach):
            self.heard[raw.topic] += 1
            if raw.kind not in kinds[raw.topic]:
                wanted = " or ".join(kinds[raw.topic])
                raise InputError(f"{self._path}: expected {wanted} on {raw.topic}, got {raw.kind}")
            first = raw.time_ns if first is None else first
            since = (raw.time_ns - first) / SECOND
            if since < self._settings.start or 0 < self._settings.stop < since:
                continue
            event = self._event(raw)
            if event is not None:
                yield Moment(raw.time_ns, raw.time_ns / SECOND), event

    def _event(self, raw: RawMessage) -> Event | None:
        try:
            message = self._decoder.decode(raw)
            if raw.topic == self._settings.odom_topic:
                return self._position(raw.kind, message)
            if raw.topic == self._settings.range_topic:
                if raw.kind == RANGES[0]:
                    return read_range(message)
                return RawPing(raw.time_ns, float(message.data), 0.0, math.inf)
            if raw.topic == self._settings.level_topic:
                return float(message.data)
        except Exception:  # bytes of something else
            self.refused["unreadable_message"] += 1
            return None
        if raw.topic == self._settings.taken_over_topic:
            self._taken_over = message.data
        else:
            self._state = message.data
        return mapped_state(self._state, self._taken_over) if self._state else None

    def _position(self, kind: str, message: Any) -> VehicleState | OdometryRefused:
        """Positions in the frame of the first message; other frames are refused, as without tf2."""
        if kind == POSITIONS[3]:
            return self._fix(message)
        state = read_odometry(message) if kind == POSITIONS[0] else read_pose(message)
        self._frame = self._frame or state.frame_id
        return state if state.frame_id == self._frame else OdometryRefused(FRAME)

    def _fix(self, message: Any) -> VehicleState | OdometryRefused:
        """A receiver's position on the water, in metres from the first one; the vehicle is taken
        as level."""
        place = message.latitude, message.longitude
        if message.status.status < 0 or not all(map(math.isfinite, place)) or not any(place):
            return OdometryRefused("no_fix")
        if self.frame is None:
            self.frame = LocalFrame(*place)
        xy = self.frame.to_map(*place)
        return VehicleState(stamp_to_ns(message.header.stamp), (*xy, 0.0))
