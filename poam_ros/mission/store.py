"""What a planner keeps of its mission, so that a restart goes on with it: JSON, never half written.

Nothing moves by itself after a restart: a mission that was under way is paused, and a person lets
it go on, unless ``autoresume`` was asked for.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.files import lock, read_json, write_json
from ..core.settings import check, setting
from ..frontend.events import PAUSED
from ..journal.folder import PLANNER, mission_dir_setting
from ..journal.log import set_aside
from .mission import Mission

#: Of the files; others are not read.
SCHEMA = 1
MISSION, TRACK, LOCK = PLANNER, "track.json", "planner.lock"
TRACK_S = 5.0  # between two writings of the track, which is the large part


@dataclass(frozen=True)
class MissionStoreSettings:
    """Where a mission's progress is kept.

    Raises:
        InputError: a value is outside its range.
    """

    mission_dir: str = mission_dir_setting()
    autoresume: bool = setting(
        False, "Go on at once after a restart in mid-mission, without waiting for ~/resume"
    )

    def __post_init__(self) -> None:
        check(self)


class MissionStore:
    """A mission's progress in a folder, which may be the mapper's. Without one nothing is kept.

    Args:
        settings: where, and whether a mission goes on by itself.
        draws: the generator that waypoints are drawn with, which goes on too.

    Attributes:
        failing: why nothing can be kept at present, in words; empty where it can.

    Raises:
        InputError: the folder cannot be written, or another planner has it.
    """

    def __init__(
        self, settings: MissionStoreSettings, draws: np.random.Generator | None = None
    ) -> None:
        self.failing, self._draws = "", draws
        self._autoresume = settings.autoresume
        self._written: str | None = None
        self._track_at, self._track_length = -math.inf, 0.0
        self._holds = False  # the vehicle is still to be told to stay
        self._folder = Path(settings.mission_dir).expanduser() if settings.mission_dir else None
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock(self._folder / LOCK)
        except BlockingIOError:
            raise InputError(f"mission_dir: {self._folder} is in use by another planner") from None
        except OSError as error:
            text = f"mission_dir: cannot write to {self._folder} ({error.strerror})"
            raise InputError(text) from None

    def close(self) -> None:
        """Leave the folder to another."""
        if self._folder is not None:
            self._lock.close()

    def restore(self, mission: Mission) -> str:
        """Bring a mission that has not begun to where it stood; in words what was found, or "".

        Raises:
            InputError: what is kept is unreadable, or another workspace's.
        """
        if self._folder is None:
            return ""
        kept = _read(self._folder / MISSION)
        if kept is None:
            return ""
        try:
            if kept["schema"] != SCHEMA:
                raise ValueError(f"layout {kept['schema']} of another version, not {SCHEMA}")
            mission.restore(kept, self._autoresume)
            if self._draws is not None and kept.get("draws"):
                self._draws.bit_generator.state = kept["draws"]
            track = _read(self._folder / TRACK)
            if track is not None:
                mission.track.restore(track["newest"], track["visited"], track["length"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{self._folder}: expected a mission of this package ({error})"
            ) from None
        self._holds = mission.state == PAUSED
        return f"going on with a mission: {mission.state} ({mission.reason})"

    def save(self, mission: Mission, steady_s: float) -> None:
        """Write what has changed: state and goals at once, the track every few seconds."""
        if self._holds and mission.position is not None:
            self._holds = False
            if mission.state == PAUSED:  # whatever it was told before it was restarted
                mission.hold_station()
        if self._folder is None:
            return
        kept = {"schema": SCHEMA, **mission.to_dict()}
        if self._draws is not None:
            kept["draws"] = self._draws.bit_generator.state
        text = json.dumps(kept)
        try:
            if text != self._written:
                write_json(self._folder / MISSION, kept)
                self._written = text
            moved = mission.track.length != self._track_length
            if moved and steady_s - self._track_at >= TRACK_S:
                self._track_at, self._track_length = steady_s, mission.track.length
                write_json(self._folder / TRACK, mission.track.to_dict())
            self.failing = ""
        except OSError as error:
            self.failing = f"mission_dir: cannot write to {self._folder} ({error.strerror})"


def repair(folder: Path, pings: int) -> list[str]:
    """Set aside what is damaged of a planner's files, and have it count so many pings at most; in
    words what was done.

    Raises:
        InputError: another planner has the folder, or it cannot be written.
    """
    memory, done = MissionStore(MissionStoreSettings(str(folder))), []
    try:
        for path in (folder / MISSION, folder / TRACK):
            try:
                kept = read_json(path, "a mission of this package")
            except InputError as error:
                done.append(f"{error}: set aside as {set_aside(folder, [path])}")
                path.unlink()
                continue
            if kept is not None and kept.get("samples", 0) > pings:
                done.append(f"{path.name} counted {kept['samples']} pings: {pings} from now on")
                write_json(path, {**kept, "samples": pings, "first": min(kept["first"], pings)})
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        memory.close()
    return done


def _read(path: Path) -> dict[str, Any] | None:
    """The values of a file; None where there is none."""
    try:
        found = read_json(path, "a mission of this package")
    except InputError as error:
        raise InputError(f"{error}; to begin without it: poam repair {path.parent}") from None
    return found
