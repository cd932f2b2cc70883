"""What all places share, fitted to whole stretches of a record that are left out.

Training predicts left-out sites mostly from others of the same line. These share errors of position
and level with them, so that hardly any noise is learned, and where lines cross, a map follows the
errors of each. Here the amplitude, the lengthscale and the noise are fitted to sites that are
predicted from the other stretches of the record. The fields keep their shape, and the exponent what
it was along the lines. With few parameters and all sites at once, little of it depends on chance.

An error of position becomes one of depth where the bottom slopes (McHutchon and Rasmussen 2011,
"Gaussian process training with input noise"). So each site has a variance of noise of its own, too:
that of the position times the squared slope there. Lines may differ for other reasons, which the
fit would take for large errors of position: so these are bounded, and what was learned stays unless
the stretches that were not fitted to say clearly otherwise. Where they do not, the error of
position alone, with all else as it was learned, may still predict them better.
"""

from __future__ import annotations

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
    """Added to log s and log l everywhere; log noise variance; and the standard deviation of
    position, in scaled units."""

    amplitude: float
    length: float
    noise: float
    position: float

    def applied(self, kernel: Kernel) -> Kernel:
        """The kernel with these."""
        F = kernel.F.clone()
        F[:, 0] += self.amplitude
        F[:, 1] += self.length
        noise = torch.tensor(self.noise, dtype=torch.float64).exp() + LEAST_NOISE
        return replace(kernel, F=F, noise=noise)


def refit(
    kernel: Kernel, sites: TrainingData, left: LeftOut, slopes: Tensor, largest: float
) -> tuple[Refit, Tensor, Tensor] | None:
    """What has the least mean log loss; None where it predicts no better than what was learned, or
    there are fewer than 8 stretches.

    That is judged by fitting every other stretch and predicting the ones between, both ways: their
    log loss has to fall by more than 2.602 times its standard error over the stretches. Otherwise
    the error of position alone is fitted: it is one parameter only, so that any fall is enough.
    What was learned has the added variance that is best for all of them.

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
    for alone in (False, True):
        error, variance = torch.empty(2, len(before), dtype=torch.float64)
        for odd in (0, 1):
            mine, others = (left.part(left.stretch % 2 == side) for side in (odd, 1 - odd))
            found = _fitted(kernel, sites, mine.thinned(MOST // 2), slopes, largest, alone)
            new = errors_of(found.applied(kernel), _noisy(sites, found.position, slopes), others)
            error[left.stretch % 2 != odd], variance[left.stretch % 2 != odd] = new
        gain = before - log_loss(error, none, variance)
        least = 0.0 if alone else CLEARLY * deviation_of_mean(gain - gain.mean(), left.stretch)
        if gain.mean() > least:
            found = _fitted(kernel, sites, left.thinned(MOST), slopes, largest, alone)
            return found, error, variance
    return None


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
    alone: bool,
) -> Refit:
    """``alone``: the error of position, with all else as in the kernel."""
    from scipy.optimize import minimize

    values = np.array([0.0, 0.0, np.log(float(kernel.noise) - LEAST_NOISE)])
    bounds = [(v, v) for v in values] if alone else BOUNDS
    values = np.clip(values, *np.transpose(bounds))
    least, best = np.inf, Refit._make([*values, 0.0])
    for position in (share * largest for share in TRIED):
        tried = _noisy(sites, position, slopes)

        def loss(v: np.ndarray, tried: TrainingData = tried) -> tuple[float, np.ndarray]:
            new = Refit._make([*v, 0.0]).applied(kernel)
            found = gradient(new, tried, left.site, left.near)
            amplitude, length, _, _ = found.F.sum(0).tolist()
            noise = found.noise * float(new.noise - LEAST_NOISE)
            return found.loss, np.array([amplitude, length, noise])

        result = minimize(
            loss, values, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}
        )
        values = result.x
        if result.fun < least:
            least, best = float(result.fun), Refit._make([*values.tolist(), position])
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
