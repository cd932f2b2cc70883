"""The network of the fields in training, in C and in torch: against autograd and differences."""

import pytest
import torch

from poam_ros.models.nngp.kernel import (
    NativeNetwork,
    Network,
    ParameterLayout,
    Penalties,
    TorchNetwork,
    evaluate,
    exponent,
    noise_variance,
)

PENALTIES = Penalties(field=0.03, anisotropy=0.02, spared=0.9, weight=0.01)
# float32, beside sums over all nodes
ROUNDING = 2e-6
needs_native = pytest.mark.skipif(Network is TorchNetwork, reason="no compiled kernel")
NETWORKS = [
    pytest.param(NativeNetwork, marks=needs_native, id="native"),
    pytest.param(TorchNetwork, id="torch"),
]
# Rows of units are padded to 16, and products go by 4 rows and 64 units at most.
SIZES = [(1, 1), (7, 3), (16, 12), (17, 5), (64, 24), (100, 9)]


def problem(hidden, lattice):
    """A layout, theta, and a gradient of a loss by fields, exponent and noise."""
    layout, generator = ParameterLayout(hidden, lattice), torch.Generator().manual_seed(0)
    theta = layout.initial(0.4, 0.02, generator)
    theta = theta + 0.5 * torch.randn(len(theta), generator=generator).double()
    dF = torch.randn((lattice + 1) ** 2, 4, generator=generator).double()
    return layout, theta, (dF, 0.3, -0.7)


def penalised(layout, theta, found):
    """The loss that has this gradient, with the penalties, in float64."""
    parts = layout.split(theta)
    F = evaluate(parts, layout.nodes())
    varying, anisotropic = F.split(2, dim=1)
    dF, by_exponent, by_noise = found
    loss = (F * dF).sum() + by_exponent * exponent(parts) + by_noise * noise_variance(parts)
    loss = loss + PENALTIES.field / 2 * (varying - varying.mean(0)).square().sum()
    mean = len(F) * anisotropic.mean(0).square().sum()
    squares = anisotropic.square().sum() - PENALTIES.spared * mean
    loss = loss + PENALTIES.anisotropy / 2 * squares
    return loss + PENALTIES.weight / 2 * theta[: layout.weights].square().sum()


def close(found, expected):
    scale = expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING * scale)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("hidden", "lattice"), SIZES)
def test_the_gradient_equals_autograd(network, hidden, lattice):
    layout, theta, found = problem(hidden, lattice)
    made, leaf = network(layout.nodes(), hidden), theta.clone().requires_grad_()
    F = made.evaluate(theta)
    close(F, evaluate(layout.split(theta), layout.nodes()))
    (expected,) = torch.autograd.grad(penalised(layout, leaf, found), leaf)
    close(made.gradient(theta, F, *found, PENALTIES), expected)


@needs_native
def test_tanh_is_accurate_to_a_few_units_in_the_last_place():
    network = NativeNetwork(torch.zeros(4, 2).double(), 1)
    layout = ParameterLayout(1, 1)
    # h1 = 0 and F = tanh(b2).
    theta = torch.zeros(layout.size, dtype=torch.float64)
    parts = layout.split(theta)
    parts["W3"].fill_(1.0)
    for b2 in [*torch.logspace(-30, 2, 300, dtype=torch.float64).tolist(), 0.0, float("inf")]:
        for sign in (1.0, -1.0):
            parts["b2"].fill_(sign * b2)
            expected = parts["b2"].float().double().tanh()
            found = network.evaluate(theta)[0, 0]
            torch.testing.assert_close(found, expected.squeeze(), rtol=6e-7, atol=0)
    parts["b2"].fill_(float("nan"))
    assert network.evaluate(theta).isnan().all()
