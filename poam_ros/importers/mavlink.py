"""Logs of ArduPilot and of ground stations, through the live link's decoder and front end.

``.bin`` and its text, ``.tlog``, and recordings of BlueOS: each becomes messages of MAVLink, so
that a recorded mission gives the soundings that it gave live.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, quantity
from ..core.geodesy import rough_metres
from ..core.settings import instance
from ..frontend.events import ClockSetBack, OdometryRefused, Tick
from ..frontend.front_end import FrontEnd
from ..frontend.ranges import RawPing, refusal_reason
from ..frontend.refused_pings import RefusedPing
from ..frontend.settings import FrontEndSettings
from ..mavlink.frame import LocalFrame
from ..mavlink.link import AUTOPILOT_COMPONENT, DEGREE
from ..mavlink.parameters import ParameterReader
from ..mavlink.telemetry import DOWN, RANGES, Telemetry, reading
from .candidates import DIFFERENT, EQUAL, UNKNOWN, Relation, at_times, compare
from .mavlink_files import SUBMARINE, Heard, LogMessage, log_messages
from .nmea import nothing_found
from .options import Answer, ReadOptions, Unclear
from .raw import RawSoundings
from .track import GAP

#: Positions, the better first.
POSITIONS = ("GLOBAL_POSITION_INT", "GPS_RAW_INT", "WATER_DEPTH")
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9
#: Two sonars' readings are of the same bottom within this time, in s.
TOGETHER = 1.0
#: Settings of the front end that mean nothing for a log whose depths are placed on a water level of
#: their own.
ABSENT = (
    "sonar.base_frame", "water.level", "water.await_level", "water.level_timeout",
    "odometry.max_outside",
)  # fmt: skip

Series = dict[str, list[tuple[float, float]]]


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
    every = [_Vehicle(_of_autopilot(messages)) for messages in vehicles.values()]
    own = max(every, key=lambda vehicle: vehicle.depths, default=_Vehicle([]))
    others = sum(len(each) for v in every if v is not own for each in v.sonars.values())
    heard.refused["other_vehicle"] += others
    if not own.fix or not own.depths:
        missing: dict[str, tuple[str, ...]] = {}
        if not own.fix:
            missing["positions"] = ("POS", "GPS", "GLOBAL_POSITION_INT", "GPS_RAW_INT")
        if not own.depths:
            missing["depths"] = ("DPTH", "RFND", *RANGES)
        raise nothing_found(path, missing, heard.kinds, heard.refused + own.invalid)
    sonar, said = _sonar(path, own.sonars, options.columns.get("depth", ""))
    found = _placed(own, sonar, options)
    words = [f"positions {own.fix_name}", f"depths {sonar} (m below the sonar{said})"]
    words += ["roll and pitch applied"] if own.tilts else []
    words += ["the submarine's own depth added"] if not found.surface else []
    heard.refused["other_sonar"] += sum(own.counts[n] for n in own.counts if n != sonar)
    return found.soundings(", ".join(words), heard, options.sound_scale)


def _of_autopilot(messages: list[LogMessage]) -> list[LogMessage]:
    """Those of the autopilot, where it sends that kind; else those of other components."""
    own = {each.get_type() for each in messages if each.component == AUTOPILOT_COMPONENT}
    return [
        each for each in messages
        if each.component == AUTOPILOT_COMPONENT or each.get_type() not in own
    ]  # fmt: skip


class _Vehicle:
    """What the messages of one vehicle hold.

    Attributes:
        messages: in their order.
        sonars: valid readings, time (s) and range (m), by the sonar's name.
        counts: number of messages of each sonar.
        invalid: messages without a reading, by reason.
        fix: the best kind of positions; empty: none. ``fix_name``: as the file calls it.
        tilts: whether attitudes are known.
        submarine: whether it says that it is one.
    """

    def __init__(self, messages: list[LogMessage]) -> None:
        self.messages, self.sonars = messages, Series()
        self.counts, self.invalid = Counter[str](), Counter[str]()
        kinds = {each.get_type(): each for each in messages}
        self.tilts = "ATTITUDE" in kinds
        self.submarine = any(
            each.get_type() == "HEARTBEAT" and each.type == SUBMARINE for each in messages
        )
        self.fix = self.fix_name = ""
        for each in messages:
            if each.get_type() in RANGES:
                self._hear(each)
        with_place = {each.get_type(): each for each in messages if _place(each) is not None}
        self.fix = next((kind for kind in POSITIONS if kind in with_place), "")
        if self.fix:
            self.fix_name = with_place[self.fix].own_kind
            lat, lon = zip(*filter(None, map(_place, self.fixes)), strict=True)
            self.middle = float(np.median(lat)), float(np.median(lon))

    @property
    def fixes(self) -> Iterator[LogMessage]:
        """The messages with positions."""
        return (each for each in self.messages if each.get_type() == self.fix)

    @property
    def depths(self) -> int:
        """Number of valid readings."""
        return sum(map(len, self.sonars.values()))

    def _hear(self, message: LogMessage) -> None:
        if getattr(message, "orientation", DOWN) != DOWN:
            self.invalid["not_downward"] += 1
            return
        ping = reading(message, 0, (0.0, math.inf))
        self.counts[message.sonar] += 1
        if (reason := refusal_reason(ping)) is None:
            self.sonars.setdefault(message.sonar, []).append((message.seconds, ping.range))
        else:
            self.invalid[reason] += 1


def _place(message: LogMessage) -> tuple[float, float] | None:
    """Latitude and longitude of a message with a position, in degrees."""
    kind = message.get_type()
    if kind not in POSITIONS or (kind == "GPS_RAW_INT" and message.fix_type < 3):
        return None
    latitude, longitude = message.lat / DEGREE, message.lon / DEGREE
    valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0)
    return (latitude, longitude) if valid else None


def _sonar(path: Path, sonars: Series, wanted: str) -> tuple[str, str]:
    """The name of the sonar whose depths are mapped, and what is said of it.

    Raises:
        InputError: ``wanted`` is none of them, or those of the best kind contradict each other.
    """
    if wanted:
        name = next((n for n in sonars if wanted.upper() in (n, n.split(".")[0])), "")
        if not name:
            raise InputError(f"{path}: --columns: expected {_named(sonars)}, got depth={wanted}")
        return name, ""
    most = max(map(len, sonars.values()))
    usual = [name for name, each in sonars.items() if 2 * len(each) >= most]
    kind = min((name.split(".")[0] for name in usual), key=_RANK.index)
    first, *others = sorted(
        (name for name in sonars if name.split(".")[0] == kind), key=lambda name: -len(sonars[name])
    )
    for other in others:
        if 20 * len(sonars[other]) > len(sonars[first]):
            relation = related(np.array(sonars[first]), np.array(sonars[other]))
            if relation.kind not in (EQUAL, UNKNOWN):
                raise _question(path, {n: sonars[n] for n in (first, *others)})
    return first, f", as are {', '.join(others)}" if others else ""


_RANK = ("DPTH", "RFND", *RANGES)


def related(first: np.ndarray, second: np.ndarray) -> Relation:
    """How the second of two series [N, 2], [K, 2] of time (s) and depth (m) differs."""
    second = second[np.argsort(second[:, 0], kind="stable")]
    there = at_times(first[:, 0], second[:, 0], second[:, 1], TOGETHER)
    found = compare(first[:, 1], there)
    if found.kind == UNKNOWN and min(len(first), len(second)) > 20:
        return Relation(DIFFERENT)
    return found


def _named(sonars: Iterable[str]) -> str:
    return " or ".join(f"depth={name}" for name in sonars)


def _question(path: Path, sonars: Series) -> Unclear:
    """Which of several sonars that contradict each other is the depth: the one that varies most is
    named first, since a lidar's height above the water hardly varies."""
    ranges = {name: np.array(each)[:, 1] for name, each in sonars.items()}
    ends = {name: np.quantile(each, (0.05, 0.95)) for name, each in ranges.items()}
    order = sorted(ranges, key=lambda name: -float(np.ptp(ends[name])))
    each = ", ".join(
        f"{name} ({ends[name][0]:.3g} to {ends[name][1]:.3g} m, {len(ranges[name])} readings)"
        for name in order
    )
    text = f"{path}: expected one depth, got sonars that differ: {each}"
    return Unclear(
        text, [Answer(f"if {name} is the depth", {"columns": {"depth": name}}) for name in order]
    )


class _Placed:
    """Pings that went through the front end.

    Attributes:
        frame: of their places; surface: whether the vehicle floats.
        rows: stamp (ns), x, y, z (m), and why it is refused, empty if it is not.
        refused: refused positions, by reason.
    """

    def __init__(self, frame: LocalFrame, surface: bool) -> None:
        self.frame, self.surface = frame, surface
        self.rows: list[tuple[int, float, float, float, str]] = []
        self.refused: Counter[str] = Counter()

    def refuse(self, pings: Iterable[RefusedPing]) -> None:
        """Add refused pings."""
        for reason, _, stamp_ns, x, y, z in pings:
            self.rows.append((stamp_ns, x, y, z, reason))

    def soundings(self, words: str, heard: Heard, sound_scale: float) -> RawSoundings:
        """As a reader returns them. Depths are divided by ``sound_scale``, since the front end has
        applied it, to the range alone, and whoever places soundings applies it to depths."""
        stamps, *xyz, reasons = map(np.array, zip(*self.rows, strict=True))
        xy = np.column_stack(xyz[:2])
        known = (stamps >= 0) & (stamps < LAST * SECOND)
        reference = self.frame.place
        place = reference.degrees(reference.to_projected(xy))[:, ::-1]
        found = RawSoundings(
            place, -xyz[2] / sound_scale, stamp_ns=np.where(known, stamps, 0), fixed=True,
            understood=f"{words}, time UTC where the log knows it",
            layout=quantity(sum(heard.kinds.values()), "message"),
            refused=+(heard.refused + self.refused),
        )  # fmt: skip
        every = dict.fromkeys(reasons.tolist())
        return found.without({
            **{str(reason): reasons == reason for reason in every if reason}, "no_time": ~known,
        })  # fmt: skip


def _placed(vehicle: _Vehicle, sonar: str, options: ReadOptions) -> _Placed:
    """The pings of a sonar, placed by the front end in the order of the log."""
    given = {name: v for name, v in options.settings.items() if name not in ABSENT}
    surface = bool(given.get("odometry.surface", not vehicle.submarine))
    defaults = {
        "odometry.timeout": GAP, "odometry.wait": 2 * GAP, "odometry.surface": surface,
        "odometry.max_speed": _usual_speed(vehicle),
    }  # fmt: skip
    front_end = FrontEnd(instance(FrontEndSettings, {**defaults, **given}))
    telemetry, parameters = Telemetry(surface, logged=True), ParameterReader()
    telemetry.frame = LocalFrame(*vehicle.middle)
    found = _Placed(telemetry.frame, surface)
    refused, boots, now = front_end.ledger.refused, 0, Moment(0, 0.0)

    def take() -> None:
        samples = front_end.handle(Tick(), now).samples
        rows = zip(samples.stamp_ns.tolist(), *samples.xyz.T.tolist(), strict=True)
        found.rows.extend((*row, "") for row in rows)
        found.refuse(refused.take_new())

    for message in _as_live(vehicle, sonar):
        arrived_ns = round(message.seconds * 1e6) * 1000  # a float holds no more digits
        now = Moment(arrived_ns, arrived_ns / SECOND)
        if message.get_type() == "PARAM_VALUE":
            parameters.answer(message)
            telemetry.limits = parameters.range_limits
        events = telemetry.events(message, arrived_ns)
        if telemetry.clock.boots > boots:
            boots = telemetry.clock.boots
            front_end.handle(ClockSetBack(), now)
        for event in events:
            front_end.handle(event, now)
            if isinstance(event, (RawPing, OdometryRefused)):
                take()
    now = Moment(now.ros_ns, now.steady_s + 1e9)  # pings that waited for odometry that never came
    take()
    found.refused.update(front_end.ledger.odometry_rejected)
    return found


def _usual_speed(vehicle: _Vehicle) -> float:
    """The speed between two positions that the vehicle seldom exceeds, in m/s."""
    rows = [(each.seconds, *place) for each in vehicle.fixes if (place := _place(each))]
    seconds, degrees = np.array(rows)[:, 0], np.array(rows)[:, 1:]
    steps = np.hypot(*np.diff(rough_metres(degrees), axis=0).T)
    since = np.diff(seconds)
    known = (since > 0) & np.isfinite(steps)
    return float(np.quantile(steps[known] / since[known], 0.9)) if known.any() else 0.0


def _as_live(vehicle: _Vehicle, sonar: str) -> Iterator[LogMessage]:
    """The messages in the form in which a live link has them, with the ranges of one sonar."""
    number = sonar.partition(".")[2]
    live = next(m.get_type() for m in vehicle.messages if getattr(m, "sonar", "") == sonar)
    boot_ms = 0
    yield from islice((m for m in vehicle.messages if m.get_type() == "ATTITUDE"), 1)
    for message in vehicle.messages:
        own, boot_ms = message.get_type(), getattr(message, "time_boot_ms", boot_ms)
        if own == vehicle.fix and own != "GLOBAL_POSITION_INT" and _place(message):
            yield message.as_position(boot_ms)
        if (
            own not in RANGES
            or message.sonar == sonar
            or (RANGES.index(own) > RANGES.index(live) and message.sonar.endswith(f".{number}"))
        ):
            yield message
