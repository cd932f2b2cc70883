"""A mission's log as somebody reads it afterwards: nothing of it is changed, or kept open."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.renames import renamed
from ..core.samples import Samples
from .contents import JournalContents
from .folder import LOG, folder_after, is_log
from .tables import facts_of, load, successor_of
from .verify import find

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordedMission:
    """What a mission's log says.

    Attributes:
        path: of the file.
        settings: of the model, with ``seed`` and ``workspace``: see ``mission_folder.identity``.
        mapper: all settings that the mapper was given when the log began; empty in older logs.
        logged: pings and steps.
        successor: the folder that the mission went on in after a reset, if there was one.
        before: the newest log with pings before this one's reset; None where there is none.
    """

    path: Path
    settings: Mapping[str, Any]
    mapper: Mapping[str, Any]
    logged: JournalContents
    successor: str | None
    before: Path | None = None


def read_mission(path: Path) -> RecordedMission:
    """The log of a mission's folder, after resets the newest; or the one of a file.

    A mapper that died in the middle of a reset has named the folder to go on in, and begun no log
    there: that is a mission without pings, as it is for the mapper that goes on with it.

    Raises:
        InputError: there is none, or it is damaged or foreign.
    """
    past, resets = _read(path / LOG if path.is_dir() else path), 0
    while path.is_dir() and past.successor is not None:
        resets += 1
        after = folder_after(path, resets, past.successor) / LOG
        before = past.path if len(past.logged.samples) else past.before
        if find(after) is None:
            nothing = JournalContents(Samples.empty(), ())
            past = replace(past, path=after, logged=nothing, successor=None, before=before)
        else:
            past = replace(_read(after), before=before)
    return past


def _read(path: Path) -> RecordedMission:
    if not is_log(path.parent) and not path.is_file():
        raise InputError(f"{path}: expected a mission's log, there is none")
    found = find(path)
    if found is None:
        raise InputError(f"{path}: expected a mission's log, got an empty file")
    with closing(found.db) as db:
        for note in found.notes:
            log.warning("%s: %s", path.parent, note)
        facts, after, logged = facts_of(db), successor_of(db), load(db, path)
    settings, mapper = (renamed(facts.get(name, {})) for name in ("settings", "mapper"))
    mapper.pop("model", None)  # a file's path: what it said is among the settings
    return RecordedMission(path, settings, mapper, logged, after)
