"""The bathymetric mapper: metres outside, scaled units inside. The only place that scales."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.geometry import Extent, Grid, Land
from ..core.maps import ElevationMap, JointDraws, Predicted, StopCondition, UpdateReport
from ..core.samples import Samples, SampleStore
from .interface import WEIGHTLESS, Dataset, Drawn, MapperState, OnlineModel, Prediction
from .prior import PriorMap
from .registry import MODELS, ModelSettings, takes_noise

__all__ = ["BathymetricMapper", "MapperState", "ModelSettings"]

log = logging.getLogger(__name__)

#: Minimum change of the trust in a prior for which all targets are recomputed.
NEGLIGIBLE_TRUST = 0.02


class BathymetricMapper:
    """An elevation map that learns online.

    Inputs are scaled isotropically by the workspace to within [-1, 1], targets by the mean and
    standard deviation of the first batch. Both scalings stay fixed from then on. The number of
    threads is set for the whole process: see ``core.process.configure_process``.

    Args:
        workspace: the rectangle to be mapped.
        settings: which model, and its options.
        seed: spawns the model's generators.
        land: soundings on one side of it say nothing about the other, in m; None: no land.
        prior: a map from before the survey; None: none. The trust in it is learned from the first
            batch, and again whenever the pings have doubled if the model supports it.

    Raises:
        InputError: the device does not exist.
    """

    def __init__(
        self,
        workspace: Extent,
        settings: ModelSettings | None = None,
        seed: int = 0,
        land: Land | None = None,
        prior: PriorMap | None = None,
    ) -> None:
        self.workspace = workspace
        self.settings = settings or ModelSettings()
        self.seed = seed
        self.land = land
        self.prior = prior
        try:
            self._device = torch.device(self.settings.device)
            torch.empty(0, device=self._device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"device: expected one that torch has, got {self.settings.device!r} ({error})"
            ) from None
        self._scale = float(workspace.size.max() / 2)
        self.reset()

    def reset(self) -> None:
        """Forget all data and everything learned."""
        build = MODELS[self.settings.method].build
        self._model: OnlineModel = build(self.settings.options, self.seed, self._device)
        if self.land is not None:
            self._model.set_land(self.land.moved(self.workspace.centre, self._scale))
        self._store = SampleStore(Samples.empty())
        self._offset, self._deviation = 0.0, 1.0
        self._trust, self._next_trust = 1.0, 0

    @property
    def initialised(self) -> bool:
        """Whether there is a map."""
        return self.samples > 0

    @property
    def samples(self) -> int:
        """Number of pings in the map."""
        return len(self._store)

    @property
    def data(self) -> Samples:
        """The pings in the map, in the order of acceptance; a view."""
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
        """The model's inducing inputs [M, 2], in m; M = 0 for a model without."""
        return self._from_scaled(self._model.support)

    def update(
        self, xy: np.ndarray, z: np.ndarray, noise_std: np.ndarray | None = None
    ) -> UpdateReport:
        """Learn from new pings at xy [N, 2] with elevations z [N], both in m.

        noise_std: as in ``Samples.of``. Raises as ``learn``, and ``InputError`` for wrong shapes.
        """
        first = int(self.data.number[-1]) + 1 if self.initialised else 0
        return self.learn(Samples.of(xy, z, first, noise_std))

    def learn(self, samples: Samples, enough: StopCondition | None = None) -> UpdateReport:
        """Learn from new samples; ``enough`` may end the training early.

        A ping's own noise is added to the learned noise. Models that do not support it ignore it.

        Raises:
            InputError: values are not finite, a standard deviation is not positive, there are no
                data, or all elevations of the first batch are equal.
            CholeskyError: a matrix is not positive definite. After any exception the map is
                unchanged.
        """
        samples.check()
        start = perf_counter()
        with self._unchanged_by_failures():
            if not self.initialised:
                self._offset, self._deviation = _scalers(samples.z)
            if self.prior is not None:
                self._learn_trust(self.prior, samples)
            noise = self._own_noise(samples)
            self._store.append(samples)
            data = Dataset(self._to_scaled(samples.xy), self._targets(samples), noise)
            report = self._model.update(data, enough)
        return replace(
            report,
            noise_std=report.noise_std * self._deviation,
            samples=self.samples,
            batch=len(samples),
            update_s=perf_counter() - start,
        )

    @contextmanager
    def _unchanged_by_failures(self) -> Iterator[None]:
        """Restore everything after an exception in this context."""
        before = self.state()
        try:
            yield
        except BaseException:
            self.restore(before)
            raise

    @property
    def trust(self) -> float:
        """Factor of the prior, from 0 to 1; 1 before the first batch."""
        return self._trust

    @property
    def trust_said(self) -> str:
        """The same as a sentence."""
        name = "prior" if self.prior is None else self.prior.name
        if not self._trust:
            return f"{name}: trust 0 of 1: the pings do not confirm it"
        return f"{name}: trust {self._trust:.2f} of 1"

    def _drift(self, xy: np.ndarray) -> np.ndarray | float:
        """The prior's contribution at xy [N, 2], in m [N]; 0 without a prior."""
        return 0.0 if self.prior is None else self._trust * self.prior.at(xy)

    def _targets(self, samples: Samples) -> Tensor:
        """The model's targets [N]: less the prior's contribution, and scaled."""
        residual = samples.z - self._drift(samples.xy)
        return torch.as_tensor((residual - self._offset) / self._deviation, device=self._device)

    def _learn_trust(self, prior: PriorMap, new: Samples) -> None:
        """Learn the trust in the prior, from the first batch, and again when the pings have doubled
        (with every batch until they suffice) if the model can change its targets."""
        first = not self.initialised
        if not first and (len(self._store) < self._next_trust or not self._model.retargets):
            return
        samples = new if first else self.data
        found = prior.trust(samples.xy, samples.z, self.seed)
        self._next_trust = 2 * len(samples) if found is not None else len(samples) + 1
        # Until the pings suffice, the prior is not used.
        trust = found if found is not None else 0.0 if first else self._trust
        if first:
            self._trust = trust
            self._offset, self._deviation = _scalers(samples.z - self._drift(samples.xy))
        elif abs(trust - self._trust) > NEGLIGIBLE_TRUST:
            self._trust = trust
            self._model.retarget(self._targets(samples))
        if found is not None:
            log.info("%s, after %d pings", self.trust_said, len(samples))

    @property
    def forgets(self) -> bool:
        """Whether pings can be taken out of the map."""
        return self._model.forgets

    def withdraw(self, numbers: np.ndarray) -> None:
        """Take the pings with these numbers out of the map, without training.

        Raises:
            InputError: the model cannot forget.
        """
        if not self.forgets:
            raise InputError(f"withdraw: {self.settings.method} cannot forget pings")
        kept = ~np.isin(self.data.number, numbers)
        if not kept.all():
            with self._unchanged_by_failures():
                self._model.keep(torch.as_tensor(kept))
                self._store = SampleStore(self.data[np.flatnonzero(kept)])

    def _own_noise(self, samples: Samples) -> Tensor | None:
        """Scaled variances of the pings' own noise [N]; None if unknown or not supported."""
        variance = samples.noise_variance
        if variance is None or not takes_noise(self.settings.method):
            return None
        scaled = np.minimum(variance / self._deviation**2, WEIGHTLESS)
        return torch.as_tensor(scaled, device=self._device)

    def calibrate(self, stretches: int) -> None:
        """Calibrate predictions until the next update, if the model supports it."""
        self._model.calibrate(stretches)

    @property
    def stationary(self) -> str:
        """The stationary kernel that ``calibrate`` took in place of the learned one, in words;
        empty: none."""
        return self._model.stationary

    def before_calibration(self, variance: np.ndarray) -> np.ndarray:
        """Variances with noise [N] as they were before ``calibrate`` widened them, in m^2."""
        factor, added = self._model.widening
        return variance / factor - added * self._deviation**2

    def predict(self, xy: np.ndarray, noise: bool = True) -> Predicted:
        """Predictive mean and variance at xy [N, 2], of a ping, or without noise of the bottom.

        Raises:
            InputError: wrong shape, points that are not finite, or no map yet.
            CholeskyError: a matrix is not positive definite.
        """
        return self._in_metres(
            self._model.predict(self._points("predict", xy), noise), self._drift(xy)
        )

    def covariance(self, xy: np.ndarray, noise: bool = True) -> np.ndarray | None:
        """The joint covariance at xy [N, 2], [N, N] in m^2, or None. Raises as ``predict``."""
        covariance = self._model.covariance(self._points("covariance", xy), noise)
        return None if covariance is None else covariance.cpu().numpy() * self._deviation**2

    def deviations(
        self, xy: np.ndarray, count: int, seed: int, given: JointDraws | None = None
    ) -> np.ndarray:
        """Joint draws of the bottom at xy [N, 2] less their mean, without noise [count, N], in m;
        ``given`` those at other places. Raises as ``predict``, and for too many places.
        """
        x, generator = self._points("deviations", xy), torch.Generator().manual_seed(seed)
        places, known = given or (xy[:0], np.empty((count, 0)))
        scaled_known = torch.from_numpy(known / self._deviation).to(x)
        before = Drawn(self._points("deviations", places), scaled_known)
        found = self._model.deviations(x, count, generator, before)
        return found.cpu().numpy() * self._deviation

    def map(self, grid: Grid, stamp_ns: int = 0) -> ElevationMap:
        """The map on a grid. Its variance includes the noise; its stamp is ``stamp_ns``.

        Raises:
            InputError: no map yet.
            CholeskyError: a matrix is not positive definite.
        """
        self._require_map("map")
        x, y = (
            torch.as_tensor((axis - middle) / self._scale, device=self._device)
            for axis, middle in zip((grid.x, grid.y), self.workspace.centre, strict=True)
        )
        drift = np.reshape(self._drift(grid.points), grid.shape) if self.prior else 0.0
        z = self._in_metres(self._model.predict_grid(x, y), drift)
        units = {"lengthscale": self._scale}
        fields = {
            name: values.cpu().numpy().reshape(grid.shape) * units.get(name, 1.0)
            for name, values in self._model.fields(self._to_scaled(grid.points)).items()
        }
        return ElevationMap(grid, z.mean, z.variance, fields, self.support, self.samples, stamp_ns)

    def state(self) -> MapperState:
        """What ``restore`` needs. Cheap: nothing large is copied."""
        trust = self._trust, self._next_trust
        return MapperState(self._model.state(), self._offset, self._deviation, self.data, trust)

    def restore(self, state: MapperState) -> None:
        """Restore the state of a mapper with the same workspace and settings, bit for bit."""
        self._model.restore(state.model)
        self._offset, self._deviation = state.offset, state.deviation
        self._trust, self._next_trust = state.trust
        self._store = SampleStore(state.samples)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, for another process, as its arguments and its state."""
        made = self.workspace, self.settings, self.seed, self.land, self.prior
        return type(self), made, self.state()

    __setstate__ = restore

    def _require_map(self, caller: str) -> None:
        if not self.initialised:
            raise InputError(f"{caller}: expected at least one update before, got none")

    def _points(self, caller: str, xy: np.ndarray) -> Tensor:
        """Points [N, 2] in m, scaled to the model's inputs."""
        xy = np.asarray(xy, dtype=float)
        if xy.ndim != 2 or xy.shape[1] != 2:
            raise InputError(f"{caller}: expected points [N, 2], got {list(xy.shape)}")
        if not np.isfinite(xy).all():
            n = int((~np.isfinite(xy).all(1)).sum())
            raise InputError(f"{caller}: expected finite points, got {n} of {len(xy)} that are not")
        self._require_map(caller)
        return self._to_scaled(xy)

    def _in_metres(self, prediction: Prediction, drift: np.ndarray | float) -> Predicted:
        return Predicted(
            prediction.mean.cpu().numpy() * self._deviation + self._offset + drift,
            prediction.variance.cpu().numpy() * self._deviation**2,
        )

    def _to_scaled(self, xy: np.ndarray) -> Tensor:
        return torch.as_tensor((xy - self.workspace.centre) / self._scale, device=self._device)

    def _from_scaled(self, X: Tensor) -> np.ndarray:
        return X.cpu().numpy() * self._scale + self.workspace.centre


def _scalers(z: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the first batch's elevations."""
    mean, deviation = float(z.mean()), float(z.std())
    if not deviation > 0:
        raise InputError(f"first batch: expected elevations that differ, got {len(z)} of {mean:g}")
    return mean, deviation
