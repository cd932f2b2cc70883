"""Variance calibration: how far off predictions are where whole stretches of a record are missing.

Training leaves out single sites, or round gaps about them. A survey line that crosses others is
further off than that suggests: its soundings share errors of position and level. So, with the
kernel as learned, each stretch of the record is predicted from the others. Neighbouring parts of
the record are left out as well, as a line that continues there would share its errors. If intervals
are too narrow for these residuals, they are widened (jackknife+ by groups, without its
one-sidedness: see Barber et al. 2021, doi:10.1214/20-AOS1965). Residuals within a stretch are alike
and stretches are few, so the next line may well be worse than these: the limit is an upper
confidence limit of their quantile, not the quantile itself.

Sums over a map, such as its volume, have a factor of their own, from the means of the errors of
whole stretches: what makes single soundings differ averages out in a sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.geometry import Land
from .conditional import condition, joint_covariance, log_loss
from .kernel import Kernel
from .sites import Index, TrainingData, spread_visible

#: Maximum number of predicted sites, evenly from the whole record.
MOST = 8000
#: On either side of a stretch, sites within this share of its length do not predict it (Racine
#: 2000, doi:10.1016/S0304-4076(00)00030-0).
APART = 0.25
#: Maximum number of sites of a stretch whose mean is calibrated, evenly: then their neighbours can
#: be factorised together.
MOST_OF_MEAN = 32
#: Share of the residuals within the intervals; half the width of these in standard deviations.
COVERED, WIDTH = 0.95, 1.96
#: One-sided confidence of the quantile's upper limit, 0.9, in deviations of a standard normal.
CONFIDENCE = 1.2816
#: Left-out sites tell noise from an uncertain bottom if their variance without noise is small: at
#: most this share of the median, or at most the noise. And the share of all sites that must do so.
LITTLE, FEWEST_TELLING = 0.1, 0.01
#: Trial values of the added variance, in units of the targets' variance.
ADDED = torch.cat([torch.zeros(1), torch.logspace(-5, 1, 121)]).double()


class VarianceCalibration(NamedTuple):
    """Predictive variances with noise become factor (variance + added); variances of sums over a
    map become ``sums`` times as large. ``stationary``: parameters of the kernel that predicts, if
    it is not the learned one (``NngpTrainer.stationary``)."""

    added: float = 0.0
    factor: float = 1.0
    sums: float = 1.0
    stationary: Tensor | None = None


class LeftOutSites(NamedTuple):
    """Sites that are predicted from sites away from their stretch: their numbers [n], neighbours
    [n, k] (-1 for none), and stretches [n], in order."""

    site: Tensor
    near: Tensor
    stretch: Tensor


def left_out(
    sites: TrainingData, stretches: int, k: int, pool: int, apart: float, land: Land | None = None
) -> LeftOutSites | None:
    """The left-out sites of this many equally long stretches of the record; None if only one."""
    count = len(sites.x)
    if not 1 < stretches <= count:
        return None
    parts = []
    for number, stretch in enumerate(np.array_split(np.arange(count), stretches)):
        gap, asked = int(APART * len(stretch)), stretch[:: -(-count // MOST)]
        others = np.r_[: max(0, stretch[0] - gap), stretch[-1] + 1 + gap : count]
        index = Index()
        index.add(sites.x[others])
        x = sites.x[asked].contiguous()
        near = spread_visible(index, sites.x[others], land, x, k, pool, apart=apart)
        near = torch.where(near < 0, near, torch.from_numpy(others)[near])
        parts.append((torch.from_numpy(asked), near, torch.full((len(asked),), number)))
    return LeftOutSites(*map(torch.cat, zip(*parts, strict=True)))


def errors_of(
    kernel: Kernel, sites: TrainingData, left: LeftOutSites
) -> tuple[Tensor, Tensor, bool]:
    """Errors of the predictions of left-out sites [n], and their variances with noise [n]; and
    whether these sites tell noise from an uncertain bottom, as where lines cross.

    Where lines lie apart and nothing crosses them, every left-out site is far from all others. Then
    noise explains the errors there as well as a rougher bottom does.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = condition(kernel, sites, sites.x[left.site].contiguous(), left.near)
    own = 0.0 if sites.own is None else sites.own[left.site]
    variance = found.variance + kernel.noise * sites.noise[left.site] + own + kernel.shared_variance
    near = found.variance <= max(LITTLE * found.variance.median().item(), kernel.noise.item())
    telling = near.double().mean().item() >= FEWEST_TELLING
    return sites.y[left.site] - found.mean, variance, telling


def factor_of_sums(kernel: Kernel, sites: TrainingData, left: LeftOutSites, error: Tensor) -> float:
    """The factor of the variances of sums, at least 1, from the errors of left-out sites [n].

    The mean of a stretch's errors is a sum, too. Over all stretches, the squares of these means add
    up to their variances, by the joint covariance, if draws are right: the factor is the ratio of
    the two (method of moments). So places far from all others count most, as in a volume.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    squares = variances = 0.0
    for number in left.stretch.unique().tolist():
        rows = torch.nonzero(left.stretch == number).squeeze(1)
        rows = rows[:: -(-len(rows) // MOST_OF_MEAN)]
        site = left.site[rows]
        joint = joint_covariance(kernel, sites, sites.x[site].contiguous(), left.near[rows])
        if joint is None:
            return 1.0
        noise = kernel.noise * sites.noise[site]
        if sites.own is not None:
            noise = noise + sites.own[site]
        squares += error[rows].mean().square().item()
        shared = kernel.shared(site).mean()
        variances += (joint.mean() + noise.mean() / len(rows) + shared).item()
    return max(1.0, squares / variances)


def widening(
    error: Tensor, variance: Tensor, stretch: Tensor, telling: bool = True
) -> VarianceCalibration:
    """The calibration of single predictions from errors of left-out sites [n], their variances with
    noise, and their stretches.

    First the added variance with the smallest log loss, then the factor that makes 1.96 deviations
    the upper limit of the 95 % quantile of the residuals' sizes; at least 1. Unless the sites are
    ``telling`` (``errors_of``), each added variance is compared with the factor, also at least 1,
    that suits it best: far from all lines, too small a factor looks like too little noise.
    """
    least = torch.inf
    for tried in ADDED.tolist():
        wider = variance + tried
        if not telling:
            wider = wider * (error.square() / wider).mean().clamp_min(1.0)
        if (loss := log_loss(error, 0.0 * error, wider).mean().item()) < least:
            least, added = loss, tried
    sizes = error.abs() / (variance + added).sqrt()
    return VarianceCalibration(added, max(1.0, upper_limit(sizes, stretch) / WIDTH) ** 2)


def upper_limit(sizes: Tensor, stretch: Tensor) -> float:
    """Upper confidence limit of the 95 % quantile of sizes [N], which are not independent within a
    stretch; ``stretch`` [N]: numbers from 0, two or more.

    It is the quantile at the upper confidence limit of the share below the quantile, with the
    variance between stretches (Woodruff 1952, doi:10.1080/01621459.1952.10483443).
    """
    below = (sizes <= sizes.quantile(COVERED)).double() - COVERED
    return sizes.quantile(min(1.0, COVERED + CONFIDENCE * deviation_of_mean(below, stretch))).item()


def deviation_of_mean(excess: Tensor, stretch: Tensor) -> float:
    """Standard deviation of the mean of values, given less their mean [N], that are not independent
    within a stretch; ``stretch`` [N]: numbers from 0, two or more."""
    sums = torch.zeros(int(stretch.max()) + 1, dtype=torch.float64).index_add_(0, stretch, excess)
    count = len(sums)
    return ((count / (count - 1) * sums.square().sum()).sqrt() / len(excess)).item()
