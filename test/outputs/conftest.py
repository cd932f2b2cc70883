"""A run's folder with a map that looks different from every side."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import folder as files

STAMP = 1_765_000_000_000_000_000


def ground(xy):
    """Elevation in m of points [N, 2]: a plane, so that bilinear interpolation is exact."""
    return -12.0 + 0.2 * xy[:, 0] - 0.3 * xy[:, 1]


def deviation(xy):
    """Standard deviation in m of points [N, 2], a plane as well."""
    return 0.1 + 0.01 * xy[:, 0] + 0.005 * xy[:, 1]


@pytest.fixture
def drawn():
    grid = Grid.cells(Extent(-4.0, 20.0, -2.0, 10.0), 2.0)
    mean, std = (f(grid.points).reshape(grid.shape) for f in (ground, deviation))
    return ElevationMap(grid, mean, std**2, {}, np.empty((0, 2)), 5, STAMP)


@pytest.fixture
def pings():
    """Three in one cell, two in others; the sixth is not in the map yet."""
    return np.array([[0.5, 0.5], [0.7, 0.5], [1.5, 1.9], [19.0, 9.0], [-3.0, -1.0], [9.0, 9.0]])


@pytest.fixture
def run(tmp_path, drawn, pings):
    folder = tmp_path / "bay & <lake>"
    folder.mkdir()
    files.write_map(folder / "map.npz", drawn)
    files.write_samples(folder / "samples.csv", pings, ground(pings))
    files.write_config(folder / "config.yaml", {"seed": 3, "note": "tiefer als Höhe"})
    return folder
