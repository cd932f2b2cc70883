"""Logs of ArduPilot and of ground stations, through the live link's decoder and front end.

``.bin`` and its text, ``.tlog``, and recordings of BlueOS (.mcap with JSON) become messages of
MAVLink as a link has them, so that a recorded mission gives the soundings that it gave live.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, quantity, requires_extra
from ..core.geodesy import rough_metres
from ..core.reading import JSON_FACTOR, MemoryMeter, refuse_larger
from ..core.settings import instance
from ..frontend.pings import TOGETHER, FrontEndSettings, at_times, refusal_reason
from ..mavlink.frame import LocalFrame
from ..mavlink.link import AUTOPILOT_COMPONENT, DEGREE, library
from ..mavlink.telemetry import DOWN, RANGES, Telemetry, reading
from .bags import Replay, mcap_messages
from .columns import UNSAID
from .options import ReadOptions
from .questions import Candidate, best_of
from .raw import RawSoundings, nothing_found
from .track import GAP, NO_FIX

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
#: Messages with positions, the better first.
POSITIONS = ("GLOBAL_POSITION_INT", "GPS_RAW_INT", "WATER_DEPTH")
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9
#: Settings of the front end that mean nothing for a log whose depths are placed on a water level of
#: their own.
ABSENT = (
    "sonar.base_frame", "water.level", "water.await_level", "water.level_timeout",
    "odometry.max_outside",
)  # fmt: skip

Fields = Mapping[str, Any]


class LogMessage(SimpleNamespace):
    """A message of a log with its fields.

    Attributes:
        kind: of MAVLink. ``own_kind``: as the log calls it.
        seconds: when it came, since 1970 where that is known.
        system, component: who sent it.
        id: the number of the sonar that a range is of.
    """

    def get_type(self) -> str:
        """As of a message of pymavlink."""
        return str(self.kind)


def is_dataflash(path: Path, head: bytes) -> bool:
    """Whether a file is ArduPilot's own log, or its text."""
    return head.startswith(DATAFLASH) or len(_TEXT.findall(head[:20_000])) >= 2


def is_telemetry(path: Path, head: bytes) -> bool:
    """Whether a file is the log of a ground station: a time before each frame."""
    return path.suffix.lower() == ".tlog" or (
        len(head) > 9 and head[0] == 0 and head[1] < 8 and head[8] in FRAMES and b"\0" in head[:64]
    )


def is_json_recording(path: Path, head: bytes) -> bool:
    """Whether an MCAP file has messages in JSON, as BlueOS records them."""
    try:
        with path.open("rb") as file:
            found = mcap_messages(file) if path.suffix == ".mcap" else iter(())
            channel = next(each for _, each, message in found if message is not None)
        return bool(channel.message_encoding == "json")
    except Exception:  # whatever a torn file makes the library raise: its reader says so
        return False


def read_mavlink(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths below the sonar at the vehicle's positions, placed as on a live link.

    Of several vehicles, the one with the most depths is read; of several sonars that agree, the one
    with the most depths. A submarine's own depth is added.

    Raises:
        InputError: the file cannot be read, a library is not installed, there are no positions or
            no depths, or sonars contradict each other.
    """
    heard, refused = Counter[str](), Counter[str]()
    vehicles: dict[Any, list[LogMessage]] = defaultdict(list)
    for message in log_messages(path, heard, refused):
        own = vehicles[message.system]
        if own and own[-1].kind == message.kind == "ATTITUDE":
            own.pop()  # nothing can need it any more
        own.append(message)
    found = {system: _readings(_of_autopilot(every)) for system, every in vehicles.items()}
    most = max(found, key=lambda system: len(found[system][0]), default=None)
    (pings, lost), messages = found.get(most, ([], Counter())), _of_autopilot(vehicles[most])
    refused["other_vehicle"] += sum(len(each) for each, _ in found.values()) - len(pings)
    fixes = [each for each in messages if _place(each)]
    if not fixes and any(m.kind in POSITIONS and m.lat == m.lon == 0 for m in messages):
        raise InputError(f"{path}: {NO_FIX}")
    if not fixes or not pings:
        kinds = "DPTH", "RFND", *RANGES
        wanted = {"positions": (("POS", "GPS", *POSITIONS[:2]), fixes), "depths": (kinds, pings)}
        raise nothing_found(path, wanted, heard, refused + lost)
    kind = min((each.kind for each in fixes), key=POSITIONS.index)
    fixes = [each for each in fixes if each.kind == kind]
    number, ranges, name = _sonar(path, pings, options.columns.get("depth", ""))
    refused["other_sonar"] += sum(f"{each[1]}.{each[0]}" != name for each in pings)
    words = [f"positions {fixes[0].own_kind}", f"depths {name} (m below the sonar)"]
    if any(each.kind == "ATTITUDE" for each in messages):
        words.append("roll and pitch applied")
    submarine = any(each.kind == "HEARTBEAT" and each.type == SUBMARINE for each in messages)
    given = {name: v for name, v in options.settings.items() if name not in ABSENT}
    surface = bool(given.get("odometry.surface", not submarine))
    words += [] if surface else ["the submarine's own depth added"]
    places = np.array([(each.seconds, *(_place(each) or ())) for each in fixes])
    defaults = {
        "odometry.timeout": GAP, "odometry.wait": 2 * GAP, "odometry.surface": surface,
        "odometry.max_speed": _usual_speed(places),
    }  # fmt: skip
    frame = LocalFrame(*np.median(places[:, 1:], axis=0).tolist())
    replay = Replay(instance(FrontEndSettings, {**defaults, **given}))
    _replay(replay, _as_live(messages, kind, number, ranges), frame, surface)
    found_ones = _soundings(replay, frame, ", ".join(words), options.sound_scale)
    layout = quantity(sum(heard.values()), "message")
    refused += replay.front_end.ledger.odometry_rejected
    return replace(found_ones, layout=layout, refused=+refused)


#: A valid reading: number of the sonar, the log's kind of message, time (s), range (m).
Reading = tuple[int, str, float, float]


def _of_autopilot(messages: list[LogMessage]) -> list[LogMessage]:
    """Those of the autopilot, where it sends that kind; else those of other components."""
    own = {each.kind for each in messages if each.component == AUTOPILOT_COMPONENT}
    return [m for m in messages if m.component == AUTOPILOT_COMPONENT or m.kind not in own]


def _readings(messages: list[LogMessage]) -> tuple[list[Reading], Counter[str]]:
    """The valid readings of a vehicle's sonars, and how many others there are, by reason."""
    found, lost = list[Reading](), Counter[str]()
    for message in messages:
        if message.kind not in RANGES:
            continue
        ping = reading(message, 0, (0.0, math.inf))
        if getattr(message, "orientation", DOWN) != DOWN:
            lost["not_downward"] += 1
        elif reason := refusal_reason(ping):
            lost[reason] += 1
        else:
            found.append((message.id, message.own_kind, message.seconds, ping.range))
    return found, lost


def _place(message: LogMessage) -> tuple[float, float] | None:
    """Latitude and longitude of a message with a position, in degrees."""
    if message.kind not in POSITIONS or getattr(message, "fix_type", 3) < 3:
        return None
    latitude, longitude = message.lat / DEGREE, message.lon / DEGREE
    valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0)
    return (latitude, longitude) if valid else None


def _sonar(path: Path, pings: list[Reading], wanted: str) -> tuple[int, Sequence[str], str]:
    """The number of the sonar whose depths are mapped, the kinds of its messages that are read, and
    its name: of the best kind that is frequent. Raises as ``read_mavlink``."""
    own = defaultdict[str, list[Reading]](list)
    for each in pings:
        own[f"{each[1]}.{each[0]}"].append(each)
    if wanted:
        names = [n for n in own if wanted.upper() in (n, n.split(".")[0])][:1]
    else:
        most = max(map(len, own.values()))
        best = min(_rank(each[0][1]) for each in own.values() if 2 * len(each) >= most)
        names = sorted((n for n in own if _rank(own[n][0][1]) == best), key=lambda n: -len(own[n]))
    if not names:
        every = " or ".join(f"depth={name}" for name in own)
        raise InputError(f"{path}: --columns: expected {every}, got depth={wanted}")
    series = {name: np.array(sorted(each[2:] for each in own[name])).T for name in names}
    first = series[names[0]][0]
    candidates = [
        Candidate(name, at_times(first, at, depth, TOGETHER), UNSAID, "m", {"depth": name})
        for name, (at, depth) in series.items()
        if 20 * len(at) > len(first)
    ]
    name = best_of(str(path), candidates)[0].name
    number, kind = own[name][0][:2]
    return number, RANGES[_rank(kind) :], name


def _rank(kind: str) -> int:
    return RANGES.index(OWN.get(kind, kind))


def _usual_speed(places: np.ndarray) -> float:
    """The speed that the vehicle seldom exceeds, in m/s; ``places``: time (s), latitude, longitude
    [N, 3]."""
    since = np.diff(places[:, 0])
    steps = np.hypot(*np.diff(rough_metres(places[:, 1:]), axis=0).T)
    known = (since > 0) & np.isfinite(steps)
    return float(np.quantile(steps[known] / since[known], 0.9)) if known.any() else 0.0


def _replay(replay: Replay, live: Iterator[LogMessage], frame: LocalFrame, surface: bool) -> None:
    """Feed a front end with a vehicle's messages, through the decoder of a live link."""
    telemetry, boots = Telemetry(surface, logged=True), 0
    telemetry.frame = frame
    for message in live:
        arrived_ns = round(message.seconds * 1e6) * 1000  # a float holds no more digits
        events = telemetry.events(message, arrived_ns)
        if telemetry.clock.boots > boots:
            boots = telemetry.clock.boots
            replay.front_end.clock_set_back()
        for event in events:
            replay.handle(event, Moment(arrived_ns, arrived_ns / SECOND))


def _as_live(
    messages: list[LogMessage], fix: str, number: int, ranges: Sequence[str]
) -> Iterator[LogMessage]:
    """The messages in the form in which a live link has them: positions of the kind ``fix`` as
    GLOBAL_POSITION_INT, and the ranges of one sonar."""
    boot_ms = 0
    yield from islice((m for m in messages if m.kind == "ATTITUDE"), 1)
    for message in messages:
        boot_ms = getattr(message, "time_boot_ms", boot_ms)
        if message.kind == fix != POSITIONS[0] and _place(message):
            own = getattr(message, "time_usec", SINCE_1970 * 1000) // 1000
            ms = getattr(message, "time_boot_ms", own if own < SINCE_1970 else boot_ms)
            still = {"relative_alt": 0.0, "vx": 0.0, "vy": 0.0}
            yield LogMessage(**{**vars(message), "kind": POSITIONS[0], "time_boot_ms": ms, **still})
        if message.kind not in RANGES or (message.id == number and message.kind in ranges):
            yield message


def _soundings(replay: Replay, frame: LocalFrame, words: str, sound_scale: float) -> RawSoundings:
    """As a reader returns them, by their times. Depths are divided by ``sound_scale``, since the
    front end has applied it, to the range alone, and whoever places soundings applies it to depths.
    """
    pings, others = replay.ended(1e9)
    stamps = np.append(pings.stamp_ns, others.stamp_ns)
    order = np.argsort(stamps, kind="stable")
    stamps, xyz = stamps[order], np.concatenate((pings.xyz, others.xyz))[order]
    reason = np.array([""] * len(pings) + others.reason.tolist(), dtype=object)[order]
    known = (stamps >= 0) & (stamps < LAST * SECOND)
    reason[~known & (reason == "")] = "no_time"
    place = frame.place.degrees(frame.place.to_projected(xyz[:, :2]))[:, ::-1]
    return RawSoundings(
        place, -xyz[:, 2] / sound_scale, stamp_ns=np.where(known, stamps, 0), reason=reason,
        fixed=True, understood=f"{words}, time UTC where the log knows it",
    )  # fmt: skip


def log_messages(path: Path, heard: Counter[str], refused: Counter[str]) -> Iterator[LogMessage]:
    """The messages of a log that are needed, in its order, up to where it is torn. ``heard``: how
    many it has, by kind; ``refused``: how many cannot be read, by reason.

    Raises:
        InputError: it cannot be read at all, takes too much memory, or a library is missing.
    """
    memory = MemoryMeter(f"{path}: its content")
    read = _json if path.suffix == ".mcap" else _frames
    try:
        with path.open("rb") as file:
            if is_dataflash(path, file.read(20_000)):
                read = _dataflash
        for message in read(path, heard, refused):
            memory.add(MESSAGE_BYTES)
            yield message
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # each version of a library raises another
        refused["unreadable_rest"] += 1
        heard["nothing further: " + type(error).__name__] += 1


def _made(
    kind: str, fields: Fields, seconds: float, system: Any, component: int, own_kind: str = ""
) -> LogMessage:
    values = {name: _plain(fields[name]) for name in FIELDS[kind]}
    values.setdefault("id", 0)
    values["lon"] = values.pop("lng", values.get("lon"))
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


def _frames(path: Path, *counts: Counter[str]) -> Iterator[LogMessage]:
    """Of a .tlog."""
    with library() as mavutil:
        for message in _heard(mavutil.mavlogfile, path, *counts):
            if (kind := message.get_type()) in FIELDS:
                who = message.get_srcSystem(), message.get_srcComponent()
                yield _made(kind, vars(message), float(message._timestamp), *who)


def _heard(
    reader: Callable[[str], Any], path: Path, heard: Counter[str], refused: Counter[str]
) -> Iterator[Any]:
    """The messages of a file by a reader of pymavlink, counted."""
    with open(os.devnull, "w") as nowhere:  # the library prints what it does not understand

        def quietly(function: Callable[..., Any], *given: str) -> Any:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                return function(*given)

        log = quietly(reader, str(path))
        while (message := quietly(log.recv_msg)) is not None:
            if (kind := message.get_type()) == "BAD_DATA":
                refused["bad_message"] += 1
            else:
                heard[kind] += 1
                yield message


def _json(path: Path, heard: Counter[str], refused: Counter[str]) -> Iterator[LogMessage]:
    """Of a recording of BlueOS."""
    with requires_extra(f"{path}: recordings", "mcap", "bags"), path.open("rb") as file:
        for _, channel, message in mcap_messages(file):
            if message is None or channel.message_encoding != "json":
                continue
            refuse_larger(f"{path}: a message", len(message.data), JSON_FACTOR)
            try:
                tree = json.loads(message.data)
                header, fields = tree.get("header", {}), tree.get("message", tree)
                kind = str(fields.get("type", "without a type"))
                heard[kind] += 1
                if kind in FIELDS:
                    fields = {**fields, "type": fields.get("mavtype", 0)}
                    component = header.get("component_id", AUTOPILOT_COMPONENT)
                    who = header.get("system_id", 1), component
                    yield _made(kind, fields, message.log_time / SECOND, *who)
            except (ValueError, AttributeError, RecursionError, TypeError, KeyError):
                refused["bad_message"] += 1


def _dataflash(path: Path, heard: Counter[str], refused: Counter[str]) -> Iterator[LogMessage]:
    """Of a .bin, or of its text."""
    refuse_larger(f"{path}: the list of its messages", path.stat().st_size, LIST_FACTOR)
    os.environ.setdefault("PYMAVLINK_FAST_INDEX", "0")  # else C code prints
    with requires_extra(f"{path}: logs of ArduPilot", "pymavlink", "mavlink"):
        from pymavlink import DFReader
    with path.open("rb") as file:
        binary = file.read(3) == DATAFLASH
    first: float | None = None
    reader = DFReader.DFReader_binary if binary else DFReader.DFReader_text
    for message in _heard(reader, path, heard, refused):
        own, seconds = message.get_type(), float(message._timestamp)
        if own not in ("POS", "GPS", "ATT", "PARM", "MSG", *OWN):
            continue
        first = seconds if first is None else first
        since = {"time_boot_ms": max(0, round((seconds - first) * 1e3))}
        since["time_usec"] = since["time_boot_ms"] * 1000
        try:
            for kind, fields in _as_mavlink(own, message.to_dict()):
                yield _made(kind, {**since, **fields}, seconds, 1, AUTOPILOT_COMPONENT, own)
        except (KeyError, TypeError, ValueError):
            refused["bad_message"] += 1


#: ArduPilot's own names of ranges.
OWN = {"DPTH": "WATER_DEPTH", "RFND": "DISTANCE_SENSOR"}


def _as_mavlink(own: str, of: Fields) -> Iterator[tuple[str, dict[str, Any]]]:
    """A message of ArduPilot's own log as those of MAVLink, by kind and fields."""
    place, number = {}, of.get("Inst", of.get("Instance", 0))
    if "Lat" in of:
        place = {"lat": of["Lat"] * DEGREE, "lon": of["Lng"] * DEGREE, "lng": of["Lng"] * DEGREE}
    if own == "POS":
        up = 1e3 * of.get("RelHomeAlt", 0.0)
        yield "GLOBAL_POSITION_INT", {**place, "relative_alt": up, "vx": 0.0, "vy": 0.0}
    elif own == "GPS" and not of.get("I", 0):  # the first receiver
        yield "GPS_RAW_INT", {**place, "fix_type": of["Status"], "h_acc": 0, "v_acc": 0}
    elif own == "ATT":
        angles = {name: math.radians(of[name.capitalize()]) for name in ("roll", "pitch", "yaw")}
        yield "ATTITUDE", {**angles, "rollspeed": 0.0, "pitchspeed": 0.0, "yawspeed": 0.0}
    elif own == "DPTH":
        yield "WATER_DEPTH", {**place, "id": number, "healthy": 1, "distance": of["Depth"]}
    elif own == "RFND":
        every = [(number, "Dist", "Orient")]
        if "Dist" not in of:  # before 2019: two sonars in a message
            every = [(i, f"Dist{i + 1}", f"Orient{i + 1}") for i in (0, 1) if f"Dist{i + 1}" in of]
        good = of.get("Stat", GOOD) == GOOD
        for number, distance, orientation in every:
            yield "DISTANCE_SENSOR", {
                "id": number, "current_distance": 100 * of[distance], "min_distance": 0,
                "max_distance": math.inf, "orientation": of.get(orientation, DOWN),
                "covariance": 0, "horizontal_fov": 0.0,
                "signal_quality": of.get("Quality", 0) if good else NO_QUALITY,
            }  # fmt: skip
    elif own == "PARM":
        yield "PARAM_VALUE", {"param_id": of["Name"], "param_value": of["Value"]}
    elif own == "MSG" and "ArduSub" in str(of["Message"]):
        yield "HEARTBEAT", {"type": SUBMARINE}
