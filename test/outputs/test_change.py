"""Change between two surveys: none is found where there is none, a scour and its volume are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent, Grid
from poam_ros.outputs.change import (
    COLUMNS,
    compare,
    discoveries,
    draw_change,
    patches,
    sampled_offset,
    summary,
    write_change,
    write_change_raster,
    write_change_report,
)
from poam_ros.outputs.folder import read_table

GRID = Grid.cells(Extent(0, 100, 0, 60), 2.0)
DRAWS = 200


def smooth(rng, count, std=0.06):
    """Errors that neighbours share: ``count`` fields [count, cells] of lengthscale 6 m."""
    rows, columns = GRID.shape
    fields = rng.standard_normal((count, rows, columns))
    for axis, points in ((1, GRID.y), (2, GRID.x)):
        distance = np.abs(points[:, None] - points[None]) / 6
        blur = np.exp(-0.5 * distance**2)
        fields = np.moveaxis(np.moveaxis(fields, axis, 2) @ blur, 2, axis)
    fields /= fields.std()
    return std * fields.reshape(count, -1)


def survey(seed, change=0.0, offset=None, both=None):
    """What ``compare`` finds of one simulated pair; ``change``: true, per cell."""
    rng = np.random.default_rng(seed)
    both = np.ones(GRID.shape, dtype=bool) if both is None else both
    difference = change + smooth(rng, 1)[0]
    return compare(
        GRID, both, difference[both.ravel()], smooth(rng, DRAWS)[:, both.ravel()], offset
    )


def scour(depth=0.3):
    """200 cells that fell, as a change [cells]."""
    x, y = GRID.points.T
    return np.where(np.argsort(np.argsort(np.hypot(x - 40, y - 30))) < 200, -depth, 0.0)


@pytest.mark.slow
def test_no_change_is_found_where_there_is_none():
    found = [survey(seed) for seed in range(20)]
    assert np.mean([change.significant.mean() for change in found]) < 0.05
    inside = [change.net[1] <= 0 <= change.net[2] for change in found]
    assert sum(inside) >= 17


def test_a_scour_is_found_with_its_volume():
    true = scour()
    for seed in range(2):
        change = survey(seed, true)
        there = (true < 0).reshape(GRID.shape)
        assert change.significant[there].mean() > 0.7
        assert change.significant[~there].mean() < 0.05
        assert change.net[1] < 4 * true.sum() < change.net[2]
        there = change.significant & there
        assert change.lost[1] < 4 * true[there.ravel()].sum() < change.lost[2]


WEST = GRID.points[:, 0] < 20  # a fifth of the area


def test_an_offset_is_no_change():
    """A fifth of the area fell; the rest is where both surveys have the same bottom."""
    west = WEST.reshape(GRID.shape)
    for seed in range(3):
        change = survey(seed, 0.4 + np.where(WEST, -0.5, 0.0))
        assert change.offset[0] == pytest.approx(0.4, abs=0.06)
        assert change.mean[west].mean() == pytest.approx(-0.5, abs=0.08)
        assert change.significant[west].mean() > 0.9 and change.significant[~west].mean() < 0.05
    given = survey(0, 0.4, offset=0.0)
    assert given.significant.all() and (given.offset == 0).all()
    assert "as given" in summary(given, estimated=False)["offset"]


def test_false_discoveries_are_limited():
    assert not discoveries(np.full(10, 0.04) + 0.02, 0.05).any()
    p = np.array([0.001, 0.5, 0.02, 0.9, 0.012])
    assert discoveries(p, 0.05).tolist() == [True, False, True, False, True]  # 0.02 <= 3/5 of 5 %


def test_what_is_written_is_read_back(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    both = np.ones(GRID.shape, dtype=bool)
    both[:, :5] = False
    change = survey(1, scour(), both=both)
    table = read_table(write_change(tmp_path, change), COLUMNS)
    assert len(table["x"]) == both.sum() and table["x"].min() == 11
    assert set(table["significant"]) == {0.0, 1.0}
    assert np.all(table["low"] < table["change"]) and np.all(table["change"] < table["high"])
    assert draw_change(tmp_path, change).stat().st_size > 10_000
    for place in (None, GeoReference(52.5, 13.0), GeoReference(52.5, 13.0, 30.0)):
        with rasterio.open(write_change_raster(tmp_path, change, place)) as raster:
            assert raster.descriptions == COLUMNS[2:]
            deepest = np.unravel_index(np.nanargmin(change.mean), GRID.shape)
            where = np.array([[GRID.x[deepest[1]], GRID.y[deepest[0]]]])
            where = where if place is None else place.to_projected(where)
            value = next(raster.sample(where.tolist(), 1))[0]
            assert value == pytest.approx(np.nanmin(change.mean), rel=1e-6)
            assert np.isnan(raster.read(4)).sum() == (~both).sum()
            assert "simulated" not in raster.tags()


def test_a_simulated_change_says_so_in_each_file(tmp_path, monkeypatch):
    rasterio = pytest.importorskip("rasterio")
    change = replace(survey(1, scour()), simulated=True)
    with rasterio.open(write_change_raster(tmp_path, change, None)) as raster:
        assert raster.tags()["simulated"].startswith("yes")
    draw_change(tmp_path, change)
    report = write_change_report(tmp_path, change, ("may", "june"), summary(change, True))
    assert "SIMULATED: Change from may to june" in report.read_text(encoding="utf-8")
    monkeypatch.setattr("poam_ros.outputs.change.save_figure", lambda figure, *others: figure)
    assert draw_change(tmp_path, change).get_suptitle() == "SIMULATED"
    assert not draw_change(tmp_path, replace(change, simulated=False)).get_suptitle()


def test_a_wide_change_is_found_that_none_of_its_cells_shows_surely():
    """By single cells hardly anything of a scour of three deviations is significant."""
    true = scour(0.2)
    there = (true < 0).reshape(GRID.shape)
    for seed in range(1, 4):
        change = survey(seed, true)
        p = 2 * ndtr(-np.abs(change.mean / change.deviation))
        sole = discoveries(p.ravel(), 0.05).reshape(GRID.shape)
        assert sole[there].mean() < 0.2 < 0.5 < change.significant[there].mean()
        assert change.significant[~there].mean() < 0.02


def test_a_single_cell_is_not_told_from_the_offset():
    one = np.zeros(GRID.shape, dtype=bool)
    one[3, 4] = True
    draws = np.random.default_rng(0).normal(0, 0.1, (400, 1))
    assert not compare(GRID, one, np.array([0.3]), draws).significant.any()


def test_a_rise_beside_a_fall_is_another_patch():
    both = np.ones((3, 40), dtype=bool)
    score = np.zeros(both.shape)
    score[:, :18], score[:, 18:20], score[:, 30:32] = 3.0, -3.0, 3.0
    chance = np.zeros((20, both.size))
    chance[:, :9] = 3.0  # 9 cells of 3 deviations
    found = patches(both, score.ravel(), chance).reshape(both.shape)
    assert found[:, :18].all() and not found[:, 18:].any()


@pytest.mark.soak
def test_scours_of_surveyed_lakes_are_found_and_nothing_else():
    from lake_pairs import OFFSET, pair

    still = [pair(seed, scoured=False) for seed in range(20)]
    scoured = [pair(seed, scoured=True) for seed in range(20, 40)]
    every = still + scoured
    print("found", [round(each.found, 2) for each in scoured])
    print("false", [round(each.false, 4) for each in every])
    print("net", [[round(value) for value in each.change.net.tolist()] for each in every])
    print("true", [round(each.net) for each in every])
    assert np.mean([each.false for each in every]) < 0.05
    assert np.mean([each.found > 0.1 for each in scoured]) >= 0.9
    assert np.median([each.found for each in scoured]) > 0.5
    held = [each.change.offset[1] < OFFSET < each.change.offset[2] for each in every]
    net = [each.change.net[1] < each.net < each.change.net[2] for each in every]
    print(sum(held), "offsets and", sum(net), "net volumes of", len(every), "held")
    assert np.mean(held) >= 0.9 and np.mean(net) >= 0.9


@pytest.mark.soak
def test_levels_of_days_are_no_change_if_that_was_said():
    from lake_pairs import pair

    still = [pair(seed, scoured=False, off=0.05, said=0.05) for seed in range(5000, 5020)]
    scoured = [pair(seed, scoured=True, off=0.05, said=0.05) for seed in range(5100, 5120)]
    every = still + scoured
    held = [each.change.net[1] < each.net < each.change.net[2] for each in every]
    print("found", [round(each.found, 2) for each in scoured])
    print("false", [round(each.false, 4) for each in every], sum(held), "net volumes held")
    assert max(each.false for each in every) < 0.05 and np.mean(held) >= 0.9
    assert np.mean([each.found > 0.1 for each in scoured]) >= 0.8


# --- The offset, distinguished from a change of a part of the area ---

SMALL = Grid.cells(Extent(0, 60, 0, 40), 2.0)
BOTH = np.ones(SMALL.shape, dtype=bool)
X, Y = SMALL.points.T
OFFSET, NOISE, SAMPLES = 0.1, 0.05, 200


def found(seed, change, both=BOTH, common=0.0):
    """Samples of the offset of a pair with a true change per cell; ``common``: the standard
    deviation of an error of all cells."""
    rng = np.random.default_rng(seed)
    cells = int(both.sum())
    difference = OFFSET + change[both.ravel()] + NOISE * rng.standard_normal(cells)
    draws = NOISE * rng.standard_normal((SAMPLES, cells))
    return sampled_offset(both, difference, draws + common * rng.standard_normal((SAMPLES, 1)))


@pytest.mark.parametrize(
    ("changed", "height"),
    [
        (np.hypot(X - 20, Y - 20) < 4, -0.3),
        (X < 18, 0.15),
        ((X > 10) & (X < 16), 0.3),
        (np.hypot(X - 40, Y - 12) < 11, -0.15),
        (X < 18, -3.0),
        ((X < 20) & (Y < 6), 40.0),
    ],
)
def test_a_change_does_not_pull_the_offset(changed, height):
    offset = found(1, np.where(changed, height, 0.0))
    low, high = np.quantile(offset, [0.025, 0.975])
    assert low < OFFSET < high
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.006)  # the mean is off by up to 0.05
    assert offset.std() < 0.012


def test_where_half_of_the_area_changed_it_is_that_of_one_half():
    offset = found(6, np.where(X < 30, 3.0, 0.0))
    assert min(abs(np.median(offset) - OFFSET), abs(np.median(offset) - OFFSET - 3.0)) < 0.1


def test_without_change_it_is_the_mean():
    offset = found(2, np.zeros(len(X)))
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.004)
    assert NOISE / np.sqrt(len(X)) * 0.8 < offset.std() < 0.006


def test_cells_with_gaps_and_few_cells():
    few = np.zeros(SMALL.shape, dtype=bool)
    few[3, 4:6] = True
    assert np.median(found(3, np.zeros(len(X)), few)) == pytest.approx(OFFSET, abs=0.2)
    gaps = BOTH.copy()
    gaps[4:9, 3:20] = False
    offset = found(4, np.where(X > 44, -0.3, 0.0), gaps)
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.01)


def test_an_error_of_all_cells_is_one_of_the_offset():
    """It neither hides a change nor makes one."""
    change = np.where(np.hypot(X - 20, Y - 20) < 8, -0.15, 0.0)
    alone, offset = found(5, change), found(5, change, common=0.3)
    assert 0.25 < offset.std() < 0.35 and alone.std() < 0.01
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.07)
