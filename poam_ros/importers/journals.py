"""A mission's own log as soundings: as it has them, or as a recording of the same mission has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, pasted
from ..core.samples import Samples
from ..journal.folder import RecordedMission, read_mission
from ..journal.tables import DROP, UPDATE, withdrawn_after
from ..mapping.soundings import LeftOut, Soundings
from ..outputs.run import read_settings
from .options import ReadOptions

#: The reason of a recording's pings that are not in its mission's map.
NOT_IN_MISSION = "not_in_the_mission"


def read_journal(path: Path, options: ReadOptions) -> Soundings:
    """A mission's folder, or its log's file; by another sound speed or water level if the options'
    settings have one. Raises as ``soundings_of_mission``, and where the log cannot be read."""
    given = options.settings
    speed, level = given.get("water.sound_speed"), given.get("water.level")
    found = soundings_of_mission(read_mission(path), speed, level)
    return found.between(options.start, options.stop)


def soundings_of_mission(
    past: RecordedMission, sound_speed: float | None = None, water_level: float | None = None
) -> Soundings:
    """The accepted pings of a mission; by another sound speed (m/s) or water level (m) if given.

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
    return _soundings(past, pings, LeftOut.of(refused))


def placed_as_recorded(
    past: RecordedMission, recorded: Soundings, later_ns: int = 0
) -> tuple[Soundings, str]:
    """The pings that the mission accepted, placed as in a recording of it; those that the recording
    has not are as the log has them. And how the two go together, as text.

    Args:
        past: of the mission.
        recorded: all pings that were placed of its recording.
        later_ns: how much later the recording's times of measurement are now than they were.

    Raises:
        InputError: they have no ping in common.
    """
    pings, taken = past.logged.samples, recorded.pings
    assert taken is not None
    there = {key: i for i, key in enumerate(_keys(taken.stamp_ns - later_ns))}
    found = np.array([there.get(key, -1) for key in _keys(pings.stamp_ns)], dtype=np.int64)
    shared = np.flatnonzero(found >= 0)
    if not len(shared):
        raise InputError(
            f"{past.path}: expected the journal of the recorded mission; none of the recording's "
            f"{len(taken)} pings are among its {len(pings)}"
        )
    index = np.where(found < 0, np.arange(len(pings)), len(pings) + found)
    placed = Samples.joined([pings, taken])[index]
    beyond = recorded.left(~np.isin(np.arange(len(taken)), found), NOT_IN_MISSION)
    beyond = beyond._replace(row=np.full(len(beyond.row), -1))  # rows are those of the log
    more = len(taken) - len(shared)
    return replace(
        _soundings(past, placed, ()), source={**recorded.source, **_source(past)},
        refused=+(recorded.refused + Counter({NOT_IN_MISSION: more})),
        left_out=(*recorded.left_out, beyond),
    ), (
        f"{len(shared)} of these pings are also in the recording, at most "
        f"{np.abs(placed.xyz - pings.xyz)[shared].max():.3g} m apart; {len(pings) - len(shared)} "
        f"are only in the journal, {more} only in the recording"
    )  # fmt: skip


def _soundings(past: RecordedMission, pings: Samples, left_out: tuple[LeftOut, ...]) -> Soundings:
    """With the mission's batches, and what its model did with them."""
    steps = past.logged.steps
    batch = np.full(len(pings), len(steps))  # those that were still waiting come last
    multiple = np.ones(len(pings), dtype=np.int64)
    for number, step in enumerate(steps):
        if step.kind in (UPDATE, DROP):
            batch[step.first : step.last + 1] = number
    withdrawn = withdrawn_after(steps)
    multiple[list(withdrawn)] = list(withdrawn.values())
    source = _source(past)
    return Soundings.of(
        pings, source=source, batch=batch, steps=steps, multiple=multiple, left_out=left_out,
    )  # fmt: skip


def _source(past: RecordedMission) -> dict[str, Any]:
    """The mission, and where on Earth its metres begin, if its mapper knew."""
    place = {name: past.mapper.get(name) for name in ("origin", "heading")}
    known = place if any(place["origin"] or ()) else {}
    simulated = {"simulated": True} if read_settings(past.path.parent).get("simulated") else {}
    return {"mission": str(past.path.resolve()), **simulated, **known}


def _keys(stamp_ns: np.ndarray) -> Iterable[tuple[int, int]]:
    """Each stamp, and how often it came before."""
    before: Counter[int] = Counter()
    for stamp in stamp_ns.tolist():
        yield stamp, before[stamp]
        before[stamp] += 1
