"""The water level: which one is used, and for how long."""

import math

import pytest

from poam_ros.core.clock import SECOND, Moment
from poam_ros.frontend.settings import FrontEndSettings

DEPTH, RANGE = 100.0, 30.0  # of the survey's vehicle


def elevations(s):
    return [z for part in s.samples for z in part.z.tolist()]


def test_pings_are_refused_while_the_water_level_is_stale(survey):
    s = survey(front_end=FrontEndSettings(water_level=1.0, water_level_timeout=5.0))
    s.drive(2, RANGE)
    s.front_end.water_level(3.0, s.now)
    s.drive(50, RANGE)  # 5 s: just not too old
    s.drive(10, RANGE)
    assert s.session.ledger.rejected == {"water_level_stale": 10}
    s.front_end.water_level(-2.0, s.now)
    s.drive(3, RANGE)
    assert elevations(s) == [71.0] * 2 + [73.0] * 50 + [68.0] * 3
    received, *states = s.session.ledger.counts().values()
    assert received == sum(states) == 65


def test_a_level_on_the_topic_is_required_only_with_await_level(survey):
    s = survey(front_end=FrontEndSettings(water_level=1.0, water_level_timeout=5.0))
    s.drive(100, RANGE)
    assert elevations(s) == [71.0] * 100
    s = survey(front_end=FrontEndSettings(water_level=1.0, await_water_level=True))
    s.drive(10, RANGE)
    s.front_end.water_level(0.5, s.now)
    s.drive(10, RANGE)
    assert elevations(s) == [70.5] * 10 and s.session.ledger.rejected == {"water_level_stale": 10}


@pytest.mark.parametrize("level", [math.nan, math.inf, -math.inf, 1e5, -1e300])
def test_invalid_levels_are_counted_and_ignored(survey, level):
    s = survey()
    s.front_end.water_level(0.5, s.now)
    s.front_end.water_level(level, s.now)
    s.drive(2, RANGE)
    assert elevations(s) == [70.5] * 2 and s.session.ledger.suspect["water_level"] == 1


def test_after_time_was_set_back_a_new_level_is_required(survey):
    s = survey()
    s.wait(1000)
    s.front_end.water_level(0.5, s.now)
    s.drive(2, RANGE)
    s.now = Moment(SECOND, s.now.steady_s)
    s.front_end.clock_set_back()
    s.drive(2, RANGE)
    assert s.session.ledger.rejected["water_level_stale"] == 2
    s.front_end.water_level(0.25, s.now)
    s.drive(2, RANGE)
    assert elevations(s) == [70.5] * 2 + [70.25] * 2
