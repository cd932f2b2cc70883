"""The prior by distance from the shore: of a lake whose banks are alike it tells unsounded bays, of
one whose depth has nothing to do with its shore nothing."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid, Land
from poam_ros.mapping.outline import shore_prior
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import MAP_DEFAULTS, SoundingMapSettings, Soundings
from poam_ros.models.prior import PriorMap
from poam_ros.models.registry import ModelSettings
from poam_ros.screening import ScreeningSettings

#: A lake of 200 m x 100 m, and a bay of 60 m x 30 m in its north.
EXTENT = Extent(0, 200, 0, 130)
GRID = Grid.cells(EXTENT, 1.0)
X, Y = GRID.points.T
WATER = ((X > 5) & (X < 195) & (Y > 5) & (Y < 95)) | ((X > 120) & (X < 180) & (Y > 90) & (Y < 125))
LAND = Land(GRID, WATER.reshape(GRID.shape))


def bottom(xy):
    """4 m at the edge, falling by a metre in 5 m of distance."""
    return -4 - 0.2 * GRID.interpolate(LAND.to_land, xy)


def track():
    """Lines 12 m apart across the lake without its bay [N, 2]."""
    x, y = np.arange(8, 193, 2.0), np.arange(10, 93, 12.0)
    return np.concatenate([np.column_stack((x, np.full(len(x), at))) for at in y])


def test_the_median_elevation_by_distance():
    xy = track()
    z = bottom(xy) + 0.05 * np.random.default_rng(0).normal(size=len(xy))
    prior = shore_prior(LAND, xy, z)
    assert prior.mean.shape == GRID.shape and not prior.deviation.any()
    near, far = WATER & (LAND.to_land.ravel() < 2), LAND.to_land.ravel() > 42
    values = prior.mean.ravel()
    # Kept beyond the first class, not continued to 0 at the edge; ordered; without ridges.
    assert -9 < values[near].mean() < -5 and values[far].mean() < -9
    ridge = np.abs(np.diff(prior.mean, 2, axis=0)).max()
    assert ridge < 0.5 * np.abs(np.diff(bottom(GRID.points).reshape(GRID.shape), 2, axis=0)).max()
    z[::50] *= 2  # false echoes do not move it
    assert np.abs(shore_prior(LAND, xy, z).mean - prior.mean).max() < 0.3


def test_it_is_believed_only_where_depth_goes_with_the_shore():
    xy = track()
    for seed in range(5):
        waves = np.random.default_rng(seed)
        z = -8 + sum(
            np.sin(xy @ waves.normal(size=2) / 12 + waves.uniform(0, 6.3)) for _ in range(6)
        )
        assert shore_prior(LAND, xy, z).trust(xy, z, seed) < 0.5
        assert shore_prior(LAND, xy, bottom(xy)).trust(xy, bottom(xy), seed) > 0.9


def test_none_without_land_or_with_few_soundings():
    xy = track()
    lake = Land(GRID, np.ones(GRID.shape, dtype=bool))
    assert shore_prior(None, xy, bottom(xy)) is shore_prior(lake, xy, bottom(xy)) is None
    assert shore_prior(LAND, xy[:127], bottom(xy[:127])) is None


def learned(land, prior=None, shore=True, **also):
    xy = track()
    z = bottom(xy) + 0.05 * np.random.default_rng(1).normal(size=len(xy))
    settings = SoundingMapSettings(
        seed=0, stretches=0, screening=ScreeningSettings(), prior=prior,
        model=ModelSettings.of({**MAP_DEFAULTS, "nngp.first_steps": 30}),
    )  # fmt: skip
    row = np.arange(len(xy))
    soundings = Soundings(row, xy, z, row, land=land, **also)
    return learn(soundings, EXTENT, settings, shore=shore)[0]


def test_recordings_and_runs_without_it_have_no_prior():
    assert learned(LAND).prior is not None
    assert learned(LAND, shore=False).prior is None
    assert learned(LAND, batch=np.arange(len(track())) // 60).prior is None


def test_a_bay_that_nobody_sounded_is_shallow():
    xy = GRID.points[WATER & (Y > 100)]
    errors = []
    for land in (None, LAND):
        mapper = learned(land)
        errors.append(np.abs(mapper.predict(xy).mean - bottom(xy)).mean())
    assert mapper.trust > 0.8
    assert mapper.trust_said.startswith("depth by distance from the shore: trust ")
    assert errors[1] < 0.75 * errors[0]


@pytest.mark.parametrize("land", [None, LAND])
def test_a_prior_that_was_given_stays(land):
    given = PriorMap(GRID, np.full(GRID.shape, -8.0), np.zeros(GRID.shape))
    assert learned(land, given).prior is given
