"""Kernels of the sparse models, as gpytorch kernels: attentive and RBF.

The attentive one is in C if it was built; otherwise torch does the same, more slowly (see
``loader``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .interface import grid_points, tanh_network
from .native.loader import INTEGER, POINTER, REAL, declared, structure
from .sparse.methods import SparseOptions

MAX_BASES, MAX_DIM, MAX_TILE = 32, 8, 64  # as in attentive.c

#: As in attentive.c.
_PLAN = (INTEGER, "bases"), (POINTER, "rates order source power")
_Problem = structure(*_PLAN, (INTEGER, "n1 n2 dim"), (POINTER, "X1 X2 W1 W2"), (REAL, "amplitude"))
_GridProblem = structure(
    *_PLAN, (INTEGER, "n1 columns rows"), (POINTER, "X1 x y W1 W2"), (REAL, "amplitude")
)
_at = ctypes.POINTER(_Problem)
_library = declared(
    "attentive",
    attentive_forward=(None, _at, ctypes.c_int, POINTER),
    attentive_backward=(REAL, _at, ctypes.c_int, *[POINTER] * 5),
    attentive_grid=(None, ctypes.POINTER(_GridProblem), POINTER),
)


class ElevationKernel(Kernel):
    """A kernel that includes its amplitude and has a lengthscale at every place.

    Its diagonal is the amplitude. ``network``: learned at a lower rate; None for kernels without.
    """

    has_lengthscale = False
    network: nn.Sequential | None

    def __init__(self, amplitude: float) -> None:
        super().__init__()
        self.register_module("network", None)
        self._register_positive("raw_amplitude", amplitude)

    def _register_positive(self, name: str, value: float) -> None:
        """Register a learned positive scalar with an initial value."""
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

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Covariances [..., N1, N2] of x1 [..., N1, D] and x2 [..., N2, D]; with ``diag`` their
        diagonal [..., N1]."""
        if diag and (x2 is x1 or torch.equal(x1, x2)):
            return self.amplitude.expand(x1.shape[:-1])
        if diag:
            return self.forward(x1.unsqueeze(-2), x2.unsqueeze(-2)).squeeze(-1).squeeze(-1)
        return self._covariance(x1, x2)

    def inducing_covariances(self, Z: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """Kuu [M, M] and Kuf [M, N] of Z [M, D] and X [N, D]."""
        return self.forward(Z, Z), self.forward(Z, X)

    def grid_covariance(self, X: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Covariances [N, rows, columns] of X [N, 2] with the points of a grid.

        x [columns] and y [rows] are its coordinates. Some kernels do not support gradients here.
        """
        return self.forward(X, grid_points(x, y)).reshape(len(X), len(y), len(x))

    def _covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        raise NotImplementedError


def squared_distances(X1: Tensor, X2: Tensor) -> Tensor:
    """|x - x'|^2 [..., N1, N2], from differences: exact on the diagonal."""
    return (X1.unsqueeze(-2) - X2.unsqueeze(-3)).square().sum(-1)


class AttentiveKernel(ElevationKernel):
    r"""The non-stationary Attentive Kernel (Sec. III-B; Chen et al., 2022).

    k(x, x') = \alpha \bar w^T \bar w' \sum_m \bar w_m \bar w'_m \exp(-|x - x'|^2 / (2 l_m^2)):
    input-dependent weights blend base kernels of fixed lengthscales, and points with different
    weights are less correlated. The weights \bar w = w / |w| come from a network with tanh layers
    and a softmax output. Symmetric, positive semi-definite, diagonal \alpha.

    Args:
        min_lengthscale, max_lengthscale: ends of the linearly spaced l_m, in scaled units.
        num_lengthscales: number of base kernels P.
        amplitude: initial \alpha.
        generator: draws the initial network weights; None: torch's default generator.
        dim: D, the dimension of the inputs.
    """

    is_stationary = False
    network: nn.Sequential

    def __init__(
        self,
        min_lengthscale: float,
        max_lengthscale: float,
        num_lengthscales: int,
        amplitude: float,
        generator: torch.Generator | None = None,
        dim: int = 2,
    ) -> None:
        super().__init__(amplitude)
        ends = min_lengthscale, max_lengthscale
        lengthscales = torch.linspace(*ends, num_lengthscales, dtype=torch.float64)
        self.register_buffer("lengthscales", lengthscales)
        self.network = tanh_network(dim, num_lengthscales, generator)
        self.network.append(nn.Softmax(dim=-1))

    def weights(self, X: Tensor) -> Tensor:
        r"""The unit-norm weights \bar w [..., N, P] at X [..., N, D]."""
        return nn.functional.normalize(self.network(X), dim=-1)

    def lengthscale_at(self, X: Tensor) -> Tensor:
        r"""The lengthscale map \sum_m \bar w_m^2 l_m, a convex combination, [..., N]."""
        return self.weights(X).square() @ self.lengthscales

    def base(self, X1: Tensor, X2: Tensor) -> Tensor:
        """The base kernels [P, ..., N1, N2]; independent of everything learned."""
        # Differences, not the expanded product: exact symmetry, an exact zero on the diagonal.
        squared = sum(
            (a.unsqueeze(-1) - b.unsqueeze(-2)).square()
            for a, b in zip(X1.unbind(-1), X2.unbind(-1), strict=True)
        )
        rates = -0.5 / self.lengthscales.square()
        return torch.stack([(squared * rate).exp() for rate in rates.tolist()])

    def _covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        W1 = self.weights(X1)
        return self._blend(X1, X2, W1, W1 if X2 is X1 else self.weights(X2))

    def _blend(self, X1: Tensor, X2: Tensor, W1: Tensor, W2: Tensor) -> Tensor:
        if usable(X1, X2, len(self.lengthscales)):
            lengths = tuple(self.lengthscales.tolist())
            return _Covariance.apply(X1, X2, W1, W2, lengths, self.amplitude, X2 is X1)
        blend = torch.einsum("...np,...mp,p...nm->...nm", W1, W2, self.base(X1, X2))
        return self.amplitude * (W1 @ W2.mT) * blend

    def inducing_covariances(self, Z: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        """As in the base class, but the network and its gradient run once for all points."""
        Wu, Wf = self.weights(torch.cat([Z, X])).split([len(Z), len(X)])
        return self._blend(Z, Z, Wu, Wu), self._blend(Z, X, Wu, Wf)

    def grid_covariance(self, X: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """As in the base class, but each base kernel is a product of one factor per axis."""
        W1 = self.weights(X)
        W2 = self.weights(grid_points(x, y)).reshape(len(y), len(x), -1)
        small = X.shape[1] == 2 and max(len(x), len(y)) <= MAX_TILE
        if small and usable(X, X, len(self.lengthscales)):
            amplitude = self.amplitude.item()
            return _native_grid(X, x, y, W1, W2, self.lengthscales, amplitude)
        across, up = self.base(X[:, :1], x.unsqueeze(-1)), self.base(X[:, 1:], y.unsqueeze(-1))
        K = torch.zeros(len(X), len(y), len(x)).to(X)
        for m in range(len(self.lengthscales)):
            on_axes = (W1[:, m, None] * up[m]).unsqueeze(-1) * across[m].unsqueeze(-2)
            K.addcmul_(on_axes, W2[..., m])
        return K.mul_(torch.einsum("np,rcp->nrc", W1, W2)).mul_(self.amplitude)


class RBFKernel(ElevationKernel):
    """The stationary kernel alpha exp(-|x - x'|^2 / (2 l^2)) with one learned lengthscale l."""

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

    def _covariance(self, X1: Tensor, X2: Tensor) -> Tensor:
        rate = -0.5 / self.lengthscale.square()
        return self.amplitude * (squared_distances(X1, X2) * rate).exp()


#: The kernels by name. RBF starts at the largest lengthscale, as published.
KERNELS: dict[str, Callable[[SparseOptions, torch.Generator], ElevationKernel]] = {
    "attentive": lambda o, generator: AttentiveKernel(
        o.shortest_lengthscale, o.longest_lengthscale, o.num_lengthscales, o.amplitude, generator
    ),
    "rbf": lambda o, _: RBFKernel(o.longest_lengthscale, o.amplitude),
}


def usable(X1: Tensor, X2: Tensor, bases: int) -> bool:
    """Whether ``covariance`` can take these inputs."""
    return (
        _library is not None
        and bases <= MAX_BASES
        and all(
            X.ndim == 2 and X.shape[1] <= MAX_DIM and X.dtype == torch.float64 and X.is_cpu
            for X in (X1, X2)
        )
    )


def _native_grid(
    X: Tensor, x: Tensor, y: Tensor, W1: Tensor, W2: Tensor, lengthscales: Tensor, amplitude: float
) -> Tensor:
    """Covariances [N, rows, columns] of X [N, 2] with the points of a grid, not differentiable.

    x [columns] and y [rows], at most ``MAX_TILE`` each; weights W1 [N, P] and
    W2 [rows, columns, P].
    """
    plan = _plan(tuple(lengthscales.tolist()))
    padded = W2.new_zeros(len(y), len(lengthscales), MAX_TILE)
    padded[..., : len(x)] = W2[..., plan["order"]].mT
    arrays = _contiguous(X1=X, x=x, y=y, W1=W1, W2=padded) | plan
    sizes = {"n1": len(X), "columns": len(x), "rows": len(y), "bases": len(lengthscales)}
    problem = _GridProblem(**sizes, **_pointers(arrays), amplitude=amplitude)
    K = X.new_empty(len(X), len(y), len(x))
    _library.attentive_grid(ctypes.byref(problem), K.data_ptr())
    return K


@lru_cache(maxsize=8)
def _plan(lengthscales: tuple[float, ...]) -> dict[str, Tensor]:
    """An order of the base kernels in which many are powers of an earlier one.

    A lengthscale that is 1/2 (1/3) of another belongs to the 4th (9th) power of its base kernel:
    l, 2 l ... 10 l take 5 exponentials instead of 10.
    """
    order = sorted(range(len(lengthscales)), key=lambda m: -lengthscales[m])
    source, power = [], []
    for place, m in enumerate(order):
        found = (-1, 4)
        for divisor in (2, 3):
            for earlier in range(place):
                ratio = lengthscales[order[earlier]] / lengthscales[m]
                if found[0] < 0 and abs(ratio - divisor) < 1e-13 * divisor:
                    found = (earlier, divisor**2)
        source.append(found[0])
        power.append(found[1])
    rates = -0.5 / torch.tensor(lengthscales, dtype=torch.float64)[order].square()
    integers = {"order": order, "source": source, "power": power}
    return {name: torch.tensor(values) for name, values in integers.items()} | {"rates": rates}


def _contiguous(**arrays: Tensor) -> dict[str, Tensor]:
    return {name: array.contiguous() for name, array in arrays.items()}


def _pointers(arrays: dict[str, Tensor]) -> dict[str, int]:
    return {name: array.data_ptr() for name, array in arrays.items()}


class _Covariance(torch.autograd.Function):
    """The Attentive Kernel's covariances [N1, N2], differentiable in all but the lengthscales.

    X1 [N1, D] and X2 [N2, D]; weights W1 [N1, P] and W2 [N2, P]. ``symmetric``: X2 is X1.
    """

    @staticmethod
    def forward(
        ctx: Any,
        X1: Tensor,
        X2: Tensor,
        W1: Tensor,
        W2: Tensor,
        lengthscales: tuple[float, ...],
        amplitude: Tensor,
        symmetric: bool,
    ) -> Tensor:
        arrays = _contiguous(X1=X1, X2=X2, W1=W1, W2=W2) | _plan(lengthscales)
        sizes = {"n1": len(X1), "n2": len(X2), "dim": X1.shape[1], "bases": len(lengthscales)}
        problem = _Problem(**sizes, **_pointers(arrays), amplitude=amplitude.item())
        K = X1.new_empty(len(X1), len(X2))
        _library.attentive_forward(ctypes.byref(problem), symmetric, K.data_ptr())
        # The problem points into the arrays, which must live as long.
        ctx.problem, ctx.arrays = problem, arrays
        ctx.symmetric, ctx.amplitude = symmetric, amplitude
        return K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        G = G.contiguous()

        def zeros(name: str, needed: bool = True) -> Tensor | None:
            return torch.zeros_like(ctx.arrays[name]) if needed else None

        inputs = any(ctx.needs_input_grad[:2])
        dW1, dX1 = zeros("W1"), zeros("X1", inputs)
        # If both sides are one tensor, their gradients are added.
        dW2, dX2 = (dW1, dX1) if ctx.symmetric else (zeros("W2"), zeros("X2", inputs))
        damplitude = _library.attentive_backward(
            ctypes.byref(ctx.problem),
            ctx.symmetric,
            G.data_ptr(),
            *(None if part is None else part.data_ptr() for part in (dW1, dW2, dX1, dX2)),
        )
        if ctx.symmetric:
            dW2 = dX2 = None
        return dX1, dX2, dW1, dW2, None, ctx.amplitude.new_tensor(damplitude), None
