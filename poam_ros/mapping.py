"""The bathymetric mapper: metres outside, scaled units inside. The only place that scales."""

from __future__ import annotations

from dataclasses import dataclass, fields
from time import perf_counter

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from .errors import InputError
from .geometry import Extent, Grid
from .gp.data import Dataset, Prediction
from .gp.kernels.others import KERNELS, KernelOptions
from .gp.sparse.methods import METHODS
from .gp.sparse.model import SparseGP
from .gp.sparse.online import OnlineSparseGP
from .gp.sparse.published import as_published
from .gp.sparse.variational import update_poam
from .process import keep_freed_memory


@dataclass(frozen=True)
class ModelSettings:
    """The model's settings, as published. Lengthscales are scaled: the workspace reaches from -1
    to 1 along its longer side; ``noise_variance`` and ``amplitude`` are of standardised targets.
    ``published``: as the published code where that is not what the paper says (POAM only).

    Raises:
        InputError: if a value is outside its range.
    """

    method: str = "poam"
    kernel: str = "attentive"
    num_inducing: int = 500
    minibatch: int = 256
    steps: int = 10
    min_lengthscale: float = 0.05
    max_lengthscale: float = 0.5
    num_lengthscales: int = 10
    amplitude: float = 1.0
    noise_variance: float = 1.0
    jitter: float = 1e-6
    tolerance: float = 1e-5
    learning_rate: float = 1e-2
    network_learning_rate: float = 1e-3
    threads: int = 1
    device: str = "cpu"
    published: bool = False

    def __post_init__(self) -> None:
        for name, table in (("method", METHODS), ("kernel", KERNELS)):
            if getattr(self, name) not in table:
                raise InputError(
                    f"{name}: expected one of {', '.join(table)}, got {getattr(self, name)!r}"
                )
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (str, bool)):
                continue
            least = 0 if field.name in ("steps", "jitter") else None
            if not np.isfinite(value) or (value < 0 if least == 0 else value <= 0):
                wanted = "zero or more" if least == 0 else "a positive number"
                raise InputError(f"{field.name}: expected {wanted}, got {value}")
        if self.published and METHODS[self.method].update is not update_poam:
            raise InputError(f"published: expected a method with POAM's update, got {self.method}")
        if self.min_lengthscale > self.max_lengthscale:
            raise InputError(
                f"min_lengthscale: expected at most max_lengthscale {self.max_lengthscale}, "
                f"got {self.min_lengthscale}"
            )


@dataclass(frozen=True)
class Predicted:
    """Predictive mean [N] in m and variance [N] in m^2."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class MapSnapshot:
    """A map at one moment.

    mean (m), variance (m^2, with noise) and lengthscale (m) are [rows, columns] on the grid;
    inducing_points [M, 2] in m; samples: how many pings it was made from.
    """

    grid: Grid
    mean: np.ndarray
    variance: np.ndarray
    lengthscale: np.ndarray
    inducing_points: np.ndarray
    samples: int


@dataclass(frozen=True)
class UpdateReport:
    """What one update did: counts, wall times in s, noise in m, extra jitter, mean loss."""

    samples: int
    batch: int
    inducing: int
    inducing_s: float
    variational_s: float
    training_s: float
    update_s: float
    noise_std: float
    jitter: float
    loss: float


class BathymetricMapper:
    """An elevation map that learns online.

    Inputs are scaled by the workspace, isotropically, to within [-1, 1]; targets by the mean and
    deviation of the first batch. Both stay fixed from then on.

    Args:
        workspace: the rectangle to be mapped.
        settings: the model's settings.
        seed: spawns the generators of the network's initial weights and of the mini-batches.

    Raises:
        InputError: if the device is not there.
    """

    def __init__(
        self, workspace: Extent, settings: ModelSettings | None = None, seed: int = 0
    ) -> None:
        self.workspace = workspace
        self.settings = settings or ModelSettings()
        self.seed = seed
        # torch has its own threads, SciPy's BLAS others.
        torch.set_num_threads(self.settings.threads)
        threadpool_limits(self.settings.threads)
        keep_freed_memory()
        try:
            self._device = torch.device(self.settings.device)
            torch.empty(0, device=self._device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"device: expected one that torch has here, got {self.settings.device!r} ({error})"
            ) from None
        self._scale = float(workspace.size.max() / 2)
        self.reset()

    def reset(self) -> None:
        """Forget everything; the next update initialises again."""
        settings = self.settings
        network, minibatches, inducing = (
            torch.Generator().manual_seed(int(seed))
            for seed in np.random.SeedSequence(self.seed).generate_state(3)
        )
        options = KernelOptions(
            **{field.name: getattr(settings, field.name) for field in fields(KernelOptions)}
        )
        kernel = KERNELS[settings.kernel](options, network)
        model = SparseGP(kernel, settings.noise_variance, settings.jitter).to(self._device)
        method = METHODS[settings.method]
        self._gp = OnlineSparseGP(
            model,
            as_published(method) if settings.published else method,
            num_inducing=settings.num_inducing,
            tolerance=settings.tolerance,
            steps=settings.steps,
            minibatch=settings.minibatch,
            learning_rate=settings.learning_rate,
            network_learning_rate=settings.network_learning_rate,
            generator=minibatches,
            inducing_generator=inducing,
        )
        self._offset, self._deviation = 0.0, 1.0

    @property
    def initialised(self) -> bool:
        """Whether there is a map."""
        return self._gp.num_data > 0

    @property
    def samples(self) -> int:
        """How many pings the map was made from."""
        return self._gp.num_data

    @property
    def xy(self) -> np.ndarray:
        """Where the pings were taken [N, 2], in m."""
        if self._gp.store is None:
            return np.empty((0, 2))
        return self._from_scaled(self._gp.store.data.X)

    @property
    def z(self) -> np.ndarray:
        """The elevations of the pings [N], in m."""
        if self._gp.store is None:
            return np.empty(0)
        return self._gp.store.data.y.cpu().numpy() * self._deviation + self._offset

    @property
    def extra_jitter(self) -> float:
        """The largest jitter that a factorisation needed beyond the set one since the last update
        began, the predictions after it included (of standardised targets; usually 0)."""
        return self._gp.model.extra_jitter

    @property
    def inducing_points(self) -> np.ndarray:
        """The inducing inputs [M, 2], in m."""
        return self._from_scaled(self._gp.model.Z)

    def update(self, xy: np.ndarray, z: np.ndarray) -> UpdateReport:
        """Learn from new pings at xy [N, 2] with elevations z [N], in m.

        Raises:
            InputError: wrong shapes, values that are not finite, no data, or a first batch whose
                elevations are all the same. Nothing has changed then.
            CholeskyError: a matrix is beyond repair. The map stands as before the call.
        """
        xy, z = np.asarray(xy, dtype=float), np.asarray(z, dtype=float)
        _check_pings(xy, z)
        start = perf_counter()
        if not self.initialised:
            deviation = float(z.std())
            if not deviation > 0:
                raise InputError(
                    f"first batch: expected elevations that differ, got {len(z)} of {z[0]:g} m"
                )
            self._offset, self._deviation = float(z.mean()), deviation
        y = torch.as_tensor((z - self._offset) / self._deviation, device=self._device)
        times = self._gp.update(Dataset(self._to_scaled(xy), y))
        return UpdateReport(
            samples=self.samples,
            batch=len(z),
            inducing=len(self._gp.model.Z),
            inducing_s=times.inducing_s,
            variational_s=times.variational_s,
            training_s=times.training_s,
            update_s=perf_counter() - start,
            noise_std=self._gp.model.noise.sqrt().item() * self._deviation,
            jitter=self.extra_jitter,
            loss=times.loss,
        )

    def predict(self, xy: np.ndarray, noise: bool = True) -> Predicted:
        """Predictive mean and variance at xy [N, 2]; with noise, of a ping instead of the ground.

        Raises:
            InputError: wrong shape, or no map yet.
            CholeskyError: a matrix is beyond repair.
        """
        xy = np.asarray(xy, dtype=float)
        if xy.ndim != 2 or xy.shape[1] != 2:
            raise InputError(f"predict: expected points [N, 2], got {list(xy.shape)}")
        if not self.initialised:
            raise InputError("predict: expected at least one update before, got none")
        return self._in_metres(self._gp.predict(self._to_scaled(xy), noise))

    def _in_metres(self, prediction: Prediction) -> Predicted:
        return Predicted(
            prediction.mean.cpu().numpy() * self._deviation + self._offset,
            prediction.variance.cpu().numpy() * self._deviation**2,
        )

    @torch.no_grad()
    def lengthscale(self, xy: np.ndarray) -> np.ndarray:
        """The kernel's lengthscale at xy [N, 2], [N] in m."""
        return self._gp.model.kernel.lengthscale_at(self._to_scaled(xy)).cpu().numpy() * self._scale

    def map(self, grid: Grid) -> MapSnapshot:
        """The map on a grid, with the noise in its variance.

        Raises:
            InputError: no map yet.
            CholeskyError: a matrix is beyond repair.
        """
        if not self.initialised:
            raise InputError("map: expected at least one update before, got none")
        x, y = (
            torch.as_tensor((axis - middle) / self._scale, device=self._device)
            for axis, middle in zip((grid.x, grid.y), self.workspace.centre, strict=True)
        )
        prediction = self._in_metres(self._gp.model.predict_grid(x, y))
        return MapSnapshot(
            grid=grid,
            mean=prediction.mean,
            variance=prediction.variance,
            lengthscale=self.lengthscale(grid.points).reshape(grid.shape),
            inducing_points=self.inducing_points,
            samples=self.samples,
        )

    def _to_scaled(self, xy: np.ndarray) -> Tensor:
        scaled = (np.asarray(xy, dtype=float) - self.workspace.centre) / self._scale
        return torch.as_tensor(scaled, device=self._device)

    def _from_scaled(self, X: Tensor) -> np.ndarray:
        return X.cpu().numpy() * self._scale + self.workspace.centre


def _check_pings(xy: np.ndarray, z: np.ndarray) -> None:
    if xy.ndim != 2 or xy.shape[1] != 2 or z.shape != xy.shape[:1] or len(z) == 0:
        raise InputError(
            f"update: expected at least one ping, xy [N, 2] and z [N], "
            f"got {list(xy.shape)} and {list(z.shape)}"
        )
    if not (np.isfinite(xy).all() and np.isfinite(z).all()):
        bad = int((~np.isfinite(np.column_stack((xy, z)))).any(1).sum())
        raise InputError(f"update: expected finite pings, got {bad} of {len(z)} that are not")
