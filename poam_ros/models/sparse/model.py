"""The sparse Gaussian process (Sec. III-D), and its update in one decision epoch (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn

from ...core.maps import StopCondition, UpdateReport
from ...core.settings import flat
from ..interface import Dataset, ModelState, OnlineModel, Prediction
from ..kernels import KERNELS, ElevationKernel
from ..linalg import (
    Factor,
    IndefiniteFactor,
    add_jitter,
    cholesky,
    factorise_indefinite,
    mirrored_,
    solve_posdef,
    syrk,
    trsm,
)
from . import inducing, training, variational
from .methods import Method, SparseOptions
from .variational import DataTerms, Epoch, EpochState, Posterior

#: Points predicted at a time.
CHUNK = 1000


class _Predictor(NamedTuple):
    """Terms common to all predictions: c = Kuu^-1 m and Q = Kuu^-1 - Kuu^-1 S Kuu^-1, factorised.

    Z and c are in the order of the factor.
    """

    Z: Tensor
    c: Tensor
    Q: IndefiniteFactor


class Learned:
    """What an M-step learns by gradient besides the hyperparameters: Z, q(u), both or nothing.

    leaves: ``Z`` [M, D]; and q(u) in whitened coordinates, ``m`` [M] and a lower triangular
    ``root`` [M, M]. They have an Adam optimiser of their own, which lasts until other inducing
    inputs are chosen, because its moments belong to them.
    """

    def __init__(self, leaves: dict[str, Tensor], learning_rate: float) -> None:
        self.leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
        parameters = list(leaves.values())
        self.optimizer = torch.optim.Adam(parameters, lr=learning_rate) if leaves else None


class SparseGP(nn.Module, OnlineModel):
    """A sparse GP with a Gaussian likelihood that learns batch by batch.

    Args:
        kernel: the covariance function.
        method: how Z, q(u) and the hyperparameters are updated; ``resolved``.
        options: number of inducing inputs, initial noise, training steps, learning rates.
        minibatches: draws the mini-batches.
        drawn: draws random inducing inputs, if the method has any.

    Attributes:
        Z: inducing inputs [M, D]. q: posterior of their outputs; None: no data yet.
        epoch: what the next epoch reads of the last one.
        extra_jitter: the largest that ``factorise`` has added since the last update began.
    """

    extra_jitter: float = 0.0

    def __init__(
        self,
        kernel: ElevationKernel,
        method: Method,
        options: SparseOptions,
        minibatches: torch.Generator,
        drawn: torch.Generator,
    ) -> None:
        super().__init__()
        self.kernel, self.method, self.options = kernel, method, options
        self.likelihood = GaussianLikelihood().double()
        self.likelihood.noise = options.noise_variance
        self.to(kernel.amplitude.device)
        self.generators = {"minibatches": minibatches, "inducing": drawn}
        # A slow network lets the vehicle explore before it trusts a lengthscale map (Sec. IV-D).
        # The state of the optimiser lasts over all updates.
        network = [] if kernel.network is None else list(kernel.network.parameters())
        slow = {id(p) for p in network}
        rest = [p for p in self.parameters() if id(p) not in slow]
        groups = [{"params": network, "lr": options.network_learning_rate}] if network else []
        rates = [*groups, {"params": rest, "lr": options.learning_rate}]
        self.optimizer = torch.optim.Adam(rates)
        self._data = Dataset(self.noise.new_empty(0, 2), self.noise.new_empty(0))
        self.learned = Learned({}, options.learning_rate)
        self.epoch: EpochState | None = None
        self.condition(self._data.X, None)

    @property
    def data(self) -> Dataset:
        """All data so far."""
        return self._data

    @property
    def support(self) -> Tensor:
        """The inducing inputs Z [M, D]."""
        return self.Z

    @property
    def noise(self) -> Tensor:
        """The noise variance, a positive scalar."""
        return self.likelihood.noise.squeeze()

    @property
    def jitter(self) -> float:
        """Added to the diagonal of every Kuu."""
        return self.options.jitter

    def condition(self, Z: Tensor, q: Posterior | None) -> None:
        """Set the inducing inputs Z [M, D] and the posterior of their outputs."""
        self.Z, self.q = Z, q
        self.hyperparameters_changed()

    def hyperparameters_changed(self) -> None:
        """Discard the terms common to all predictions."""
        self._predictor: _Predictor | None = None

    def factorise(self, K: Tensor, name: str) -> Factor:
        """Cholesky factor of K [M, M], jitter included; extra jitter is recorded."""
        factor = cholesky(K, name)
        self.extra_jitter = max(self.extra_jitter, factor.jitter)
        return factor

    def factor_of_prior(self) -> Tensor:
        """Lower L [M, M] with Kuu = L L^T, jitter included, under the present hyperparameters."""
        return self.factorise(add_jitter(self.kernel.forward(self.Z, self.Z), self.jitter), "Kuu").L

    def whitened_posterior(self) -> tuple[Tensor, Tensor]:
        """Mean [M] and root [M, M], lower triangular, of v = L^-1 u with Kuu = L L^T."""
        assert self.q is not None
        L = self.factor_of_prior()
        m = trsm(L, self.q.m.unsqueeze(-1)).squeeze(-1)
        return m, trsm(L, self.q.root).tril()

    # Predictions

    @torch.no_grad()
    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D] (Eq. 4), in chunks; with noise, of y instead of f.

        Raises:
            ValueError: X has the wrong shape, or there is no posterior yet.
            CholeskyError: Kuu is not positive definite.
        """
        predictor = self._shared("predict")
        if X.ndim != 2 or X.shape[1] != self.Z.shape[1]:
            raise ValueError(
                f"SparseGP.predict: expected X [N, {self.Z.shape[1]}], got {list(X.shape)}"
            )
        mean, variance = X.new_empty(len(X)), X.new_empty(len(X))
        for start in range(0, len(X), CHUNK):
            part = slice(start, start + CHUNK)
            Kuf = self.kernel.forward(predictor.Z, X[part])
            kff = self.kernel.forward(X[part], X[part], diag=True)
            mean[part], variance[part] = self._marginals(Kuf, kff, predictor)
        return Prediction(mean, variance + self.noise if noise else variance)

    @torch.no_grad()
    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows], in tiles.

        As ``predict`` at its points, but with fewer exponentials. Raises as it.
        """
        predictor = self._shared("predict_grid")
        mean, variance = x.new_empty(len(y), len(x)), x.new_empty(len(y), len(x))
        rows, columns = 32, 64  # of a tile
        for row in range(0, len(y), rows):
            for column in range(0, len(x), columns):
                part = (slice(row, row + rows), slice(column, column + columns))
                x_part, y_part = x[part[1]], y[part[0]]
                Kuf = self.kernel.grid_covariance(predictor.Z, x_part, y_part).flatten(1)
                kff = self.kernel.amplitude.expand(Kuf.shape[1])
                marginals = self._marginals(Kuf, kff, predictor)
                mean[part], variance[part] = (m.reshape(mean[part].shape) for m in marginals)
        return Prediction(mean, variance + self.noise if noise else variance)

    @torch.no_grad()
    def covariance(self, X: Tensor, noise: bool = True) -> Tensor:
        """The joint predictive covariance at X [N, D] (Eq. 4), Kff - Kfu Q Kuf [N, N]. Raises as
        ``predict``."""
        predictor = self._shared("covariance")
        Kuf = self.kernel.forward(predictor.Z, X)
        covariance = self.kernel.forward(X, X) - predictor.Q.congruent_(Kuf)
        return add_jitter(covariance, self.noise.item()) if noise else covariance

    @torch.no_grad()
    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """The kernel's lengthscale at X [N, D], [N]."""
        return {"lengthscale": self.kernel.lengthscale_at(X)}

    def _marginals(self, Kuf: Tensor, kff: Tensor, predictor: _Predictor) -> tuple[Tensor, Tensor]:
        """Mean Kfu c and variance kff - diag(Kfu Q Kuf), both [N]; Kuf [M, N] is overwritten."""
        mean = Kuf.mT @ predictor.c
        # Rounding may leave a variance just below zero next to a noise-free sample.
        return mean, (kff - predictor.Q.quadratic_(Kuf)).clamp_min(0.0)

    def _shared(self, caller: str) -> _Predictor:
        if self.q is None:
            raise ValueError(f"SparseGP.{caller}: no data yet, expected an update before")
        if self._predictor is None:
            L = self.factor_of_prior()
            # Q = L^-T (I - L^-1 S L^-T) L^-1: subtracting whitened matrices costs least accuracy.
            root = trsm(L, self.q.root)
            rest = syrk(root, -1.0, torch.eye(len(L)).to(L))
            half = trsm(L, mirrored_(rest), transposed=True)
            Q = factorise_indefinite(trsm(L, half.mT, transposed=True))
            c = solve_posdef(L, self.q.m.unsqueeze(-1)).squeeze(-1)
            self._predictor = _Predictor(self.Z[Q.order], c[Q.order], Q)
        return self._predictor

    # Updates

    def update(self, new: Dataset, enough: StopCondition | None = None) -> UpdateReport:
        """One epoch: choose Z, update q(u), then take training steps; ``enough`` may end them.

        Raises:
            ValueError: the data have noise of their own, which sparse models do not support.
            CholeskyError: a matrix is not positive definite.
        """
        if new.noise is not None:
            raise ValueError(
                "SparseGP.update: expected a Dataset without noise of its own, which sparse models "
                "do not support"
            )
        times, self.extra_jitter = [perf_counter()], 0.0
        self._data = self._data.more(new)
        with torch.no_grad():
            chosen = self.method.select(self, new.X)
        if not chosen.unchanged:
            self.learned = Learned({}, self.options.learning_rate)
        epoch, losses = Epoch(self, self.epoch, chosen, new), list[float]()
        times.append(perf_counter())
        for trains in (self.method.train_first, not self.method.train_first):
            if trains:
                self.condition(chosen.Z, self.q)
                losses = self._m_step(epoch, enough)
                # q(u), if it follows, is of the learned hyperparameters and Z.
                epoch = replace(epoch, inducing=chosen.at(self.Z))
            else:
                with torch.no_grad():
                    self.epoch, q = self.method.update(epoch)
                self.condition(self.epoch.Z, q)
            times.append(perf_counter())
        selection, first, second = np.diff(times).tolist()
        trained, updated = (first, second) if self.method.train_first else (second, first)
        return UpdateReport(
            {"inducing": selection, "variational": updated, "training": trained},
            steps=len(losses),
            support=len(self.Z),
            noise_std=self.noise.sqrt().item(),
            jitter=self.extra_jitter,
            loss=sum(losses) / len(losses) if losses else float("nan"),
        )

    def _m_step(self, epoch: Epoch, enough: StopCondition | None) -> list[float]:
        """Take the steps of an M-step, and keep what they learn; returns the losses."""
        if not self.learned.leaves:
            with torch.no_grad():
                leaves = {"Z": self.Z.clone()} if "Z" in self.method.learns else {}
                if "q" in self.method.learns:
                    leaves |= zip(("m", "root"), self.whitened_posterior(), strict=True)
            self.learned = Learned(leaves, self.options.learning_rate)
        losses: list[float] = self.method.train(epoch, enough)
        with torch.no_grad():
            q, leaves = self.q, self.learned.leaves
            self.Z = self.current_Z.detach().clone()
            if "m" in leaves:
                L = self.factor_of_prior()
                q = Posterior.of_whitened(L, leaves["m"], leaves["root"].tril())
            self.condition(self.Z, q)
        return losses

    @property
    def current_Z(self) -> Tensor:
        """In an M-step: the inducing inputs, whether learned or fixed [M, D]."""
        return self.learned.leaves.get("Z", self.Z)

    def draw(self) -> Dataset:
        """A mini-batch drawn uniformly from all data, with replacement."""
        count, generator = len(self.data), self.generators["minibatches"]
        index = torch.randint(count, (self.options.minibatch,), generator=generator)
        return self.data[index.to(self.Z.device)]

    def covariances(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """In an M-step: Kuu with jitter [M, M], Kuf [M, N] and kff [N] for X [N, D]."""
        Kuu, Kuf = self.kernel.inducing_covariances(self.current_Z, X)
        return add_jitter(Kuu, self.jitter), Kuf, self.kernel.forward(X, X, diag=True)

    def state(self) -> ModelState:
        """What ``restore`` needs. Learned values are few and copied; the rest is never modified in
        place."""
        learned = {
            **{name: leaf.detach().clone() for name, leaf in self.learned.leaves.items()},
            "optimizer": self.learned.optimizer and _moments(self.learned.optimizer),
        }
        tree = {
            "parameters": {name: t.clone() for name, t in self.state_dict().items()},
            "optimizer": _moments(self.optimizer),
            "generators": {name: g.get_state() for name, g in self.generators.items()},
            "extra_jitter": self.extra_jitter,
            "Z": self.Z,
            "q": _packed(self.q),
            "epoch": _packed(self.epoch),
            "learned": learned,
            "data": _packed(self.data),
        }
        return ModelState(tree)

    def restore(self, state: ModelState) -> None:
        """Restore the state of a model with the same method and options, bit for bit."""
        tree, device = state.tree, self.noise.device
        self.load_state_dict(flat(tree["parameters"]))
        _put_moments(self.optimizer, tree.get("optimizer", {}))
        for name, generator in self.generators.items():
            generator.set_state(tree["generators"][name])
        self.condition(tree["Z"].to(device), _unpacked(Posterior, tree["q"], device))
        self.extra_jitter = tree["extra_jitter"]
        self.epoch = _unpacked(EpochState, tree["epoch"], device)
        self._data = _unpacked(Dataset, tree["data"], device)
        kept = dict(tree["learned"])
        moments = kept.pop("optimizer", None)
        leaves = {name: leaf.to(device, copy=True) for name, leaf in kept.items()}
        self.learned = Learned(leaves, self.options.learning_rate)
        if self.learned.optimizer is not None:
            _put_moments(self.learned.optimizer, moments or {})


#: Types of fields, by name; other fields are tensors or numbers.
_KINDS: dict[str, Any] = {"factor": Factor, "terms": DataTerms, "pseudo": DataTerms}


def _packed(value: Any) -> Any:
    """A dataclass or named tuple of tensors and numbers, possibly nested, as nested mappings."""
    names = getattr(value, "_fields", None)
    if names is None and hasattr(value, "__dataclass_fields__"):
        names = [field.name for field in fields(value)]
    return value if names is None else {name: _packed(getattr(value, name)) for name in names}


def _unpacked(kind: Any, tree: Any, device: torch.device) -> Any:
    """The object of type ``kind`` that was ``_packed``, with its tensors on a device."""
    if tree is None:
        return None
    parts = {}
    for name, part in tree.items():
        if name in _KINDS:
            parts[name] = _unpacked(_KINDS[name], part, device)
        else:
            parts[name] = part.to(device) if isinstance(part, Tensor) else part
    return kind(**parts)


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """A copy of an optimiser's state of each parameter, by its number."""
    kept = optimizer.state_dict()["state"]
    return {str(number): _copied(values) for number, values in kept.items()}


def _put_moments(optimizer: torch.optim.Optimizer, tree: Mapping[str, Any]) -> None:
    """Restore what ``_moments`` copied from an optimiser of the same parameters."""
    kept = {int(number): _copied(values) for number, values in tree.items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": kept})


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in values.items()}


def resolved(method: Method) -> Method:
    """A row of ``METHODS`` with its functions in place of their names."""
    modules = {"select": inducing, "update": variational, "objective": training, "train": training}
    return replace(method, **{n: getattr(of, getattr(method, n)) for n, of in modules.items()})


def build(
    method: Method, options: SparseOptions, seed: int, device: torch.device | str
) -> SparseGP:
    """A model by a row of ``METHODS``. The seed spawns three independent generators."""
    network, minibatches, drawn = (
        torch.Generator().manual_seed(int(state))
        for state in np.random.SeedSequence(seed).generate_state(3)
    )
    kernel = KERNELS[options.kernel](options, network).to(device)
    return SparseGP(kernel, resolved(method), options, minibatches, drawn)
