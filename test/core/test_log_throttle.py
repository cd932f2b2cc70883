"""The log throttle: counts by reason, and limited warnings."""

from poam_ros.core.errors import WARNING_PERIOD_S, LogThrottle


def test_every_reason_is_throttled_separately():
    said, now = [], [100.0]
    warnings = LogThrottle(said.append, clock=lambda: now[0])
    for text in "ab":
        warnings.add("frame", text)
    warnings.add("not_finite", "c")
    assert said == ["a", "c"] and warnings.counts == {"frame": 2, "not_finite": 1}
    now[0] += WARNING_PERIOD_S
    warnings.add("frame", "d")
    assert said == ["a", "c", "d (and 1 more like it)"] and warnings.counts["unheard_of"] == 0


def test_suppressed_warnings_are_counted_in_the_next_one():
    said, now = [], [0.0]
    warnings = LogThrottle(said.append, clock=lambda: now[0])
    for _ in range(2):
        for _ in range(313):
            warnings.add("stamp", "odometry was set back in time")
        now[0] += WARNING_PERIOD_S
    warnings.add("stamp", "odometry was set back in time")
    assert said == [
        "odometry was set back in time",
        "odometry was set back in time (and 312 more like it)",
        "odometry was set back in time (and 312 more like it)",
    ]
    now[0] += WARNING_PERIOD_S
    warnings.add("stamp", "once")
    assert said[-1] == "once" and warnings.counts["stamp"] == 628


def test_a_lasting_state_is_repeated_without_a_count():
    said, now = [], [0.0]
    warnings = LogThrottle(said.append, clock=lambda: now[0])
    for _ in range(3):
        for _ in range(100):
            warnings.remind("disk", "the disk is full")
        now[0] += WARNING_PERIOD_S
    assert said == ["the disk is full"] * 3 and not warnings.counts
