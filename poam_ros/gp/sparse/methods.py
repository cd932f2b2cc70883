"""The methods, each a row: how Z is chosen, how q(u) is updated, what trains the rest."""

from __future__ import annotations

from dataclasses import dataclass

from . import inducing, training, variational
from .inducing import Select
from .training import Objective, Train
from .variational import Update


@dataclass(frozen=True)
class Method:
    """One row of the table.

    select: chooses the inducing inputs Z.
    update: q(u), from Z, the new data and what the epoch before left.
    objective: what the M-step minimises, and ``train`` how.
    learns: what the gradient learns beside the hyperparameters: "Z", "q".
    train_first: q(u) follows the learned hyperparameters and Z at once. Otherwise the E-step comes
        before the M-step, as in the paper's variational EM.
    constant_time: whether an update costs the same whatever the number of data so far.
    """

    select: Select
    update: Update
    objective: Objective = training.minibatch_elbo
    train: Train = training.adam
    learns: frozenset[str] = frozenset()
    train_first: bool = False
    constant_time: bool = True

    @property
    def bounded_time(self) -> bool:
        """Whether an update's time can be relied on: no growth, and a fixed number of steps."""
        return self.constant_time and self.train is training.adam


_Z, _Q, _ZQ = frozenset({"Z"}), frozenset({"q"}), frozenset({"Z", "q"})

#: The rows of the paper's tables, figures and appendix, by name.
METHODS: dict[str, Method] = {
    # The paper's method, with all data in its terms (FULL) and in its choice of Z too (PAM)
    "poam": Method(inducing.pivoted_from_old_and_new, variational.update_poam),
    "full": Method(inducing.pivoted_from_old_and_new, variational.update_full, constant_time=False),
    "pam": Method(inducing.pivoted_from_all, variational.update_full, constant_time=False),
    # Batch methods, fitted again with every batch
    "sgpr": Method(
        inducing.pivoted_from_all,
        variational.update_full,
        training.collapsed_elbo,
        train_first=True,
        constant_time=False,
    ),
    "gpr": Method(
        inducing.all_data,
        variational.update_full,
        training.marginal_likelihood,
        train_first=True,
        constant_time=False,
    ),
    # Everything by gradient
    "svgp": Method(inducing.kept, variational.keep_learned, training.whitened_elbo, learns=_ZQ),
    # Online baselines, as they were published and improved (++)
    "ssgp": Method(
        inducing.resampled,
        variational.update_ssgp,
        training.online_elbo,
        train=training.lbfgs,
        learns=_Z,
        train_first=True,
    ),
    "ssgp++": Method(
        inducing.pivoted_from_old_and_new, variational.update_ssgp, training.online_elbo
    ),
    "ovc": Method(inducing.pivoted_from_old_and_new, variational.update_ovc, learns=_Z),
    "ovc++": Method(inducing.pivoted_from_old_and_new, variational.update_ovc),
    # Ablations of POAM
    "poam-z-opt": Method(inducing.kept, variational.update_poam, learns=_Z),
    "poam-z-rand": Method(inducing.random_from_old_and_new, variational.update_poam),
    "poam-var-opt": Method(
        inducing.pivoted_from_old_and_new,
        variational.keep_learned,
        training.whitened_elbo,
        learns=_Q,
    ),
    "poam-var-ssgp": Method(inducing.pivoted_from_old_and_new, variational.update_ssgp),
    "poam-online-elbo": Method(
        inducing.pivoted_from_old_and_new, variational.update_poam, training.online_elbo
    ),
}
