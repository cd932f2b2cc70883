"""Generated survey lines over a smooth ground, as a CSV file, with false echoes if wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LINES, PER_LINE = 6, 40


def ground(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Elevation in m."""
    return -12 + 3 * np.sin(x / 15) * np.cos(y / 20)


def write_survey(path: Path, echoes: int = 0, noise: float = 0.05) -> Path:
    """``LINES`` lines to and fro, 8 m apart, a sounding a metre and a half; columns x,y,z,line.

    ``echoes``: so many soundings, evenly spread, come at twice their depth.
    """
    rng = np.random.default_rng(5)
    along = 1.5 * np.arange(PER_LINE)
    x = np.concatenate([along[:: 1 - 2 * (k % 2)] for k in range(LINES)])
    y = np.repeat(8.0 * np.arange(LINES), PER_LINE)
    z = ground(x, y) + noise * rng.standard_normal(len(x))
    if echoes:
        z[np.linspace(20, len(z) - 20, echoes).astype(int)] *= 2
    rows = [
        f"{a:.2f},{b:.2f},{c:.3f},L{k // PER_LINE}"
        for k, (a, b, c) in enumerate(zip(x, y, z, strict=True))
    ]
    path.write_text("\n".join(["x,y,z,line", *rows]) + "\n", encoding="utf-8")
    return path
