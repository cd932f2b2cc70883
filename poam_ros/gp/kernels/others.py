"""The kernels that the Attentive Kernel is compared with (Chen et al., 2022), and their table."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..sparse.options import SparseOptions
from .attentive import AttentiveKernel
from .base import ElevationKernel, squared_distances, tanh_network


class RBFKernel(ElevationKernel):
    """The stationary kernel: alpha exp(-|x - x'|^2 / (2 l^2)) with one lengthscale l, learned."""

    def __init__(self, lengthscale: float, amplitude: float) -> None:
        super().__init__(amplitude)
        self._register_positive("raw_lengthscale", lengthscale)

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscale l, a positive scalar."""
        return self.raw_lengthscale_constraint.transform(self.raw_lengthscale)

    def lengthscale_at(self, X: Tensor) -> Tensor:
        """The same lengthscale [N] everywhere."""
        return self.lengthscale.expand(X.shape[:-1])

    def _covariance(self, X1: Tensor, X2: Tensor, base: Tensor | None) -> Tensor:
        rate = -0.5 / self.lengthscale.square()
        return self.amplitude * (squared_distances(X1, X2) * rate).exp()


class GibbsKernel(ElevationKernel):
    """The Gibbs kernel, whose lengthscale l(x) is a function of the place (Gibbs, 1997).

    k(x, x') = alpha (2 l l' / (l^2 + l'^2))^(D/2) exp(-|x - x'|^2 / (l^2 + l'^2)); l(x) lies
    between the two bounds and comes from a network like that of the Attentive Kernel.
    """

    def __init__(
        self,
        min_lengthscale: float,
        max_lengthscale: float,
        amplitude: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(amplitude)
        self.min_lengthscale, self.max_lengthscale = min_lengthscale, max_lengthscale
        self.network = tanh_network(2, 1, generator)

    def lengthscale_at(self, X: Tensor) -> Tensor:
        """l(x) [..., N]."""
        assert self.network is not None
        share = torch.sigmoid(self.network(X)).squeeze(-1)
        return self.min_lengthscale + (self.max_lengthscale - self.min_lengthscale) * share

    def _covariance(self, X1: Tensor, X2: Tensor, base: Tensor | None) -> Tensor:
        l1 = self.lengthscale_at(X1).unsqueeze(-1)
        l2 = self.lengthscale_at(X2).unsqueeze(-2)
        squares = l1.square() + l2.square()
        prefactor = (2 * l1 * l2 / squares) ** (X1.shape[-1] / 2)
        return self.amplitude * prefactor * (-squared_distances(X1, X2) / squares).exp()


class DeepKernel(RBFKernel):
    """Deep kernel learning (Wilson et al., 2016): an RBF kernel on x + g(x), g a network."""

    def __init__(
        self, lengthscale: float, amplitude: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(lengthscale, amplitude)
        self.network = tanh_network(2, 2, generator)

    def features(self, X: Tensor) -> Tensor:
        """x + g(x) [..., N, D]: a bent map of the same place."""
        assert self.network is not None
        return X + self.network(X)

    def lengthscale_at(self, X: Tensor) -> Tensor:
        """What a small step meets: l over the root mean square stretch of the features [N]."""
        jacobian = torch.func.vmap(torch.func.jacrev(self.features))(X)
        stretch = (jacobian.square().sum((-1, -2)) / X.shape[-1]).sqrt()
        return self.lengthscale / stretch

    def _covariance(self, X1: Tensor, X2: Tensor, base: Tensor | None) -> Tensor:
        F1 = self.features(X1)
        return super()._covariance(F1, F1 if X2 is X1 else self.features(X2), base)


#: The kernels by name. RBF and deep kernel start at the largest lengthscale, as published.
KERNELS: dict[str, Callable[[SparseOptions, torch.Generator], ElevationKernel]] = {
    "attentive": lambda o, generator: AttentiveKernel(
        o.min_lengthscale, o.max_lengthscale, o.num_lengthscales, o.amplitude, generator
    ),
    "rbf": lambda o, _: RBFKernel(o.max_lengthscale, o.amplitude),
    "gibbs": lambda o, generator: GibbsKernel(
        o.min_lengthscale, o.max_lengthscale, o.amplitude, generator
    ),
    "deep": lambda o, generator: DeepKernel(o.max_lengthscale, o.amplitude, generator),
}
