"""A fit of what all places share, to whole stretches of a record that are left out.

Training predicts left-out sites mostly from others of the same line. These share errors of position
and level with them, so that hardly any noise is learned, and where lines cross, a map follows the
errors of each. Here the amplitude, the lengthscale and the noise are fitted to sites that are
predicted from the other stretches of the record. The exponent keeps its value, learned along the
lines. With few parameters and all sites at once, the result depends little on chance.

Where the bottom slopes, an error of position becomes one of depth (McHutchon and Rasmussen 2011,
"Gaussian process training with input noise"). So each site also has noise of its own: the variance
of the position times the squared slope. Lines may differ for other reasons, which the fit would
take for large errors of position. So these are bounded, and the learned kernel stays unless the
refit clearly predicts the stretches better that it was not fitted to. If it does not, the error of
position alone, with everything else as learned, may still predict them better.

Training also finds spurious differences between places, which a map follows far from all soundings.
So the same is also fitted with half of the departures of log s and log l from their means.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .calibration import LeftOutSites, deviation_of_mean, errors_of, widening
from .conditional import condition, gradient, log_loss
from .fields import LEAST_NOISE
from .index import make_index
from .kernel import Kernel, TrainingData
from .sites import SiteStore

#: Maximum number of left-out sites to fit to, and of sites whose slopes are computed.
MOST, MOST_SLOPES = 2000, 20_000
#: Steps of each minimisation.
STEPS = 12
#: Trial standard deviations of position, relative to the largest.
TRIED = (0.0, 0.25, 0.5, 1.0)
#: No larger position error is tried if the mean log loss rose by more than this.
WORSE = 0.01
#: Minimum number of stretches.
FEWEST = 8
#: One-sided confidence that a refit is better (0.99) in standard errors, by t with 16 stretches.
CLEARLY = 2.602
#: Step of the differences for slopes, in scaled units.
STEP = 0.005
#: Bounds of the fitted values (see ``Refit``); the first two relative to the learned ones.
BOUNDS = ((-1.5, 1.5), (-1.5, 1.5), (-12.0, 2.0))


class Refit(NamedTuple):
    """Changes of log s and log l everywhere; log noise variance; standard deviation of position, in
    scaled units; and the share that stays of the departures of log s and log l from their means."""

    amplitude: float
    length: float
    noise: float
    position: float
    share: float = 1.0

    def applied(self, kernel: Kernel) -> Kernel:
        """The kernel with this refit."""
        F = kernel.F.clone()
        F[:, :2] = torch.lerp(F[:, :2].mean(0), F[:, :2], self.share)
        F[:, 0] += self.amplitude
        F[:, 1] += self.length
        noise = torch.tensor(self.noise, dtype=torch.float64).exp() + LEAST_NOISE
        return replace(kernel, F=F, noise=noise)


class Variant(NamedTuple):
    """A variant of the fit: ``share`` of the fields' departures stays, as in ``Refit``; the error
    of position is fitted ``alone``, or everything."""

    share: float
    alone: bool = False


#: The variants that fit everything.
VARIANTS = Variant(1.0), Variant(0.5)


def refit(
    kernel: Kernel, sites: TrainingData, left: LeftOutSites, slopes: Tensor, largest: float
) -> tuple[Refit, Tensor, Tensor] | None:
    """The refit that predicts left-out stretches best; None if the learned kernel does, or with
    fewer than 8 stretches.

    Each variant is fitted to every other stretch and predicts those between, and vice versa. The
    log loss must fall by more than 2.602 times its standard error over the stretches; of those that
    achieve this, the one with the smallest CRPS is taken. (The log loss counts mostly where
    deviations are small: it would choose varying fields even if errors are larger with them.)
    Otherwise the error of position alone is fitted: it is a single parameter, so any fall is
    enough. The learned kernel is compared with the added variance that suits it best over all
    stretches.

    Args:
        kernel: as learned.
        sites: the data.
        left: the left-out sites, and from which sites they are predicted.
        slopes: squared slopes at the sites [S].
        largest: limit of the standard deviation of position, in scaled units.

    Returns:
        The refit, and the errors of the left-out sites [n] and their variances with noise [n], as
        predicted by the fits that did not use them.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if left.stretch.max() < FEWEST - 1:
        return None
    error, variance = errors_of(kernel, sites, left)
    none = torch.zeros_like(error)
    before = log_loss(error, none, variance + widening(error, variance, left.stretch).added)
    best, least = None, math.inf
    for variant in VARIANTS:
        found = _crossed(kernel, sites, left, slopes, largest, variant)
        gain = before - log_loss(found[0], none, found[1])
        clearly = CLEARLY * deviation_of_mean(gain - gain.mean(), left.stretch)
        if gain.mean() > clearly and (score := crps(*found)) < least:
            least, best, (error, variance) = score, variant, found
    if best is None:
        best = Variant(1.0, alone=True)
        error, variance = _crossed(kernel, sites, left, slopes, largest, best)
        if log_loss(error, none, variance).mean() >= before.mean():
            return None
    return _fitted(kernel, sites, left.thinned(MOST), slopes, largest, best), error, variance


def crps(error: Tensor, variance: Tensor) -> float:
    """The mean continuous ranked probability score of N(mean, variance) at errors [n] of the mean
    (Gneiting and Raftery 2007, doi:10.1198/016214506000001437), in units of the error."""
    deviation = variance.sqrt()
    t = error / deviation
    density = (-0.5 * t.square()).exp() / math.sqrt(2 * math.pi)
    score = t * (2 * torch.special.ndtr(t) - 1) + 2 * density - 1 / math.sqrt(math.pi)
    return (deviation * score).mean().item()


def _crossed(
    kernel: Kernel,
    sites: TrainingData,
    left: LeftOutSites,
    slopes: Tensor,
    largest: float,
    variant: Variant,
) -> tuple[Tensor, Tensor]:
    """Errors of left-out sites [n] and their variances with noise [n], predicted by fits to the
    other half of the stretches (even or odd)."""
    error, variance = torch.empty(2, len(left.site), dtype=torch.float64)
    for odd in (0, 1):
        mine = left.stretch % 2 == odd
        fitted = left.part(mine).thinned(MOST // 2)
        found = _fitted(kernel, sites, fitted, slopes, largest, variant)
        noisy = _noisy(sites, found.position, slopes)
        error[~mine], variance[~mine] = errors_of(found.applied(kernel), noisy, left.part(~mine))
    return error, variance


def _noisy(sites: TrainingData, position: float, slopes: Tensor) -> TrainingData:
    """The sites with noise from errors of position."""
    own = position**2 * slopes
    return replace(sites, own=own if sites.own is None else sites.own + own)


def _fitted(
    kernel: Kernel,
    sites: TrainingData,
    left: LeftOutSites,
    slopes: Tensor,
    largest: float,
    variant: Variant,
) -> Refit:
    """The refit with the smallest mean log loss of these left-out sites."""
    from scipy.optimize import minimize

    values = np.array([0.0, 0.0, np.log(float(kernel.noise) - LEAST_NOISE)])
    bounds = [(v, v) for v in values] if variant.alone else BOUNDS
    values = np.clip(values, *np.transpose(bounds))

    def made(v: np.ndarray, position: float = 0.0) -> Refit:
        amplitude, length, noise = v.tolist()
        return Refit(amplitude, length, noise, position, variant.share)

    least, best = np.inf, made(values)
    for position in (share * largest for share in TRIED):
        tried = _noisy(sites, position, slopes)

        def loss(v: np.ndarray, tried: TrainingData = tried) -> tuple[float, np.ndarray]:
            new = made(v).applied(kernel)
            found = gradient(new, tried, left.site, left.near)
            amplitude, length, _, _ = found.F.sum(0).tolist()
            noise = found.noise * float(new.noise - LEAST_NOISE)
            return found.loss, np.array([amplitude, length, noise])

        result = minimize(
            loss, values, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}
        )
        values = result.x
        if result.fun < least:
            least, best = float(result.fun), made(values, position)
        elif result.fun > least + WORSE:
            break
    return best


def squared_slopes(kernel: Kernel, store: SiteStore, k: int, pool: int, apart: float) -> Tensor:
    """Squared slopes of the predicted bottom at the sites [S]; with many sites, at the nearest of a
    selection.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    sites = store.sites
    some = sites.x[:: -(-len(sites.x) // MOST_SLOPES)].contiguous()
    near, found = store.spread(some, k, pool, apart=apart), torch.zeros(len(some)).double()
    for shift in torch.eye(2, dtype=torch.float64) * STEP:
        up, down = (condition(kernel, sites, some + s, near).mean for s in (shift, -shift))
        found += ((up - down) / (2 * STEP)).square()
    if len(some) == len(sites.x):
        return found
    index = make_index()
    index.add(some)
    return found[index.spread(sites.x, 1, 1).squeeze(1)]
