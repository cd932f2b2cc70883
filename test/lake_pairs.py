"""Pairs of surveys of one lake, drawn from a Gaussian process, with or without a scour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lakes import to_and_fro
from scipy.ndimage import map_coordinates

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mapping.resurvey import Survey, change_between
from poam_ros.mapping.soundings import MAP_DEFAULTS, Labels, SoundingMapSettings, Soundings
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.change import Change
from poam_ros.screening import ScreeningSettings

EXTENT = Extent(0, 160, 0, 120)
GRID = Grid.cells(EXTENT, 2.5)
#: Matern-3/2, in m; the second survey is higher by ``OFFSET``.
DEEP, SPREAD, LENGTHSCALE, NOISE, OFFSET = -8.0, 2.0, 80.0, 0.05, 0.2
#: Of the scour: its depth in m, and its size in cells.
SCOUR, CELLS = 0.3, 200
#: Of the grid on which the bottom is drawn: nodes along a side, their distance in m; and the number
#: of its nodes that lie outside ``EXTENT`` on either side.
NODES, STEP, ASIDE = 512, 1.25, 100


@dataclass(frozen=True)
class Pair:
    """What was found of a pair, and where its scour is [rows, columns], boolean."""

    change: Change
    scour: np.ndarray

    @property
    def found(self) -> float:
        """The share of the scour's compared cells that is significant."""
        compared = self.scour & np.isfinite(self.change.mean)
        return float(self.change.significant[compared].mean())

    @property
    def net(self) -> float:
        """The true net volume of the compared cells, in m^3."""
        return -SCOUR * GRID.cell_area * int((self.scour & np.isfinite(self.change.mean)).sum())

    @property
    def false(self) -> float:
        """The share of the other compared cells that is significant."""
        compared = ~self.scour & np.isfinite(self.change.mean)
        return float(self.change.significant[compared].mean())


def _bottom(rng: np.random.Generator) -> np.ndarray:
    """Elevations at the nodes [NODES, NODES], by the spectrum of the process on a torus."""
    wave = 2 * np.pi * np.fft.fftfreq(NODES, STEP)
    spectrum = (3 / LENGTHSCALE**2 + wave[:, None] ** 2 + wave**2) ** -2.5
    white = np.fft.fft2(rng.standard_normal((NODES, NODES)))
    amplitude = np.sqrt(spectrum / spectrum.mean())
    return DEEP + SPREAD * np.fft.ifft2(amplitude * white).real


def _survey(seed: int, xy: np.ndarray, z: np.ndarray, day: Labels, said: float) -> Survey:
    model = ModelSettings.of({**MAP_DEFAULTS, "nngp.first_steps": 250})
    settings = SoundingMapSettings(
        seed=seed, level_error=said, model=model, screening=ScreeningSettings()
    )
    mapped = ElevationMap(GRID, np.zeros(GRID.shape), np.ones(GRID.shape))
    row = np.arange(len(xy))
    return Survey(Path(), mapped, Soundings(row, xy, z, row), EXTENT, settings, None, day=day)


def pair(
    seed: int, scoured: bool, apart: float = 10.0, off: float = 0.0, said: float = 0.0
) -> Pair:
    """Survey a lake twice, along the same lines if ``seed`` is odd, else between them.

    ``off``: standard deviation of the errors of level of two days of each survey, in m; ``said``:
    as it is given to the maps.
    """
    rng = np.random.default_rng([seed, 7])
    bottom = _bottom(rng)
    middle, radius = rng.uniform([35, 30], [125, 90]), np.sqrt(CELLS * GRID.cell_area / np.pi)

    def inside(xy: np.ndarray) -> np.ndarray:
        within: np.ndarray = np.hypot(*(xy - middle).T) < radius
        return within & scoured

    surveys = []
    for number, first in enumerate((apart / 2, apart / 2 if seed % 2 else apart)):
        xy = to_and_fro(GRID.x, np.arange(first, EXTENT.ymax + 0.01, apart))
        z = map_coordinates(bottom, xy.T[::-1] / STEP + ASIDE, order=1)
        z = z + NOISE * rng.standard_normal(len(xy))
        z = z + number * (OFFSET - SCOUR * inside(xy))
        day = Labels((xy[:, 1] > EXTENT.ymax / 2).astype(np.int64), ("first", "second"))
        if off:
            z = z + off * rng.standard_normal(2)[day.code]
        surveys.append(_survey(seed + 1000 * number, xy, z, day, said))
    return Pair(change_between(*surveys, 2.5), inside(GRID.points).reshape(GRID.shape))
