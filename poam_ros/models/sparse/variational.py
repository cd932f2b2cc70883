"""Functions that update q(u)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ..interface import Dataset
from ..linalg import Factor, add_jitter, reversed_cholesky, solve_posdef, symm, trsm, whitened
from .inducing import Inducing
from .model import Posterior, SparseGP

#: Samples per block when terms are summed over all data.
CHUNK = 2048


@dataclass(frozen=True)
class DataTerms:
    """The data-dependent terms of q(u), such as Kuf y [M] and Kuf Kfu [M, M] (POAM's)."""

    vector: Tensor
    matrix: Tensor

    @classmethod
    def of(cls, Kuf: Tensor, y: Tensor) -> DataTerms:
        """Kuf y and Kuf Kfu, without the noise; Kuf [M, N], y [N]."""
        return cls(Kuf @ y, Kuf @ Kuf.mT)

    def projected(self, P: Tensor) -> DataTerms:
        """P^T Kuf y and P^T Kuf Kfu P, P [M', M] (Eqs. 12 and 13)."""
        projected = P.mT @ symm(self.matrix, P)
        return DataTerms(P.mT @ self.vector, 0.5 * (projected + projected.mT))

    def __add__(self, new: DataTerms) -> DataTerms:
        return DataTerms(self.vector + new.vector, self.matrix + new.matrix)

    def __truediv__(self, noise: Tensor) -> DataTerms:
        return DataTerms(self.vector / noise, self.matrix / noise)


@dataclass(frozen=True)
class EpochState:
    """What the next epoch reads of this one, as it was before the M-step.

    Z [M, D]; Kuu [M, M] with jitter, and its factor L; the terms that the method accumulates;
    pseudo: L^T S^-1 m and L^T (S^-1 - Kuu^-1) L, which is q(u) without its prior, as pseudo data
    (SSGP). None if q(u) was learned.
    """

    Z: Tensor
    Kuu: Tensor
    factor: Factor
    terms: DataTerms | None = None
    pseudo: DataTerms | None = None


@dataclass(frozen=True)
class EpochInput:
    """What an epoch reads, in E-step and M-step: the previous epoch, Z, the new and all data."""

    old: EpochState | None
    inducing: Inducing
    new: Dataset
    data: Dataset


Update = Callable[[SparseGP, EpochInput], tuple[EpochState, Posterior]]


def _prior(model: SparseGP, inducing: Inducing) -> tuple[Tensor, Factor]:
    Kuu = add_jitter(inducing.Kuu, model.jitter)
    return Kuu, model.factorise(Kuu, "Kuu")


def closed_form(
    Kuu: Factor, terms: DataTerms, noise: Tensor | float, model: SparseGP
) -> tuple[Posterior, DataTerms]:
    """The optimal q(u) (Eqs. 6 and 7), and its pseudo data.

    m = Kuu A^-1 Kuf y / s2, S = Kuu A^-1 Kuu with A = Kuu + Kuf Kfu / s2. With Kuu = L L^T and
    B = I + L^-1 Kuf Kfu L^-T / s2, which is well conditioned, S = L B^-1 L^T and
    m = L B^-1 L^-1 Kuf y / s2.

    Hence S^-1 - Kuu^-1 = L^-T (B - I) L^-1 and S^-1 m = L^-T L^-1 Kuf y / s2: SSGP's difference of
    two inverses needs no subtraction, and B - I is positive semi-definite by construction.
    """
    L = Kuu.L
    W = whitened(L, terms.matrix) / noise
    # B = R^T R: then S = L R^-1 (L R^-1)^T, and this root is lower triangular
    R = reversed_cholesky(add_jitter(W, 1.0), model.factorise, "I + L^-1 Kuf Kfu L^-T / noise")
    root = trsm(R, L, right=True)
    w = trsm(L, terms.vector.unsqueeze(-1)) / noise
    m = root @ trsm(R, w, transposed=True)
    logdet = 2 * (L.diagonal().log().sum() - R.diagonal().log().sum())
    return Posterior(m.squeeze(-1), root, logdet), DataTerms(w.squeeze(-1), W)


def cross_covariance(old: EpochState, inducing: Inducing, jitter: float) -> Tensor:
    """K_u'u [M', M], with the jitter of Kuu where u is u'.

    Jitter is a small independent part of each inducing output. A kept output keeps it, even if
    training moves its input.
    """
    K_old_u = inducing.K_old_u(old.Z).clone()
    K_old_u[inducing.kept] += jitter
    return K_old_u


def projection(old: EpochState, inducing: Inducing, jitter: float) -> Tensor:
    """P = K'uu^-1 K_u'u [M', M] (Eq. 11), K' under the old hyperparameters.

    Kept points carry the jitter; otherwise P would not be the identity for unchanged points. P is
    computed as E + K'^-1 (K_u'u - K' E), E the 0/1 matrix of the kept points, which is exact for
    points that are kept and have not moved.
    """
    places_old, places = inducing.kept
    change = cross_covariance(old, inducing, jitter)
    change[:, places] -= old.Kuu[:, places_old]
    P = solve_posdef(old.factor.L, change)
    P[places_old, places] += 1.0
    return P


def update_poam(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """POAM (Sec. IV-C): project the old data terms, add the new ones, solve in closed form.

    The terms are independent of the learned noise.
    """
    old, inducing = given.old, given.inducing
    terms = DataTerms.of(inducing.Kuf, given.new.y)
    if old is not None:
        assert old.terms is not None
        terms = old.terms.projected(projection(old, inducing, model.jitter)) + terms
    Kuu, factor = _prior(model, inducing)
    q, pseudo = closed_form(factor, terms, model.noise.detach(), model)
    return EpochState(inducing.Z, Kuu, factor, terms, pseudo), q


def update_poam_first_twice(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """POAM, but the first batch counts twice, as in the authors' code."""
    epoch, q = update_poam(model, given)
    if given.old is not None:
        return epoch, q
    assert epoch.terms is not None
    terms = epoch.terms + epoch.terms
    q, pseudo = closed_form(epoch.factor, terms, model.noise.detach(), model)
    return replace(epoch, terms=terms, pseudo=pseudo), q


def update_ovc(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """OVC (Maddox et al., 2021; App. A-C): as POAM, but terms keep the noise of their epoch."""
    old, inducing = given.old, given.inducing
    terms = DataTerms.of(inducing.Kuf, given.new.y) / model.noise.detach()
    if old is not None:
        assert old.terms is not None
        terms = old.terms.projected(projection(old, inducing, model.jitter)) + terms
    Kuu, factor = _prior(model, inducing)
    q, pseudo = closed_form(factor, terms, 1.0, model)
    return EpochState(inducing.Z, Kuu, factor, terms, pseudo), q


def update_ssgp(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """SSGP (Bui et al., 2017; App. A-B): the old posterior, as pseudo data, and the new data.

    C = Kuf Kfu / s2 + K_uu' (S'^-1 - K'^-1) K_u'u and c = Kuf y / s2 + K_uu' S'^-1 m'; the old
    terms come from ``EpochState.pseudo``.
    """
    old, inducing = given.old, given.inducing
    terms = DataTerms.of(inducing.Kuf, given.new.y) / model.noise.detach()
    if old is not None:
        assert old.pseudo is not None
        K_old_u = cross_covariance(old, inducing, model.jitter)
        whitened = torch.linalg.solve_triangular(old.factor.L, K_old_u, upper=False)
        terms = old.pseudo.projected(whitened) + terms
    Kuu, factor = _prior(model, inducing)
    q, pseudo = closed_form(factor, terms, 1.0, model)
    return EpochState(inducing.Z, Kuu, factor, pseudo=pseudo), q


def update_full(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """From all data so far (Eqs. 6 and 7), in O(N M^2)."""
    inducing, data, noise = given.inducing, given.data, model.noise.detach()
    kernel, Z = model.kernel, inducing.Z
    parts = (slice(start, start + CHUNK) for start in range(0, len(data), CHUNK))
    terms = None
    for part in parts:
        new = DataTerms.of(kernel.forward(Z, data.X[part]), data.y[part])
        terms = new if terms is None else terms + new
    assert terms is not None
    Kuu, factor = _prior(model, inducing)
    q, pseudo = closed_form(factor, terms, noise, model)
    return EpochState(Z, Kuu, factor, terms, pseudo), q


def keep_learned(model: SparseGP, given: EpochInput) -> tuple[EpochState, Posterior]:
    """q(u) as the gradient left it; the prior at the beginning and for added inducing inputs.

    Mean and root are kept in whitened coordinates v = L^-1 u, by index. While Z only grows (SVGP)
    that is exactly q(u) = int p(u | u') q(u') du'. With a new choice of Z (POAM-VAR-OPT) only the
    gradient moves q(u) to the new points, as published: the paper says that q(u) is optimised
    instead of computed. docs/results.md compares it with conditioning on q(u').
    """
    inducing = given.inducing
    Kuu, factor = _prior(model, inducing)
    L, epoch = factor.L, EpochState(inducing.Z, Kuu, factor)
    m, root = L.new_zeros(len(L)), torch.eye(len(L)).to(L)
    if model.q is not None:
        m_old, root_old = model.whitened_posterior()
        count = min(len(L), len(m_old))
        m[:count], root[:count, :count] = m_old[:count], root_old[:count, :count]
    return epoch, Posterior.of_whitened(L, m, root)


#: Types of fields, by name; other fields are tensors or numbers.
KINDS: dict[str, Any] = {
    "factor": Factor,
    "terms": DataTerms,
    "pseudo": DataTerms,
    "old": EpochState,
    "new": Dataset,
}


def packed(value: Any) -> Any:
    """A dataclass or named tuple of tensors and numbers, possibly nested, as nested mappings."""
    names = getattr(value, "_fields", None)
    if names is None and hasattr(value, "__dataclass_fields__"):
        names = [field.name for field in fields(value)]
    return value if names is None else {name: packed(getattr(value, name)) for name in names}


def unpacked(kind: Any, tree: Any, device: torch.device) -> Any:
    """The object of type ``kind`` that was ``packed``, with its tensors on a device."""
    if tree is None:
        return None
    parts = {}
    for name, part in tree.items():
        if name in KINDS:
            parts[name] = unpacked(KINDS[name], part, device)
        else:
            parts[name] = part.to(device) if isinstance(part, Tensor) else part
    return kind(**parts)


def parameters_of(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """A copy of an optimiser's state of each parameter, by its number."""
    kept = optimizer.state_dict()["state"]
    return {str(number): _copied(values) for number, values in kept.items()}


def put_parameters(optimizer: torch.optim.Optimizer, tree: Mapping[str, Any]) -> None:
    """Restore the state that ``parameters_of`` copied from an optimiser of the same parameters."""
    kept = {int(number): _copied(values) for number, values in tree.items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": kept})


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in values.items()}
