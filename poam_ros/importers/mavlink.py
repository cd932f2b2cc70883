"""Logs of ArduPilot and of ground stations, through the live link's decoder and front end.

``.bin`` and its text, ``.tlog``, and recordings of BlueOS (.mcap with JSON) become messages of
MAVLink as a link has them, so that a recorded mission gives the soundings that it gave live.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, requires_extra
from ..core.geodesy import GeoReference
from ..core.reading import JSON_FACTOR, MemoryMeter, refuse_larger
from ..core.samples import Samples
from ..core.settings import instance
from ..frontend.pings import TOGETHER, FrontEndSettings, RawPing, at_times, refusal_reason
from ..mavlink.link import AUTOPILOT_COMPONENT, DEGREE, library
from ..mavlink.telemetry import DOWN, RANGES, Telemetry, reading
from .bags import Event, mcap_messages, replayed
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
#: Messages with positions, the better first.
POSITIONS = ("GLOBAL_POSITION_INT", "GPS_RAW_INT", "WATER_DEPTH")
KINDS = {*POSITIONS, *RANGES, "HEARTBEAT", "ATTITUDE", "EKF_STATUS_REPORT", "PARAM_VALUE"}
#: Their fields that are read: integers, and other numbers.
INTEGERS = {"time_boot_ms", "time_usec", "type", "fix_type", "flags", "id", "orientation"}
NUMBERS = {
    "lat", "lon", "relative_alt", "vx", "vy", "h_acc", "v_acc", "roll", "pitch", "yaw",
    "rollspeed", "pitchspeed", "yawspeed", "healthy", "distance", "current_distance",
    "min_distance", "max_distance", "covariance", "horizontal_fov", "signal_quality", "param_value",
}  # fmt: skip
#: ArduPilot's own messages: the kind of MAVLink, and its fields: the own one and a factor.
_PLACE = {"lat": ("Lat", DEGREE), "lon": ("Lng", DEGREE)}
OWN: dict[str, tuple[str, dict[str, tuple[str, float]]]] = {
    "POS": ("GLOBAL_POSITION_INT", {**_PLACE, "relative_alt": ("RelHomeAlt", 1e3)}),
    "GPS": ("GPS_RAW_INT", {**_PLACE, "fix_type": ("Status", 1)}),
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
#: ArduPilot's status of a rangefinder with a reading; a quality that means that there is none.
GOOD, NO_QUALITY = 4, 1
SUBMARINE = 12  # MAV_TYPE
#: Positions that leap faster, in m/s, are refused at once; others are judged as a table's are.
FASTEST = 10.0
#: Latest plausible time, in s since 1970 (the year 2100); a receiver's time since 1970, not since
#: boot, in ms.
LAST, SINCE_1970 = 4.1e9, 10**12
#: Settings of the front end that mean nothing for a log whose depths are placed on a water level of
#: their own; the speed of sound is applied to these.
ABSENT = (
    "sonar.base_frame", "water.level", "water.await_level", "water.level_timeout",
    "odometry.max_outside", "water.sound_speed", "sonar.sound_speed",
)  # fmt: skip

Fields = Mapping[str, Any]
#: A message as a log has it: kind, a function for its fields, time (s), system, component.
Written = tuple[str, Callable[[], Fields], float, Any, int]


class LogMessage(SimpleNamespace):
    """A message of MAVLink that a log has. Fields of ``NUMBERS`` and ``INTEGERS`` that it has not
    are 0, as on a link.

    Attributes:
        kind: of MAVLink. ``own_kind``: as the log calls it.
        seconds: when it came, since 1970 where that is known.
        system, component: who sent it.
        id: the number of the sonar that a range is of.
    """

    healthy, max_distance, orientation = 1, math.inf, DOWN  # of ranges that do not say it

    def __getattr__(self, name: str) -> int:
        if name in INTEGERS or name in NUMBERS:
            return 0
        raise AttributeError(name)

    def get_type(self) -> str:
        """As of a message of pymavlink."""
        return str(self.kind)

    @property
    def sonar(self) -> str:
        """The name of the sonar that a range is of."""
        return f"{self.own_kind}.{self.id}"

    @property
    def ping(self) -> RawPing:
        """A range, without a time and limits of the sonar's parameters."""
        return reading(self, 0, (0.0, math.inf))

    @property
    def fault(self) -> str:
        """Why a range is no depth; empty: it is one."""
        return "not_downward" if self.orientation != DOWN else refusal_reason(self.ping) or ""

    @property
    def place(self) -> tuple[float, float] | None:
        """Latitude and longitude of a position, in degrees; None where there is none."""
        if self.kind not in POSITIONS or (self.kind == "GPS_RAW_INT" and self.fix_type < 3):
            return None
        latitude, longitude = self.lat / DEGREE, self.lon / DEGREE
        valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude or longitude)
        return (latitude, longitude) if valid else None


def is_dataflash(path: Path, head: bytes) -> bool:
    """Whether a file is ArduPilot's own log, or its text."""
    return head.startswith(DATAFLASH) or len(_TEXT.findall(head[:20_000])) >= 2


def is_mavlink(path: Path, head: bytes) -> bool:
    """Whether a file is a log of ArduPilot, or of a ground station, with a time before each frame;
    or an MCAP with messages in JSON near its begin, as BlueOS records them, beside video."""
    framed = len(head) > 9 and head[0] == 0 and head[1] < 8 and head[8] in FRAMES
    if path.suffix.lower() == ".tlog" or framed or is_dataflash(path, head):
        return True
    try:
        with path.open("rb") as file:
            found = mcap_messages(file) if path.suffix == ".mcap" else iter(())
            return any(channel.message_encoding == "json" for _, channel, _ in islice(found, 100))
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
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        messages, pings = _one_vehicle([*log_messages(path, heard, refused)], refused)
    fixes = [each for each in messages if each.place]
    if not fixes and any(m.kind in POSITIONS and m.lat == m.lon == 0 for m in messages):
        raise InputError(f"{path}: {NO_FIX}")
    if not fixes or not pings:
        refused += Counter(each.fault for each in messages if each.kind in RANGES and each.fault)
        kinds = "DPTH", "RFND", *RANGES
        wanted = {"positions": (("POS", "GPS", *POSITIONS[:2]), fixes), "depths": (kinds, pings)}
        raise nothing_found(path, wanted, heard, refused)
    sonar = _sonar(path, pings, options.columns.get("depth", ""))
    refused["other_sonar"] += sum(each.sonar != sonar.sonar for each in pings)
    fix = min(fixes, key=lambda each: POSITIONS.index(each.kind))
    middle = np.median([each.place for each in fixes if each.kind == fix.kind], axis=0)
    words = f"positions {fix.own_kind}, depths {sonar.sonar} (m below the sonar)"
    if any(each.kind == "ATTITUDE" for each in messages):
        words += ", roll and pitch applied"
    submarine = any(each.kind == "HEARTBEAT" and each.type == SUBMARINE for each in messages)
    given = {name: v for name, v in options.settings.items() if name not in ABSENT}
    if not (surface := bool(given.get("odometry.surface", not submarine))):
        words += ", the submarine's own depth added"
    defaults = {
        "odometry.timeout": GAP, "odometry.wait": 2 * GAP, "odometry.surface": surface,
        "odometry.max_speed": FASTEST,
    }  # fmt: skip
    telemetry = Telemetry(surface, logged=True, sonar=sonar.id, positions=fix.kind)
    frame = telemetry.frame = GeoReference(*middle.tolist())
    placing, wait = instance(FrontEndSettings, {**defaults, **given}), 1e9
    front_end, batches, others = replayed(placing, _events(messages, sonar, telemetry), wait)
    taken = Samples.joined(batches)
    stamps = np.append(taken.stamp_ns, others.stamp_ns)
    order = np.argsort(stamps, kind="stable")
    xyz = np.concatenate((taken.xyz, others.xyz))[order]
    reason = np.array([""] * len(taken) + others.reason.tolist(), dtype=object)[order]
    return RawSoundings(
        frame.degrees(frame.to_projected(xyz[:, :2]))[:, ::-1], -xyz[:, 2], reason=reason,
        stamp_ns=stamps[order], understood=f"{words}, time UTC where the log knows it",
        refused=+(refused + front_end.ledger.odometry_rejected),
        layout=quantity(sum(heard.values()), "message"),
    )  # fmt: skip


def _one_vehicle(
    log: list[LogMessage], refused: Counter[str]
) -> tuple[list[LogMessage], list[LogMessage]]:
    """The messages of the vehicle with the most depths, and these; others' are counted. Of each
    kind those of its autopilot, where that sends it; else those of other components. A system
    without an autopilot, as a sonar with a number of its own, is a part of the only vehicle."""
    autopilots = {each.system for each in log if each.component == AUTOPILOT_COMPONENT}
    vehicles, found = defaultdict[Any, list[LogMessage]](list), []
    for each in log:
        part = len(autopilots) == 1 and each.system not in autopilots
        vehicles[min(autopilots) if part else each.system].append(each)
    for own in vehicles.values():
        sent = {m.kind for m in own if m.component == AUTOPILOT_COMPONENT and m.orientation == DOWN}
        own = [m for m in own if m.component == AUTOPILOT_COMPONENT or m.kind not in sent]
        found.append((own, [each for each in own if each.kind in RANGES and not each.fault]))
    most = max(found, key=lambda each: len(each[1]), default=([], []))
    refused["other_vehicle"] += sum(len(depths) for _, depths in found) - len(most[1])
    return most


def _sonar(path: Path, pings: list[LogMessage], wanted: str) -> LogMessage:
    """The first ping of the sonar whose depths are mapped: of the best kind that is frequent.
    Raises as ``read_mavlink``."""
    own = defaultdict[str, list[LogMessage]](list)
    for each in pings:
        own[each.sonar].append(each)
    if wanted:
        for name in own:
            if wanted.upper() in (name, name.split(".")[0]):
                return own[name][0]
        every = " or ".join(f"depth={name}" for name in own)
        raise InputError(f"{path}: --columns: expected {every}, got depth={wanted}")
    most = max(map(len, own.values()))
    names = sorted(own, key=lambda name: (RANGES.index(own[name][0].kind), -len(own[name])))
    best = next(own[name][0].kind for name in names if 2 * len(own[name]) >= most)
    series = {
        name: np.array(sorted((m.seconds, m.ping.range) for m in own[name])).T
        for name in names if own[name][0].kind == best
    }  # fmt: skip
    first = next(iter(series.values()))[0]
    candidates = [
        Candidate(name, at_times(first, at, depth, TOGETHER))
        for name, (at, depth) in series.items() if 20 * len(at) > len(first)
    ]  # fmt: skip
    return own[best_of(str(path), candidates)[0].name][0]


def _events(
    messages: list[LogMessage], sonar: LogMessage, telemetry: Telemetry
) -> Iterator[tuple[int, Event]]:
    """A vehicle's messages as events, through the decoder of a live link. Of ranges of no better
    kind than the ones of ``sonar``."""
    boot_ms, better = 0, RANGES[: RANGES.index(sonar.kind)]
    for message in messages:
        arrived_ns = round(message.seconds * 1e6) * 1000  # a float holds no more digits
        if message.time_boot_ms:
            boot_ms = message.time_boot_ms
        else:
            own = message.time_usec // 1000
            message.time_boot_ms = own if 0 < own < SINCE_1970 else boot_ms or arrived_ns // 10**6
        if message.kind not in better:
            for event in telemetry.events(message, arrived_ns):
                yield arrived_ns, event


def log_messages(path: Path, heard: Counter[str], refused: Counter[str]) -> Iterator[LogMessage]:
    """The messages of a log that are needed, in its order, up to where it is torn. ``heard``: how
    many it has, by kind; ``refused``: how many cannot be read, by reason.

    Raises:
        InputError: it cannot be read at all, takes too much memory, or a library is missing.
    """
    memory, first = MemoryMeter(f"{path}: its content"), None
    with library() as mavutil:
        mavlink = mavutil.mavlink
    try:
        written = (_json if path.suffix == ".mcap" else _pymavlink)(path, refused)
        for own, fields, seconds, system, component in written:
            heard[own] += 1
            if own not in KINDS and own not in OWN:
                continue
            memory.add(MESSAGE_BYTES)
            if not 0 <= seconds < LAST:
                refused["no_time"] += 1
                continue
            first = seconds if first is None else first
            kind = OWN[own][0] if own in OWN else own
            who = {"seconds": seconds, "system": system, "component": component}
            try:
                every = _as_mavlink(own, fields(), seconds - first) if own in OWN else [fields()]
                for each in every:
                    yield LogMessage(kind=kind, own_kind=own, **who, **_numbers(each, mavlink))
            except (KeyError, TypeError, ValueError, OverflowError):
                refused["bad_message"] += 1
    except InputError:
        raise
    except Exception as error:  # each version of a library raises another
        refused["unreadable_rest"] += 1
        heard["nothing further: " + type(error).__name__] += 1


def _numbers(fields: Fields, mavlink: Any) -> dict[str, Any]:
    """The fields that are read. JSON has enumerations as {"type": NAME}, flags as {"bits": N}, a
    text perhaps as a list, and null for NaN. Raises for what is no such value."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "param_id":
            found[name] = "".join(map(str, value))
        elif name in INTEGERS:
            if isinstance(value, dict):
                bits = value.get("bits")
                value = getattr(mavlink, str(value["type"]), -1) if bits is None else bits
            found[name] = int(np.int64(value))  # refuses what no field can hold
        elif name in NUMBERS or name == "lng":
            found[name.replace("lng", "lon")] = math.nan if value is None else float(value)
    return found


def _json(path: Path, refused: Counter[str]) -> Iterator[Written]:
    """Of a recording of BlueOS."""
    with requires_extra(f"{path}: recordings", "mcap", "bags"), path.open("rb") as file:
        for _, channel, message in mcap_messages(file):
            if channel.message_encoding != "json":
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
    from pymavlink import DFReader, mavutil

    with path.open("rb") as file:
        head, reader = file.read(20_000), mavutil.mavlogfile
    if own := is_dataflash(path, head):
        refuse_larger(f"{path}: the list of its messages", path.stat().st_size, LIST_FACTOR)
        binary = head.startswith(DATAFLASH)
        reader = DFReader.DFReader_binary if binary else DFReader.DFReader_text
    log = reader(str(path))
    while (message := log.recv_msg()) is not None:
        if (kind := message.get_type()) == "BAD_DATA":
            refused["bad_message"] += 1
            continue
        who = 1, AUTOPILOT_COMPONENT
        if not own:
            who = message.get_srcSystem(), message.get_srcComponent()
        yield kind, message.to_dict, float(message._timestamp), *who


def _as_mavlink(own: str, of: Fields, since_s: float) -> Iterator[Fields]:
    """The fields of MAVLink of a message of ArduPilot's own log, at a time since its first one."""
    if of.get("I"):
        return  # not of the first receiver
    every = [of]
    if "Dist1" in of:  # before 2019: two sonars in a message
        every = [{"Instance": i - 1, "Dist": of[f"Dist{i}"], "Orient": of.get(f"Orient{i}", DOWN)}
                 for i in (1, 2) if f"Dist{i}" in of]  # fmt: skip
    for one in every:
        made = {n: one[column] * f for n, (column, f) in OWN[own][1].items() if column in one}
        if one.get("Stat", GOOD) != GOOD or one.get("Quality") == 0:
            made["signal_quality"] = NO_QUALITY
        submarine = SUBMARINE * ("ArduSub" in str(of.get("Message")))
        yield {**made, "time_boot_ms": max(1, round(1e3 * since_s)), "type": submarine,
               "param_id": str(of.get("Name"))}  # fmt: skip
