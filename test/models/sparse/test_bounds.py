"""The bounds without q(u): against each other, the uncollapsed ELBO, and finite differences."""

import math

import pytest
import torch
from problems import make_online, scattered

from poam_ros.models.interface import Dataset
from poam_ros.models.linalg import add_jitter
from poam_ros.models.sparse.inducing import Inducing
from poam_ros.models.sparse.model import Learned
from poam_ros.models.sparse.training import (
    collapsed_elbo,
    marginal_likelihood,
    minibatch_elbo,
    online_elbo,
    whitened_elbo,
)
from poam_ros.models.sparse.variational import Epoch

JITTER = 1e-6


def prior(model, Z, X):
    Kuu = add_jitter(model.kernel.forward(Z, Z), JITTER)
    return Kuu, model.kernel.forward(Z, X), model.kernel.forward(X, X, diag=True)


def fitted(count=120, num_inducing=30, method="poam-online-elbo"):
    """A model of one batch, and its epoch again."""
    online, data = make_online(num_inducing, method=method, noise=0.05), scattered(count, 0)
    online.update(data)
    online.draw = lambda: online.data
    return online, Epoch(online, None, None, data)


def titsias(Kuu, Kuf, kff, noise, y):
    """The collapsed ELBO (Titsias, 2009), as it is written: N x N."""
    Qff = Kuf.mT @ torch.linalg.solve(Kuu, Kuf)
    covariance = Qff + noise * torch.eye(len(y), dtype=y.dtype)
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(y), covariance)
    return normal.log_prob(y) - 0.5 * (kff.sum() - Qff.diagonal().sum()) / noise


def learn_q(online):
    """Let an M-step learn q(u), which is the optimal one."""
    m, root = online.whitened_posterior()
    online.learned = Learned({"m": m, "root": torch.linalg.cholesky(root @ root.mT)}, 0.01)


def test_at_the_optimal_q_all_elbos_of_all_data_are_the_collapsed_one():
    online, epoch = fitted()
    K = prior(online, online.Z, online.data.X)
    expected = -titsias(*K, online.noise, online.data.y).item() / 120
    for objective in (collapsed_elbo, online_elbo, minibatch_elbo):
        assert objective(epoch).item() == pytest.approx(expected, rel=1e-9)
    learn_q(online)
    assert whitened_elbo(epoch).item() == pytest.approx(expected, rel=1e-9)


def second_epoch(online, new, moved=False):
    """A second epoch, Z as it is."""
    old = online.epoch
    if moved:
        with torch.no_grad():
            online.kernel.raw_amplitude.add_(0.2)
            online.likelihood.noise = 0.08
    with torch.no_grad():
        chosen = Inducing.all_of(online.kernel, online.Z, new.X).chosen(torch.arange(len(old.Z)))
    return Epoch(online, old, chosen, new)


@pytest.mark.parametrize("method", ["poam-online-elbo", "ssgp++", "ovc++"])
def test_with_z_and_hyperparameters_fixed_the_elbos_add_up(method):
    online, first = fitted(method=method)
    new = scattered(40, 1)
    head, tail = online_elbo(first), online_elbo(second_epoch(online, new))
    whole = online_elbo(Epoch(online, None, None, first.new.more(new)))
    assert 120 * head.item() + 40 * tail.item() == pytest.approx(160 * whole.item(), rel=1e-8)


def test_online_elbo_against_the_formula_with_its_inverses():
    # 2 ELBO as in the docstring, with S'^-1 - K'^-1 subtracted: fine for a handful of points.
    online, _ = fitted(60, 6)
    new, old, q = scattered(15, 1), online.epoch, online.q
    step = second_epoch(online, new, moved=True)
    ours = -15 * online_elbo(step)
    noise = online.noise
    Z, N = old.Z, 15
    Kuu, Kuf, kff = prior(online, Z, new.X)
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
    step = second_epoch(online, scattered(15, 1), moved=True)
    online.draw = lambda: step.new
    learn_q(online)
    online.learned.leaves["Z"] = (online.Z + 0.02 * scattered(8, 4).X).requires_grad_()
    parameters = [*online.parameters(), *online.learned.leaves.values()]
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
    online, epoch = fitted(60, 6)
    K = online.kernel.forward(online.data.X, online.data.X).detach()
    covariance = K + 0.05 * torch.eye(60)
    normal = torch.distributions.MultivariateNormal(torch.zeros(60).double(), covariance)
    expected = normal.log_prob(online.data.y).item()
    assert -60 * marginal_likelihood(epoch).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("method", ["ssgp++", "poam-online-elbo"])
def test_the_online_elbo_never_meets_an_indefinite_matrix(method):
    # Repeated and crowded data, tiny noise, rank-deficient Z: what breaks a difference of inverses.
    online = make_online(60, method=method, noise=1e-3, steps=3)
    for k in range(12):
        data = scattered(40, k)
        crowded = Dataset(0.05 * data.X + 0.3 * (k % 3), data.y)
        online.update(crowded)
        assert online.extra_jitter == 0.0
    assert online.predict(scattered(50, 99).X).variance.isfinite().all()
