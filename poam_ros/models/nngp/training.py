"""Training: steps of Adam on the log loss of left-out sites, and the average that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.ndimage import median
from scipy.optimize import minimize
from torch import Tensor

from ..linalg import cholesky
from .conditional import gradient
from .kernel import (
    Kernel,
    Network,
    ParameterLayout,
    Penalties,
    at,
    covariance,
    evaluate,
    exponent,
    noise_variance,
)
from .sites import LEVELS, SiteStore, Subset, TrainingData

if TYPE_CHECKING:
    from .options import NeighbourOptions

#: Decay rates and epsilon of Adam.
BETAS, EPSILON = (0.9, 0.99), 1e-8
#: A step's share of the other sites has at least this many times the neighbours.
FEWEST = 2
#: Maximum number of blocks with sites, and of those whose likelihood is maximised; the shortest
#: side of a block, in scaled units, and the factor between sides that are tried.
BLOCKS, CHOSEN, SIDE, COARSER = 700, 300, 2 / 400, 1.15
#: Sites of a block with more than this many between them belong to different passes.
PASS = 20
#: First values of log s, log l, the log noise variance and the logit of half the exponent; and
#: bounds of all but log l.
BEGIN, BOUNDS = (0.0, -1.0, -5.0, 0.0), ((-5.0, 3.0), (-12.0, 2.0), (-5.0, 5.0))
#: Of the error that successive sites share: log variance, log sites; first values and bounds.
BEGIN_SHARED, BOUNDS_SHARED = (-6.0, 3.0), ((-12.0, 2.0), (0.0, 9.0))


@dataclass(frozen=True)
class HyperparameterState:
    """What training changes. Its tensors are replaced, never modified in place.

    theta [P] with the moments of Adam, its running average, and the steps taken.
    """

    theta: Tensor
    first: Tensor
    second: Tensor
    average: Tensor
    step: int = 0

    @classmethod
    def begin(cls, theta: Tensor) -> HyperparameterState:
        """The state before the first step."""
        return cls(theta, torch.zeros_like(theta), torch.zeros_like(theta), theta)

    def stepped(self, gradient: Tensor, rates: Tensor, keep: float) -> HyperparameterState:
        """The state after a step of Adam with a rate for each parameter; ``keep``: see
        ``averaging``."""
        step, (beta1, beta2) = self.step + 1, BETAS
        # At first a plain mean, so that the initial values have no extra weight.
        keep = min(keep, step / (step + 9)) if self.step else 0.0
        first = torch.lerp(gradient, self.first, beta1)
        second = torch.lerp(gradient.square(), self.second, beta2)
        scale = (second / (1 - beta2**step)).sqrt_().add_(EPSILON)
        theta = self.theta - rates / (1 - beta1**step) * first / scale
        return HyperparameterState(
            theta, first, second, torch.lerp(theta, self.average, keep), step
        )


class NngpTrainer:
    """Takes training steps on random left-out sites.

    Args:
        layout: of theta.
        options: the model's ``NeighbourOptions``.
        generator: draws left-out sites and shares.
    """

    def __init__(
        self, layout: ParameterLayout, options: NeighbourOptions, generator: torch.Generator
    ) -> None:
        self.layout, self.options, self.generator = layout, options, generator
        self._nodes = layout.nodes()
        self._network = Network(self._nodes, layout.hidden)
        self._rates = torch.full((layout.size,), options.global_rate, dtype=torch.float64)
        self._rates[: layout.weights] = options.network_rate

    def kernel(self, theta: Tensor, F: Tensor | None = None) -> Kernel:
        """The kernel of these parameters [P], or [P + 2] with a shared error (``stationary``); F
        [G * G, 4]: the fields at the nodes, if they are known."""
        options, (own, shared) = self.options, theta.tensor_split([self.layout.size])
        parts = self.layout.split(own)
        return Kernel(
            evaluate(parts, self._nodes) if F is None else F,
            exponent(parts),
            noise_variance(parts),
            options.lengthscales[::2],
            options.mean_precision,
            options.tail,
            *shared.exp(),
        )

    def step(
        self, learned: HyperparameterState, store: SiteStore
    ) -> tuple[HyperparameterState, float, float]:
        """Take a step; returns the new state, the mean log loss, and the largest extra jitter.

        Raises:
            CholeskyError: a matrix is beyond repair.
        """
        options, sites, nodes = self.options, store.sites, len(self._nodes)
        left_out, share = self._draw(store)
        near = store.spread(sites.x[left_out], options, share, elsewhere=True)
        F = self._network.evaluate(learned.theta)
        found = gradient(self.kernel(learned.theta, F), sites, left_out, near)
        penalties = Penalties(
            2.0 * options.field_penalty / (store.occupied * nodes),
            2.0 * options.anisotropy_penalty / (store.occupied * nodes),
            1.0 - options.shared_anisotropy,
            2.0 * options.weight_penalty / store.occupied,
        )
        total = self._network.gradient(
            learned.theta, F, found.F, found.exponent, found.noise, penalties
        )
        return learned.stepped(total, self._rates, options.averaging), found.loss, found.jitter

    def stationary(self, sites: TrainingData, shared: bool = False) -> Tensor:
        """Parameters theta [P] of the stationary, isotropic kernel with the greatest marginal
        likelihood of medians of sites in blocks.

        Errors that soundings of a line share look like a rough bottom from sounding to sounding;
        medians of blocks hardly have them. With ``shared`` an error that successive sites share,
        beside the noise, is fitted, too: [P + 2] with the logarithms of its variance and sites.
        Passes over a block then have medians of their own.

        Raises:
            CholeskyError: a matrix is beyond repair.
        """
        places, own, side = sites.x.numpy(), np.arange(BLOCKS + 1), SIDE
        while own.max() >= BLOCKS:
            block = np.floor(places / side) @ (4 / SIDE, 1.0)  # as one number
            own, side = np.unique(block, return_inverse=True)[1], side * COARSER
            if shared:
                order = np.argsort(own, kind="stable")
                begins = (np.diff(own[order], prepend=0) > 0) | (np.diff(order, prepend=0) > PASS)
                own[order] = np.cumsum(begins) - begins[0]
        these = np.random.default_rng(0).permutation(own.max() + 1)[:CHOSEN]
        columns = (*places.T, sites.y.numpy(), np.arange(len(places)))
        x1, x2, y, site = (torch.from_numpy(median(each, own, these)) for each in columns)
        x, y, trend = torch.stack([x1, x2], 1), y[:, None], 1.0 / self.options.mean_precision
        rows = torch.tensor([self.layout.weights, self.layout.weights + 1, -2, -1])
        zero = torch.zeros(self.layout.size, dtype=torch.float64)

        def theta(leaf: Tensor) -> Tensor:
            return torch.cat([zero.index_put((rows,), leaf[:4]), leaf[4:]])

        @torch.enable_grad()
        def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
            leaf = torch.tensor(values, requires_grad=True)
            kernel = self.kernel(theta(leaf))
            points = at(kernel, x)
            K = covariance(kernel, points, points) + trend + kernel.noise * torch.eye(len(x))
            K = K + kernel.shared(site)
            L = cholesky(K.detach(), "covariance of medians").L
            inverse = torch.cholesky_inverse(L)
            a = inverse @ y
            (by,) = torch.autograd.grad((0.5 * (inverse - a @ a.mT) * K).sum(), leaf)
            return (0.5 * (y.mT @ a) + L.diagonal().log().sum()).item(), by.numpy()

        lengths = np.log(self.options.lengthscales[::2])
        bounds = [BOUNDS[0], lengths, *BOUNDS[1:], *(BOUNDS_SHARED if shared else ())]
        begin = BEGIN + BEGIN_SHARED if shared else BEGIN
        found = minimize(loss, begin, jac=True, bounds=bounds, options={"maxiter": 40})
        return theta(torch.from_numpy(found.x))

    def _draw(self, store: SiteStore) -> tuple[Tensor, Subset]:
        """Left-out sites [n] (with replacement), and the subset of sites that predicts them."""
        options, sites = self.options, len(store)
        count = max(1, min(options.left_out, sites // 3))
        left_out = torch.randint(sites, (count,), generator=self.generator)
        size, start, part = torch.rand(3, generator=self.generator, dtype=torch.float64).tolist()
        least = min(1.0, max(options.least_share, FEWEST * options.neighbours / sites))
        # Log-uniform: with all other sites, training would learn only the spacing along a track.
        # Left-out sites may predict each other, but none predicts itself.
        share = (1 - count / sites) * least**size
        level = 0
        while level + 1 < LEVELS and share <= 0.25 ** (level + 1):
            level += 1
        return left_out, Subset(start, share * 4**level, level, int(part * 4**level))
