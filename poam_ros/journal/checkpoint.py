"""Checkpoints: the model's state in a file, so that a restart need not repeat the whole journal.

An npz of arrays with a JSON text and a checksum; nothing is unpickled. It is replaced atomically:
after a failure the one before is still there.
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
from ..core.reading import parse_json_text, read_arrays
from ..core.samples import Samples

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: Version of the file's layout; others are not read.
SCHEMA = 1
NAME = "checkpoint.npz"
_FACTS = "facts.json"


@dataclass(frozen=True)
class Checkpoint:
    """A model's state after ``steps`` steps of the journal, with ``pings`` pings in it.

    ``offset``, ``deviation``, ``trust``: see ``MapperState``. Others: see ``Packed``.
    """

    steps: int
    pings: int
    offset: float
    deviation: float
    values: dict[str, Any]
    arrays: dict[str, np.ndarray]
    trust: tuple[float, int] = (1.0, 0)

    def restore(self, mapper: BathymetricMapper, samples: Samples) -> None:
        """Restore a mapper; ``samples``: the pings in the model.

        Raises:
            InputError: the checkpoint is another model's. Reset the mapper then.
        """
        from ..models.interface import Packed, unpack
        from ..models.mapper import MapperState

        try:
            model = unpack(Packed(self.arrays, self.values))
            mapper.restore(MapperState(model, self.offset, self.deviation, samples, self.trust))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise InputError(f"checkpoint: another model's state ({error})") from None


def write_checkpoint(folder: Path, mapper: BathymetricMapper, steps: int) -> None:
    """Write the model's state after ``steps`` steps of the folder's journal, which has the pings.

    Raises:
        OSError: it cannot be written; the one before stays.
    """
    from ..models.interface import pack

    state = mapper.state()
    packed = pack(state.model)
    facts: dict[str, Any] = {
        "schema": SCHEMA, "steps": steps, "pings": len(state.samples), "offset": state.offset,
        "deviation": state.deviation, "trust": state.trust, "values": dict(packed.values),
    }  # fmt: skip
    facts["checksum"] = _checksum(facts, packed.arrays)
    arrays: dict[str, Any] = {_FACTS: np.array(json.dumps(facts)), **packed.arrays}
    with atomic_write(folder / NAME) as file:
        np.savez(file, **arrays)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The folder's checkpoint; None where there is none.

    Raises:
        InputError: the file is damaged, foreign or of another version.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        facts = parse_json_text(str(arrays.pop(_FACTS)))
        if (layout := facts.get("schema")) != SCHEMA:
            raise ValueError(f"layout {layout} of another version, not {SCHEMA}")
        if facts.pop("checksum") != _checksum(facts, arrays):
            raise ValueError("damaged: the checksum differs")
        del facts["schema"]
        return Checkpoint(**facts, arrays=arrays)
    except UNREADABLE as error:
        raise InputError(f"{path}: no checkpoint that can be read ({error})") from None


def _checksum(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Checksum of the facts and of each array's name, type, shape and values."""
    parts = [json.dumps(facts, sort_keys=True).encode()]
    for name, array in sorted(arrays.items()):
        parts += [f"{name} {array.dtype.str} {array.shape} ".encode(), array.tobytes()]
    return checksum(*parts)
