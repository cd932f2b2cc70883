"""Control steps that are due by the wall clock."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.simulation.world.simulator import MAX_DELAY_S, Pacer


def run(pacer: Pacer, times: np.ndarray) -> list[int]:
    return [pacer.due(float(t)) for t in times]


@pytest.mark.parametrize("speed", [1.0, 20.0, 0.3])
def test_steps_follow_the_speed(speed):
    assert abs(sum(run(Pacer(0.1, speed), np.arange(0, 30.005, 0.01))) - 300 * speed) <= 1


def test_catches_up_without_a_burst():
    pacer = Pacer(0.1, 20.0)
    run(pacer, np.arange(0, 1, 0.01))
    steps = run(pacer, np.concatenate(([1.2], 1.2 + np.arange(0.01, 0.5, 0.01))))
    assert max(steps) <= 4 and abs(sum(steps) - 0.7 * 200) <= 4


def test_steps_too_late_are_dropped():
    pacer = Pacer(0.1, 20.0)
    run(pacer, np.array([0.0, 0.01]))
    assert abs(sum(run(pacer, 10 + np.arange(0, 2, 0.01))) - (2 + MAX_DELAY_S) * 200) < 10


def test_speed_may_change():
    pacer = Pacer(0.1, 1.0)
    run(pacer, np.arange(0, 1, 0.01))
    pacer.speed = 10.0
    assert abs(sum(run(pacer, 1 + np.arange(0, 1, 0.01))) - 100) <= 2
