"""A session that is kept in a mission's folder, and goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..settings import instance
from ..survey.mission_folder import MissionFolder, identity, plain
from ..survey.opening import open_session
from ..survey.resuming import Resumption
from ..survey.session import Session
from .keeping_settings import KeepingSettings
from .log_writer import LogWriter


def open_mission(values: Mapping[str, Any]) -> tuple[Session, Callable[[], object]]:
    """A session of flat settings, kept in ``mission_dir`` and going on from what is kept there.

    Returns:
        The session, and what is to be called when it is over: it leaves the folder.

    Raises:
        InputError: a setting is wrong, or the folder cannot be used.
    """
    keeping = instance(KeepingSettings, values)
    if not keeping.mission_dir:
        return open_session(values), lambda: None
    folder = MissionFolder(Path(keeping.mission_dir).expanduser(), identity(values), plain(values))
    try:
        logged = folder.log.load()
        session = open_session(values)
    except BaseException:
        folder.close()
        raise
    writer = LogWriter(folder, len(logged.steps), keeping.checkpoint_period)
    session.go_on(writer, Resumption(folder.current, logged, writer.forget, folder.resets > 0))
    return session, writer.close


def taken_up(session: Session) -> str:
    """What a session that was just opened goes on with, in words; empty where it begins."""
    # Accepted, or still to be judged: in the pilot survey a screen has accepted none.
    folder, pings = session.keeping.folder, session.samples + session.acceptance.unsettled
    if pings:
        return f"going on after {pings} pings kept in {folder}"
    if session.pilot.anew:
        return f"going on after a reset: no pings so far in {folder}"
    return ""
