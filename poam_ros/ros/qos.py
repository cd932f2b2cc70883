"""How each kind of topic is sent and read."""

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy


def _profile(depth: int, *, reliable: bool, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


# Maps, terrain and the mission's state: whoever comes late gets the last one.
LATCHED = _profile(1, reliable=True, latched=True)
# As latched, with room for what comes while something else is worked on.
KEPT = _profile(20, reliable=True, latched=True)
# What a sensor driver uses.
SENSOR_PUBLISH = _profile(10, reliable=False)
# How we read one: deep enough for 20 s of odometry at 100 Hz beside a busy model.
SENSOR_READ = _profile(2000, reliable=False)
# A goal is repeated, never latched: no stale goal moves a vehicle that comes up.
GOAL = _profile(1, reliable=True)
# Simulated time: whoever misses one takes the next.
CLOCK = _profile(1, reliable=False)
