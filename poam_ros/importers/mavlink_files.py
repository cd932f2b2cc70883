"""The messages of MAVLink in logs of ArduPilot (.bin and its text), of ground stations (.tlog) and
of BlueOS (.mcap with JSON), in one form: that of a live link."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..core.clock import SECOND
from ..core.errors import InputError, requires_extra
from ..core.reading import JSON_FACTOR, MemoryMeter, refuse_larger
from ..mavlink.link import AUTOPILOT_COMPONENT, DEGREE, library
from ..mavlink.telemetry import DOWN
from .bag_files import mcap_records

#: A .bin begins with the description of a message, its text, too; .tlog with a time (us) and a
#: frame of MAVLink.
DATAFLASH, FRAMES = b"\xa3\x95\x80", (0xFD, 0xFE)
_TEXT = re.compile(rb"^FMT, ?\d+, ?\d+, ?[A-Z]+, ?\w+, ?\w+", re.MULTILINE)
#: Bytes of memory that a message takes; and that the list of a .bin's messages takes for each byte.
MESSAGE_BYTES, LIST_FACTOR = 700, 2
#: The fields of messages that are read.
FIELDS = {
    "HEARTBEAT": ("type",),
    "ATTITUDE": ("time_boot_ms", "roll", "pitch", "yaw", "rollspeed", "pitchspeed", "yawspeed"),
    "GLOBAL_POSITION_INT": ("time_boot_ms", "lat", "lon", "relative_alt", "vx", "vy"),
    "GPS_RAW_INT": ("time_usec", "fix_type", "lat", "lon", "h_acc", "v_acc"),
    "EKF_STATUS_REPORT": ("flags",),
    "PARAM_VALUE": ("param_id", "param_value"),
    "WATER_DEPTH": ("time_boot_ms", "id", "healthy", "lat", "lng", "distance"),
    "DISTANCE_SENSOR": (
        "time_boot_ms", "min_distance", "max_distance", "current_distance", "orientation", "id",
        "covariance", "horizontal_fov", "signal_quality",
    ),
    "RANGEFINDER": ("distance",),
}  # fmt: skip
#: ArduPilot's status of a rangefinder with a reading; a quality that means that there is none.
GOOD, NO_QUALITY = 4, 1
SUBMARINE = 12  # MAV_TYPE
#: A receiver's time that counts from 1970, not from boot, in ms.
SINCE_1970 = 10**12

Fields = Mapping[str, Any]


@dataclass
class Heard:
    """How many messages a log has, by kind, and how many cannot be read, by reason."""

    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class LogMessage(SimpleNamespace):
    """A message of a log with its fields.

    Attributes:
        kind: of MAVLink. ``own_kind``: as the log calls it.
        seconds: when it came, since 1970 where that is known.
        system, component: who sent it.
    """

    def get_type(self) -> str:
        """As of a message of pymavlink."""
        return str(self.kind)

    @property
    def sonar(self) -> str:
        """The name of the sonar that a range is of."""
        return f"{self.own_kind}.{getattr(self, 'id', 0)}"

    def supersedes(self, last: LogMessage) -> bool:
        """Whether nothing can need the message before any more: an attitude after another."""
        return bool(self.kind == last.kind == "ATTITUDE")

    def as_position(self, boot_ms: int) -> LogMessage:
        """A receiver's or a depth's place as GLOBAL_POSITION_INT. ``boot_ms``: the autopilot's
        newest time, for a receiver that has another clock."""
        own = getattr(self, "time_usec", SINCE_1970 * 1000) // 1000
        ms = getattr(self, "time_boot_ms", own if own < SINCE_1970 else boot_ms)
        return LogMessage(
            kind="GLOBAL_POSITION_INT", own_kind=self.own_kind, seconds=self.seconds,
            system=self.system, component=self.component, time_boot_ms=ms, lat=self.lat,
            lon=self.lon, relative_alt=0.0, vx=0.0, vy=0.0,
        )  # fmt: skip


def is_dataflash(path: Path, head: bytes) -> bool:
    """Whether a file is ArduPilot's own log, or its text."""
    return head.startswith(DATAFLASH) or _is_text(head)


def _is_text(head: bytes) -> bool:
    return len(_TEXT.findall(head[:20_000])) >= 2


def is_telemetry(path: Path, head: bytes) -> bool:
    """Whether a file is the log of a ground station: a time before each frame."""
    return path.suffix.lower() == ".tlog" or (
        len(head) > 9 and head[0] == 0 and head[1] < 8 and head[8] in FRAMES and b"\0" in head[:64]
    )


def is_json_recording(path: Path, head: bytes) -> bool:
    """Whether an MCAP file has messages in JSON, as BlueOS records them."""
    if path.suffix != ".mcap":
        return False
    try:
        _, encoding, _ = next(_records(path))
    except (StopIteration, ImportError):
        return False
    except Exception:  # whatever a torn file makes the library raise: its reader says so
        return False
    return encoding == "json"


def log_messages(path: Path, heard: Heard) -> Iterator[LogMessage]:
    """The messages of a log that are needed, in its order, up to where it is torn.

    Raises:
        InputError: it cannot be read at all, takes too much memory, or a library is missing.
    """
    memory = MemoryMeter(f"{path}: its content")
    read = _json if path.suffix == ".mcap" else _frames
    try:
        with path.open("rb") as file:
            head = file.read(20_000)
        if is_dataflash(path, head):
            read = _dataflash
        for message in read(path, heard):
            memory.add(MESSAGE_BYTES)
            yield message
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # each version of a library raises another
        heard.refused["unreadable_rest"] += 1
        heard.kinds["nothing further: " + type(error).__name__] += 1


def _made(
    kind: str, fields: Fields, seconds: float, system: Any, component: int, own_kind: str = ""
) -> LogMessage:
    values = {name: _plain(fields[name]) for name in FIELDS[kind]}
    if kind == "WATER_DEPTH":
        values["lon"] = values.pop("lng")
    return LogMessage(
        kind=kind, own_kind=own_kind or kind, seconds=seconds, system=system, component=component,
        **values,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """The number of an enumeration or of flags, which JSON has as {"type": NAME} and {"bits": N};
    and a text that it has as a list."""
    if isinstance(value, list):
        return "".join(map(str, value))
    if not isinstance(value, dict):
        return value
    if "bits" in value:
        return value["bits"]
    with library() as mavutil:
        return getattr(mavutil.mavlink, str(value["type"]), -1)


def _frames(path: Path, heard: Heard) -> Iterator[LogMessage]:
    """Of a .tlog."""
    with library() as mavutil:
        for message in _heard(mavutil.mavlogfile, path, heard):
            if (kind := message.get_type()) in FIELDS:
                who = message.get_srcSystem(), message.get_srcComponent()
                yield _made(kind, vars(message), float(message._timestamp), *who)


def _heard(reader: Callable[[str], Any], path: Path, heard: Heard) -> Iterator[Any]:
    """The messages of a file by a reader of pymavlink, counted."""
    with open(os.devnull, "w") as nowhere:  # the library prints what it does not understand

        def quietly(function: Callable[..., Any], *given: str) -> Any:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                return function(*given)

        log = quietly(reader, str(path))
        while (message := quietly(log.recv_msg)) is not None:
            if (kind := message.get_type()) == "BAD_DATA":
                heard.refused["bad_message"] += 1
            else:
                heard.kinds[kind] += 1
                yield message


def _json(path: Path, heard: Heard) -> Iterator[LogMessage]:
    """Of a recording of BlueOS."""
    for seconds, encoding, data in _records(path):
        if encoding != "json":
            continue
        try:
            tree = json.loads(data)
            header, fields = tree.get("header", {}), tree.get("message", tree)
            kind = str(fields.get("type", "without a type"))
            heard.kinds[kind] += 1
            if kind in FIELDS:
                fields = {**fields, "type": fields.get("mavtype", 0)}
                who = header.get("system_id", 1), header.get("component_id", AUTOPILOT_COMPONENT)
                yield _made(kind, fields, seconds, *who)
        except (ValueError, AttributeError, RecursionError, TypeError, KeyError):
            heard.refused["bad_message"] += 1


def _dataflash(path: Path, heard: Heard) -> Iterator[LogMessage]:
    """Of a .bin, or of its text."""
    refuse_larger(f"{path}: the list of its messages", path.stat().st_size, LIST_FACTOR)
    os.environ.setdefault("PYMAVLINK_FAST_INDEX", "0")  # else C code prints
    with requires_extra(f"{path}: logs of ArduPilot", "pymavlink", "mavlink"):
        from pymavlink import DFReader
    with path.open("rb") as file:
        binary = file.read(3) == DATAFLASH
    first: float | None = None
    reader = DFReader.DFReader_binary if binary else DFReader.DFReader_text
    for message in _heard(reader, path, heard):
        if (own := message.get_type()) not in OF_DATAFLASH:
            continue
        seconds = float(message._timestamp)
        first = seconds if first is None else first
        since = {"time_boot_ms": max(0, round((seconds - first) * 1e3))}
        since["time_usec"] = since["time_boot_ms"] * 1000
        try:
            for kind, fields in OF_DATAFLASH[own](message.to_dict()):
                yield _made(kind, {**since, **fields}, seconds, 1, AUTOPILOT_COMPONENT, own)
        except (KeyError, TypeError, ValueError):
            heard.refused["bad_message"] += 1


Made = Iterator[tuple[str, dict[str, Any]]]


def _degrees(fields: Fields) -> dict[str, float]:
    latitude, longitude = fields["Lat"] * DEGREE, fields["Lng"] * DEGREE
    return {"lat": latitude, "lon": longitude, "lng": longitude}


def _pos(fields: Fields) -> Made:
    up = 1e3 * fields.get("RelHomeAlt", 0.0)
    yield "GLOBAL_POSITION_INT", {**_degrees(fields), "relative_alt": up, "vx": 0.0, "vy": 0.0}


def _gps(fields: Fields) -> Made:
    if not fields.get("I", 0):  # the first receiver
        fix = {"fix_type": fields["Status"], "h_acc": 0, "v_acc": 0}
        yield "GPS_RAW_INT", {**_degrees(fields), **fix}


def _att(fields: Fields) -> Made:
    angles = {name: math.radians(fields[name.capitalize()]) for name in ("roll", "pitch", "yaw")}
    yield "ATTITUDE", {**angles, "rollspeed": 0.0, "pitchspeed": 0.0, "yawspeed": 0.0}


def _dpth(fields: Fields) -> Made:
    own = {"id": fields.get("Inst", fields.get("Instance", 0)), "healthy": 1}
    yield "WATER_DEPTH", {**_degrees(fields), **own, "distance": fields["Depth"]}


def _rfnd(fields: Fields) -> Made:
    """The fields of today, or those of before 2019: two sonars in a message."""
    every = [(fields.get("Instance", fields.get("Inst", 0)), "Dist", "Orient")]
    if "Dist" not in fields:
        every = [(i, f"Dist{i + 1}", f"Orient{i + 1}") for i in (0, 1) if f"Dist{i + 1}" in fields]
    good = fields.get("Stat", GOOD) == GOOD
    for number, distance, orientation in every:
        yield "DISTANCE_SENSOR", {
            "id": number, "current_distance": 100 * fields[distance], "min_distance": 0,
            "max_distance": math.inf, "orientation": fields.get(orientation, DOWN),
            "covariance": 0, "horizontal_fov": 0.0,
            "signal_quality": fields.get("Quality", 0) if good else NO_QUALITY,
        }  # fmt: skip


def _parm(fields: Fields) -> Made:
    yield "PARAM_VALUE", {"param_id": fields["Name"], "param_value": fields["Value"]}


def _msg(fields: Fields) -> Made:
    if "ArduSub" in str(fields["Message"]):
        yield "HEARTBEAT", {"type": SUBMARINE}


#: ArduPilot's own messages as those of MAVLink.
OF_DATAFLASH: dict[str, Callable[[Fields], Made]] = {
    "POS": _pos, "GPS": _gps, "ATT": _att, "DPTH": _dpth, "RFND": _rfnd, "PARM": _parm, "MSG": _msg,
}  # fmt: skip


def _records(path: Path) -> Iterator[tuple[float, str, bytes]]:
    """Time in s since 1970, encoding and bytes of each message of an MCAP file, from the front."""
    with requires_extra(f"{path}: recordings", "mcap", "bags"):
        from mcap.records import Channel, Message
    encodings: dict[int, str] = {}
    try:
        with path.open("rb") as file:
            for record in mcap_records(file, path.stat().st_size):
                if isinstance(record, Channel):
                    encodings[record.id] = record.message_encoding
                elif isinstance(record, Message):
                    refuse_larger("a message", len(record.data), JSON_FACTOR)
                    yield record.log_time / SECOND, encodings[record.channel_id], record.data
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
