"""A map model of another kind needs no change of the package (messages: ros/test_messages.py)."""

import warnings

import numpy as np
import pytest
from toy import Toy, ToyOptions

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.registry import MODELS, ModelEntry, ModelSettings, SparseOptions
from poam_ros.outputs.folder import read_map, read_table, write_map
from poam_ros.simulation.lockstep import run_mission
from poam_ros.simulation.settings import MissionSettings
from poam_ros.simulation.terrain import load_terrain

WORKSPACE = Extent(-30, 30, -30, 30)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    return ModelSettings(method="toy", options=ToyOptions(power=3.0))


@pytest.fixture(autouse=True)
def no_warnings():
    """A map without lengthscale and support points is no reason to complain."""
    with warnings.catch_warnings():
        for kind in (RuntimeWarning, UserWarning):
            warnings.simplefilter("error", kind)
        yield


def pings(count, seed=0):
    rng = np.random.default_rng(seed)
    xy = WORKSPACE.sample(count, rng)
    return xy, -20 + 5 * np.sin(xy[:, 0] / 8) + 0.1 * rng.normal(size=count)


@pytest.fixture
def mapper(toy):
    mapper = BathymetricMapper(WORKSPACE, toy)
    mapper.update(*pings(400))
    return mapper


def test_its_settings_are_its_own(toy):
    assert ModelSettings(method="toy").options == ToyOptions()
    assert toy.values == {
        "method": "toy", "threads": 1, "device": "cpu", "prior": "", "toy.power": 3.0,
    }  # fmt: skip
    assert ModelSettings.of({**toy.values, "sparse.num_inducing": 7}) == toy
    with pytest.raises(InputError, match="options: expected ToyOptions for method toy"):
        ModelSettings(method="toy", options=SparseOptions())
    with pytest.raises(InputError, match="options: expected SparseOptions for method poam"):
        ModelSettings(method="poam", options=ToyOptions())
    with pytest.raises(InputError, match="power: expected"):
        ModelSettings.of({"method": "toy", "toy.power": 0.5})


def test_it_maps_in_metres(mapper):
    grid = Grid.cells(WORKSPACE, 2.0)
    drawn = mapper.map(grid, stamp_ns=5)
    truth = -20 + 5 * np.sin(grid.points[:, 0] / 8).reshape(grid.shape)
    assert np.sqrt(np.mean((drawn.mean - truth) ** 2)) < 1.0
    assert drawn.support.shape == (0, 2) and not drawn.fields and drawn.stamp_ns == 5
    assert np.isnan(drawn.lengthscale).all() and drawn.lengthscale.shape == grid.shape
    assert mapper.covariance(grid.points) is None
    at = mapper.predict(grid.points)
    np.testing.assert_allclose(at.mean.reshape(grid.shape), drawn.mean)


def test_its_map_survives_the_file(mapper, tmp_path):
    drawn = mapper.map(Grid.cells(WORKSPACE, 5.0), stamp_ns=9)
    write_map(tmp_path / "map.npz", drawn)
    read = read_map(tmp_path / "map.npz")
    assert not read.fields and read.support.shape == (0, 2)
    assert (read.samples, read.stamp_ns) == (400, 9)
    np.testing.assert_array_equal(read.mean, drawn.mean)


@pytest.mark.slow
def test_a_mission_is_scored_written_and_drawn(toy, tmp_path):
    pytest.importorskip("matplotlib")
    from poam_ros.outputs.figures import draw_run

    settings = MissionSettings(max_samples=560, model=toy, resolution=3.0)
    records = run_mission(load_terrain("seamounts"), settings, tmp_path)
    assert records[-1].samples == 560 and records[-1].smse < 0.5
    assert len(read_table(tmp_path / "samples.csv")["z"]) == 560
    assert {path.name for path in draw_run(tmp_path)} == {"maps.png", "metrics.png"}
