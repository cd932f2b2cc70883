"""Creates survey sessions from settings by name, as a node's parameters have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InputError, quantity
from ..core.geodesy import GeoReference
from ..core.geometry import Extent, map_grid
from ..core.samples import LiveBatches
from ..core.settings import instance
from ..frontend.pings import FrontEndSettings
from ..journal.folder import JournalSettings, MissionFolder, identity, plain
from ..journal.writer import JournalWriter
from ..models.prior import FILE as PRIOR_FILE
from ..models.prior import PriorMap, read_prior
from ..models.registry import ModelSettings
from ..screening import ScreeningSettings
from .recovery import Recovery
from .session import SurveySession


def front_end_settings(values: Mapping[str, Any]) -> FrontEndSettings:
    """The front end's settings; ``values`` by name."""
    return instance(FrontEndSettings, values, workspace=Extent.of(values["workspace"]))


def change_settings(session: SurveySession, values: Mapping[str, Any]) -> None:
    """Apply new settings; ``values`` by name."""
    session.front_end.change(front_end_settings(values), values["pilot_samples"])
    session.sample_queue.policy = instance(LiveBatches, values)


def create_session(values: Mapping[str, Any], prior: PriorMap | None = None) -> SurveySession:
    """Create a session with its model; nothing is written.

    Args:
        values: settings by name.
        prior: map from before the survey, if any.

    Raises:
        InputError: a value is wrong.
    """
    # Imported here because it loads torch.
    from ..models.mapper import BathymetricMapper

    workspace = Extent.of(values["workspace"])
    return SurveySession(
        BathymetricMapper(workspace, ModelSettings.of(values), values["seed"], prior=prior),
        front_end_settings(values),
        instance(LiveBatches, values),
        map_grid(workspace, values["resolution"]),
        values["pilot_samples"],
        screening=instance(ScreeningSettings, values),
    )


def _prior(values: Mapping[str, Any], folder: MissionFolder | None = None) -> PriorMap | None:
    """The prior of these settings, on the Earth where they say the map lies; None: none. Of a
    mission, the one that it began with, which is in its folder from then on."""
    if folder is not None and (found := PriorMap.of_folder(folder.path)) is not None:
        return found
    name = ModelSettings.of(values).prior
    if folder is not None and name and folder.journal.contents.steps:
        raise InputError(
            f"prior: expected the one that the mission began with, got no {PRIOR_FILE} in "
            f"{folder.path}"
        )
    place = GeoReference.given(values.get("origin"), values.get("heading"))
    found = read_prior(name, Extent.of(values["workspace"]), place)
    if folder is not None and found is not None:
        try:
            found.write(folder.path)
        except OSError as error:
            text = f"mission_dir: cannot write to {folder.path} ({error.strerror})"
            raise InputError(text) from None
    return found


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
        return create_session(values, _prior(values)), str
    folder = MissionFolder(Path(journal.mission_dir).expanduser(), identity(values), plain(values))
    try:
        session = create_session(values, _prior(values, folder))
    except BaseException:
        folder.close()
        raise
    logged = folder.journal.contents
    writer = JournalWriter(folder, len(logged.steps), journal.checkpoint_period)
    after_reset = folder.resets > 0
    recovery = Recovery(folder.current, logged, writer.truncate, after_reset, folder.damage)
    session.recover(writer, recovery)
    return session, writer.close


def recovery_message(session: SurveySession) -> str:
    """What a new session recovers, as text; empty: nothing."""
    folder, pings = session.journal.folder, session.stored
    if pings:
        return f"recovering {quantity(pings, 'ping')} from {folder}"
    if session.pilot.after_reset:
        return f"recovering after a reset: no pings so far in {folder}"
    return ""
