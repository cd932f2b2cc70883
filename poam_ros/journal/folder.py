"""The mission folder: used by one mapper at a time, with one model and its settings; the checkpoint
in it; and how a mission is read from it, which changes nothing and leaves nothing open.

A checkpoint is the model's state, so that a restart need not repeat the whole journal: an npz of
arrays with a JSON text and a checksum; nothing is unpickled. It is replaced atomically: after a
failure the one before is still there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..core.errors import InputError, pasted, quantity, shown
from ..core.files import UNREADABLE, atomic_write, checksum, lock, read_json, sync
from ..core.geometry import Extent
from ..core.reading import parse_json_text, read_arrays
from ..core.samples import Samples
from ..core.settings import Settings, setting
from ..models.registry import ModelSettings
from .database import JOURNAL, JournalDatabase, set_aside, verify
from .tables import JournalContents, facts_of, load, successor_of

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

log = logging.getLogger(__name__)


def mission_dir_setting() -> Any:
    """The field ``mission_dir`` of the mapper's and the planner's settings; it may be shared."""
    return setting(
        "", "Mission folder: written during a mission and recovered from after a restart. Empty: "
        "none", name="mission_dir",
    )  # fmt: skip


@dataclass(frozen=True)
class JournalSettings(Settings):
    """Where the journal is written, and how often a checkpoint."""

    mission_dir: str = mission_dir_setting()
    checkpoint_period: float = setting(
        30.0, "Shortest time between two checkpoints of the model, from which a restart recovers",
        "s", minimum=0.1, maximum=86400.0,
    )  # fmt: skip


DATABASE, LOCK = "pings.sqlite", "lock"
#: Settings that may change during a mission: they change the map only by rounding.
MAY_DIFFER = ("threads", "device")
#: The planner's file, which may be in the same folder. It counts the pings it was told of.
PLANNER = "mission.json"


def identity(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, by name, that must be equal to recover a mission. The prior is the one in the
    folder, wherever its file was."""
    apart = (*MAY_DIFFER, "prior")
    model = {n: v for n, v in ModelSettings.of(values).values.items() if n not in apart}
    workspace = list(Extent.of(values["workspace"]).bounds)
    return {**model, "seed": values["seed"], "workspace": workspace}


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for JSON: arrays, as ROS passes them, become lists."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else list(value)
        for name, value in values.items()
    }


def lock_folder(path: Path, name: str, user: str) -> IO[bytes]:
    """Make a mission folder if need be, and lock its file ``name`` for one user of this kind.

    Raises:
        InputError: another one uses it, or it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        return lock(path / name)
    except BlockingIOError:
        raise InputError(f"mission_dir: {path} is in use by another {user}") from None
    except OSError as error:
        raise InputError(f"mission_dir: cannot write to {path} ({error.strerror})") from None


def is_journal(path: Path) -> bool:
    """Whether a path is a mission folder or a journal's file of tables."""
    files = path / DATABASE, (path / DATABASE).with_suffix(JOURNAL)
    return path.suffix == Path(DATABASE).suffix or any(file.is_file() for file in files)


def folder_after(path: Path, resets: int, name: str) -> Path:
    """The folder that continues a mission after a reset.

    Args:
        path: the mission folder.
        resets: number of the reset, from 1.
        name: the folder's name in the journal.

    Raises:
        InputError: the name is not the expected one, or the folder is a symbolic link.
    """
    expected = f"reset-{resets:03d}"
    if name != expected or (path / expected).is_symlink():
        raise InputError(f"{path}: expected it to continue in {expected}, got {shown(str(name))}")
    return path / expected


#: Version of a checkpoint's layout; others are not read.
LAYOUT = 3
CHECKPOINT = "checkpoint.npz"
_FACTS = "facts.json"


@dataclass(frozen=True)
class Checkpoint:
    """A model's state after ``steps`` steps of the journal, with ``pings`` pings in it.

    ``offset``, ``deviation``, ``trust``: see ``MapperState``. Others: see ``pack``.
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
        from ..models.interface import unpack
        from ..models.mapper import MapperState

        try:
            model = unpack(self.arrays, self.values)
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
    packed, values = pack(state.model)
    facts: dict[str, Any] = {
        "schema": LAYOUT, "steps": steps, "pings": len(state.samples), "offset": state.offset,
        "deviation": state.deviation, "trust": state.trust, "values": values,
    }  # fmt: skip
    facts["checksum"] = _checksum(facts, packed)
    arrays: dict[str, Any] = {_FACTS: np.array(json.dumps(facts)), **packed}
    with atomic_write(folder / CHECKPOINT) as file:
        np.savez(file, **arrays)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The folder's checkpoint; None where there is none.

    Raises:
        InputError: the file is damaged, foreign or of another version.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        facts = parse_json_text(str(arrays.pop(_FACTS)))
        if (layout := facts.get("schema")) != LAYOUT:
            raise ValueError(f"layout {layout} of another version, not {LAYOUT}")
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


class MissionFolder:
    """Opens or creates the journal in a mission folder; after resets that in the newest reset-N.

    Args:
        path: the mission folder.
        settings: see ``identity``; settings that an existing journal lacks are not compared.
        given: all settings of the mapper, for readers of the journal.
        salvage: use what is intact if pings are lost; otherwise that is an error.

    Attributes:
        path: the mission folder.
        current: the folder that the mission is in now.
        journal: the one in ``current``.
        resets: number of resets.
        damage: what was damaged, as text.
        most: pings in the mission's largest journal when it was opened.

    Raises:
        InputError: another mapper uses the folder; it cannot be written; it holds something else,
            a mission with other settings, or a mission with lost pings.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        salvage: bool = False,
    ) -> None:
        self.path, self._settings, self._salvage = path, dict(settings), salvage
        self._given = dict(given or {})
        self._lock = lock_folder(path, LOCK, "mapper")
        self.resets, self.damage = 0, list[str]()
        try:
            begun = is_journal(path)
            self._open(path)
            self.most = len(self.journal.contents.samples)
            while (name := self.journal.successor) is not None:
                after = folder_after(path, self.resets + 1, name)
                if salvage and not is_journal(after):
                    break  # the mapper will create it
                self.journal.close()
                self.resets += 1
                self._open(after)
                self.most = max(self.most, len(self.journal.contents.samples))
            if begun and not salvage:
                self._compare_planner()
        except BaseException:
            self.close()
            raise

    def reset(self, stamp_ns: int) -> None:
        """Continue in a new folder.

        Raises:
            InputError, sqlite3.Error, OSError: it cannot be created. The call can be repeated.
        """
        name = f"reset-{self.resets + 1:03d}"
        if self.journal.successor is None:
            self.journal.end(stamp_ns, name)
        before = self.journal
        self._open(folder_after(self.path, self.resets + 1, name))
        self.resets += 1
        before.close()

    def truncate_steps(self, steps: int) -> None:
        """Drop the checkpoint and all steps of the journal after the first ``steps``."""
        (self.current / CHECKPOINT).unlink(missing_ok=True)
        self.journal.truncate_steps(steps)

    def close(self) -> None:
        """Release the folder."""
        if "journal" in self.__dict__:
            self.journal.close()
        self._lock.close()

    def _open(self, folder: Path) -> None:
        try:
            folder.mkdir(exist_ok=True)
            sync(folder.parent)
        except OSError as error:
            raise InputError(f"mission_dir: cannot write to {folder} ({error.strerror})") from None
        facts = {
            "version": __version__, "process": os.getpid(), "settings": self._settings,
            "mapper": self._given,
        }  # fmt: skip
        journal = JournalDatabase(folder / DATABASE, facts, self._salvage)
        recorded = journal.facts.get("settings", {})
        other = [
            f"{name} {recorded[name]!r}, not {value!r}"
            for name, value in self._settings.items()
            if name in recorded and recorded[name] != value
        ]
        if other:
            holds = f"mission_dir: {folder} holds a mission with {'; '.join(other)}"
            raise InputError(f"{holds}: expected the same settings, or another folder")
        self._compare_checkpoint(folder, len(journal.contents.steps))
        self.journal, self.current = journal.begin(), folder
        self.damage += journal.damage

    def _compare_checkpoint(self, folder: Path, steps: int) -> None:
        """A checkpoint is written after its steps, so the journal must have at least as many."""
        checkpoint = None
        with suppress(InputError):
            checkpoint = read_checkpoint(folder)
        had = 0 if checkpoint is None else checkpoint.steps
        if had > steps:
            if not self._salvage:
                raise self._lost(
                    folder, f"{CHECKPOINT} was written after {quantity(had, 'step')}", steps
                )
            place, had_steps = set_aside(folder, [folder / CHECKPOINT]), quantity(had, "step")
            (folder / CHECKPOINT).unlink()
            self.damage.append(f"{CHECKPOINT} had {had_steps}, the journal has {steps}: {place}")

    def _compare_planner(self) -> None:
        """Pings are published after they are stored, so the planner cannot know of more."""
        path = self.path / PLANNER
        try:
            samples = (read_json(path, "a mission") or {}).get("samples", 0)
        except InputError:
            return  # the planner reports that
        if isinstance(samples, int) and samples > self.most:
            raise self._lost(self.path, f"{PLANNER} counts {quantity(samples, 'ping')}", self.most)

    def _lost(self, folder: Path, expected: str, got: int) -> InputError:
        return InputError(
            f"{folder}: pings are lost: {expected}, the journal has {got}; to continue with what "
            f"is left: {pasted('repair', self.path)}"
        )


NEEDED = "method", "workspace"  # settings that every mission has


@dataclass(frozen=True)
class RecordedMission:
    """A mission read from its journal.

    Attributes:
        path: the file of tables.
        settings: of the model, with ``seed`` and ``workspace``: see ``identity``.
        mapper: all settings of the mapper when the journal was created.
        logged: pings and steps.
        successor: the folder that continues the mission after a reset; None: no reset.
        previous: the newest journal with pings before the last reset; None: no such journal.
    """

    path: Path
    settings: Mapping[str, Any]
    mapper: Mapping[str, Any]
    logged: JournalContents
    successor: str | None
    previous: Path | None = None


def read_mission(path: Path) -> RecordedMission:
    """Read the newest journal in a mission folder, or the one given by its file.

    A mapper that was killed during a reset has named the next folder, but created no journal there:
    that is a mission without pings, as the next mapper will see it.

    Raises:
        InputError: there is no journal, or it is damaged or foreign.
    """
    mission, resets = _read(path / DATABASE if path.is_dir() else path), 0
    while path.is_dir() and mission.successor is not None:
        resets += 1
        after = folder_after(path, resets, mission.successor) / DATABASE
        before = mission.path if len(mission.logged.samples) else mission.previous
        if verify(after) is None:
            nothing = JournalContents(Samples.empty(), ())
            mission = replace(mission, path=after, logged=nothing, successor=None, previous=before)
        else:
            mission = replace(_read(after), previous=before)
    return mission


def _read(path: Path) -> RecordedMission:
    if not is_journal(path.parent) and not path.is_file():
        raise InputError(f"{path}: expected a mission's journal, there is none")
    found = verify(path)
    if found is None:
        raise InputError(f"{path}: expected a mission's journal, got an empty file")
    with closing(found.db) as db:
        for text in found.damage:
            log.warning("%s: %s", path.parent, text)
        facts, after, logged = facts_of(db, path), successor_of(db), load(db, path)
    settings, mapper = (dict(facts.get(name, {})) for name in ("settings", "mapper"))
    if missing := [name for name in NEEDED if name not in settings]:
        raise InputError(f"{path}: expected the settings of a mission, got no {missing[0]}")
    return RecordedMission(path, settings, mapper, logged, after)
