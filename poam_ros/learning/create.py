"""A session from settings by name, as a node's parameters give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.geometry import Extent, map_grid
from ..core.settings import instance
from ..frontend.batching import TimedBatches, TrainingSettings
from ..frontend.events import SettingsChanged
from ..frontend.settings import GateSettings
from ..journal.folder import JournalSettings, MissionFolder, identity, plain
from ..journal.writer import JournalWriter
from ..models.registry import ModelSettings
from ..screening.screen import ScreeningSettings
from .recovery import Recovery
from .session import SurveySession


def gate_settings(values: Mapping[str, Any]) -> GateSettings:
    """How pings are placed; ``values`` by the settings' names."""
    return instance(GateSettings, values, workspace=Extent.of(values["workspace"]))


def settings_changed(values: Mapping[str, Any]) -> SettingsChanged:
    """The event of new values of what may change while a survey runs."""
    batches, training = instance(TimedBatches, values), instance(TrainingSettings, values)
    return SettingsChanged(gate_settings(values), batches, values["pilot_samples"], training)


def create_session(values: Mapping[str, Any]) -> SurveySession:
    """A session with its model.

    Raises:
        InputError: a value is wrong.
    """
    # Here, because it loads torch: whoever opens a session may have something to do before.
    from ..models.mapper import BathymetricMapper

    workspace = Extent.of(values["workspace"])
    return SurveySession(
        BathymetricMapper(workspace, ModelSettings.of(values), values["seed"]),
        gate_settings(values),
        instance(TimedBatches, values),
        map_grid(workspace, values["resolution"]),
        values["pilot_samples"],
        instance(TrainingSettings, values),
        screening=instance(ScreeningSettings, values),
    )


def open_mission(values: Mapping[str, Any]) -> tuple[SurveySession, Callable[[], object]]:
    """A session of settings by name, kept in ``mission_dir`` and going on from what is kept there.

    Returns:
        The session, and what is to be called when it is over: it leaves the folder.

    Raises:
        InputError: a setting is wrong, or the folder cannot be used.
    """
    journal = instance(JournalSettings, values)
    if not journal.mission_dir:
        return create_session(values), lambda: None
    folder = MissionFolder(Path(journal.mission_dir).expanduser(), identity(values), plain(values))
    try:
        session = create_session(values)
    except BaseException:
        folder.close()
        raise
    logged = folder.log.logged
    writer = JournalWriter(folder, len(logged.steps), journal.checkpoint_period)
    recovery_message = folder.current, logged, writer.truncate, folder.resets > 0, folder.notes
    session.recover(writer, Recovery(*recovery_message))
    return session, writer.close


def recovery_message(session: SurveySession) -> str:
    """What a session that was just opened goes on with, in words; empty where it begins."""
    # Accepted, or still to be judged: in the pilot survey a screen has accepted none.
    folder, pings = session.journal.folder, session.samples + session.undecided
    if pings:
        return f"going on after {pings} pings kept in {folder}"
    if session.pilot.after_reset:
        return f"going on after a reset: no pings so far in {folder}"
    return ""
