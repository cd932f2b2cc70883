"""What goes into a model and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Dataset:
    """Inputs X [N, D] and targets y [N].

    Raises:
        ValueError: if the shapes do not belong together.
    """

    X: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise ValueError(
                f"Dataset: expected X [N, D] and y [N], got {list(self.X.shape)} "
                f"and {list(self.y.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor | slice) -> Dataset:
        return Dataset(self.X[index], self.y[index])


@dataclass(frozen=True)
class Prediction:
    """Means [N] and variances [N] of the predictive marginals."""

    mean: Tensor
    variance: Tensor


class DataStore:
    """All data so far. Appending costs amortised constant time, whatever N is.

    Begins with a dataset that it never writes into; nor does it write into what it gave out.
    """

    def __init__(self, data: Dataset) -> None:
        self._X, self._y = data.X, data.y
        self._count = len(data)

    def __len__(self) -> int:
        return self._count

    @property
    def data(self) -> Dataset:
        """A view of everything stored; no copy."""
        return Dataset(self._X[: self._count], self._y[: self._count])

    def append(self, new: Dataset) -> None:
        """Add the new data behind the old; the buffers double when they are full."""
        count = self._count + len(new)
        if count > len(self._y):
            room = max(count, 2 * len(self._y)) - self._count
            self._X = torch.cat([self.data.X, self._X.new_empty(room, self._X.shape[1])])
            self._y = torch.cat([self.data.y, self._y.new_empty(room)])
        self._X[self._count : count] = new.X
        self._y[self._count : count] = new.y
        self._count = count
