"""Pings with noise of their own against an exact heteroscedastic Gaussian process."""

from dataclasses import replace
from functools import partial

import problems
import pytest
import torch
from problems import same, scattered

from poam_ros.models.interface import Dataset
from poam_ros.models.nngp.kernel import at, covariance
from poam_ros.models.nngp.sites import SiteStore
from poam_ros.models.registry import NeighbourOptions

built = partial(problems.built, replace(problems.SHORT, neighbours=32))


def noises(count, seed=3):
    """Variances over four decades, one in five of them not known."""
    generator = torch.Generator().manual_seed(seed)
    noise = 10 ** (4 * torch.rand(count, generator=generator).double() - 3)
    noise[::5] = 0.0
    return noise


def noisy(count, seed):
    data = scattered(count, seed)
    noise = noises(count, seed)
    return Dataset(data.X, data.y + noise.sqrt() * scattered(count, seed + 50).y, noise)


def dense(kernel, data, x):
    """Means and variances at x of the exact process, every ping with the noise of its own.

    Pings of one noise at one place share the ground; between others at one place the kernel has a
    tiny nugget (``NEAR``), which is its own business.
    """
    points = at(kernel, torch.cat([data.X, x]))
    whole = covariance(kernel, points, points)
    n = len(data)
    ping = torch.cat([data.X, data.noise.unsqueeze(-1)], 1)
    one = (ping.unsqueeze(0) == ping.unsqueeze(1)).all(-1)
    whole[:n, :n] = torch.where(one, (2 * points.log_s[:n]).exp(), whole[:n, :n])
    whole = whole + 1 / kernel.mean_precision
    K = whole[:n, :n] + torch.diag(kernel.noise + data.noise)
    b = torch.linalg.solve(K, whole[:n, n:])
    return b.mT @ data.y, whole.diagonal()[n:] - (whole[:n, n:] * b).sum(0)


@pytest.mark.usefixtures("backend")
def test_with_all_data_as_neighbours_it_is_the_exact_process():
    model, data = built(), noisy(30, 1)
    for part in (slice(0, 17), slice(17, 18), slice(18, 30)):
        model.update(data[part])
    kernel, x = model._averaged(), 1.2 * scattered(25, 2).X
    mean, variance = dense(kernel, data, x)
    found = model.predict(x, noise=False)
    torch.testing.assert_close(found.mean, mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.variance, variance, rtol=0, atol=1e-9)
    joint = model.covariance(x, noise=False).diagonal()
    torch.testing.assert_close(joint, variance, rtol=0, atol=1e-9)
    # With noise: of a ping that has none of its own.
    torch.testing.assert_close(model.predict(x).variance, variance + kernel.noise)
    bare = dense(kernel, Dataset(data.X, data.y, torch.zeros_like(data.y)), x)[0]
    assert (bare - mean).abs().max() > 0.05


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("kinds", [(0.04,), (0.0, 0.04, 3.0)])
def test_repeated_places_are_exact_whatever_is_learned(kinds):
    """Equal noises at one place are one site, unlike ones are sites of their own."""
    at, own = scattered(5, 1).X.repeat_interleave(6, 0), torch.tensor(kinds).double()
    data = Dataset(at, scattered(30, 4).y, own[torch.arange(30) % len(own)])
    model = built()
    for part in (slice(0, 8), slice(8, 30)):
        model.update(data[part])
    assert len(model._store) == 5 * len(kinds)
    x = scattered(25, 2).X
    for more in (0, 1):
        kernel = model._averaged()
        found = model.predict(x, noise=False)
        mean, variance = dense(kernel, data, x)
        torch.testing.assert_close(found.mean, mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(found.variance, variance, rtol=0, atol=1e-8)
        if not more:  # the learned noise moves, and the sites stay right
            model.update(data[29:])
            data = Dataset(*(torch.cat([a, a[29:]]) for a in (data.X, data.y, data.noise)))
            assert model._averaged().noise != kernel.noise


def test_a_vehicle_that_stands_still_while_its_noise_drifts():
    drifting = torch.linspace(0.02, 0.2, 600).double()
    y = 0.5 + drifting.sqrt() * torch.randn(600, generator=torch.Generator().manual_seed(0))
    store = SiteStore()
    for part in torch.arange(600).chunk(13):
        store.append(Dataset(torch.zeros(len(part), 2).double(), y[part], drifting[part]))
    sites = store.sites
    assert len(sites.y) <= 9
    # The mean of a site has the variance that is said of it, and all together lose 3 % at most.
    count = 1 / sites.noise
    assert count.sum() == 600
    for s2 in (1e-6, 0.01, 1.0):
        at_most = 1 / (1 / (s2 + drifting)).sum()
        together = 1 / (1 / (s2 * sites.noise + sites.own)).sum()
        assert at_most <= together <= 1.03 * at_most
    model = built()
    model.update(scattered(30, 1))
    model.update(Dataset(torch.zeros(600, 2).double(), y, drifting))
    found = model.predict(torch.zeros(1, 2).double())
    assert found.mean.item() == pytest.approx(0.5, abs=0.1)


def test_without_any_known_noise_nothing_changes():
    bare, zero = built(), built()
    for seed in range(3):
        data = scattered(40, seed)
        bare.update(data)
        zero.update(Dataset(data.X, data.y, torch.zeros(40).double()))
    same(bare, zero)
    assert bare._store.sites.own is None


def test_a_ping_with_huge_noise_changes_nothing():
    data, spot = scattered(20, 1), torch.tensor([[0.1, 0.2]]).double()
    still = NeighbourOptions(first_steps=0, early_steps=0)
    model, twin = (problems.built(still) for _ in range(2))
    twin.update(data)
    model.update(data)
    model.update(Dataset(spot, torch.full((1,), 50.0).double(), torch.full((1,), 1e12).double()))
    found, expected = (m.predict(spot) for m in (model, twin))
    torch.testing.assert_close(found.mean, expected.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(found.variance, expected.variance, rtol=0, atol=1e-8)
