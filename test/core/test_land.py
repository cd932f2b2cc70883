"""Land between two places."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid, Land

GRID = Grid.cells(Extent(0, 100, 0, 60), 1.0)


def land(chosen):
    """Land where a function of x and y [N] says so; the rest is water."""
    return Land(GRID, ~chosen(*GRID.points.T).reshape(GRID.shape))


def spit(x, y):
    return (abs(x - 50) < 1) & (y < 40)


@pytest.mark.parametrize(
    ("a", "b", "between"),
    [
        ((40, 20), (60, 20), True),
        ((40, 50), (60, 50), False),
        ((2, 20), (98, 20), True),
        ((40, 30), (60, 55), False),  # past the end of the spit
        ((40, 10), (40, 50), False),
        ((49.9, 20), (40, 20), False),  # on land, near its left shore
        ((49.9, 20), (60, 20), True),
        ((-30, 20), (130, 20), True),  # beyond the raster
        ((40, 20), (40, 20), False),
    ],
)
def test_a_line_crosses_a_spit_or_not(a, b, between):
    places = np.array([a], dtype=float), np.array([b], dtype=float)
    shore = land(spit)
    assert shore.between(*places).tolist() == [between]
    moved = shore.moved(np.array([50.0, 30.0]), 50.0)
    assert moved.between(*(((p - (50, 30)) / 50) for p in places)).tolist() == [between]


def test_finely_sampled_lines_cross_the_same_land():
    shore = land(lambda x, y: np.hypot(x - 40, y - 30) < 12)
    ends = np.random.default_rng(0).uniform((0, 0), (100, 60), (4000, 2, 2))
    distance = np.hypot(*np.moveaxis(ends - (40, 30), -1, 0))
    a, b = ends[(distance > 14).all(1)].transpose(1, 0, 2)
    share = np.linspace(0, 1, 2001)[:, None, None]
    nearest = np.hypot(*np.moveaxis(a + share * (b - a) - (40, 30), -1, 0)).min(0)
    clear = abs(nearest - 12) > 1.5  # the raster is no circle
    assert np.array_equal(shore.between(a, b)[clear], nearest[clear] < 12)


def test_a_place_on_land_is_hidden_and_without_land_nothing():
    a, b = np.random.default_rng(0).uniform(0, 60, (2, 50, 2))
    assert not land(lambda x, y: x < -1).hides(a, b).any()
    places = np.array([[50.0, 20.0], [49.0, 50.0], [60.0, 20.0]])
    assert land(spit).hides(np.full((3, 2), 40.0), places).tolist() == [True, False, True]
