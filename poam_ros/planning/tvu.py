"""The 95 % uncertainty of a map against the total vertical uncertainty (TVU) of IHO S-44.

S-44, edition 6.0.0, table 1: at 95 %, TVU(d) = sqrt(a^2 + (b d)^2) at the depth d. An order has
further requirements (features, coverage, positions), so a map within its TVU is not necessarily of
that order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Half width of the central 95 % interval of a Gaussian, in standard deviations.
CONFIDENCE_95 = 1.959963984540054


#: The orders by name, the strictest first, with a in m and b of their TVU. 1a and 1b differ in
#: other requirements.
ORDERS = {
    "exclusive": (0.15, 0.0075), "special": (0.25, 0.0075), "1a": (0.5, 0.013),
    "1b": (0.5, 0.013), "2": (1.0, 0.023),
}  # fmt: skip
#: The orders that ``strictest`` counts, those with different TVU, the least strict first.
LEVELS = ("2", "1b", "special", "exclusive")
#: Names of the counts of ``strictest``; 0: none.
LEVEL_NAMES = ("none", *({"1b": "1a, 1b"}.get(name, name.capitalize()) for name in LEVELS))


def order_name(order: str) -> str:
    """An order as S-44 writes it: Exclusive Order, Order 1a."""
    return f"{order.capitalize()} Order" if order.isalpha() else f"Order {order}"


def allowed(order: str, depth: np.ndarray) -> np.ndarray:
    """The total vertical uncertainty of an order at depths in m, of any shape; in m, at 95 %."""
    a, b = ORDERS[order]
    return np.hypot(a, b * depth)


def within(order: str, depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Where a map is within the TVU of an order; boolean, in the shape of the arguments.

    Args:
        order: a name of ``ORDERS``.
        depth: below the water level, in m. Dry places and NaN are within no order.
        deviation: standard deviation of the elevation, with noise, in m.
    """
    return (depth > 0) & (CONFIDENCE_95 * deviation <= allowed(order, depth))


def tvu_ratio(order: str, depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The 95 % uncertainty divided by an order's TVU: within it up to 1; NaN for dry places.

    The arguments are those of ``within``.
    """
    return np.where(depth > 0, CONFIDENCE_95 * deviation / allowed(order, depth), np.nan)


def strictest(depth: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """How many of ``LEVELS`` a place is within, 0..4, as floats; NaN for dry places."""
    count = sum(within(name, depth, deviation).astype(float) for name in LEVELS)
    return np.where(depth > 0, count, np.nan)


def shares(depth: np.ndarray, deviation: np.ndarray, orders: Sequence[str]) -> dict[str, float]:
    """The share of the places under water that is within each order; NaN if none is under water."""
    wet = int((depth > 0).sum())
    return {
        name: float(within(name, depth, deviation).sum() / wet) if wet else float("nan")
        for name in orders
    }
