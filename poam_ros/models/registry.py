"""The table of map models, and the options of each. Imports no torch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..core.settings import Setting, check, instance, joined, rows, setting
from .nngp.options import NeighbourOptions
from .sparse.methods import METHODS, SparseOptions

if TYPE_CHECKING:
    from .interface import OnlineModel

log = logging.getLogger(__name__)

#: Builds a model from its row's options, a seed and a torch device.
Build = Callable[[Any, int, Any], "OnlineModel"]


@dataclass(frozen=True)
class Model:
    """One row of the table.

    Attributes:
        build: from the options, a seed and a torch device; it loads torch when it is called.
        options: frozen dataclass of the row's own settings.
        bounded_time: whether an update's time can be relied on, whatever the number of data.
        in_metres: settings in m, and the scaled ones that they replace where they are not 0.
        own_noise: whether it takes noise of each target's own; otherwise it must be given none.
    """

    build: Build
    options: type
    in_metres: Mapping[str, str] = field(default_factory=dict)
    bounded_time: bool = True
    own_noise: bool = False


def _sparse(name: str, options: SparseOptions, seed: int, device: Any) -> OnlineModel:
    from .sparse.online import build

    return build(METHODS[name], options, seed, device)


def _neighbours(options: NeighbourOptions, seed: int, device: Any) -> OnlineModel:
    from .nngp.online import build

    return build(options, seed, device)


#: Every map model, by name: ``method`` on a command line, in a parameter file, in a sweep.
MODELS: dict[str, Model] = {
    **{
        name: Model(
            partial(_sparse, name),
            SparseOptions,
            {
                "shortest_lengthscale_m": "min_lengthscale",
                "longest_lengthscale_m": "max_lengthscale",
            },
            method.bounded_time,
            method.own_noise,
        )
        for name, method in METHODS.items()
    },
    "nngp": Model(
        _neighbours,
        NeighbourOptions,
        {
            f"{which}_lengthscale_m": f"{which}_lengthscale"
            for which in ("initial", "shortest", "longest")
        },
        own_noise=True,
    ),
}


@cache
def takes_noise(method: str) -> bool:
    """Whether a model takes noise of each target's own. Where not this says so, once a process."""
    if not MODELS[method].own_noise:
        log.warning("method %s cannot take noise of single pings: its map leaves it out", method)
    return MODELS[method].own_noise


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
