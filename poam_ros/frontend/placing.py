"""Where a beam met the bottom, and how accurately that is known; the water level. No ROS; m, rad.

docs/sensors.md has the frames, the datum and the derivation of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.geometry import MAX_COORDINATE, Extent
from .odometry import OdometryBuffer, VehicleState, rotate
from .ranges import MAX_FRAMES, RawPing, refusal_reason
from .refused_pings import NOWHERE, Xyz
from .settings import MAX_LEVEL, SURFACE, FrontEndSettings

#: Largest distance of a bottom from the datum: a sample beyond would ruin the model's scaling.
MAX_ELEVATION = 1e5
BEAM_UP = "beam_up"  # a reason of refusal


def level_fault(level: float) -> str:
    """What is wrong with a water level, as text; empty: nothing."""
    if math.isfinite(level) and abs(level) <= MAX_LEVEL:
        return ""
    return f"water_level: expected metres from {-MAX_LEVEL:g} to {MAX_LEVEL:g}, got {level}"


class WaterLevelTracker:
    """The current water level: that of the settings until one was received, then the last one."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # level, and when it came in s

    def add(self, level: float, now: Moment) -> bool:
        """Take a level; False: it is invalid and ignored."""
        if level_fault(level):
            return False
        self._last = level, now.unadjusted_s
        return True

    def level(self, settings: FrontEndSettings, now: Moment) -> float | None:
        """The level in m; None: none is known, or the last one is stale."""
        if self._last is None:
            return None if settings.await_water_level else settings.water_level
        level, when = self._last
        age, limit = now.unadjusted_s - when, settings.water_level_timeout
        # A negative age means that the clock was set back: the true age is unknown.
        return level if not limit or -1.0 <= age <= limit else None


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
) -> float:
    """Standard deviation of a ping's elevation from its known error sources, m; NaN: none known.

    std^2 = range^2 + var(z) + slope^2 ((var(x) + var(y)) / 2 + (distance tan(width / 2))^2)

    Args:
        settings: noise of the range, beam width and slope.
        ping: its own variance takes precedence over the settings'.
        variance: of the vehicle's x, y, z, m^2; NaN where unknown.
        distance: true range, m.
    """
    x, y, z = variance
    known = 0.0
    if 0 < ping.variance < math.inf:
        known += ping.variance
    else:
        known += settings.range_noise_std**2 + (settings.range_noise_share * distance) ** 2
    if not math.isnan(z):
        known += z
    width = settings.beam_width or ping.field_of_view
    if settings.slope > 0:
        steep = settings.slope**2
        if not math.isnan(x + y):
            known += steep * (x + y) / 2
        if 0 < width < math.pi:
            known += steep * (distance * math.tan(width / 2)) ** 2
    return math.sqrt(known) if known else math.nan


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


class PingPlacer:
    """Places pings by odometry, sonar mounts and water level."""

    def __init__(self) -> None:
        self.buffer, self.water = OdometryBuffer(), WaterLevelTracker()
        self._mounts: dict[str, SonarMount] = {}

    def add(self, mount: SonarMount) -> None:
        """Add or replace the mount of a sonar."""
        if len(self._mounts) < MAX_FRAMES or mount.frame_id in self._mounts:
            self._mounts[mount.frame_id] = mount

    def row(
        self,
        ping: RawPing,
        stamp_ns: int,
        area: Extent | None,
        settings: FrontEndSettings,
        now: Moment,
    ) -> tuple[float, ...] | str:
        """x, y, z, noise, range and the applied corrections of a ping, or why it is refused."""
        state = self._state(stamp_ns, settings)
        if state is None:
            return "no_odometry"
        if (level := self.water.level(settings, now)) is None:
            return "water_level_stale"
        mount = self._mount(ping, settings)
        if mount is None:
            return "no_mount"
        distance = ping.range * settings.sound_scale
        level = level if settings.from_surface else 0.0
        point, beam = place(state, mount, distance, level)
        if settings.vertical == SURFACE and beam[2] >= 0:
            return BEAM_UP
        if area is not None and not area.contains(point[:2]):
            return "outside_workspace"
        if not abs(point[2]) <= MAX_ELEVATION:
            return "wild_elevation"
        noise = _noise(settings, ping, state, distance)
        if isinstance(noise, str):
            return noise
        water = settings.sound_speed_assumed, settings.sound_speed, level
        return *point, noise, ping.range, *water, *beam

    def xyz(self, ping: RawPing, stamp_ns: int, settings: FrontEndSettings, now: Moment) -> Xyz:
        """Where a refused ping was, as far as known.

        Without a valid range it is the place of the sonar; without a mount that of the vehicle.
        """
        state = self._state(stamp_ns, settings)
        if state is None:
            return NOWHERE
        level, mount = self.water.level(settings, now), self._mount(ping, settings)
        measured = refusal_reason(ping, settings.min_range, settings.max_range) is None
        if mount is None:
            x, y, z = *state.position[:2], math.nan
        else:
            distance = ping.range * settings.sound_scale if measured else 0.0
            added = (level or 0.0) if settings.from_surface else 0.0
            x, y, z = place(state, mount, distance, added)[0].tolist()
        if not (abs(x) <= MAX_COORDINATE and abs(y) <= MAX_COORDINATE):
            return NOWHERE
        known = measured and level is not None and abs(z) <= MAX_COORDINATE
        return x, y, z if known else math.nan

    def sonar_heights(
        self, stamp_ns: np.ndarray, settings: FrontEndSettings, now: Moment
    ) -> np.ndarray:
        """z of a sonar in the map at stamps [N], as [N] in m, for eyes: as the vehicle is inclined
        now; NaN without odometry."""
        heights, newest = self.buffer.heights(stamp_ns), self.buffer.newest_ns
        last = next(reversed(self._mounts.values()), None)
        mount = last if settings.base_frame else mount_of(settings)
        if newest is None or mount is None:
            return heights
        state = self.buffer.at(newest, 0)
        assert state is not None
        level = (self.water.level(settings, now) or 0.0) if settings.from_surface else 0.0
        return heights + place(state, mount, 0.0, level)[0][2] - state.position[2]

    def _state(self, stamp_ns: int, settings: FrontEndSettings) -> VehicleState | None:
        return self.buffer.at(stamp_ns, round(settings.odometry_timeout * SECOND))

    def _mount(self, ping: RawPing, settings: FrontEndSettings) -> SonarMount | None:
        return self._mounts.get(ping.frame_id) if settings.base_frame else mount_of(settings)


def _noise(
    settings: FrontEndSettings, ping: RawPing, state: VehicleState, distance: float
) -> float | str:
    """The ping noise (standard deviation, m; NaN: not used), or why the ping is refused."""
    if not (settings.ping_noise or settings.max_noise_std or settings.max_position_std):
        return math.nan
    variance, limit = state.known_variance, settings.max_position_std
    if limit and (variance[0] + variance[1]) / 2 > limit * limit:
        return "position_uncertain"
    noise = noise_of(settings, ping, variance, distance)
    if noise == math.inf or (settings.max_noise_std and noise > settings.max_noise_std):
        return "too_noisy"
    return noise if settings.ping_noise else math.nan
