"""A map model of another kind than the package's: what the table of models makes room for."""

from dataclasses import dataclass

import torch

from poam_ros.core.maps import UpdateReport
from poam_ros.core.settings import check, setting
from poam_ros.models.interface import Dataset, ModelState, OnlineModel, Prediction


@dataclass(frozen=True)
class ToyOptions:
    """Of inverse-distance weighting."""

    prefix = "toy"
    power: float = setting(4.0, "How fast a datum's weight falls", minimum=1.0, maximum=9.0)

    def __post_init__(self):
        check(self)


class Toy(OnlineModel):
    """Inverse-distance weighting: no inducing points, no lengthscale, no covariance."""

    def __init__(self, options, seed, device):
        self.power, self.device = options.power, device
        self._data = Dataset(torch.empty(0, 2).double(), torch.empty(0).double())

    @property
    def data(self):
        return self._data

    def update(self, new, enough=None):
        X, y = torch.cat([self.data.X, new.X]), torch.cat([self.data.y, new.y])
        self._data = Dataset(X, y)
        return UpdateReport({"keeping": 1e-6}, noise_std=0.5)

    def predict(self, X, noise=True):
        squared = (X.unsqueeze(1) - self.data.X).square().sum(-1) + 1e-4
        weights = squared ** (-self.power / 2)
        mean = weights @ self.data.y / weights.sum(1)
        return Prediction(mean, squared.min(1).values.clamp_max(1.0) + (0.25 if noise else 0.0))

    def state(self):
        return ModelState({"X": self.data.X, "y": self.data.y})

    def restore(self, state):
        self._data = Dataset(state.tree["X"], state.tree["y"])
