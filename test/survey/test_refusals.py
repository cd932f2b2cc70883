"""Counting what was refused, and saying it."""

from poam_ros.survey.refusals import PERIOD, Refusals


def test_every_reason_has_a_throttle_of_its_own():
    said, now = [], [100.0]
    refusals = Refusals(said.append, clock=lambda: now[0])
    for text in "ab":
        refusals.add("frame", text)
    refusals.add("not_finite", "c")
    assert said == ["a", "c"] and refusals.counts == {"frame": 2, "not_finite": 1}
    now[0] += PERIOD
    refusals.add("frame", "d")
    assert said == ["a", "c", "d"] and refusals.counts["unheard_of"] == 0
