"""Messages to events: attitude, accuracies, limits of ranges, times since the autopilot's boot."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from poam_ros.core.clock import SECOND
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent
from poam_ros.frontend.odometry import OdometryRefused, VehicleState, rotate
from poam_ros.frontend.pings import refusal_reason
from poam_ros.mavlink.telemetry import (
    TRIES,
    WANTED,
    BootClock,
    ParameterReader,
    Telemetry,
    attitude,
)

T0 = 10**18
FULL = {
    "ATTITUDE": {"roll": 0.0, "pitch": 0.0, "yaw": 0.0, "rollspeed": 0.0, "pitchspeed": 0.0,
                 "yawspeed": 0.0},
    "GLOBAL_POSITION_INT": {"lat": 473000000, "lon": 85500000, "relative_alt": -2500, "vx": 60,
                            "vy": 80, "hdg": 0},
    "GPS_RAW_INT": {"fix_type": 3, "h_acc": 800, "v_acc": 1200},
    "DISTANCE_SENSOR": {"min_distance": 30, "max_distance": 5000, "current_distance": 750,
                        "orientation": 25, "id": 0, "covariance": 0, "horizontal_fov": 0.5,
                        "signal_quality": 0},
    "WATER_DEPTH": {"distance": 7.5, "healthy": 1, "id": 0},
    "RANGEFINDER": {"distance": 7.5},
}  # fmt: skip


def message(kind, boot_ms=1000, **fields):
    values = {"time_boot_ms": boot_ms, **FULL.get(kind, {}), **fields}
    return SimpleNamespace(get_type=lambda: kind, **values)


@pytest.fixture
def telemetry():
    pytest.importorskip("pyproj")
    found = Telemetry()
    found.frame = GeoReference(47.3, 8.55)
    return found


def hear(telemetry, *messages):
    events = []
    for one in messages:
        ms = getattr(one, "time_boot_ms", 0)
        events += telemetry.events(one, T0 + ms * 1_000_000)
    return events


@pytest.mark.parametrize(
    ("angles", "heading", "body", "there"),
    [
        ((0, 0, 0), 0, (1, 0, 0), (0, 1, 0)),  # north
        ((0, 0, math.pi / 2), 0, (1, 0, 0), (1, 0, 0)),  # east
        ((0, 0, math.pi / 2), 90, (1, 0, 0), (0, 1, 0)),  # the map's y axis points east
        ((0, 0.1, math.pi / 2), 0, (1, 0, 0), (math.cos(0.1), 0, math.sin(0.1))),  # bow up
        ((0.1, 0, math.pi / 2), 0, (0, 1, 0), (0, math.cos(0.1), math.sin(0.1))),  # port up
    ],
)
def test_attitudes(angles, heading, body, there):
    assert rotate(attitude(*angles, heading), np.array(body, float)) == pytest.approx(there)


def test_a_position_with_its_attitude_and_accuracy(telemetry):
    turning = message("ATTITUDE", 900, yaw=1.0, yawspeed=0.5)
    heard = message("GPS_RAW_INT"), turning, message("GLOBAL_POSITION_INT")
    (state,) = hear(telemetry, *heard)
    assert isinstance(state, VehicleState) and state.position == pytest.approx((0, 0, 0), abs=1e-6)
    assert state.stamp_ns == T0 + SECOND and state.speed == 1.0
    assert state.yaw == pytest.approx(math.pi / 2 - 1.05)  # 0.1 s later
    assert state.variance == pytest.approx((0.64, 0.64, 0.0))
    telemetry.surface = False  # it dives
    (state,) = hear(telemetry, *heard)
    assert state.position[2] == -2.5 and state.variance[2] == pytest.approx(1.44)


@pytest.mark.parametrize(
    ("others", "position", "reason"),
    [
        ([message("ATTITUDE")], {"lat": 0, "lon": 0}, "no_position"),
        ([message("ATTITUDE"), message("GPS_RAW_INT", fix_type=2)], {}, "no_fix"),
        ([message("ATTITUDE"), message("EKF_STATUS_REPORT", flags=1 + 16 + 128)], {}, "ekf"),
        ([], {}, "no_attitude"),
        ([message("ATTITUDE", 100)], {}, "no_attitude"),
    ],
)
def test_positions_that_cannot_be_used(telemetry, others, position, reason):
    events = hear(telemetry, *others, message("GLOBAL_POSITION_INT", **position))
    assert events == [OdometryRefused(reason)]
    assert telemetry.fault == telemetry.origin_fault(3.0) != ""


def test_a_frame_needs_an_accurate_fix_that_the_ekf_uses(telemetry):
    """Before, ArduPilot sends positions of its fallback, without a word on its EKF."""
    hear(telemetry, message("ATTITUDE"), message("GLOBAL_POSITION_INT"))
    assert telemetry.origin_fault(3.0) == "no EKF_STATUS_REPORT yet"
    hear(telemetry, message("EKF_STATUS_REPORT", flags=63))
    assert telemetry.origin_fault(3.0) == "no fix yet"
    hear(telemetry, message("GPS_RAW_INT", h_acc=4000))
    assert "accurate to 4.0 m: expected 3 m" in telemetry.origin_fault(3.0)
    assert not telemetry.origin_fault(5.0)
    hear(telemetry, message("GPS_RAW_INT", h_acc=0))  # MAVLink 1 does not say
    assert not telemetry.origin_fault(3.0)
    hear(telemetry, message("EKF_STATUS_REPORT", flags=1 + 2 + 4 + 32 + 128))  # as ArduPilot begins
    hear(telemetry, message("ATTITUDE", 1100), message("GLOBAL_POSITION_INT", 1100))
    assert telemetry.origin_fault(3.0) == "the autopilot's EKF does not know its position"


LIMITS = {"RNGFND1_MIN": 0.5, "RNGFND1_MAX": 50.0}  # of messages that have none themselves


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("DISTANCE_SENSOR", {}, None),
        ("DISTANCE_SENSOR", {"current_distance": 5000}, "no_return"),
        ("DISTANCE_SENSOR", {"current_distance": 0}, "too_close"),
        ("DISTANCE_SENSOR", {"current_distance": 20}, "too_close"),
        ("DISTANCE_SENSOR", {"signal_quality": 1}, "nan"),
        ("WATER_DEPTH", {"distance": 50.0}, "no_return"),
        ("WATER_DEPTH", {"distance": 0.2}, "too_close"),
        ("WATER_DEPTH", {"healthy": 0}, "nan"),
    ],
)
def test_invalid_ranges(telemetry, kind, fields, reason):
    telemetry.parameters.values = LIMITS
    (ping,) = hear(telemetry, message(kind, **fields))
    assert refusal_reason(ping) == reason


def test_fields_of_a_distance_sensor(telemetry):
    (ping,) = hear(telemetry, message("DISTANCE_SENSOR", covariance=4, signal_quality=80))
    assert (ping.range, ping.min_range, ping.max_range) == (7.5, 0.3, 50.0)
    assert ping.variance == pytest.approx(4e-4) and ping.confidence == 80
    (ping,) = hear(telemetry, message("DISTANCE_SENSOR", 1100, covariance=255))
    assert ping.variance == 0 and math.isnan(ping.confidence)


def test_one_reading_in_several_messages_counts_once(telemetry):
    later = [
        message(kind, 1000 + 10 * number)
        for number, kind in enumerate(["WATER_DEPTH", "DISTANCE_SENSOR", "RANGEFINDER"])
    ]
    assert len(hear(telemetry, *later)) == 1
    assert telemetry.left_out == {"the same as WATER_DEPTH": 2}
    assert len(hear(telemetry, message("DISTANCE_SENSOR", 7000))) == 1  # the better has stopped
    assert not hear(telemetry, message("DISTANCE_SENSOR", 7100, orientation=0))
    assert telemetry.left_out["not_downward"] == 1


def test_parameters_are_requested_a_few_times():
    reader, asked = ParameterReader(), []
    for second in range(30):
        asked += reader.due(float(second))
        if second == 3:
            reader.answer(SimpleNamespace(param_id="WP_RADIUS", param_value=2.0))
            reader.answer(SimpleNamespace(param_id="RNGFND1_MAX_CM", param_value=5000.0))
            reader.answer(SimpleNamespace(param_id="OTHER", param_value=1.0))
    assert not reader.missing and set(asked) == set(WANTED)
    assert asked.count("WP_RADIUS") == 2 and asked.count("WP_SPEED") == TRIES
    assert reader.range_limits == (0.0, 50.0) and "OTHER" not in reader.values


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"WP_RADIUS": 2.0}, "set capture_radius to at least 2"),
        ({"WP_SPEED": 0.0, "CRUISE_SPEED": 2.0}, "CRUISE_SPEED is 2 m/s, and max_speed 1 m/s"),
        ({"WPNAV_SPEED": 50.0}, "WPNAV_SPEED is 0.5 m/s, and max_speed 1 m/s"),
        ({"RNGFND1_ORIENT": 0.0}, "a sonar that looks down"),
        ({"RNGFND1_MIN": 0.5}, "shorter ranges than 0.5 m are refused"),
        ({"RNGFND1_MAX_CM": 5000.0}, "deeper water than 50 m counts as no echo"),
        ({"FENCE_ENABLE": 0.0}, "FENCE_ENABLE is 0"),
        ({"FENCE_ENABLE": 1.0, "FENCE_ACTION": 0.0}, "only reports a breach"),
        ({"FENCE_ENABLE": 1.0, "FENCE_TYPE": 7.0, "FENCE_RADIUS": 30.0}, "reaches 50 m from here"),
        ({"FS_GCS_ENABLE": 0.0}, "FS_GCS_ENABLE is 0"),
    ],
)
def test_parameters_that_do_not_suit_the_mission(found, words):
    values = {"goal_radius": 0.1, "capture_radius": 1.34, "max_speed": 1.0}
    values |= {"sonar.min_range": 0.3, "sonar.max_range": 95.0}
    reader = ParameterReader()

    def advice(found):
        reader.values = found
        return list(reader.advice(values, Extent(0, 30, 0, 40), np.zeros(2)))

    (text,) = advice(found)
    assert words in text
    good = {
        "WP_RADIUS": 1.0, "WP_SPEED": 1.1, "RNGFND1_ORIENT": 25.0, "FENCE_ENABLE": 1.0,
        "FENCE_ACTION": 1.0, "FENCE_TYPE": 7.0, "FENCE_RADIUS": 60.0, "FS_GCS_ENABLE": 1.0,
        "RNGFND1_MIN": float(np.float32(0.3)), "RNGFND1_MAX": 95.0,
    }  # fmt: skip
    assert not advice(good) and not advice({})


BOOTED = 1_700_000_000 * SECOND


def stamps(clock, boot_ms, delay_s, drift=0.0):
    """Errors in s of the stamps of messages after such delays, by a clock that is too fast."""
    errors = []
    for ms, late in zip(boot_ms, delay_s, strict=True):
        measured = BOOTED + ms * 1_000_000
        counted = round(ms * (1 + drift))
        errors.append((clock.stamp(counted, measured + round(late * SECOND)) - measured) / SECOND)
    return np.array(errors)


def test_stamps_are_late_by_the_shortest_delay_alone():
    rng = np.random.default_rng(0)
    delay = 0.02 + rng.exponential(0.1, 1000)
    errors = stamps(BootClock(), range(0, 100_000, 100), delay)
    assert (errors <= delay + 1e-9).all()  # never in the future
    assert np.abs(errors[100:] - 0.02).max() < 0.01


def test_clocks_that_differ_do_not_drift_apart():
    """50 ppm over an hour are 0.18 s; a minute of it is 3 ms."""
    for drift in (-5e-5, 5e-5):
        ms = range(0, 3_600_000, 200)
        assert np.abs(stamps(BootClock(), ms, [0.02] * len(ms), drift)).max() < 0.03


def test_the_age_of_what_waited_in_a_queue():
    clock = BootClock()
    stamps(clock, range(0, 10_000, 100), [0.02] * 100)
    assert clock.age_s == pytest.approx(0.0, abs=1e-6)
    (error,) = stamps(clock, [10_000], [20.0])
    assert clock.age_s == pytest.approx(19.98) and error == pytest.approx(0.02)


def test_a_reboot_is_counted_and_messages_out_of_order_are_not():
    clock = BootClock()
    stamps(clock, range(60_000, 70_000, 100), [0.02] * 100)
    later = BOOTED + 100 * SECOND
    assert clock.stamp(500, later) == later and clock.boots == 1
    stamps(clock := BootClock(), [5000, 5100, 4900, 5200], [0.02, 0.02, 0.3, 0.02])
    assert not clock.boots


def ranges(telemetry, second, better=False):
    """Metres of the pings of two sonars: the first's depth is 5 + k / 100, of the second
    ``second(k)``. ``better``: WATER_DEPTH tells the first as well."""
    found = []
    for k in range(30):
        heard = [message("WATER_DEPTH", 1000 * k, distance=5 + k / 100)] * better
        heard += [message("DISTANCE_SENSOR", 1000 * k, id=number, current_distance=100 * depth)
                  for number, depth in enumerate((5 + k / 100, second(k)))]  # fmt: skip
        found += [ping.range for ping in hear(telemetry, *heard)]
    return found


FIRST = pytest.approx(5 + np.arange(30) / 100)


def test_of_two_sonars_that_agree_the_first_is_taken(telemetry):
    assert ranges(telemetry, lambda k: 5.02 + k / 100)[-20:] == pytest.approx(
        5 + np.arange(10, 30) / 100
    )
    assert not telemetry.fault.startswith("sonars")


def test_of_two_sonars_that_differ_none_is_taken_until_one_is_named(telemetry):
    """One may be a lidar above the water: as in a log, it is asked."""
    assert len(ranges(telemetry, lambda k: 1.1)) == 1  # before the second had a reading
    (reason,) = telemetry.left_out
    assert reason == "sonars 0 and 1 of DISTANCE_SENSOR differ: mavlink.sonar chooses one"
    assert ranges(Telemetry(sonar=1), lambda k: 1.1) == pytest.approx([1.1] * 30)
    assert ranges(Telemetry(), lambda k: 0.0) == FIRST  # a lidar without an echo says nothing


def test_sonars_of_a_worse_kind_that_differ_do_not_matter(telemetry):
    """Of a lidar DISTANCE_SENSOR tells as well, WATER_DEPTH does not."""
    assert ranges(telemetry, lambda k: 1.1, better=True) == FIRST
    hear(telemetry, message("ATTITUDE", 29_900), message("GLOBAL_POSITION_INT", 29_900))
    assert not telemetry.fault and telemetry.left_out == {"the same as WATER_DEPTH": 60}
