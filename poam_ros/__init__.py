"""Probabilistic Online Attentive Mapping: a sonar map that steers the vehicle which makes it."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .geometry import Extent
    from .gp.models import ModelSettings, SparseOptions
    from .mapping import BathymetricMapper

__all__ = ["BathymetricMapper", "Extent", "ModelSettings", "SparseOptions", "__version__"]

# Before torch starts its OpenMP: threads that spin while they wait for work take the processor from
# everything else on a vehicle, and a step of 0.1 s can then take seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Loaded when they are asked for: `poam --help` needs no torch.
_HOMES = {
    "BathymetricMapper": "mapping",
    "Extent": "geometry",
    "ModelSettings": "gp.models",
    "SparseOptions": "gp.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
