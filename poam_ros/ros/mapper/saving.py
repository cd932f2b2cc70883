"""The mapper's service `~/save_map`: writes the present map into files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.clock import Moment
from ...core.errors import InputError, quantity
from ...learning.session import SurveySession
from ...outputs.folder import save
from ...outputs.run import read_settings


def save_map(session: SurveySession, values: Mapping[str, Any], now: Moment) -> str:
    """Write the map of a session; returns what was written, and where.

    Only parameters determine the folder: a request has no fields. Meanwhile messages wait: about a
    second for 100,000 pings.

    Raises:
        InputError: there is no map, or no folder for it.
        OSError: it cannot be written.
    """
    folder = values["output"] or str(session.journal.folder or "")
    if not folder:
        raise InputError("set the parameter output or mission_dir")
    drawn, samples = session.map, session.mapper.data
    if drawn is None or len(samples) < drawn.samples:  # fewer during a reset
        raise InputError("there is no map yet")
    level = session.front_end.level(now)
    level = values["water.level"] if level is None else level
    config: dict[str, Any] = {"nodes": {"mapper": {**values, "water.level": level}}}
    where = Path(folder).expanduser()
    # What was simulated stays so after a restart.
    if values["simulated"] or read_settings(where).get("simulated"):
        config["simulated"] = True
    place, names = save(where, drawn, samples, config)
    return f"saved the map of {quantity(drawn.samples, 'ping')} in {place}: {', '.join(names)}"
