"""The sparse Gaussian process: kernel, noise, inducing inputs and q(u). It holds no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn

from ..interface import Prediction
from ..kernels import ElevationKernel
from ..linalg import (
    Factor,
    IndefiniteFactor,
    add_jitter,
    cholesky,
    factorise_indefinite,
    mirrored_,
    solve_posdef,
    syrk,
    trsm,
)

#: Points predicted at a time.
CHUNK = 1000


@dataclass(frozen=True)
class Posterior:
    """q(u) = N(m, S) with S = R R^T, which is positive definite by construction.

    m [M], root R [M, M] (lower triangular), logdet = log |S|.
    """

    m: Tensor
    root: Tensor
    logdet: Tensor

    @classmethod
    def of_whitened(cls, L: Tensor, m: Tensor, root: Tensor) -> Posterior:
        """The posterior of u = L v with q(v) = N(m, R R^T); L and R [M, M] lower triangular."""
        logdet = 2 * (L.diagonal().log().sum() + root.diagonal().abs().log().sum())
        return cls(L @ m, L @ root, logdet)

    @property
    def S(self) -> Tensor:
        """The covariance S [M, M]."""
        return self.root @ self.root.mT


class _Predictor(NamedTuple):
    """Terms common to all predictions: c = Kuu^-1 m and Q = Kuu^-1 - Kuu^-1 S Kuu^-1, factorised.

    Z and c are in the order of the factor.
    """

    Z: Tensor
    c: Tensor
    Q: IndefiniteFactor


class SparseGP(nn.Module):
    """A sparse GP with a Gaussian likelihood (Sec. III-D).

    Args:
        kernel: the covariance function.
        noise_variance: initial variance of the observation noise.
        jitter: added to the diagonal of every Kuu.

    Attributes:
        extra_jitter: the largest that ``factorise`` has added since it was last set to 0.
    """

    def __init__(self, kernel: ElevationKernel, noise_variance: float, jitter: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.likelihood = GaussianLikelihood().double()
        self.likelihood.noise = noise_variance
        self.jitter = jitter
        self.extra_jitter = 0.0
        self.Z: Tensor = kernel.amplitude.new_empty(0, 2)
        self.q: Posterior | None = None
        self._predictor: _Predictor | None = None

    @property
    def noise(self) -> Tensor:
        """The noise variance, a positive scalar."""
        return self.likelihood.noise.squeeze()

    def condition(self, Z: Tensor, q: Posterior | None) -> None:
        """Set the inducing inputs Z [M, D] and the posterior of their outputs."""
        self.Z, self.q = Z, q
        self.hyperparameters_changed()

    def move(self, Z: Tensor) -> None:
        """Set the inducing inputs Z [M, D] alone; q(u) is still that of the earlier ones."""
        self.Z = Z
        self.hyperparameters_changed()

    def hyperparameters_changed(self) -> None:
        """Discard the terms common to all predictions."""
        self._predictor = None

    def factorise(self, K: Tensor, name: str) -> Factor:
        """Cholesky factor of K [M, M], jitter included; extra jitter is recorded."""
        factor = cholesky(K, name)
        self.extra_jitter = max(self.extra_jitter, factor.jitter)
        return factor

    def prior(self) -> tuple[Tensor, Factor]:
        """Kuu [M, M] with jitter, under the present hyperparameters, and its factor."""
        Kuu = add_jitter(self.kernel.forward(self.Z, self.Z), self.jitter)
        return Kuu, self.factorise(Kuu, "Kuu")

    def whitened_posterior(self) -> tuple[Tensor, Tensor]:
        """Mean [M] and root [M, M], lower triangular, of v = L^-1 u with Kuu = L L^T."""
        assert self.q is not None
        L = self.prior()[1].L
        m = trsm(L, self.q.m.unsqueeze(-1)).squeeze(-1)
        return m, trsm(L, self.q.root).tril()

    @torch.no_grad()
    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D] (Eq. 4), in chunks; with noise, of y instead of f.

        Raises:
            ValueError: X has the wrong shape, or there is no posterior yet.
            CholeskyError: Kuu is not positive definite.
        """
        predictor = self._shared("predict")
        if X.ndim != 2 or X.shape[1] != self.Z.shape[1]:
            raise ValueError(
                f"SparseGP.predict: expected X [N, {self.Z.shape[1]}], got {list(X.shape)}"
            )
        mean, variance = X.new_empty(len(X)), X.new_empty(len(X))
        for start in range(0, len(X), CHUNK):
            part = slice(start, start + CHUNK)
            Kuf = self.kernel.forward(predictor.Z, X[part])
            kff = self.kernel.forward(X[part], X[part], diag=True)
            mean[part], variance[part] = self._marginals(Kuf, kff, predictor)
        return Prediction(mean, variance + self.noise if noise else variance)

    @torch.no_grad()
    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows], in tiles.

        As ``predict`` at its points, but with fewer exponentials.

        Raises:
            ValueError: there is no posterior yet.
            CholeskyError: Kuu is not positive definite.
        """
        predictor = self._shared("predict_grid")
        mean, variance = x.new_empty(len(y), len(x)), x.new_empty(len(y), len(x))
        rows, columns = 32, 64  # of a tile
        for row in range(0, len(y), rows):
            for column in range(0, len(x), columns):
                part = (slice(row, row + rows), slice(column, column + columns))
                x_part, y_part = x[part[1]], y[part[0]]
                Kuf = self.kernel.grid_covariance(predictor.Z, x_part, y_part).flatten(1)
                kff = self.kernel.amplitude.expand(Kuf.shape[1])
                marginals = self._marginals(Kuf, kff, predictor)
                mean[part], variance[part] = (m.reshape(mean[part].shape) for m in marginals)
        return Prediction(mean, variance + self.noise if noise else variance)

    @torch.no_grad()
    def covariance(self, X: Tensor, noise: bool = True) -> Tensor:
        """The joint predictive covariance at X [N, D] (Eq. 4), Kff - Kfu Q Kuf [N, N].

        Raises:
            ValueError: there is no posterior yet.
            CholeskyError: Kuu is not positive definite.
        """
        predictor = self._shared("covariance")
        Kuf = self.kernel.forward(predictor.Z, X)
        covariance = self.kernel.forward(X, X) - predictor.Q.congruent_(Kuf)
        return add_jitter(covariance, self.noise.item()) if noise else covariance

    def _marginals(self, Kuf: Tensor, kff: Tensor, predictor: _Predictor) -> tuple[Tensor, Tensor]:
        """Mean Kfu c and variance kff - diag(Kfu Q Kuf), both [N]; Kuf [M, N] is overwritten."""
        mean = Kuf.mT @ predictor.c
        # Rounding may leave a variance just below zero next to a noise-free sample.
        return mean, (kff - predictor.Q.quadratic_(Kuf)).clamp_min(0.0)

    def _shared(self, caller: str) -> _Predictor:
        if self.q is None:
            raise ValueError(f"SparseGP.{caller}: no data yet, expected an update before")
        if self._predictor is None:
            L = self.prior()[1].L
            # Q = L^-T (I - L^-1 S L^-T) L^-1: subtracting whitened matrices costs least accuracy.
            root = trsm(L, self.q.root)
            rest = syrk(root, -1.0, torch.eye(len(L)).to(L))
            half = trsm(L, mirrored_(rest), transposed=True)
            Q = factorise_indefinite(trsm(L, half.mT, transposed=True))
            c = solve_posdef(L, self.q.m.unsqueeze(-1)).squeeze(-1)
            self._predictor = _Predictor(self.Z[Q.order], c[Q.order], Q)
        return self._predictor
