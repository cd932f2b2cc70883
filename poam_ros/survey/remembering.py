"""What a screen remembers as text, so that a restart judges as if there had been none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..errors import InputError
from ..samples import Samples
from .along_track import Place, Track
from .doubts import Memory

#: Whose attributes are kept, by name.
_KEPT = {kind.__name__: kind for kind in (Memory, Track)}


def text_of(memory: Memory) -> str:
    """The text, to the last bit of every number."""
    return json.dumps(_plain(memory))


def memory_of(text: str) -> Memory:
    """What ``text_of`` was given.

    Raises:
        InputError: the text is of other rules than these.
    """
    try:
        memory = _value(json.loads(text))
        if not isinstance(memory, Memory):
            raise TypeError("no memory")
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"what the screen remembered is of other rules ({error})") from None
    return memory


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has not is an object of one entry, named by its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    kind = type(value).__name__
    if kind in _KEPT:
        return {kind: {name: _plain(part) for name, part in vars(value).items()}}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), value.ravel().tolist()]}
    if isinstance(value, Samples):
        return {"Samples": [_plain(array) for array in value.arrays]}
    if isinstance(value, Place):
        return {"Place": [_plain(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, (set, tuple, list)):
        parts = sorted(value) if isinstance(value, set) else value
        return {kind: [_plain(part) for part in parts]}
    raise TypeError(f"no way to keep a {kind}")


def _value(plain: Any) -> Any:
    """What ``_plain`` was given.

    Raises:
        ValueError, TypeError, KeyError: it is of other code.
    """
    if not isinstance(plain, dict):
        return plain
    [(kind, parts)] = plain.items()
    if kind in _KEPT:
        made = _KEPT[kind]()
        if vars(made).keys() != parts.keys():
            raise KeyError(f"{kind} has other attributes")
        vars(made).update({name: _value(part) for name, part in parts.items()})
        return made
    if kind == "array":
        dtype, shape, values = parts
        return np.array(values, dtype=dtype).reshape(shape)
    if kind == "Samples":
        return Samples(*map(_value, parts))
    if kind == "Place":
        return Place(*map(_value, parts))
    if kind == "dict":
        return {_value(key): _value(part) for key, part in parts}
    return {"set": set, "tuple": tuple, "list": list}[kind](map(_value, parts))
