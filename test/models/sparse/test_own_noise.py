"""Pings with noise of their own in the sparse models, against an exact heteroscedastic GP."""

import math

import numpy as np
import pytest
import torch
from problems import XS, M, make_kernel, make_online, numpy_kernel, scattered, soft_kernel

from poam_ros.models.data import Dataset
from poam_ros.models.sparse import variational as weights
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.mstep import MStep, MStepInput, VariationalParameters
from poam_ros.models.sparse.training import minibatch_elbo

TAKES = [name for name, method in METHODS.items() if method.own_noise]


def noises(count, seed=0):
    """Variances over three decades, one in five of them not known."""
    noise = torch.from_numpy(10 ** np.random.default_rng(seed).uniform(-3, 0, count))
    noise[::5] = 0.0
    return noise


def noisy(count, seed):
    data = scattered(count, seed)
    return Dataset(data.X, data.y, noises(count, seed))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("method", TAKES)
def test_with_inducing_inputs_at_the_data_it_is_the_exact_gp(method, batches, own):
    # A grid with a spacing about the lengthscale: Kuu is well conditioned and needs no jitter.
    axis = torch.linspace(-1, 1, 7, dtype=torch.float64)
    X = torch.cartesian_prod(axis, axis)[
        torch.randperm(49, generator=torch.Generator().manual_seed(0))
    ]
    data = Dataset(X, torch.sin(3 * X[:, 0]) + X[:, 1], noises(49) if own else None)
    kernel, noise = make_kernel(), 0.01
    kernel.lengthscales.mul_(0.6)
    online = make_online(49, method=method, kernel=kernel, noise=noise, jitter=0.0)
    for part in torch.arange(49).chunk(batches):
        online.update(data[part])
    assert len(online.support) == 49
    K = numpy_kernel(kernel, X.numpy(), X.numpy())
    K += np.diag(noise + (data.noise.numpy() if own else np.zeros(49)))
    Ks = numpy_kernel(kernel, X.numpy(), XS.numpy())
    mean = Ks.T @ np.linalg.solve(K, data.y.numpy())
    covariance = numpy_kernel(kernel, XS.numpy(), XS.numpy()) - Ks.T @ np.linalg.solve(K, Ks)
    ours = online.predict(XS, noise=False)
    np.testing.assert_allclose(ours.mean, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.variance, covariance.diagonal(), rtol=0, atol=1e-6)
    for noisy in (False, True):
        expected = covariance + noisy * noise * np.eye(len(XS))
        np.testing.assert_allclose(online.covariance(XS, noise=noisy), expected, rtol=0, atol=1e-6)
    assert torch.equal(online.predict(XS).variance, ours.variance + online.model.noise)


def plain_loss(kernel, Z, q, batch, noise, count):
    """The mini-batch ELBO term by term, each ping with the noise of its own."""
    Kuu = kernel.forward(Z, Z) + 1e-6 * torch.eye(len(Z))
    Kuf, kff = kernel.forward(Z, batch.X), kernel.forward(batch.X, batch.X, diag=True)
    A = torch.linalg.solve(Kuu, Kuf)
    mu, v = A.mT @ q.m, kff - (Kuf * A).sum(0) + (A * (q.S @ A)).sum(0)
    total = noise + batch.noise
    fit = 0.5 * ((2 * math.pi * total).log() + ((batch.y - mu).square() + v) / total).mean()
    trace = torch.trace(torch.linalg.solve(Kuu, q.S)) + q.m @ torch.linalg.solve(Kuu, q.m)
    return fit + 0.5 * (trace - len(Z) + torch.logdet(Kuu) - torch.logdet(q.S)) / count


def test_the_objective_is_the_elbo_with_all_noises_and_has_its_gradient():
    online = make_online(20, kernel=soft_kernel(), noise=0.1, minibatch=64)
    online.update(noisy(120, 0))
    model, data = online.model, online.data
    step = MStep(
        model, MStepInput(None, None, data), data, VariationalParameters(None, None, None, 0.1), 64,
        torch.Generator().manual_seed(5),
    )  # fmt: skip
    batch = data[torch.randint(120, (64,), generator=torch.Generator().manual_seed(5))]
    parameters = list(model.parameters())
    loss = minibatch_elbo(step)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    expected_loss = plain_loss(model.kernel, model.Z, model.q, batch, model.noise, 120)
    expected = torch.autograd.grad(expected_loss, parameters, allow_unused=True)
    assert loss.item() == pytest.approx(expected_loss.item(), abs=1e-9)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", TAKES)
def test_it_learns_less_noise_than_where_it_must_explain_all_of_it(method):
    data, other = scattered(200, 0), np.random.default_rng(1)
    noise = torch.full((200,), 0.25).double()
    y = data.y + 0.5 * torch.from_numpy(other.normal(size=200))
    learned = []
    for own in (None, noise):
        online = make_online(40, method=method, kernel=soft_kernel(), noise=0.3, steps=100)
        online.update(Dataset(data.X, y, own))
        learned.append(online.model.noise.item())
    assert learned[1] < 0.5 * learned[0]


def test_terms_are_summed_again_when_the_learned_noise_has_moved_far(monkeypatch):
    def after(poam_noise, method="poam"):
        online = make_online(M, method=method, noise=1.0)
        online.update(noisy(60, 0))
        online.model.likelihood.noise = poam_noise
        online.update(noisy(6, 1))
        return online.predict(XS)

    def apart(noise):
        return (after(noise).mean - after(noise, "full").mean).abs().max()

    far = apart(0.05)
    assert far < 1e-9
    assert after(0.9).mean.isfinite().all()
    monkeypatch.setattr(weights, "MAX_RECOMPUTED", 50)
    assert apart(0.05) > 1e-3


def test_summing_again_is_not_done_without_noise(monkeypatch):
    online = make_online(M, noise=1.0)
    online.update(scattered(60, 0))
    assert online.epoch.weighed_at is None
    online.model.likelihood.noise = 0.01
    monkeypatch.setattr("poam_ros.models.sparse.variational.update_full", None)
    online.update(scattered(6, 1))
    online.update(noisy(6, 2))
    assert online.epoch.weighed_at.item() == pytest.approx(0.01)


@pytest.mark.parametrize("method", TAKES)
def test_a_state_holds_the_noise(method):
    online, other = (make_online(M, method=method, steps=2, minibatch=32) for _ in range(2))
    online.update(scattered(40, 0))
    online.update(noisy(6, 1))
    other.restore(online.state())
    for each in (online, other):
        each.update(noisy(6, 2))
        each.update(scattered(6, 3))
    assert torch.equal(online.data.noise, other.data.noise)
    assert (online.data.noise[:40] == 0).all() and (online.data.noise[-6:] == 0).all()
    assert torch.equal(online.predict(XS).mean, other.predict(XS).mean)


def test_a_ping_with_huge_noise_changes_nothing():
    online = make_online(M)
    online.update(noisy(60, 0))
    before = online.predict(XS)
    spot = online.support[:1].clone()
    online.update(Dataset(spot, torch.full((1,), 50.0).double(), torch.full((1,), 1e12).double()))
    torch.testing.assert_close(online.predict(XS).mean, before.mean, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in TAKES])
def test_other_methods_refuse_noise_and_stay_unchanged(method):
    online = make_online(M, method=method)
    online.update(scattered(30, 0))
    with pytest.raises(ValueError, match="does not support"):
        online.update(noisy(6, 1))
    assert len(online.data) == 30
