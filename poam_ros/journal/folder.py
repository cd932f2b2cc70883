"""The folder of a mission: one mapper's at a time, and of one model with its settings."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.renames import renamed
from ..core.settings import check, setting
from ..models.registry import ModelSettings
from .checkpoint import sync
from .log import MissionLog


def mission_dir_setting() -> Any:
    """The field of the mapper's settings and of the planner's, which may share the folder."""
    return setting(
        "",
        "Folder that the mission is recorded in, from which a restart goes on. Empty: none",
        name="mission_dir",
    )


@dataclass(frozen=True)
class KeepingSettings:
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


class MissionFolder:
    """Opens the folder's log, or begins one. After resets it is in the newest ``reset-...`` folder.

    Args:
        path: of the mission.
        settings: see ``identity``.
        given: all settings that the mapper was given, for those who read the log later.

    Attributes:
        path: as given.
        current: the folder that the mission goes on in now.
        log: of that.
        resets: how many there were.

    Raises:
        InputError: another mapper has it, it cannot be written, it holds something else, or a
            mission with other settings.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> None:
        self.path, self._settings, self._given = path, dict(settings), dict(given or {})
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / LOCK).open("a+")
        except OSError as error:
            raise InputError(f"mission_dir: cannot write to {path} ({error.strerror})") from None
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"mission_dir: {path} is in use by another mapper") from None
            self.resets = 0
            self._open(path)
            while (name := self.log.successor) is not None:
                self.log.close()
                self.resets += 1
                self._open(path / name)
        except BaseException:
            self._lock.close()
            raise

    def reset(self, stamp_ns: int) -> None:
        """Go on in a new folder.

        Raises:
            InputError, sqlite3.Error: it cannot be made; called again it goes on where it failed.
        """
        name = f"reset-{self.resets + 1:03d}"
        if self.log.successor is None:
            self.log.end(stamp_ns, name)
        before = self.log
        self._open(self.path / name)
        self.resets += 1
        before.close()

    def close(self) -> None:
        """Leave it to another."""
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
        log = MissionLog(folder / LOG, facts)
        sync(folder)
        kept = renamed(log.facts.get("settings", {}))
        other = [
            f"{name} {kept[name]!r}, not {value!r}"
            for name, value in self._settings.items()
            if name in kept and kept[name] != value
        ]
        if other:
            log.close()
            raise InputError(
                f"mission_dir: {folder} holds a mission with {'; '.join(other)}: expected the same "
                f"settings, or another folder"
            )
        log.upgrade()
        self.log, self.current = log, folder
