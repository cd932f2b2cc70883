"""The mission's states and goals, from positions, maps and counts. No rclpy."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Extent
from ..frontend.events import DONE, EXPLORING, HOLD, HOME, OPERATOR, PAUSED, PILOT, WAITING
from ..planning.areas import NavigableArea
from ..planning.arrival import CAPTURE_RADIUS, ArrivalDetector
from ..planning.routes import Routes
from ..planning.situation import Situation
from .budget import Budget
from .track import Track


class Itinerary:
    """A queue of waypoints, and the one that is gone to.

    Each leg is planned when it begins, from where the vehicle is then, and anew when what is left
    of it has come too near to what may not be entered.

    Args:
        routes: the ways that may be gone.
        arrival: goal_radius, capture_radius and max_speed of ``ArrivalDetector``.

    Attributes:
        target: where the vehicle shall go now, [2]; None: nowhere.
        queue: where it shall go after that.
        arrivals: how goals ended: ``reached``, ``passed``, ``timeout``.
        clipped: waypoints that lay where none may be, and were moved.
        unreachable: waypoints given up because no way led to them.
    """

    def __init__(self, routes: Routes, arrival: Mapping[str, float] | None = None) -> None:
        self.routes = routes
        self.arrival = dict(arrival or {})
        self.target: np.ndarray | None = None
        self.queue: deque[np.ndarray] = deque()
        self.arrivals: Counter[str] = Counter()
        self.clipped = self.unreachable = 0
        self._watch: ArrivalDetector | None = None
        self._escaping = False  # on the way out of what may not be entered

    @property
    def turning_radius(self) -> float:
        """The smallest circle that the vehicle drives, in m."""
        return self.arrival.get("capture_radius", CAPTURE_RADIUS) / 2

    def add(self, path: np.ndarray) -> None:
        """Queue waypoints [K, 2], each moved to the next place where one may be.

        Raises:
            InputError: they are no path.
        """
        path = np.asarray(path, dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not np.all(np.isfinite(path)):
            raise InputError(f"waypoints: expected finite numbers [K, 2], got {path.tolist()}")
        areas = self.routes.areas
        self.clipped += int((~areas.allowed(path)).sum())
        self.queue.extend(areas.nearest(waypoint) for waypoint in path)

    def counts(self) -> dict[str, int]:
        """What became of the goals, by the names that diagnostics have."""
        return {
            "goals_reached": self.arrivals["reached"],
            "goals_passed": self.arrivals["passed"],
            "goals_timed_out": self.arrivals["timeout"],
            "goals_clipped": self.clipped,
            "goals_unreachable": self.unreachable,
        }

    def clear(self) -> None:
        """Go nowhere."""
        self.queue.clear()
        self.target = self._watch = None

    def follow(self, position: np.ndarray, measured: float) -> str | None:
        """The vehicle is at position [2] at a time in s; how it arrived at the target, or None."""
        if self.target is None or self._watch is None:
            return None
        arrival = self._watch.update(position, measured)
        if arrival is not None:
            self.arrivals[arrival] += 1
            self.target = self._watch = None
        elif not self._escaping and self.routes.areas.too_close(position, self.target):
            self.set_out(position)
        return arrival

    def head_on(self, position: np.ndarray) -> None:
        """From position [2] to the next waypoint that a way leads to; nowhere without one."""
        self.target = self._watch = None
        while self.queue and self.target is None:
            self._aim(position, self.queue.popleft())

    def set_out(self, position: np.ndarray | None) -> None:
        """To the target again, with a new time limit; the vehicle may be elsewhere by now."""
        if self.target is None or position is None:
            return
        self._aim(position, self.target)
        if self.target is None:
            self.head_on(position)

    def _aim(self, position: np.ndarray, waypoint: np.ndarray) -> None:
        way = self.routes.route(position, waypoint)
        if way is None:
            self.unreachable += 1
            self.target = self._watch = None
            return
        # A way without turns leaves the waypoint what it is: whoever follows goals sees no new one.
        first, *rest = (waypoint,) if len(way) == 1 else (*way[:-1], waypoint)
        self.queue.extendleft(reversed(rest))
        self.target = first
        self._watch = ArrivalDetector(first, **self.arrival)
        self._escaping = self.routes.areas.too_close(position, first)


Choose = Callable[[np.ndarray], "np.ndarray | None"]
"""The next waypoints [K, 2] from the vehicle's position [2]; None where the map allows none."""


class Mission:
    """Pilot survey, then exploration until the budget is spent; can be paused anywhere before.

    Goals wait in a queue: the pilot's waypoints first; whenever it has run empty, the path that
    ``choose`` gives. The mission begins with ``start``, or with the first position where it starts
    by itself. It is done once ``max_samples`` were taken or ``max_duration`` seconds have passed
    since, whatever it was doing, pauses included. Between the pilot's end and the first map there
    is no goal: the vehicle holds station.

    Paused, stopped and done are something to do, too: ``hold`` is where the vehicle shall stay.

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
        hold: where the vehicle shall stay [2], a new array for each time that it is told to; None
            while it has not been.
        legs: the goals. ``budget``: what ends it. ``starts``: how often ``start`` began it anew.
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
        self.hold: np.ndarray | None = None
        self.paused_by: str | None = None
        self.track = Track(workspace)
        self.legs = Itinerary(Routes(areas or NavigableArea(workspace)), arrival)
        self._choose: Choose | None = None
        self.under_way = PILOT  # what a pause came from
        self._homing = False
        self.starts = 0
        self._pilot = pilot
        self.legs.add(pilot)
        self.state = PILOT if autostart else WAITING
        self.reason = "started by itself" if autostart else "it has not been started"

    @property
    def goal(self) -> np.ndarray | None:
        """Where the vehicle shall go now, [2]; None where it shall hold station."""
        going = self.state in (PILOT, EXPLORING) or (self.state == DONE and self._homing)
        return self.legs.target if going else None

    @property
    def plan(self) -> np.ndarray:
        """Position, goal and the goals queued after it, [K, 2]; empty without a goal."""
        if self.goal is None or self.position is None:
            return np.empty((0, 2))
        return np.array([self.position, self.goal, *self.legs.queue])

    @property
    def active(self) -> bool:
        """Whether it has begun and goes on."""
        return self.state in (PILOT, EXPLORING) and self.budget.began is not None

    @property
    def waits_for_map(self) -> bool:
        """Whether it holds station because there is no map yet, or the map allows no choice."""
        return self.state == EXPLORING and self.legs.target is None

    def situation(self, yaw: float, speed: float) -> Situation:
        """What a planner is to know, at this heading (rad) and top speed (m/s)."""
        assert self.position is not None
        return Situation(
            self.position,
            self.workspace,
            yaw,
            speed,
            turning_radius=self.legs.turning_radius,
            samples_left=self.budget.samples_left,
            distance_left=self.budget.distance_left(self.track.length),
            recent_track=self.track.since(-math.inf),
            visited=self.track.visited(),
            routes=self.legs.routes,
        )

    def locate(self, position: np.ndarray, now: float, measured: float | None = None) -> str | None:
        """Take the vehicle's position [2] at ``now`` (s); how it arrived at a goal, or None.

        ``measured`` (s) is the position's own stamp. A goal's time counts in it, and starts with
        the first position after the goal was chosen: positions that waited in a queue while the
        clock ran on are judged as if they came in time.
        """
        self.position = np.asarray(position, dtype=float)
        measured = now if measured is None else measured
        self.track.add(measured, self.position)
        if self.state != WAITING:
            if self.budget.began is None:
                self.budget.began = now
            self.home = self.position.copy() if self.home is None else self.home
        self.tick(now)
        if not (self.state in (PILOT, EXPLORING) or self._homing):
            return None
        arrival = self.legs.follow(self.position, measured)
        if self.legs.target is None:
            self._head_on()
        return arrival

    def tick(self, now: float) -> None:
        """Let ``now`` (s) come, which may end the mission."""
        if self.budget.began is not None:
            self.end(self.budget.spent(now))

    def explore_with(self, choose: Choose | None) -> None:
        """A map is there: waypoints after the pilot are chosen by ``choose`` from now on.

        None: it is not there any more.
        """
        self._choose = choose
        if self.waits_for_map:
            self._head_on()

    def count_samples(self, samples: int) -> None:
        """The mapper has accepted this many pings so far."""
        self.budget.count(samples)
        self.end(self.budget.spent())

    def start(self, now: float) -> tuple[bool, str]:
        """Begin with the pilot survey at ``now`` (s); whether that was possible, and an answer.

        Also after another mission. What the mapper has by then it keeps, and it does not count.
        """
        if self.state not in (WAITING, DONE):
            return False, f"the mission has been started: it is {self.state}"
        self.starts += 1
        self.budget.begin(now)
        self.home = None if self.position is None else self.position.copy()
        self.hold, self._homing, self.paused_by = None, False, None
        self.legs.clear()
        self.legs.add(self._pilot)
        self.state, self.reason = PILOT, "started"
        return True, "started" if self.position is not None else "started; no odometry yet"

    def stop(self) -> tuple[bool, str]:
        """Hold station and wait for another ``start``: at any time; True, and an answer."""
        previous, self.state, self.reason = self.state, WAITING, "stopped"
        self._stay()
        self.legs.clear()
        self._homing = False
        return True, f"stopped while {previous}"

    def pause(self, reason: str = "asked for", by: str = OPERATOR) -> tuple[bool, str]:
        """Hold station until ``resume``; whether that was possible, and an answer in words."""
        if self.state == PAUSED and by == OPERATOR != self.paused_by:
            self.paused_by, self.reason = by, f"{reason}, after: {self.reason}"
            return True, "paused already; now it does not go on by itself"
        if self.state not in (PILOT, EXPLORING):
            already = " already" if self.state == PAUSED else ""
            return False, f"the mission is {self.state}{already}"
        self.under_way, self.state, self.reason = self.state, PAUSED, reason
        self.paused_by = by
        self._stay()
        return True, f"paused while {self.under_way}"

    def resume(self, reason: str = "asked for") -> tuple[bool, str]:
        """Go on where the pause came; whether that was possible, and an answer in words."""
        if self.state != PAUSED:
            return False, f"the mission is not paused, but {self.state}"
        self.state, self.reason, self.paused_by = self.under_way, f"resumed: {reason}", None
        self.legs.set_out(self.position)
        return True, f"{self.state} again"

    def end(self, why: str | None) -> None:
        """Where there is a reason it is the end: to stay, or to go home.

        From a pause nothing moves off.
        """
        if why is None or self.state in (WAITING, DONE):
            return
        paused, self.state, self.reason = self.state == PAUSED, DONE, why
        self.legs.clear()
        if self.on_done == HOME and self.home is not None and not paused:
            self._homing = True
            self.legs.add(self.home[None])
        elif not paused:
            self._stay()

    def facts(self) -> dict[str, object]:
        """How it stands, by the names that diagnostics have."""
        counts = {"samples": self.budget.samples, **self.legs.counts()}
        return {"state": self.state, "reason": self.reason, **counts}

    def _stay(self) -> None:
        self.hold = None if self.position is None else self.position.copy()

    def _head_on(self) -> None:
        """To the next goal in the queue, which is filled where it is empty."""
        assert self.position is not None
        if self.legs.queue:
            self.legs.head_on(self.position)
        if self.legs.target is not None:
            return
        if self._homing:
            self._homing = False
            self._stay()
            return
        if self.state == PILOT:
            self.state, self.reason = EXPLORING, "the pilot survey is over"
        path = None if self._choose is None else self._choose(self.position)
        if path is not None and self.state == EXPLORING:  # learning meanwhile may have ended it
            self.legs.add(path)
            self.legs.head_on(self.position)
