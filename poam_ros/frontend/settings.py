"""How pings are judged, placed and weighed: every setting of the gate. docs/sensors.md explains."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.geometry import Extent
from ..core.settings import check, setting

#: Highest water level, either way, that can be one, in m: lakes lie at several thousand.
MAX_LEVEL = 1e4


@dataclass(frozen=True)
class GateSettings:
    """How pings are placed, and where.

    ``workspace``: None for everywhere. ``capacity``: largest number of waiting pings.

    Raises:
        InputError: a value is outside its range.
    """

    margin: float = setting(
        5.0, "Pings taken farther than this outside the workspace are not used", "m", 0.0, 1e6
    )
    range_time_offset: float = setting(
        0.0,
        "Time of measurement = stamp of the ping + this; -0.5 for a sonar that stamps 0.5 s late",
        "s",
        minimum=-60.0,
        maximum=60.0,
        mutable=True,
    )
    odometry_timeout: float = setting(
        1.0,
        "Longest gap between two odometry messages that positions are interpolated across",
        "s",
        minimum=0.01,
        maximum=60.0,
        mutable=True,
    )
    odometry_wait: float = setting(
        5.0, "Longest wait of a ping for its odometry, in wall time", "s", 0.1, 600.0, mutable=True
    )
    max_vehicle_speed: float = setting(
        0.0,
        "Least speed that the vehicle is taken to have where positions are judged that jump "
        "(max_jump); 0: that of its odometry",
        "m/s",
        minimum=0.0,
        maximum=1000.0,
        mutable=True,
    )
    max_jump: float = setting(
        2.0,
        "A position is refused that lies farther than this beyond the reach of three times the "
        "vehicle's speed, until it has lasted for 1 s; 0: none is",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    pings_at_place: int = setting(
        100,
        "Pings that are taken from one place (within 0.5 m) before the vehicle moves on; 0: all",
        minimum=0,
        maximum=1_000_000,
        mutable=True,
    )
    # the range
    min_range: float = setting(
        0.0, "Shortest range that is one; 0: as the message says", "m", 0.0, 1e5, mutable=True
    )
    max_range: float = setting(
        0.0, "Longest range that is one; 0: as the message says", "m", 0.0, 1e5, mutable=True
    )
    repeat_window: float = setting(
        0.0,
        "The very same range again within this is an old reading with a new stamp, and dropped: "
        "the sonar's own period; 0: none is taken for one",
        "s",
        minimum=0.0,
        maximum=60.0,
        mutable=True,
    )
    min_confidence: float = setting(
        0.0,
        "Lowest confidence of a ping, in its driver's unit, where it gives one",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    # the sonar's mounting
    sonar_offset: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        "Place of the sonar in the vehicle's frame (x forward, y left, z up)",
        "m",
        minimum=-100.0,
        maximum=100.0,
    )
    sonar_tilt: tuple[float, ...] = setting(
        (0.0, 0.0),
        "Pitch and roll of the sonar's mounting; 0, 0: the beam points down, pitch > 0: aft of "
        "that, roll > 0: to the left of it",
        "rad",
        minimum=-1.5,
        maximum=1.5,
    )
    base_frame: str = setting(
        "",
        "Frame of the vehicle: the sonar is mounted as tf2 has the frame of its pings in this one; "
        "empty: by sonar_offset and sonar_tilt",
    )
    # the water
    sound_speed_assumed: float = setting(
        1500.0, "Sound speed that the sonar reckons with", "m/s", 1000.0, 2000.0, mutable=True
    )
    sound_speed: float = setting(
        1500.0, "True mean sound speed down to the bottom", "m/s", 1000.0, 2000.0, mutable=True
    )
    water_level: float = setting(
        0.0,
        "Height of the water's surface above the map's datum, until one comes on the topic "
        "water_level; 0 where the odometry's z is a height above that datum already",
        "m",
        minimum=-MAX_LEVEL,
        maximum=MAX_LEVEL,
        mutable=True,
    )
    water_level_timeout: float = setting(
        900.0,
        "Pings are refused when the topic water_level was silent for this long, in ROS time; "
        "0: the last level holds for ever",
        "s",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    await_water_level: bool = setting(
        False, "Pings are refused until a level has come on the topic water_level", mutable=True
    )
    # what is known of a ping's own noise
    ping_noise: bool = setting(
        False,
        "Each ping carries its own noise into the update, of what is known: that of its range, of "
        "the vehicle's position, and of its footprint",
    )
    range_noise_std: float = setting(
        0.0, "Deviation of a range, where the message gives none", "m", 0.0, 1e3, mutable=True
    )
    range_noise_share: float = setting(
        0.0,
        "Part of that deviation which grows with the range, as a share of it",
        minimum=0.0,
        maximum=1.0,
        mutable=True,
    )
    beam_width: float = setting(
        0.0, "Full angle of the beam; 0: the message's field of view", "rad", 0.0, 3.0, mutable=True
    )
    slope: float = setting(
        0.0,
        "Typical slope of the ground, which makes an error of place one of elevation",
        minimum=0.0,
        maximum=100.0,
        mutable=True,
    )
    max_noise_std: float = setting(
        0.0, "Largest known noise of a ping; 0: no such limit", "m", 0.0, 1e4, mutable=True
    )
    max_position_std: float = setting(
        0.0,
        "Largest known deviation of the vehicle's horizontal position; 0: no such limit",
        "m",
        minimum=0.0,
        maximum=1e5,
        mutable=True,
    )
    workspace: Extent | None = None
    capacity: int = 4096

    def __post_init__(self) -> None:
        check(self)

    @property
    def sound_scale(self) -> float:
        """True length of a metre that the sonar reports."""
        return self.sound_speed / self.sound_speed_assumed
