"""Training: steps of Adam on the log loss of left-out sites, and the average that predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .conditional import Gradient, gradient
from .fields import ParameterLayout, evaluate, exponent, noise_variance, pull_back
from .index import LEVELS
from .kernel import Kernel, Subset
from .sites import SiteStore

if TYPE_CHECKING:
    from .options import NeighbourOptions

#: Of Adam.
BETAS, EPSILON = (0.9, 0.99), 1e-8
#: A step's share of the others holds at least so many times the neighbours.
FEWEST = 2
#: About as many sites, on average, may lie in the gap about a left-out one: a search passes them.
MOST_IN_GAP = 256


@dataclass(frozen=True)
class HyperparameterState:
    """What training moves. Its tensors are replaced, never written into.

    theta [P] with the moments of Adam, its running average, and the steps taken.
    """

    theta: Tensor
    first: Tensor
    second: Tensor
    average: Tensor
    step: int = 0

    @classmethod
    def begin(cls, theta: Tensor) -> HyperparameterState:
        """Before the first step."""
        return cls(theta, torch.zeros_like(theta), torch.zeros_like(theta), theta)

    def stepped(self, gradient: Tensor, rates: Tensor, keep: float) -> HyperparameterState:
        """After one step of Adam with a rate for each parameter; the average keeps ``keep``."""
        step, (beta1, beta2) = self.step + 1, BETAS
        first = torch.lerp(gradient, self.first, beta1)
        second = torch.lerp(gradient.square(), self.second, beta2)
        scale = (second / (1 - beta2**step)).sqrt_().add_(EPSILON)
        theta = self.theta - rates / (1 - beta1**step) * first / scale
        # A mean at first: the initial values have no more weight than those after them.
        keep = min(keep, step / (step + 9)) if self.step else 0.0
        return HyperparameterState(
            theta, first, second, torch.lerp(theta, self.average, keep), step
        )


class NngpTrainer:
    """Draws the steps.

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
        self._rates = torch.full((layout.size,), options.global_rate, dtype=torch.float64)
        self._rates[: layout.weights] = options.network_rate

    def kernel(self, theta: Tensor) -> Kernel:
        """The kernel of these parameters."""
        parts = self.layout.split(theta)
        return self._kernel(parts, evaluate(parts, self._nodes).F)

    def _kernel(self, parts: Mapping[str, Tensor], F: Tensor) -> Kernel:
        options = self.options
        return Kernel(
            F,
            exponent(parts),
            noise_variance(parts),
            options.lengthscales[::2],
            options.mean_precision,
            options.tail,
        )

    def step(
        self, learned: HyperparameterState, store: SiteStore
    ) -> tuple[HyperparameterState, float, float]:
        """One step: what is learned then, the mean log loss, and the largest extra jitter.

        Raises:
            CholeskyError: a matrix is beyond repair.
        """
        options, sites, independent = self.options, store.sites, store.occupied
        left_out, share, beyond = self._draw(store)
        near = store.spread(
            sites.x[left_out],
            options.neighbours,
            options.candidate_neighbours,
            share,
            beyond,
            options.neighbour_spacing,
        )
        # The network in float32, at half the cost: noise of the steps is much larger.
        parts = self.layout.split(learned.theta.float())
        network = evaluate(parts, self._nodes.float())
        kernel = self._kernel(self.layout.split(learned.theta), network.F.double())
        found = gradient(kernel, sites, left_out, near)
        found.F.add_(self._penalty(kernel.F, independent))
        pieces = pull_back(parts, network, found.F.float())
        total = self._by_theta(learned.theta, pieces, found, independent)
        return learned.stepped(total, self._rates, options.averaging), found.loss, found.jitter

    def _draw(self, store: SiteStore) -> tuple[Tensor, Subset, Tensor]:
        """Left-out sites [n] (with replacement), the subset of sites that predicts them, and the
        squared distances [n] beyond which those sites must lie."""
        options, sites = self.options, len(store)
        count = max(1, min(options.left_out, sites // 3))
        left_out = torch.randint(sites, (count,), generator=self.generator)
        way, size, start, part = self._uniform(4).tolist()
        if way < options.gap_share:
            beyond = self._gaps(store, count)
            return left_out, _thinned(store, beyond.mean().item(), part), beyond
        least = min(1.0, max(options.least_share, FEWEST * options.neighbours / sites))
        # Log-uniform: from all other sites, training would learn only the spacing along a track.
        # The share excludes all left-out sites, for each of them.
        share = (1 - count / sites) * least**size
        level = 0
        while level + 1 < LEVELS and share <= 0.25 ** (level + 1):
            level += 1
        thin = Subset(start, share * 4**level, level, int(part * 4**level))
        return left_out, thin, torch.zeros(count, dtype=torch.float64)

    def _gaps(self, store: SiteStore, count: int) -> Tensor:
        """The squares of the distances of random places to their nearest sites [count].

        A left-out site with none so near is predicted across such a gap as the map's places are
        (nearest-neighbour distance matching: Mila et al. 2022).
        """
        low, high = store.box
        places = low + (high - low) * self._uniform(count, 2)
        nearest = store.nearest(places)
        return (store.sites.x[nearest] - places).square().sum(-1)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, dtype=torch.float64)

    def _penalty(self, F: Tensor, independent: int) -> Tensor:
        """The gradient [G * G, 4] of the fields' penalties: the variances over the nodes of log s
        and log l, and the mean |u, w|^2, in which their means may weigh less: a bottom that is
        stretched one way everywhere needs no proof from place to place.

        They are taken everywhere, not only at pings: otherwise the network is unconstrained far
        from them, and a region that it happens to call smooth would never be surveyed.
        """
        options = self.options
        scale = 2.0 / (independent * len(F))
        varying, anisotropic = F.split(2, dim=1)
        spared = (1 - options.shared_anisotropy) * anisotropic.mean(0)
        return torch.cat([
            scale * options.field_penalty * (varying - varying.mean(0)),
            scale * options.anisotropy_penalty * (anisotropic - spared),
        ], dim=1)  # fmt: skip

    def _by_theta(
        self, theta: Tensor, pieces: list[Tensor], found: Gradient, independent: int
    ) -> Tensor:
        """The gradient of the penalised loss by theta [P], with that of the network in pieces."""
        parts = self.layout.split(theta)
        g, log_noise = exponent(parts), parts["log_noise"].exp()
        logit = found.exponent * g * (1 - g / 2)
        total = torch.cat(
            [*(p.flatten() for p in pieces), found.noise * log_noise, logit.reshape(1)]
        )
        count = self.layout.weights
        total[:count].add_(theta[:count], alpha=2 * self.options.weight_penalty / independent)
        return total


def _thinned(store: SiteStore, squared: float, part: float) -> Subset:
    """Everything, or so small a part that few sites are within gaps of this mean squared radius."""
    low, high = store.box
    within = len(store) * math.pi * squared / max(float((high - low).prod()), 1e-12)
    level = 0
    while level + 1 < LEVELS and within > MOST_IN_GAP * 4**level:
        level += 1
    return Subset(0.0, 1.0, level, int(part * 4**level))
