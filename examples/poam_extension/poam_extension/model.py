"""A model: the mean of all samples, weighted by the inverse of their distance."""

from dataclasses import dataclass

import torch

from poam_ros import (
    Dataset,
    ModelEntry,
    ModelState,
    OnlineModel,
    Prediction,
    UpdateReport,
    check,
    setting,
)


@dataclass(frozen=True)
class WeightedOptions:
    """Options of ``weighted``: the setting weighted.power, a parameter of the mapper node."""

    prefix = "weighted"

    power: float = setting(4.0, "Power of the distance", minimum=1.0, maximum=9.0)

    def __post_init__(self) -> None:
        check(self)


class Weighted(OnlineModel):
    """Places are in [-1, 1], elevations have mean 0 and deviation 1; the mapper converts."""

    def __init__(self, options: WeightedOptions, seed: int, device: torch.device) -> None:
        self.power = options.power
        self._data = Dataset(torch.empty(0, 2).double(), torch.empty(0).double())

    @property
    def data(self) -> Dataset:
        return self._data

    def update(self, new: Dataset, enough=None) -> UpdateReport:
        self._data = Dataset(torch.cat([self.data.X, new.X]), torch.cat([self.data.y, new.y]))
        return UpdateReport({}, noise_std=0.1)

    def predict(self, X: torch.Tensor, noise: bool = True) -> Prediction:
        squared = (X.unsqueeze(1) - self.data.X).square().sum(-1) + 1e-6
        weights = squared ** (-self.power / 2)
        variance = squared.min(1).values.clamp_max(1.0) + (0.01 if noise else 0.0)
        return Prediction(weights @ self.data.y / weights.sum(1), variance)

    def state(self) -> ModelState:
        return ModelState({"X": self.data.X, "y": self.data.y})

    def restore(self, state: ModelState) -> None:
        self._data = Dataset(state.tree["X"], state.tree["y"])


WEIGHTED = ModelEntry(Weighted, WeightedOptions)
