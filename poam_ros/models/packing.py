"""A model's state as arrays and plain values by flat names, for a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .interface import ModelState

#: Between the names of nested mappings; one that ends a name stands for a mapping without entries.
SEPARATOR = "/"


@dataclass(frozen=True)
class Packed:
    """``arrays``: what were tensors; ``values``: numbers, texts and None; both by flat names."""

    arrays: Mapping[str, np.ndarray]
    values: Mapping[str, Any]


def pack(state: ModelState) -> Packed:
    """Nothing is copied: what is packed is to be written before the model goes on."""
    leaves = dict(_leaves(state.tree, ""))
    arrays = {n: v.detach().cpu().numpy() for n, v in leaves.items() if isinstance(v, Tensor)}
    return Packed(arrays, {n: v for n, v in leaves.items() if n not in arrays})


def unpack(packed: Packed) -> ModelState:
    """What ``pack`` was given; its tensors are on the CPU, and nobody else's."""
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
