"""A run's folder with a map that is known at every cell, for the tests of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import folder as files

GRID = Grid.cells(Extent(0.0, 30.0, 0.0, 20.0), 1.0)
SIGMA = 0.25  # m, everywhere


def drawn(offset: float = 0.0, samples: int = 40) -> ElevationMap:
    """Elevations that differ in every cell, so that one tells where it was read: -60 .. -1 m."""
    mean = -60.0 + offset + np.arange(600).reshape(GRID.shape) / 10
    fields = {"lengthscale": np.full(GRID.shape, 3.5)}
    support = np.array([[5.0, 5.0], [25.0, 15.0]])
    variance = np.full(GRID.shape, SIGMA**2)
    return ElevationMap(GRID, mean, variance, fields, support, samples, stamp_ns=10**9 * samples)


def write_run(folder: Path, offset: float = 0.0, samples: int = 40) -> Path:
    """A folder with map, pings, curves and settings."""
    folder.mkdir(parents=True, exist_ok=True)
    place = np.linspace((1.0, 1.0), (29.0, 19.0), samples)
    files.write_samples(folder / "samples.csv", place, np.full(samples, -30.0))
    config = {"seed": 1, "note": "<i>steep</i> & $$deep$$", "shown": {"extrapolate": True}}
    files.write_config(folder / "config.yaml", config)
    rows = [(n, n / 3.0, *([1.0 / n] * 5), 0.1, 0.02) for n in range(10, samples + 1, 10)]
    files.write_table(folder / "epochs.csv", files.EPOCH_COLUMNS, rows)
    files.write_map(folder / "map.npz", drawn(offset, samples))
    return folder


def write_slope(folder: Path) -> Path:
    """A folder with the map of a slope, pings and settings."""
    mean = (-8.0 + 0.3 * GRID.points[:, 0] - 0.1 * GRID.points[:, 1]).reshape(GRID.shape)
    files.write_map(folder / "map.npz", ElevationMap(GRID, mean, np.full_like(mean, 0.04)))
    files.write_samples(folder / "samples.csv", GRID.points[::7], mean.ravel()[::7])
    files.write_config(folder / "config.yaml", {"seed": 1})
    return folder
