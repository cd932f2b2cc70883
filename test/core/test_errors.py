"""Errors and warnings: counts by reason, and limited lines."""

import pytest

from poam_ros.core.errors import WARNING_PERIOD_S, LogThrottle, shown


@pytest.fixture
def throttle():
    """A throttle, what it said, and its clock."""
    said, now = [], [100.0]
    return LogThrottle(said.append, clock=lambda: now[0]), said, now


def test_each_reason_is_throttled_by_itself_and_what_was_suppressed_is_counted(throttle):
    warnings, said, now = throttle
    for text in "abb":
        warnings.add("frame", text)
    warnings.add("not_finite", "c")
    assert said == ["a", "c"] and warnings.counts == {"frame": 3, "not_finite": 1}
    for _ in range(2):
        now[0] += WARNING_PERIOD_S
        warnings.add("frame", "d")
    assert said[2:] == ["d (and 2 more like it)", "d"] and warnings.counts["frame"] == 5


def test_a_lasting_state_is_repeated_without_a_count(throttle):
    warnings, said, now = throttle
    for _ in range(3):
        for _ in range(100):
            warnings.remind("disk", "the disk is full")
        now[0] += WARNING_PERIOD_S
    assert said == ["the disk is full"] * 3 and not warnings.counts


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", "a\\nb"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 60 + "...")]
)
def test_external_text_is_one_printable_line(text, line):
    assert shown(text) == line
