"""From MAVLink messages to the front end's events: positions, attitudes, ranges, accuracies, and
from the autopilot's clock, which counts from its boot, to this computer's. And the autopilot's
parameters, which are read and checked, never set."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.geodesy import GeoReference
from ..core.geometry import Extent
from ..frontend.odometry import OdometryRefused, VehicleState, multiply
from ..frontend.pings import EQUAL, TOGETHER, RawPing, at_times, compare
from .link import DEGREE

DOWN = 25  # MAV_SENSOR_ROTATION_PITCH_270
FIX_3D = 3
#: EKF_STATUS_FLAGS: the position is known; the filter assumes a fixed position; it has not started;
#: the receiver's positions contradict the filter's.
POSITION_KNOWN, HOLDS_STILL, NOT_BEGUN, GLITCHING = 16, 128, 1024, 32768
#: An older attitude is not extrapolated to the time of a position, in s.
MAX_ATTITUDE_AGE = 0.5
#: Positions that arrive later than this do not steer the vehicle, in s.
MAX_DELAY = 2.0
#: Messages with depths, the best first; after this time without one, the next is used, in s.
RANGES, RANGE_TIMEOUT = ("WATER_DEPTH", "DISTANCE_SENSOR", "RANGEFINDER"), 5.0
#: Newest readings of each sonar that are compared.
COMPARED = 20

#: Speeds of ArduPilot's Rover and Sub, with their units in m/s; the first that is not 0 counts.
SPEEDS = {"WP_SPEED": 1.0, "CRUISE_SPEED": 1.0, "WPNAV_SPEED": 0.01}
#: Their parameters; those with _CM are of versions before 4.6.
WANTED = (
    *SPEEDS, "WP_RADIUS", "RNGFND1_ORIENT", "RNGFND1_MIN", "RNGFND1_MAX", "RNGFND1_MIN_CM",
    "RNGFND1_MAX_CM", "FENCE_ENABLE", "FENCE_TYPE", "FENCE_RADIUS", "FENCE_ACTION",
    "FS_GCS_ENABLE",
)  # fmt: skip
TRIES, PERIOD_S = 3, 2.0  # requests of each parameter, and the time between them
CIRCLE = 2  # a bit of FENCE_TYPE
SINGLE = 1 + 1e-6  # a parameter is a float of 32 bits
#: Share by which max_speed may differ from the vehicle's speed.
SPEED_TOLERANCE = 0.3

ANGLES = ("roll", "pitch", "yaw", "rollspeed", "pitchspeed", "yawspeed")

Quaternion = tuple[float, float, float, float]
VehicleEvent = VehicleState | RawPing | OdometryRefused


def attitude(roll: float, pitch: float, yaw: float, heading: float) -> Quaternion:
    """The attitude as a rotation from the body (forward, left, up) to the map.

    Args:
        roll: of ATTITUDE, from forward-right-down to north-east-down, in rad.
        pitch: likewise.
        yaw: likewise.
        heading: direction of the map's y axis, clockwise from north, in degrees.
    """
    turned = math.pi / 2 - yaw + math.radians(heading)
    about_z = (0.0, 0.0, math.sin(turned / 2), math.cos(turned / 2))
    about_y = (0.0, -math.sin(pitch / 2), 0.0, math.cos(pitch / 2))
    about_x = (math.sin(roll / 2), 0.0, 0.0, math.cos(roll / 2))
    return multiply(about_z, multiply(about_y, about_x))


class Telemetry:
    """Converts the messages of one autopilot.

    Args:
        surface: whether the vehicle floats, so that its z is 0.
        sonar: the number of the sonar whose ranges are taken; -1: of those that look down and have
            readings, the first, as long as they agree. While they do not, no range is taken, and
            ``fault`` says so: one may be a lidar above the water.
        positions: kind of the messages with positions.
        logged: whether messages come from a log, which may have few attitudes or none: the last one
            holds, and without any the vehicle is taken as level. On a link such positions are
            refused.

    Attributes:
        frame: of positions; without one, positions are stored but give no events.
        clock: of the autopilot.
        parameters: of the autopilot.
        position: newest latitude and longitude in degrees; None before the first.
        delayed: whether the newest position came too late to steer by.
        fault: why the newest position cannot be used, as text; empty: it can.
        displaced: why positions have shifted, as text; whoever reads it empties it.
        left_out: number of messages with ranges that were not used, by reason.
    """

    def __init__(
        self, surface: bool = True, logged: bool = False, sonar: int = -1,
        positions: str = "GLOBAL_POSITION_INT",
    ) -> None:  # fmt: skip
        self.surface, self._logged, self._sonar = surface, logged, sonar
        self._positions = positions
        self.frame: GeoReference | None = None
        self.clock = BootClock()
        self.parameters = ParameterReader()
        self.position: tuple[float, float] | None = None
        self.delayed, self.fault, self.displaced = False, "no position yet", ""
        self._lost = self._glitched = False  # the EKF's position, and the receiver, since the last
        self.left_out: Counter[str] = Counter()
        self._attitude: Any = None
        self._fix: Any = None
        self._flags: int | None = None  # of the EKF
        self._heard: dict[str, int] = {}  # when each kind of range came last, ns
        # The newest readings, time (s) and range (m), by kind and number of sonar.
        self._readings: dict[str, dict[int, deque[tuple[float, float]]]] = {}
        self._contradiction = ""

    def events(self, message: Any, arrived_ns: int) -> Sequence[VehicleEvent]:
        """The events of a message that arrived at a time in ns, by a clock that is never set."""
        kind, found = message.get_type(), list[VehicleEvent]()
        if kind == "ATTITUDE":
            if all(math.isfinite(getattr(message, name)) for name in ANGLES):
                self._attitude = message
        elif kind == "GPS_RAW_INT":
            self._fix = message
        elif kind == "EKF_STATUS_REPORT":
            self._flags = message.flags
            self._glitched |= bool(message.flags & GLITCHING)
        elif kind == "PARAM_VALUE":
            self.parameters.answer(message)
        if kind == self._positions:
            found += self._position(message, arrived_ns)
        if kind in RANGES:
            found += self._range(kind, message, arrived_ns)
        return found

    def origin_fault(self, max_accuracy: float) -> str:
        """Why the newest position cannot be a frame's origin, as text; empty: it can.

        Until the EKF uses the receiver, the autopilot sends positions that are not the receiver's.

        Args:
            max_accuracy: largest standard deviation of the fix, in m.
        """
        if self.fault:
            return self.fault
        if self._flags is None:
            return "no EKF_STATUS_REPORT yet"
        if self._fix is None or self._fix.fix_type < FIX_3D:
            return "no fix yet"
        if (accuracy := self._fix.h_acc / 1e3) > max_accuracy:  # 0: not reported
            return f"the fix is accurate to {accuracy:.1f} m: expected {max_accuracy:g} m"
        return ""

    def _position(self, message: Any, arrived_ns: int) -> Sequence[VehicleEvent]:
        stamp_ns = self.clock.stamp(message.time_boot_ms, arrived_ns)
        self.delayed = self.clock.age_s > MAX_DELAY
        place = message.lat / DEGREE, message.lon / DEGREE
        reason, self.fault = self._position_fault(place, message)
        if reason:
            self._lost |= reason == "ekf"
            return [OdometryRefused(reason)]
        if self._lost and self._glitched:  # it has restarted at the receiver's position
            self.displaced = "the EKF lost its position after the receiver's position jumped"
        self._lost, self._glitched = False, bool((self._flags or 0) & GLITCHING)
        if self.delayed:
            self.fault = f"positions arrive {self.clock.age_s:.0f} s late"
        self.fault = self.fault or self._contradiction
        self.position = place
        if self.frame is None:
            return []
        x, y = self.frame.metres(*place)
        if not (math.isfinite(x) and math.isfinite(y)):
            self.fault = "the position is too far from the frame's origin"
            return [OdometryRefused("not_finite")]
        z = 0.0 if self.surface else message.relative_alt / 1e3
        speed = math.hypot(message.vx, message.vy) / 100
        across, up = 0.0, 0.0  # unknown
        if self._fix is not None:
            across, up = (self._fix.h_acc / 1e3) ** 2, (self._fix.v_acc / 1e3) ** 2
        variance = across, across, 0.0 if self.surface else up
        quaternion = self._turned(message.time_boot_ms)
        return [VehicleState(stamp_ns, (x, y, z), quaternion, speed, variance=variance)]

    def _position_fault(self, place: tuple[float, float], message: Any) -> tuple[str, str]:
        """Reason and text of what is wrong with a position; both empty: nothing."""
        if place == (0.0, 0.0) or not (abs(place[0]) <= 90 and abs(place[1]) <= 180):
            return "no_position", "the autopilot has no position"
        if self._fix is not None and self._fix.fix_type < FIX_3D:
            return "no_fix", "the receiver has no fix"
        flags = self._flags
        if flags is not None and (not flags & POSITION_KNOWN or flags & (HOLDS_STILL | NOT_BEGUN)):
            return "ekf", "the autopilot's EKF does not know its position"
        if not self._logged and not self._has_attitude(message.time_boot_ms):
            never = self._attitude is None
            why = "no ATTITUDE arrives" if never else "ATTITUDE arrives too rarely, or has stopped"
            return "no_attitude", why
        return "", ""

    def _has_attitude(self, boot_ms: int) -> bool:
        known = self._attitude
        return known is not None and abs(boot_ms - known.time_boot_ms) <= MAX_ATTITUDE_AGE * 1e3

    def _turned(self, boot_ms: int) -> Quaternion:
        """Attitude at a time since boot."""
        known, frame = self._attitude, self.frame
        assert frame is not None
        if known is None:
            return attitude(0.0, 0.0, 0.0, frame.heading)
        # Body rates are rates of the angles for a vehicle that is about level.
        later_s = (boot_ms - known.time_boot_ms) / 1e3 if self._has_attitude(boot_ms) else 0.0
        roll, pitch, yaw = (
            getattr(known, name) + later_s * getattr(known, f"{name}speed") for name in ANGLES[:3]
        )
        return attitude(roll, pitch, yaw, frame.heading)

    def _range(self, kind: str, message: Any, arrived_ns: int) -> list[RawPing]:
        since, better = arrived_ns - RANGE_TIMEOUT * SECOND, RANGES[: RANGES.index(kind)]
        same = next((each for each in better if self._heard.get(each, -math.inf) > since), "")
        if getattr(message, "orientation", DOWN) != DOWN:
            unused = "not_downward"
        elif not same and self._is_other_sonar(kind, message, arrived_ns):
            unused = self._contradiction or f"of another sonar of {kind}"
        else:
            self._heard[kind] = arrived_ns
            unused = same and f"the same as {same}"
        if unused:
            self.left_out[unused] += 1
            return []
        stamp_ns = arrived_ns  # RANGEFINDER has no time of its own
        if kind != "RANGEFINDER":
            stamp_ns = self.clock.stamp(message.time_boot_ms, arrived_ns)
        return [reading(message, stamp_ns, self.parameters.range_limits)]

    def _is_other_sonar(self, kind: str, message: Any, arrived_ns: int) -> bool:
        """Whether a message is of another sonar than the first that has readings, or than the one
        that is named; or sonars contradict each other."""
        number = getattr(message, "id", 0)
        if kind == "RANGEFINDER":  # has no number
            return False
        if self._sonar >= 0:
            return bool(number != self._sonar)
        heard, seconds = self._readings.setdefault(kind, {}), arrived_ns / SECOND
        distance = reading(message, 0, self.parameters.range_limits).range
        if math.isfinite(distance) and distance > 0:
            heard.setdefault(number, deque(maxlen=COMPARED)).append((seconds, distance))
        for other in [each for each in heard if heard[each][-1][0] < seconds - RANGE_TIMEOUT]:
            del heard[other]
        first, *others = [np.array(each).T for each in heard.values()] or [None]
        agree = all(
            compare(first[1], at_times(first[0], at, distances, TOGETHER)).kind == EQUAL
            for at, distances in others
        )
        names = " and ".join(map(str, heard))
        self._contradiction = "" if agree else (
            f"sonars {names} of {kind} differ: mavlink.sonar chooses one"
        )  # fmt: skip
        return not agree or number != next(iter(heard), number)


def reading(message: Any, stamp_ns: int, limits: tuple[float, float]) -> RawPing:
    """The ping of a message of ``RANGES``.

    Args:
        message: of the autopilot.
        stamp_ns: time of measurement.
        limits: shortest and longest range in m, for messages that do not have these.
    """
    kind, (low, high) = message.get_type(), limits
    frame_id = "rangefinder" if kind == "RANGEFINDER" else f"rangefinder{message.id}"
    if kind != "DISTANCE_SENSOR":
        healthy = kind == "RANGEFINDER" or message.healthy
        distance = _echo(message.distance, high) if healthy else math.nan
        return RawPing(stamp_ns, distance, low, high, frame_id)
    low, high = message.min_distance / 100, message.max_distance / 100
    distance, quality = _echo(message.current_distance / 100, high), message.signal_quality
    # 0 and 255 stand for unknown, and a quality of 1 for no measurement.
    covariance = message.covariance if 0 < message.covariance < 255 else 0
    return RawPing(
        stamp_ns, math.nan if quality == 1 else distance, low, high, frame_id,
        message.horizontal_fov, covariance * 1e-4, quality if quality > 1 else math.nan,
    )  # fmt: skip


def _echo(distance: float, limit: float) -> float:
    """A range in m; infinite at the upper limit, by which ArduPilot reports that no echo came."""
    return math.inf if distance >= limit else float(distance)


MILLISECOND = 1_000_000  # ns
#: Length of each of the two windows in which the fastest message is searched for, in ns. Crystals
#: differ by some 50 ppm: 1.5 ms in this time.
WINDOW_NS = 30 * SECOND
#: A stamp this far behind the newest one comes from another boot, in ms.
REBOOT_MS = 10_000


class BootClock:
    """Converts times since boot to this computer's clock.

    A message arrives some time after its stamp, and this delay varies. The offset between the
    clocks is taken from the fastest message of the last minute. Converted stamps are therefore late
    by the shortest delay only, and never in the future.

    Attributes:
        boots: number of restarts of the autopilot that were noticed.
        age_s: delay of the newest message beyond the shortest delay, in s.
    """

    def __init__(self) -> None:
        self.boots, self.age_s = 0, 0.0
        self._newest_ms = 0
        self._windows: deque[list[int]] = deque(maxlen=2)  # begin and smallest offset of each, ns

    def stamp(self, boot_ms: int, arrived_ns: int) -> int:
        """The time of measurement in ns of a message with a time since boot in ms.

        ``arrived_ns``: time of arrival by a clock that is never adjusted.
        """
        if boot_ms < self._newest_ms - REBOOT_MS:  # or the counter began anew, after 49.7 days
            self.boots, self._newest_ms = self.boots + 1, boot_ms
            self._windows.clear()
        self._newest_ms, measured = max(boot_ms, self._newest_ms), boot_ms * MILLISECOND
        offset, windows = arrived_ns - measured, self._windows
        # After a silence the old offset is still right, but for drift: it is kept for a window.
        if not windows or arrived_ns - windows[-1][0] > WINDOW_NS:
            windows.append([arrived_ns, offset])
        windows[-1][1] = min(windows[-1][1], offset)
        smallest = min(least for _, least in windows)
        self.age_s = (offset - smallest) / SECOND
        return measured + smallest


class ParameterReader:
    """Asks for the parameters in ``WANTED``, a few at a time, and collects the answers.

    Attributes:
        values: of the parameters that the autopilot has answered, by name.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self._tries = dict.fromkeys(WANTED, 0)
        self._asked_s = -math.inf

    @property
    def missing(self) -> list[str]:
        """Those that are neither answered, nor requested ``TRIES`` times."""
        return [n for n in WANTED if n not in self.values and self._tries[n] < TRIES]

    def due(self, now_s: float) -> list[str]:
        """Names to request at a steady time in s."""
        if now_s - self._asked_s < PERIOD_S:
            return []
        self._asked_s, names = now_s, self.missing
        for name in names:
            self._tries[name] += 1
        return names

    def answer(self, message: Any) -> None:
        """Handle a PARAM_VALUE."""
        name = message.param_id
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        text = text.rstrip("\0")
        if text in self._tries and math.isfinite(message.param_value):
            self.values[text] = float(message.param_value)

    @property
    def range_limits(self) -> tuple[float, float]:
        """Shortest and longest range of the rangefinder in m; 0 and infinity where unknown."""
        found = self.values
        low = found.get("RNGFND1_MIN", found.get("RNGFND1_MIN_CM", 0.0) / 100)
        high = found.get("RNGFND1_MAX", found.get("RNGFND1_MAX_CM", 0.0) / 100)
        return low, high or math.inf

    def advice(self, values: Mapping[str, Any], workspace: Extent, home: Any) -> Iterator[str]:
        """Texts on parameters that do not suit the mission, one for each; missing ones are not
        checked.

        Args:
            values: of our nodes' parameters ``goal_radius``, ``capture_radius``, ``max_speed``,
                ``sonar.min_range``, ``sonar.max_range``, by name.
            workspace: the rectangle to be mapped.
            home: the vehicle's position [2] in m, taken as the autopilot's home.
        """
        found = self.values
        radius = found.get("WP_RADIUS", 0.0)
        if radius > (reached := max(values["goal_radius"], values["capture_radius"])):
            yield (
                f"WP_RADIUS is {radius:g} m: the boat may stop short of a goal, which counts as "
                f"reached within {reached:g} m; set capture_radius to at least {radius:g}"
            )
        name, wanted = next((n for n in SPEEDS if found.get(n)), ""), values["max_speed"]
        speed = found.get(name, 0.0) * SPEEDS.get(name, 1.0)
        if name and abs(speed - wanted) > SPEED_TOLERANCE * wanted:
            yield f"{name} is {speed:g} m/s, and max_speed {wanted:g} m/s: set max_speed to match"
        if (facing := found.get("RNGFND1_ORIENT", DOWN)) != DOWN:
            yield f"RNGFND1_ORIENT is {facing:g}: expected {DOWN}, a sonar that looks down"
        low, high = self.range_limits
        least, most = values["sonar.min_range"], values["sonar.max_range"]
        if low > SINGLE * least > 0:
            yield (
                f"RNGFND1_MIN is {low:g} m, and sonar.min_range {least:g} m: shorter ranges than "
                f"{low:g} m are refused as too close"
            )
        if SINGLE * high < most:
            yield (
                f"RNGFND1_MAX is {high:g} m, and sonar.max_range {most:g} m: deeper water than "
                f"{high:g} m counts as no echo"
            )
        if (fence := found.get("FENCE_ENABLE")) == 0:
            yield "FENCE_ENABLE is 0: there is only the mission's own geofence"
        elif fence and found.get("FENCE_ACTION") == 0:
            yield "FENCE_ACTION is 0: the autopilot only reports a breach of its fence"
        if fence != 0 and int(found.get("FENCE_TYPE", 0)) & CIRCLE and home is not None:
            corners = product((workspace.xmin, workspace.xmax), (workspace.ymin, workspace.ymax))
            far = max(math.dist(home, each) for each in corners)
            if (radius := found.get("FENCE_RADIUS", math.inf)) < far:
                yield (
                    f"FENCE_RADIUS is {radius:g} m, and the workspace reaches {far:.0f} m from "
                    "here: the fence will end the mission"
                )
        if found.get("FS_GCS_ENABLE") == 0:
            yield "FS_GCS_ENABLE is 0: the boat does not react when its ground station is lost"
