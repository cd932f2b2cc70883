"""The table of methods: how Z is chosen, how q(u) is updated, and how the rest is trained.

The table names functions, so that it needs no torch; ``online.resolved`` looks them up when a model
is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.settings import Settings, setting


@dataclass(frozen=True)
class SparseOptions(Settings):
    """Options of the models with inducing inputs, as published. Variances: of standardised targets.

    Further fields, which are no settings:
        minibatch: samples in one training step.
        num_lengthscales, shortest_lengthscale, longest_lengthscale: number and range of the base
            kernels; lengths in units of half the workspace's longer side.
        amplitude: initial amplitude, relative to the variance of the first batch.
        jitter: added to the diagonal of the inducing inputs' covariance.
        tolerance: inducing inputs are added while the next explains more than this share of the
            prior variance.
        network_learning_rate: of the kernel's network.
    """

    prefix = "sparse"

    kernel: str = setting("attentive", "Covariance function", choices=("attentive", "rbf"))
    num_inducing: int = setting(500, "Maximum number of inducing inputs", minimum=2, maximum=10_000)
    steps: int = setting(10, "Training steps per update", minimum=0, maximum=10_000)
    noise_variance: float = setting(
        1.0, "Initial noise variance, relative to the variance of the first batch", minimum=1e-6,
        maximum=1e3,
    )  # fmt: skip
    learning_rate: float = setting(
        1e-2, "Learning rate of noise and amplitude", minimum=1e-9, maximum=1.0
    )
    minibatch: int = 256
    num_lengthscales: int = 10
    shortest_lengthscale: float = 0.05
    longest_lengthscale: float = 0.5
    amplitude: float = 1.0
    jitter: float = 1e-6
    tolerance: float = 1e-5
    network_learning_rate: float = 1e-3


@dataclass(frozen=True)
class Method:
    """One row of the table.

    select: function of ``inducing`` that chooses the inducing inputs Z.
    update: function of ``variational`` that updates q(u) from Z, the new data, the previous epoch.
    objective: function of ``training`` that the M-step minimises; ``train``: the one that does so.
    learns: what is learned by gradient besides the hyperparameters: "Z", "q".
    train_first: update q(u) after the M-step. Otherwise the E-step comes before the M-step, as in
        the paper's variational EM.
    constant_time: whether an update costs the same whatever the number of data so far.
    """

    select: Any
    update: Any
    objective: Any = "minibatch_elbo"
    train: Any = "adam"
    learns: frozenset[str] = frozenset()
    train_first: bool = False
    constant_time: bool = True

    @property
    def bounded_time(self) -> bool:
        """Whether an update's time is bounded: it does not grow, and its steps are counted."""
        return self.constant_time and self.train == "adam"


_Z, _Q, _ZQ = frozenset({"Z"}), frozenset({"q"}), frozenset({"Z", "q"})

#: The rows of the paper's tables, figures and appendix, by name.
METHODS: dict[str, Method] = {
    # The paper's method, with all data in its terms (FULL) and in its choice of Z too (PAM)
    "poam": Method("pivoted_from_old_and_new", "update_poam"),
    "full": Method("pivoted_from_old_and_new", "update_full", constant_time=False),
    "pam": Method("pivoted_from_all", "update_full", constant_time=False),
    # Batch methods, fitted again with every batch
    "sgpr": Method(
        "pivoted_from_all", "update_full", "collapsed_elbo", train_first=True, constant_time=False
    ),
    "gpr": Method(
        "all_training_inputs",
        "update_full",
        "marginal_likelihood",
        train_first=True,
        constant_time=False,
    ),
    # Everything by gradient
    "svgp": Method("keep_old_inputs", "keep_learned", "whitened_elbo", learns=_ZQ),
    # Online baselines, as they were published and improved (++)
    "ssgp": Method(
        "move_random_inputs",
        "update_ssgp",
        "online_elbo",
        train="lbfgs",
        learns=_Z,
        train_first=True,
    ),
    "ssgp++": Method("pivoted_from_old_and_new", "update_ssgp", "online_elbo"),
    "ovc": Method("pivoted_from_old_and_new", "update_ovc", learns=_Z),
    "ovc++": Method("pivoted_from_old_and_new", "update_ovc"),
    # Where the authors' released code differs from the paper
    "poam-authors": Method("pivoted_and_padded", "update_poam_first_twice"),
    # Ablations of POAM
    "poam-z-opt": Method("keep_old_inputs", "update_poam", learns=_Z),
    "poam-z-rand": Method("random_from_old_and_new", "update_poam"),
    "poam-var-opt": Method("pivoted_from_old_and_new", "keep_learned", "whitened_elbo", learns=_Q),
    "poam-var-ssgp": Method("pivoted_from_old_and_new", "update_ssgp"),
    "poam-online-elbo": Method("pivoted_from_old_and_new", "update_poam", "online_elbo"),
}
