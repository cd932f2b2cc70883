"""The paper's metrics (Sec. V-A), against the noise-free truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError


@dataclass(frozen=True)
class Metrics:
    """smse: mean squared error over the variance of the truth. msll: mean log loss minus that of
    N(mean, variance of the training targets). rmse and mae in m. nlpd: mean log loss."""

    smse: float
    msll: float
    rmse: float
    mae: float
    nlpd: float


def evaluate(
    mean: np.ndarray,
    variance: np.ndarray,
    truth: np.ndarray,
    target_mean: float,
    target_variance: float,
) -> Metrics:
    """Metrics of predictive marginals N(mean, variance) at points of known elevation ``truth``.

    ``mean``, ``variance`` and ``truth`` are arrays of one shape, in m, m^2 and m; the targets' mean
    and variance are those of all training targets so far.

    Raises:
        InputError: if the shapes differ, or a variance is not positive.
    """
    if not (mean.shape == variance.shape == truth.shape):
        raise InputError(
            f"evaluate: expected arrays of one shape, got {mean.shape}, {variance.shape}, "
            f"{truth.shape}"
        )
    if not (np.all(variance > 0) and target_variance > 0):
        raise InputError("evaluate: expected positive variances")
    squared = (mean - truth) ** 2
    mse = float(squared.mean())
    nlpd = _mean_log_loss(squared, variance)
    naive = _mean_log_loss((target_mean - truth) ** 2, np.full_like(truth, target_variance))
    return Metrics(
        smse=mse / float(truth.var()),
        msll=nlpd - naive,
        rmse=mse**0.5,
        mae=float(np.abs(mean - truth).mean()),
        nlpd=nlpd,
    )


def _mean_log_loss(squared_error: np.ndarray, variance: np.ndarray) -> float:
    return float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * squared_error / variance))


def average_over_samples(
    samples: np.ndarray, values: np.ndarray, first: float = 1000, last: float = 5000
) -> float:
    """Average of a metric's curve over a span of samples, linearly interpolated.

    A run that ends early is averaged up to its end.

    Raises:
        InputError: if the curve does not reach into the span.
    """
    last = min(last, float(samples[-1]))
    if not last > first or samples[0] > first:
        raise InputError(
            f"average: expected a curve across {first:g} samples, got {samples[0]:g} to "
            f"{samples[-1]:g}"
        )
    inside = samples[(samples > first) & (samples < last)]
    at = np.concatenate(([first], inside, [last]))
    heights = np.interp(at, samples, values)
    return float(np.sum(np.diff(at) * (heights[1:] + heights[:-1]) / 2) / (last - first))
