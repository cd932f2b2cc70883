"""The area that soundings surround, on a grid of cells: where a map predicts between them."""

from __future__ import annotations

import numpy as np


def surrounded(occupied: np.ndarray) -> np.ndarray:
    """The cells that have soundings, and those from which soundings lie in directions, of eight,
    that leave no gap of more than half a turn; boolean [n, n] as ``occupied``.

    A strip of lines, such as along a river, is thus the strip and not the box around it.
    """
    seen = occupied.copy()  # a diagonal row of cells is no fence: a diagonal passes through
    seen[1:] |= occupied[:-1]
    seen[:, 1:] |= occupied[:, :-1]
    turned, around = seen, []
    for _ in range(4):  # in the frame turned so far: up, and diagonally up
        around += [_above(turned), _unsheared(_above(_sheared(turned)))]
        around = [np.rot90(each) for each in around]
        turned = np.rot90(turned)
    hit = np.stack(around)
    half = np.stack([np.roll(hit, -k, axis=0) for k in range(len(hit) // 2)]).any(0)
    return occupied | half.all(0)


def _above(cells: np.ndarray) -> np.ndarray:
    """Whether there is a cell in the same column, at this or a smaller row."""
    return np.logical_or.accumulate(cells, axis=0)


def _sheared(cells: np.ndarray) -> np.ndarray:
    """Row i moved to the right by i: [n, 2 n - 1]; diagonals become columns."""
    n = len(cells)
    wide = np.zeros((n, 2 * n), dtype=bool)
    wide[:, :n] = cells
    return wide.ravel()[: n * (2 * n - 1)].reshape(n, 2 * n - 1)


def _unsheared(cells: np.ndarray) -> np.ndarray:
    n = len(cells)
    wide = np.zeros(2 * n * n, dtype=bool)
    wide[: cells.size] = cells.ravel()
    return wide.reshape(n, 2 * n)[:, :n]
