"""A mission's own log as soundings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, pasted, quantity
from ..journal.folder import RecordedMission, read_mission
from ..journal.tables import DROP, UPDATE, withdrawn_after
from ..mapping.soundings import LeftOut, Soundings
from ..outputs.run import read_settings
from .options import ReadOptions


def read_journal(path: Path, options: ReadOptions) -> Soundings:
    """A mission's folder, or its log's file; by another sound speed or water level if the options'
    settings have one. Raises as ``soundings_of_mission``, and where the log cannot be read."""
    given = options.settings
    speed, level = given.get("water.sound_speed"), given.get("water.level")
    found = soundings_of_mission(given.get("mission") or read_mission(path), speed, level)
    return found.between(options.start, options.stop)


def soundings_of_mission(
    past: RecordedMission, sound_speed: float | None = None, water_level: float | None = None
) -> Soundings:
    """The accepted pings of a mission, by another sound speed (m/s) or water level (m) if given;
    with its batches, and what its model did with them.

    Raises:
        InputError: there are none, or nobody knows what they were made of.
    """
    pings = past.logged.samples
    if not len(pings):
        before = past.previous and f" since the reset; those before: {pasted('map', past.previous)}"
        raise InputError(f"{past.path}: expected pings, got none{before or ''}")
    refused = past.logged.refused
    if sound_speed is not None or water_level is not None:
        unknown = int((~(np.isfinite(pings.range) & np.isfinite(pings.applied).all(1))).sum())
        if unknown:
            raise InputError(
                f"{past.path}: cannot be corrected: ranges or corrections of {unknown} of "
                f"{len(pings)} pings are unknown"
            )
        pings = pings.corrected(sound_speed, water_level)
        places = refused.xyz * (1, 1, np.nan)  # nobody can correct their elevations
        refused = replace(refused, xyz=places)
    steps = past.logged.steps
    batch = np.full(len(pings), len(steps))  # those that were still waiting come last
    multiple = np.ones(len(pings), dtype=np.int64)
    for number, step in enumerate(steps):
        if step.kind in (UPDATE, DROP):
            batch[step.first : step.last + 1] = number
    withdrawn = withdrawn_after(steps)
    multiple[list(withdrawn)] = list(withdrawn.values())
    return Soundings.of(
        pings, source=_source(past), batch=batch, steps=steps, multiple=multiple,
        left_out=LeftOut.of(refused),
    )  # fmt: skip


def _source(past: RecordedMission) -> dict[str, Any]:
    """The mission, and where on Earth its metres begin, if its mapper knew."""
    place = {name: past.mapper.get(name) for name in ("origin", "heading")}
    known = place if any(place["origin"] or ()) else {}
    simulated = {"simulated": True} if read_settings(past.path.parent).get("simulated") else {}
    pings, steps = len(past.logged.samples), len(past.logged.steps)
    said = f"{quantity(pings, 'accepted ping')}, {quantity(steps, 'step')} of the model"
    return {"mission": str(past.path.resolve()), "understood": said, **simulated, **known}
