"""The mission's states and goals, from positions, maps and counts. No rclpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.geometry import Extent
from ..frontend.events import (
    DONE,
    EXPLORING,
    GUARD,
    HOLD,
    HOME,
    OPERATOR,
    PAUSED,
    PILOT,
    STATES,
    WAITING,
    WATCHDOG,
)
from ..planning.areas import NavigableArea
from ..planning.routes import Routes
from ..planning.situation import Situation
from .itinerary import GoalQueue, VehicleTrack


@dataclass
class Budget:
    """Limits of a mission, and what is used up of them since it began.

    Attributes:
        max_samples: 0 = no limit.
        max_duration: seconds; 0 = no limit.
        start_time_s: when it did, in s; None before.
        samples: what the mapper has accepted so far.
        samples_at_start: what of it was accepted before the mission began.
    """

    max_samples: int = 0
    max_duration: float = 0.0
    start_time_s: float | None = None
    samples: int = 0
    samples_at_start: int = 0

    @property
    def unlimited(self) -> bool:
        """Whether there is no limit."""
        return not (self.max_samples or self.max_duration)

    @property
    def samples_left(self) -> int | None:
        """Samples until the end; None where there is no limit."""
        return max(0, self.max_samples - self.taken) if self.max_samples else None

    @property
    def taken(self) -> int:
        """Samples since the mission began."""
        return self.samples - self.samples_at_start

    def distance_left(
        self, driven: float, now: float | None = None, speed: float = math.inf
    ) -> float:
        """Metres until the end after ``driven`` m, at as many samples a metre as so far.

        With ``now`` (s), also until ``max_duration``: as fast as so far, at most ``speed`` (m/s).
        Infinite where that is not known.
        """
        way = math.inf
        if self.samples_left is not None and self.samples:
            way = self.samples_left * driven / self.samples
        if (
            now is not None
            and self.max_duration
            and self.start_time_s is not None
            and now > self.start_time_s
        ):
            pace = min(speed, driven / (now - self.start_time_s))
            way = min(way, max(0.0, self.start_time_s + self.max_duration - now) * pace)
        return way

    def begin(self, now: float) -> None:
        """A mission begins at ``now`` (s); what the mapper has by then does not count."""
        self.start_time_s, self.samples_at_start = now, self.samples

    def count(self, samples: int) -> None:
        """The mapper has accepted this many; fewer than before where it was reset."""
        self.samples, self.samples_at_start = samples, min(self.samples_at_start, samples)

    def exhausted(self, now: float | None = None) -> str | None:
        """What has run out, by the samples and by ``now`` (s) where it is given; None: nothing."""
        if now and self.start_time_s is not None:  # 0: simulated time has not begun
            self.start_time_s = min(
                self.start_time_s, now
            )  # a clock that is set back does not lengthen it
            if self.max_duration and now - self.start_time_s >= self.max_duration:
                return f"max_duration of {self.max_duration:g} s has passed"
        if self.max_samples and self.taken >= self.max_samples:
            return f"max_samples of {self.max_samples} were taken"
        return None


LEAP_S = 5.0  # between the stamps of two positions, above which it is looked at ``now``

Choose = Callable[[np.ndarray], "np.ndarray | None"]
"""The next waypoints [K, 2] from the vehicle's position [2]; None where the map allows none."""


class Mission:
    """Pilot survey, then exploration until the budget is spent; can be paused anywhere before.

    Goals wait in a queue: the pilot's waypoints first; whenever it has run empty, the path that
    ``choose`` gives. The mission begins with ``start``, or with the first position where it starts
    by itself. It is done once ``max_samples`` were taken or ``max_duration`` seconds have passed
    since, whatever it was doing, pauses included. Between the pilot's end and the first map there
    is no goal: the vehicle holds station.

    Paused, stopped and done are something to do, too: ``station`` is where the vehicle shall stay.

    Args:
        pilot: waypoints of the pilot survey, [K, 2] in metres; K = 0 where there is none.
        workspace: every goal is clipped into it.
        areas: where goals and legs may lie; None: anywhere in the workspace.
        arrival: goal_radius, capture_radius and max_speed of ``ArrivalDetector``.
        max_samples: samples since the start, counted by the mapper; 0 = no limit.
        max_duration: seconds; 0 = no limit.
        autostart: whether it starts by itself.
        on_done: ``hold`` station when it is done, or go ``home`` first: to where it began.

    Attributes:
        state: one of ``STATES``.
        reason: why it is in this state, in words.
        station: where the vehicle shall stay [2], a new array for each time that it is told to; None
            while it has not been.
        goals: the goals. ``budget``: what ends it. ``starts``: how often ``start`` began it anew.
        track: where the vehicle was, and when.

    Raises:
        InputError: if the pilot is no path.
    """

    def __init__(
        self,
        pilot: np.ndarray,
        workspace: Extent,
        *,
        areas: NavigableArea | None = None,
        arrival: Mapping[str, float] | None = None,
        max_samples: int = 0,
        max_duration: float = 0.0,
        autostart: bool = True,
        on_done: str = HOLD,
    ) -> None:
        self.workspace, self.on_done = workspace, on_done
        self.budget = Budget(max_samples, max_duration)
        self.position: np.ndarray | None = None
        self.home: np.ndarray | None = None
        self.station: np.ndarray | None = None
        self.paused_by: str | None = None
        self.track = VehicleTrack(workspace)
        self.goals = GoalQueue(Routes(areas or NavigableArea(workspace)), arrival)
        self._choose: Choose | None = None
        self.state_before_pause = PILOT  # what a pause came from
        self._returning = False
        self.starts = 0
        self._located: tuple[float, float] | None = None  # when the last position came: both times
        self._leapt = 0.0  # s by which the stamps of positions were set since the first
        self._pilot = pilot
        self.goals.add(pilot)
        self.state = PILOT if autostart else WAITING
        self.reason = "started by itself" if autostart else "it has not been started"

    @property
    def goal(self) -> np.ndarray | None:
        """Where the vehicle shall go now, [2]; None where it shall hold station."""
        going = self.state in (PILOT, EXPLORING) or (self.state == DONE and self._returning)
        return self.goals.current if going else None

    @property
    def plan(self) -> np.ndarray:
        """Position, goal and the goals queued after it, [K, 2]; empty without a goal."""
        if self.goal is None or self.position is None:
            return np.empty((0, 2))
        return np.array([self.position, self.goal, *self.goals.queue])

    @property
    def active(self) -> bool:
        """Whether it has begun and goes on."""
        return self.state in (PILOT, EXPLORING) and self.budget.start_time_s is not None

    @property
    def waits_for_map(self) -> bool:
        """Whether it holds station because there is no map yet, or the map allows no choice."""
        return self.state == EXPLORING and self.goals.current is None

    def situation(self, yaw: float, speed: float) -> Situation:
        """What a planner is to know, at this heading (rad) and top speed (m/s)."""
        assert self.position is not None
        return Situation(
            self.position,
            self.workspace,
            yaw,
            speed,
            turning_radius=self.goals.turning_radius,
            samples_left=self.budget.samples_left,
            distance_left=self.budget.distance_left(self.track.length),
            recent_track=self.track.since(-math.inf),
            visited=self.track.visited(),
            routes=self.goals.routes,
        )

    def update_position(
        self, position: np.ndarray, now: float, measured: float | None = None
    ) -> str | None:
        """Take the vehicle's position [2] at ``now`` (s); how it arrived at a goal, or None.

        ``measured`` (s) is the position's own stamp. A goal's time counts in it, and starts with
        the first position after the goal was chosen: positions that waited in a queue while the
        clock ran on are judged as if they came in time. Where stamps leap, ``now`` counts instead.
        """
        self.position = np.asarray(position, dtype=float)
        measured = now if measured is None else measured
        self.track.add(measured, self.position)
        self._follow_stamps(now, measured)
        if self.state != WAITING:
            if self.budget.start_time_s is None:
                self.budget.start_time_s = now
            self.home = self.position.copy() if self.home is None else self.home
        self.tick(now)
        if not (self.state in (PILOT, EXPLORING) or self._returning):
            return None
        arrival = self.goals.update(self.position, measured - self._leapt)
        if self.goals.current is None:
            self._next_goal()
        return arrival

    def tick(self, now: float) -> None:
        """Let ``now`` (s) come, which may end the mission."""
        if self.budget.start_time_s is not None:
            self.end(self.budget.exhausted(now))

    def set_planner(self, choose: Choose | None) -> None:
        """A map is there: waypoints after the pilot are chosen by ``choose`` from now on.

        None: it is not there any more.
        """
        self._choose = choose
        if self.waits_for_map:
            self._next_goal()

    def count_samples(self, samples: int) -> None:
        """The mapper has accepted this many pings so far."""
        self.budget.count(samples)
        self.end(self.budget.exhausted())

    def start(self, now: float) -> tuple[bool, str]:
        """Begin with the pilot survey at ``now`` (s); whether that was possible, and an answer.

        Also after another mission. What the mapper has by then it keeps, and it does not count.
        """
        if self.state not in (WAITING, DONE):
            return False, f"the mission has been started: it is {self.state}"
        self.starts += 1
        self.budget.begin(now)
        self.home = None if self.position is None else self.position.copy()
        self.station, self._returning, self.paused_by = None, False, None
        self.goals.clear()
        self.goals.add(self._pilot)
        self.state, self.reason = PILOT, "started"
        return True, "started" if self.position is not None else "started; no odometry yet"

    def stop(self) -> tuple[bool, str]:
        """Hold station and wait for another ``start``: at any time; True, and an answer."""
        previous, self.state, self.reason = self.state, WAITING, "stopped"
        self.hold_station()
        self.goals.clear()
        self._returning = False
        return True, f"stopped while {previous}"

    def pause(self, reason: str = "asked for", by: str = OPERATOR) -> tuple[bool, str]:
        """Hold station until ``resume``; whether that was possible, and an answer in words."""
        graver = by == OPERATOR != self.paused_by or (by, self.paused_by) == (GUARD, WATCHDOG)
        if self.state == PAUSED and graver:
            self.paused_by, self.reason = by, f"{reason}, after: {self.reason}"
            return True, "paused already; now it does not go on by itself"
        if self.state not in (PILOT, EXPLORING):
            already = " already" if self.state == PAUSED else ""
            return False, f"the mission is {self.state}{already}"
        self.state_before_pause, self.state, self.reason = self.state, PAUSED, reason
        self.paused_by = by
        self.hold_station()
        return True, f"paused while {self.state_before_pause}"

    def resume(self, reason: str = "asked for") -> tuple[bool, str]:
        """Go on where the pause came; whether that was possible, and an answer in words."""
        if self.state != PAUSED:
            return False, f"the mission is not paused, but {self.state}"
        self.state, self.reason, self.paused_by = (
            self.state_before_pause,
            f"resumed: {reason}",
            None,
        )
        self.goals.replan(self.position)
        return True, f"{self.state} again"

    def end(self, why: str | None) -> None:
        """Where there is a reason it is the end: to stay, or to go home.

        From a pause nothing moves off.
        """
        if why is None or self.state in (WAITING, DONE):
            return
        paused, self.state, self.reason = self.state == PAUSED, DONE, why
        self.goals.clear()
        if self.on_done == HOME and self.home is not None and not paused:
            self._returning = True
            self.goals.add(self.home[None])
        elif not paused:
            self.hold_station()

    def change(self, arrival: Mapping[str, float], max_samples: int, max_duration: float) -> None:
        """From now on arrival is judged, and the mission ends, by these."""
        self.goals.arrival = dict(arrival)
        self.budget.max_samples, self.budget.max_duration = max_samples, max_duration
        self.count_samples(self.budget.samples)

    def discard_goals(self) -> None:
        """Leave the goals: the next ones are chosen with the next position."""
        self.goals.clear()

    def explain(self, reason: str) -> None:
        """Say why it is in its state in other words."""
        self.reason = reason

    def to_dict(self) -> dict[str, Any]:
        """What ``restore`` takes, as plain values; the track is kept apart."""
        budget, home = self.budget, self.home
        return {
            "workspace": list(self.workspace.bounds),
            "state": self.state,
            "under_way": self.state_before_pause,
            "reason": self.reason,
            "paused_by": self.paused_by,
            "began": budget.start_time_s,
            "samples": budget.samples,
            "first": budget.samples_at_start,
            "home": None if home is None else home.tolist(),
            **self.goals.to_dict(),
        }

    def restore(self, kept: Mapping[str, Any], autoresume: bool) -> None:
        """Go on, before it has begun, from a memento; paused where it was under way, unless it is
        to go on by itself.

        Raises:
            ValueError, KeyError, TypeError: it is not one of this workspace.
        """
        if kept["workspace"] != list(self.workspace.bounds):
            raise ValueError(f"workspace {kept['workspace']}, not {list(self.workspace.bounds)}")
        state, under_way, budget = kept["state"], kept["under_way"], self.budget
        if state not in STATES or under_way not in (PILOT, EXPLORING):
            raise ValueError(f"state {state!r}")
        budget.start_time_s, budget.samples, budget.samples_at_start = (
            kept["began"],
            kept["samples"],
            kept["first"],
        )
        self.goals.restore(kept if state != DONE else {**kept, "goals": []})
        self.home = None if kept["home"] is None else np.array(kept["home"], dtype=float)
        self.state_before_pause, self.paused_by = under_way, kept["paused_by"]
        self.state, self.reason = state, kept["reason"]
        if state in (PILOT, EXPLORING):
            self.reason = f"the planner was restarted while {state}"
            if not autoresume:
                self.state, self.state_before_pause, self.paused_by = PAUSED, state, OPERATOR

    def diagnostics(self) -> dict[str, object]:
        """How it stands, by the names that diagnostics have."""
        counts = {"samples": self.budget.samples, **self.goals.counts()}
        return {"state": self.state, "reason": self.reason, **counts}

    def _follow_stamps(self, now: float, measured: float) -> None:
        """Learn by how much the clock of the stamps was set between the last two positions."""
        before, self._located = self._located or (now, measured), (now, measured)
        step = measured - before[1]
        if not 0.0 <= step <= LEAP_S:
            self._leapt += step - (now - before[0])

    def hold_station(self) -> None:
        """The vehicle is to hold station where it is."""
        self.station = None if self.position is None else self.position.copy()

    def _next_goal(self) -> None:
        """To the next goal in the queue, which is filled where it is empty."""
        assert self.position is not None
        if self.goals.queue:
            self.goals.next(self.position)
        if self.goals.current is not None:
            return
        if self._returning:
            self._returning = False
            self.hold_station()
            return
        if self.state == PILOT:
            self.state, self.reason = EXPLORING, "the pilot survey is over"
        path = None if self._choose is None else self._choose(self.position)
        if path is not None and self.state == EXPLORING:  # learning meanwhile may have ended it
            self.goals.add(path)
            self.goals.next(self.position)
