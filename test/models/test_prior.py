"""The prior: a map from before the survey whose weight is learned."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from kept import SMALL, Kept, settings
from pyproj import Transformer
from rasterio import Affine

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent, Grid
from poam_ros.learning.create import open_mission
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.prior import CELLS, FILE, PriorMap, read_prior
from poam_ros.models.registry import ModelSettings

WORKSPACE = Extent(-30, 30, -20, 20)
QUICK = {name: value for name, value in SMALL.items() if name.startswith("nngp.")}
MODELS = {
    "nngp": ModelSettings.of({"method": "nngp", **QUICK}),
    "poam": ModelSettings.of({"method": "poam", "sparse.num_inducing": 60, "sparse.steps": 10}),
}


def coarse(xy):
    """The large forms of the bottom, in m."""
    return 8 * np.sin(xy[:, 0] / 5) * np.cos(xy[:, 1] / 6)


def ground(xy):
    return coarse(xy) + 0.3 * np.sin(xy[:, 0] / 1.1) - 50


def lines(count, seed=0, spacing=13.0):
    """Pings along lines that are too far apart for the large forms."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-29, 29, count))
    y = rng.choice(np.arange(-19, 20, spacing), count)
    xy = np.column_stack((x, y))
    return xy, ground(xy) + 0.1 * rng.normal(size=count)


def prior_of(form, deviation=0.0):
    grid = Grid.nodes(WORKSPACE, 121, 81)
    mean = form(grid.points).reshape(grid.shape)
    return PriorMap(grid, mean, np.full(grid.shape, deviation))


def other(xy):
    """Forms that have nothing to do with the bottom."""
    return 8 * np.cos(xy[:, 0] / 3.1 + 1) * np.sin(xy[:, 1] / 4.3 + 2)


def error(mapper):
    points = Grid.cells(WORKSPACE, 2.0).points
    return np.sqrt(np.mean((mapper.predict(points).mean - ground(points)) ** 2))


def learned(model, prior, batches=3):
    mapper = BathymetricMapper(WORKSPACE, MODELS[model], prior=prior)
    for seed in range(batches):
        mapper.update(*lines(150, seed))
    return mapper


@pytest.mark.parametrize("model", MODELS)
def test_known_large_forms_need_no_pings(model):
    plain, given = (learned(model, prior) for prior in (None, prior_of(lambda xy: coarse(xy) + 7)))
    assert given.trust > 0.9
    assert error(given) < 0.5 * error(plain)


@pytest.mark.parametrize("model", MODELS)
def test_a_wrong_prior_is_not_trusted(model):
    plain, given = (learned(model, prior) for prior in (None, prior_of(other)))
    assert given.trust < 0.2
    assert error(given) < 1.1 * error(plain)
    assert learned(model, prior_of(lambda xy: -coarse(xy)), 1).trust == 0.0  # depths


def test_a_prior_is_not_used_while_the_pings_cannot_confirm_it():
    far = PriorMap(
        Grid.nodes(Extent(-1e4, 1e4, -1e4, 1e4), 51, 51), np.ones((51, 51)), np.zeros((51, 51))
    )
    mapper = BathymetricMapper(WORKSPACE, MODELS["nngp"], prior=far)
    mapper.update(*lines(8))
    assert mapper.trust == 0.0


def test_a_failed_update_leaves_the_trust_as_it_was(monkeypatch):
    mapper = learned("nngp", prior_of(coarse), batches=1)
    mapper._trust = 0.0  # as learned from a misleading first batch
    mapper._model.retarget(mapper._targets(mapper.data))
    mapper.update(*lines(150, 1))
    grid = Grid.cells(WORKSPACE, 4.0)
    before = mapper.map(grid).mean
    with monkeypatch.context() as broken:
        broken.setattr(mapper._model, "update", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mapper.update(*lines(150, 2))
    assert mapper.trust == 0.0
    np.testing.assert_array_equal(mapper.map(grid).mean, before)
    mapper.update(*lines(150, 2))
    assert mapper.trust > 0.9


def test_a_prior_with_a_large_deviation_counts_little():
    sure, unsure = prior_of(coarse), prior_of(coarse, deviation=40.0)
    xy = np.array([[8.0, 0.0]])
    assert abs(unsure.at(xy)[0]) < 0.1 * abs(sure.at(xy)[0])


def test_the_trust_is_learned_again_when_the_pings_have_doubled(monkeypatch):
    asked = []
    trust = PriorMap.trust

    def counted(self, xy, z, seed):
        asked.append(len(z))
        return trust(self, xy, z, seed)

    monkeypatch.setattr(PriorMap, "trust", counted)
    learned("nngp", prior_of(coarse), batches=8)
    assert asked == [150, 300, 600]


def test_maps_and_predictions_include_the_prior():
    mapper = learned("nngp", prior_of(coarse), batches=1)
    mapper._model.options = replace(mapper._model.options, blending=0.0)
    grid = Grid.cells(WORKSPACE, 4.0)
    mean = mapper.predict(grid.points).mean
    np.testing.assert_allclose(mapper.map(grid).mean.ravel(), mean, atol=1e-9)
    elsewhere = pickle.loads(pickle.dumps(mapper))
    np.testing.assert_array_equal(elsewhere.predict(grid.points).mean, mean)


def test_a_restored_mapper_continues_bit_for_bit():
    prior, grid = prior_of(coarse), Grid.cells(WORKSPACE, 4.0)
    mapper = learned("nngp", prior, batches=1)
    other = BathymetricMapper(WORKSPACE, MODELS["nngp"], prior=prior)
    other.restore(mapper.state())
    for each in (mapper, other):
        each.update(*lines(150, 1))
        each.update(*lines(150, 2))
    np.testing.assert_array_equal(mapper.map(grid).mean, other.map(grid).mean)


def geotiff(path, form, place=None, crs=None, bands=("elevation",), deviation=None):
    """Write a raster of a form, north up, around the workspace; in degrees or in the map's m."""
    x, y = np.meshgrid(np.arange(-40, 40, 0.5) + 0.25, np.arange(30, -30, -0.5) - 0.25)
    transform = Affine(0.5, 0, -40, 0, -0.5, 30)
    xy = np.column_stack((x.ravel(), y.ravel()))
    if place is not None:
        west, north = place.degrees(np.array([[-40.0, 30.0]]))[0]
        east, south = place.degrees(np.array([[40.0, -30.0]]))[0]
        east += 360 * (east < west)  # across the antimeridian
        step_x, step_y = (east - west) / x.shape[1], (south - north) / x.shape[0]
        transform = Affine(step_x, 0, west, 0, step_y, north)
        rows, columns = np.indices(x.shape) + 0.5
        lon, lat = west + step_x * columns, north + step_y * rows
        to_local = Transformer.from_crs("EPSG:4326", place.local_crs, always_xy=True)
        xy = np.column_stack([np.ravel(a) for a in to_local.transform(lon, lat)])
    layers = [form(xy).reshape(x.shape)] + [np.full(x.shape, deviation)] * (len(bands) - 1)
    with rasterio.open(
        path, "w", driver="GTiff", width=x.shape[1], height=x.shape[0], count=len(bands),
        dtype="float32", transform=transform, crs=crs,
    ) as raster:  # fmt: skip
        for number, (name, layer) in enumerate(zip(bands, layers, strict=True), start=1):
            raster.write(layer.astype("float32"), number)
            raster.set_band_description(number, name)
    return str(path)


def test_reads_a_geotiff_in_the_metres_of_the_map(tmp_path):
    found = read_prior(geotiff(tmp_path / "a.tif", coarse), WORKSPACE, None)
    assert max(found.grid.shape) == CELLS + 1
    np.testing.assert_allclose(found.mean.ravel(), coarse(found.grid.points), atol=0.05)


def test_reads_a_geotiff_on_the_earth(tmp_path):
    place = GeoReference(-33.9, 179.9999)
    path = geotiff(tmp_path / "a.tif", coarse, place, "EPSG:4326")
    found = read_prior(path, WORKSPACE, place)
    np.testing.assert_allclose(found.mean.ravel(), coarse(found.grid.points), atol=0.05)
    with pytest.raises(InputError, match=r"prior: .*a\.tif: .* set the map's `origin`"):
        read_prior(path, WORKSPACE, None)


def test_reads_deviations_and_depths_by_the_names_of_bands(tmp_path):
    bands = "depth", "sigma (1 sigma)"
    path = geotiff(tmp_path / "a.tif", lambda xy: -coarse(xy), bands=bands, deviation=0.7)
    found = read_prior(path, WORKSPACE, None)
    np.testing.assert_allclose(found.mean.ravel(), coarse(found.grid.points), atol=0.05)
    np.testing.assert_allclose(found.deviation, 0.7, rtol=1e-6)


def test_fills_gaps_of_a_file_and_refuses_one_that_covers_too_little(tmp_path):
    def half(xy):
        return np.where(xy[:, 0] < 10, coarse(xy), np.nan)

    found = read_prior(geotiff(tmp_path / "a.tif", half), WORKSPACE, None)
    assert np.isfinite(found.mean).all()
    far = geotiff(tmp_path / "b.tif", lambda xy: np.where(xy[:, 0] < -20, coarse(xy), np.nan))
    with pytest.raises(InputError, match="expected elevations over the workspace, got them for"):
        read_prior(far, WORKSPACE, None)


@pytest.mark.parametrize("content", [None, b"", b"II*\0nonsense", b"lat,lon\n1,2\n"])
def test_refuses_files_that_are_not_priors(tmp_path, content):
    path = tmp_path / "a.tif"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"prior: .*a\.tif"):
        read_prior(str(path), WORKSPACE, None)
    with pytest.raises(InputError, match=r"expected the map\.npz and config.yaml of a run"):
        read_prior(str(tmp_path), WORKSPACE, None)


ODD = ([], 3.0, ["a"] * 40, [5.0] * 40, [0.0, np.inf], np.arange(40)[::-1], np.eye(40), [True] * 40)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["x", "y", "mean", "variance"])
def test_a_run_with_invalid_arrays_is_refused(tmp_path, name, odd):
    along = np.arange(40) - 20.0
    arrays = {"x": along, "y": along, "mean": np.eye(40), "variance": np.eye(40), name: odd}
    if name in ("mean", "variance") and np.shape(odd) == (40, 40):
        pytest.skip("a map")
    np.savez(tmp_path / "map.npz", **arrays)
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(InputError, match=r"expected the map\.npz and config.yaml of a run"):
        read_prior(str(tmp_path), WORKSPACE, None)


@pytest.mark.parametrize("value", [-9999.0, -1e38])
def test_undeclared_values_for_unknown_places_are_refused(tmp_path, value):
    path = geotiff(tmp_path / "a.tif", lambda xy: np.where(xy[:, 0] < 0, value, coarse(xy)))
    with pytest.raises(InputError, match="declare it as the file's nodata value"):
        read_prior(path, WORKSPACE, None)


def test_an_unknown_deviation_is_the_largest_known_one(tmp_path):
    from_west = np.repeat((0.2, 0.4, -1.0), (60, 40, 60))
    path = geotiff(tmp_path / "a.tif", coarse, bands=("elevation", "sigma"), deviation=from_west)
    found = read_prior(path, WORKSPACE, None)
    west, east = (found.deviation[:, where] for where in (found.grid.x < -12, found.grid.x > 12))
    np.testing.assert_allclose(west, 0.2, rtol=1e-6)
    np.testing.assert_allclose(east, 0.4, rtol=1e-6)
    path = geotiff(tmp_path / "b.tif", coarse, bands=("elevation", "sigma"), deviation=-1.0)
    assert (read_prior(path, WORKSPACE, None).deviation == 0).all()


@pytest.mark.slow
def test_an_earlier_run_is_a_prior_for_the_next(tmp_path, capsys):
    common = ["--method", "nngp", "--max-samples", "700", "--terrain", "seamounts"]
    common += [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["run", *common, "--output", str(first)]) == 0
    assert (
        main(["run", *common, "--prior", str(first), "--seed", "1", "--output", str(second)]) == 0
    )
    assert (second / FILE).exists()
    assert not (first / FILE).exists()
    capsys.readouterr()


class WithPrior(Kept):
    """A mission over a bottom that its prior knows."""

    def heard(self, distance):
        x = self.place(self.stamp)[0]
        return distance - 3 * np.sin(x / 6)


def test_a_mission_keeps_its_prior(tmp_path):
    path = tmp_path / "before.tif"
    folder = tmp_path / "mission"
    geotiff(path, lambda xy: 3 * np.sin(xy[:, 0] / 6))
    opened = WithPrior(folder, prior=str(path))
    opened.close()
    path.unlink()  # the vehicle restarts without the stick that it was on
    session, close = open_mission(settings(folder, prior="/another/place.tif"))
    assert session.mapper.prior is not None
    close()
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-200])
    with pytest.raises(InputError, match="expected the prior as it was written"):
        open_mission(settings(folder, prior=str(path)))
