"""Conditionals against exact Gaussian processes; their gradient against autograd; C and torch."""

from dataclasses import replace

import pytest
import torch
from problems import scattered

from poam_ros.core.errors import CholeskyError
from poam_ros.models.nngp import conditional
from poam_ros.models.nngp.conditional import condition, gradient, joint_covariance, log_loss
from poam_ros.models.nngp.kernel import (
    Kernel,
    ParameterLayout,
    at,
    covariance,
    evaluate,
    exponent,
    interpolate,
    noise_variance,
)
from poam_ros.models.nngp.sites import NumpyIndex, Subset, TrainingData

LAYOUT = ParameterLayout(hidden=16, lattice=12)
LENGTHS = (0.02, 3.0)


def rough_kernel(seed=0, spread=0.5, precision=0.05, layout=LAYOUT):
    generator = torch.Generator().manual_seed(seed)
    theta = layout.initial(0.4, 0.02, generator)
    theta = theta + spread * torch.randn(len(theta), generator=generator).double()
    parts = layout.split(theta)
    F = evaluate(parts, layout.nodes())
    return Kernel(F, exponent(parts), noise_variance(parts), LENGTHS, precision)


def sites_at(X, seed=1, own=False):
    """``own``: with noise of their own over four decades, one in five without."""
    generator = torch.Generator().manual_seed(seed)
    noise = 0.3 + torch.rand(len(X), generator=generator).double()
    y, further = 0.1 * torch.randn(len(X), generator=generator).double(), None
    if own:
        further = 10 ** (4 * torch.rand(len(X), generator=generator).double() - 3)
        further[::5] = 0.0
    return TrainingData(X, y, noise, further)


def of_site(kernel, sites, which):
    """The variances of the noise of some sites."""
    own = 0.0 if sites.own is None else sites.own[which]
    return kernel.noise * sites.noise[which] + own


def dense(kernel, sites, x, near):
    """Mean and variance of one query by the textbook, the local mean as one more covariance."""
    points = at(kernel, torch.cat([sites.x[near], x[None]]))
    whole = covariance(kernel, points, points)
    whole = whole + 1 / kernel.mean_precision
    K = whole[:-1, :-1] + torch.diag(of_site(kernel, sites, near)) + kernel.shared(near)
    b = torch.linalg.solve(K, whole[:-1, -1])
    return b @ sites.y[near], whole[-1, -1] - b @ whole[:-1, -1]


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("queries", "shared"), [(1, (0.0, 1.0)), (7, (0.0, 1.0)), (8, (0.3, 40.0)), (40, (0.1, 5.0))]
)
def test_conditional_is_a_dense_gaussian_process_of_its_neighbours(queries, shared):
    kernel = replace(rough_kernel(), shared_variance=shared[0], shared_sites=shared[1])
    sites = sites_at(scattered(300, 2).X)
    x = 1.3 * scattered(queries, 3).X
    near = indexed(sites.x).spread(x, 24, 96)
    near[0, 5:] = -1
    found = condition(kernel, sites, x, near)
    for i in range(queries):
        mean, variance = dense(kernel, sites, x[i], near[i][near[i] >= 0])
        assert found.mean[i].item() == pytest.approx(mean.item(), abs=1e-9)
        assert found.variance[i].item() == pytest.approx(variance.item(), abs=1e-9)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("sets", [1, 5, 30])
def test_queries_that_share_neighbours_give_the_same_as_alone(sets):
    kernel, sites, x = rough_kernel(), sites_at(scattered(300, 2).X), scattered(40, 3).X
    near = indexed(sites.x).spread(scattered(sets, 4).X, 24, 96)
    near[0, 5:] = -1
    own = (7 * torch.arange(40) ** 2) % sets  # of 30 sets, some are nobody's
    shared, alone = condition(kernel, sites, x, near, own), condition(kernel, sites, x, near[own])
    for found, expected in zip(vars(shared).values(), vars(alone).values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def indexed(X):
    index = NumpyIndex()
    index.add(X)
    return index


@pytest.mark.usefixtures("backend")
def test_without_neighbours_it_is_the_prior():
    kernel, sites = rough_kernel(), sites_at(scattered(10, 2).X)
    x = scattered(3, 3).X
    found = condition(kernel, sites, x, torch.full((3, 24), -1))
    s = interpolate(kernel.F, x)[:, 0].exp()
    torch.testing.assert_close(found.mean, torch.zeros(3).double())
    torch.testing.assert_close(found.variance, s.square() + 1 / kernel.mean_precision)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("case", ["plain", "own noise", "limited lengthscales, no anisotropy"])
def test_gradient_equals_autograd_through_the_solve(case):
    kernel, sites = rough_kernel(), sites_at(scattered(200, 2).X, own=case == "own noise")
    if "limited" in case:
        kernel.F[:, 1] = torch.linspace(-6, 3, len(kernel.F)).double()
        kernel.F[::2, 2:] = 0.0
    left_out = torch.tensor([3, 50, 3, 120, 7, 8, 9, 10, 199, 0, 77])
    near = indexed(sites.x).spread(sites.x[left_out], 24, 96, 0.0, Subset(0.1, 0.8), True)
    near[2, 4:] = -1
    leaves = [t.clone().requires_grad_() for t in (kernel.F, kernel.exponent, kernel.noise)]
    learned = Kernel(*leaves, kernel.lengths, kernel.mean_precision)
    losses = []
    for site, row in zip(left_out, near, strict=True):
        mean, variance = dense(learned, sites, sites.x[site], row[row >= 0])
        losses.append(log_loss(sites.y[site], mean, variance + of_site(learned, sites, site)))
    loss = torch.stack(losses).mean()
    expected = torch.autograd.grad(loss, leaves)
    found = gradient(kernel, sites, left_out, near)
    assert found.loss == pytest.approx(loss.item(), abs=1e-10)
    torch.testing.assert_close(found.F, expected[0], rtol=0, atol=1e-10)
    assert found.exponent == pytest.approx(expected[1].item(), abs=1e-9)
    assert found.noise == pytest.approx(expected[2].item(), abs=1e-8)


@pytest.mark.skipif(not conditional.compiled(1), reason="no compiled kernel")
@pytest.mark.parametrize(("seed", "tail"), [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.5), (4, 10.0)])
def test_compiled_equals_torch(seed, tail, monkeypatch):
    kernel, sites = rough_kernel(seed, 0.7), sites_at(scattered(500, seed).X, own=seed > 0)
    kernel = replace(kernel, tail=tail)
    x = torch.cat([2 * scattered(60, 9).X, torch.tensor([[50.0, 0.0], [0.0, -1e6]]).double()])
    near = indexed(sites.x).spread(x, 24, 96)
    left_out = torch.arange(0, 500, 7)
    others = indexed(sites.x).spread(sites.x[left_out], 24, 96, 0.0, Subset(0.5, 0.3), True)
    compiled = condition(kernel, sites, x, near), gradient(kernel, sites, left_out, others)
    monkeypatch.setattr(conditional, "compiled", lambda neighbours: False)
    plain = condition(kernel, sites, x, near), gradient(kernel, sites, left_out, others)
    both = ((*vars(of[0]).values(), *of[1]) for of in (compiled, plain))
    for found, expected in zip(*both, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_tail_has_a_long_range_and_without_it_the_kernel_is_exponential():
    x = torch.stack([torch.linspace(0, 1, 60), torch.zeros(60)], 1).double()
    kernel = rough_kernel(spread=0.0)

    def matrix(tail):
        points = at(kernel, x)
        return covariance(replace(kernel, tail=tail), points, points)

    torch.testing.assert_close(matrix(1e-7), matrix(0.0), rtol=1e-5, atol=0)
    assert (matrix(10.0)[0, 1:] > matrix(1.0)[0, 1:]).all()
    assert (matrix(1.0)[0, 1:] > matrix(0.0)[0, 1:]).all()
    assert torch.linalg.eigvalsh(matrix(10.0)).min() > 0


@pytest.mark.usefixtures("backend")
def test_repeated_sites_without_noise_get_jitter():
    X = torch.zeros(30, 2).double()
    sites = TrainingData(X, torch.ones(30).double(), torch.zeros(30).double())
    kernel = rough_kernel()
    near = torch.arange(24).expand(3, 24).contiguous()
    found = condition(kernel, sites, scattered(3, 1).X, near)
    assert found.mean.isfinite().all()
    assert (found.variance > 0).all()


@pytest.mark.usefixtures("backend")
def test_values_that_are_not_finite_raise_an_error():
    X = scattered(30, 1).X
    sites = TrainingData(X, torch.full((30,), float("nan")).double(), torch.ones(30).double())
    near = torch.arange(24).expand(2, 24).contiguous()
    with pytest.raises(CholeskyError, match="2 conditionals of 24 neighbours"):
        condition(rough_kernel(), sites, X[:2], near)


def test_joint_covariance_of_all_data_is_the_exact_one():
    kernel = replace(rough_kernel(), shared_variance=0.3, shared_sites=5.0)
    sites, x = sites_at(scattered(20, 2).X), scattered(5, 3).X
    near = torch.arange(20).expand(5, 20)
    joint = joint_covariance(kernel, sites, x, near)
    single = condition(kernel, sites, x, near.contiguous())
    torch.testing.assert_close(joint.diagonal(), single.variance, rtol=0, atol=1e-9)
    torch.testing.assert_close(joint, joint.mT, rtol=0, atol=1e-12)


def smooth_kernel():
    """A stationary kernel of lengthscale 0.8, nearly without noise."""
    F = torch.zeros(len(LAYOUT.nodes()), 4).double()
    F[:, 1] = torch.tensor(0.8).log()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (2.0 - 1e-6, 1e-6))
    return Kernel(F, *numbers, LENGTHS, 0.05)


@pytest.mark.usefixtures("backend")
def test_false_positions_cause_neither_land_nor_pits():
    """Under a smooth kernel and little noise, weights of contradicting soundings extrapolate."""
    generator = torch.Generator().manual_seed(0)
    along = torch.linspace(-1, 1, 150).double()
    rows = [torch.stack([along, torch.full_like(along, y)], 1) for y in torch.linspace(-1, 1, 8)]
    x = torch.cat(rows)
    y = torch.sin(3 * x[:, 0]) + torch.cos(3 * x[:, 1])
    wrong = torch.randperm(len(x), generator=generator)[:40]
    x[wrong] += 0.25 * torch.randn(40, 2, generator=generator).double()
    places = scattered(400, 9).X
    near = indexed(x).spread(places, 24, 96)
    found = condition(
        smooth_kernel(), TrainingData(x, y, torch.ones(len(x)).double()), places, near
    )
    reach, targets = 4.0001 * found.variance.sqrt(), y[near]
    assert (found.mean >= targets.amin(1) - reach).all()
    assert (found.mean <= targets.amax(1) + reach).all()
