"""The mission store: the planner's mission as JSON, written atomically, for recovery.

After a restart the vehicle does not move by itself: a mission that was under way is paused until an
operator resumes it, unless ``resume_after_restart`` is set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, pasted
from ..core.files import read_json, write_json
from ..core.settings import Settings, setting
from ..journal.database import set_aside
from ..journal.folder import PLANNER, lock_folder, mission_dir_setting
from .mission import Mission

#: Version of the files; others are not read.
SCHEMA = 1
MISSION, TRACK, LOCK = PLANNER, "track.json", "planner.lock"
TRACK_S = 5.0  # between two writes of the track, the larger file
COUNT_S = 1.0  # between two writes of which only what comes with pings is new
WITH_PINGS = {"samples": 0, "shallow": 0}
RETRY_S = 5.0  # after a failure of the disk


@dataclass(frozen=True)
class MissionStoreSettings(Settings):
    """Where the mission is stored, and whether it resumes by itself."""

    mission_dir: str = mission_dir_setting()
    resume_after_restart: bool = setting(
        False, "Resume at once after a restart during a mission, without waiting for ~/resume",
        name="watchdog.resume_after_restart",
    )  # fmt: skip


class MissionStore:
    """Saves and restores a mission in a folder, which may be the mapper's; without one: nothing.

    Args:
        settings: the folder, and whether a mission resumes by itself.
        draws: random generator of the planner, saved and restored with the mission.
        ahead_s: see ``Moment``; None: the time is simulated or recorded.

    Attributes:
        ahead_s: as given; ``restore`` sets it as it was, unless the machine was started again since
            then: the system clock may have been set.
        failing: why nothing can be written at present, as text; empty: it can.

    Raises:
        InputError: the folder cannot be written, or another planner uses it.
    """

    def __init__(
        self,
        settings: MissionStoreSettings,
        draws: np.random.Generator | None = None,
        ahead_s: float | None = None,
    ) -> None:
        self.failing, self._draws, self.ahead_s = "", draws, ahead_s
        self._resumes = settings.resume_after_restart
        self._written: dict[str, Any] = {}
        self._written_at = -math.inf
        self._track_at, self._track_length = -math.inf, 0.0
        self._retry_at = -math.inf
        self._folder = Path(settings.mission_dir).expanduser() if settings.mission_dir else None
        if self._folder is not None:
            self._lock = lock_folder(self._folder, LOCK, "planner")

    def close(self) -> None:
        """Release the folder."""
        if self._folder is not None:
            self._lock.close()

    def restore(self, mission: Mission) -> str:
        """Restore a new mission; returns what was restored, as text, or "".

        Raises:
            InputError: a file is unreadable, or of another workspace.
        """
        if self._folder is None:
            return ""
        if (values := _read(self._folder / MISSION)) is None:
            return ""
        try:
            if values["schema"] != SCHEMA:
                raise ValueError(f"layout {values['schema']} of another version, not {SCHEMA}")
            mission.restore(values, self._resumes)
            if self._draws is not None and values["draws"]:
                self._draws.bit_generator.state = values["draws"]
            boot, ahead = values.get("clock", ("", 0.0))
            if not math.isfinite(ahead):
                raise ValueError(f"clock {ahead}")
            if boot and boot == _boot() and self.ahead_s is not None:
                self.ahead_s = ahead
            track = _read(self._folder / TRACK)
            if track is not None:
                mission.track.restore(track["newest"], track["visited"], track["length"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            text = f"{self._folder}: expected a mission of this package ({error})"
            raise InputError(text) from None
        return f"recovering a mission: {mission.state} ({mission.reason})"

    def save(self, mission: Mission, steady_s: float) -> None:
        """Write what has changed: state and goals at once, the number of samples and shallow places
        every second, the track every few seconds. A disk that fails is tried every few seconds.
        ``steady_s`` is infinite at the end: all is tried."""
        if self._folder is None or steady_s < self._retry_at:
            return
        values = {"schema": SCHEMA, **mission.to_dict()}
        if self._draws is not None:
            values["draws"] = self._draws.bit_generator.state
        if self.ahead_s is not None:
            values["clock"] = [_boot(), self.ahead_s]
        counted = {**values, **WITH_PINGS} == {**self._written, **WITH_PINGS}
        due = steady_s >= self._written_at + (COUNT_S if counted else 0.0)
        try:
            if values != self._written and due:
                write_json(self._folder / MISSION, values)
                self._written, self._written_at = values, steady_s
            moved = mission.track.length != self._track_length
            if moved and steady_s - self._track_at >= TRACK_S:
                write_json(self._folder / TRACK, mission.track.to_dict())
                self._track_at, self._track_length = steady_s, mission.track.length
            self.failing, self._retry_at = "", -math.inf
        except OSError as error:
            self.failing = f"mission_dir: cannot write to {self._folder} ({error.strerror})"
            self._retry_at = steady_s + RETRY_S


def repair(folder: Path, pings: int) -> list[str]:
    """Set damaged files of a planner aside, and limit its count to ``pings``.

    Returns:
        What was done, as texts.

    Raises:
        InputError: another planner uses the folder, or it cannot be written.
    """
    store, done = MissionStore(MissionStoreSettings(str(folder))), []
    try:
        for path in (folder / MISSION, folder / TRACK):
            try:
                values = read_json(path, "a mission of this package")
            except InputError as error:
                done.append(f"{error}: set aside as {set_aside(folder, [path])}")
                path.unlink()
                continue
            if values is not None and values.get("samples", 0) > pings:
                done.append(f"{path.name} counted {values['samples']} pings: {pings} from now on")
                write_json(path, {**values, "samples": pings, "first": min(values["first"], pings)})
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        store.close()
    return done


@cache
def _boot() -> str:
    """The start of this machine that its steady clock counts from; empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read(path: Path) -> dict[str, Any] | None:
    """The values of a file; None: there is no file."""
    try:
        return read_json(path, "a mission of this package")
    except InputError as error:
        again = pasted("repair", path.parent)
        raise InputError(f"{error}; to start without it: {again}") from None
