"""The kernels that the Attentive Kernel is compared with, and what every kernel must be."""

import pytest
import torch
from problems import scattered

from poam_ros.models.interface import grid_points
from poam_ros.models.kernels import KERNELS, RBFKernel
from poam_ros.models.registry import SparseOptions

X1, X2 = scattered(30, 0).X, scattered(20, 1).X


def made(name):
    return KERNELS[name](SparseOptions(amplitude=1.3), torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_a_covariance_with_the_amplitude_on_its_diagonal(name):
    kernel = made(name)
    with torch.no_grad():
        K, cross = kernel.forward(X1, X1), kernel.forward(X1, X2)
        torch.testing.assert_close(K, K.mT, rtol=0, atol=1e-14)
        torch.testing.assert_close(K.diagonal(), kernel.amplitude.expand(30))
        torch.testing.assert_close(kernel.forward(X1, X1, diag=True), K.diagonal())
        assert torch.linalg.eigvalsh(K).min() > -1e-10
        Kuu, Kuf = kernel.inducing_covariances(X1, X2)
        torch.testing.assert_close((Kuu, Kuf), (K, cross))
        x, y = torch.linspace(-1, 1, 6).double(), torch.linspace(-1, 0.5, 4).double()
        on_grid = kernel.grid_covariance(X1, x, y)
        torch.testing.assert_close(on_grid.flatten(1), kernel.forward(X1, grid_points(x, y)))


@pytest.mark.parametrize("name", KERNELS)
def test_lengthscales_are_positive_and_begin_within_their_bounds(name):
    lengthscale = made(name).lengthscale_at(X1).detach()
    assert lengthscale.shape == (30,)
    assert 0.05 <= lengthscale.min() <= lengthscale.max() <= 0.5 + 1e-12


def test_rbf_is_its_formula():
    squared = torch.cdist(X1, X2).square()
    K = RBFKernel(0.3, 1.7).forward(X1, X2).detach()
    torch.testing.assert_close(K, 1.7 * (-squared / (2 * 0.3**2)).exp())
