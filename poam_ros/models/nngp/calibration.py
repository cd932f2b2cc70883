"""How far off predictions are where whole stretches of a record are missing.

Training leaves single sites out, or round gaps about them. A survey line that crosses others is
further off than that says: its soundings share errors of position and level. With what was learned
held, each stretch of the record is predicted from the others, but for what lies next to it in the
record: a line that goes on there would share its errors. Where intervals turn out too narrow,
they are widened as these residuals ask for (jackknife+ by groups, without its one-sidedness: see
Barber et al. 2021, doi:10.1214/20-AOS1965). Residuals of one stretch are alike and stretches are
few, so the next line may well be worse than these: the limit is an upper confidence limit of their
quantile, not the quantile itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.land import Land
from .conditional import condition, log_loss
from .index import make_index
from .kernel import Kernel, TrainingData
from .visible import spread_visible

#: Sites that are predicted, at most, evenly from the whole record.
MOST = 8000
#: On either side of a stretch, the share of its length whose sites do not predict it (Racine 2000,
#: doi:10.1016/S0304-4076(00)00030-0).
APART = 0.25
#: The share of residuals within the intervals, and half the interval's width in deviations.
COVERED, WIDTH = 0.95, 1.96
#: One-sided confidence of the quantile's upper limit, 0.9, in deviations of a standard normal.
CONFIDENCE = 1.2816
#: Left-out sites tell noise from an uncertain bottom if they have little variance without noise: at
#: most this share of the median one, or no more than the noise; and which share of all have to.
LITTLE, FEWEST_TELLING = 0.1, 0.01
#: What may be added to variances, in those of the targets.
ADDED = torch.cat([torch.zeros(1), torch.logspace(-5, 1, 121)]).double()


class VarianceCalibration(NamedTuple):
    """Predictive variances with noise become factor (variance + added).

    ``usual``: the factor without room for the next line being worse than these. Sums over the map
    are of many lines, among which that is not so for all.
    """

    added: float = 0.0
    factor: float = 1.0
    usual: float = 1.0


class LeftOut(NamedTuple):
    """Sites that are predicted from what is not next to their stretch: their numbers [n],
    neighbours [n, k] (-1 for none), and stretches [n], in order."""

    site: Tensor
    near: Tensor
    stretch: Tensor

    def part(self, chosen: Tensor | slice) -> LeftOut:
        """Some of them."""
        return LeftOut(*(each[chosen].contiguous() for each in self))

    def thinned(self, most: int) -> LeftOut:
        """At most so many, evenly."""
        return self.part(slice(None, None, -(-len(self.site) // most)))


def left_out(
    sites: TrainingData, stretches: int, k: int, pool: int, apart: float, land: Land | None = None
) -> LeftOut | None:
    """Of so many stretches of the record, as long as each other; None of a single one."""
    count = len(sites.x)
    if not 1 < stretches <= count:
        return None
    parts = []
    for number, stretch in enumerate(np.array_split(np.arange(count), stretches)):
        gap, asked = int(APART * len(stretch)), stretch[:: -(-count // MOST)]
        others = np.r_[: max(0, stretch[0] - gap), stretch[-1] + 1 + gap : count]
        index = make_index()
        index.add(sites.x[others])
        x = sites.x[asked].contiguous()
        near = spread_visible(index, sites.x[others], land, x, k, pool, apart=apart)
        near = torch.where(near < 0, near, torch.from_numpy(others)[near])
        parts.append((torch.from_numpy(asked), near, torch.full((len(asked),), number)))
    return LeftOut(*map(torch.cat, zip(*parts, strict=True)))


def errors_of(kernel: Kernel, sites: TrainingData, left: LeftOut) -> tuple[Tensor, Tensor]:
    """Errors of the predictions of left-out sites [n], and their variances with noise [n].

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = condition(kernel, sites, sites.x[left.site].contiguous(), left.near)
    own = 0.0 if sites.own is None else sites.own[left.site]
    variance = found.variance + kernel.noise * sites.noise[left.site] + own
    return sites.y[left.site] - found.mean, variance


def tells_noise(kernel: Kernel, sites: TrainingData, left: LeftOut) -> bool:
    """Whether left-out sites tell noise from an uncertain bottom, as where lines cross.

    Where lines lie apart and nothing crosses them, every left-out site is far from all others. Then
    any noise explains the errors there as well as a rougher bottom does.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = condition(kernel, sites, sites.x[left.site].contiguous(), left.near).variance
    near = found <= max(LITTLE * found.median().item(), kernel.noise.item())
    return near.double().mean().item() >= FEWEST_TELLING


def widening(
    error: Tensor, variance: Tensor, stretch: Tensor, telling: bool = True
) -> VarianceCalibration:
    """From the errors of left-out sites [n], their variances with noise, and their stretches.

    First the variance to be added that has the least log loss, then the factor with which 1.96
    deviations are the upper limit of the size that 95 % of the residuals have; never one below 1.
    Unless the sites are ``telling`` (``tells_noise``), each variance to be added is judged with the
    factor, not below 1 either, that suits it best: far from all lines, too small a factor looks
    like too little noise.
    """
    least = torch.inf
    for tried in ADDED.tolist():
        wider = variance + tried
        if not telling:
            wider = wider * (error.square() / wider).mean().clamp_min(1.0)
        if (loss := log_loss(error, 0.0 * error, wider).mean().item()) < least:
            least, added = loss, tried
    sizes = error.abs() / (variance + added).sqrt()
    limit, usual = upper_limit(sizes, stretch), sizes.quantile(COVERED).item()
    return VarianceCalibration(added, *(max(1.0, width / WIDTH) ** 2 for width in (limit, usual)))


def upper_limit(sizes: Tensor, stretch: Tensor) -> float:
    """What the 95 % quantile of sizes [N] is at most, with confidence, where those of one stretch
    [N] (numbers from 0, two or more) are no independent draws.

    The confidence limit of the share below the quantile, whose variance is that between stretches,
    read as a quantile (Woodruff 1952, doi:10.1080/01621459.1952.10483443).
    """
    below = (sizes <= sizes.quantile(COVERED)).double() - COVERED
    return sizes.quantile(min(1.0, COVERED + CONFIDENCE * deviation_of_mean(below, stretch))).item()


def deviation_of_mean(excess: Tensor, stretch: Tensor) -> float:
    """The standard deviation of the mean of something less its mean [N], where those of one stretch
    [N] (numbers from 0, two or more) are no independent draws."""
    sums = torch.zeros(int(stretch.max()) + 1, dtype=torch.float64).index_add_(0, stretch, excess)
    count = len(sums)
    return ((count / (count - 1) * sums.square().sum()).sqrt() / len(excess)).item()
