"""Is a map good enough? Its 95 % uncertainty against the total vertical uncertainty of IHO S-44.

S-44, edition 6.0.0, table 1: at 95 %, TVU(d) = sqrt(a^2 + (b d)^2) at the depth d. Being within it
is one of the requirements of an order (there are others: features, coverage, positions), so nothing
here says that a map is of an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Deviations of a Gaussian on either side of its mean that hold 95 %.
CONFIDENCE_95 = 1.959963984540054


@dataclass(frozen=True)
class Order:
    """Of a survey: ``a`` in m does not depend on the depth, ``b`` is a part of it."""

    a: float
    b: float


#: The orders by name, the strictest first. 1a and 1b differ in other requirements.
ORDERS = {
    "exclusive": Order(0.15, 0.0075),
    "special": Order(0.25, 0.0075),
    "1a": Order(0.5, 0.013),
    "1b": Order(0.5, 0.013),
    "2": Order(1.0, 0.023),
}
#: What ``strictest`` counts by: orders with a TVU of their own, the least strict first.
LEVELS = ("2", "1b", "special", "exclusive")
#: What it counts, in words: 0 is none of them.
LEVEL_NAMES = ("none", *({"1b": "1a, 1b"}.get(name, name.capitalize()) for name in LEVELS))


def allowed(order: str, depth: np.ndarray) -> np.ndarray:
    """The total vertical uncertainty of an order at depths in m, of any shape; in m, at 95 %."""
    # TVU = sqrt(a^2 + (b d)^2)
    return np.hypot(ORDERS[order].a, ORDERS[order].b * depth)


def within(order: str, depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Where a map is within the TVU of an order; boolean, of the arguments' shape.

    Args:
        order: a name of ``ORDERS``.
        depth: under the water's level, in m. Dry places, and NaN, are not within any.
        deviation: standard deviation of the elevation, with noise, in m.
    """
    return (depth > 0) & (CONFIDENCE_95 * deviation <= allowed(order, depth))


def used(order: str, depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The 95 % uncertainty as a part of an order's TVU: up to 1 is within; NaN where it is dry.

    Arguments as of ``within``.
    """
    return np.where(depth > 0, CONFIDENCE_95 * deviation / allowed(order, depth), np.nan)


def strictest(depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """How many of ``LEVELS`` a place is within, 0..4, as floats; NaN where there is no water."""
    count = sum(within(name, depth, deviation).astype(float) for name in LEVELS)
    return np.where(depth > 0, count, np.nan)


def shares(depth: np.ndarray, deviation: np.ndarray, orders: Sequence[str]) -> dict[str, float]:
    """The part of the places under water that is within each order; NaN where none is wet."""
    wet = int((depth > 0).sum())
    return {
        name: float(within(name, depth, deviation).sum() / wet) if wet else float("nan")
        for name in orders
    }
