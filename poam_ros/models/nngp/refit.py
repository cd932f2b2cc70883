"""What all places share, fitted to whole stretches of a record that are left out.

Training predicts left-out sites mostly from others of the same line. These share errors of position
and level with them, so that hardly any noise is learned, and where lines cross, a map follows the
errors of each. Here the amplitude, the lengthscale and the noise are fitted to sites that are
predicted from the other stretches of the record. The exponent stays what it was along the lines.
With few parameters and all sites at once, little of it depends on chance.

An error of position becomes one of depth where the bottom slopes (McHutchon and Rasmussen 2011,
"Gaussian process training with input noise"). So each site has a variance of noise of its own, too:
that of the position times the squared slope there. Lines may differ for other reasons, which the
fit would take for large errors of position: so these are bounded, and what was learned stays unless
the stretches that were not fitted to say clearly otherwise. Where they do not, the error of
position alone, with all else as it was learned, may still predict them better.

Training also finds differences between places that are none, and a map follows them far from all
soundings. So the same is also fitted with half of the departures of log s and log l from their
means.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .calibration import LeftOut, deviation_of_mean, errors_of, widening
from .conditional import condition, gradient, log_loss
from .fields import LEAST_NOISE
from .index import make_index
from .kernel import Kernel, TrainingData
from .sites import SiteStore

#: Left-out sites that are fitted to, at most, and sites whose slopes are found.
MOST, MOST_SLOPES = 2000, 20_000
#: Steps of each minimisation.
STEPS = 12
#: Standard deviations of position that are tried, relative to the largest.
TRIED = (0.0, 0.25, 0.5, 1.0)
#: A larger position error is not tried where the mean log loss rose by more than this.
WORSE = 0.01
#: Stretches that there have to be.
FEWEST = 8
#: One-sided confidence that a refit is better, 0.99, in standard errors: of t with 16 stretches.
CLEARLY = 2.602
#: Step of the slopes' differences, in scaled units.
STEP = 0.005
#: Bounds of what is fitted: see ``Refit``; the first two against what was learned.
BOUNDS = ((-1.5, 1.5), (-1.5, 1.5), (-12.0, 2.0))


class Refit(NamedTuple):
    """Added to log s and log l everywhere; log noise variance; the standard deviation of position,
    in scaled units; and how much of the departures of log s and log l from their means is left."""

    amplitude: float
    length: float
    noise: float
    position: float
    share: float = 1.0

    def applied(self, kernel: Kernel) -> Kernel:
        """The kernel with these."""
        F = kernel.F.clone()
        F[:, :2] = torch.lerp(F[:, :2].mean(0), F[:, :2], self.share)
        F[:, 0] += self.amplitude
        F[:, 1] += self.length
        noise = torch.tensor(self.noise, dtype=torch.float64).exp() + LEAST_NOISE
        return replace(kernel, F=F, noise=noise)


class Way(NamedTuple):
    """What is fitted: ``share`` of the fields' departures stays, as in ``Refit``; and the error of
    position ``alone`` is fitted, or all."""

    share: float
    alone: bool = False


#: The ways in which all is fitted.
WAYS = Way(1.0), Way(0.5)


def refit(
    kernel: Kernel, sites: TrainingData, left: LeftOut, slopes: Tensor, largest: float
) -> tuple[Refit, Tensor, Tensor] | None:
    """What predicts left-out stretches best; None where that is what was learned, or there are
    fewer than 8 stretches.

    Each way is fitted to every other stretch and predicts the ones between, both ways. The log loss
    has to fall by more than 2.602 times its standard error over the stretches; of the ways where it
    does, the one with the least CRPS is taken. (By the log loss, which counts mostly where
    deviations are small, fields that vary would be taken even where errors are larger with them.)
    Otherwise the error of position alone is fitted: it is one parameter only, so that any fall is
    enough. What was learned has the added variance that is best for all of them.

    Args:
        kernel: as it was learned.
        sites: the data.
        left: which are predicted, and from which.
        slopes: squared slopes at the sites [S].
        largest: bound of the standard deviation of position, in scaled units.

    Returns:
        The refit, and the errors of the left-out sites [n] and their variances with noise [n] as
        predicted by the fits that did not see them.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if left.stretch.max() < FEWEST - 1:
        return None
    error, variance = errors_of(kernel, sites, left)
    none = torch.zeros_like(error)
    before = log_loss(error, none, variance + widening(error, variance, left.stretch).added)
    best, least = None, math.inf
    for way in WAYS:
        found = _crossed(kernel, sites, left, slopes, largest, way)
        gain = before - log_loss(found[0], none, found[1])
        clearly = CLEARLY * deviation_of_mean(gain - gain.mean(), left.stretch)
        if gain.mean() > clearly and (score := crps(*found)) < least:
            least, best, (error, variance) = score, way, found
    if best is None:
        best = Way(1.0, alone=True)
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
    left: LeftOut,
    slopes: Tensor,
    largest: float,
    way: Way,
) -> tuple[Tensor, Tensor]:
    """Errors of left-out sites [n], and their variances with noise [n], by fits to the stretches of
    the other half: even or odd."""
    error, variance = torch.empty(2, len(left.site), dtype=torch.float64)
    for odd in (0, 1):
        mine = left.stretch % 2 == odd
        fitted = left.part(mine).thinned(MOST // 2)
        found = _fitted(kernel, sites, fitted, slopes, largest, way)
        noisy = _noisy(sites, found.position, slopes)
        error[~mine], variance[~mine] = errors_of(found.applied(kernel), noisy, left.part(~mine))
    return error, variance


def _noisy(sites: TrainingData, position: float, slopes: Tensor) -> TrainingData:
    """With the noise that errors of position make."""
    own = position**2 * slopes
    return replace(sites, own=own if sites.own is None else sites.own + own)


def _fitted(
    kernel: Kernel,
    sites: TrainingData,
    left: LeftOut,
    slopes: Tensor,
    largest: float,
    way: Way,
) -> Refit:
    """The least mean log loss of these left-out sites."""
    from scipy.optimize import minimize

    values = np.array([0.0, 0.0, np.log(float(kernel.noise) - LEAST_NOISE)])
    bounds = [(v, v) for v in values] if way.alone else BOUNDS
    values = np.clip(values, *np.transpose(bounds))

    def made(v: np.ndarray, position: float = 0.0) -> Refit:
        amplitude, length, noise = v.tolist()
        return Refit(amplitude, length, noise, position, way.share)

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
    """Those of the predicted bottom at the sites [S]; of many sites, at the nearest of some.

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
