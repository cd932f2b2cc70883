"""Area and volume below a level: exact without uncertainty, and intervals on simulated lakes."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import volume
from poam_ros.outputs.volume import (
    beyond,
    in_words,
    levels_of,
    measure,
    read_water,
    write_water,
)

GRID = Grid.cells(Extent(0, 100, 0, 60), 2.0)


def sure(places, draws):
    return np.zeros((draws, len(places)))


def slope(grid=GRID):
    """A plane from -10 m in the west to 0 m in the east."""
    z = np.broadcast_to(grid.x / 10 - 10, grid.shape).copy()
    return ElevationMap(grid, z, np.full(grid.shape, 0.04))


def test_a_wedge_has_its_volume():
    water = measure(slope(), sure, np.array([-20.0, -10.0, -5.0, 0.0, 2.0]))
    assert water.area[0] == pytest.approx([0, 0, 3000, 6000, 6000])
    assert water.volume[0] == pytest.approx([0, 0, 7500, 30000, 42000], rel=1e-3)
    assert water.mean_depth[0] == pytest.approx([0, 0, 2.5, 5, 7], rel=1e-3)
    assert np.array_equal(water.area[1], water.area[2])  # nothing is doubted
    assert water.at(0.4)["volume"][0] == pytest.approx(30000)
    half = slope().only(np.broadcast_to(GRID.x > 50, GRID.shape))  # cells without a value are dry
    water = measure(half, sure, np.zeros(1))
    assert water.area[0] == pytest.approx([3000]) and water.volume[0] == pytest.approx([7500])


@pytest.mark.parametrize(("edge", "share"), [(2, 0.0), (20, 0.6)])
def test_what_lies_beyond_the_outermost_soundings(edge, share):
    """Lines 8 m apart over 100 m x 60 m, to so many m from its sides."""
    x, y = np.arange(edge, 101.0 - edge), np.arange(edge, 61.0 - edge, 8 if edge == 2 else 5)
    track = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    z = np.full(GRID.shape, -4.0)
    found, higher = beyond(z, GRID, track, 0.0)
    smaller = higher.sum() * GRID.cell_area
    within = 1 - (100 - 2 * edge) * (y.max() - y.min()) / 6000
    assert found == pytest.approx(within if share else 0.02, abs=0.04)
    assert smaller == pytest.approx(0.5 * 4 * 6000 * found, rel=0.2)


def test_banks_that_nobody_sounded_are_in_the_interval():
    """From walls, where the map is right, to slopes that end at the level."""
    banks = np.where(GRID.y[:, None] < 20, 0.5, 0.0) * np.ones(GRID.shape)
    water = measure(slope(), sure, np.full(1, 2.0), banks)
    assert water.volume[1:, 0] == pytest.approx([42000 - 1000, 42000], rel=1e-3)
    assert water.volume[0, 0] == pytest.approx(42000 - 500, rel=1e-3)


def test_shared_errors_do_not_average_out():
    """A level wrong by 0.1 m is wrong by that everywhere; independent errors hardly count."""
    rng = np.random.default_rng(0)

    def shared(places, draws):
        return 0.1 * np.repeat(rng.standard_normal((draws, 1)), len(places), axis=1)

    def independent(places, draws):
        return 0.1 * rng.standard_normal((draws, len(places)))

    halves = [
        np.diff(measure(slope(), kind, np.full(1, 5.0)).volume[1:, 0])[0] / 2
        for kind in (shared, independent)
    ]
    assert halves[0] == pytest.approx(1.96 * 0.1 * 6000, rel=0.12)
    assert halves[1] < 0.1 * halves[0]


def test_many_cells_are_counted_in_blocks(monkeypatch):
    monkeypatch.setattr(volume, "CELLS", 10_000)
    grid = Grid.cells(Extent(0, 100, 0, 60), 0.25)
    asked = []

    def sample(places, draws):
        asked.append(len(places))
        return sure(places, draws)

    water = measure(slope(grid), sample, np.zeros(1))
    assert 5000 < asked[0] <= 10_000 and water.area[0] == pytest.approx([6000])
    assert water.volume[0] == pytest.approx([30000], rel=1e-3)


def test_the_table_round_trips(tmp_path):
    water = measure(slope(), sure, levels_of(slope().mean, 0.4))
    write_water(tmp_path, water)
    found = read_water(tmp_path)
    assert np.allclose(found.level, water.level) and 0.4 in found.level
    assert np.allclose(found.volume, water.volume, rtol=1e-6)
    header = (tmp_path / "volume.csv").read_text().splitlines()[0]
    assert header == (
        "level,area,area_low,area_high,volume,volume_low,volume_high,"
        "mean_depth,mean_depth_low,mean_depth_high"
    )


@pytest.mark.slow
def test_intervals_hold_the_volumes_of_lakes():
    from lakes import check

    found = [check(seed, first_steps=40) for seed in range(2)]
    assert any(lake.held for lake in found)
    for lake in found:
        assert abs(lake.volume / lake.truth - 1) < 0.03
        assert 0 < lake.high - lake.low < 0.1 * lake.truth


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seeds", "days", "low", "high"),
    [
        (range(400), {}, 0.93, 0.97),
        (range(7000, 7100), {"off": 0.05, "said": 0.05}, 0.9, 1.0),  # days differ as was said
        (range(7200, 7300), {"off": 0.05, "said": 0.05, "crossed": True}, 0.9, 1.0),  # calibrated
    ],
)
def test_intervals_hold_their_share_of_the_volumes_of_lakes(seeds, days, low, high):
    from lakes import check

    found = [check(seed, **days) for seed in seeds]
    held = sum(lake.held for lake in found)
    print(f"{held} of {len(found)} volumes within the 95 % interval")
    assert low <= held / len(found) <= high


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("area", (1_075_000.0,) * 3, "107.5 ha"),  # no interval was estimated
        ("area", (1_249_012.0, 1_217_000.0, 1_259_700.0), "124.9 ha (95 %: 121.7 to 126.0)"),
        ("area", (31_234_567.0,) * 3, "31.23 km\u00b2"),
        ("area", (1760.0,) * 3, "1,760 m\u00b2"),
        ("area", (0.0,) * 3, "0 m\u00b2"),
        ("volume", (18_731_234.0, 17_771_000.0, 19_801_000.0),
         "18.7 million m\u00b3 (95 %: 17.8 to 19.8)"),
        ("volume", (5481.3, 5312.9, 5644.2), "5,480 m\u00b3 (95 %: 5,310 to 5,640)"),
        ("volume", (2.31e9, 2.29e9, 2.33e9), "2.31 km\u00b3 (95 %: 2.29 to 2.33)"),
        ("mean_depth", (14.991, 14.389, 15.752), "14.99 m (95 %: 14.39 to 15.75)"),
        ("mean_depth", (14.9912, 14.9905, 14.9917), "14.99 m"),
        ("mean_depth", (3450.2, 3301.0, 3599.0), "3,450 m (95 %: 3,300 to 3,600)"),
    ],
)  # fmt: skip
def test_figures_have_the_digits_that_their_intervals_allow(name, values, text):
    assert in_words(name, values) == text
