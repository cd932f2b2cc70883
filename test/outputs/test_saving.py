"""Maps saved during a mission: complete or not at all, side by side."""

import resource

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.core.samples import Samples
from poam_ros.outputs.folder import read_map, read_table, save

GRID = Grid.cells(Extent(0, 40, 0, 20), 1.0)
RNG = np.random.default_rng(0)
DRAWN = ElevationMap(GRID, RNG.normal(-9, 1, GRID.shape), np.ones(GRID.shape), samples=7)
XY = RNG.uniform(0, 20, (9, 2))
PINGS = Samples.of(XY, np.arange(9.0) - 20)


def saved(folder):
    return save(folder, DRAWN, PINGS, {"seed": 1})


def test_each_map_has_its_own_folder_with_its_pings(tmp_path):
    (tmp_path / "saved" / ".map-001-7-samples" / "x").mkdir(parents=True)  # of a killed process
    places = [saved(tmp_path)[0] for _ in range(2)]
    assert [place.name for place in places] == ["map-001-7-samples", "map-002-7-samples"]
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {p.name for p in places}
    np.testing.assert_array_equal(read_map(places[0] / "map.npz").mean, DRAWN.mean)
    table = read_table(places[1] / "samples.csv")
    np.testing.assert_allclose(table["x"], XY[:7, 0], rtol=0, atol=5e-4)


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands in for it: writing fails in the middle, as there."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            saved(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list((tmp_path / "saved").iterdir())
    assert saved(tmp_path)[0].is_dir()
