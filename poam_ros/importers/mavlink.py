"""Logs of ArduPilot and of ground stations, through the live link's decoder and front end.

``.bin`` and its text, ``.tlog``, and recordings of BlueOS: each becomes messages of MAVLink, so
that a recorded mission gives the soundings that it gave live.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, quantity
from ..core.geodesy import rough_metres
from ..core.settings import instance
from ..frontend.agreement import TOGETHER, at_times
from ..frontend.ranges import refusal_reason
from ..frontend.settings import FrontEndSettings
from ..mavlink.frame import LocalFrame
from ..mavlink.link import AUTOPILOT_COMPONENT, DEGREE
from ..mavlink.parameters import ParameterReader
from ..mavlink.telemetry import DOWN, RANGES, Telemetry, reading
from .columns import UNSAID
from .mavlink_files import SUBMARINE, Heard, LogMessage, log_messages
from .nmea import nothing_found
from .options import ReadOptions
from .questions import Candidate, best_of
from .raw import RawSoundings
from .replay import Replay
from .track import GAP

#: Positions, the better first.
POSITIONS = ("GLOBAL_POSITION_INT", "GPS_RAW_INT", "WATER_DEPTH")
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9
#: Kinds of ranges as logs name them, the better first.
RANK = ("DPTH", "RFND", *RANGES)
#: Settings of the front end that mean nothing for a log whose depths are placed on a water level of
#: their own.
ABSENT = (
    "sonar.base_frame", "water.level", "water.await_level", "water.level_timeout",
    "odometry.max_outside",
)  # fmt: skip

#: Time (s) and range (m) of valid readings, by the sonar's name.
Sonars = dict[str, list[tuple[float, float]]]


def read_mavlink(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths below the sonar at the vehicle's positions, placed as on a live link.

    Of several vehicles, the one with the most depths is read; of several sonars that agree, the one
    with the most depths. A submarine's own depth is added.

    Raises:
        InputError: the file cannot be read, a library is not installed, there are no positions or
            no depths, or sonars contradict each other.
    """
    heard = Heard()
    vehicles: dict[Any, list[LogMessage]] = defaultdict(list)
    for message in log_messages(path, heard):
        if vehicles[message.system] and message.supersedes(vehicles[message.system][-1]):
            vehicles[message.system].pop()
        vehicles[message.system].append(message)
    found = {system: _readings(messages) for system, messages in vehicles.items()}
    counts = {system: sum(map(len, sonars.values())) for system, (sonars, _) in found.items()}
    own = max(counts, key=lambda system: counts[system], default=None)
    (sonars, lost), messages = found.get(own, ({}, Counter())), _of_autopilot(vehicles[own])
    heard.refused["other_vehicle"] += sum(counts.values()) - counts.get(own, 0)
    fixes = [each for each in messages if _place(each)]
    kind = min((each.get_type() for each in fixes), key=POSITIONS.index, default="")
    if not fixes or not sonars:
        wanted = {"positions": (fixes, ("POS", "GPS", *POSITIONS[:2])), "depths": (sonars, RANK)}
        missing = {what: kinds for what, (found_ones, kinds) in wanted.items() if not found_ones}
        raise nothing_found(path, missing, heard.kinds, heard.refused + lost)
    fixes = [each for each in fixes if each.get_type() == kind]
    sonar = _sonar(path, sonars, options.columns.get("depth", ""))
    heard.refused["other_sonar"] += sum(len(sonars[name]) for name in sonars if name != sonar)
    words = [f"positions {fixes[0].own_kind}", f"depths {sonar} (m below the sonar)"]
    if any(each.get_type() == "ATTITUDE" for each in messages):
        words.append("roll and pitch applied")
    submarine = any(m.get_type() == "HEARTBEAT" and m.type == SUBMARINE for m in messages)
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
    _replay(replay, _as_live(messages, kind, sonar), frame, surface)
    return _soundings(replay, frame, heard, ", ".join(words), options.sound_scale)


def _of_autopilot(messages: list[LogMessage]) -> list[LogMessage]:
    """Those of the autopilot, where it sends that kind; else those of other components."""
    own = {each.get_type() for each in messages if each.component == AUTOPILOT_COMPONENT}
    return [
        each for each in messages
        if each.component == AUTOPILOT_COMPONENT or each.get_type() not in own
    ]  # fmt: skip


def _readings(messages: list[LogMessage]) -> tuple[Sonars, Counter[str]]:
    """The valid readings of a vehicle's sonars, and how many others there are, by reason."""
    sonars: Sonars = defaultdict(list)
    lost = Counter[str]()
    for message in _of_autopilot(messages):
        if message.get_type() not in RANGES:
            continue
        ping = reading(message, 0, (0.0, math.inf))
        if getattr(message, "orientation", DOWN) != DOWN:
            lost["not_downward"] += 1
        elif reason := refusal_reason(ping):
            lost[reason] += 1
        else:
            sonars[message.sonar].append((message.seconds, ping.range))
    return sonars, lost


def _place(message: LogMessage) -> tuple[float, float] | None:
    """Latitude and longitude of a message with a position, in degrees."""
    kind = message.get_type()
    if kind not in POSITIONS or (kind == "GPS_RAW_INT" and message.fix_type < 3):
        return None
    latitude, longitude = message.lat / DEGREE, message.lon / DEGREE
    valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0)
    return (latitude, longitude) if valid else None


def _sonar(path: Path, sonars: Mapping[str, list[tuple[float, float]]], wanted: str) -> str:
    """The name of the sonar whose depths are mapped: of the best kind that is frequent.

    Raises:
        InputError: ``wanted`` is none of them, or those of the best kind contradict each other.
    """
    if wanted:
        for name in sonars:
            if wanted.upper() in (name, name.split(".")[0]):
                return name
        every = " or ".join(f"depth={name}" for name in sonars)
        raise InputError(f"{path}: --columns: expected {every}, got depth={wanted}")
    most = max(map(len, sonars.values()))
    frequent = (name.split(".")[0] for name in sonars if 2 * len(sonars[name]) >= most)
    kind = min(frequent, key=RANK.index)
    names = sorted((n for n in sonars if n.split(".")[0] == kind), key=lambda n: -len(sonars[n]))
    series = {name: np.array(sorted(sonars[name])).T for name in names}
    first = series[names[0]][0]
    candidates = [
        Candidate(name, at_times(first, at, depth, TOGETHER), UNSAID, "m", {"depth": name})
        for name, (at, depth) in series.items()
        if 20 * len(at) > len(first)
    ]
    return best_of(str(path), candidates)[0].name


def _replay(
    replay: Replay, messages: Iterator[LogMessage], frame: LocalFrame, surface: bool
) -> None:
    """Feed a front end with a vehicle's messages, through the decoder of a live link."""
    telemetry, parameters = Telemetry(surface, logged=True), ParameterReader()
    telemetry.frame, boots = frame, 0
    for message in messages:
        arrived_ns = round(message.seconds * 1e6) * 1000  # a float holds no more digits
        if message.get_type() == "PARAM_VALUE":
            parameters.answer(message)
            telemetry.limits = parameters.range_limits
        events = telemetry.events(message, arrived_ns)
        if telemetry.clock.boots > boots:
            boots = telemetry.clock.boots
            replay.front_end.clock_set_back()
        for event in events:
            replay.handle(event, Moment(arrived_ns, arrived_ns / SECOND))


def _soundings(
    replay: Replay, frame: LocalFrame, heard: Heard, words: str, sound_scale: float
) -> RawSoundings:
    """As a reader returns them, by their times. Depths are divided by ``sound_scale``, since the
    front end has applied it, to the range alone, and whoever places soundings applies it to depths.
    """
    pings, refused = replay.ended(1e9)
    stamps = np.append(pings.stamp_ns, refused.stamp_ns)
    order = np.argsort(stamps, kind="stable")
    stamps, xyz = stamps[order], np.concatenate((pings.xyz, refused.xyz))[order]
    reason = np.array([""] * len(pings) + refused.reason.tolist(), dtype=object)[order]
    known = (stamps >= 0) & (stamps < LAST * SECOND)
    reason[~known & (reason == "")] = "no_time"
    place = frame.place.degrees(frame.place.to_projected(xyz[:, :2]))[:, ::-1]
    return RawSoundings(
        place, -xyz[:, 2] / sound_scale, stamp_ns=np.where(known, stamps, 0), reason=reason,
        fixed=True, understood=f"{words}, time UTC where the log knows it",
        layout=quantity(sum(heard.kinds.values()), "message"),
        refused=+(heard.refused + replay.front_end.ledger.odometry_rejected),
    )  # fmt: skip


def _usual_speed(places: np.ndarray) -> float:
    """The speed that the vehicle seldom exceeds, in m/s; ``places``: time (s), latitude, longitude
    [N, 3]."""
    since = np.diff(places[:, 0])
    steps = np.hypot(*np.diff(rough_metres(places[:, 1:]), axis=0).T)
    known = (since > 0) & np.isfinite(steps)
    return float(np.quantile(steps[known] / since[known], 0.9)) if known.any() else 0.0


def _as_live(messages: list[LogMessage], fix: str, sonar: str) -> Iterator[LogMessage]:
    """The messages in the form in which a live link has them, with positions of the kind ``fix``
    and the ranges of one sonar, also of its worse kinds of messages."""
    number = sonar.partition(".")[2]
    live = next(m.get_type() for m in messages if getattr(m, "sonar", "") == sonar)
    boot_ms = 0
    yield from islice((m for m in messages if m.get_type() == "ATTITUDE"), 1)
    for message in messages:
        own, boot_ms = message.get_type(), getattr(message, "time_boot_ms", boot_ms)
        if own == fix != POSITIONS[0] and _place(message):
            yield message.as_position(boot_ms)
        if own not in RANGES or message.sonar == sonar or (
            RANGES.index(own) > RANGES.index(live) and message.sonar.endswith(f".{number}")
        ):  # fmt: skip
            yield message
