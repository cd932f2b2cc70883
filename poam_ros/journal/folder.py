"""The folder of a mission: one mapper's at a time, and of one model with its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.errors import InputError, shown
from ..core.files import lock, read_json, sync
from ..core.geometry import Extent
from ..core.renames import renamed
from ..core.settings import check, setting
from ..models.registry import ModelSettings
from .checkpoint import NAME, counted
from .log import JournalDatabase, set_aside
from .verify import JOURNAL


def mission_dir_setting() -> Any:
    """The field of the mapper's settings and of the planner's, which may share the folder."""
    return setting(
        "",
        "Folder that the mission is recorded in, from which a restart goes on. Empty: none",
        name="mission_dir",
    )


@dataclass(frozen=True)
class JournalSettings:
    """Where and how a mission is kept.

    Raises:
        InputError: a value is outside its range.
    """

    mission_dir: str = mission_dir_setting()
    checkpoint_period: float = setting(
        30.0,
        "Shortest time between two checkpoints of the model, from which a restart goes on",
        "s",
        minimum=0.1,
        maximum=86400.0,
    )

    def __post_init__(self) -> None:
        check(self)


LOG, LOCK = "pings.sqlite", "lock"
#: The planner's file, which may be in the same folder, and says how many pings it was told of.
PLANNER = "mission.json"


def identity(values: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for a mission to go on, of settings by their names.

    Threads and device may differ: they change the map by rounding alone.
    """
    model = {n: v for n, v in ModelSettings.of(values).values.items() if n not in MAY_DIFFER}
    workspace = list(Extent.of(values["workspace"]).bounds)
    return {**model, "seed": values["seed"], "workspace": workspace}


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them: arrays, as ROS hands them over, as lists."""
    return {
        name: value if isinstance(value, (bool, int, float, str)) else list(value)
        for name, value in values.items()
    }


MAY_DIFFER = ("threads", "device")


def is_log(path: Path) -> bool:
    """Whether this is to be read as a mission: its folder, or its log's file."""
    files = path / LOG, (path / LOG).with_suffix(JOURNAL)
    return path.suffix == Path(LOG).suffix or any(file.is_file() for file in files)


def folder_after(path: Path, resets: int, name: str) -> Path:
    """The folder that a mission goes on in after so many resets, which its log calls so.

    Raises:
        InputError: that is not the name that we would have given it, or it leads elsewhere.
    """
    expected = f"reset-{resets:03d}"
    if name != expected or (path / expected).is_symlink():
        raise InputError(f"{path}: expected it to go on in its {expected}, got {shown(str(name))}")
    return path / expected


class MissionFolder:
    """Opens the folder's log, or begins one. After resets it is in the newest ``reset-...`` folder.

    Args:
        path: of the mission.
        settings: see ``identity``; what a log that is there does not have is not compared.
        given: all settings that the mapper was given, for those who read the log later.
        salvage: go on with what is whole where pings are lost; otherwise that is an error.

    Attributes:
        path: as given.
        current: the folder that the mission goes on in now.
        log: of that.
        resets: how many there were.
        notes: in words what was damaged.
        most: pings of its largest log when it was opened.

    Raises:
        InputError: another mapper has it, it cannot be written, it holds something else, or a
            mission with other settings, or one that pings are lost of.
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
        self.resets, self.notes = 0, list[str]()
        try:
            begun = is_log(path)
            self._open(path)
            self.most = len(self.log.logged.samples)
            while (name := self.log.successor) is not None:
                after = folder_after(path, self.resets + 1, name)
                if salvage and not is_log(after):
                    break  # the mapper will begin it
                self.log.close()
                self.resets += 1
                self._open(after)
                self.most = max(self.most, len(self.log.logged.samples))
            if begun and not salvage:
                self._compare_planner()
        except BaseException:
            self.close()
            raise

    def reset(self, stamp_ns: int) -> None:
        """Go on in a new folder.

        Raises:
            InputError, sqlite3.Error, OSError: it cannot be made; called again it goes on where it
                failed.
        """
        name = f"reset-{self.resets + 1:03d}"
        if self.log.successor is None:
            self.log.end(stamp_ns, name)
        before = self.log
        self._open(folder_after(self.path, self.resets + 1, name))
        self.resets += 1
        before.close()

    def truncate_steps(self, steps: int) -> None:
        """Only so many steps of the log are what happened to its model, and the checkpoint's."""
        (self.current / NAME).unlink(missing_ok=True)
        self.log.truncate_steps(steps)

    def close(self) -> None:
        """Leave it to another."""
        if "log" in self.__dict__:
            self.log.close()
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
        log = JournalDatabase(folder / LOG, facts, self._salvage)
        kept = renamed(log.facts.get("settings", {}))
        other = [
            f"{name} {kept[name]!r}, not {value!r}"
            for name, value in self._settings.items()
            if name in kept and kept[name] != value
        ]
        if other:
            raise InputError(
                f"mission_dir: {folder} holds a mission with {'; '.join(other)}: expected the same "
                f"settings, or another folder"
            )
        self._compare_checkpoint(folder, len(log.logged.steps))
        self.log, self.current = log.begin(), folder
        self.notes += log.notes

    def _compare_checkpoint(self, folder: Path, steps: int) -> None:
        """A checkpoint was written when all before it was in the log."""
        if (had := counted(folder)) > steps:
            if not self._salvage:
                raise self._lost(folder, f"{NAME} was written after {had} updates", steps)
            place = set_aside(folder, [folder / NAME])
            (folder / NAME).unlink()
            self.notes.append(f"{NAME} was of {had} updates, of which {steps} are left: {place}")

    def _compare_planner(self) -> None:
        """A planner was told of no ping that was not in the log."""
        path = self.path / PLANNER
        try:
            told = (read_json(path, "a mission") or {}).get("samples", 0)
        except InputError:
            return  # which the planner will say
        if isinstance(told, int) and told > self.most:
            raise self._lost(self.path, f"{PLANNER} counts {told} pings", self.most)

    def _lost(self, folder: Path, expected: str, got: int) -> InputError:
        return InputError(
            f"{folder}: pings are lost: {expected}, the log has {got}; to go on with what is "
            f"there: poam repair {self.path}"
        )
