"""False echoes are refused, cliffs are not."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.maps import Predicted
from poam_ros.core.samples import Samples
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.nngp.options import NeighbourOptions
from poam_ros.models.registry import ModelSettings
from poam_ros.screening.screen import Screener, ScreeningSettings
from poam_ros.simulation.world.terrain import WORKSPACE

SOUNDINGS = Path(__file__).parents[3] / "shared" / "soundings" / "metzabok.csv"
NOISE = 0.3


class NearbyPings:
    """A map without a model: the mean of the eight nearest pings, surer where they are near."""

    def __init__(self, scale: float) -> None:
        self.scale = scale  # m of the ground's change over 1 m
        self.known = Samples.empty()

    def __call__(self, xy: np.ndarray) -> Predicted:
        squared = ((xy[:, None] - self.known.xy) ** 2).sum(-1)
        nearest = np.argpartition(squared, 8, axis=1)[:, :8]
        z = self.known.z[nearest]
        far = np.sqrt(np.take_along_axis(squared, nearest, 1).mean(1))
        return Predicted(z.mean(1), NOISE**2 + z.var(1) + (self.scale * far) ** 2)


def survey(xy, z, sonar_z=0.0, *, pilot=150, batch=20, scale=0.3, **settings):
    """Feed pings to a screen, batch by batch: which were accepted, and the screen."""
    screen, mapped, ranges = (
        Screener(ScreeningSettings(**settings)),
        NearbyPings(scale),
        sonar_z - z,
    )
    accepted, refused = [], 0
    ends = [*range(min(pilot, len(z)), len(z), batch), len(z)]
    for begin, end in zip([0, *ends], ends, strict=False):
        judgement = screen.screen(
            pings(xy[begin:end], z[begin:end], ranges[begin:end], begin),
            mapped if len(mapped.known) else None,
            final=end == len(z),
        )
        mapped.known = Samples.joined([mapped.known, judgement.accepted])
        accepted += judgement.accepted.number.tolist()
        refused += len(judgement.refused)
        assert len(accepted) + refused + len(judgement.held) == end
    assert len(set(accepted)) == len(accepted) and not len(screen.held)
    return np.isin(np.arange(len(z)), accepted)


def pings(xy, z, ranges, first=0):
    """Placed pings; their numbers are here to tell them apart."""
    number = np.arange(first, first + len(z))
    return Samples(number, number, xy, z, np.full(len(z), np.nan), ranges)


def lines(step=0.35, gap=4.0):
    """Parallel lines to and fro over 58 m x 56 m, [N, 2]."""
    x, rows = np.arange(-29, 29, step), []
    for i, y in enumerate(np.arange(-28, 28.1, gap)):
        rows.append(np.column_stack([x if i % 2 == 0 else x[::-1], np.full(len(x), y)]))
    return np.concatenate(rows)


def slope(xy):
    """Ground without jumps, 10 to 20 m below the water."""
    return -15 + 5 * np.sin(xy[:, 0] / 9) * np.cos(xy[:, 1] / 7)


def cliff(xy):
    """A step of 10 m across the lines."""
    return np.where(xy[:, 0] + 0.2 * xy[:, 1] < 3, 0.0, -10.0)


def wreck(xy):
    """A box of 8 m x 6 m that is 6 m high."""
    return np.where((abs(xy[:, 0] - 5) < 4) & (abs(xy[:, 1]) < 3), -4.0, -10.0)


def pit(xy):
    """A hole of 10 m x 10 m that is 8 m deep."""
    return np.where((abs(xy[:, 0] - 5) < 5) & (abs(xy[:, 1]) < 5), -20.0, -12.0)


def noisy(z, seed=0, std=NOISE):
    return z + std * np.random.default_rng(seed).standard_normal(len(z))


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("sonar_z", "ground"),
    [
        *((30.0, cliff), (8.0, wreck), slow(8.0, slope), slow(8.0, cliff), slow(8.0, pit)),
        *(slow(30.0, slope), slow(30.0, wreck), slow(30.0, pit)),
    ],
)
def test_the_bottom_is_accepted_whatever_its_shape(ground, sonar_z):
    xy = lines()
    kept = survey(xy, noisy(ground(xy)), sonar_z)
    assert (~kept).mean() < 0.005


def test_steps_longer_than_the_depth_are_no_gaps():
    """A fast boat in 1 to 4 m of water."""
    xy = lines(step=2.5)
    ground = -2.5 + 1.5 * np.sin(xy[:, 0] / 9) * np.cos(xy[:, 1] / 7)
    kept = survey(xy, noisy(ground, std=0.05), pilot=60)
    assert (~kept).mean() < 0.005


def test_a_cliff_that_doubles_the_range_is_held_until_the_next_line():
    xy = lines()[:332]  # two lines
    z = cliff(xy)
    screen, ranges = Screener(ScreeningSettings()), 10.0 - z
    held = []
    for begin in range(0, len(z), 83):
        part = slice(begin, begin + 83)
        judged = screen.screen(pings(xy[part], z[part], ranges[part], begin), flat)
        held.append(len(judged.held))
    assert held[0] == 0 and held[1] > 30
    assert held[3] == 0 or held[3] < held[1]


def flat(xy):
    """A map that knows of no cliff, and is sure of it."""
    return Predicted(np.zeros(len(xy)), np.full(len(xy), 0.25))


def steep(xy):
    """Ground that changes by 3.6 m from ping to ping, 25 to 95 m below the water."""
    return -60 + 35 * np.sin(xy[:, 0] / 1.3) * np.cos(xy[:, 1] / 1.7 + xy[:, 0] / 5)


@pytest.mark.parametrize(
    ("ground", "scale"), [(cliff, 0.3), (steep, 3.0), slow(slope, 0.3), slow(pit, 0.3)]
)
def test_isolated_false_echoes_are_refused(ground, scale):
    xy, rng = lines(), np.random.default_rng(1)
    z, false = noisy(ground(xy)), rng.random(len(xy)) < 0.05
    ranges = (8.0 - z) * np.where(false, rng.uniform(1.5, 3.0, len(xy)), 1.0)
    kept = survey(xy, 8.0 - ranges, 8.0, scale=scale)
    assert (kept & false).sum() < 0.05 * false.sum()
    assert (~kept & ~false).mean() < 0.002


def test_a_cliff_is_mapped_as_sharply_with_screening():
    """10 m, of pings 10 to 20 m below; nngp learns what is accepted, batch by batch."""
    xy = lines(step=0.7, gap=8.0)
    z, wall = noisy(cliff(xy)), np.stack(np.meshgrid(np.linspace(0, 6, 13), [-6.0, 2.0, 6.0]), -1)
    wall = wall.reshape(-1, 2)
    errors = []
    for screening in (False, True):
        options = NeighbourOptions(first_steps=40, early_steps=2)
        mapper = BathymetricMapper(WORKSPACE, ModelSettings("nngp", options))
        screen = Screener(ScreeningSettings())
        for begin in range(0, len(xy), 83):
            part = slice(begin, begin + 83)
            fresh = pings(xy[part], z[part], 10.0 - z[part], begin)
            if screening:
                map_ = mapper.predict if mapper.initialised else None
                fresh = screen.screen(fresh, map_, final=begin + 83 >= len(xy)).accepted
            mapper.learn(fresh)
        errors.append(np.sqrt(np.mean((mapper.predict(wall).mean - cliff(wall)) ** 2)))
    without, with_it = errors
    assert with_it < 1.05 * without


@pytest.mark.parametrize(("factor", "jitter"), [(2.0, 0.0), slow(1.8, 0.05), slow(3.0, 0.05)])
def test_a_run_of_false_echoes_is_refused(factor, jitter):
    """Also one that is as smooth as the bottom: the track comes back to where it was."""
    xy, false = lines(), np.zeros(len(lines()), dtype=bool)
    z, rng = noisy(slope(xy)), np.random.default_rng(2)
    for begin in (300, 700, 1100):
        false[begin : begin + 15] = True
    ranges = -z * np.where(false, factor + jitter * rng.standard_normal(len(z)), 1.0)
    kept = survey(xy, -ranges)
    assert not (kept & false).any() and kept[~false].all()


def test_a_pilot_survey_is_screened_without_a_map():
    xy, rng = lines()[:400], np.random.default_rng(3)
    z, false = noisy(slope(xy)), rng.random(400) < 0.05
    ranges = -z * np.where(false, rng.uniform(1.5, 3.0, 400), 1.0)
    kept = survey(xy, -ranges, pilot=400)
    assert kept[~false].all() and (kept & false).sum() <= 2


def test_pings_held_at_the_end_are_refused():
    xy = lines()[:100]
    screen = Screener(ScreeningSettings())
    ranges = np.where(np.arange(100) < 60, 10.0, 30.0)
    first = screen.screen(pings(xy, -ranges, ranges), flat_at(-10.0))
    assert len(first.accepted) == 60 and len(first.held) == 40 == len(screen.held)
    last = screen.screen(Samples.empty(), flat_at(-10.0), final=True)
    assert len(last.refused) == 40 and not len(last.held) and not len(last.accepted)


def flat_at(z):
    """A map that is sure of one elevation."""
    return lambda xy: Predicted(np.full(len(xy), z), np.full(len(xy), 0.01))


def test_held_pings_are_accepted_once_the_map_supports_them():
    xy = lines()[:100]
    screen = Screener(ScreeningSettings())
    ranges = np.where(np.arange(100) < 60, 10.0, 30.0)
    screen.screen(pings(xy, -ranges, ranges), flat_at(-10.0))
    judged = screen.screen(Samples.empty(), flat_at(-30.0))
    assert judged.accepted.number.tolist() == list(range(60, 100)) and not len(judged.held)


def test_the_number_of_held_pings_is_limited():
    xy = lines()[:100]
    screen = Screener(ScreeningSettings(held_pings=7))
    ranges = np.where(np.arange(100) < 60, 10.0, 30.0)
    judged = screen.screen(pings(xy, -ranges, ranges), flat_at(-10.0))
    assert len(judged.refused) == 33 and judged.held.number.tolist() == list(range(93, 100))


def test_the_same_pings_give_the_same_result():
    xy, rng = lines()[:600], np.random.default_rng(4)
    z = noisy(cliff(xy)) - 20.0 * (rng.random(600) < 0.1)
    assert (survey(xy, z, 8.0) == survey(xy, z, 8.0)).all()


def test_a_setting_out_of_range_is_refused():
    with pytest.raises(InputError, match="echo_ratio: expected a number"):
        ScreeningSettings(echo_ratio=1.0)


@pytest.mark.soak
def test_false_echoes_in_a_recorded_lake_are_refused():
    """Metzabok: 596 false echoes below 32 m in a lake of 29 m."""
    if not SOUNDINGS.is_file():
        pytest.skip(f"no {SOUNDINGS}")
    with SOUNDINGS.open(encoding="utf-8") as file:
        rows = [(float(r["x"]), float(r["y"]), float(r["z"])) for r in csv.DictReader(file)]
    table = np.array(rows)
    z, false = table[:, 2], table[:, 2] < -32
    kept = survey(table[:, :2], z, pilot=600, batch=60, scale=0.05)
    assert (kept & false).sum() < 0.1 * false.sum()
    assert (~kept & ~false).mean() < 0.05
