"""What happens to a survey (events), and what comes of it. Frozen values; no ROS, no clock.

``VehicleState``, ``RawPing``, ``Mount`` (a sonar's mounting became known) and ``WaterLevel`` are
events as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..core.maps import ElevationMap, UpdateReport
from ..core.samples import Samples
from .batching import NO_EFFORT, BatchPolicy, Effort
from .odometry import VehicleState
from .placing import Mount
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
class MissionState:
    """The mission's state was announced."""

    name: str


@dataclass(frozen=True)
class StatesAwaited:
    """Whether there is anybody who announces the mission's states."""

    awaited: bool


@dataclass(frozen=True)
class Arrived:
    """The vehicle is at a waypoint."""


@dataclass(frozen=True)
class OdometryRefused:
    """Odometry came that could not be brought into the map's frame."""

    reason: str


@dataclass(frozen=True)
class TimeSetBack:
    """The clock that stamps follow has jumped back."""


@dataclass(frozen=True)
class SettingsChanged:
    """From now on pings are placed, batches closed, pilot surveys ended and models trained so."""

    gate: GateSettings
    policy: BatchPolicy
    pilot_samples: int
    effort: Effort = NO_EFFORT


@dataclass(frozen=True)
class Reset:
    """Model and data are to be forgotten."""


Event = (
    VehicleState
    | RawPing
    | Mount
    | WaterLevel
    | Tick
    | MissionState
    | StatesAwaited
    | Arrived
    | OdometryRefused
    | TimeSetBack
    | SettingsChanged
    | Reset
)


class Note(NamedTuple):
    """Something to be said to people: what kind of thing, and in words."""

    reason: str
    text: str


@dataclass(frozen=True)
class Handled:
    """What an event has led to at once: placed pings, what is to be said, and whether the mission
    is done by it, so that what waits is its last batch."""

    samples: Samples = field(default_factory=Samples.empty)
    note: Note | None = None
    done: bool = False


@dataclass(frozen=True)
class Judged:
    """Placed pings were judged: which are accepted by that, which are in doubt altogether, and
    which were refused."""

    accepted: Samples
    held: Samples
    refused: Samples


@dataclass(frozen=True)
class Learned:
    """A batch is in the model. ``targets``: mean (m) and variance (m^2) of all elevations so far,
    which MSLL compares with."""

    report: UpdateReport
    targets: tuple[float, float]


@dataclass(frozen=True)
class Trained:
    """The model has trained on the data that it has."""

    report: UpdateReport


@dataclass(frozen=True)
class Drawn:
    """There is a new map; ``predict_s``: the wall time it took, in s."""

    map: ElevationMap
    learned: Learned | None
    predict_s: float


@dataclass(frozen=True)
class Cleared:
    """Model and data are forgotten: there is no map."""


@dataclass(frozen=True)
class Finished:
    """The mission's last batch is dealt with: its last map, or None, and all samples in it."""

    map: ElevationMap | None
    samples: Samples


@dataclass(frozen=True)
class Trouble:
    """Something went wrong, and the survey goes on. ``fault``: whether it is one, or a wait."""

    note: Note
    fault: bool = True


Outcome = Judged | Learned | Trained | Drawn | Cleared | Finished | Trouble
