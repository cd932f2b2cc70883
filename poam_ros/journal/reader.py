"""A mission's log as somebody reads it afterwards: nothing of it is changed, or kept open."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.renames import renamed
from ..core.samples import Samples
from .folder import LOG
from .log import facts_of, layout_of, load, read_only, successor_of
from .records import Logged


@dataclass(frozen=True)
class Past:
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
    logged: Logged
    successor: str | None
    before: Path | None = None


def is_log(path: Path) -> bool:
    """Whether this is to be read as a mission: its folder, or its log's file."""
    return path.suffix == Path(LOG).suffix or (path / LOG).is_file()


def read_mission(path: Path) -> Past:
    """The log of a mission's folder, after resets the newest; or the one of a file.

    A mapper that died in the middle of a reset has named the folder to go on in, and begun no log
    there: that is a mission without pings, as it is for the mapper that goes on with it.

    Raises:
        InputError: there is none, or it is damaged or foreign.
    """
    past = _read(path / LOG if path.is_dir() else path)
    while path.is_dir() and past.successor is not None:
        before = past.path if len(past.logged.samples) else past.before
        past = replace(_after(past, path / past.successor / LOG), before=before)
    return past


def _after(past: Past, path: Path) -> Past:
    """The log that a mission went on with after a reset."""
    if not path.exists() or not _layout(path):
        return replace(past, path=path, logged=Logged(Samples.empty(), ()), successor=None)
    return _read(path)


def _read(path: Path) -> Past:
    expected = f"{path}: expected a mission's log"
    if not path.is_file():
        raise InputError(f"{expected}, there is none")
    if not _layout(path):
        raise InputError(f"{expected}, got an empty file")
    try:
        with closing(read_only(path)) as db:
            db.execute("BEGIN")  # one moment of a log that a mapper goes on writing meanwhile
            facts, after, logged = facts_of(db), successor_of(db), load(db, path)
    except (sqlite3.Error, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _unreadable(path, error) from None
    settings, mapper = (renamed(facts.get(name, {})) for name in ("settings", "mapper"))
    return Past(path, settings, mapper, logged, after)


def _layout(path: Path) -> int:
    """As ``layout_of``; raises InputError."""
    try:
        return layout_of(path)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: expected a mission's log that can be read ({error})")
