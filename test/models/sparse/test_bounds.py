"""The bounds without q(u): against each other, the uncollapsed ELBO, and finite differences."""

import math

import pytest
import torch
from problems import make_online, scattered

from poam_ros.models.interface import Dataset
from poam_ros.models.linalg import add_jitter
from poam_ros.models.sparse.inducing import Candidates, Inducing
from poam_ros.models.sparse.training import (
    MStep,
    VariationalParameters,
    elbo_loss,
    marginal_likelihood_loss,
    minibatch_elbo,
    online_elbo,
    online_elbo_loss,
    whitened_elbo,
    whitened_elbo_loss,
)
from poam_ros.models.sparse.variational import EpochInput

JITTER = 1e-6


def prior(model, Z, X):
    kernel = model.kernel
    Kuu = add_jitter(kernel.forward(Z, Z), JITTER)
    return Kuu, kernel.forward(Z, X), kernel.forward(X, X, diag=True)


def fitted(count=120, num_inducing=30, method="poam-online-elbo"):
    online, data = make_online(num_inducing, method=method, noise=0.05), scattered(count, 0)
    online.update(data)
    return online, data


def titsias(Kuu, Kuf, kff, noise, y):
    """The collapsed ELBO (Titsias, 2009), as it is written: N x N."""
    Qff = Kuf.mT @ torch.linalg.solve(Kuu, Kuf)
    covariance = Qff + noise * torch.eye(len(y), dtype=y.dtype)
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance)
    return normal.log_prob(y) - 0.5 * (kff.sum() - Qff.diagonal().sum()) / noise


def test_without_old_data_the_online_elbo_is_the_collapsed_one():
    online, data = fitted()
    K = prior(online.model, online.model.Z, data.X)
    noise = online.model.noise
    loss = online_elbo_loss(*K, noise, data.y)
    assert -loss.item() * 120 == pytest.approx(titsias(*K, noise, data.y).item(), rel=1e-9)


def test_collapsed_equals_uncollapsed_at_the_optimal_q():
    online, data = fitted()
    K, noise = prior(online.model, online.model.Z, data.X), online.model.noise
    collapsed = online_elbo_loss(*K, noise, data.y)
    uncollapsed = elbo_loss(*K, noise, data.y, online.model.q, len(data))
    assert collapsed.item() == pytest.approx(uncollapsed.item(), rel=1e-10)
    # and so does the whitened one
    learned = VariationalParameters.of(online.model, frozenset({"q"}), 0.01)
    q = online.model.q
    L = torch.linalg.cholesky(K[0].detach())
    half = torch.linalg.solve_triangular(L, q.root, upper=False)
    root = torch.linalg.cholesky(half @ half.mT)
    whitened = whitened_elbo_loss(*K, noise, data.y, learned.m, root, len(data))
    assert whitened.item() == pytest.approx(uncollapsed.item(), rel=1e-9)


def second_epoch(online, new, moved=False, learns=frozenset()):
    """An M-step's view of a second batch, Z as it is."""
    old = online.epoch
    if moved:
        with torch.no_grad():
            online.model.kernel.raw_amplitude.add_(0.2)
            online.model.likelihood.noise = 0.08
    with torch.no_grad():
        candidates = Candidates.of(online.model.kernel, online.model.Z, new.X)
    inducing = Inducing(candidates, torch.arange(len(old.Z)))
    learned = VariationalParameters.of(online.model, learns, 0.01)
    inputs = EpochInput(old, inducing, new, online.data)
    return MStep(online.model, inputs, learned, 1, torch.Generator())


@pytest.mark.parametrize("method", ["poam-online-elbo", "ssgp++", "ovc++"])
def test_with_z_and_hyperparameters_fixed_the_elbos_add_up(method):
    online, first = fitted(method=method)
    Z, new = online.model.Z, scattered(40, 1)
    head = online_elbo_loss(*prior(online.model, Z, first.X), online.model.noise, first.y)
    tail = online_elbo(second_epoch(online, new))
    X, y = torch.cat([first.X, new.X]), torch.cat([first.y, new.y])
    whole = online_elbo_loss(*prior(online.model, Z, X), online.model.noise, y)
    assert 120 * head.item() + 40 * tail.item() == pytest.approx(160 * whole.item(), rel=1e-8)


def test_online_elbo_against_the_formula_with_its_inverses():
    # 2 ELBO as in the docstring, with S'^-1 - K'^-1 subtracted: fine for a handful of points.
    online, _ = fitted(60, 6)
    new, old, q = scattered(15, 1), online.epoch, online.model.q
    step = second_epoch(online, new, moved=True)
    ours = -15 * online_elbo(step)
    noise = online.model.noise
    Z, N = old.Z, 15
    Kuu, Kuf, kff = prior(online.model, Z, new.X)
    Kuo, Koo = Kuu, Kuu  # all points are kept
    Si, Ki = torch.linalg.inv(q.S), torch.linalg.inv(old.Kuu)
    P, s = Si - Ki, Si @ q.m
    A = Kuu + Kuf @ Kuf.mT / noise + Kuo @ P @ Kuo.mT
    c = Kuf @ new.y / noise + Kuo @ s
    Quu = Kuo.mT @ torch.linalg.solve(Kuu, Kuo)
    Qff = Kuf.mT @ torch.linalg.solve(Kuu, Kuf)
    twice = -N * torch.log(2 * math.pi * noise) - new.y @ new.y / noise
    twice = twice - torch.logdet(A) + torch.logdet(Kuu) + c @ torch.linalg.solve(A, c)
    twice = twice - (kff.sum() - Qff.diagonal().sum()) / noise - torch.trace(P @ (Koo - Quu))
    twice = twice + torch.logdet(old.Kuu) - torch.logdet(q.S) - q.m @ s
    assert ours.item() == pytest.approx(0.5 * twice.item(), rel=1e-6)


@pytest.mark.parametrize("objective", [online_elbo, minibatch_elbo, whitened_elbo])
def test_objectives_are_differentiated_all_the_way_to_z_and_hyperparameters(objective):
    online, _ = fitted(60, 8)
    step = second_epoch(online, scattered(15, 1), moved=True, learns=frozenset({"Z", "q"}))
    step.draw = lambda: step.inputs.new
    with torch.no_grad():
        step.learned.Z.add_(0.02 * scattered(8, 4).X)
    parameters = step.parameters()
    objective(step).backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    generator = torch.Generator().manual_seed(0)
    for chosen in range(len(parameters)):  # each alone, along a random direction
        direction = torch.randn(parameters[chosen].shape, generator=generator).double()
        expected = (gradients[chosen] * direction).sum().item()
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                parameters[chosen].add_(sign * 1e-5 * direction)
                losses.append(objective(step).item())
                parameters[chosen].sub_(sign * 1e-5 * direction)
        finite = (losses[0] - losses[1]) / 2e-5
        assert finite == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_marginal_likelihood_is_that_of_the_exact_gp():
    online, data = fitted(60, 6)
    with torch.no_grad():
        K = online.model.kernel.forward(data.X, data.X)
    covariance = K + 0.05 * torch.eye(60)
    normal = torch.distributions.MultivariateNormal(torch.zeros(60).double(), covariance)
    loss = marginal_likelihood_loss(K, torch.tensor(0.05).double(), data.y)
    assert -60 * loss.item() == pytest.approx(normal.log_prob(data.y).item(), rel=1e-10)


@pytest.mark.parametrize("method", ["ssgp++", "poam-online-elbo"])
def test_the_online_elbo_never_meets_an_indefinite_matrix(method):
    # Repeated and crowded data, tiny noise, rank-deficient Z: what breaks a difference of inverses.
    online = make_online(60, method=method, noise=1e-3, steps=3)
    for k in range(12):
        data = scattered(40, k)
        crowded = Dataset(0.05 * data.X + 0.3 * (k % 3), data.y)
        online.update(crowded)
        assert online.model.extra_jitter == 0.0
    assert online.predict(scattered(50, 99).X).variance.isfinite().all()
