"""Soundings that contradict each other under a smooth kernel and little noise."""

import logging
from dataclasses import replace

import pytest
import torch
from problems import scattered

from poam_ros.models.data import Dataset
from poam_ros.models.nngp import conditional
from poam_ros.models.nngp.conditional import condition, log_loss
from poam_ros.models.nngp.fields import ParameterLayout
from poam_ros.models.nngp.index import NumpyIndex
from poam_ros.models.nngp.kernel import Kernel, TrainingData
from poam_ros.models.registry import MODELS, NeighbourOptions

LAYOUT = ParameterLayout(hidden=4, lattice=4)
NOISE = 0.02**2


def smooth(exponent=1.95, noise=NOISE):
    """A stationary kernel of lengthscale 0.8."""
    F = torch.zeros(len(LAYOUT.nodes()), 4).double()
    F[:, 1] = torch.tensor(0.8).log()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (exponent, noise))
    return Kernel(F, *numbers, (0.02, 3.0), 0.05)


def ground(x):
    return 1.5 * (torch.sin(2 * x[:, 0]) + torch.cos(2 * x[:, 1]))


def lines(false, seed=0):
    """Eight lines and three that cross them, with some soundings 0.25 off their place."""
    generator = torch.Generator().manual_seed(seed)
    along = torch.linspace(-1, 1, 150).double()
    rows = [torch.stack([along, torch.full_like(along, y)], 1) for y in torch.linspace(-1, 1, 8)]
    rows += [torch.stack([torch.full_like(along, x), along], 1) for x in (-0.6, 0.1, 0.7)]
    x = torch.cat(rows)
    y = ground(x) + NOISE**0.5 * torch.randn(len(x), generator=generator).double()
    wrong = torch.randperm(len(x), generator=generator)[:false]
    angle = 6.283 * torch.rand(false, generator=generator).double()
    x[wrong] += 0.25 * torch.stack([angle.cos(), angle.sin()], 1)
    return TrainingData(x, y, torch.ones(len(x)).double())


def predicted(sites, x, kernel=None):
    index = NumpyIndex()
    index.add(sites.x)
    near = index.spread(x, 24, 96)
    return condition(kernel or smooth(), sites, x, near), sites.y[near]


def unguarded(patch):
    """Torch, without leaving out neighbours and limiting means."""
    patch.setattr(conditional.native, "usable", lambda neighbours: False)
    for name in ("MAX_T", "REACH"):
        patch.setattr(conditional, name, 1e9)


@pytest.fixture
def plain(monkeypatch):
    """Predictions that trust every sounding."""

    def compute(*arguments):
        with monkeypatch.context() as patch:
            unguarded(patch)
            return predicted(*arguments)[0]

    return compute


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_false_soundings_make_neither_land_nor_pits(seed, plain):
    sites, x = lines(40, seed), scattered(400, 9).X
    found, targets = predicted(sites, x)
    reach = 4.0001 * found.variance.sqrt()
    assert (found.mean >= targets.amin(1) - reach).all()
    assert (found.mean <= targets.amax(1) + reach).all()
    without = plain(sites, x)
    error, before = (p.mean - ground(x) for p in (found, without))
    clean = predicted(lines(0, seed), x)[0]
    assert error.abs().mean() < 0.5 * before.abs().mean()
    loss, loss_before, loss_clean = (
        log_loss(ground(x), p.mean, p.variance).mean() for p in (found, without, clean)
    )
    assert loss_clean < loss < loss_before - 5
    assert found.snooped > 0


def test_a_clean_record_is_predicted_as_before_to_the_last_bit(plain, monkeypatch):
    sites, x = lines(0), scattered(400, 9).X
    before = plain(sites, x)
    monkeypatch.setattr(conditional.native, "usable", lambda neighbours: False)
    found, _ = predicted(sites, x)
    assert found.snooped == found.limited == 0
    assert torch.equal(found.mean, before.mean)
    assert torch.equal(found.variance, before.variance)


def test_compiled_equals_torch(monkeypatch):
    if not conditional.native.available():
        pytest.skip("no compiled kernel")
    own = torch.linspace(0, 0.01, 1650).double()
    sites, x = replace(lines(40, 4), own=own), scattered(700, 3).X
    compiled, _ = predicted(sites, x)
    monkeypatch.setattr(conditional.native, "usable", lambda neighbours: False)
    found, _ = predicted(sites, x)
    assert found[3:] == compiled[3:]
    assert found.snooped > 0
    torch.testing.assert_close(compiled.mean, found.mean, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(compiled.variance, found.variance, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("backend")
def test_a_mean_outside_the_range_of_its_neighbours_is_limited():
    # Two slopes in a row of nearly no noise: the prediction beyond them goes on and on.
    along = torch.linspace(-0.3, 0.0, 24).double()
    sites = TrainingData(
        torch.stack([along, torch.zeros(24).double()], 1),
        40 * along.square(),
        torch.ones(24).double(),
    )
    F = smooth().F.clone()
    F[:, 0] = -4.0
    kernel = replace(smooth(2.0 - 1e-6, 1e-6), F=F)
    x = torch.tensor([[-0.6, 0.0], [-0.15, 0.0]], dtype=torch.float64)
    near = torch.arange(24).expand(2, 24).contiguous()
    found = condition(kernel, sites, x, near)
    reach = 4.0001 * found.variance.sqrt()
    assert (found.mean <= sites.y.max() + reach).all()
    assert (found.mean >= sites.y.min() - reach).all()


def test_a_map_logs_once_that_soundings_contradict_each_other(caplog):
    model = MODELS["nngp"].build(NeighbourOptions(first_steps=60), 0, torch.device("cpu"))
    sites = lines(40)
    with caplog.at_level(logging.INFO):
        model.update(Dataset(sites.x, sites.y))
        for _ in range(2):
            model.predict(scattered(200, 9).X)
    assert caplog.text.count("soundings contradict each other") == 1
