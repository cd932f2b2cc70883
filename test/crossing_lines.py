"""A simulated lake that is surveyed by lines which cross."""

from __future__ import annotations

import numpy as np


def ground(xy: np.ndarray) -> np.ndarray:
    x, y = xy.T
    return -12 - 3 * np.sin(x / 50) - 2 * np.cos(y / 40) - np.sin((x + y) / 23)


def lake(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eight lines north and four east over 240 m x 200 m: places, elevations, lines."""
    rng = np.random.default_rng(seed)
    parts = []
    for i, x in enumerate(np.linspace(15, 225, 8)):
        y = np.arange(0, 200, 1.5)[:: 1 if i % 2 else -1]
        parts.append(np.column_stack((np.full(len(y), x) + 2 * np.sin(y / 30), y)))
    for i, y in enumerate(np.linspace(25, 175, 4)):
        x = np.arange(0, 240, 1.5)[:: 1 if i % 2 else -1]
        parts.append(np.column_stack((x, np.full(len(x), y) + 2 * np.sin(x / 30))))
    xy = np.concatenate(parts)
    line = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return xy, ground(xy) + rng.normal(0, 0.05, len(xy)), line
