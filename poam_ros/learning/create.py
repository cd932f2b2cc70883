"""Creates survey sessions from settings by name, as a node's parameters have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import quantity
from ..core.geometry import Extent, map_grid
from ..core.settings import instance
from ..frontend.batching import TimedBatches, TrainingSettings
from ..frontend.events import SettingsChanged
from ..frontend.settings import FrontEndSettings
from ..journal.folder import JournalSettings, MissionFolder, identity, plain
from ..journal.writer import JournalWriter
from ..models.registry import ModelSettings
from ..screening.screen import ScreeningSettings
from .recovery import Recovery
from .session import SurveySession


def front_end_settings(values: Mapping[str, Any]) -> FrontEndSettings:
    """The front end's settings; ``values`` by name."""
    return instance(FrontEndSettings, values, workspace=Extent.of(values["workspace"]))


def settings_changed(values: Mapping[str, Any]) -> SettingsChanged:
    """The event of changed settings; ``values`` by name."""
    batches, training = instance(TimedBatches, values), instance(TrainingSettings, values)
    return SettingsChanged(front_end_settings(values), batches, values["pilot_samples"], training)


def create_session(values: Mapping[str, Any]) -> SurveySession:
    """Create a session with its model; nothing is written.

    Raises:
        InputError: a value is wrong.
    """
    # Imported here because it loads torch.
    from ..models.mapper import BathymetricMapper

    workspace = Extent.of(values["workspace"])
    return SurveySession(
        BathymetricMapper(workspace, ModelSettings.of(values), values["seed"]),
        front_end_settings(values),
        instance(TimedBatches, values),
        map_grid(workspace, values["resolution"]),
        values["pilot_samples"],
        instance(TrainingSettings, values),
        screening=instance(ScreeningSettings, values),
    )


def open_mission(values: Mapping[str, Any]) -> tuple[SurveySession, Callable[[], str]]:
    """Create a session that writes a journal in ``mission_dir``, and recovers what is there.

    Returns:
        The session, and a function to call at the end, which closes the journal and returns what
        it lacks, if anything.

    Raises:
        InputError: a setting is wrong, or the folder cannot be used.
    """
    journal = instance(JournalSettings, values)
    if not journal.mission_dir:
        return create_session(values), str
    folder = MissionFolder(Path(journal.mission_dir).expanduser(), identity(values), plain(values))
    try:
        session = create_session(values)
    except BaseException:
        folder.close()
        raise
    logged = folder.journal.contents
    writer = JournalWriter(folder, len(logged.steps), journal.checkpoint_period)
    after_reset = folder.resets > 0
    recovery = Recovery(folder.current, logged, writer.truncate, after_reset, folder.notes)
    session.recover(writer, recovery)
    return session, writer.close


def recovery_message(session: SurveySession) -> str:
    """What a new session recovers, as text; empty: nothing."""
    # Including undecided pings: during the pilot survey screening has accepted none.
    folder, pings = session.journal.folder, session.samples + session.undecided
    if pings:
        return f"recovering {quantity(pings, 'ping')} from {folder}"
    if session.pilot.after_reset:
        return f"recovering after a reset: no pings so far in {folder}"
    return ""
