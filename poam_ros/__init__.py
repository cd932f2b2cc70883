"""Probabilistic Online Attentive Mapping: a sonar map that steers the vehicle which makes it."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core.errors import InputError, PoamError
    from .core.geometry import Extent, Grid, map_grid
    from .core.maps import ElevationMap, Predicted, UpdateReport
    from .models.mapper import BathymetricMapper, MapperState
    from .models.registry import ModelSettings, SparseOptions

__all__ = [
    "BathymetricMapper", "ElevationMap", "Extent", "Grid", "InputError", "MapperState",
    "ModelSettings", "PoamError", "Predicted", "SparseOptions", "UpdateReport", "__version__",
    "map_grid",
]  # fmt: skip

# Before torch starts its OpenMP: threads that spin while they wait for work take the processor from
# everything else on a vehicle, and a step of 0.1 s can then take seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Loaded when they are asked for: `poam --help` needs no torch.
_HOMES = {
    "BathymetricMapper": "models.mapper",
    "ElevationMap": "core.maps",
    "Extent": "core.geometry",
    "Grid": "core.geometry",
    "InputError": "core.errors",
    "MapperState": "models.mapper",
    "ModelSettings": "models.registry",
    "PoamError": "core.errors",
    "Predicted": "core.maps",
    "SparseOptions": "models.registry",
    "UpdateReport": "core.maps",
    "map_grid": "core.geometry",
}

if not TYPE_CHECKING:  # to a type checker every name would be there, misspelt ones too

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
