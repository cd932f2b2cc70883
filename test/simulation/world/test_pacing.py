"""Control steps that are due by the wall clock."""

from __future__ import annotations

import numpy as np

from poam_ros.simulation.world.simulator import Pacer


def run(pacer: Pacer, times: np.ndarray) -> tuple[int, int, list[int]]:
    steps, dropped = zip(*(pacer.due(float(t)) for t in times), strict=True)
    return sum(steps), sum(dropped), list(steps)


def test_steps_follow_the_speed():
    for speed in (1.0, 20.0, 0.3):
        total, dropped, _ = run(Pacer(0.1, speed), np.arange(0, 30.005, 0.01))
        assert abs(total - 300 * speed) <= 1
        assert dropped == 0


def test_catches_up_without_a_burst():
    pacer = Pacer(0.1, 20.0)
    run(pacer, np.arange(0, 1, 0.01))
    times = np.concatenate(([1.2], 1.2 + np.arange(0.01, 0.5, 0.01)))
    total, dropped, steps = run(pacer, times)
    assert max(steps) <= 4
    assert dropped == 0
    assert abs(total - 0.7 * 200) <= 4


def test_steps_too_late_are_dropped():
    pacer = Pacer(0.1, 20.0, max_delay=0.5)
    run(pacer, np.array([0.0, 0.01]))
    total, dropped, _ = run(pacer, 10 + np.arange(0, 2, 0.01))
    assert abs(dropped - (10 - 0.5) * 200) < 10
    assert abs(total - (2 + 0.5) * 200) < 10


def test_speed_may_change():
    pacer = Pacer(0.1, 1.0)
    run(pacer, np.arange(0, 1, 0.01))
    pacer.speed = 10.0
    total, _, _ = run(pacer, 1 + np.arange(0, 1, 0.01))
    assert abs(total - 100) <= 2
