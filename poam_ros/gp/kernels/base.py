"""What every covariance function of elevations has, as a gpytorch kernel."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel
from torch import Tensor, nn


class ElevationKernel(Kernel):
    """A kernel with its amplitude inside and a lengthscale at every place.

    Diagonal: the amplitude. ``network``: what is learned slowly, or None.
    """

    has_lengthscale = False
    network: nn.Sequential | None

    def __init__(self, amplitude: float) -> None:
        super().__init__()
        self.register_module("network", None)
        self._register_positive("raw_amplitude", amplitude)

    def _register_positive(self, name: str, value: float) -> None:
        """A learned scalar that stays positive, with this initial value."""
        self.register_parameter(name, nn.Parameter(torch.zeros((), dtype=torch.float64)))
        self.register_constraint(name, Positive())
        constraint = self.constraint_for_parameter_name(name)
        initial = constraint.inverse_transform(torch.tensor(value, dtype=torch.float64))
        self.initialize(**{name: initial})

    @property
    def amplitude(self) -> Tensor:
        r"""The amplitude \alpha, a positive scalar."""
        return self.raw_amplitude_constraint.transform(self.raw_amplitude)

    def lengthscale_at(self, X: Tensor) -> Tensor:
        """The lengthscale [N] at X [N, D], in scaled units."""
        raise NotImplementedError

    def prepare(self, X1: Tensor, X2: Tensor) -> Tensor | None:
        """What ``forward`` can reuse as ``base`` over many calls; None where it has no need."""
        return None

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, base: Tensor | None = None, **params: Any
    ) -> Tensor:
        """Covariances [..., N1, N2] of x1 [..., N1, D] and x2 [..., N2, D].

        With ``diag`` their diagonal [..., N1]. ``base``: what ``prepare`` gave for these inputs.
        """
        if diag and (x2 is x1 or torch.equal(x1, x2)):
            return self.amplitude.expand(x1.shape[:-1])
        if diag:
            return self.forward(x1.unsqueeze(-2), x2.unsqueeze(-2)).squeeze(-1).squeeze(-1)
        return self._covariance(x1, x2, base)

    def inducing_covariances(
        self, Z: Tensor, X: Tensor, base: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Kuu [M, M] and Kuf [M, N] of Z [M, D] and X [N, D]; ``base``: of Z, from ``prepare``."""
        return self.forward(Z, Z, base=base), self.forward(Z, X)

    def grid_covariance(self, X: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Covariances [N, rows, columns] of X [N, 2] with the points of a grid.

        x [columns] and y [rows] are its coordinates. Not differentiable everywhere.
        """
        return self.forward(X, grid_points(x, y)).reshape(len(X), len(y), len(x))

    def _covariance(self, X1: Tensor, X2: Tensor, base: Tensor | None) -> Tensor:
        raise NotImplementedError


def grid_points(x: Tensor, y: Tensor) -> Tensor:
    """The points of a grid [rows * columns, 2], row by row, of x [columns] and y [rows]."""
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((xx.flatten(), yy.flatten()), dim=-1)


def tanh_network(
    inputs: int, outputs: int, generator: torch.Generator | None, width: int = 10
) -> nn.Sequential:
    """Two hidden tanh layers, of ten units as the paper's kernel has them."""
    first, second = _linear(inputs, width, generator), _linear(width, width, generator)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), _linear(width, outputs, generator))


def _linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with torch's usual initial values, drawn by the generator that is given."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)
    for values in layer.parameters():
        nn.init.uniform_(values, -(inputs**-0.5), inputs**-0.5, generator=generator)
    return layer


def squared_distances(X1: Tensor, X2: Tensor) -> Tensor:
    """|x - x'|^2 [..., N1, N2], from differences: exact on the diagonal."""
    return (X1.unsqueeze(-2) - X2.unsqueeze(-3)).square().sum(-1)
