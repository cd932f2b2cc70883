"""The mapper: metres outside, scaled units inside."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.samples import Samples
from poam_ros.models.mapper import BathymetricMapper, ModelSettings
from poam_ros.models.registry import MODELS, SparseOptions, takes_noise

WORKSPACE = Extent(100, 180, -20, 20)
SMALL = ModelSettings(options=SparseOptions(num_inducing=80, steps=20, minibatch=64))


def ground(xy):
    return -40 + 6 * np.sin(xy[:, 0] / 9) + 0.1 * xy[:, 1]


def pings(count, seed):
    rng = np.random.default_rng(seed)
    xy = WORKSPACE.sample(count, rng)
    return xy, ground(xy) + 0.3 * rng.normal(size=count)


@pytest.fixture(scope="module")
def learned():
    mapper = BathymetricMapper(WORKSPACE, SMALL)
    for k in range(8):
        mapper.update(*pings(60, k))
    return mapper


@pytest.fixture
def mapper(learned):
    """A copy of its own for every test."""
    return deepcopy(learned)


def test_maps_in_metres(mapper):
    snapshot = mapper.map(Grid.cells(WORKSPACE, 2.0))
    truth = ground(snapshot.grid.points).reshape(snapshot.grid.shape)
    assert snapshot.mean.shape == (20, 40)
    assert np.sqrt(np.mean((snapshot.mean - truth) ** 2)) < 1.0
    # Isotropic scaling by the longer side: 0.05 to 0.5 of 40 m.
    assert 2 <= snapshot.lengthscale.min() <= snapshot.lengthscale.max() <= 20
    assert np.all(WORKSPACE.contains(snapshot.support, slack=1e-9))
    assert snapshot.samples == mapper.samples == 480


def test_the_variance_includes_the_noise_unless_asked_not_to(mapper):
    xy, _ = pings(10, 20)
    difference = mapper.predict(xy).variance - mapper.predict(xy, noise=False).variance
    report = mapper.update(*pings(1, 21))
    np.testing.assert_allclose(difference, difference[0])
    assert difference[0] == pytest.approx(report.noise_std**2, rel=0.6)


def test_samples_keep_their_identity():
    mapper, (xy, z) = BathymetricMapper(WORKSPACE, SMALL), pings(40, 0)
    samples = Samples(np.arange(7, 47), np.arange(40) * 10**9, xy, z, np.full(40, 0.3))
    report = mapper.learn(samples)
    assert (report.samples, report.batch) == (40, 40)
    mapper.update(*pings(2, 1))
    np.testing.assert_array_equal(mapper.data.number, np.arange(7, 49))
    np.testing.assert_array_equal(mapper.data.stamp_ns[:40], samples.stamp_ns)
    np.testing.assert_array_equal(mapper.data.noise_std[:40], samples.noise_std)


QUICK = {"first_steps": 30, "update_steps": 2, "early_steps": 2, "hidden": 8, "lattice": 8}
#: The method that takes noise of single pings, quick.
NNGP = ModelSettings("nngp", MODELS["nngp"].options(**QUICK))


def test_noise_of_single_pings_is_in_metres_and_weighs_them():
    (xy, z), (far_xy, _) = pings(300, 0), pings(30, 1)
    wrong = np.full(30, -10.0)
    plain, noisy, told = (BathymetricMapper(WORKSPACE, NNGP) for _ in range(3))
    plain.update(xy, z)
    noisy.update(xy, z)
    told.update(xy, z)
    noisy.update(far_xy, wrong)
    told.update(far_xy, wrong, noise_std=50.0)
    truth = ground(far_xy)
    errors = [np.abs(m.predict(far_xy).mean - truth).mean() for m in (plain, noisy, told)]
    assert errors[2] < 1.3 * errors[0] + 0.1
    assert errors[1] > 2 * errors[0] + 0.1
    assert (told.data.noise_std[300:] == 50.0).all() and np.isnan(told.data.noise_std[:300]).all()
    # The same in other units: the map scales with the elevations and their noise. By a power of
    # two, so that rounding is the same and decides nothing.
    large = BathymetricMapper(WORKSPACE, NNGP)
    large.update(xy, 8 * z)
    large.update(far_xy, 8 * wrong, noise_std=np.full(30, 400.0))
    np.testing.assert_allclose(large.predict(far_xy).mean, 8 * told.predict(far_xy).mean)


def test_methods_without_own_noise_warn_once_and_ignore_it(caplog):
    takes_noise.cache_clear()
    settings = ModelSettings.of({**SMALL.values, "method": "ovc++"})
    given, bare = (BathymetricMapper(WORKSPACE, settings) for _ in range(2))
    for k in range(3):
        given.update(*pings(60, k), 5.0)
        bare.update(*pings(60, k))
    assert [r.getMessage() for r in caplog.records] == [
        "method ovc++ does not support the noise of single pings and ignores it"
    ]
    at = pings(20, 9)[0]
    np.testing.assert_array_equal(given.predict(at).mean, bare.predict(at).mean)
    assert (given.data.noise_std == 5.0).all()
    assert {name for name, row in MODELS.items() if row.own_noise} == {"nngp"}


def test_no_noise_is_too_large():
    mapper = BathymetricMapper(WORKSPACE, NNGP)
    mapper.update(*pings(60, 0))
    at = pings(20, 9)[0]
    mapper.update(*pings(2, 1), np.array([1e9, 1e250]))
    assert np.isfinite(mapper.predict(at).mean).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, -np.inf])
def test_invalid_standard_deviations_are_refused(bad, mapper):
    std = np.array([np.nan, 1.0, bad, 2.0])
    with pytest.raises(InputError, match=rf"noise_std above 0 m, .* got {bad:g} \(1 of 4"):
        mapper.update(*pings(4, 9), std)
    with pytest.raises(InputError, match=r"noise_std \[N\] or one for all, got .* \[3\]"):
        mapper.update(*pings(4, 9), np.ones(3))
    assert mapper.samples == 480


def test_returned_arrays_are_never_modified(mapper):
    early, state = mapper.data, mapper.state()
    kept = early.z.copy()
    mapper.update(*pings(30, 20))
    mapper.restore(state)
    mapper.update(*pings(30, 21))
    np.testing.assert_array_equal(early.z, kept)
    np.testing.assert_array_equal(state.samples.z, kept)


def test_covariance_in_square_metres(mapper):
    at = pings(20, 9)[0]
    for noise in (True, False):
        covariance = mapper.covariance(at, noise)
        np.testing.assert_allclose(covariance.diagonal(), mapper.predict(at, noise).variance)
    near = np.array([[140.0, 0.0], [140.2, 0.0], [170.0, 15.0]])
    covariance = mapper.covariance(near, noise=False)
    assert covariance[0, 1] > 0.9 * covariance[0, 0] > abs(covariance[0, 2])


@pytest.mark.parametrize("settings", [SMALL, NNGP], ids=lambda settings: settings.method)
def test_a_restored_mapper_continues_identically(settings):
    """With noise of some pings, which one of both methods takes; whatever it had learned."""
    one, other = (BathymetricMapper(WORKSPACE, settings, seed) for seed in (0, 5))
    other.update(*pings(20, 8), 3.0)
    one.update(*pings(60, 0))
    one.update(*pings(60, 1), np.where(np.arange(60) % 3 == 0, np.nan, 2.0))
    other.restore(one.state())
    for each in (one, other):
        each.update(*pings(30, 2), 1.0)
        each.update(*pings(30, 3))
    grid = Grid.cells(WORKSPACE, 4.0)
    np.testing.assert_array_equal(other.map(grid).variance, one.map(grid).variance)
    for name in ("number", "noise_std"):
        np.testing.assert_array_equal(getattr(other.data, name), getattr(one.data, name))


class Fails(Exception):
    """Not one that the package knows."""


@pytest.mark.parametrize("settings", [SMALL, NNGP], ids=lambda settings: settings.method)
@pytest.mark.parametrize("first", [True, False])
def test_after_any_failure_the_map_is_unchanged(first, settings, monkeypatch):
    def failing(self, new, enough=None):
        update(self, new, enough)
        raise Fails

    mapper, twin = BathymetricMapper(WORKSPACE, settings), BathymetricMapper(WORKSPACE, settings)
    update = type(mapper._model).update
    for each in () if first else (mapper, twin):
        each.update(*pings(60, 0))
    with monkeypatch.context() as broken, pytest.raises(Fails):
        broken.setattr(type(mapper._model), "update", failing)
        mapper.update(*pings(60, 1))
    assert mapper.initialised != first and mapper.samples == twin.samples
    for each in (mapper, twin):
        each.update(*pings(60, 2))
    at = pings(20, 9)[0]
    np.testing.assert_array_equal(mapper.predict(at).mean, twin.predict(at).mean)
    np.testing.assert_array_equal(mapper.z, twin.z)


def test_creating_a_mapper_does_not_change_the_process():
    def threads():
        return torch.get_num_threads(), [pool["num_threads"] for pool in threadpool_info()]

    before = threads()
    settings = replace(SMALL, threads=before[0] + 1)
    BathymetricMapper(WORKSPACE, settings).update(*pings(30, 0))
    assert threads() == before


def test_scalers_stay_those_of_the_first_batch():
    # A shifted and stretched sea gives the same map, shifted and stretched. Without training:
    # its rounding would decide ties among the inducing points in another way.
    still = replace(SMALL, options=replace(SMALL.options, steps=0))
    a, b = BathymetricMapper(WORKSPACE, still), BathymetricMapper(WORKSPACE, still)
    for k in range(3):
        xy, z = pings(60, k)
        a.update(xy, z)
        b.update(xy, 10 * z - 500)
    at = pings(20, 9)[0]
    np.testing.assert_allclose(b.predict(at).mean, 10 * a.predict(at).mean - 500, rtol=1e-6)
    np.testing.assert_allclose(b.predict(at).variance, 100 * a.predict(at).variance, rtol=1e-6)


def test_a_reset_forgets_everything(mapper):
    mapper.reset()
    assert not mapper.initialised and mapper.samples == 0 and len(mapper.xy) == 0
    mapper.update(*pings(60, 0))
    fresh = BathymetricMapper(WORKSPACE, SMALL)
    fresh.update(*pings(60, 0))
    at = pings(20, 9)[0]
    np.testing.assert_array_equal(mapper.predict(at).mean, fresh.predict(at).mean)


@pytest.mark.parametrize(
    ("xy", "z", "words"),
    [
        (np.zeros((3, 3)), np.zeros(3), r"xy \[N, 2\]"),
        (np.zeros((3, 2)), np.zeros(2), r"got \[3, 2\] and \[2\]"),
        (np.zeros((0, 2)), np.zeros(0), "at least one"),
        (np.array([[0.0, np.nan]]), np.zeros(1), "finite"),
        (np.zeros((5, 2)), np.full(5, -3.0), "elevations that differ"),
    ],
)
def test_bad_pings_are_refused_and_change_nothing(xy, z, words):
    mapper = BathymetricMapper(WORKSPACE, SMALL)
    with pytest.raises(InputError, match=words):
        mapper.update(xy, z)
    assert not mapper.initialised
    mapper.update(*pings(30, 0))
    assert mapper.samples == 30


def test_bad_query_points_are_refused(mapper):
    with pytest.raises(InputError, match=r"\[N, 2\]"):
        mapper.predict(np.zeros(2))
    with pytest.raises(InputError, match="at least one update"):
        BathymetricMapper(WORKSPACE, SMALL).predict(np.zeros((1, 2)))
