"""Lakes drawn from a Gaussian process and surveyed by lines, whose volume is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from poam_ros.core.clock import SECOND
from poam_ros.core.geometry import Extent, Grid
from poam_ros.mapping.calibration import LEVELS, calibrated
from poam_ros.mapping.drawing import draw, joint_draws, with_level_errors
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import MAP_DEFAULTS, Labels, SoundingMapSettings, Soundings
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.volume import measure
from poam_ros.screening import ScreeningSettings

EXTENT = Extent(0, 600, 0, 400)
GRID = Grid.cells(EXTENT, 12.5)
DEEP, SPREAD, NOISE = -8.0, 2.0, 0.05  # m
#: Of ``draw``'s kernel, in m; and between survey lines, and between soundings.
LENGTHSCALE, APART, STEP = 120.0, 80.0, 8.0
#: Time of the first sounding, in ns: the first of ``DAYS``.
BEGIN, DAYS = 1_714_521_600 * SECOND, ("2024-05-01", "2024-05-02")


def to_and_fro(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Lines [N, 2] of places ``x``, each along one ``y``."""
    lines = [
        np.column_stack((x[:: 1 - 2 * (k % 2)], np.full(len(x), each))) for k, each in enumerate(y)
    ]
    return np.concatenate(lines)


def track(crossed: bool = False) -> np.ndarray:
    """Survey lines [N, 2] over the lake; ``crossed``: by others, with soundings half as far apart,
    as crossings need."""
    step = STEP / 2 if crossed else STEP
    along = to_and_fro(np.arange(10, 595, step), np.arange(40, 400, APART))
    if not crossed:
        return along
    across = to_and_fro(np.arange(10, 395, step), np.arange(60, 600, APART))[:, ::-1]
    return np.concatenate((along, across))


@cache
def factor(crossed: bool = False) -> np.ndarray:
    """Of the covariance of Matern-3/2 at the cells and along the track."""
    places = np.concatenate((GRID.points, track(crossed)))
    distance = np.sqrt(np.square(places[:, None] - places[None]).sum(-1)) * np.sqrt(3) / LENGTHSCALE
    covariance = SPREAD**2 * (1 + distance) * np.exp(-distance)
    return np.linalg.cholesky(covariance + 1e-8 * np.eye(len(places)))


@dataclass(frozen=True)
class Checked:
    """A lake's true volume below 0, and the map's interval of it, in m^3."""

    truth: float
    volume: float
    low: float
    high: float

    @property
    def held(self) -> bool:
        return self.low <= self.truth <= self.high


def check(
    seed: int, first_steps: int = 250, stretches: int = 16, off: float = 0.0, said: float = 0.0,
    crossed: bool = False,
) -> Checked:  # fmt: skip
    """Draw a lake, survey it, map it, and ask the map for the volume.

    ``off``: standard deviation of the errors of level of two days, in m; the first has two lines.
    ``said``: as it is given to the map. ``crossed``: other lines of the second day cross these, and
    the survey is calibrated.
    """
    rng = np.random.default_rng(seed)
    z = DEEP + factor(crossed) @ rng.standard_normal(len(factor(crossed)))
    cells, xy = len(GRID.points), track(crossed)
    sounded = z[cells:] + NOISE * rng.standard_normal(len(xy))
    row, late = np.arange(len(xy)), np.flatnonzero(xy[:, 1] > 160)[0]
    day = Labels((row >= late).astype(np.int64), DAYS)
    sounded = sounded + off * rng.standard_normal(2)[day.code]
    cell = float(np.prod(EXTENT.size)) / cells
    truth = float(np.maximum(-z[:cells], 0).sum() * cell)
    model = ModelSettings.of({**MAP_DEFAULTS, "nngp.first_steps": first_steps})
    settings = SoundingMapSettings(
        seed=seed, stretches=stretches, level_error=said, model=model,
        screening=ScreeningSettings(),
    )  # fmt: skip
    soundings = Soundings(row, xy, sounded, row)
    if crossed:
        stamp = BEGIN + SECOND * (2 * row + 86_400 * day.code)
        soundings, _ = calibrated(replace(soundings, stamp_ns=stamp), settings)
    mapper, *_ = learn(soundings, EXTENT, settings)
    drawn = draw(mapper, GRID)
    levels = soundings.source.get(LEVELS)
    draws = with_level_errors(
        partial(joint_draws, mapper, seed=seed), mapper.xy, day, said, seed, levels
    )
    found = measure(drawn, draws, np.zeros(1))
    volume, low, high = found.volume[:, 0].tolist()
    return Checked(truth, volume, low, high)
