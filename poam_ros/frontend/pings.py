"""A ping from its range to its place: settings, checks of ranges, where the beam met the bottom,
and how accurately that is known; two records of one quantity compared. No ROS.

Metres, nanoseconds, radians. docs/sensors.md has the frames, the datum and the derivation of the
noise.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..core.geometry import Extent
from ..core.settings import Settings, setting
from .odometry import VehicleState, bare_frame, rotate, stamp_to_ns

#: Largest absolute water level in m: some lakes lie at several thousand.
MAX_LEVEL = 1e4
#: What z counts from.
SURFACE, DATUM = "surface", "datum"


def water_level_setting() -> Any:
    """The field ``water_level`` of every settings class that counts depths from the surface."""
    return setting(
        0.0, "Height of the water surface above the map's datum, until a level is received on the "
        "topic water_level. Where the odometry's z is a height above that datum, it is not added: "
        "depths count from it", "m",
        minimum=-MAX_LEVEL, maximum=MAX_LEVEL, mutable=True, name="water.level",
    )  # fmt: skip


def _limit(what: str, unit: str, maximum: float, name: str, none: str = "no limit") -> Any:
    return setting(0.0, f"{what}. 0: {none}", unit, 0.0, maximum, mutable=True, name=name)


@dataclass(frozen=True)
class FrontEndSettings(Settings):
    """How pings are checked and placed.

    ``workspace``: None: no limits. ``capacity``: largest number of pings that wait for odometry.
    """

    max_outside: float = setting(
        5.0, "Refuse pings taken farther than this outside the workspace", "m", 0.0, 1e6,
        name="odometry.max_outside",
    )  # fmt: skip
    range_time_offset: float = setting(
        0.0, "Add this to the stamp of a ping to get its time of measurement. -0.5 for a sonar "
        "that stamps 0.5 s late", "s", minimum=-60.0, maximum=60.0, mutable=True,
        name="sonar.time_offset",
    )  # fmt: skip
    odometry_timeout: float = setting(
        1.0, "Interpolate positions across gaps of at most this between two odometry messages", "s",
        minimum=0.01, maximum=60.0, mutable=True, name="odometry.timeout",
    )  # fmt: skip
    odometry_wait: float = setting(
        5.0, "Let a ping wait at most this long for its odometry, in wall time", "s", minimum=0.1,
        maximum=600.0, mutable=True, name="odometry.wait",
    )  # fmt: skip
    vertical: str = setting(
        "", "What the odometry's z counts from: the water's surface (z is 0 there, and grows "
        "upwards), or the map's datum. Empty: the surface, but z is not checked",
        choices=("", SURFACE, DATUM), mutable=True,
        name="odometry.vertical",
    )  # fmt: skip
    surface: bool = setting(
        False, "Take z as 0, the water surface, whatever the odometry says: the vehicle floats",
        mutable=True, name="odometry.surface",
    )  # fmt: skip
    max_vehicle_speed: float = setting(
        0.0, "Assume at least this speed of the vehicle when a position is checked for a jump "
        "(odometry.max_jump). 0: the speed in the odometry", "m/s", minimum=0.0, maximum=1000.0,
        mutable=True, name="odometry.max_speed",
    )  # fmt: skip
    max_jump: float = setting(
        2.0, "Refuse a position more than this beyond where three times the vehicle's speed could "
        "take it, until positions have stayed there for 1 s. 0: refuse none", "m", minimum=0.0,
        maximum=1e6, mutable=True, name="odometry.max_jump",
    )  # fmt: skip
    pings_at_place: int = setting(
        100, "Refuse further pings from one place (within 0.5 m) after this many, until the "
        "vehicle moves on. 0: accept all", minimum=0, maximum=1_000_000, mutable=True,
        name="sonar.pings_at_place",
    )  # fmt: skip
    min_range: float = _limit(
        "Refuse ranges below this", "m", 1e5, "sonar.min_range", "use the sensor message's limit"
    )
    max_range: float = _limit(
        "Refuse ranges above this", "m", 1e5, "sonar.max_range", "use the sensor message's limit"
    )
    repeat_window: float = _limit(
        "Refuse a range equal to the one before within this time: an old reading with a new stamp. "
        "Set it to the sonar's own period", "s", 60.0, "sonar.repeat_window", "refuse none",
    )  # fmt: skip
    min_confidence: float = setting(
        0.0, "Refuse pings of a lower confidence, in the unit of a MAVLink sonar or of the column "
        "that has it. Of a ROS driver's own messages: range_valid_min",
        minimum=0.0, maximum=1e6, mutable=True, name="sonar.min_confidence",
    )  # fmt: skip
    sonar_offset: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), "Position of the sonar in the vehicle's frame: x forward, y left, z up",
        "m", minimum=-100.0, maximum=100.0, name="sonar.offset",
    )  # fmt: skip
    sonar_tilt: tuple[float, ...] = setting(
        (0.0, 0.0), "Pitch and roll of the sonar. 0, 0: the beam points down; pitch > 0: tilted "
        "aft; roll > 0: tilted to port; pi: z of the vehicle points down", "rad", minimum=-3.1416,
        maximum=3.1416, name="sonar.tilt",
    )  # fmt: skip
    base_frame: str = setting(
        "", "Frame of the vehicle in which the sonar mount is looked up in tf2. Empty: use "
        "sonar.offset and sonar.tilt", name="sonar.base_frame",
    )  # fmt: skip
    sound_speed_assumed: float = setting(
        1500.0, "Sound speed assumed by the sonar", "m/s", minimum=1000.0, maximum=2000.0,
        mutable=True, name="sonar.sound_speed",
    )  # fmt: skip
    sound_speed: float = setting(
        1500.0, "True mean sound speed between sonar and bottom", "m/s", minimum=1000.0,
        maximum=2000.0, mutable=True, name="water.sound_speed",
    )  # fmt: skip
    water_level: float = water_level_setting()
    water_level_timeout: float = setting(
        900.0, "Refuse pings when the last message on the topic water_level is older than this, in "
        "ROS time. 0: no limit", "s", minimum=0.0, maximum=1e6, mutable=True,
        name="water.level_timeout",
    )  # fmt: skip
    await_water_level: bool = setting(
        False, "Refuse pings until a level has been received on the topic water_level",
        mutable=True, name="water.await_level",
    )  # fmt: skip
    ping_noise: bool = setting(
        False, "Use each ping's own noise in the model, from the known errors of its range, the "
        "vehicle's position and the footprint", name="noise.enabled",
    )  # fmt: skip
    range_noise_std: float = setting(
        0.0, "Standard deviation of a range if the message has none", "m", minimum=0.0, maximum=1e3,
        mutable=True, name="noise.range_std",
    )  # fmt: skip
    range_noise_share: float = setting(
        0.0, "Part of the range's standard deviation that grows with the range, as a share of the "
        "range", minimum=0.0, maximum=1.0, mutable=True, name="noise.range_share",
    )  # fmt: skip
    beam_width: float = _limit(
        "Full angle of the beam", "rad", 3.0, "sonar.beam_width", "use the message's field of view"
    )
    slope: float = setting(
        0.0, "Typical slope of the bottom, which turns errors of position into errors of elevation",
        minimum=0.0, maximum=100.0, mutable=True, name="noise.slope",
    )  # fmt: skip
    max_noise_std: float = _limit(
        "Refuse pings with a larger known noise (standard deviation)", "m", 1e4, "noise.max_std"
    )
    max_position_std: float = _limit(
        "Refuse pings if the standard deviation of the vehicle's horizontal position is larger",
        "m", 1e5, "odometry.max_std",
    )  # fmt: skip
    workspace: Extent | None = None
    capacity: int = 4096

    @property
    def from_surface(self) -> bool:
        """Whether the water level is added to the odometry's z."""
        return self.vertical != DATUM

    @property
    def sound_scale(self) -> float:
        """Factor from reported to true ranges."""
        return self.sound_speed / self.sound_speed_assumed


MAX_FRAMES = 16  # sonars that are distinguished
MAX_REMEMBERED = 64  # newest pings that a new one is compared with to find duplicates
TOO_CLOSE = "too_close"  # a reason of refusal
#: A range that is repeated for so long (s), so often and over so many m is hardly a flat bottom's.
LOST_S, LOST_COUNT, LOST_M = 60.0, 15, 15.0
#: So is one that is held so many times as often as usual. It is false if the median of so many
#: after it differs by this (m), and by this share of the range, the first of them by half of that
#: (by less where a flat bottom ends at a slope), or if soundings beside it do: within this share of
#: the length over which it is held.
TIMES, AFTER, CHANGES, OF_RANGE, BESIDE = 5.0, 5, 0.3, 0.06, 0.25
#: A sounder that finds the bottom again jumps to it by so many steps of its resolution.
RESUMES = 5
MAX_RANGE = 1e5  # m; beyond the reach of any sonar, whatever a message says


@dataclass(frozen=True)
class RawPing:
    """A range as the sonar reports it.

    Attributes:
        stamp_ns: time.
        range: in m, as reported, without corrections.
        min_range, max_range: limits of validity, in m.
        frame_id: frame of the sonar.
        field_of_view: full angle of the beam in rad; 0: unknown.
        variance: of the range, m^2; 0: unknown (as of sensor_msgs/Range).
        confidence: in the driver's unit; NaN: unknown.
    """

    stamp_ns: int
    range: float
    min_range: float
    max_range: float
    frame_id: str = ""
    field_of_view: float = 0.0
    variance: float = 0.0
    confidence: float = math.nan


def read_range(message: Any) -> RawPing:
    """A sensor_msgs/Range."""
    return RawPing(
        stamp_to_ns(message.header.stamp),
        message.range,
        message.min_range,
        message.max_range,
        bare_frame(message.header.frame_id),
        message.field_of_view,
        getattr(message, "variance", 0.0),  # Humble's Range has none
    )


def refusal_reason(ping: RawPing, low: float = 0.0, high: float = 0.0) -> str | None:
    """Why a range is not a measurement (REP-117); None if it is one.

    A range of 0 is never valid: drivers send 0 for "no echo", also with a minimum of 0.

    Args:
        ping: the range.
        low: shortest valid range in m; 0: the ping's own limit.
        high: longest valid range in m; 0: the ping's own limit; 0 or NaN again: none.
    """
    low = low or (ping.min_range if ping.min_range > 0 else 0.0)
    high = high or (ping.max_range if ping.max_range > 0 else MAX_RANGE)
    if low <= ping.range <= high and 0 < ping.range <= MAX_RANGE:
        return None
    if math.isnan(ping.range):
        return "nan"
    if ping.range == math.inf:
        return "no_return"
    # -inf is REP-117's "too close", and lies below every minimum.
    return TOO_CLOSE if ping.range < low or ping.range <= 0 else "out_of_range"


class RangeFilter:
    """Refuses invalid, duplicate and repeated ranges."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the previous pings."""
        self._past: deque[tuple[int, float, str]] = deque(maxlen=MAX_REMEMBERED)
        self._first: dict[str, RawPing] = {}  # by frame: the first ping with the current value

    def refusal_reason(self, ping: RawPing, settings: FrontEndSettings) -> str | None:
        """Why a ping is refused; None if it is taken."""
        reason = refusal_reason(ping, settings.min_range, settings.max_range)
        if reason is not None:
            return reason
        if ping.confidence < settings.min_confidence:  # never true for NaN: unknown
            return "low_confidence"
        # Four beams may share a stamp; the same beam with the same range is the same ping.
        key = ping.stamp_ns, ping.range, ping.frame_id
        if key in self._past:
            return "duplicate"
        self._past.append(key)
        # A truly level bottom still passes once a window: time counts from the first of equal
        # readings that was taken.
        first, window = self._first.get(ping.frame_id), settings.repeat_window * SECOND
        if first and first.range == ping.range and 0 <= ping.stamp_ns - first.stamp_ns < window:
            return "repeat"
        if first is None and len(self._first) >= MAX_FRAMES:
            self._first.clear()
        self._first[ping.frame_id] = ping
        return None


class RepeatedRange:
    """Notices a sonar that repeats its last range while the vehicle moves on, as one does that has
    lost the bottom."""

    def __init__(self) -> None:
        self._range = math.nan
        self._begun_ns, self._count, self._length = 0, 0, 0.0
        self._place, self._said = (0.0, 0.0), False

    def follow(self, stamp_ns: int, place: tuple[float, float], distance: float) -> str:
        """What to say of a placed ping: time in ns, place in m, range in m; empty: nothing. Each
        repetition is reported once."""
        if distance != self._range:
            self._range, self._begun_ns, self._place = distance, stamp_ns, place
            self._count, self._length, self._said = 1, 0.0, False
            return ""
        self._count, self._length = self._count + 1, self._length + math.dist(place, self._place)
        self._place = place
        since_s = (stamp_ns - self._begun_ns) / SECOND
        enough = since_s >= LOST_S and self._count >= LOST_COUNT and self._length >= LOST_M
        if self._said or not enough:
            return ""
        self._said = True
        return (
            f"the sonar has repeated {distance:.4g} m for {since_s:.0f} s, over "
            f"{self._length:.0f} m: it may have lost the bottom"
        )


def held_readings(
    xy: np.ndarray, z: np.ndarray, reading: np.ndarray, piece: np.ndarray | int = 0
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Which readings repeat the last one although the bottom changes, as those of a sounder that
    has lost it, boolean [N]; and the runs of rows, from and to before, that nothing contradicts,
    though they end with a step, or with the record.

    A run of the same reading, longer than any flat bottom gives in this record, is false where the
    bottom is at once another one at its end, or changes along it on lines beside it. Its first
    reading was measured.

    Args:
        xy: places in the order of the record [N, 2], in m.
        z: elevations, or depths [N], in m.
        reading: as the sounder says it, a range or a depth [N].
        piece: number of the piece of the track, between gaps, of each [N].
    """
    from scipy.spatial import cKDTree

    piece = np.broadcast_to(piece, len(z))
    wrong, unsure = np.zeros(len(z), dtype=bool), list[tuple[int, int]]()
    anew = (np.diff(reading, prepend=np.nan) != 0) | (np.diff(piece, prepend=-1) != 0)
    begins = np.flatnonzero(anew)
    count = np.diff(begins, append=len(z))
    ends = begins + count
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
    # Half of all soundings stand in runs of at most the median.
    least = max(LOST_COUNT, TIMES * float(np.median(np.repeat(count, count)))) if len(z) else 0.0
    long = (count >= least) & (along[ends - 1] - along[begins] >= LOST_M)
    others = np.flatnonzero(~np.repeat(long, count))
    if not (long.any() and len(others)):
        return wrong, unsure
    tree = cKDTree(xy[others])
    changes = np.abs(np.diff(reading))
    step = changes[changes > 0].min(initial=np.inf)
    for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
        held = slice(begin + 1, end)
        after = z[end : end + AFTER][piece[end : end + AFTER] == piece[begin]] - z[end - 1]
        reach = BESIDE * (along[end - 1] - along[begin])
        near, match = tree.query(xy[held], distance_upper_bound=reach)
        known = np.isfinite(near)
        beside = z[others[match[known]]]
        limit = max(CHANGES, OF_RANGE * abs(reading[begin]))
        if (len(after) and limit < abs(float(np.median(after))) < 2 * abs(after[0])) or (
            2 * len(beside) > end - begin
            and np.quantile(np.abs(beside - z[held][known]), 0.75) > limit
            and np.ptp(np.quantile(beside, (0.1, 0.9))) > limit
        ):  # fmt: skip
            wrong[held] = True
        elif not len(after) or changes[end - 1] > RESUMES * step:
            unsure.append((begin, end))
    return wrong, unsure


#: Records that are rounded differently (a tenth of a fathom is 0.18 m), or of two sounders of one
#: boat: nine tenths of the differences are at most this many m and this share of the value.
ROUNDED, SHARE = 0.1, 0.02
#: Fewer pairs do not show how two records differ.
FEWEST = 5
#: Two sonars' readings are of the same bottom within this time, in s.
TOGETHER = 1.0
EQUAL, OFFSET, FACTOR, DIFFERENT, UNKNOWN = "equal", "offset", "factor", "different", "unknown"


class Relation(NamedTuple):
    """How a second record of a quantity differs from the first.

    Attributes:
        kind: ``EQUAL``; ``OFFSET``: by ``value`` m; ``FACTOR``: ``value`` times; ``DIFFERENT``;
            ``UNKNOWN``: too few pairs.
        value: see there; else 0.
    """

    kind: str
    value: float = 0.0


def compare(first: np.ndarray, second: np.ndarray) -> Relation:
    """The relation of a second record to the first; both [N], in m, NaN where unknown.

    A factor is found only where the values differ enough to tell it from an offset.
    """
    known = np.isfinite(first) & np.isfinite(second) & (first != 0)
    one, two = first[known], second[known]
    fewer = min(np.isfinite(first).sum(), np.isfinite(second).sum())
    if len(one) < max(FEWEST, fewer / 10):
        return Relation(UNKNOWN)
    size = np.abs(one)
    offset, factor = float(np.median(two - one)), float(np.median(two / one))
    found = {
        EQUAL: np.abs(two - one),
        OFFSET: np.abs(two - one - offset),
        FACTOR: np.abs(two / factor - one) if factor else np.full(len(one), np.inf),
    }
    for kind, value in ((EQUAL, 0.0), (OFFSET, offset), (FACTOR, factor)):
        if np.quantile(found[kind] - SHARE * size, 0.9) <= ROUNDED:
            return Relation(kind, value)
    return Relation(DIFFERENT)


def at_times(
    seconds: np.ndarray, times: np.ndarray, values: np.ndarray, within: float
) -> np.ndarray:
    """The values [K] at ``times`` [K], ascending, that are the nearest to ``seconds`` [N]; NaN
    where none is ``within`` so many s."""
    if not len(times):
        return np.full(len(seconds), np.nan)
    after = np.clip(np.searchsorted(times, seconds), 1, max(len(times) - 1, 1))
    last = np.minimum(after, len(times) - 1)
    near = np.where(seconds - times[after - 1] <= times[last] - seconds, after - 1, last)
    return np.where(np.abs(times[near] - seconds) <= within, values[near], np.nan)


#: Largest distance of a bottom from the datum: a sample beyond would ruin the model's scaling.
MAX_ELEVATION = 1e5


def level_fault(level: float) -> str:
    """What is wrong with a water level, as text; empty: nothing."""
    if math.isfinite(level) and abs(level) <= MAX_LEVEL:
        return ""
    return f"water_level: expected metres from {-MAX_LEVEL:g} to {MAX_LEVEL:g}, got {level}"


@dataclass(frozen=True)
class SonarMount:
    """Position and beam direction of a sonar on the vehicle.

    Attributes:
        frame_id: frame of its pings.
        offset: position in the vehicle's frame, m.
        beam: direction of the beam in that frame, unit length.
    """

    frame_id: str
    offset: tuple[float, float, float]
    beam: tuple[float, float, float]


def mount_of(settings: FrontEndSettings) -> SonarMount:
    """The mount in the settings: down, rotated by roll about x, then by pitch about y."""
    pitch, roll = settings.sonar_tilt
    x, y, z = settings.sonar_offset
    across = math.cos(roll)
    beam = (-across * math.sin(pitch), math.sin(roll), -across * math.cos(pitch))
    return SonarMount("", (x, y, z), beam)


def place(
    state: VehicleState, mount: SonarMount, distance: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The end of the beam, x, y, z in the map [3], and its direction in the map [3].

    point = position + R (offset + distance beam), and z + level.

    Args:
        state: of the vehicle; its attitude need not have unit norm.
        mount: of the sonar.
        distance: true range, m.
        level: water level above the datum in m, if the vehicle's z counts from the surface; else 0.
    """
    norm = math.hypot(*state.quaternion)
    x, y, z, w = (q / norm for q in state.quaternion)
    beam = np.array(mount.beam)
    arm = np.array(mount.offset) + distance * beam
    point = np.array(state.position) + rotate((x, y, z, w), arm)
    point[2] += level
    return point, rotate((x, y, z, w), beam)


def noise_of(
    settings: FrontEndSettings, ping: RawPing, variance: tuple[float, float, float], distance: float
) -> float | str:
    """Standard deviation of a ping's elevation from its known error sources, m; NaN: none known, or
    not used; or why the ping is refused.

    std^2 = range^2 + var(z) + slope^2 ((var(x) + var(y)) / 2 + (distance tan(width / 2))^2)

    Args:
        settings: noise of the range, beam width, slope, and limits.
        ping: its own variance takes precedence over the settings'.
        variance: of the vehicle's x, y, z, m^2; NaN where unknown.
        distance: true range, m.
    """
    limit, most = settings.max_position_std, settings.max_noise_std
    if not (settings.ping_noise or most or limit):
        return math.nan
    x, y, z = variance
    if limit and (x + y) / 2 > limit * limit:
        return "position_uncertain"
    if 0 < ping.variance < math.inf:
        known = ping.variance
    else:
        known = settings.range_noise_std**2 + (settings.range_noise_share * distance) ** 2
    if not math.isnan(z):
        known += z
    width = settings.beam_width or ping.field_of_view
    if settings.slope > 0:
        steep = settings.slope**2
        if not math.isnan(x + y):
            known += steep * (x + y) / 2
        if 0 < width < math.pi:
            known += steep * (distance * math.tan(width / 2)) ** 2
    noise = math.sqrt(known) if known else math.nan
    if noise == math.inf or (most and noise > most):
        return "too_noisy"
    return noise if settings.ping_noise else math.nan


class Standing:
    """Counts successive pings taken within ``RADIUS`` m of the first of them."""

    RADIUS = 0.5

    def __init__(self) -> None:
        self._place, self._count = (math.inf, math.inf), 0

    def full(self, place: tuple[float, float], most: int) -> bool:
        """Count a ping at a place; whether there are more than ``most`` now. 0: no limit."""
        if math.dist(place, self._place) <= self.RADIUS:
            self._count += 1
        else:
            self._place, self._count = place, 1
        return 0 < most < self._count
