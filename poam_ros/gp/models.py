"""The table of map models, and the options of each. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..settings import Setting, check, instance, joined, rows, setting
from .sparse.methods import METHODS

if TYPE_CHECKING:
    from .interface import OnlineModel

#: Builds a model from its row's options, a seed and a torch device.
Build = Callable[[Any, int, Any], "OnlineModel"]


@dataclass(frozen=True)
class Model:
    """One row of the table.

    Attributes:
        build: from the options, a seed and a torch device; it loads torch when it is called.
        options: frozen dataclass of the row's own settings.
        bounded_time: whether an update's time can be relied on, whatever the number of data.
    """

    build: Build
    options: type
    bounded_time: bool = True


@dataclass(frozen=True)
class SparseOptions:
    """Of the inducing-point models, as published. Lengthscales are scaled: the workspace reaches
    from -1 to 1 along its longer side; variances are of standardised targets.

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


def _sparse(name: str, options: SparseOptions, seed: int, device: Any) -> OnlineModel:
    from .sparse.online import build

    return build(METHODS[name], options, seed, device)


#: Every map model, by name: ``method`` on a command line, in a parameter file, in a sweep.
MODELS: dict[str, Model] = {
    name: Model(partial(_sparse, name), SparseOptions, method.bounded_time)
    for name, method in METHODS.items()
}


@dataclass(frozen=True)
class ModelSettings:
    """Which model, and how: ``options`` is an instance of its row's options, None for the defaults.

    Raises:
        InputError: the method is not in the table, the options are another row's, or a value is
            outside its range.
    """

    method: str = setting("poam", "How the map is learned online", choices=MODELS)
    options: Any = None
    threads: int = setting(1, "Threads of the linear algebra", minimum=1, maximum=256)
    device: str = setting("cpu", "Torch device of the model: cpu, cuda, cuda:1")

    def __post_init__(self) -> None:
        check(self)
        kind = MODELS[self.method].options
        if self.options is None:
            object.__setattr__(self, "options", kind())
        elif not isinstance(self.options, kind):
            raise InputError(
                f"options: expected {kind.__name__} for method {self.method}, "
                f"got {type(self.options).__name__}"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ModelSettings:
        """From one flat mapping, of these settings and of the row's options; others are left.

        Raises:
            InputError: as the settings do.
        """
        settings = instance(cls, values)
        return replace(settings, options=instance(type(settings.options), values))

    @property
    def flat(self) -> dict[str, Any]:
        """All settings in one mapping, as ``of`` takes them."""
        own = {row.name: getattr(self, row.name) for row in rows(self)}
        return own | {row.name: getattr(self.options, row.name) for row in rows(self.options)}


def model_rows() -> tuple[Setting, ...]:
    """The settings of all models: those of ``ModelSettings``, then the options of every row."""
    return joined(ModelSettings, *(model.options for model in MODELS.values()))
