"""Convert a model's state to arrays and plain values with flat names, for a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .interface import ModelState

#: Between the names of nested mappings. At the end of a name: an empty mapping.
SEPARATOR = "/"


@dataclass(frozen=True)
class Packed:
    """A packed state. ``arrays``: the tensors; ``values``: the rest; both by flat name."""

    arrays: Mapping[str, np.ndarray]
    values: Mapping[str, Any]


def pack(state: ModelState) -> Packed:
    """Flatten a state without copying: write the result before the model changes."""
    leaves = dict(_leaves(state.tree, ""))
    arrays = {n: v.detach().cpu().numpy() for n, v in leaves.items() if isinstance(v, Tensor)}
    return Packed(arrays, {n: v for n, v in leaves.items() if n not in arrays})


def unpack(packed: Packed) -> ModelState:
    """The state that was packed; its tensors are copies on the CPU."""
    tensors = {name: torch.tensor(array) for name, array in packed.arrays.items()}
    tree: dict[str, Any] = {}
    for path, value in {**packed.values, **tensors}.items():
        *parents, name = path.split(SEPARATOR)
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        if name:
            place[name] = value
    return ModelState(tree)


def _leaves(tree: Mapping[str, Any], prefix: str) -> Any:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            if not value:
                yield f"{prefix}{name}{SEPARATOR}", None
            yield from _leaves(value, f"{prefix}{name}{SEPARATOR}")
        else:
            yield prefix + name, value
