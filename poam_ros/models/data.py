"""The data and the predictions of a model, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.samples import grown

#: Upper bound of a target's own noise variance, in units of the targets' variance.
WEIGHTLESS = 1e12


@dataclass(frozen=True)
class Dataset:
    """Inputs X [N, D] and targets y [N].

    noise [N]: variance of each target's own noise, which adds to the learned noise; 0 where it is
    unknown, None if it is unknown for all targets.

    Raises:
        ValueError: the shapes do not match.
    """

    X: Tensor
    y: Tensor
    noise: Tensor | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise ValueError(
                f"Dataset: expected X [N, D] and y [N], got {list(self.X.shape)} "
                f"and {list(self.y.shape)}"
            )
        if self.noise is not None and self.noise.shape != self.y.shape:
            raise ValueError(
                f"Dataset: expected noise [N] like y {list(self.y.shape)}, "
                f"got {list(self.noise.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor | slice) -> Dataset:
        noise = None if self.noise is None else self.noise[index]
        return Dataset(self.X[index], self.y[index], noise)


@dataclass(frozen=True)
class Prediction:
    """Means [N] and variances [N] of the predictive marginals."""

    mean: Tensor
    variance: Tensor


class DataStore:
    """All data so far. Appending takes amortised constant time.

    Neither the initial dataset nor the views returned by ``data`` are ever written into.
    """

    def __init__(self, data: Dataset) -> None:
        self._X, self._y, self._noise = data.X, data.y, data.noise
        self._count = len(data)

    def __len__(self) -> int:
        return self._count

    @property
    def data(self) -> Dataset:
        """A view of everything stored; no copy."""
        noise = None if self._noise is None else self._noise[: self._count]
        return Dataset(self._X[: self._count], self._y[: self._count], noise)

    def append(self, new: Dataset) -> None:
        """Append new data."""
        kept, count = self._count, self._count + len(new)
        if self._noise is None and new.noise is not None:
            self._noise = torch.zeros_like(self._y)  # unknown for the data before
        self._X, self._y = grown(self._X, kept, count), grown(self._y, kept, count)
        self._X[kept:count], self._y[kept:count] = new.X, new.y
        if self._noise is not None:
            self._noise = grown(self._noise, kept, count)
            self._noise[kept:count] = 0.0 if new.noise is None else new.noise
        self._count = count


def grid_points(x: Tensor, y: Tensor) -> Tensor:
    """The points of a grid [rows * columns, 2], row by row, of x [columns] and y [rows]."""
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((xx.flatten(), yy.flatten()), dim=-1)
