"""The front end: which pings become samples, where they lie, and why others are refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.geometry import Extent
from poam_ros.frontend.front_end import FrontEnd, FrontEndSettings, RawPing
from poam_ros.frontend.odometry import JumpDetector, OdometryBuffer, VehicleState, multiply, rotate


def seconds(value):
    return round(value * SECOND)


def state(t, x=0.0, y=0.0, z=0.0, quaternion=(0.0, 0.0, 0.0, 1.0)):
    return VehicleState(seconds(t), (x, y, z), quaternion)


def ping(t, distance=10.0, low=1.0, high=100.0):
    return RawPing(seconds(t), distance, low, high)


def at(steady_s):
    return Moment(0, steady_s)


def take(front_end, now=0.0):
    """What can be placed by now: x, y, z [N, 3]."""
    samples = front_end.take(at(now))
    return np.column_stack((samples.xy, samples.z))


def roll(angle):
    return (math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2))


def test_a_sample_lies_below_the_interpolated_position_of_the_sonar():
    front_end = FrontEnd(FrontEndSettings())
    front_end.odometry(state(1.0, x=0.0, y=4.0, z=50.0), at(0.0))
    front_end.odometry(state(1.5, x=2.0, y=0.0, z=52.0), at(0.0))
    front_end.ping(ping(1.25, 10.0), at(0.0))
    np.testing.assert_allclose(take(front_end, 0.0), [[1.0, 2.0, 41.0]], atol=1e-12)


@pytest.mark.parametrize("offset", [-0.5, 0.0, 0.25])
def test_time_of_measurement_is_stamp_plus_offset(offset):
    front_end = FrontEnd(FrontEndSettings(range_time_offset=offset))
    for t in np.arange(0.0, 5.0, 0.1):
        front_end.odometry(state(t, x=t), at(0.0))
    front_end.ping(ping(2.03), at(0.0))
    assert take(front_end, 0.0)[0, 0] == pytest.approx(2.03 + offset, abs=1e-9)


def test_waiting_is_bounded_in_time_and_number():
    front_end = FrontEnd(FrontEndSettings(odometry_wait=5.0, capacity=3))
    for i in range(4):
        front_end.ping(ping(1 + i), at(float(i)))
    assert (front_end.ledger.pending, front_end.ledger.rejected["no_odometry"]) == (3, 1)
    take(front_end, 6.5)  # the second came at 1 s
    assert (front_end.ledger.pending, front_end.ledger.rejected["no_odometry"]) == (2, 2)


def test_no_extrapolation_and_no_interpolation_across_a_gap():
    front_end = FrontEnd(FrontEndSettings(odometry_timeout=0.5))
    for t in (1.0, 1.5, 2.1):
        front_end.odometry(state(t, x=t), at(0.0))
    for t in (0.9, 1.2, 1.8, 2.1):
        front_end.ping(ping(t), at(0.0))
    # 0.9 lies before the buffer, 1.8 in a gap of 0.6 s; 2.1 needs no neighbour.
    np.testing.assert_allclose(take(front_end, 0.0)[:, 0], [1.2, 2.1])
    assert front_end.ledger.rejected == {"no_odometry": 2}


def test_beam_follows_attitude_and_mount():
    """Rolled by 90 degrees to starboard-down, the beam points along the body's -z in the map."""
    front_end = FrontEnd(FrontEndSettings(sonar_offset=(1.0, 2.0, -0.5)))
    quaternion = roll(math.pi / 2)
    front_end.odometry(state(0.0, 10.0, 20.0, 30.0, quaternion), at(0.0))
    front_end.ping(ping(0.0, 7.0), at(0.0))
    # About x by +90 degrees: y goes to z, and -z goes to +y. Body (1, 2, -0.5 - 7).
    np.testing.assert_allclose(take(front_end, 0.0), [[11.0, 27.5, 32.0]], atol=1e-12)


def test_attitude_is_interpolated_along_the_shorter_arc():
    buffer = OdometryBuffer()
    a, b = roll(0.1), roll(0.3)
    buffer.add(state(0.0, quaternion=a))
    buffer.add(state(1.0, quaternion=tuple(-q for q in b)))
    middle = buffer.at(seconds(0.5), SECOND)
    np.testing.assert_allclose(middle.quaternion, roll(0.2), atol=1e-12)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (state(1.0), "duplicate"),
        (state(0.5), "out_of_order"),
        (state(2.0, x=math.nan), "not_finite"),
        (state(2.0, quaternion=(0.0, 0.0, 0.0, 0.0)), "invalid_orientation"),
        (state(2.0, quaternion=(0.0, 0.0, 0.0, 0.85)), "invalid_orientation"),
        (state(2.0, quaternion=(0.0, 0.0, 3.0, 3.0)), "invalid_orientation"),
        (state(2.0, quaternion=(0.0, 0.0, 1e200, 1e200)), "invalid_orientation"),
        (state(2.0, quaternion=(math.inf, 0.0, 0.0, 1.0)), "not_finite"),
    ],
)
def test_odometry_is_refused_with_a_reason(bad, reason):
    front_end = FrontEnd(FrontEndSettings())
    front_end.odometry(state(1.0), at(0.0))
    assert front_end.odometry(bad, at(0.0)) == reason
    assert front_end.ledger.odometry_rejected == {reason: 1}
    assert len(front_end.buffer) == 1


def test_a_clock_set_back_empties_the_buffer():
    front_end = FrontEnd(FrontEndSettings())
    front_end.odometry(state(100.0, x=100.0), at(0.0))
    front_end.ping(ping(100.5), at(0.0))
    assert front_end.odometry(state(0.0), at(0.0)) is None
    assert (front_end.ledger.pending, front_end.ledger.rejected["no_odometry"]) == (0, 1)
    front_end.odometry(state(0.5, x=0.5), at(0.0))
    front_end.ping(ping(0.25), at(0.0))
    assert take(front_end, 0.0)[0, 0] == pytest.approx(0.25)
    assert front_end.buffer.restarts == 1
    front_end.odometry(state(100.0), at(0.0))
    front_end.odometry(state(0.0), at(0.0))
    front_end.odometry(state(0.5, x=0.5), at(0.0))
    front_end.ping(ping(0.25), at(0.0))  # a restarted bag has no duplicates
    assert len(take(front_end, 0.0)) == 1


def test_buffer_is_bounded():
    buffer = OdometryBuffer(capacity=10)
    for i in range(1000):
        buffer.add(state(0.1 * i, x=i))
        assert len(buffer) <= 20
    assert len(buffer) >= 10
    assert buffer.at(seconds(99.85), SECOND).position[0] == pytest.approx(998.5)


def test_pings_outside_the_workspace_or_after_the_mission_are_refused():
    front_end = FrontEnd(FrontEndSettings(max_outside=0.0, workspace=Extent(-1, 1, -1, 1)))
    front_end.odometry(state(0.0, x=0.0), at(0.0))
    front_end.odometry(state(1.0, x=2.0), at(0.0))
    front_end.ping(ping(0.25), at(0.0))
    front_end.ping(ping(0.75), at(0.0))
    assert len(take(front_end, 0.0)) == 1
    front_end.ping(ping(1.5), at(0.0))
    assert front_end.mission("done", at(0.0)) is not None
    front_end.ping(ping(1.0), at(0.0))
    assert front_end.ledger.rejected == {"outside_workspace": 1, "after_mission": 2}
    front_end.mission("exploring", at(0.0))
    front_end.ping(ping(0.3), at(0.0))
    assert len(take(front_end, 0.0)) == 1


def test_quaternions_compose_as_rotations_do():
    rng = np.random.default_rng(1)
    a, b = (tuple(q / np.linalg.norm(q)) for q in rng.normal(size=(2, 4)))
    v = rng.normal(size=3)
    np.testing.assert_allclose(rotate(multiply(a, b), v), rotate(a, rotate(b, v)), atol=1e-12)


def test_no_ping_is_placed_across_a_jump():
    front_end = FrontEnd(FrontEndSettings(max_vehicle_speed=3.0))
    for t, x in ((0.0, 0.0), (0.1, 0.2), (0.2, 50.0), (0.3, 0.6)):  # a jump and back
        assert front_end.odometry(state(t, x), at(0.0)) == ("jump" if x == 50 else None)
    for t in (0.05, 0.1, 0.2, 0.25):
        front_end.ping(ping(t), at(0.0))
    np.testing.assert_allclose(take(front_end)[:, 0], [0.1, 0.2, 0.4, 0.5])
    assert front_end.ledger.odometry_rejected == {"jump": 1} and not +front_end.ledger.suspect
    # A place that lasts is one, but nothing lies between it and the one before.
    for t in np.arange(0.4, 1.5, 0.1):
        front_end.odometry(state(t, 50.0 + t), at(0.0))
    for t in (0.35, 0.8, 1.25, 1.35):
        front_end.ping(ping(t), at(0.0))
    np.testing.assert_allclose(take(front_end)[:, 0], [51.35])
    assert front_end.ledger.suspect["teleport"] == 1 and front_end.ledger.rejected == {
        "no_odometry": 3
    }
    # Without a limit positions are interpolated as they come.
    front_end = FrontEnd(FrontEndSettings(max_jump=0.0))
    front_end.odometry(state(0.0), at(0.0))
    front_end.odometry(state(0.1, 50.0), at(0.0))
    front_end.ping(ping(0.05), at(0.0))
    assert take(front_end)[0, 0] == 25.0 and not +front_end.ledger.suspect


@pytest.mark.parametrize("twist", [0.0, 1.5])
@pytest.mark.parametrize("rate", [1.0, 10.0, 100.0])
def test_jumps_are_detected_by_the_speed_in_the_odometry(rate, twist):
    """One of 50 m is refused; an origin that moves is followed after a second."""
    watch, faults = JumpDetector(), []
    for i in range(round(60 * rate)):
        t = i / rate
        x = 1.5 * t + (50.0 if i == round(30 * rate) or t >= 50 else 0.0)
        faults.append((t, watch.check(replace(state(t, x), speed=twist), 0.0, 2.0)))
    found = [(t, fault) for t, fault in faults if fault]
    assert found[0] == (30.0, "jump") and all(t >= 50 for t, _ in found[1:])
    assert [fault for _, fault in found].count("moved") == 1
    assert found[-1][1] == "moved" and 51 <= found[-1][0] + 1 / rate + 1e-6 <= 53.1


@pytest.mark.parametrize("speed", [0.0, 0.3, 3.0, 15.0])
def test_motion_is_not_a_jump(speed):
    """Also fixes once a second that scatter by a metre, and a boat that sets out."""
    rng, watch, x = np.random.default_rng(0), JumpDetector(), 0.0
    for t in range(300):
        x += min(speed, 0.5 * t)
        fix = state(float(t), x + rng.normal(scale=0.5))
        assert watch.check(fix, 0.0, 2.0) is None, t


def test_pings_of_a_stationary_vehicle_are_limited():
    front_end = FrontEnd(FrontEndSettings(pings_at_place=20))
    for i in range(201):
        front_end.odometry(state(0.1 * i, max(0.0, 0.1 * (i - 100))), at(0.0))
        front_end.ping(ping(0.1 * i), at(0.0))
    placed = take(front_end)
    # All within 0.5 m of the first place count as from there; moving on, a place gives up to five.
    assert (placed[:, 0] <= 0.501).sum() == 20
    assert front_end.ledger.rejected == {"standing": 106 - 20}
    assert front_end.ledger.received == front_end.ledger.accepted + sum(
        front_end.ledger.rejected.values()
    )


@pytest.mark.parametrize("stamp", [0, -1, -(2**62), 2**62, 10**30])
def test_invalid_stamps_do_no_harm(stamp):
    front_end = FrontEnd(FrontEndSettings(odometry_wait=1.0))
    for t in (100.0, 100.1):
        front_end.odometry(state(t), at(0.0))
    front_end.ping(RawPing(stamp, 10.0, 1.0, 100.0), at(0.0))
    front_end.ping(ping(100.05), at(0.0))
    assert len(take(front_end, 0.0)) == 1
    take(front_end, 1.5)
    assert front_end.ledger.rejected == {"other_clock": 1} and front_end.ledger.pending == 0
