"""Bathymetric maps from a single-beam sonar by online Gaussian processes."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core.errors import InputError, PoamError
    from .core.geometry import Extent, Grid, map_grid
    from .core.maps import ElevationMap, Predicted, UpdateReport
    from .core.settings import check, setting
    from .importers.options import ReadOptions
    from .importers.raw import RawSoundings
    from .importers.readers import ReaderEntry
    from .models.interface import Dataset, ModelState, OnlineModel, Prediction
    from .models.mapper import BathymetricMapper, MapperState
    from .models.registry import ModelEntry, ModelSettings, SparseOptions
    from .outputs.run import Run
    from .planning.planners import MapView, PlannerEntry, Situation

__all__ = [
    "BathymetricMapper", "Dataset", "ElevationMap", "Extent", "Grid", "InputError", "MapView",
    "MapperState", "ModelEntry", "ModelSettings", "ModelState", "OnlineModel", "PlannerEntry",
    "PoamError", "Predicted", "Prediction", "RawSoundings", "ReadOptions", "ReaderEntry",
    "Run", "Situation", "SparseOptions", "UpdateReport",
    "__version__", "check", "map_grid", "setting",
]  # fmt: skip

# Before torch starts its OpenMP: threads that spin while they wait for work take the processor from
# everything else on a vehicle, and a step of 0.1 s can then take seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Loaded when they are asked for: `poam --help` needs no torch.
_HOMES = {
    "BathymetricMapper": "models.mapper",
    "Dataset": "models.interface",
    "ElevationMap": "core.maps",
    "Extent": "core.geometry",
    "Grid": "core.geometry",
    "InputError": "core.errors",
    "MapView": "planning.planners",
    "MapperState": "models.mapper",
    "ModelEntry": "models.registry",
    "ModelSettings": "models.registry",
    "ModelState": "models.interface",
    "OnlineModel": "models.interface",
    "PlannerEntry": "planning.planners",
    "PoamError": "core.errors",
    "Predicted": "core.maps",
    "Prediction": "models.interface",
    "RawSoundings": "importers.raw",
    "ReadOptions": "importers.options",
    "ReaderEntry": "importers.readers",
    "Run": "outputs.run",
    "Situation": "planning.planners",
    "SparseOptions": "models.registry",
    "UpdateReport": "core.maps",
    "check": "core.settings",
    "map_grid": "core.geometry",
    "setting": "core.settings",
}

if not TYPE_CHECKING:  # to a type checker every name would be there, misspelt ones too

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
