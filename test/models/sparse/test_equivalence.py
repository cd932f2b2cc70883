"""POAM and the other methods equal collapsed SGPR, each other and the exact GP where they must."""

import numpy as np
import pytest
import scipy.linalg
import torch
from problems import (
    XS,
    M,
    after_updates,
    make_kernel,
    make_online,
    numpy_kernel,
    scattered,
    set_options,
    soft_kernel,
)

from poam_ros.models.interface import Dataset
from poam_ros.models.sparse import inducing
from poam_ros.models.sparse.inducing import Inducing, pivoted_from_old_and_new
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.model import resolved

JITTER = 1e-6


def sgpr(kernel, Z, X, y, Xs, noise):
    """Collapsed SGPR (Titsias, 2009), latent mean and variance at Xs, in numpy and float64."""
    Kuu = numpy_kernel(kernel, Z, Z) + JITTER * np.eye(len(Z))
    Kuf, Kus = numpy_kernel(kernel, Z, X), numpy_kernel(kernel, Z, Xs)
    L = np.linalg.cholesky(Kuu)
    A = scipy.linalg.solve_triangular(L, Kuf, lower=True) / np.sqrt(noise)
    LB = np.linalg.cholesky(np.eye(len(Z)) + A @ A.T)
    c = scipy.linalg.solve_triangular(LB, A @ y, lower=True) / np.sqrt(noise)
    V = scipy.linalg.solve_triangular(L, Kus, lower=True)
    W = scipy.linalg.solve_triangular(LB, V, lower=True)
    return W.T @ c, kernel.amplitude.item() - (V**2).sum(0) + (W**2).sum(0)


@pytest.mark.parametrize(("num_inducing", "count"), [(30, 90), (500, 1200)])
def test_one_batch_equals_collapsed_sgpr(num_inducing, count):
    online, data, Xs = make_online(num_inducing), scattered(count, 0), scattered(200, 7).X
    online.update(data)
    Z = online.Z
    assert len(Z) == num_inducing
    mean, variance = sgpr(
        online.kernel, Z.numpy(), data.X.numpy(), data.y.numpy(), Xs.numpy(), 0.05
    )
    ours = online.predict(Xs, noise=False)
    np.testing.assert_allclose(ours.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.variance, variance, rtol=0, atol=1e-8)


def test_follows_moving_inducing_inputs_and_hyperparameters_closely():
    # The projection is an approximation then: close to using all data, not equal.
    online, data = make_online(150, steps=5, minibatch=64), scattered(600, 0)
    for part in torch.arange(600).chunk(12):
        online.update(data[part])
    set_options(online, steps=0)
    online.update(scattered(1, 5))
    everything = online.data
    Xs = scattered(200, 7).X
    mean, _ = sgpr(
        online.kernel,
        online.Z.numpy(),
        everything.X.numpy(),
        everything.y.numpy(),
        Xs.numpy(),
        online.noise.item(),
    )
    ours = online.predict(Xs, noise=False).mean.numpy()
    assert np.sqrt(np.mean((ours - mean) ** 2)) < 0.15 * mean.std()


def test_repeated_pings_at_one_place_are_handled():
    online, spot = make_online(50, steps=2, minibatch=32), scattered(1, 0).X
    online.update(scattered(60, 1))
    y = torch.linspace(-1, 1, 40, dtype=torch.float64)
    for _ in range(3):
        online.update(Dataset(spot.repeat(40, 1), y))
    assert len(torch.unique(online.Z, dim=0)) == len(online.Z)
    assert online.predict(spot).variance.isfinite().all()
    assert online.extra_jitter == 0.0


@pytest.mark.slow
def test_it_learns_shorter_lengthscales_on_the_rough_side():
    # Shorter lengthscales where the surface is rough, and noise near the truth of 0.1^2.
    online = make_online(150, kernel=make_kernel(sharpness=1.0), noise=1.0, steps=120)
    online.update(scattered(900, 0))
    for k in range(1, 6):
        online.update(scattered(50, k))
    with torch.no_grad():
        rough = online.kernel.lengthscale_at(scattered(200, 1).X * 0.5 + 0.5)
        left = scattered(200, 2).X * torch.tensor([0.4, 1.0]) - torch.tensor([0.6, 0.0])
        smooth = online.kernel.lengthscale_at(left)
    assert rough.mean() < 0.8 * smooth.mean()
    assert 0.005 < online.noise.item() < 0.03


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("method", ["poam", "full", "pam", "gpr"])
def test_with_inducing_inputs_at_the_data_it_is_the_exact_gp(method, batches):
    # A grid with a spacing about the lengthscale: Kuu is well conditioned and needs no jitter.
    axis = torch.linspace(-1, 1, 7, dtype=torch.float64)
    X = torch.cartesian_prod(axis, axis)[
        torch.randperm(49, generator=torch.Generator().manual_seed(0))
    ]
    data = Dataset(X, torch.sin(3 * X[:, 0]) + X[:, 1])
    kernel, noise = make_kernel(), 0.01
    kernel.lengthscales.mul_(0.6)
    online = make_online(49, method=method, kernel=kernel, noise=noise, jitter=0.0)
    for part in torch.arange(49).chunk(batches):
        online.update(data[part])
    assert len(online.support) == 49
    K = numpy_kernel(kernel, X.numpy(), X.numpy())
    K += noise * np.eye(49)
    Ks = numpy_kernel(kernel, X.numpy(), XS.numpy())
    mean = Ks.T @ np.linalg.solve(K, data.y.numpy())
    covariance = numpy_kernel(kernel, XS.numpy(), XS.numpy()) - Ks.T @ np.linalg.solve(K, Ks)
    ours = online.predict(XS, noise=False)
    np.testing.assert_allclose(ours.mean, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.variance, covariance.diagonal(), rtol=0, atol=1e-6)
    for noisy in (False, True):
        expected = covariance + noisy * noise * np.eye(len(XS))
        np.testing.assert_allclose(online.covariance(XS, noise=noisy), expected, rtol=0, atol=1e-6)
    assert torch.equal(online.predict(XS).variance, ours.variance + online.noise)


@pytest.mark.parametrize("method", METHODS)
def test_noise_of_single_pings_is_refused_and_nothing_changes(method):
    online, data = make_online(M, method=method), scattered(6, 1)
    online.update(scattered(30, 0))
    with pytest.raises(ValueError, match="sparse models do not support"):
        online.update(Dataset(data.X, data.y, torch.full((6,), 0.1).double()))
    assert len(online.data) == 30


# Equivalences: Z and hyperparameters fixed


def fixed_z():
    """What makes a row's inducing inputs those that PCD chose of the first data."""

    def keep(model, X):
        if not len(model.Z):
            return pivoted_from_old_and_new(model, X)
        return Inducing.all_of(model.kernel, model.Z, X).chosen(torch.arange(len(model.Z)))

    return {"select": keep, "learns": frozenset(), "train_first": False}


def run_fixed(method, parts, num_inducing=M):
    online = make_online(num_inducing, method=method, noise=0.05, replaced=fixed_z())
    for part in parts:
        online.update(part)
    return online


def batches(count=5):
    return [scattered(60, 0), *(scattered(30, k) for k in range(1, count))]


@pytest.mark.parametrize(
    ("method", "num_inducing", "first"),
    [*((method, M, 60) for method in ("ovc", "ssgp", "full", "pam", "sgpr")), ("full", 500, 850)],
)
def test_with_z_and_hyperparameters_fixed_all_methods_agree(method, num_inducing, first):
    """FULL, PAM and SGPR take all batches as one."""
    parts = [scattered(first, 0), *(scattered(first // 2, k) for k in range(1, 5))]
    poam, other = (run_fixed(m, parts, num_inducing).predict(XS) for m in ("poam", method))
    torch.testing.assert_close(other.mean, poam.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(other.variance, poam.variance, rtol=0, atol=1e-8)


def moving(method, moved):
    """Updates with PCD on [Z'; X] while amplitude, network and maybe noise change in between."""
    update = resolved(METHODS[method]).update
    online = make_online(M, noise=0.05, replaced={"update": update})
    for k, part in enumerate(batches(8)):
        with torch.no_grad():
            if moved in ("all", "kernel"):
                online.kernel.raw_amplitude.add_(0.05)
                for p in online.kernel.network.parameters():
                    p.mul_(1.02)
            if moved in ("all", "noise"):
                online.likelihood.noise = 0.05 * 1.3**k
        online.update(part)
    return online.predict(XS)


@pytest.mark.parametrize("moved", ["all", "noise", "kernel"])
def test_ssgp_equals_ovc_when_hyperparameters_move(moved):
    ovc, ssgp = moving("ovc++", moved), moving("ssgp++", moved)
    torch.testing.assert_close(ssgp.mean, ovc.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(ssgp.variance, ovc.variance, rtol=0, atol=1e-7)


def test_poam_differs_from_ovc_only_once_the_noise_has_moved():
    for moved, same in (("kernel", True), ("noise", False), ("all", False)):
        poam, ovc = moving("poam", moved), moving("ovc++", moved)
        gap = (poam.mean - ovc.mean).abs().max().item()
        assert (gap < 1e-8) if same else (gap > 1e-3)


def test_resampling_moves_a_few_and_random_choice_takes_no_point_twice():
    online = after_updates("ssgp", 3, steps=0)
    before = online.Z
    online.update(scattered(6, 50))
    stayed = (online.Z.unsqueeze(1) == before.unsqueeze(0)).all(-1).any(1)
    assert 0 < (~stayed).sum() <= max(1, round(0.01 * M))
    drawn = after_updates("poam-z-rand", 6, steps=0).Z
    assert len(torch.unique(drawn, dim=0)) == M


def test_learned_z_moves_and_the_rest_stays():
    for method, moves in (("poam-z-opt", True), ("ovc", True), ("poam", False), ("svgp", True)):
        online = after_updates(method, 3)
        everything = online.data.X
        at_data = (online.Z.unsqueeze(1) == everything.unsqueeze(0)).all(-1).any(1)
        assert bool(at_data.all()) != moves, method


def test_more_inducing_inputs_leave_a_learned_posterior_as_it_is():
    # Z grows from 40 to 60 while nothing is learned: q(u) must say the same of every place.
    online = make_online(60, method="svgp", noise=0.5, steps=4, minibatch=32, kernel=soft_kernel())
    online.update(scattered(40, 0))
    before, m = online.predict(XS), online.q.m
    set_options(online, steps=0)
    online.update(scattered(20, 1))
    assert len(online.Z) == 60
    after = online.predict(XS)
    torch.testing.assert_close(online.q.m[:40], m, rtol=0, atol=1e-9)
    torch.testing.assert_close(after.mean, before.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(after.variance, before.variance, rtol=0, atol=1e-8)


def test_the_authors_row_counts_the_first_batch_twice_and_pads_z():
    data = scattered(200, 0)
    crowded = Dataset(0.02 * data.X, data.y)  # PCD stops far below M
    paper, authors = (make_online(80, method=m) for m in ("poam", "poam-authors"))
    for online in (paper, authors):
        online.update(crowded)
    assert len(paper.Z) < 80 == len(authors.Z)
    assert len(torch.unique(authors.Z, dim=0)) == 80
    for times, online in enumerate((paper, authors), 1):
        Kuf = online.kernel.forward(online.Z, crowded.X).detach()
        torch.testing.assert_close(online.epoch.terms.vector, times * Kuf @ crowded.y)
        torch.testing.assert_close(online.epoch.terms.matrix, times * Kuf @ Kuf.mT)
    authors.update(scattered(5, 1))  # later batches count once
    assert authors.epoch.terms.matrix.isfinite().all()


@pytest.mark.parametrize("rank", [2, 30, 400])
def test_many_candidates_give_the_same_choice_without_their_whole_covariance(rank, monkeypatch):
    model, X = make_online(rank, tolerance=1e-4), scattered(350, 1).X * 0.4
    model.condition(scattered(50, 0).X, None)
    amplitude = model.kernel.amplitude.item()
    with torch.no_grad():
        whole = pivoted_from_old_and_new(model, X)
        monkeypatch.setattr(inducing, "MAX_STORED", 100)
        by_rows = pivoted_from_old_and_new(model, X)
    K, chosen = whole.K, [whole.index, by_rows.index]
    assert K is not None and by_rows.K is None
    assert len(torch.unique(chosen[1])) == len(chosen[1])
    # Equal but for ties of rounding, which lead to other points: about as many, that explain as
    # much.
    assert abs(len(chosen[0]) - len(chosen[1])) <= max(2, 0.03 * len(chosen[0]))
    for c in chosen:
        L = torch.linalg.cholesky(K[c][:, c] + 1e-10 * torch.eye(len(c)))
        V = torch.linalg.solve_triangular(L, K[c], upper=False)
        left = (K.diagonal() - V.square().sum(0)).max()
        assert len(c) == rank or left < 1.01e-4 * amplitude


def test_a_long_pilot_survey_is_one_batch_like_any_other(monkeypatch):
    data, Xs = scattered(600, 0), scattered(100, 7).X
    online = make_online(200)
    online.update(data)
    monkeypatch.setattr(inducing, "MAX_STORED", 100)
    by_rows = make_online(200)
    by_rows.update(data)
    a, b = online.predict(Xs), by_rows.predict(Xs)
    # Ties may be decided otherwise; the map must not care.
    assert (a.mean - b.mean).abs().mean() < 0.1 * a.mean.std()
    by_rows.update(scattered(200, 1))
    assert by_rows.predict(Xs).variance.isfinite().all()
