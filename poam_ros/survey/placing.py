"""Where a beam met the ground, and how well that is known. Knows no ROS; metres, radians.

docs/sensors.md has the frames, the datum and the derivation of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .gate_settings import GateSettings
from .odometry import VehicleState, rotate
from .ranges import RawPing

#: No ground is farther than this from the datum: a sample there would spoil every scale.
MAX_ELEVATION = 1e5


@dataclass(frozen=True)
class Mount:
    """How a sonar sits on the vehicle.

    Attributes:
        frame_id: frame of its pings.
        offset: its place in the vehicle's frame, m.
        beam: direction of its beam in that frame, of unit length.
    """

    frame_id: str
    offset: tuple[float, float, float]
    beam: tuple[float, float, float]


def mount_of(settings: GateSettings) -> Mount:
    """The mounting that the settings give: down, turned by roll about x and then pitch about y."""
    pitch, roll = settings.sonar_tilt
    x, y, z = settings.sonar_offset
    across = math.cos(roll)
    beam = (-across * math.sin(pitch), math.sin(roll), -across * math.cos(pitch))
    return Mount("", (x, y, z), beam)


def place(
    state: VehicleState, mount: Mount, distance: float, level: float
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
