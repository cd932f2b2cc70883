"""A run's folder as values, from Python and for the commands."""

import numpy as np
import pytest

from poam_ros import Run
from poam_ros.core.errors import InputError
from poam_ros.core.files import write_checksums
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs.folder import write_config, write_map, write_samples

GRID = Grid.cells(Extent(0, 40, 0, 20), 1.0)


def written(folder, config=None):
    """A map of 40 m x 20 m whose soundings all lie in its left quarter."""
    y = np.repeat(GRID.y[:, None], len(GRID.x), axis=1)
    mean, nothing = -5.0 + 0.1 * y, np.zeros(GRID.shape)
    fields = {"lengthscale": nothing + 5.0}
    drawn = ElevationMap(GRID, mean, nothing + 0.04, fields, np.empty((0, 2)), 50)
    rng = np.random.default_rng(0)
    xy = rng.uniform((0, 0), (10, 20), (60, 2))
    write_map(folder / "map.npz", drawn)
    write_samples(folder / "samples.csv", xy, -5.0 + 0.1 * xy[:, 1])
    if config is not None:
        write_config(folder / "config.yaml", config)
    return drawn


def test_a_mission_is_blank_where_its_pings_say_nothing(tmp_path):
    drawn = written(tmp_path, {"nodes": {"mapper": {"water.level": 0.5}, "planner": {}}})
    run = Run.open(str(tmp_path))
    assert np.array_equal(run.drawn.mean, drawn.mean)
    assert np.isnan(run.map.mean[:, 20:]).all() and np.isfinite(run.map.mean[:, :8]).all()
    assert len(run.samples["x"]) == 60 and len(run.xy) == 50  # the others came later
    assert run.water_level == 0.5 and run.node("mapper") == {"water.level": 0.5}
    assert run.title == f"Bathymetry of {tmp_path.name}" and not run.simulated
    written_by_map = Run(tmp_path, {"shown": "all", "title": "Lake", "simulated": True})
    assert np.array_equal(written_by_map.map.mean, drawn.mean)
    assert written_by_map.title == "Lake" and written_by_map.simulated


def test_a_place_is_that_of_the_log_or_of_the_planner(tmp_path):
    place = {"origin": [52.0, 13.0], "heading": 10.0}
    expected = {"origin": (52.0, 13.0), "heading": 10.0}
    for config in (place, {"nodes": {"planner": place, "mapper": {}}}):
        assert Run(tmp_path, config).recorded == expected
    for nothing in (
        {"origin": [0.0, 0.0]},
        {"origin": [1.0]},
        {"origin": ["a", 1.0]},
        {"origin": "Helsinki"},
        {},
    ):
        assert Run(tmp_path, nothing).recorded == {}


@pytest.mark.parametrize("text", ["a: [", "\0"])
def test_what_is_no_run_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="RUN: expected the folder of a run or mission"):
        Run.open(tmp_path / "nothing")
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(InputError, match=r"config.yaml: expected YAML"):
        Run.open(tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(InputError, match=r"map.npz: no such file"):
        _ = Run.open(tmp_path).map


def test_a_damaged_configuration_is_refused(tmp_path):
    written(tmp_path, {"title": "Lake"})
    write_checksums(tmp_path, ["config.yaml"])
    (tmp_path / "config.yaml").write_text("title: Lane\n")
    with pytest.raises(InputError, match="not what SHA256SUMS says"):
        Run.open(tmp_path)


def test_a_run_of_another_layout_is_refused(tmp_path):
    written(tmp_path, {"title": "Lake"})
    text = (tmp_path / "config.yaml").read_text()
    assert text.startswith("layout: 1\n") and Run.open(tmp_path).title == "Lake"
    (tmp_path / "config.yaml").write_text(text.replace("layout: 1", "layout: 2"))
    with pytest.raises(InputError, match="expected layout 1, got 2"):
        Run.open(tmp_path)


def test_the_map_as_an_xarray(tmp_path, monkeypatch):
    written(tmp_path)
    run = Run.open(tmp_path)
    with monkeypatch.context() as context:
        context.setitem(__import__("sys").modules, "xarray", None)
        with pytest.raises(InputError, match="to_xarray needs xarray"):
            run.to_xarray()
    pytest.importorskip("xarray", reason="needs xarray")
    found = run.to_xarray()
    assert found["mean"].dims == ("y", "x") and found["lengthscale"].attrs["units"] == "m"
    np.testing.assert_array_equal(found["mean"].sel(x=4.5, y=10.5), run.map.mean[10, 4])
    assert found.attrs["samples"] == 50
