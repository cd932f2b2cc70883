"""What state a mission is in, and what changes it: events, its budget, and the watchdog, which
pauses an unattended one (missing data, bad positions, the geofence, a vehicle that does not follow
its goals). No ROS.

``TABLE`` has all that may happen and what it leads to: docs/vehicle.md shows it, and every pair is
tested.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import quantity, shown
from ..core.settings import Settings, setting
from ..frontend.events import DONE, EXPLORING, HOME, PAUSED, PILOT, RETURNING, STATES, WAITING
from ..planning.areas import NavigableArea

if TYPE_CHECKING:
    from .mission import Mission

#: Events: what operators ask for; then what happens on the way.
START, STOP, PAUSE, RESUME = "start", "stop", "pause", "resume"
FAULT, RECOVERED = "fault", "recovered"
SURVEYED, SPENT, MET = "surveyed", "spent", "met"  # and HOME

#: Why a mission is paused. An operator asked for it, or the planner was restarted; an input that
#: it needs is missing; a guard stopped it (fence, no progress); somebody else drives the vehicle;
#: positions moved against the map.
OPERATOR, RESTART, INPUT, GUARD = "operator", "restart", "input", "guard"
TAKEN_OVER, DISPLACED = "taken over", "displaced"
#: The causes that end by themselves; after any other one only an operator resumes.
PASSING = frozenset({INPUT})

#: To the state that the pause interrupted; to returning, or to done if there is no way home to go.
INTERRUPTED, OVER = "what was interrupted", "returning or done"
_AGAIN: Mapping[str, str] = {
    STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, RESUME: INTERRUPTED, RECOVERED: INTERRUPTED,
}  # fmt: skip
#: The state that an event leads to, by the state that the mission is in, a paused one by what it
#: interrupts; an event that is not listed is refused, and changes nothing. A pause adds its cause
#: where the mission is paused already.
TABLE: Mapping[str, Mapping[str, str]] = {
    WAITING: {START: PILOT, STOP: WAITING},
    PILOT: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, SURVEYED: EXPLORING, SPENT: OVER},
    EXPLORING: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, SPENT: OVER, MET: OVER},
    RETURNING: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, HOME: DONE},
    f"{PAUSED} while {PILOT}": {**_AGAIN, SPENT: DONE},
    f"{PAUSED} while {EXPLORING}": {**_AGAIN, SPENT: DONE, MET: DONE},
    f"{PAUSED} while {RETURNING}": _AGAIN,
    DONE: {START: PILOT, STOP: WAITING},
}
#: The states in which the vehicle is driven, and guarded.
DRIVEN = (PILOT, EXPLORING, RETURNING)

ODOMETRY, SONAR, MAP, POSITION = "odometry", "sonar", "map", "position"
#: Added by one check at most: messages that came while this process was stopped are lost.
MAX_ELAPSED_S = 2.0
RECOVERY_S = 3.0  # without a fault until the mission resumes
#: Coming this much nearer to the goal (m) is progress; less if that takes longer than PROGRESS_S.
MIN_PROGRESS_M, PROGRESS_S = 1.0, 10.0


@dataclass(frozen=True)
class Status:
    """The state of a mission, and why.

    Attributes:
        state: as published.
        reason: why, as text, unless it is paused.
        causes: of a pause, with a text each, oldest first.
        interrupted: the state that a pause interrupts.
        ended: the event that ended the mission, and its text; empty: it has not ended.
    """

    state: str
    reason: str
    causes: tuple[tuple[str, str], ...] = ()
    interrupted: str = PILOT
    ended: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Status:
        """A status from its fields as JSON.

        Raises:
            ValueError, KeyError, TypeError: the values are invalid.
        """
        causes = tuple((str(cause), str(text)) for cause, text in values["causes"])
        ended, text = values["ended"]
        found = cls(**{**values, "causes": causes, "ended": (str(ended), str(text))})
        if found.place not in TABLE or found.state not in STATES:
            raise ValueError(f"state {found.state!r}")
        return found

    @property
    def place(self) -> str:
        """Where the mission is: one of ``TABLE``."""
        return f"{PAUSED} while {self.interrupted}" if self.state == PAUSED else self.state

    @property
    def text(self) -> str:
        """Why it is in its state."""
        return "; ".join(text for _, text in self.causes) if self.state == PAUSED else self.reason

    @property
    def recovers(self) -> bool:
        """Whether it resumes when what it needs is there again."""
        return self.state == PAUSED and PASSING.issuperset(cause for cause, _ in self.causes)

    def after(self, event: str, text: str, cause: str = OPERATOR, home: bool = False) -> Status:
        """The status after an event; this one itself if the event is refused.

        Args:
            event: one of the table's.
            text: why.
            cause: of a pause.
            home: whether there is a way home to go.
        """
        to = TABLE[self.place].get(event)
        if to is None or (event == RECOVERED and not self.recovers):
            return self
        if to == PAUSED:
            return self._paused(cause, text)
        if event in (SPENT, MET):
            over = RETURNING if to == OVER and home else DONE
            return Status(over, text, ended=(event, text))
        if to == INTERRUPTED:
            return Status(self.interrupted, text, ended=self.ended)
        if event == HOME:
            return replace(self, state=to, reason=self.ended[1])
        return Status(to, text)

    def _paused(self, cause: str, text: str) -> Status:
        """A passing cause gives way to the next one, the others stay."""
        if self.state != PAUSED:
            return replace(self, state=PAUSED, causes=((cause, text),), interrupted=self.state)
        known = tuple(c for c in self.causes if c[0] != cause or cause not in PASSING)
        causes = known if (cause, text) in known else (*known, (cause, text))
        return self if causes == self.causes else replace(self, causes=causes)


@dataclass
class Budget:
    """Limits of a mission, and how much of them is used.

    Attributes:
        max_samples: 0: no limit.
        max_duration: s; 0: no limit.
        start_time_s: when the mission began, in s; None before.
        samples: number of samples that the mapper has accepted.
        samples_at_start: number of them when the mission began.
        driven_at_start: how far the vehicle had driven then, in m.
    """

    max_samples: int = 0
    max_duration: float = 0.0
    start_time_s: float | None = None
    samples: int = 0
    samples_at_start: int = 0
    driven_at_start: float = 0.0

    @property
    def unlimited(self) -> bool:
        """Whether neither limit is set."""
        return not (self.max_samples or self.max_duration)

    @property
    def samples_left(self) -> int | None:
        """Samples left; None: no limit."""
        return max(0, self.max_samples - self.taken) if self.max_samples else None

    @property
    def taken(self) -> int:
        """Samples since the mission began."""
        return self.samples - self.samples_at_start

    def __str__(self) -> str:
        """The samples since the mission began, and those in the map if an earlier one took some."""
        taken = quantity(self.taken, "sample")
        return f"{taken} ({self.samples} in the map)" if self.samples_at_start else taken

    def time_left(self, now: float) -> float:
        """Time left at ``now`` (s), in s, by ``max_duration``, and by ``max_samples`` at the rate
        so far; infinite if unknown."""
        left = self.duration_left(now)
        if self.start_time_s is not None and self.samples_left is not None and self.taken > 0:
            left = min(left, self.samples_left * (now - self.start_time_s) / self.taken)
        return left

    def duration_left(self, now: float) -> float:
        """Time left at ``now`` (s) by ``max_duration`` alone, in s; infinite if unknown."""
        if self.start_time_s is None or not self.max_duration:
            return math.inf
        return max(0.0, self.start_time_s + self.max_duration - now)

    def pace(self, driven: float, now: float, speed: float) -> float:
        """Mean speed so far in m/s, at most ``speed``; after ``driven`` m, at ``now`` (s)."""
        if self.start_time_s is None or now <= self.start_time_s:
            return speed
        return min(speed, (driven - self.driven_at_start) / (now - self.start_time_s))

    def distance_left(
        self, driven: float, now: float | None = None, speed: float = math.inf
    ) -> float:
        """Distance in m that can still be travelled, after ``driven`` m; infinite if unknown.

        By ``max_samples``, at the rate of samples per metre so far; with ``now`` (s) also by
        ``max_duration``, at the mean speed so far, at most ``speed`` (m/s).
        """
        distance, start = math.inf, self.start_time_s
        if self.samples_left is not None and self.samples:
            distance = self.samples_left * driven / self.samples
        if self.max_duration and now is not None and start is not None and now > start:
            distance = min(distance, self.duration_left(now) * self.pace(driven, now, speed))
        return distance

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``."""
        start, first, driven = self.start_time_s, self.samples_at_start, self.driven_at_start
        return {"began": start, "samples": self.samples, "first": first, "driven": driven}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore the values of ``to_dict``."""
        self.start_time_s, self.samples = values["began"], values["samples"]
        self.samples_at_start, self.driven_at_start = values["first"], values["driven"]

    def begin(self, now: float, driven: float) -> None:
        """A mission begins at ``now`` (s) after ``driven`` m; the samples so far do not count."""
        self.start_time_s, self.samples_at_start = now, self.samples
        self.driven_at_start = driven

    def count(self, samples: int) -> None:
        """Set the number of samples of the mapper; fewer than before if it was reset."""
        self.samples, self.samples_at_start = samples, min(self.samples_at_start, samples)

    def exhausted(self, now: float | None = None) -> str | None:
        """Why the budget is exhausted, by samples and, if given, ``now`` (s); None: it is not."""
        if now and self.start_time_s is not None:  # 0: simulated time has not begun
            # Setting the clock back does not lengthen the mission.
            self.start_time_s = min(self.start_time_s, now)
            if self.max_duration and now - self.start_time_s >= self.max_duration:
                return f"max_duration of {self.max_duration:g} s has passed"
        if self.max_samples and self.taken >= self.max_samples:
            return f"max_samples of {self.max_samples} reached"
        return None


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
