"""A sonar that repeats its last range while the vehicle moves on is named once."""

from poam_ros.core.clock import SECOND, Moment
from poam_ros.frontend.front_end import FrontEnd
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.ranges import RawPing
from poam_ros.frontend.settings import FrontEndSettings


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
