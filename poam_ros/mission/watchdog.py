"""What pauses a mission that nobody looks at: silence, bad positions, the fence, a vehicle that is
not driven by the goals. No rclpy."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..core.errors import shown
from ..core.settings import check, setting
from ..frontend.events import EXPLORING, GUARD, PAUSED, WATCHDOG
from ..planning.areas import NavigableArea
from .mission import Mission

ODOMETRY, SONAR, MAP = "odometry", "sonar", "map"
MAX_ELAPSED_S = 2.0  # that one look may add: what came while this process stood still was not heard
RECOVERY_S = 3.0  # without a fault until the mission goes on
MIN_PROGRESS_M, PROGRESS_S = (
    1.0,
    10.0,
)  # to the goal is progress; less where this takes longer, in s


@dataclass(frozen=True)
class WatchdogSettings:
    """When a mission is paused by itself; times in the slower of wall time and ROS time.

    Raises:
        InputError: a value is outside its range.
    """

    prefix = "watchdog"

    odometry_patience: float = setting(
        5.0, "Pause when odometry is silent for this long. 0: never", "s", 0.0, 1e5, mutable=True
    )
    sonar_patience: float = setting(
        30.0, "Pause when the sonar is silent for this long. 0: never", "s", 0.0, 1e5, mutable=True
    )
    map_patience: float = setting(
        120.0, "Pause exploring when the map is this old. 0: never", "s", 0.0, 1e5, mutable=True
    )
    progress_patience: float = setting(
        60.0,
        "Pause when the vehicle has not come nearer to its goal for this long. 0: never",
        "s",
        minimum=0.0,
        maximum=1e5,
        mutable=True,
    )
    max_position_std: float = setting(
        0.0,
        "Pause when the odometry's standard deviation of the position is larger. 0: never",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    max_jump: float = setting(
        2.0,
        "Ignore a position that is farther than this beyond the reach of three times max_speed, "
        "and pause where that lasts for 1 s. 0: never",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    geofence_margin: float = setting(
        10.0,
        "Pause when the vehicle, once it has been inside, is farther than this outside the "
        "workspace",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    resumes: bool = setting(
        True,
        "Go on when what paused the mission is over; never after the geofence",
        mutable=True,
    )

    def __post_init__(self) -> None:
        check(self)


class Watchdog:
    """Pauses a mission, and lets it go on.

    Silence is counted in looks: each adds the time since the one before, by the clock that ran
    slower, and never more than ``MAX_ELAPSED_S``. So neither a simulation that stands, nor one that is
    quick, nor a clock that is set, nor a process that was held up looks like silence; on a vehicle
    it is plain time.

    Args:
        settings: may be replaced at any time.
        areas: the fence.
    """

    def __init__(self, settings: WatchdogSettings, areas: NavigableArea) -> None:
        self.settings = settings
        self._areas = areas
        self._received: set[str] = set()  # sources, since the look before
        self._silent: dict[str, float] = defaultdict(float)  # s, by source
        self._std = 0.0  # m, of the position
        self._fault_free_s = 0.0  # s without a fault
        self._armed = False  # the vehicle has been inside the fence
        self._progress = Progress()
        self._checked_at: tuple[float, float] | None = None
        self._was_active = False  # the mission was active at the look before

    def received(self, source: str) -> None:
        """Something came from ``odometry``, the ``sonar`` or about the ``map``."""
        self._received.add(source)

    def position_received(self, mission: Mission, std: float) -> None:
        """Odometry came, and the mission has its position; ``std``: of it in m, 0 for unknown."""
        self.received(ODOMETRY)
        self._std = std
        assert mission.position is not None
        outside = self._areas.outside(mission.position)
        if outside == 0.0:
            self._armed = True
        elif self._armed and mission.active and outside > self.settings.geofence_margin:
            self._armed = False  # whoever resumes it may drive it back
            text = f"the vehicle is {outside:.1f} m outside the workspace"
            mission.pause(text, GUARD)

    def position_jumped(self, mission: Mission, position: np.ndarray, distance: float) -> None:
        """Odometry has the vehicle at a position [2] that it cannot have driven to, ``distance`` m
        from where it was, and keeps to it: the map is not where it was either."""
        mission.position = position
        mission.pause(f"the position jumped by {distance:.1f} m, and stays there", GUARD)

    def check(self, mission: Mission, wall_s: float, ros_s: float) -> None:
        """Pause a mission for what is wrong by now, or let it go on; called about every second."""
        elapsed, heard = self._elapsed(wall_s, ros_s), self._received
        self._received = set()
        ours = mission.state == PAUSED and mission.paused_by == WATCHDOG
        if mission.active and not self._was_active:
            self._silent.clear()  # a new patience
        self._was_active = mission.active
        self._progress.check(mission, elapsed)
        patience = self.settings.progress_patience
        if patience and self._progress.stuck_s > patience:
            mission.pause(self._progress.text(patience), GUARD)
            return
        if not (mission.active or ours):
            return
        expected = (ODOMETRY, SONAR, MAP) if mission.state == EXPLORING else (ODOMETRY, SONAR)
        for source in expected:
            self._silent[source] += elapsed
        for source in heard:
            self._silent[source] = 0.0
        fault = self.fault()
        if mission.active and fault is not None:
            mission.pause(fault, WATCHDOG)
            self._was_active = False
        self._fault_free_s = 0.0 if fault is not None else self._fault_free_s + elapsed
        if ours and self.settings.resumes and self._fault_free_s >= RECOVERY_S:
            mission.resume(f"it is over: {mission.reason}")

    def fault(self) -> str | None:
        """What is wrong, in words; None: nothing."""
        s = self.settings
        for source, patience, what in (
            (ODOMETRY, s.odometry_patience, "no odometry"),
            (SONAR, s.sonar_patience, "no ping"),
            (MAP, s.map_patience, "no new map"),
        ):
            if patience and self._silent[source] > patience:
                return f"{what} for {patience:g} s"
        if s.max_position_std and not self._std <= s.max_position_std:
            return f"a position known to {self._std:.3g} m, not {s.max_position_std:g} m"
        return None

    def _elapsed(self, wall_s: float, ros_s: float) -> float:
        before, self._checked_at = self._checked_at or (wall_s, ros_s), (wall_s, ros_s)
        slower = min(wall_s - before[0], ros_s - before[1])
        return min(max(slower, 0.0), MAX_ELAPSED_S)


class Progress:
    """Watches whether the vehicle comes nearer to its goals.

    A goal that it gave up is none that it came to: the time goes on over several goals.

    Attributes:
        stuck_s: since it last came nearer, or to a goal; 0 while there is nothing to go to.
    """

    def __init__(self) -> None:
        self.stuck_s = 0.0
        self._goal: np.ndarray | None = None
        self._position = self._from = np.zeros(2)
        self._nearest = math.inf
        self._arrivals = 0

    def check(self, mission: Mission, elapsed: float) -> None:
        """``elapsed`` s have passed since the last look."""
        goal, position = mission.goal, mission.position
        if not mission.active or goal is None or position is None:
            self.stuck_s, self._goal = 0.0, None
            return
        arrivals, distance = mission.goals.results, math.dist(goal, position)
        arrived = arrivals["reached"] + arrivals["passed"]
        began = self._goal is None
        if goal is not self._goal:
            self._goal, self._nearest = goal, distance
        enough = min(MIN_PROGRESS_M, PROGRESS_S * mission.goals.arrival.get("max_speed", 1.0))
        self._position = position
        if began or arrived != self._arrivals or self._nearest - distance >= enough:
            self.stuck_s, self._nearest, self._arrivals = 0.0, distance, arrived
            self._from = position
        else:
            self.stuck_s += elapsed

    def text(self, patience: float) -> str:
        """What is wrong."""
        way = math.dist(self._from, self._position)
        if way < MIN_PROGRESS_M:
            return f"the vehicle stands still: no nearer to its goal for {patience:g} s"
        return f"the vehicle went {way:.0f} m, but no nearer to its goal for {patience:g} s"


class Autopilot:
    """Sees that nobody takes the vehicle over: its autopilot's mode is that of the start, and it
    stays armed. Otherwise the mission is paused until a person lets it go on."""

    def __init__(self) -> None:
        self._status: tuple[str, bool] | None = None  # mode, and whether it is armed
        self._agreed: tuple[str, bool] | None = None  # what the mission began with

    def agree(self) -> None:
        """A person has started or resumed the mission, in whatever mode it is."""
        self._agreed = self._status

    def update(self, mission: Mission, mode: str, armed: bool, connected: bool) -> None:
        """The autopilot says how it stands; ``connected``: whether it does so itself."""
        self._status = mode, armed
        if not (mission.active or (mission.state == PAUSED and mission.paused_by == WATCHDOG)):
            return
        agreed_mode, was_armed = self._agreed = self._agreed or self._status
        if not connected:
            mission.pause("the autopilot is not heard any more", GUARD)
        elif mode != agreed_mode:
            text = f"the autopilot's mode is {shown(mode)}, and was {shown(agreed_mode)}"
            mission.pause(f"{text} at the start", GUARD)
        elif was_armed and not armed:
            mission.pause("the vehicle was disarmed", GUARD)
        else:
            self._agreed = mode, armed
