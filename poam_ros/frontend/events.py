"""What happens to a survey (events), and what comes of it. Frozen values; no ROS, no clock.

``VehicleState``, ``RawPing``, ``WaterLevel`` and ``SonarMount`` (where a sonar is mounted) are
events as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples
from .batching import DEFAULT_TRAINING, BatchPolicy, TrainingSettings
from .odometry import VehicleState
from .placing import SonarMount
from .ranges import RawPing
from .settings import GateSettings
from .water import WaterLevel

#: The states, as they are published.
WAITING, PILOT, EXPLORING, PAUSED, DONE = "waiting", "pilot", "exploring", "paused", "done"
STATES = (WAITING, PILOT, EXPLORING, PAUSED, DONE)
#: What a vehicle does when its mission is done.
HOLD, HOME = "hold", "home"
ON_DONE = (HOLD, HOME)
#: Who paused it: a person, a watchdog, which lets it go on by itself, or a guard (the fence, a
#: position that jumped, a vehicle that is not driven by the goals), after which only a person does.
OPERATOR, WATCHDOG, GUARD = "operator", "watchdog", "guard"


@dataclass(frozen=True)
class Tick:
    """Some time has passed: what can be placed by now becomes samples."""


@dataclass(frozen=True)
class MissionStateChanged:
    """The mission's state was announced."""

    name: str


@dataclass(frozen=True)
class MissionStateSourceChanged:
    """Whether there is anybody who announces the mission's states."""

    present: bool


@dataclass(frozen=True)
class WaypointReached:
    """The vehicle is at a waypoint."""


@dataclass(frozen=True)
class OdometryRefused:
    """Odometry came that could not be brought into the map's frame."""

    reason: str


@dataclass(frozen=True)
class ClockSetBack:
    """The clock that stamps follow has jumped back."""


@dataclass(frozen=True)
class SettingsChanged:
    """From now on pings are placed, batches closed, pilot surveys ended and models trained so."""

    gate: GateSettings
    policy: BatchPolicy
    pilot_samples: int
    training: TrainingSettings = DEFAULT_TRAINING


@dataclass(frozen=True)
class ResetRequested:
    """Model and data are to be forgotten."""


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
    """Something to be said to people: what kind of thing, and in words."""

    reason: str
    text: str


@dataclass(frozen=True)
class EventResult:
    """What an event has led to at once: placed pings, what is to be said, and whether the mission
    is done by it, so that what waits is its last batch."""

    samples: Samples = field(default_factory=Samples.empty)
    message: Message | None = None
    done: bool = False


@dataclass(frozen=True)
class PingsScreened:
    """Placed pings were judged: which are accepted by that, which are in doubt altogether, and
    which were refused."""

    accepted: Samples
    held: Samples
    refused: Samples


@dataclass(frozen=True)
class BatchLearned:
    """A batch is in the model. ``targets``: mean (m) and variance (m^2) of all elevations so far,
    which MSLL compares with."""

    report: UpdateReport
    targets: tuple[float, float]


@dataclass(frozen=True)
class ModelTrained:
    """The model has trained on the data that it has."""

    report: UpdateReport


@dataclass(frozen=True)
class MapDrawn:
    """There is a new map; ``predict_s``: the wall time it took, in s."""

    map: ElevationMap
    learned: BatchLearned | None
    predict_s: float


@dataclass(frozen=True)
class ModelReset:
    """Model and data are forgotten: there is no map."""


@dataclass(frozen=True)
class MissionFinished:
    """The mission's last batch is dealt with: its last map, or None, and all samples in it."""

    map: ElevationMap | None
    samples: Samples


@dataclass(frozen=True)
class Problem:
    """Something went wrong, and the survey goes on. ``error``: whether it is one, or a wait."""

    message: Message
    error: bool = True


LoopEvent = (
    PingsScreened | BatchLearned | ModelTrained | MapDrawn | ModelReset | MissionFinished | Problem
)
