"""Probability densities of ranges."""

from __future__ import annotations

import numpy as np

MIN_RANGE_M = 0.01  # shorter ranges count as this
BIN = 0.1  # width of the classes of ranges, in their logarithm
PRIOR = 20  # soundings for which a uniform density of false ranges stands


def log_normal_density(error: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Logarithm of a normal density, from errors and their variances."""
    return -0.5 * (error**2 / variance + np.log(2 * np.pi * variance))


def false_density(
    false: np.ndarray, bottom: np.ndarray, ranges: np.ndarray, uniform: float
) -> np.ndarray:
    """Density of ranges that are false, per m [N]: uniform, and more where the record's own ranges
    are false more often than bottom, by a smoothed histogram."""
    bins = np.arange(np.log(MIN_RANGE_M) - 1.5 * BIN, np.log(ranges.max()) + 2 * BIN, BIN)
    false, bottom = (
        np.convolve(np.histogram(np.log(of), bins)[0], (0.25, 0.5, 0.25), mode="same")
        for of in (false, bottom)
    )
    share = np.where(false > bottom, false, 0.0) / (PRIOR + false.sum())
    found = np.interp(np.log(ranges), (bins[1:] + bins[:-1]) / 2, share)
    return np.maximum(found / (BIN * ranges), uniform)
