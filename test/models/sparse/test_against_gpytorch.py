"""GPyTorch as the oracle of the ELBO, its gradients, predictions and POAM's updates."""

import gpytorch
import pytest
import torch
from gpytorch_poam import ReferencePOAM
from problems import make_online, scattered

from poam_ros.models.sparse.training import minibatch_elbo
from poam_ros.models.sparse.variational import Epoch

SIZES = [(20, 60), (500, 1500)]


class Oracle(gpytorch.models.ApproximateGP):
    """The same model in gpytorch's own classes, in training mode."""

    def __init__(self, ours):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(ours.Z))
        strategy = gpytorch.variational.UnwhitenedVariationalStrategy(
            self, ours.Z.clone(), distribution, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = ours.kernel
        self.likelihood = ours.likelihood
        self.double()
        distribution.variational_mean.data = ours.q.m
        distribution.chol_variational_covar.data = torch.linalg.cholesky(ours.q.S)
        strategy.variational_params_initialized.fill_(1)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exactly():
    """No approximation in gpytorch: Cholesky everywhere."""
    return gpytorch.settings.fast_computations(False, False, False)


def trained(num_inducing: int, count: int):
    """A model after three batches, with hyperparameters that have moved on since."""
    online = make_online(num_inducing, steps=3, minibatch=64)
    data = scattered(count, 0)
    for part in torch.arange(count).chunk(3):
        online.update(data[part])
    return online


@pytest.mark.parametrize(("num_inducing", "count"), SIZES)
def test_elbo_and_its_gradients(num_inducing, count):
    model, batch = trained(num_inducing, count), scattered(256, 5)
    oracle = Oracle(model).train()
    elbo = gpytorch.mlls.VariationalELBO(oracle.likelihood, oracle, num_data=count)
    parameters = list(model.parameters())

    with exactly():
        expected = -elbo(oracle(batch.X), batch.y)
        expected_gradients = torch.autograd.grad(expected, parameters)

    model.draw = lambda: batch
    loss = minibatch_elbo(Epoch(model, None, None, None))
    gradients = torch.autograd.grad(loss, parameters)

    assert loss.item() == pytest.approx(expected.item(), abs=1e-8)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-8 * scale)


@pytest.mark.parametrize(("num_inducing", "count"), SIZES)
def test_predictions(num_inducing, count):
    model = trained(num_inducing, count)
    oracle = Oracle(model).train()
    X = scattered(300, 9).X
    with exactly(), torch.no_grad():
        expected = oracle(X)
    ours = model.predict(X, noise=False)
    torch.testing.assert_close(ours.mean, expected.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(ours.variance, expected.variance, rtol=0, atol=1e-8)
    noisy = model.predict(X)
    torch.testing.assert_close(noisy.variance, ours.variance + model.noise.detach())


def test_the_reference_is_poam():
    # The same hyperparameters and Z, two batches: the same map, but for where jitter is added.
    # (Which Z is chosen hangs on a tie: the first pivot may be any point.)
    ours = make_online(60, noise=0.05)
    kernel = ours.kernel
    reference = ReferencePOAM(60, kernel.lengthscales, steps=0, minibatch=64)
    theirs = reference.model.covar_module
    theirs.base_kernel.network.load_state_dict(kernel.network.state_dict())
    theirs.outputscale = kernel.amplitude.item()
    reference.model.likelihood.noise = 0.05
    data, X = scattered(150, 0), scattered(200, 1).X
    for part in torch.arange(150).chunk(2):
        ours.update(data[part])
        reference.model.variational_strategy.inducing_points.data = ours.Z.clone()
        reference.update_variational(data[part])
    reference.train()
    expected, found = ours.predict(X), reference.predict(X)
    torch.testing.assert_close(found.mean, expected.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(found.variance, expected.variance, rtol=0, atol=1e-3)
