"""The kernel of Paciorek and Schervish (2006), rough and anisotropic, and its fields over the
workspace, in torch.

k(x, x') = s s' |S|^{1/4} |S'|^{1/4} |(S + S')/2|^{-1/2} f(Q^{g/2}), f(P) = exp(-P) or, with a tail,
f(P) = (1 + tail P)^{-1/tail}: a mixture of such exponentials (the generalised Cauchy family of
Gneiting and Schlather 2004), smooth and of long range apart from each other;
Q = (x - x')^T ((S + S')/2)^{-1} (x - x'), S = l^2 expm[[u, w], [w, -u]].

The fields log s, log l, u, w come from a network of place and an offset each, all of which is
learned. The network is evaluated at the nodes of a square lattice over [-1, 1]^2. Its values are
interpolated bilinearly between nodes; beyond them the nearest value holds. So a training step
evaluates the network once per node, however many data there are.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..interface import tanh_network
from ..native.loader import INTEGER, POINTER, REAL, declared, structure

#: log s, log l and the two numbers u, w of S = l^2 expm[[u, w], [w, -u]].
FIELDS = 4
#: Added to the learned noise variance: no conditional loses all its noise.
LEAST_NOISE = 1e-6
#: Added to |u, w|^2 under the root, and to Q, so that both have a gradient at zero.
ISOTROPIC, NEAR = 1e-8, 1e-10


@dataclass(frozen=True)
class Kernel:
    """The kernel for many conditionals: fields at the nodes F [G * G, 4], exponent and noise
    variance (scalars), bounds of the lengthscale, precision of the local mean.

    ``tail``: how slowly covariances fall at large distances; 0: exponentially.
    ``shared_variance``: of an error that successive sites share, beside the noise; its correlation
    falls to 1/e over ``shared_sites`` of them. Training knows of none.
    """

    F: Tensor
    exponent: Tensor
    noise: Tensor
    lengths: tuple[float, float]
    mean_precision: float
    tail: float = 0.0
    shared_variance: Tensor | float = 0.0
    shared_sites: Tensor | float = 1.0

    def shared(self, site: Tensor) -> Tensor:
        """Covariances of that error at sites of these numbers [..., k], [..., k, k]."""
        apart = (site.unsqueeze(-1) - site.unsqueeze(-2)).abs().double()
        return self.shared_variance * (-apart / self.shared_sites).exp()


class Points(NamedTuple):
    """Points x [..., 2] with the kernel there [...]: log s, l and S = [[A, C], [C, B]]."""

    x: Tensor
    log_s: Tensor
    length: Tensor
    A: Tensor
    B: Tensor
    C: Tensor


def at(kernel: Kernel, x: Tensor) -> Points:
    """The kernel at points x [..., 2]; log l is limited to the logarithms of ``kernel.lengths``."""
    log_s, log_l, u, w = interpolate(kernel.F, x).unbind(-1)
    low, high = torch.tensor(kernel.lengths, dtype=torch.float64).log().tolist()
    length = log_l.clamp(low, high).exp()
    squared = length.square()
    r = (u * u + w * w + ISOTROPIC).sqrt()
    ch, sh = r.cosh(), r.sinh() / r
    S = squared * (ch + sh * u), squared * (ch - sh * u), squared * sh * w
    return Points(x, log_s, length, *S)


def covariance(kernel: Kernel, one: Points, other: Points) -> Tensor:
    """Covariances [..., N1, N2] of points [..., N1] and others [..., N2]; of the same points, with
    a diagonal that is s^2 to the last bit."""
    pairs = [(a.unsqueeze(-1), b.unsqueeze(-2)) for a, b in zip(one[1:], other[1:], strict=True)]
    A, B, C = (0.5 * (a + b) for a, b in pairs[2:])
    determinant = A * B - C * C
    dx, dy = (one.x.unsqueeze(-2) - other.x.unsqueeze(-3)).unbind(-1)
    Q = (dx * dx * B - 2 * dx * dy * C + dy * dy * A) / determinant
    (log_s1, log_s2), (l1, l2) = pairs[:2]
    K = (log_s1 + log_s2).exp() * l1 * l2 / determinant.sqrt()
    power, tail = (Q + NEAR) ** (kernel.exponent / 2), kernel.tail
    K = K * ((-power).exp() if not tail else (1 + tail * power) ** (-1 / tail))
    if one is not other:
        return K
    own = torch.eye(K.shape[-1], dtype=torch.bool, device=K.device)
    return torch.where(own, (2 * one.log_s).exp().unsqueeze(-1), K)


def described(kernel: Kernel, x: Tensor) -> Mapping[str, Tensor]:
    """Descriptive values of the kernel at x [N, 2], [N] each: ``lengthscale``, ``amplitude`` (prior
    standard deviation), ``anisotropy`` (ratio of the axes)."""
    f = interpolate(kernel.F, x)
    # The eigenvalues of S are l^2 exp(+-r): its axes are l exp(+-r / 2).
    return {
        "lengthscale": at(kernel, x).length,
        "amplitude": f[:, 0].exp(),
        "anisotropy": f[:, 2:].norm(dim=-1).exp(),
    }


def interpolate(F: Tensor, x: Tensor) -> Tensor:
    """The fields [..., 4] at x [..., 2] from those at the nodes F [G * G, 4]."""
    G = int(len(F) ** 0.5 + 0.5)
    place = (x.clamp(-1.0, 1.0) + 1.0) * (0.5 * (G - 1))
    corner = place.floor().clamp_max(G - 2)
    across, up = (place - corner).unsqueeze(-1).unbind(-2)
    first = corner[..., 1].long() * G + corner[..., 0].long()
    low = F[first] * (1 - across) + F[first + 1] * across
    high = F[first + G] * (1 - across) + F[first + G + 1] * across
    return low * (1 - up) + high * up


@dataclass(frozen=True)
class ParameterLayout:
    """The layout of all learned parameters in one vector theta [size].

    First the network's weights (2 - hidden - hidden - fields, tanh), then the offset of each
    field, the logarithm of the noise variance and the logit of half the exponent.
    """

    hidden: int
    lattice: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the parts, in order."""
        H, P = self.hidden, FIELDS
        return {
            "W1": (H, 2), "b1": (H,), "W2": (H, H), "b2": (H,), "W3": (P, H), "b3": (P,),
            "offsets": (P,), "log_noise": (1,), "logit_exponent": (1,),
        }  # fmt: skip

    @property
    def weights(self) -> int:
        """Number of weights of the network, which come first in theta."""
        return self.size - FIELDS - 2

    @property
    def size(self) -> int:
        """Number of learned parameters."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def split(self, theta: Tensor) -> dict[str, Tensor]:
        """Views of the parts of theta, by name."""
        shapes = self.shapes
        parts = theta.split([math.prod(shape) for shape in shapes.values()])
        return {name: p.view(s) for (name, s), p in zip(shapes.items(), parts, strict=True)}

    def initial(
        self, lengthscale: float, noise_variance: float, generator: torch.Generator
    ) -> Tensor:
        """A network that is nearly zero around a stationary kernel of exponent 1, of amplitude 1
        and this lengthscale."""
        network = tanh_network(2, FIELDS, generator, self.hidden)
        weights = [p.detach() for p in network.parameters()]
        weights[-2].mul_(0.1)
        weights[-1].zero_()
        offsets = torch.zeros(FIELDS, dtype=torch.float64)
        offsets[1] = math.log(lengthscale)
        rest = torch.tensor([math.log(noise_variance), 0.0], dtype=torch.float64)
        return torch.cat([*(p.flatten() for p in weights), offsets, rest])

    def nodes(self) -> Tensor:
        """The lattice's nodes [G * G, 2], row by row, G = lattice + 1."""
        axis = torch.linspace(-1.0, 1.0, self.lattice + 1, dtype=torch.float64)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        return torch.stack((x.flatten(), y.flatten()), dim=-1)


def noise_variance(parts: Mapping[str, Tensor]) -> Tensor:
    """The learned noise variance, a scalar."""
    return parts["log_noise"].exp().squeeze() + LEAST_NOISE


def exponent(parts: Mapping[str, Tensor]) -> Tensor:
    """The kernel's exponent in (0, 2), a scalar."""
    return 2 * parts["logit_exponent"].sigmoid().squeeze()


def evaluate(parts: Mapping[str, Tensor], nodes: Tensor) -> Tensor:
    """F = W3 tanh(W2 tanh(W1 x + b1) + b2) + b3 + offsets at the nodes [G * G, 2], [G * G, 4]."""
    h1 = torch.addmm(parts["b1"], nodes, parts["W1"].mT).tanh()
    h2 = torch.addmm(parts["b2"], h1, parts["W2"].mT).tanh()
    return torch.addmm(parts["b3"] + parts["offsets"], h2, parts["W3"].mT)


class Penalties(NamedTuple):
    """Factors of the penalties' gradients: those of the variances over the nodes of log s and log
    l; of the mean of |u, w|^2, from which a share ``spared`` of their means is subtracted first;
    and of the weights.

    Fields are penalised everywhere, not only at pings: otherwise the network is unconstrained far
    from them, and a region that it happens to take for smooth would never be surveyed. A bottom
    stretched the same way everywhere is plausible, so the mean may be penalised less.
    """

    field: float
    anisotropy: float
    spared: float
    weight: float


class TorchNetwork:
    """The network in training, at the nodes of the lattice. In float32, at half the cost: the noise
    of the steps is much larger.

    Args:
        nodes: of the lattice [G * G, 2].
        hidden: width of the two layers.
    """

    def __init__(self, nodes: Tensor, hidden: int) -> None:
        self._nodes = nodes.float()
        self._layout = ParameterLayout(hidden, round(len(nodes) ** 0.5) - 1)

    def evaluate(self, theta: Tensor) -> Tensor:
        """The fields F [G * G, 4] of theta [P], in float64."""
        return evaluate(self._layout.split(theta.float()), self._nodes).double()

    @torch.enable_grad()
    def gradient(
        self, theta: Tensor, F: Tensor, by_F: Tensor, by_exponent: float, by_noise: float,
        penalties: Penalties,
    ) -> Tensor:  # fmt: skip
        """The gradient of the penalised loss by theta [P], from the gradients of the loss by the
        fields [G * G, 4], the exponent and the noise. F [G * G, 4]: the result of the last
        ``evaluate``, which was called with this theta."""
        varying, anisotropic = F.split(2, dim=1)
        by_varying = penalties.field * (varying - varying.mean(0))
        spared = penalties.spared * anisotropic.mean(0)
        by_anisotropic = penalties.anisotropy * (anisotropic - spared)
        dF = by_F + torch.cat([by_varying, by_anisotropic], dim=1)
        leaf = theta.detach().clone().requires_grad_()
        parts = self._layout.split(leaf)
        loss = by_exponent * exponent(parts) + by_noise * noise_variance(parts)
        loss = loss + penalties.weight / 2 * leaf[: self._layout.weights].square().sum()
        fields = evaluate(self._layout.split(leaf.float()), self._nodes)
        return torch.autograd.grad([loss, fields], leaf, [None, dF.float()])[0]


#: As in network.c.
_Network = structure((INTEGER, "nodes hidden"), (POINTER, "x room"))
_Penalties = structure((REAL, " ".join(Penalties._fields)))
_library = declared(
    "network",
    network_room=(INTEGER, INTEGER, INTEGER),
    network_evaluate=(None, ctypes.POINTER(_Network), POINTER, POINTER),
    network_gradient=(
        None, ctypes.POINTER(_Network), ctypes.POINTER(_Penalties), *[POINTER] * 3, REAL, REAL,
        POINTER,
    ),
)  # fmt: skip


class NativeNetwork:
    """The same, compiled."""

    def __init__(self, nodes: Tensor, hidden: int) -> None:
        self._x = torch.cat([nodes, torch.ones(len(nodes), 1)], dim=1).float()
        self._room = torch.empty(_library.network_room(len(nodes), hidden)).float()
        self._network = _Network(len(nodes), hidden, self._x.data_ptr(), self._room.data_ptr())

    def evaluate(self, theta: Tensor) -> Tensor:
        """See ``TorchNetwork.evaluate``."""
        F = torch.empty(self._network.nodes, FIELDS, dtype=torch.float64)
        _library.network_evaluate(self._network, theta.data_ptr(), F.data_ptr())
        return F

    def gradient(
        self, theta: Tensor, F: Tensor, by_F: Tensor, by_exponent: float, by_noise: float,
        penalties: Penalties,
    ) -> Tensor:  # fmt: skip
        """See ``TorchNetwork.gradient``."""
        gradient, by_F = torch.empty_like(theta), by_F.contiguous()
        _library.network_gradient(
            self._network, _Penalties(*penalties), theta.data_ptr(), F.data_ptr(),
            by_F.data_ptr(), by_exponent, by_noise, gradient.data_ptr(),
        )  # fmt: skip
        return gradient


#: The network, compiled if possible.
Network = NativeNetwork if _library is not None else TorchNetwork
