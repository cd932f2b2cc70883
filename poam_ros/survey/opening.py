"""A session from flat settings, as a node's parameters and a command's options give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..geometry import Extent, map_grid
from ..gp.models import MODELS, ModelSettings
from ..settings import instance
from .batching import TimedBatches
from .gate import GateSettings
from .session import Session


def gate_settings(values: Mapping[str, Any]) -> GateSettings:
    """How pings are placed; ``values`` by the settings' names."""
    return instance(GateSettings, values, workspace=Extent.of(values["workspace"]))


def open_session(values: Mapping[str, Any]) -> Session:
    """A session with its model and the grid of its maps, which waits for the first event.

    Raises:
        InputError: a value is wrong.
    """
    # Here, because it loads torch: whoever opens a session may have something to do before.
    from ..mapping import BathymetricMapper

    workspace, row = Extent.of(values["workspace"]), MODELS[values["method"]]
    settings = instance(ModelSettings, values, options=instance(row.options, values))
    return Session(
        BathymetricMapper(workspace, settings, values["seed"]),
        gate_settings(values),
        instance(TimedBatches, values),
        map_grid(workspace, values["resolution"]),
        values["pilot_samples"],
    )
