"""The options of the inducing-point models. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ...settings import check, setting
from .. import metres


@dataclass(frozen=True)
class SparseOptions:
    """Of the inducing-point models, as published. Lengthscales are scaled: the workspace reaches
    from -1 to 1 along its longer side. Those in m come first where they are given. Variances are of
    standardised targets.

    Raises:
        InputError: a value is outside its range.
    """

    kernel: str = setting(
        "attentive", "Covariance function", choices=("attentive", "rbf", "gibbs", "deep")
    )
    num_inducing: int = setting(500, "Largest number of inducing points", minimum=2, maximum=10_000)
    minibatch: int = setting(256, "Samples in one training step", minimum=1, maximum=100_000)
    steps: int = setting(10, "Training steps per update", minimum=0, maximum=10_000)
    num_lengthscales: int = setting(10, "Number of base kernels", minimum=1, maximum=100)
    min_lengthscale: float = setting(
        0.05,
        "Shortest base lengthscale, half the workspace's longer side being 1",
        minimum=1e-4,
        maximum=100.0,
    )
    max_lengthscale: float = setting(
        0.5,
        "Longest base lengthscale, half the workspace's longer side being 1",
        minimum=1e-4,
        maximum=100.0,
    )
    shortest_lengthscale_m: float = metres.shortest()
    longest_lengthscale_m: float = metres.longest()
    amplitude: float = setting(
        1.0, "Initial amplitude, the pilot's variance being 1", minimum=1e-6, maximum=1e3
    )
    noise_variance: float = setting(
        1.0, "Initial noise variance, the pilot's variance being 1", minimum=1e-6, maximum=1e3
    )
    jitter: float = setting(
        1e-6, "Jitter on the inducing points' covariance", minimum=0.0, maximum=1e-2
    )
    tolerance: float = setting(
        1e-5,
        "Inducing points are added while one explains more than this part of the prior variance",
        minimum=1e-12,
        maximum=1.0,
    )
    learning_rate: float = setting(
        1e-2, "Learning rate of noise and amplitude", minimum=1e-9, maximum=1.0
    )
    network_learning_rate: float = setting(
        1e-3, "Learning rate of the kernel's network", minimum=1e-9, maximum=1.0
    )

    def __post_init__(self) -> None:
        check(self)
        if self.min_lengthscale > self.max_lengthscale:
            raise InputError(
                f"min_lengthscale: expected at most max_lengthscale {self.max_lengthscale:g}, "
                f"got {self.min_lengthscale:g}"
            )
