"""A model's state in a file, so that a restart need not repeat the whole log.

An npz of arrays with a JSON text in it; nothing is ever unpickled. The file is written beside,
brought to the disk, and renamed: whatever happens there is a whole one, the last or the one before.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from ..core.errors import InputError
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
    facts = {
        "schema": SCHEMA, "steps": steps, "pings": len(state.samples), "offset": state.offset,
        "deviation": state.deviation, "values": dict(packed.values),
    }  # fmt: skip
    arrays: dict[str, Any] = {_FACTS: np.array(json.dumps(facts)), **packed.arrays}
    beside = folder / f".{NAME}.{os.getpid()}"
    try:
        with beside.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NAME)
        sync(folder)
    finally:
        beside.unlink(missing_ok=True)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The folder's checkpoint; None where there is none.

    Raises:
        InputError: the file is torn, foreign or of another layout.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}  # each checked by its own sum
        facts = json.loads(str(arrays.pop(_FACTS)))
        if facts.pop("schema") != SCHEMA:
            raise ValueError(f"another layout than {SCHEMA}")
        return Checkpoint(**facts, arrays=arrays)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: no checkpoint that can be read ({error})") from None


def sync(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
