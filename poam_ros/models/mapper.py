"""The bathymetric mapper: metres outside, scaled units inside. The only place that scales."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap, Enough, Predicted, UpdateReport
from ..core.samples import Samples, SampleStore
from .data import WEIGHTLESS, Dataset, Prediction
from .interface import Calibrated, ModelState, OnlineModel, Sampling
from .linalg import cholesky
from .metres import scaled
from .registry import MODELS, ModelSettings, takes_noise

__all__ = ["BathymetricMapper", "MapperState", "ModelSettings"]


@dataclass(frozen=True)
class MapperState:
    """All it takes to go on as if never stopped; offset, deviation: the targets' scaling, in m."""

    model: ModelState
    offset: float
    deviation: float
    samples: Samples


class BathymetricMapper:
    """An elevation map that learns online.

    Inputs are scaled by the workspace, isotropically, to within [-1, 1]; targets by the mean and
    deviation of the first batch. Both stay fixed from then on. The number of threads is the
    process's: see ``process.prepare``.

    Args:
        workspace: the rectangle to be mapped.
        settings: which model, and its options.
        seed: spawns the model's generators.

    Raises:
        InputError: if the device is not there, or a lengthscale in m does not fit the others.
    """

    def __init__(
        self, workspace: Extent, settings: ModelSettings | None = None, seed: int = 0
    ) -> None:
        self.workspace = workspace
        self.settings = settings or ModelSettings()
        self.seed = seed
        try:
            self._device = torch.device(self.settings.device)
            torch.empty(0, device=self._device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"device: expected one that torch has here, got {self.settings.device!r} ({error})"
            ) from None
        self._scale = float(workspace.size.max() / 2)
        model = MODELS[self.settings.method]
        self._options = scaled(self.settings.options, model.in_metres, self._scale)
        self.reset()

    def reset(self) -> None:
        """Forget everything; the next update initialises again."""
        build = MODELS[self.settings.method].build
        self._model: OnlineModel = build(self._options, self.seed, self._device)
        self._store = SampleStore(Samples.empty())
        self._offset, self._deviation = 0.0, 1.0

    @property
    def initialised(self) -> bool:
        """Whether there is a map."""
        return self.samples > 0

    @property
    def samples(self) -> int:
        """How many pings the map was made from."""
        return len(self._store)

    @property
    def data(self) -> Samples:
        """The pings that the map was made from, as they came; a view."""
        return self._store.data

    @property
    def xy(self) -> np.ndarray:
        """Where the pings were taken [N, 2], in m."""
        return self.data.xy

    @property
    def z(self) -> np.ndarray:
        """The elevations of the pings [N], in m."""
        return self.data.z

    @property
    def extra_jitter(self) -> float:
        """Largest jitter beyond the set one since the last update began (usually 0)."""
        return self._model.extra_jitter

    @property
    def support(self) -> np.ndarray:
        """Places that the model leans on [M, 2], in m: inducing inputs, or none."""
        return self._model.support.cpu().numpy() * self._scale + self.workspace.centre

    def update(
        self, xy: np.ndarray, z: np.ndarray, noise_std: np.ndarray | None = None
    ) -> UpdateReport:
        """Learn from new pings at xy [N, 2] with elevations z [N], in m, which are numbered here;
        noise_std as in ``Samples.of``. Raises as ``learn``, and for wrong shapes."""
        first = int(self.data.number[-1]) + 1 if self.initialised else 0
        return self.learn(Samples.of(xy, z, first, noise_std))

    def learn(self, samples: Samples, enough: Enough | None = None) -> UpdateReport:
        """Learn from new samples; ``enough`` may end the training early.

        A deviation of a ping's own is noise on top of the learned one; a model that cannot take it
        is not given it, which is said once.

        Raises:
            InputError: values that are not finite, a deviation that is not positive, no data, or a
                first batch whose elevations are all the same.
            CholeskyError: a matrix is beyond repair. After any exception the map stands as before.
        """
        samples.check()
        start, before = perf_counter(), self.data
        offset, deviation = self._offset, self._deviation
        if not self.initialised:
            offset, deviation = _scalers(samples.z)
        y = torch.as_tensor((samples.z - offset) / deviation, device=self._device)
        noise = self._own_noise(samples, deviation)
        self._store.append(samples)
        try:
            report = self._model.update(Dataset(self._to_scaled(samples.xy), y, noise), enough)
        except BaseException:
            self._store = SampleStore(before)
            raise
        self._offset, self._deviation = offset, deviation
        return self._reported(report, len(samples), start)

    def _own_noise(self, samples: Samples, deviation: float) -> Tensor | None:
        """Scaled variances of the pings' own noise [N]; None where none is known, or taken."""
        variance = samples.noise_variance
        if variance is None or not takes_noise(self.settings.method):
            return None
        return torch.as_tensor(np.minimum(variance / deviation**2, WEIGHTLESS), device=self._device)

    def train(self, steps: int) -> UpdateReport:
        """Some more training on the data there are, without new ones.

        Raises:
            InputError: no map yet, or a negative number.
            CholeskyError: a matrix is beyond repair. After any exception the map stands as before.
        """
        self._require_map("train")
        if steps < 0:
            raise InputError(f"train: expected zero or more steps, got {steps}")
        start = perf_counter()
        return self._reported(self._model.train(steps), 0, start)

    def calibrate(self, stretches: int) -> None:
        """Widen intervals until anything new is learned, if the model can: see ``Calibrated``."""
        if isinstance(self._model, Calibrated):
            self._model.calibrate(stretches)

    def _reported(self, report: UpdateReport, batch: int, start: float) -> UpdateReport:
        return replace(
            report,
            noise_std=report.noise_std * self._deviation,
            samples=self.samples,
            batch=batch,
            update_s=perf_counter() - start,
        )

    def predict(self, xy: np.ndarray, noise: bool = True) -> Predicted:
        """Predictive mean and variance at xy [N, 2]; with noise, of a ping instead of the ground.

        Raises:
            InputError: wrong shape, or no map yet.
            CholeskyError: a matrix is beyond repair.
        """
        return self._in_metres(self._model.predict(self._points("predict", xy), noise))

    def covariance(self, xy: np.ndarray, noise: bool = True) -> np.ndarray | None:
        """The joint covariance at xy [N, 2], [N, N] in m^2, or None. Raises as ``predict``."""
        covariance = self._model.covariance(self._points("covariance", xy), noise)
        return None if covariance is None else covariance.cpu().numpy() * self._deviation**2

    def sample(self, xy: np.ndarray, count: int, seed: int) -> np.ndarray:
        """Joint draws of the ground at xy [N, 2], without noise [count, N], in m.

        Raises:
            InputError: wrong shape, or no map yet, or a model that can draw no so many places.
            CholeskyError: a matrix is beyond repair.
        """
        x, generator = self._points("sample", xy), torch.Generator().manual_seed(seed)
        if isinstance(self._model, Sampling):
            drawn = self._model.sample(x, count, generator)
        else:
            covariance = self._model.covariance(x, noise=False)
            if covariance is None:
                raise InputError(f"sample: {self.settings.method} draws no {len(xy)} places")
            L, _ = cholesky(covariance, "covariance of the places")
            fresh = torch.randn(len(x), count, generator=generator, dtype=torch.float64)
            drawn = self._model.predict(x, False).mean + (L @ fresh.to(L)).mT
        return drawn.cpu().numpy() * self._deviation + self._offset

    def map(self, grid: Grid, stamp_ns: int = 0) -> ElevationMap:
        """The map on a grid, with the noise in its variance; stamped as the caller says.

        Raises:
            InputError: no map yet.
            CholeskyError: a matrix is beyond repair.
        """
        self._require_map("map")
        x, y = (
            torch.as_tensor((axis - middle) / self._scale, device=self._device)
            for axis, middle in zip((grid.x, grid.y), self.workspace.centre, strict=True)
        )
        z = self._in_metres(self._model.predict_grid(x, y))
        units = {"lengthscale": self._scale}
        fields = {
            name: values.cpu().numpy().reshape(grid.shape) * units.get(name, 1.0)
            for name, values in self._model.fields(self._to_scaled(grid.points)).items()
        }
        return ElevationMap(grid, z.mean, z.variance, fields, self.support, self.samples, stamp_ns)

    def state(self) -> MapperState:
        """What ``restore`` needs. Cheap: nothing large is copied."""
        return MapperState(self._model.state(), self._offset, self._deviation, self.data)

    def restore(self, state: MapperState) -> None:
        """Go on from a state of a mapper of the same workspace and settings, bit for bit."""
        self._model.restore(state.model)
        self._offset, self._deviation = state.offset, state.deviation
        self._store = SampleStore(state.samples)

    def _require_map(self, caller: str) -> None:
        if not self.initialised:
            raise InputError(f"{caller}: expected at least one update before, got none")

    def _points(self, caller: str, xy: np.ndarray) -> Tensor:
        """Points [N, 2] in m as the model's inputs."""
        xy = np.asarray(xy, dtype=float)
        if xy.ndim != 2 or xy.shape[1] != 2:
            raise InputError(f"{caller}: expected points [N, 2], got {list(xy.shape)}")
        self._require_map(caller)
        return self._to_scaled(xy)

    def _in_metres(self, prediction: Prediction) -> Predicted:
        return Predicted(
            prediction.mean.cpu().numpy() * self._deviation + self._offset,
            prediction.variance.cpu().numpy() * self._deviation**2,
        )

    def _to_scaled(self, xy: np.ndarray) -> Tensor:
        return torch.as_tensor((xy - self.workspace.centre) / self._scale, device=self._device)


def _scalers(z: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the first batch's elevations."""
    mean, deviation = float(z.mean()), float(z.std())
    if not deviation > 0:
        raise InputError(f"first batch: expected elevations that differ, got {len(z)} of {mean:g}")
    return mean, deviation
