"""The mapper's part of a run's folder, at the end and after an interruption."""

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.core.samples import Samples
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.outputs.results import ResultFolder, read_unmapped

GRID = Grid.cells(Extent(0, 4, 0, 4), 1.0)
MAP = ElevationMap(GRID, np.ones(GRID.shape), np.ones(GRID.shape), samples=3)
SAMPLES = Samples.of(np.array([[0.1, 0.2], [1 / 3, 2.0], [3.0, 4.0]]), np.array([-1.0, 2.0, 1e-9]))
REFUSED = RefusedPings.none().more(
    "paused", np.array([0, 7]), np.array([[0.333, 2.0, np.nan], [np.nan] * 3])
)


def test_map_samples_and_refused_pings_are_written(tmp_path):
    assert ResultFolder(str(tmp_path / "run")).write(MAP, SAMPLES, REFUSED) == [
        "samples.csv",
        "map.npz",
    ]
    table = read_table(tmp_path / "run" / "samples.csv")
    np.testing.assert_allclose(np.column_stack((table["x"], table["y"])), SAMPLES.xy, atol=5e-4)
    np.testing.assert_allclose(table["z"], SAMPLES.z, atol=5e-4)
    assert read_map(tmp_path / "run" / "map.npz").samples == 3
    assert repr(read_unmapped(tmp_path / "run").refused.rows) == repr(REFUSED.rows)


def test_an_interrupted_pilot_survey_replaces_no_earlier_run(tmp_path):
    results = ResultFolder(str(tmp_path))
    assert results.write_partial(None, Samples.empty(), REFUSED) == [] == list(tmp_path.iterdir())
    assert results.write_partial(None, SAMPLES, REFUSED) == ["samples.csv"]
    (tmp_path / "map.npz").write_bytes(b"of an earlier run")
    (tmp_path / "samples.csv").write_text("of an earlier run")
    assert results.write_partial(None, SAMPLES, REFUSED) == []
    assert (tmp_path / "samples.csv").read_text() == "of an earlier run"
    assert results.write_partial(MAP, SAMPLES, REFUSED) == ["samples.csv", "map.npz"]


def test_without_a_folder_nothing_is_saved():
    assert ResultFolder("").write(MAP, SAMPLES, REFUSED) == []


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="output: cannot write"):
        ResultFolder(str(tmp_path / "file" / "run"))
