"""Reads the journal of a mission; it is not changed, and not left open."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.samples import Samples
from .folder import DATABASE, folder_after, is_journal
from .interface import JournalContents
from .tables import facts_of, load, successor_of
from .verify import verify

log = logging.getLogger(__name__)

NEEDED = "method", "workspace"  # settings that every mission has


@dataclass(frozen=True)
class RecordedMission:
    """A mission read from its journal.

    Attributes:
        path: the file of tables.
        settings: of the model, with ``seed`` and ``workspace``: see ``folder.identity``.
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
