"""Pauses an unattended mission: missing data, bad positions, the geofence, a vehicle that does not
follow its goals. No ROS."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..core.errors import shown
from ..core.settings import Settings, setting
from ..frontend.events import EXPLORING, PAUSED, RETURNING
from ..planning.areas import NavigableArea
from .mission import GUARD, INPUT, TAKEN_OVER, Mission, Status

ODOMETRY, SONAR, MAP, POSITION = "odometry", "sonar", "map", "position"
#: Added by one check at most: messages that came while this process was stopped are lost.
MAX_ELAPSED_S = 2.0
RECOVERY_S = 3.0  # without a fault until the mission resumes
#: Coming this much nearer to the goal (m) is progress; less if that takes longer than PROGRESS_S.
MIN_PROGRESS_M, PROGRESS_S = 1.0, 10.0


@dataclass(frozen=True)
class WatchdogSettings(Settings):
    """When the watchdog pauses a mission. Times are in the slower of wall time and ROS time."""

    prefix = "watchdog"

    odometry_timeout: float = setting(
        5.0, "Pause when no odometry has arrived for this long. 0: never", "s", 0.0, 1e5,
        mutable=True,
    )  # fmt: skip
    sonar_timeout: float = setting(
        30.0, "Pause when no ping has arrived for this long. 0: never", "s", 0.0, 1e5, mutable=True
    )
    map_timeout: float = setting(
        120.0, "Pause exploring when no map has arrived for this long. 0: never", "s", 0.0, 1e5,
        mutable=True,
    )  # fmt: skip
    progress_timeout: float = setting(
        60.0, "Pause when the vehicle has made no progress to its goal for this long. 0: never",
        "s", minimum=0.0, maximum=1e5, mutable=True,
    )  # fmt: skip
    max_position_std: float = setting(
        0.0, "Pause when the standard deviation of the position in the odometry is larger. 0: "
        "never", "m", minimum=0.0, maximum=1e6, mutable=True,
    )  # fmt: skip
    max_jump: float = setting(
        2.0, "Ignore a position more than this beyond where three times max_speed can "
        "take the vehicle; pause when it lasts for 1 s. 0: never", "m", minimum=0.0, maximum=1e6,
        mutable=True,
    )  # fmt: skip
    geofence_margin: float = setting(
        10.0, "Pause when the vehicle has been inside the workspace and is now farther "
        "than this outside it", "m", minimum=0.0, maximum=1e6, mutable=True,
    )  # fmt: skip
    pause_on_shift: bool = setting(
        False, "Pause when crossings show that positions may have shifted; else only warn",
        mutable=True,
    )  # fmt: skip
    auto_resume: bool = setting(
        True, "Resume when the fault that paused the mission is over; never after the geofence",
        mutable=True,
    )  # fmt: skip


class Watchdog:
    """Pauses and resumes a mission.

    Silence is summed over checks: each adds the time since the one before, by the slower of the two
    clocks, and at most ``MAX_ELAPSED_S``. So a stopped or fast simulation, a clock that is set, or
    a process that was suspended does not count as silence; on a vehicle it is plain time.

    Args:
        settings: when to pause.
        areas: the geofence.
    """

    def __init__(self, settings: WatchdogSettings, areas: NavigableArea) -> None:
        self.settings = settings
        self._areas = areas
        self._received: set[str] = set()  # sources since the last check
        self._silent: dict[str, float] = defaultdict(float)  # s, by source
        self._std = 0.0  # of the position, m
        self._fault: str | None = None  # what had failed at the last check
        self._fault_free_s = 0.0  # s without a fault
        self._armed = False  # the vehicle was inside the geofence
        self._progress = Progress()
        self._checked_at: tuple[float, float] | None = None
        self._status: Status | None = None  # of the mission at the last check

    def received(self, source: str) -> None:
        """A message came from ``odometry``, ``sonar`` or ``map``."""
        self._received.add(source)

    def position_received(self, mission: Mission, std: float) -> None:
        """The mission has a new position; ``std``: its standard deviation in m, 0: unknown."""
        self.received(ODOMETRY)
        self._std = std
        assert mission.position is not None
        outside = self._areas.outside(mission.position)
        if outside == 0.0:
            self._armed = True
        elif self._armed and mission.active and outside > self.settings.geofence_margin:
            self._armed = False  # an operator who resumes may drive it back
            mission.pause(f"the vehicle is {outside:.1f} m outside the workspace", GUARD)

    def check(self, mission: Mission, wall_s: float, ros_s: float) -> None:
        """Pause the mission if there is a fault, or resume it; call about every second."""
        before, self._checked_at = self._checked_at or (wall_s, ros_s), (wall_s, ros_s)
        slower = min(wall_s - before[0], ros_s - before[1])
        elapsed = min(max(slower, 0.0), MAX_ELAPSED_S)
        received, self._received = self._received, set()
        if mission.active and mission.status is not self._status:
            self._silent.clear()  # new timeouts
        self._status = mission.status
        self._progress.check(mission, elapsed)
        timeout = self.settings.progress_timeout
        if timeout and self._progress.stuck_s > timeout:
            mission.pause(self._progress.text(timeout), GUARD)
            return
        if not (mission.active or mission.status.recovers):
            return
        status = mission.status
        expected = [ODOMETRY, SONAR]
        if (status.interrupted if status.state == PAUSED else status.state) == RETURNING:
            expected = [ODOMETRY] if mission.deep is None else expected  # nothing is mapped
        elif status.state == EXPLORING:
            expected.append(MAP)
        for source in expected:
            self._silent[source] += elapsed
        for source in received:
            self._silent[source] = 0.0
        known, (self._fault, fault) = self._fault, self._find_fault()
        if fault is not None and (mission.active or self._fault != known):
            mission.pause(fault, INPUT)  # or another one keeps it paused
        self._fault_free_s = 0.0 if fault is not None else self._fault_free_s + elapsed
        if self.settings.auto_resume and self._fault_free_s >= RECOVERY_S:
            mission.recover()

    def _find_fault(self) -> tuple[str | None, str | None]:
        """What has failed, and the fault as text; None, None: no fault."""
        s = self.settings
        for source, timeout, what in (
            (ODOMETRY, s.odometry_timeout, "no odometry"),
            (SONAR, s.sonar_timeout, "no ping"),
            (MAP, s.map_timeout, "no new map"),
        ):
            if timeout and self._silent[source] > timeout:
                return source, f"{what} for {timeout:g} s"
        if s.max_position_std and not self._std <= s.max_position_std:
            expected = f"expected {s.max_position_std:g} m"
            return POSITION, f"the position is only known to {self._std:.3g} m, {expected}"
        return None, None


class Progress:
    """Measures how long the vehicle has made no progress along the mission.

    Progress is a waypoint that is finished, or a shorter rest of the way to it than ever before:
    not a turn on the way, and not a new route. A waypoint that was given up is none either: the
    time continues over several of them, and where none can be chosen.

    Attributes:
        stuck_s: s since the last progress.
    """

    def __init__(self) -> None:
        self.stuck_s = 0.0
        self._finished = 0
        self._waypoint: np.ndarray | None = None
        self._shortest = math.inf  # rest of the way to it, m
        self._position = self._from = np.zeros(2)
        self._why = ""  # there is no goal

    def check(self, mission: Mission, elapsed: float) -> None:
        """Update after ``elapsed`` s."""
        goals, position = mission.goals, mission.position
        self._why = mission.blocked if mission.needs_goal else ""
        if not mission.active or position is None or not (self._why or mission.goal is not None):
            self.stuck_s, self._waypoint = 0.0, None
            return
        self._position = position
        if self._why:
            self.stuck_s += elapsed
            return
        waypoint, rest = goals.waypoint, goals.rest(position)
        began, new = self._waypoint is None, waypoint is not self._waypoint
        self._waypoint = waypoint
        self._shortest = rest if new else self._shortest
        enough = min(MIN_PROGRESS_M, PROGRESS_S * goals.max_speed)
        if began or goals.finished != self._finished or self._shortest - rest >= enough:
            self.stuck_s, self._shortest, self._finished = 0.0, rest, goals.finished
            self._from = position
        else:
            self.stuck_s += elapsed

    def text(self, timeout: float) -> str:
        """The fault, as text."""
        if self._why:
            return f"no goal could be chosen for {timeout:g} s: {self._why}"
        distance = math.dist(self._from, self._position)
        what = f"moved {distance:.0f} m but" if distance >= MIN_PROGRESS_M else "stands still: it"
        return f"the vehicle {what} came no nearer to its goal for {timeout:g} s"


class Autopilot:
    """Pauses the mission if the autopilot's mode changes or the vehicle is disarmed: somebody else
    drives it. Only an operator can resume then.
    """

    def __init__(self) -> None:
        self._status: tuple[str, bool] | None = None  # mode, and whether it is armed
        self._agreed: tuple[str, bool] | None = None  # what the mission began with

    def take_over(self, mission: Mission, reason: str) -> None:
        """Somebody else drives the vehicle from now on, for this reason; only the first counts."""
        if TAKEN_OVER not in mission.causes:
            mission.pause(reason, TAKEN_OVER)

    def agree(self) -> None:
        """An operator has started or resumed the mission: accept the current mode."""
        self._agreed = self._status

    def update(self, mission: Mission, mode: str, armed: bool, connected: bool) -> None:
        """Take the autopilot's status; ``connected``: whether it is connected to its computer."""
        self._status = mode, armed
        if not (mission.active or mission.status.recovers):
            return
        agreed_mode, was_armed = self._agreed = self._agreed or self._status
        if not connected:
            self.take_over(mission, "the autopilot is no longer connected")
        elif mode != agreed_mode:
            text = f"the autopilot's mode is {shown(mode)}; it was {shown(agreed_mode)}"
            self.take_over(mission, f"{text} at the start")
        elif was_armed and not armed:
            self.take_over(mission, "the vehicle was disarmed")
        else:
            self._agreed = mode, armed
