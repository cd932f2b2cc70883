"""The table of map models, and the options of each. Imports no torch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..core.settings import Setting, Settings, Table, instance, rows, setting, values_of
from .nngp.options import NeighbourOptions
from .sparse.methods import METHODS, SparseOptions

if TYPE_CHECKING:
    from .interface import OnlineModel

log = logging.getLogger(__name__)

#: Builds a model from its row's options, a seed and a torch device.
Build = Callable[[Any, int, Any], "OnlineModel"]


@dataclass(frozen=True)
class ModelEntry:
    """One row of the table.

    Attributes:
        build: from the options, a seed and a torch device; it loads torch when it is called.
            Lengths among the options are in units of half the workspace's longer side.
        options: frozen dataclass of the row's own settings, with a prefix.
        bounded_time: whether an update's time is bounded, whatever the number of data.
        own_noise: whether targets may have noise of their own; otherwise they must have none.
    """

    build: Build
    options: type
    bounded_time: bool = True
    own_noise: bool = False


def _sparse(name: str, options: SparseOptions, seed: int, device: Any) -> OnlineModel:
    from .sparse.model import build

    return build(METHODS[name], options, seed, device)


def _neighbours(options: NeighbourOptions, seed: int, device: Any) -> OnlineModel:
    from .nngp.online import build

    return build(options, seed, device)


#: Every map model, by name: ``method`` on a command line, in a parameter file, in a sweep.
MODELS: Table[ModelEntry] = Table(
    "poam_ros.models",
    ModelEntry,
    {
        **{
            name: ModelEntry(partial(_sparse, name), SparseOptions, method.bounded_time)
            for name, method in METHODS.items()
        },
        "nngp": ModelEntry(_neighbours, NeighbourOptions, own_noise=True),
    },
)


@cache
def takes_noise(method: str) -> bool:
    """Whether a model accepts noise per target. If not, this logs a warning once per process."""
    if not MODELS[method].own_noise:
        log.warning("method %s does not support the noise of single pings and ignores it", method)
    return MODELS[method].own_noise


@dataclass(frozen=True)
class ModelSettings(Settings):
    """The model and its settings; ``options``: an instance of its row's options, None: defaults.

    Raises:
        InputError: the method is not in the table, the options are another row's, or a value is
            outside its range.
    """

    method: str = setting("poam", "Model of the map", choices=MODELS)
    options: Any = None
    threads: int = setting(1, "Number of threads for linear algebra", minimum=1, maximum=256)
    device: str = setting("cpu", "Torch device of the model: cpu, cuda, cuda:1")
    prior: str = setting(
        "", "Map of the bottom from before the survey: GeoTIFF (elevation in m; a band `sigma`, if "
        "any, its standard deviation) or folder of an earlier run. Its trust is learned. "
        "Empty: none",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.complete("options", MODELS[self.method].options, f"method {self.method}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ModelSettings:
        """From values by name, of these settings and of the row's options; others are ignored.

        Raises:
            InputError: as the settings do.
        """
        settings = instance(cls, values)
        return replace(settings, options=instance(type(settings.options), values))

    @property
    def values(self) -> dict[str, Any]:
        """All settings by name, as ``of`` takes them."""
        return values_of(self, self.options)


def option_rows() -> tuple[Setting, ...]:
    """The options of every built-in model."""
    return rows(*dict.fromkeys(model.options for model in MODELS.values()))


def model_rows() -> tuple[Setting, ...]:
    """The settings of every built-in model: those of ``ModelSettings``, then their options."""
    return (*rows(ModelSettings), *option_rows())
