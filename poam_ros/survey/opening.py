"""A session from flat settings, as a node's parameters give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..geometry import Extent, map_grid
from ..gp.models import ModelSettings
from ..settings import instance
from .batching import TimedBatches
from .effort import Effort
from .events import SettingsChanged
from .gate_settings import GateSettings
from .screening import ScreeningSettings
from .session import Session


def gate_settings(values: Mapping[str, Any]) -> GateSettings:
    """How pings are placed; ``values`` by the settings' names."""
    return instance(GateSettings, values, workspace=Extent.of(values["workspace"]))


def settings_changed(values: Mapping[str, Any]) -> SettingsChanged:
    """The event of new values of what may change while a survey runs."""
    batches, effort = instance(TimedBatches, values), instance(Effort, values)
    return SettingsChanged(gate_settings(values), batches, values["pilot_samples"], effort)


def open_session(values: Mapping[str, Any]) -> Session:
    """A session with its model.

    Raises:
        InputError: a value is wrong.
    """
    # Here, because it loads torch: whoever opens a session may have something to do before.
    from ..mapping import BathymetricMapper

    workspace = Extent.of(values["workspace"])
    return Session(
        BathymetricMapper(workspace, ModelSettings.of(values), values["seed"]),
        gate_settings(values),
        instance(TimedBatches, values),
        map_grid(workspace, values["resolution"]),
        values["pilot_samples"],
        instance(Effort, values),
        screening=instance(ScreeningSettings, values),
    )
