"""The mission folder: used by one mapper at a time, with one model and its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.errors import InputError, pasted, quantity, shown
from ..core.files import lock, read_json, sync
from ..core.geometry import Extent
from ..core.settings import Settings, setting
from ..models.registry import ModelSettings
from .checkpoint import NAME, steps_at_checkpoint
from .database import JournalDatabase, set_aside
from .verify import JOURNAL


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
#: The planner's file, which may be in the same folder. It counts the pings it was told of.
PLANNER = "mission.json"


def identity(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, by name, that must be equal to recover a mission.

    Threads and device may differ: they change the map only by rounding. The prior is the one in the
    folder, wherever its file was.
    """
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


MAY_DIFFER = ("threads", "device")


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
        self.path, self._settings, self._given = path, dict(settings), dict(given or {})
        self._salvage = salvage
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = lock(path / LOCK)
        except BlockingIOError:
            raise InputError(f"mission_dir: {path} is in use by another mapper") from None
        except OSError as error:
            raise InputError(f"mission_dir: cannot write to {path} ({error.strerror})") from None
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
        (self.current / NAME).unlink(missing_ok=True)
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
            raise InputError(
                f"mission_dir: {folder} holds a mission with {'; '.join(other)}: expected the same "
                f"settings, or another folder"
            )
        self._compare_checkpoint(folder, len(journal.contents.steps))
        self.journal, self.current = journal.begin(), folder
        self.damage += journal.damage

    def _compare_checkpoint(self, folder: Path, steps: int) -> None:
        """A checkpoint is written after its steps, so the journal must have at least as many."""
        if (had := steps_at_checkpoint(folder)) > steps:
            if not self._salvage:
                raise self._lost(folder, f"{NAME} was written after {quantity(had, 'step')}", steps)
            place = set_aside(folder, [folder / NAME])
            (folder / NAME).unlink()
            self.damage.append(
                f"{NAME} had {quantity(had, 'step')}, the journal has {steps}: {place}"
            )

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
