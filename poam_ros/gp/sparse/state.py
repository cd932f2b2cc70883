"""The parts of a model's state as nested mappings of tensors and numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ..data import Dataset
from ..linalg.factors import Factor
from .variational import DataTerms, Epoch

#: What kind a part is, by the name of its field; any other is a tensor or a number.
KINDS: dict[str, Any] = {
    "factor": Factor,
    "terms": DataTerms,
    "pseudo": DataTerms,
    "old": Epoch,
    "new": Dataset,
}


def packed(value: Any) -> Any:
    """A dataclass or named tuple of tensors, numbers and others like it, as nested mappings."""
    names = getattr(value, "_fields", None)
    if names is None and hasattr(value, "__dataclass_fields__"):
        names = [field.name for field in fields(value)]
    return value if names is None else {name: packed(getattr(value, name)) for name in names}


def unpacked(kind: Any, tree: Any, device: torch.device) -> Any:
    """The object of a kind that ``packed`` made this tree from, its tensors on a device."""
    if tree is None:
        return None
    parts = {}
    for name, part in tree.items():
        if name in KINDS:
            parts[name] = unpacked(KINDS[name], part, device)
        else:
            parts[name] = part.to(device) if isinstance(part, Tensor) else part
    return kind(**parts)


def parameters_of(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """What an optimiser keeps of each of its parameters, by their number; a copy."""
    kept = optimizer.state_dict()["state"]
    return {str(number): _copied(values) for number, values in kept.items()}


def put_parameters(optimizer: torch.optim.Optimizer, tree: Mapping[str, Any]) -> None:
    """Give an optimiser of the same parameters what ``parameters_of`` took."""
    kept = {int(number): _copied(values) for number, values in tree.items()}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": kept})


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in values.items()}
