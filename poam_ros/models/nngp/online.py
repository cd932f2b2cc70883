"""The nearest-neighbour Gaussian process as a map model (Vecchia 1988; Datta et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields as rows_of
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...core.errors import CholeskyError, InputError
from ...core.geometry import Land
from ...core.maps import StopCondition, UpdateReport
from ..interface import Dataset, Drawn, ModelState, OnlineModel, Prediction, grid_points, until
from ..native.loader import FEWER_STEPS
from .calibration import (
    CONFIDENCE,
    VarianceCalibration,
    deviation_of_mean,
    errors_of,
    factor_of_sums,
    left_out,
    widening,
)
from .conditional import compiled, condition, joint_covariance, log_loss, simulate
from .kernel import Kernel, ParameterLayout, described
from .sites import SiteStore
from .training import HyperparameterState, NngpTrainer

if TYPE_CHECKING:
    from .options import NeighbourOptions

#: Width of the blending between two nodes, in mean spacings of the sites.
TRANSITION = 1.5


class NeighbourGP(OnlineModel):
    """Predicts each place from a few neighbours, and takes each training step with a few pings.

    It computes on the CPU in float64, whatever device the data are on. See ``OnlineModel``.
    """

    forgets = retargets = True
    extra_jitter: float = 0.0

    def __init__(
        self, options: NeighbourOptions, network: torch.Generator, training: torch.Generator
    ) -> None:
        self.options = options
        layout = ParameterLayout(options.hidden, options.lattice)
        theta = layout.initial(options.lengthscales[1], options.initial_noise, network)
        self._trainer = NngpTrainer(layout, options.of_training, training)
        self._learned = HyperparameterState.begin(theta)
        self._store = SiteStore()
        self._kernel: Kernel | None = None
        self._widening = VarianceCalibration()

    @property
    def data(self) -> Dataset:
        """All data so far."""
        return self._store.pings

    @torch.no_grad()
    def update(self, new: Dataset, enough: StopCondition | None = None) -> UpdateReport:
        """Learn from new data. See ``OnlineModel``."""
        start, options, first = perf_counter(), self.options, not len(self.data)
        self._store.append(_dataset(new.X, new.y, new.noise))
        stored, losses, self.extra_jitter = perf_counter(), [], 0.0
        early = len(self.data) < options.early_samples
        steps = options.early_steps if early else options.update_steps
        if first:
            steps = options.first_steps
        if not compiled(options.neighbours):  # each is many times slower then
            steps = -(-steps // FEWER_STEPS)
        for _ in until(steps, enough):
            self._learned, loss, jitter = self._trainer.step(self._learned, self._store)
            self.extra_jitter = max(self.extra_jitter, jitter)
            losses.append(loss)
        self._widen(VarianceCalibration())
        return UpdateReport(
            seconds={"index": stored - start, "training": perf_counter() - stored},
            steps=len(losses),
            noise_std=self._averaged().noise.sqrt().item(),
            jitter=self.extra_jitter,
            loss=sum(losses) / len(losses) if losses else float("nan"),
        )

    def set_land(self, land: Land) -> None:
        """Use no neighbours across this land from now on. See ``OnlineModel``."""
        self._store.land = land

    def keep(self, rows: Tensor) -> None:
        """Forget all data except these rows. See ``OnlineModel``."""
        self._replace(self.data[rows])

    def retarget(self, y: Tensor) -> None:
        """Give all data so far these targets [N]. See ``OnlineModel``."""
        pings = self.data
        self._replace(_dataset(pings.X, y, pings.noise))

    def _replace(self, pings: Dataset) -> None:
        """Replace all data."""
        self._store.restore(pings)
        self._widen(VarianceCalibration())

    @torch.no_grad()
    def calibrate(self, stretches: int) -> None:
        """Predict with a stationary kernel if it predicts left-out stretches better, with an error
        that successive sites share if it surely does, and widen the variances of predictions
        (``calibration``), until the next update. The joint covariance is not widened."""
        self._widen(VarianceCalibration())
        options, store = self.options, self._store
        near = options.neighbours, options.candidate_neighbours, options.neighbour_spacing
        left = left_out(store.sites, stretches, *near, store.land)
        if left is None:
            return
        taken, kernel = None, self._trainer.kernel(self._learned.average)
        error, variance, telling = errors_of(kernel, store.sites, left)
        zero = torch.zeros_like(error)
        # What soundings' own noises are of medians is not known.
        for shared in (False, True) if store.sites.own is None else ():
            with suppress(CholeskyError):  # the kernel before is still there
                theta = self._trainer.stationary(store.sites, shared)
                tried = self._trainer.kernel(theta)
                found = errors_of(tried, store.sites, left)
                gain = log_loss(error, zero, variance) - log_loss(found[0], zero, found[1])
                least = shared * CONFIDENCE * deviation_of_mean(gain - gain.mean(), left.stretch)
                # Wider variances alone may have a smaller log loss.
                smaller = not shared or found[0].abs().mean() < error.abs().mean()
                if smaller and gain.mean() > least:
                    taken, kernel, (error, variance, telling) = theta, tried, found
        sums = factor_of_sums(kernel, store.sites, left, error)
        self._widen(
            widening(error, variance, left.stretch, telling)._replace(sums=sums, stationary=taken)
        )

    def _widen(self, calibration: VarianceCalibration) -> None:
        self._widening, self._kernel = calibration, None

    @property
    def widening(self) -> tuple[float, float]:
        """See ``OnlineModel``."""
        return self._widening.factor, self._widening.added

    @property
    def stationary(self) -> str:
        """See ``OnlineModel``."""
        if (taken := self._widening.stationary) is None:
            return ""
        shared = len(taken) > self._trainer.layout.size
        return "stationary" + ", with an error that successive soundings share" * shared

    @torch.no_grad()
    def _averaged(self) -> Kernel:
        """The kernel that predictions use: of the averaged parameters, or the stationary one."""
        if self._kernel is None:
            found = self._widening.stationary
            self._kernel = self._trainer.kernel(self._learned.average if found is None else found)
        return self._kernel

    @torch.no_grad()
    def predict(self, X: Tensor, noise: bool = True, nodes: float = 0.0) -> Prediction:
        """Predictive marginals at X [N, 2]; ``nodes``: step of the lattice to blend over; 0: none.

        Raises:
            InputError: X has the wrong shape or is not finite, or there are no data yet.
            CholeskyError: a matrix is beyond repair.
        """
        if X.ndim != 2 or X.shape[1] != 2:
            raise InputError(f"predict: expected points [N, 2], got {list(X.shape)}")
        if not len(self._store):
            raise InputError("predict: expected data before, got none")
        x, kernel = _finite("predict", _here(X)), self._averaged()
        order = along_rows(x)
        x = x[order]
        found = (
            self._blended(x, nodes)
            if nodes
            else condition(kernel, self._store.sites, x, self._near(x))
        )
        mean, variance = torch.empty(2, len(x), dtype=torch.float64)
        mean[order] = found.mean
        added, factor, *_ = self._widening
        error = kernel.noise + kernel.shared_variance + added if noise else 0.0
        variance[order] = factor * (found.variance + error)
        return Prediction(mean.to(X), variance.to(X))

    def _near(self, x: Tensor) -> Tensor:
        """The neighbours of places [N, 2], [N, k], -1 for none."""
        return self._store.spread(x, self.options)

    def _blended(self, x: Tensor, step: float) -> Prediction:
        """Predictions without seams at places [N, 2].

        With neighbours of their own, predictions jump where one neighbour is replaced by another;
        in a hillshade such jumps are rays and steps. Here every place is predicted from the
        neighbours of each of the four nodes around it, on a lattice with this step in scaled units,
        and the four predictions are blended with weights that are smooth in the place. A set of
        neighbours enters with weight 0, so that nothing jumps. The variance is the weighted mean of
        the four, which is at least that of the blended mean.
        """
        corner, store = (x / step).floor(), self._store
        # Nearer to a node, only its own neighbours count, so that fewer predictions are needed.
        band = min(1.0, TRANSITION / self.options.blending)
        share = ((x / step - corner - 0.5) / band + 0.5).clamp(0, 1)
        share = share * share * (3 - 2 * share)
        offsets = torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=torch.float64)
        nodes, own = distinct((corner[None] + offsets[:, None]).reshape(-1, 2))
        near = self._near(nodes * step)
        weight = torch.where(offsets[:, None] > 0, share, 1 - share).prod(2).reshape(-1)
        used = weight.nonzero().squeeze(1)
        weight, own, rows = weight[used], own[used], used % len(x)
        points = x[rows]
        if store.land is not None:  # a node across land or on it belongs to another water
            hides = store.land.hides(points.numpy(), (nodes[own] * step).numpy())
            hidden = torch.from_numpy(hides).nonzero().squeeze(1)
            own[hidden] = len(near) + torch.arange(len(hidden))
            near = torch.cat([near, self._near(points[hidden])])
        found = condition(self._averaged(), store.sites, points, near, own)
        mean, variance = torch.zeros(2, len(x), dtype=torch.float64)
        mean.index_add_(0, rows, weight * found.mean)
        variance.index_add_(0, rows, weight * found.variance)
        return Prediction(mean, variance)

    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows].

        They are blended if the nodes are farther apart than the cells.
        """
        nodes = 0.0
        if self.options.blending and len(self._store) and len(x) > 1:
            nodes = self.options.blending * self._store.spacing
            nodes = nodes if nodes > float(x[1] - x[0]) else 0.0
        found = self.predict(grid_points(x, y), noise, nodes)
        shape = len(y), len(x)
        return Prediction(found.mean.reshape(shape), found.variance.reshape(shape))

    @torch.no_grad()
    def covariance(self, X: Tensor, noise: bool = True) -> Tensor | None:
        """The joint predictive covariance at X [N, 2] given the neighbours of them all [N, N].

        None if there are no data, or too many neighbours. Its diagonal is at most about that of
        ``predict``, where each point has only its own neighbours.
        """
        if not len(self._store):
            return None
        x = _finite("covariance", _here(X))
        joint = joint_covariance(self._averaged(), self._store.sites, x, self._near(x))
        if joint is None:
            return None
        if noise:
            joint.diagonal().add_(self._averaged().noise + self._averaged().shared_variance)
        return joint.to(X)

    @torch.no_grad()
    def deviations(self, X: Tensor, count: int, generator: torch.Generator, given: Drawn) -> Tensor:
        """Joint draws at X [N, 2] less their mean [count, N]. See ``OnlineModel``.

        If sums are widened, so are the deviations of the draws, everywhere alike.
        """
        x, wider = _here(X), self._widening.sums**0.5
        near = self._near(x)
        noise = torch.randn(len(x), count, generator=generator, dtype=torch.float64)
        given = Drawn(_here(given.X), _here(given.deviations) / wider)
        sites, land = self._store.sites, self._store.land
        return (wider * simulate(self._averaged(), sites, land, x, near, noise, given)).to(X)

    @torch.no_grad()
    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """``lengthscale`` (geometric mean of the axes), ``amplitude`` (prior standard deviation)
        and ``anisotropy`` (ratio of the axes, at least 1) at X [N, 2], each [N]."""
        found = described(self._averaged(), _finite("fields", _here(X)))
        return {name: values.to(X) for name, values in found.items()}

    def state(self) -> ModelState:
        """What ``restore`` needs."""
        learned = {
            row.name: getattr(self._learned, row.name) for row in rows_of(HyperparameterState)
        }
        data = self.data
        return ModelState(
            {
                "X": data.X,
                "y": data.y,
                "noise": data.noise,
                "learned": learned,
                "generator": self._trainer.generator.get_state(),
                "extra_jitter": self.extra_jitter,
                "widening": self._widening._asdict(),
            }
        )

    def restore(self, state: ModelState) -> None:
        """Continue from the state of a model with the same options, bit for bit."""
        tree = state.tree
        self._store.restore(_dataset(tree["X"], tree["y"], tree["noise"]))
        self._learned = HyperparameterState(**tree["learned"])
        self._widen(VarianceCalibration(**tree["widening"]))
        self._trainer.generator.set_state(tree["generator"])
        self.extra_jitter = tree["extra_jitter"]


def build(options: NeighbourOptions, seed: int, device: torch.device) -> NeighbourGP:
    """Build the model with these options; ``device``: of the data that it will receive."""
    network, training = (
        torch.Generator().manual_seed(int(s))
        for s in np.random.SeedSequence(seed).generate_state(2)
    )
    return NeighbourGP(options, network, training)


def _dataset(X: Tensor, y: Tensor, noise: Tensor | None) -> Dataset:
    return Dataset(_here(X), _here(y), None if noise is None else _here(noise))


def _here(X: Tensor) -> Tensor:
    """On the CPU in float64, contiguous."""
    return X.detach().to("cpu", torch.float64).contiguous()


def _finite(caller: str, x: Tensor) -> Tensor:
    """The points x [N, 2], if all of them are finite."""
    if not bool(x.isfinite().all()):
        raise InputError(f"{caller}: expected finite points, got some that are not")
    return x


def along_rows(x: Tensor) -> Tensor:
    """An order [N] of points x [N, 2] in which successive points are near: along thin rows of [-1,
    1]^2.

    The memory of a point's neighbours is then still in the cache.
    """
    rows, columns = ((x[:, axis].clamp(-1.0, 1.0) + 1.0) * 32.0 for axis in (1, 0))
    return (rows.floor() * 66.0 + columns).argsort(stable=True)


def distinct(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct nodes of [M, 2] nodes of a lattice, sorted [K, 2], and the index of each [M].

    By one number for each: ``torch.unique`` takes many times as long for rows."""
    if not len(nodes):
        return nodes, torch.empty(0, dtype=torch.long)
    low = nodes.amin(0)
    place = (nodes - low).long()
    width = place[:, 1].max() + 1
    found, own = torch.unique(place[:, 0] * width + place[:, 1], return_inverse=True)
    distinct = torch.stack([found.div(width, rounding_mode="floor"), found % width], 1)
    return distinct + low, own
