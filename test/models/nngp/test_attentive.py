"""The Attentive Kernel over rough bases as the kernel of the nearest-neighbour model."""

from dataclasses import replace

import pytest
import torch
from problems import scattered

from poam_ros.models.data import Dataset
from poam_ros.models.kernels import AttentiveKernel
from poam_ros.models.native import neighbours as native
from poam_ros.models.nngp import attentive, conditional
from poam_ros.models.nngp.conditional import condition, gradient, joint_covariance
from poam_ros.models.nngp.index import SiteStore
from poam_ros.models.nngp.kernel import EVERYTHING, Kernel, Share, Sites, at, between
from poam_ros.models.registry import MODELS, NeighbourOptions

BASES = attentive.bases(0.02, 3.0, 6)
SHORT = NeighbourOptions(
    neighbour_kernel="attentive", first_steps=15, early_steps=3, update_steps=2, hidden=8, lattice=8
)


def varied(exponent=1.3, seed=0, side=5):
    generator = torch.Generator().manual_seed(seed)
    F = torch.randn(side * side, 1 + len(BASES), generator=generator).double()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (exponent, 0.05))
    return Kernel(F, *numbers, (0.02, 3.0), 0.05, BASES)


def matrix(kernel, x):
    here = at(kernel, x)
    return between(kernel, x, here, x, here, same=True)


def ground(count, seed):
    X = scattered(count, seed).X
    return Dataset(X, torch.sin(3 * X[:, 0]) + 0.5 * torch.cos(5 * X[:, 1]))


def fed(*batches, options=SHORT):
    model = MODELS["nngp"].build(options, 0, torch.device("cpu"))
    for batch in batches:
        model.update(batch)
    return model


@pytest.mark.parametrize("exponent", [0.3, 1.0, 1.9])
def test_symmetric_and_positive_definite(exponent):
    K = matrix(varied(exponent), scattered(150, 1).X)
    torch.testing.assert_close(K, K.mT, rtol=0, atol=1e-14)
    assert torch.linalg.eigvalsh(K).min() > 0


def test_its_diagonal_is_the_amplitude_squared():
    kernel, x = varied(), scattered(20, 1).X
    here = at(kernel, x)
    torch.testing.assert_close(matrix(kernel, x).diagonal(), (2 * here.log_s).exp())
    torch.testing.assert_close(here.weights.norm(dim=-1), torch.ones(20).double())


def test_with_the_exponent_two_it_is_the_papers():
    papers = AttentiveKernel(0.1, 0.5, 5, 1.0, torch.Generator().manual_seed(0))
    x1, x2 = scattered(30, 1).X, scattered(20, 2).X
    with torch.no_grad():
        expected = papers(x1, x2).to_dense()
        at1, at2 = (attentive.Local(x.new_zeros(len(x)), papers.weights(x)) for x in (x1, x2))
    # Its bases are exp(-r^2 / (2 l^2)).
    lengths, two = papers.lengthscales * 2**0.5, torch.tensor(2.0).double()
    found = attentive.covariance(x1, at1, x2, at2, two, lengths, same=False)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@pytest.mark.usefixtures("backend")
def test_a_conditional_is_the_exact_one():
    kernel, data, x = varied(), ground(24, 1), scattered(5, 2).X
    sites = Sites(data.X, data.y, torch.ones(24).double())
    near = torch.arange(24).expand(5, 24).contiguous()
    found = condition(kernel, sites, x, near)
    K = matrix(kernel, torch.cat([data.X, x])) + 1 / kernel.mean_precision
    own, cross = K[:24, :24] + 0.05 * torch.eye(24).double(), K[:24, 24:]
    b = torch.linalg.solve(own, cross)
    torch.testing.assert_close(found.mean, b.mT @ data.y, rtol=0, atol=1e-9)
    expected = K[24:, 24:] - cross.mT @ b
    torch.testing.assert_close(found.variance, expected.diagonal(), rtol=0, atol=1e-9)
    joint = joint_covariance(kernel, sites, x, near)
    torch.testing.assert_close(joint.covariance, expected, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("backend")
def test_gradient_against_finite_differences():
    kernel, data = varied(), ground(120, 3)
    store = SiteStore()
    store.append(data)
    left_out = torch.arange(0, 120, 5)
    near = store.spread(data.X[left_out], 24, 96, EVERYTHING, torch.zeros(24).double())
    found, h = gradient(kernel, store.sites, left_out, near), 1e-5

    def slope(name, value, step):
        losses = [
            gradient(replace(kernel, **{name: value + sign * step}), store.sites, left_out, near)
            for sign in (1, -1)
        ]
        return (losses[0].loss - losses[1].loss) / (2 * h)

    assert found.exponent == pytest.approx(slope("exponent", kernel.exponent, h), abs=1e-6)
    assert found.noise == pytest.approx(slope("noise", kernel.noise, h), abs=1e-5)
    for seed in range(3):
        way = torch.randn(kernel.F.shape, generator=torch.Generator().manual_seed(seed)).double()
        assert (found.F * way).sum().item() == pytest.approx(
            slope("F", kernel.F, h * way), abs=1e-6
        )


@pytest.mark.skipif(not native.available(), reason="no compiled kernel")
@pytest.mark.parametrize(("seed", "bases", "exponent"), [(0, 1, 1.3), (1, 8, 0.7), (2, 16, 1.9)])
def test_compiled_equals_torch(seed, bases, exponent, monkeypatch):
    generator = torch.Generator().manual_seed(seed)
    F = 2 * torch.randn(49, 1 + bases, generator=generator).double()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (exponent, 0.05))
    kernel = Kernel(F, *numbers, (0.02, 3.0), 0.05, attentive.bases(0.02, 3.0, bases))
    X = scattered(300, seed).X
    y, noise, own = torch.rand(3, 300, generator=generator).double()
    sites, store = Sites(X, y, noise, own), SiteStore()
    store.append(Dataset(X, y))
    x = torch.cat([2 * scattered(60, 9).X, torch.tensor([[50.0, 0.0], [0.0, -1e6]]).double()])
    near, left_out = store.spread(x, 24, 96, EVERYTHING), torch.arange(0, 300, 7)
    others = store.spread(X[left_out], 24, 96, Share(0.5, 0.3))
    others[:, 20:] = -1
    assert native.usable(kernel, 24)
    compiled = condition(kernel, sites, x, near), gradient(kernel, sites, left_out, others)
    monkeypatch.setattr(conditional.native, "usable", lambda kernel, neighbours: False)
    plain = condition(kernel, sites, x, near), gradient(kernel, sites, left_out, others)
    for found, expected in zip((*compiled[0], *compiled[1]), (*plain[0], *plain[1]), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not native.available(), reason="no compiled kernel")
def test_more_bases_than_are_compiled_are_torchs():
    lengths = attentive.bases(0.02, 3.0, native.MAX_BASES + 1)
    assert not native.usable(replace(varied(), bases=lengths), 24)


def test_it_learns_a_smooth_ground():
    model = fed(ground(300, 1), options=replace(SHORT, first_steps=120, hidden=32, lattice=24))
    truth = ground(200, 2)
    found = model.predict(truth.X)
    assert (found.mean - truth.y).square().mean() < 0.02 * truth.y.var()
    assert model._averaged().exponent > 1.0
    assert set(model.fields(truth.X)) == {"lengthscale", "amplitude"}
    assert (model.fields(truth.X)["lengthscale"] > 0.02).all()


def test_a_new_map_has_the_initial_lengthscale():
    options = replace(SHORT, first_steps=0, attentive_bases=20, initial_lengthscale=0.3)
    found = fed(ground(30, 1), options=options).fields(scattered(50, 2).X)["lengthscale"]
    assert found.mean().item() == pytest.approx(0.3, rel=0.3)


def test_state_rollback_and_seed():
    one, other = fed(ground(60, 1)), fed(ground(60, 1))
    state, x = one.state(), scattered(30, 4).X
    bad = ground(10, 2)
    bad.y[:] = float("nan")
    with pytest.raises(ArithmeticError):
        one.update(bad)
    one.update(ground(7, 5))
    other.update(ground(7, 5))
    assert torch.equal(one.predict(x).mean, other.predict(x).mean)
    other.restore(state)
    other.update(ground(7, 5))
    assert torch.equal(one.predict(x).variance, other.predict(x).variance)
