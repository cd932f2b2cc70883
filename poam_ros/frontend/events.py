"""Events that a survey session takes, and events that its model loop yields. Frozen values.

``VehicleState``, ``RawPing``, ``WaterLevel`` and ``SonarMount`` are events, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples
from .batching import DEFAULT_TRAINING, BatchPolicy, TrainingSettings
from .odometry import VehicleState
from .placing import SonarMount, WaterLevel
from .ranges import RawPing
from .settings import FrontEndSettings

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
class Tick:
    """Time has passed: pings that can be placed become samples."""


@dataclass(frozen=True)
class MissionStateChanged:
    """The mission's state was announced."""

    name: str


@dataclass(frozen=True)
class MissionStateSourceChanged:
    """Whether any node publishes the mission's state."""

    present: bool


@dataclass(frozen=True)
class WaypointReached:
    """The vehicle has reached a waypoint."""


@dataclass(frozen=True)
class OdometryRefused:
    """Odometry could not be transformed into the map's frame."""

    reason: str


@dataclass(frozen=True)
class ClockSetBack:
    """The clock of the stamps has jumped back."""


@dataclass(frozen=True)
class SettingsChanged:
    """New settings for placing pings, batches, the pilot survey and training."""

    front_end: FrontEndSettings
    policy: BatchPolicy
    pilot_samples: int
    training: TrainingSettings = DEFAULT_TRAINING


@dataclass(frozen=True)
class ResetRequested:
    """Model and data shall be cleared."""


Event = (
    VehicleState
    | RawPing
    | SonarMount
    | WaterLevel
    | Tick
    | MissionStateChanged
    | MissionStateSourceChanged
    | WaypointReached
    | OdometryRefused
    | ClockSetBack
    | SettingsChanged
    | ResetRequested
)


class Message(NamedTuple):
    """A text for people, with its reason as key."""

    reason: str
    text: str


@dataclass(frozen=True)
class EventResult:
    """The immediate result of an event.

    Attributes:
        samples: placed pings.
        message: what shall be logged; None: nothing.
        done: whether the event ends the mission, so that all waiting samples are its last batch.
    """

    samples: Samples = field(default_factory=Samples.empty)
    message: Message | None = None
    done: bool = False


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
    """Something failed and the survey continues. ``error``: False for a mere notice."""

    message: Message
    error: bool = True


LoopEvent = BatchLearned | MapDrawn | ModelReset | MissionFinished | PositionsShifted | Problem
