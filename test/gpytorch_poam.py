"""POAM written plainly with GPyTorch and autograd: an oracle of its maps.

The paper's equations on gpytorch's own classes: ``UnwhitenedVariationalStrategy`` for the model,
``VariationalELBO`` for the M-step, ``pivoted_cholesky`` for the inducing inputs, a Cholesky factor
of K' K'^T for the projection, and a kernel that autograd differentiates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpytorch
import torch
from gpytorch.settings import fast_computations, max_cholesky_size
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor, nn

from poam_ros.models.interface import Dataset, Prediction

JITTER = 1e-6
NETWORK_RATE, RATE = 1e-3, 1e-2  # of Adam
HIDDEN = 10  # width of the network's layers


class PlainAttentiveKernel(gpytorch.kernels.Kernel):
    """The Attentive Kernel without its amplitude, each operation one of torch's."""

    is_stationary = False

    def __init__(self, lengthscales: Tensor) -> None:
        super().__init__()
        outputs = len(lengthscales)
        self.register_buffer("lengthscales", lengthscales)
        self.network = nn.Sequential(
            nn.Linear(2, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, outputs), nn.Softmax(dim=-1),
        )  # fmt: skip

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Covariances [N1, N2] of x1 [N1, 2] and x2 [N2, 2]; their diagonal [N1] with ``diag``."""
        if diag:
            return x1.new_ones(len(x1))
        W1, W2 = (nn.functional.normalize(self.network(x), dim=-1) for x in (x1, x2))
        distance = self.covar_dist(x1, x2, **params)
        blend = torch.zeros_like(distance)
        for m, lengthscale in enumerate(self.lengthscales):
            base = torch.exp(-0.5 * (distance / lengthscale).square())
            blend += torch.outer(W1[:, m], W2[:, m]) * base
        return blend * (W1 @ W2.mT)


class _Model(gpytorch.models.ApproximateGP):
    def __init__(self, Z: Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
        for values in distribution.parameters():
            values.requires_grad_(False)
        strategy = gpytorch.variational.UnwhitenedVariationalStrategy(
            self, Z, distribution, learn_inducing_locations=False
        )
        super().__init__(strategy)
        strategy.variational_params_initialized.fill_(1)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True)
class _Old:
    """State of the previous epoch: Z', Kuf y, Kuf Kfu and K'^T (K' K'^T)^-1."""

    Z: Tensor
    Kuf_y: Tensor
    Kuf_Kfu: Tensor
    inverse: Tensor


class ReferencePOAM:
    """POAM on scaled data, in the steps of Algorithm 1.

    Args:
        num_inducing: M, exactly: the first batch needs as many data.
        lengthscales: of the base kernels [P].
        steps, minibatch: of the M-step.
    """

    def __init__(self, num_inducing: int, lengthscales: Tensor, steps: int, minibatch: int) -> None:
        self.num_inducing, self.steps, self.minibatch = num_inducing, steps, minibatch
        kernel = gpytorch.kernels.ScaleKernel(PlainAttentiveKernel(lengthscales))
        self.model = _Model(torch.zeros(num_inducing, 2), kernel).double()
        self.elbo = gpytorch.mlls.VariationalELBO(self.model.likelihood, self.model, num_data=1)
        self._optimizer = self._make_optimizer()
        self._generator = torch.Generator().manual_seed(0)
        self._data: Dataset | None = None
        self._old: _Old | None = None

    def _make_optimizer(self) -> torch.optim.Optimizer:
        learned = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        network = [p for name, p in learned if "network" in name]
        rest = [p for name, p in learned if "network" not in name]
        return torch.optim.Adam(
            [{"params": network, "lr": NETWORK_RATE}, {"params": rest, "lr": RATE}]
        )

    def select(self, new: Dataset) -> None:
        """Pivoted Cholesky on [Z'; X] (Sec. IV-B)."""
        kernel = self.model.covar_module
        points = new.X if self._old is None else torch.cat([self._old.Z, new.X])
        with torch.no_grad():
            pivots = gpytorch.pivoted_cholesky(
                kernel(points), rank=self.num_inducing, return_pivots=True
            )[1]
        self.model.variational_strategy.inducing_points.data = points[pivots[: self.num_inducing]]

    @torch.no_grad()
    def update_variational(self, new: Dataset) -> None:
        """q(u) in closed form, the old data terms projected (Eqs. 6, 7 and 11 to 13)."""
        kernel, noise = self.model.covar_module, self.model.likelihood.noise
        Z = self.model.variational_strategy.inducing_points
        Kuu, Kuf = kernel(Z).to_dense(), kernel(Z, new.X).to_dense()
        Kuf_y, Kuf_Kfu = Kuf @ new.y.unsqueeze(-1), Kuf @ Kuf.mT
        if self._old is not None:
            P = self._old.inverse @ kernel(self._old.Z, Z).to_dense()
            Kuf_y = Kuf_y + P.mT @ self._old.Kuf_y
            Kuf_Kfu = Kuf_Kfu + P.mT @ self._old.Kuf_Kfu @ P
        L = psd_safe_cholesky(Kuu + Kuf_Kfu / noise, jitter=JITTER)
        S = Kuu @ torch.cholesky_solve(Kuu, L)
        q = self.model.variational_strategy._variational_distribution
        q.variational_mean.data = (Kuu @ torch.cholesky_solve(Kuf_y, L) / noise).squeeze(-1)
        q.chol_variational_covar.data = psd_safe_cholesky(S, jitter=JITTER)
        # Saved for the next epoch, before the hyperparameters change
        square = psd_safe_cholesky(Kuu @ Kuu.mT, jitter=JITTER)
        self._old = _Old(Z.clone(), Kuf_y, Kuf_Kfu, torch.cholesky_solve(Kuu, square))
        data = self._data
        self._data = new if data is None else Dataset(
            torch.cat([data.X, new.X]), torch.cat([data.y, new.y])
        )  # fmt: skip

    def train(self) -> None:
        """Adam on the mini-batch ELBO (Eqs. 8 and 9)."""
        assert self._data is not None
        count = self.elbo.num_data = len(self._data)
        self.model.train()
        for _ in range(self.steps):
            batch = self._data[torch.randint(count, (self.minibatch,), generator=self._generator)]
            self._optimizer.zero_grad()
            with fast_computations(False, False, False), max_cholesky_size(10**8):
                loss = -self.elbo(self.model(batch.X), batch.y)
                loss.backward()
            self._optimizer.step()

    def update(self, new: Dataset) -> None:
        """One decision epoch."""
        self.select(new)
        self.update_variational(new)
        self.train()

    @torch.no_grad()
    def predict(self, X: Tensor) -> Prediction:
        """Predictive marginals at X [N, 2], with the noise, mini-batch by mini-batch."""
        self.model.train()  # clears gpytorch's caches of the last update
        self.model.eval()
        parts = []
        with fast_computations(False, False, False), max_cholesky_size(10**8):
            for chunk in X.split(self.minibatch):
                marginal = self.model.likelihood(self.model(chunk))
                parts.append((marginal.mean, marginal.variance))
        means, variances = zip(*parts, strict=True)
        return Prediction(torch.cat(means), torch.cat(variances))
