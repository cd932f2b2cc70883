"""Which ranges are valid and new; a sonar that repeats its last range is named."""

import math
from collections import Counter

import pytest

from poam_ros.core.clock import SECOND, Moment
from poam_ros.frontend.front_end import FrontEnd
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.pings import MAX_REMEMBERED, FrontEndSettings, RawPing, refusal_reason


def ping(t, distance, low=1.0, high=100.0, **more):
    return RawPing(round(t * SECOND), distance, low, high, **more)


def judged(settings, *pings):
    """Refused pings by reason; the others wait for odometry."""
    front_end = FrontEnd(settings)
    for each in pings:
        front_end.ping(each, Moment(0, 0.0))
    ledger = front_end.ledger
    assert ledger.received == ledger.pending + sum(ledger.rejected.values()) == len(pings)
    return +ledger.rejected


@pytest.mark.parametrize(
    ("distance", "low", "high", "fault"),
    [
        (1.0, 1.0, 100.0, None),
        (100.0, 1.0, 100.0, None),
        (0.999, 1.0, 100.0, "too_close"),
        (-math.inf, 1.0, 100.0, "too_close"),
        (-3.0, 1.0, 100.0, "too_close"),
        (100.001, 1.0, 100.0, "out_of_range"),
        (math.inf, 1.0, 100.0, "no_return"),
        (math.nan, 1.0, 100.0, "nan"),
        (5.0, math.nan, math.nan, None),  # limits that nobody set
        (0.0, 0.0, 100.0, "too_close"),  # looks valid; no sonar measures it
        (-0.0, 0.0, 100.0, "too_close"),
        (1e-3, 0.0, 100.0, None),
        (50.0, 0.0, 0.0, None),  # the same
        (math.inf, 0.0, math.inf, "no_return"),
        (1e30, 0.0, math.inf, "out_of_range"),
        (1e308, -math.inf, math.inf, "out_of_range"),
    ],
)
def test_limits_of_the_message(distance, low, high, fault):
    assert refusal_reason(ping(0, distance, low, high)) == fault


@pytest.mark.parametrize(
    ("distance", "fault"),
    [(0.3, "too_close"), (0.5, None), (50.0, None), (50.01, "out_of_range"), (math.nan, "nan")],
)
def test_limits_of_the_parameters_replace_those_of_the_message(distance, fault):
    settings = FrontEndSettings(min_range=0.5, max_range=50.0)
    # The driver says 0 and 0, or caps them where the sonar still hears.
    for low, high in ((0.0, 0.0), (2.0, 20.0), (math.nan, math.nan)):
        found = judged(settings, ping(0, distance, low, high))
        assert found == ({} if fault is None else {fault: 1})


def test_confidence_is_checked_if_given():
    settings = FrontEndSettings(min_confidence=50.0)
    given = [0.0, 49.9, 50.0, 100.0, math.nan]
    pings = [ping(i, 10.0 + i, confidence=c) for i, c in enumerate(given)]
    assert judged(settings, *pings) == {"low_confidence": 2}
    assert judged(FrontEndSettings(), *pings) == {}


def test_a_ping_received_twice_counts_once():
    pings = [ping(i, 10.0 + i) for i in range(5)]
    late = [*pings[3:], pings[0]]  # out of order, as a second publisher or a bridge has them
    assert judged(FrontEndSettings(), *pings, *late) == {"duplicate": 3}
    # Four beams of one instrument share a stamp, and may share a range.
    beams = [ping(1, 10.0, frame_id=f"beam_{i}") for i in range(4)]
    assert judged(FrontEndSettings(), *beams, ping(1, 11.0, frame_id="beam_0")) == {}


def test_repeated_readings_are_refused_for_a_window():
    """Polled at 20 Hz, measured at 5 Hz; then the bottom is truly level."""
    window = FrontEndSettings(repeat_window=0.2)
    polled = [ping(0.05 * i, 10.0 + i // 4) for i in range(40)]
    assert judged(window, *polled) == {"repeat": 30}
    level = [ping(0.05 * i, 10.0) for i in range(40)]
    assert judged(window, *level) == {"repeat": 30}
    assert judged(FrontEndSettings(), *polled, *(ping(9 + i, 3.0) for i in range(5))) == {}


def test_repeats_are_per_sonar_and_need_the_same_range():
    settings = FrontEndSettings(repeat_window=1.0)
    two = [ping(0.1 * i, 10.0, frame_id=f) for i, f in enumerate("abab")]
    assert judged(settings, *two) == {"repeat": 2}
    assert judged(settings, ping(0, 10.0), ping(0.1, 10.0 + 1e-9), ping(0.2, 10.0)) == {}
    assert judged(settings, ping(5, 10.0), ping(4.9, 10.0)) == {}  # before it: not after it


def test_the_filter_of_repeats_is_bounded_for_any_number_of_frames():
    front_end = FrontEnd(FrontEndSettings(repeat_window=1.0, capacity=10))
    for i in range(2000):
        front_end.ping(ping(0.001 * i, 10.0, frame_id=f"{i}" * 50), Moment(0, 0.0))
    assert (
        len(front_end._range_filter._first) <= 16
        and len(front_end._range_filter._past) == MAX_REMEMBERED
    )
    assert front_end.ledger.rejected == Counter(no_odometry=1990) and front_end.ledger.pending == 10


def said(speed, ranges):
    """The messages of a front end that gets a ping a second."""
    front_end, found = FrontEnd(FrontEndSettings(pings_at_place=0)), []
    front_end.warn = lambda reason, text: found.append((reason, text))
    for i, distance in enumerate(ranges):
        now = Moment(i * SECOND, float(i))
        front_end.odometry(VehicleState(i * SECOND, (speed * i, 0.0, 0.0), speed=speed), now)
        front_end.ping(RawPing(i * SECOND, distance, 0.1, 100.0), now)
        front_end.take(now)
    return found


def test_a_sonar_that_repeats_its_last_range_is_named_once():
    varying = [5 + i % 7 / 10 for i in range(50)]
    ((reason, text),) = said(1.0, [*varying, *[5.25] * 200, *varying])
    assert reason == "repeated_range"
    assert text.startswith("the sonar has repeated 5.25 m for 60 s, over 60 m")
    assert len(said(1.0, 2 * [*varying, *[5.25] * 100])) == 2


def test_a_flat_bottom_for_less_than_a_minute_or_a_vehicle_that_stands_is_nothing_odd():
    assert not said(1.0, [5 + i // 40 / 10 for i in range(400)])
    assert not said(0.1, [5.25] * 140)
