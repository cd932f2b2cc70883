"""Ground speeds in a current, against the triangle of velocities."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Current


def test_velocities_through_water_and_of_the_water_add_up():
    current = Current(0.3, -0.4, 1.2)
    for angle in np.linspace(-math.pi, math.pi, 13):
        heading, speed = current.heading(angle), current.speed_over_ground(angle)
        over_ground = 1.2 * np.exp(1j * heading) + (0.3 - 0.4j)
        assert over_ground == pytest.approx(speed * np.exp(1j * angle))


def test_there_and_back_takes_longer_than_in_still_water():
    path = np.array([[0.0, 0.0], [80.0, 0.0], [0.0, 0.0]])
    assert Current(0.6, 0.0, 1.0).seconds(path) == pytest.approx(80 / 1.6 + 80 / 0.4)
    assert Current(0.0, 0.6, 1.0).seconds(path) == pytest.approx(2 * 80 / 0.8)
    assert Current(0.0, 0.0, 1.0).seconds(path) == 160.0
    assert Current(0.0, 0.0, 1.0).seconds(path[:1]) == 0.0
    assert Current(0.6, 0.0, 1.0).mean_speed(path) == pytest.approx(0.64)
    assert Current(0.0, 0.0, 0.3).mean_speed(path) == 0.3


def test_the_vehicle_must_be_faster():
    with pytest.raises(InputError, match=r"vehicle's speed of 0\.5 m/s, got 0\.5"):
        Current(0.3, 0.4, 0.5)
