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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, quantity, requires_extra
from ..core.geodesy import GeoReference, rough_metres
from ..core.reading import JSON_FACTOR, MemoryMeter, refuse_larger
from ..core.settings import instance
from ..frontend.pings import TOGETHER, FrontEndSettings, at_times, refusal_reason
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
#: The messages of MAVLink that are read, with their fields; those of the fields that are integers.
INTEGERS = ("time_boot_ms", "time_usec", "type", "fix_type", "flags", "id", "orientation")
FIELDS = {
    "HEARTBEAT": ("type",),
    "ATTITUDE": ("time_boot_ms", "roll", "pitch", "yaw", "rollspeed", "pitchspeed", "yawspeed"),
    "GLOBAL_POSITION_INT": ("time_boot_ms", "lat", "lon", "relative_alt", "vx", "vy"),
    "GPS_RAW_INT": ("time_usec", "lat", "lon", "fix_type", "h_acc", "v_acc"),
    "GPS_GLOBAL_ORIGIN": ("latitude", "longitude"),
    "LOCAL_POSITION_NED": ("time_boot_ms", "x", "y"),
    "EKF_STATUS_REPORT": ("flags",),
    "PARAM_VALUE": ("param_id", "param_value"),
    "WATER_DEPTH": ("time_boot_ms", "id", "healthy", "lat", "lng", "distance"),
    "DISTANCE_SENSOR": (
        "time_boot_ms", "min_distance", "max_distance", "current_distance", "orientation", "id",
        "covariance", "horizontal_fov", "signal_quality",
    ),
    "RANGEFINDER": ("distance",),
}  # fmt: skip
#: ArduPilot's own messages: the kind of MAVLink, and its fields: the own one and a factor.
_PLACE = {"lat": ("Lat", DEGREE), "lon": ("Lng", DEGREE)}
_LOCAL = "LOCAL_POSITION_NED", {"x": ("PN", 1.0), "y": ("PE", 1.0)}
OWN: dict[str, tuple[str, dict[str, tuple[str, float]]]] = {
    "POS": ("GLOBAL_POSITION_INT", {**_PLACE, "relative_alt": ("RelHomeAlt", 1e3)}),
    "GPS": ("GPS_RAW_INT", {**_PLACE, "fix_type": ("Status", 1)}),
    "ORGN": ("GPS_GLOBAL_ORIGIN", {"latitude": ("Lat", DEGREE), "longitude": ("Lng", DEGREE)}),
    "XKF1": _LOCAL,
    "NKF1": _LOCAL,
    "ATT": ("ATTITUDE", {n: (n.capitalize(), math.pi / 180) for n in ("roll", "pitch", "yaw")}),
    "DPTH": ("WATER_DEPTH", {**_PLACE, "id": ("Inst", 1), "distance": ("Depth", 1.0)}),
    "RFND": (
        "DISTANCE_SENSOR",
        {"id": ("Instance", 1), "current_distance": ("Dist", 100), "orientation": ("Orient", 1),
         "signal_quality": ("Quality", 1)},
    ),
    "PARM": ("PARAM_VALUE", {"param_value": ("Value", 1.0)}),
    "MSG": ("HEARTBEAT", {}),
}  # fmt: skip
#: Of fields that they do not have.
ABSENT_FIELDS = {"healthy": 1, "max_distance": math.inf, "orientation": DOWN}
#: ArduPilot's status of a rangefinder with a reading; a quality that means that there is none.
GOOD, NO_QUALITY = 4, 1
SUBMARINE = 12  # MAV_TYPE
FASTEST = 100.0  # m/s, of any vehicle; what leaps faster has positions of nowhere
#: A receiver's time that counts from 1970, not from boot, in ms.
SINCE_1970 = 10**12
#: Messages with positions, the better first; the last counts metres from the EKF's origin.
POSITIONS = ("GLOBAL_POSITION_INT", "GPS_RAW_INT", "WATER_DEPTH", "LOCAL_POSITION_NED")
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

    @property
    def sonar(self) -> str:
        """The name of the sonar that a range is of."""
        return f"{self.own_kind}.{self.id}"

    @property
    def range(self) -> float:
        """As measured, in m."""
        return reading(self, 0, (0.0, math.inf)).range

    @property
    def fault(self) -> str:
        """Why a range is no depth; empty: it is one."""
        if getattr(self, "orientation", DOWN) != DOWN:
            return "not_downward"
        return refusal_reason(reading(self, 0, (0.0, math.inf))) or ""

    @property
    def place(self) -> tuple[float, float] | None:
        """Latitude and longitude of a position, in degrees; None where there is none."""
        if self.kind not in POSITIONS or getattr(self, "fix_type", 3) < 3:
            return None
        latitude, longitude = self.lat / DEGREE, self.lon / DEGREE
        valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude or longitude)
        return (latitude, longitude) if valid else None


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
    messages, pings = _one_vehicle(log_messages(path, heard, refused), refused)
    fixes = [each for each in messages if each.place]
    if not fixes and any(m.kind in POSITIONS[:3] and m.lat == m.lon == 0 for m in messages):
        raise InputError(f"{path}: {NO_FIX}")
    if not fixes or not pings:
        refused += Counter(each.fault for each in messages if each.kind in RANGES and each.fault)
        kinds = "DPTH", "RFND", *RANGES
        wanted = {"positions": (("POS", "GPS", *POSITIONS[:2]), fixes), "depths": (kinds, pings)}
        raise nothing_found(path, wanted, heard, refused)
    sonar = _sonar(path, pings, options.columns.get("depth", ""))
    refused["other_sonar"] += sum(each.sonar != sonar.sonar for each in pings)
    fix = min(fixes, key=lambda each: POSITIONS.index(each.kind))
    places = np.array(
        [(each.seconds, *(each.place or ())) for each in fixes if each.kind == fix.kind]
    )
    words = f"positions {fix.own_kind}, depths {sonar.sonar} (m below the sonar)"
    if any(each.kind == "ATTITUDE" for each in messages):
        words += ", roll and pitch applied"
    submarine = any(each.kind == "HEARTBEAT" and each.type == SUBMARINE for each in messages)
    given = {name: v for name, v in options.settings.items() if name not in ABSENT}
    if not (surface := bool(given.get("odometry.surface", not submarine))):
        words += ", the submarine's own depth added"
    defaults = {
        "odometry.timeout": GAP, "odometry.wait": 2 * GAP, "odometry.surface": surface,
        "odometry.max_speed": _usual_speed(places),
    }  # fmt: skip
    replay = Replay(instance(FrontEndSettings, {**defaults, **given}))
    telemetry = Telemetry(surface, logged=True)
    telemetry.frame = GeoReference(*np.median(places[:, 1:], axis=0).tolist())
    _replay(_as_live(messages, fix.kind, sonar), telemetry, replay)
    found = _soundings(replay, telemetry.frame, options.sound_scale)
    refused += replay.front_end.ledger.odometry_rejected
    return replace(
        found, understood=f"{words}, time UTC where the log knows it", refused=+refused,
        layout=quantity(sum(heard.values()), "message"),
    )  # fmt: skip


def _one_vehicle(
    every: Iterable[LogMessage], refused: Counter[str]
) -> tuple[list[LogMessage], list[LogMessage]]:
    """The messages of the vehicle with the most depths, and these; others' are counted. Of each
    kind those of its autopilot, where that sends it; else those of other components."""
    vehicles = defaultdict[Any, list[LogMessage]](list)
    for message in every:
        own = vehicles[message.system]
        if own and own[-1].kind == message.kind == "ATTITUDE":
            own.pop()  # nothing can need it any more
        own.append(message)
    most, pings = list[LogMessage](), list[LogMessage]()
    for own in vehicles.values():
        sent = {each.kind for each in own if each.component == AUTOPILOT_COMPONENT}
        own = [m for m in own if m.component == AUTOPILOT_COMPONENT or m.kind not in sent]
        depths = [each for each in own if each.kind in RANGES and not each.fault]
        refused["other_vehicle"] += min(len(depths), len(pings))
        if not most or len(depths) > len(pings):
            most, pings = own, depths
    if not any(each.place for each in most):
        _place_from_origin(most)
    return most, pings


def _place_from_origin(messages: Iterable[LogMessage]) -> None:
    """Place the positions that count metres from the EKF's origin."""
    frame = None
    for message in messages:
        if message.kind == "GPS_GLOBAL_ORIGIN":
            place = message.latitude / DEGREE, message.longitude / DEGREE
            frame = GeoReference(*place) if any(place) else None
        elif message.kind == "LOCAL_POSITION_NED" and frame is not None:
            latitude, longitude = frame.to_degrees((message.y, message.x))
            message.lat, message.lon = latitude * DEGREE, longitude * DEGREE


def _sonar(path: Path, pings: list[LogMessage], wanted: str) -> LogMessage:
    """The first ping of the sonar whose depths are mapped: of the best kind that is frequent.
    Raises as ``read_mavlink``."""
    own = defaultdict[str, list[LogMessage]](list)
    for each in pings:
        own[each.sonar].append(each)
    rank = {name: RANGES.index(each[0].kind) for name, each in own.items()}
    if wanted:
        names = [n for n in own if wanted.upper() in (n, n.split(".")[0])][:1]
    else:
        most = max(map(len, own.values()))
        best = min(rank[name] for name, each in own.items() if 2 * len(each) >= most)
        names = sorted((n for n in own if rank[n] == best), key=lambda name: -len(own[name]))
    if not names:
        every = " or ".join(f"depth={name}" for name in own)
        raise InputError(f"{path}: --columns: expected {every}, got depth={wanted}")
    series = {n: np.array(sorted((each.seconds, each.range) for each in own[n])).T for n in names}
    first = series[names[0]][0]
    candidates = [
        Candidate(name, at_times(first, at, depth, TOGETHER), UNSAID, "m", {"depth": name})
        for name, (at, depth) in series.items()
        if 20 * len(at) > len(first)
    ]
    return own[best_of(str(path), candidates)[0].name][0]


def _usual_speed(places: np.ndarray) -> float:
    """The speed that the vehicle seldom exceeds, in m/s; ``places``: time (s), latitude, longitude
    [N, 3]."""
    since = np.diff(places[:, 0])
    steps = np.hypot(*np.diff(rough_metres(places[:, 1:]), axis=0).T)
    known = (since > 0) & np.isfinite(steps)
    speed = np.quantile(steps[known] / since[known], 0.9) if known.any() else 0.0
    return min(float(speed), FASTEST)


def _as_live(messages: list[LogMessage], fix: str, sonar: LogMessage) -> Iterator[LogMessage]:
    """The messages in the form in which a live link has them: positions of the kind ``fix`` as
    GLOBAL_POSITION_INT, and the ranges of one sonar, of its kind and of worse ones."""
    boot_ms, kinds = 0, RANGES[RANGES.index(sonar.kind) :]
    yield from islice((m for m in messages if m.kind == "ATTITUDE"), 1)
    for message in messages:
        boot_ms = getattr(message, "time_boot_ms", boot_ms)
        if message.kind == fix != POSITIONS[0] and message.place:
            own = getattr(message, "time_usec", SINCE_1970 * 1000) // 1000
            ms = getattr(message, "time_boot_ms", own if own < SINCE_1970 else boot_ms)
            still = {"relative_alt": 0.0, "vx": 0.0, "vy": 0.0}
            yield LogMessage(**{**vars(message), "kind": POSITIONS[0], "time_boot_ms": ms, **still})
        if message.kind not in RANGES or (message.id == sonar.id and message.kind in kinds):
            yield message


def _replay(live: Iterable[LogMessage], telemetry: Telemetry, replay: Replay) -> None:
    """Feed a front end with a vehicle's messages, through the decoder of a live link."""
    boots = 0
    for message in live:
        arrived_ns = round(message.seconds * 1e6) * 1000  # a float holds no more digits
        events = telemetry.events(message, arrived_ns)
        if telemetry.clock.boots > boots:
            boots = telemetry.clock.boots
            replay.front_end.clock_set_back()
        for event in events:
            replay.handle(event, Moment(arrived_ns, arrived_ns / SECOND))


def _soundings(replay: Replay, frame: GeoReference, sound_scale: float) -> RawSoundings:
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
    place = frame.degrees(frame.to_projected(xyz[:, :2]))[:, ::-1]
    stamps = np.where(known, stamps, 0)
    return RawSoundings(place, -xyz[:, 2] / sound_scale, stamp_ns=stamps, reason=reason, fixed=True)


#: A message as a log has it: kind, a function for its fields, time (s), system, component.
Written = tuple[str, Callable[[], Fields], float, Any, int]


def log_messages(path: Path, heard: Counter[str], refused: Counter[str]) -> Iterator[LogMessage]:
    """The messages of a log that are needed, in its order, up to where it is torn. ``heard``: how
    many it has, by kind; ``refused``: how many cannot be read, by reason.

    Raises:
        InputError: it cannot be read at all, takes too much memory, or a library is missing.
    """
    memory, first = MemoryMeter(f"{path}: its content"), None
    try:
        written = (_json if path.suffix == ".mcap" else _pymavlink)(path, refused)
        for own, fields, seconds, system, component in written:
            heard[own] += 1
            if own not in FIELDS and own not in OWN:
                continue
            memory.add(MESSAGE_BYTES)
            first = seconds if first is None else first
            who = {"seconds": seconds, "system": system, "component": component}
            try:
                every = _as_mavlink(own, fields(), seconds - first) if own in OWN else [fields()]
                for each in every:
                    kind = OWN[own][0] if own in OWN else own
                    of = {name: _value(name, each[name]) for name in FIELDS[kind]}
                    of = {"id": 0, "lat": 0, "lon": of.pop("lng", 0), **of}
                    yield LogMessage(kind=kind, own_kind=own, **who, **of)
            except (KeyError, TypeError, ValueError, OverflowError):
                refused["bad_message"] += 1
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # each version of a library raises another
        refused["unreadable_rest"] += 1
        heard["nothing further: " + type(error).__name__] += 1


def _value(name: str, value: Any) -> Any:
    """The value of a field. JSON has enumerations as {"type": NAME}, flags as {"bits": N}, a text
    perhaps as a list, and null for NaN. Raises for what is no such value."""
    if isinstance(value, list):
        value = "".join(map(str, value))
    elif isinstance(value, dict) and "bits" in value:
        value = value["bits"]
    elif isinstance(value, dict) and name in INTEGERS:
        with library() as mavutil:
            value = getattr(mavutil.mavlink, str(value["type"]), -1)
    if name == "param_id":
        return str(value)
    if name in INTEGERS:
        return int(np.int64(value))  # refuses what no field can hold
    return math.nan if value is None else float(value)


def _json(path: Path, refused: Counter[str]) -> Iterator[Written]:
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
                component = int(header.get("component_id", AUTOPILOT_COMPONENT))
                fields = {**fields, "type": fields.get("mavtype") or 0}
                who = int(header.get("system_id", 1)), component
            except (ValueError, AttributeError, RecursionError, TypeError):
                refused["bad_message"] += 1
                continue
            yield kind, fields.copy, message.log_time / SECOND, *who


def _pymavlink(path: Path, refused: Counter[str]) -> Iterator[Written]:
    """Of a .tlog, of a .bin, or of its text."""
    os.environ.setdefault("PYMAVLINK_FAST_INDEX", "0")  # else C code prints
    with requires_extra(f"{path}: logs of ArduPilot", "pymavlink", "mavlink"):
        from pymavlink import DFReader
    with library() as mavutil, path.open("rb") as file:
        head, reader = file.read(20_000), mavutil.mavlogfile
    if own := is_dataflash(path, head):
        refuse_larger(f"{path}: the list of its messages", path.stat().st_size, LIST_FACTOR)
        binary = head.startswith(DATAFLASH)
        reader = DFReader.DFReader_binary if binary else DFReader.DFReader_text
    with open(os.devnull, "w") as nowhere:  # the library prints what it does not understand

        def quietly(function: Callable[..., Any], *given: str) -> Any:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                return function(*given)

        log = quietly(reader, str(path))
        while (message := quietly(log.recv_msg)) is not None:
            if (kind := message.get_type()) == "BAD_DATA":
                refused["bad_message"] += 1
                continue
            who = 1, AUTOPILOT_COMPONENT
            if not own:
                who = message.get_srcSystem(), message.get_srcComponent()
            yield kind, message.to_dict, float(message._timestamp), *who


def _as_mavlink(own: str, of: Fields, since_s: float) -> Iterator[Fields]:
    """The fields of MAVLink of a message of ArduPilot's own log, at a time since its first one."""
    if of.get("I") or of.get("C") or (own == "ORGN" and of.get("Type")):
        return  # not of the first receiver, or not of the first filter, or home
    kind, fields = OWN[own]
    every = [of]
    if "Dist1" in of:  # before 2019: two sonars in a message
        every = [{"Instance": i - 1, "Dist": of[f"Dist{i}"], "Orient": of.get(f"Orient{i}", DOWN)}
                 for i in (1, 2) if f"Dist{i}" in of]  # fmt: skip
    for one in every:
        made: dict[str, Any] = {**dict.fromkeys(FIELDS[kind], 0.0), **ABSENT_FIELDS}
        made |= {"time_boot_ms": max(0, round(1e3 * since_s)), "param_id": of.get("Name")}
        made |= {"type": SUBMARINE * ("ArduSub" in str(of.get("Message")))}
        made |= {n: one[column] * factor for n, (column, factor) in fields.items() if column in one}
        if one.get("Stat", GOOD) != GOOD:
            made["signal_quality"] = NO_QUALITY
        yield {**made, "lng": made.get("lon"), "time_usec": made["time_boot_ms"] * 1000}
