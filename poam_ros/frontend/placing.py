"""Where a beam met the bottom, and how accurately that is known. No ROS; m, rad.

docs/sensors.md has the frames, the datum and the derivation of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .odometry import VehicleState, rotate
from .ranges import RawPing
from .settings import MAX_LEVEL, FrontEndSettings

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
