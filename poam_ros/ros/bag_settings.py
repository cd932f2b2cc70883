"""What is heard of a recording. Imports no torch and no ROS 2."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import check, setting

ODOMETRY, RANGE = "nav_msgs/msg/Odometry", "sensor_msgs/msg/Range"
LEVEL, STATE = "std_msgs/msg/Float64", "std_msgs/msg/String"


@dataclass(frozen=True)
class BagSettings:
    """What is heard of a recording.

    Raises:
        InputError: a value is wrong.
    """

    odom_topic: str = setting("/odom", "Topic of nav_msgs/Odometry")
    range_topic: str = setting("/sonar/range", "Topic of sensor_msgs/Range")
    level_topic: str = setting("/water_level", "Topic of the water's level, where there is one")
    state_topic: str = setting(
        "/mission/state", "Topic of the mission's states, by which pings were taken or not"
    )
    start: float = setting(0.0, "Leave out what was recorded before this", "s", 0.0, 1e9)
    stop: float = setting(0.0, "Leave out what was recorded after this; 0: nothing", "s", 0.0, 1e9)

    def __post_init__(self) -> None:
        check(self)

    @property
    def topics(self) -> dict[str, str]:
        """The type that each topic must have."""
        return {
            self.odom_topic: ODOMETRY,
            self.range_topic: RANGE,
            self.level_topic: LEVEL,
            self.state_topic: STATE,
        }
