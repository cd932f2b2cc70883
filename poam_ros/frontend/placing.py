"""Where a beam met the ground, and how well that is known. Knows no ROS; metres, radians.

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
from .refused_pings import NOWHERE, Spot
from .settings import GateSettings
from .water import WaterLevelTracker

#: No ground is farther than this from the datum: a sample there would spoil every scale.
MAX_ELEVATION = 1e5


@dataclass(frozen=True)
class SonarMount:
    """How a sonar sits on the vehicle.

    Attributes:
        frame_id: frame of its pings.
        offset: its place in the vehicle's frame, m.
        beam: direction of its beam in that frame, of unit length.
    """

    frame_id: str
    offset: tuple[float, float, float]
    beam: tuple[float, float, float]


def mount_of(settings: GateSettings) -> SonarMount:
    """The mounting that the settings give: down, turned by roll about x and then pitch about y."""
    pitch, roll = settings.sonar_tilt
    x, y, z = settings.sonar_offset
    across = math.cos(roll)
    beam = (-across * math.sin(pitch), math.sin(roll), -across * math.cos(pitch))
    return SonarMount("", (x, y, z), beam)


def place(
    state: VehicleState, mount: SonarMount, distance: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where the beam ends, x, y, z in the map [3], and its direction there [3].

    point = position + R (offset + distance beam), and z + level.

    Args:
        state: of the vehicle; its attitude need not have unit norm.
        mount: the sonar's.
        distance: true range, m.
        level: of the water above the datum, where the vehicle's z counts from the surface.
    """
    norm = math.hypot(*state.quaternion)
    x, y, z, w = (q / norm for q in state.quaternion)
    beam = np.array(mount.beam)
    arm = np.array(mount.offset) + distance * beam
    point = np.array(state.position) + rotate((x, y, z, w), arm)
    point[2] += level
    return point, rotate((x, y, z, w), beam)


def noise_of(
    settings: GateSettings, ping: RawPing, variance: tuple[float, float, float], distance: float
) -> float:
    """Deviation of a ping's elevation from what is known of its making, m; NaN: nothing is.

    std^2 = range^2 + var(z) + slope^2 ((var(x) + var(y)) / 2 + (distance tan(width / 2))^2)

    Args:
        settings: the gate's.
        ping: its own variance counts before the settings'.
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
    """Counts the pings from one place: that of the first within ``RADIUS`` m."""

    RADIUS = 0.5

    def __init__(self) -> None:
        self._place, self._count = (math.inf, math.inf), 0

    def full(self, place: tuple[float, float], most: int) -> bool:
        """Whether a ping from here is one more than the ``most`` that one place gives; 0: never."""
        if math.dist(place, self._place) <= self.RADIUS:
            self._count += 1
        else:
            self._place, self._count = place, 1
        return 0 < most < self._count


class PingPlacer:
    """Places pings by the odometry, the mountings and the water's level that are known."""

    def __init__(self) -> None:
        self.buffer, self.water = OdometryBuffer(), WaterLevelTracker()
        self._mounts: dict[str, SonarMount] = {}

    def add(self, mount: SonarMount) -> None:
        """How a sonar is mounted became known."""
        if len(self._mounts) < MAX_FRAMES or mount.frame_id in self._mounts:
            self._mounts[mount.frame_id] = mount

    def row(
        self,
        ping: RawPing,
        stamp_ns: int,
        area: Extent | None,
        settings: GateSettings,
        now: Moment,
    ) -> tuple[float, ...] | str:
        """A ping's x, y, z, noise, range and what was applied to it, or why it is refused."""
        state = self._state(stamp_ns, settings)
        if state is None:
            return "no_odometry"
        if (level := self.water.level(settings, now)) is None:
            return "water_level_stale"
        mount = self._mount(ping, settings)
        if mount is None:
            return "no_mount"
        distance = ping.range * settings.sound_scale
        point, beam = place(state, mount, distance, level)
        if area is not None and not area.contains(point[:2]):
            return "outside_workspace"
        if not abs(point[2]) <= MAX_ELEVATION:
            return "wild_elevation"
        noise = _noise(settings, ping, state, distance)
        if isinstance(noise, str):
            return noise
        water = settings.sound_speed_assumed, settings.sound_speed, level
        return *point, noise, ping.range, *water, *beam

    def spot(self, ping: RawPing, stamp_ns: int, settings: GateSettings, now: Moment) -> Spot:
        """Where a refused ping was, as far as that is known.

        Without a range, or a mounting, it is the place of the sonar, or of the vehicle.
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
            x, y, z = place(state, mount, distance, level or 0.0)[0].tolist()
        if not (abs(x) <= MAX_COORDINATE and abs(y) <= MAX_COORDINATE):
            return NOWHERE
        known = measured and level is not None and abs(z) <= MAX_COORDINATE
        return x, y, z if known else math.nan

    def _state(self, stamp_ns: int, settings: GateSettings) -> VehicleState | None:
        return self.buffer.at(stamp_ns, round(settings.odometry_timeout * SECOND))

    def _mount(self, ping: RawPing, settings: GateSettings) -> SonarMount | None:
        return self._mounts.get(ping.frame_id) if settings.base_frame else mount_of(settings)


def _noise(
    settings: GateSettings, ping: RawPing, state: VehicleState, distance: float
) -> float | str:
    """What a ping's own noise adds to the model's, in m, or why that is too much."""
    if not (settings.ping_noise or settings.max_noise_std or settings.max_position_std):
        return math.nan
    variance, limit = state.known_variance, settings.max_position_std
    if limit and (variance[0] + variance[1]) / 2 > limit * limit:
        return "position_uncertain"
    noise = noise_of(settings, ping, variance, distance)
    if noise == math.inf or (settings.max_noise_std and noise > settings.max_noise_std):
        return "too_noisy"
    return noise if settings.ping_noise else math.nan
