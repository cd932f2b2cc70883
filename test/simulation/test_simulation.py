"""The simulation: exact ping rate, determined by its seed, with faults as set."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.simulation.simulator import MAX_DELAY_S, Pacer, Simulation, SonarSettings
from poam_ros.simulation.terrain import load_terrain
from poam_ros.simulation.vehicle import Pose

SECOND = 1_000_000_000
ENVIRONMENT = Extent(-31, 31, -31, 31)


@dataclass(frozen=True)
class Slope:
    """A plane that rises eastwards and northwards."""

    extent: Extent = ENVIRONMENT
    highest: float = 100.0
    lowest: float = 0.0
    sonar_defaults: tuple[float, float] = (1.0, 5.0)

    def elevation_at(self, xy: np.ndarray) -> np.ndarray:
        return 50.0 + 0.7 * xy[:, 0] + 0.3 * xy[:, 1]


def simulation(seed: int = 0, control_rate: float = 10.0, **sonar) -> Simulation:
    start = Pose(30.0, -30.0, math.pi)
    settings = SonarSettings(**sonar)
    return Simulation(Slope(), start=start, sonar=settings, control_rate=control_rate, seed=seed)


def drive(sim: Simulation, steps: int, goals_seed: int = 11) -> list:
    """Steps from waypoint to waypoint."""
    rng, taken = np.random.default_rng(goals_seed), []
    sim.set_goal(rng.uniform(-30, 30, 2))
    for _ in range(steps):
        if sim.vehicle.at_goal:
            sim.set_goal(rng.uniform(-30, 30, 2))
        taken.append(sim.step())
    return taken


def pings(steps: list) -> list:
    return [ping for step in steps for ping in step.pings]


def test_three_hertz_beside_ten():
    """Ping k comes at k/3 s to the nanosecond, in the step that covers it, the first not at 0."""
    steps = drive(simulation(), 900)
    assert [step.time_ns for step in steps] == [(k + 1) * SECOND // 10 for k in range(900)]
    taken = pings(steps)
    assert [ping.stamp_ns for ping in taken] == [round(k * SECOND / 3) for k in range(1, 271)]
    for before, step in pairwise(steps):
        for ping in step.pings:
            assert before.time_ns < ping.stamp_ns <= step.time_ns


@pytest.mark.slow
def test_no_drift_in_a_month():
    """Periods of 1000/3 s and pings every 1000/17 s: sums of either in floating point would drift
    by hundreds of nanoseconds."""
    sim = simulation(control_rate=0.003, rate=0.017)
    steps = [sim.step() for _ in range(8000)]
    month = [step.time_ns for step in steps]
    assert month == [round(Fraction(k * 1000 * SECOND, 3)) for k in range(1, 8001)]
    stamps = [ping.stamp_ns for ping in pings(steps)]
    assert len(stamps) == 8000 * 17 // 3
    assert stamps == [round(Fraction(k * 1000 * SECOND, 17)) for k in range(1, len(stamps) + 1)]


@pytest.mark.parametrize(
    ("rate", "control", "times"),
    [
        (2.5, 10.0, [0.4, 0.8, 1.2, 1.6, 2.0]), (0.5, 10.0, [2.0]), (1, 2.5, [1.0, 2.0]),
        (50.0, 10.0, [round(0.02 * k, 2) for k in range(1, 101)]),
    ],
)  # fmt: skip
def test_other_rates(rate, control, times):
    sim = simulation(rate=rate, control_rate=control)
    taken = pings([sim.step() for _ in range(round(2 * control))])
    assert [ping.stamp_ns / SECOND for ping in taken] == times


def test_pings_between_control_ticks_are_placed_exactly():
    """At 1 m/s due west, ping k is k/3 m from the start, between the 10 Hz poses."""
    sim = simulation()
    sim.set_goal((-30, -30))
    for k, ping in enumerate(pings([sim.step() for _ in range(300)]), start=1):
        assert (ping.x, ping.y) == pytest.approx((30 - k / 3, -30), abs=1e-9)


def test_range_is_depth_below_the_plane():
    sim = simulation(noise_std=0.0, clearance=7.0)
    assert sim.sonar_z == 107.0
    for ping in pings(drive(sim, 300)):
        assert ping.range == pytest.approx(107.0 - (50 + 0.7 * ping.x + 0.3 * ping.y), abs=1e-12)


def test_noise_is_unit_gaussian():
    sim = simulation(rate=50.0)
    errors = np.array(
        [p.range - (sim.sonar_z - 50 - 0.7 * p.x - 0.3 * p.y) for p in pings(drive(sim, 2000))]
    )
    assert len(errors) == 10_000
    assert abs(errors.mean()) < 4 / math.sqrt(10_000)
    assert errors.std() == pytest.approx(1.0, abs=4 / math.sqrt(20_000))
    assert np.mean(np.abs(errors) < 1.959964) == pytest.approx(0.95, abs=0.01)
    assert abs(np.corrcoef(errors[1:], errors[:-1])[0, 1]) < 0.04


def test_the_seed_determines_everything():
    faults = {"dropout": 0.1, "outlier": 0.1, "inf": 0.1, "latency": 0.25}
    one, two, other = (drive(simulation(seed, **faults), 500) for seed in (3, 3, 4))
    assert one == two
    assert [s.pose for s in one] == [s.pose for s in other]
    assert [p.range for p in pings(one)] != [p.range for p in pings(other)]


def test_faults_leave_noise_and_trajectory_alone():
    clean = drive(simulation(), 1500)
    faulty = drive(simulation(dropout=0.2, outlier=0.1, nan=0.1, inf=0.1, latency=0.5), 1500)
    assert [step.pose for step in clean] == [step.pose for step in faulty]
    truth = {ping.stamp_ns: ping for ping in pings(clean)}
    honest = 0
    for ping in pings(faulty):
        same = truth[ping.stamp_ns - SECOND // 2]
        assert (ping.x, ping.y) == (same.x, same.y)
        honest += ping.range == same.range
    assert 0.4 < honest / len(truth) < 0.6


def test_fault_shares():
    sim = simulation(rate=50.0, dropout=0.2, outlier=0.05, nan=0.1, inf=0.15)
    ranges = np.array([ping.range for ping in pings(drive(sim, 2000))])
    assert len(ranges) / 10_000 == pytest.approx(0.8, abs=0.016)
    finite = ranges[np.isfinite(ranges)]
    assert np.sum(finite > sim.settings.max_range) / 10_000 == pytest.approx(0.05, abs=0.009)
    assert np.isnan(ranges).sum() / 10_000 == pytest.approx(0.1, abs=0.012)
    assert (ranges == np.inf).sum() / 10_000 == pytest.approx(0.075, abs=0.011)
    assert (ranges == -np.inf).sum() / 10_000 == pytest.approx(0.075, abs=0.011)


def test_every_ping_may_fail():
    assert pings(drive(simulation(dropout=1.0), 50)) == []
    # 0.1 + 0.2 + 0.7 is a little more than 1 in floating point.
    assert SonarSettings(dropout=0.1, outlier=0.2, nan=0.7, inf=0.0)


def test_latency_delays_delivery_and_stamp_alike():
    plain, late = simulation(), simulation(latency=0.5)
    prompt, delayed = drive(plain, 200), drive(late, 200)
    first = next(k for k, step in enumerate(delayed) if step.pings)
    assert delayed[first].time_ns == 900_000_000  # measured at 1/3 s, delivered at 5/6 s
    early = pings(prompt)
    for ping, same in zip(pings(delayed), early, strict=False):
        assert ping.stamp_ns == same.stamp_ns + SECOND // 2
        assert (ping.x, ping.y, ping.range) == (same.x, same.y, same.range)
    for step in delayed:
        for ping in step.pings:
            assert step.time_ns - SECOND // 10 < ping.stamp_ns <= step.time_ns
    assert 0 < len(early) - len(pings(delayed)) <= 2


def test_range_limits_fit_the_terrain():
    """No correct ping exceeds max_range; a given limit stays."""
    sim = simulation()
    assert sim.settings.max_range > sim.sonar_z - Slope().lowest + 5
    assert simulation(max_range=200.0).settings.max_range == 200.0
    flat = Slope(highest=0.0, lowest=0.0)
    tall = SonarSettings(clearance=5.0, min_range=50.0)
    assert Simulation(flat, start=Pose(0, 0, 0), sonar=tall).settings.max_range > 50.0


def test_pings_continue_while_it_holds_station():
    sim = simulation()
    taken = pings([sim.step() for _ in range(100)])
    assert len(taken) == 30
    assert {(ping.x, ping.y) for ping in taken} == {(30.0, -30.0)}
    assert len({ping.range for ping in taken}) == 30


def test_step_reports_the_motion():
    sim = simulation()
    assert sim.step().speed == 0.0
    sim.set_goal((0, 0))
    assert sim.vehicle.goal == (0.0, 0.0)
    step = sim.step()
    assert (step.speed, abs(step.turn_rate)) == (1.0, 1.5)
    assert (step.pose, step.time_ns) == (sim.pose, sim.time_ns)
    sim.set_goal(None)
    step = sim.step()
    assert (step.speed, step.turn_rate, step.pose) == (0.0, 0.0, sim.pose)


def test_reset_repeats_everything_at_later_times():
    """As from the start, except for the time, which never goes back."""
    sim = simulation(dropout=0.1, latency=0.5)
    first = drive(sim, 157)
    sim.reset()
    assert sim.pose == Pose(30.0, -30.0, math.pi) and sim.time_ns == first[-1].time_ns
    assert sim.vehicle.goal is None and not sim.vehicle.at_goal
    second = drive(sim, 157)
    shift = first[-1].time_ns
    for a, b in zip(first, second, strict=True):
        assert (b.time_ns - shift, b.pose) == (a.time_ns, a.pose)
        assert [(p.x, p.y, p.range) for p in a.pings] == [(p.x, p.y, p.range) for p in b.pings]
        for p, q in zip(a.pings, b.pings, strict=True):
            assert abs(q.stamp_ns - shift - p.stamp_ns) <= 1  # each is rounded on its own


def test_the_sonar_of_a_lake_is_under_water_with_less_noise():
    lake, hills = load_terrain("lake"), load_terrain("lake", elevation_range=(0.0, 255.0))
    found = Simulation(lake, start=Pose(0, 0, 0))
    assert found.sonar_z == pytest.approx(-0.5) and found.settings.noise_std == 0.1
    assert 29.5 < found.settings.max_range < 33
    # What is given holds; and a shape on another scale is another terrain.
    given = SonarSettings(noise_std=0.0, clearance=1.0, max_range=20.0)
    assert given.over(lake) == given
    over_hills = SonarSettings().over(hills)
    assert (over_hills.noise_std, over_hills.clearance) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_std": -0.5}, "noise_std: expected at least 0, or -1, got -0.5"),
        ({"clearance": 0.0}, "clearance: expected at least 0.01, or -1, got 0"),
        ({"min_range": 5.0, "max_range": 5.0}, "max_range: expected more than min_range = 5.0"),
        ({"dropout": 1.5}, "dropout: expected a number from 0 to 1, got 1.5"),
        ({"dropout": 0.6, "inf": 0.5}, "expected a sum of at most 1, got 1.1"),
    ],
)
def test_wrong_sonar_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        SonarSettings(**settings)


def test_wrong_simulations_are_refused():
    with pytest.raises(InputError, match="control_rate"):
        simulation(control_rate=0.0)
    with pytest.raises(InputError, match="seed"):
        simulation(seed=-1)
    with pytest.raises(InputError, match="start"):
        Simulation(Slope(), start=Pose(40, 0, 0))


def due(pacer: Pacer, times: np.ndarray) -> list[int]:
    return [pacer.due(float(t)) for t in times]


@pytest.mark.parametrize("speed", [1.0, 20.0, 0.3])
def test_steps_follow_the_speed(speed):
    assert abs(sum(due(Pacer(0.1, speed), np.arange(0, 30.005, 0.01))) - 300 * speed) <= 1


def test_catches_up_without_a_burst():
    pacer = Pacer(0.1, 20.0)
    due(pacer, np.arange(0, 1, 0.01))
    steps = due(pacer, np.concatenate(([1.2], 1.2 + np.arange(0.01, 0.5, 0.01))))
    assert max(steps) <= 4 and abs(sum(steps) - 0.7 * 200) <= 4


def test_steps_too_late_are_dropped():
    pacer = Pacer(0.1, 20.0)
    due(pacer, np.array([0.0, 0.01]))
    assert abs(sum(due(pacer, 10 + np.arange(0, 2, 0.01))) - (2 + MAX_DELAY_S) * 200) < 10
