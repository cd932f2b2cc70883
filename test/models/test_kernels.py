"""What every kernel must be, and the kernels against their formulas."""

import numpy as np
import pytest
import torch
from problems import make_kernel, numpy_kernel, scattered

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


def test_rbf_is_its_formula():
    squared = torch.cdist(X1, X2).square()
    K = RBFKernel(0.3, 1.7).forward(X1, X2).detach()
    torch.testing.assert_close(K, 1.7 * (-squared / (2 * 0.3**2)).exp())


def test_equals_the_formula():
    kernel, X1, X2 = make_kernel(), scattered(40, 0).X, scattered(30, 1).X
    K = kernel.forward(X1, X2).detach().numpy()
    np.testing.assert_allclose(K, numpy_kernel(kernel, X1.numpy(), X2.numpy()), atol=1e-13)


def test_is_a_gpytorch_kernel():
    kernel, X1, X2 = make_kernel(), scattered(20, 0).X, scattered(10, 1).X
    lazily = kernel(X1, X2).to_dense()
    torch.testing.assert_close(lazily, kernel.forward(X1, X2))
    torch.testing.assert_close(kernel(X1, diag=True), kernel.forward(X1, X1).diagonal())
    pairs = kernel.forward(X1[:10], X2, diag=True)
    torch.testing.assert_close(pairs, kernel.forward(X1[:10], X2).diagonal())
    batched = kernel.forward(X1.reshape(2, 10, 2), X2.expand(2, 10, 2))
    torch.testing.assert_close(batched[1], kernel.forward(X1[10:], X2))


def test_lengthscale_is_a_convex_combination():
    kernel, X = make_kernel(sharpness=8.0), scattered(200, 3).X
    lengthscale = kernel.lengthscale_at(X).detach()
    weights = kernel.weights(X).square()
    torch.testing.assert_close(weights.sum(-1), torch.ones(200, dtype=torch.float64))
    assert lengthscale.min() >= 0.05 and lengthscale.max() <= 0.5
    torch.testing.assert_close(lengthscale, (weights * kernel.lengthscales).sum(-1).detach())
