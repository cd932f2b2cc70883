"""The states of a mission, and the events that a model loop yields. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples

#: The mission states as published.
WAITING, PILOT, EXPLORING, RETURNING = "waiting", "pilot", "exploring", "returning"
PAUSED, DONE = "paused", "done"
STATES = (WAITING, PILOT, EXPLORING, RETURNING, PAUSED, DONE)
#: The mission is over: what the vehicle drives over is not mapped any more.
OVER = (RETURNING, DONE)
#: What the vehicle does when the mission is done.
HOLD, HOME = "hold", "home"
ON_DONE = (HOLD, HOME)


def mapped_state(state: str, taken_over: str) -> str:
    """The mission state that decides which pings are mapped.

    Args:
        state: of the mission.
        taken_over: its state before somebody else took the vehicle; empty: nobody has.
    """
    return taken_over if state == PAUSED and taken_over in (PILOT, EXPLORING) else state


@dataclass(frozen=True)
class BatchLearned:
    """A batch is in the model. ``targets``: mean (m) and variance (m^2) of all elevations so far,
    the baseline of MSLL."""

    report: UpdateReport
    targets: tuple[float, float]


@dataclass(frozen=True)
class MapDrawn:
    """There is a new map; ``predict_s``: wall time of its prediction, in s."""

    map: ElevationMap
    learned: BatchLearned | None
    predict_s: float


@dataclass(frozen=True)
class ModelReset:
    """Model and data were cleared: there is no map."""


@dataclass(frozen=True)
class MissionFinished:
    """The mission's last batch was processed: the last map, or None, and all samples in it."""

    map: ElevationMap | None
    samples: Samples


@dataclass(frozen=True)
class PositionsShifted:
    """Crossings show that all positions are shifted from earlier ones; ``text`` says how."""

    text: str


@dataclass(frozen=True)
class Problem:
    """Something failed and the survey continues: a text for people, with its reason as key.
    ``error``: False for a mere notice."""

    reason: str
    text: str
    error: bool = True


LoopEvent = BatchLearned | MapDrawn | ModelReset | MissionFinished | PositionsShifted | Problem
