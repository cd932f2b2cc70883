"""Settings of the front end: ranges, placing, water level, ping noise. See docs/sensors.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.geometry import Extent
from ..core.settings import Settings, setting

#: Largest absolute water level in m: some lakes lie at several thousand.
MAX_LEVEL = 1e4
#: What z counts from.
SURFACE, DATUM = "surface", "datum"


def water_level_setting() -> Any:
    """The field ``water_level`` of every settings class that counts depths from the surface."""
    return setting(
        0.0, "Height of the water surface above the map's datum, until a level is received on the "
        "topic water_level. 0 if the odometry's z is already a height above that datum", "m",
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
        0.0, "Refuse pings of a lower confidence, in the driver's unit, where the driver gives one",
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
