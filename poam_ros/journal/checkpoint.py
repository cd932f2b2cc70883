"""A model's state in a file, so that a restart need not repeat the whole log.

An npz of arrays with a JSON text in it; nothing is ever unpickled. It has a checksum of
all that it says, and is there whole: the last one, or the one before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..core.files import UNREADABLE, atomic_write, checksum
from ..core.reading import read_arrays
from ..core.samples import Samples

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: Of the file; one of another layout is not read.
SCHEMA = 1
NAME = "checkpoint.npz"
_FACTS = "facts.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: a model's state after so many steps of the log, with so many pings in it.

    ``offset``, ``deviation``: the targets' scaling, in m. ``arrays``, ``values``: see ``Packed``.
    """

    steps: int
    pings: int
    offset: float
    deviation: float
    values: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def restore(self, mapper: BathymetricMapper, samples: Samples) -> None:
        """Bring a mapper there; ``samples``: the pings in the model.

        Raises:
            InputError: it is another model's. The mapper is to be reset then.
        """
        from ..models.mapper import MapperState
        from ..models.packing import Packed, unpack

        try:
            model = unpack(Packed(self.arrays, self.values))
            mapper.restore(MapperState(model, self.offset, self.deviation, samples))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise InputError(f"checkpoint: another model's state ({error})") from None


def write_checkpoint(folder: Path, mapper: BathymetricMapper, steps: int) -> None:
    """Keep a model's state after so many steps of the folder's log. The pings are in the log.

    Raises:
        OSError: it cannot be written; the one before stays.
    """
    from ..models.packing import pack

    state = mapper.state()
    packed = pack(state.model)
    facts: dict[str, Any] = {
        "schema": SCHEMA, "steps": steps, "pings": len(state.samples), "offset": state.offset,
        "deviation": state.deviation, "values": dict(packed.values),
    }  # fmt: skip
    facts["checksum"] = _checksum(facts, packed.arrays)
    arrays: dict[str, Any] = {_FACTS: np.array(json.dumps(facts)), **packed.arrays}
    with atomic_write(folder / NAME) as file:
        np.savez(file, **arrays)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The folder's checkpoint; None where there is none.

    Raises:
        InputError: the file is torn, foreign or of another layout.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        facts = json.loads(str(arrays.pop(_FACTS)))
        given = facts.pop("checksum", None)  # those of versions before have none
        if given not in (None, _checksum(facts, arrays)):
            raise ValueError("damaged: the checksum is another's")
        if facts.pop("schema") != SCHEMA:
            raise ValueError(f"another layout than {SCHEMA}")
        return Checkpoint(**facts, arrays=arrays)
    except UNREADABLE as error:
        raise InputError(f"{path}: no checkpoint that can be read ({error})") from None


def counted(folder: Path) -> int:
    """How many steps of the log were done when the folder's checkpoint was written; 0 where there
    is none, or none that can be read."""
    try:
        found = read_checkpoint(folder)
    except InputError:
        return 0
    return 0 if found is None else found.steps


def _checksum(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Of what a file says: its facts, and each array's name, kind and numbers."""
    parts = [json.dumps(facts, sort_keys=True).encode()]
    for name, array in sorted(arrays.items()):
        parts += [f"{name} {array.dtype.str} {array.shape} ".encode(), array.tobytes()]
    return checksum(*parts)
