"""The mission's states and goals, from positions, maps and counts. No rclpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from ..geometry import Extent
from ..planning.arrival import GoalWatch

PILOT, EXPLORING, PAUSED, DONE = "pilot", "exploring", "paused", "done"

Choose = Callable[[np.ndarray], "np.ndarray | None"]
"""The next waypoint [2] from the vehicle's position [2]; None where the map allows no choice."""


class Mission:
    """Pilot survey, then exploration until the budget is spent; can be paused anywhere before.

    The mission begins with the first position. It is done once ``max_samples`` were taken or
    ``max_duration`` seconds have passed since it began, whatever it was doing, pauses included.
    Between the pilot's end and the first map there is no goal: the vehicle holds station.

    Args:
        pilot: waypoints of the pilot survey, [K, 2] in metres.
        workspace: every goal is clipped into it.
        arrival: how arrival is judged: goal_radius, capture_radius and max_speed of ``GoalWatch``.
        max_samples: samples, counted by the mapper; 0 = no limit.
        max_duration: seconds; 0 = no limit.
    """

    def __init__(
        self,
        pilot: np.ndarray,
        workspace: Extent,
        *,
        arrival: Mapping[str, float] | None = None,
        max_samples: int = 0,
        max_duration: float = 0.0,
    ) -> None:
        self._workspace = workspace
        self._waypoints = list(workspace.clip(np.asarray(pilot, dtype=float)))
        self.arrival = dict(arrival or {})
        self.max_samples = max_samples
        self.max_duration = max_duration
        self.state = PILOT
        self.position: np.ndarray | None = None
        self._measured = 0.0
        self.began: float | None = None
        self.samples = 0
        self.arrivals: Counter[str] = Counter()  # reached, passed, timeout
        self._choose: Choose | None = None
        self._resumed = PILOT  # what a pause came from
        self._target: np.ndarray | None = None
        self._watch: GoalWatch | None = None

    @property
    def goal(self) -> np.ndarray | None:
        """Where the vehicle shall go now, [2]; None where it shall hold station."""
        return self._target if self.state in (PILOT, EXPLORING) else None

    @property
    def plan(self) -> np.ndarray:
        """Position, goal and the pilot's remaining waypoints, [K, 2]; empty without a goal."""
        if self.goal is None or self.position is None:
            return np.empty((0, 2))
        rest = self._waypoints if self.state == PILOT else []
        return np.array([self.position, self.goal, *rest])

    def locate(self, position: np.ndarray, now: float, measured: float | None = None) -> str | None:
        """Take the vehicle's position [2] at ``now`` (s); how it arrived at a goal, or None.

        ``measured`` (s) is the position's own stamp. A goal's time counts in it: positions that
        waited in a queue while the clock ran on are judged as if they came in time.
        """
        self.position = np.asarray(position, dtype=float)
        self._measured = now if measured is None else measured
        if self.began is None:
            self.began = now
        self.tick(now)
        if self.state not in (PILOT, EXPLORING):
            return None
        arrival = None
        if self._watch is not None:
            arrival = self._watch.update(self.position, self._measured)
        if arrival is not None:
            self.arrivals[arrival] += 1
            self._target = self._watch = None
        if self._target is None:
            self._choose_next()
        return arrival

    def tick(self, now: float) -> None:
        """Let ``now`` (s) come, which may end the mission."""
        if self.began is not None and self.max_duration and now - self.began >= self.max_duration:
            self.state = DONE

    def explore_with(self, choose: Choose) -> None:
        """A map is there: waypoints after the pilot are chosen by ``choose`` from now on."""
        self._choose = choose
        if self.state == EXPLORING and self._target is None:
            self._choose_next()

    def count_samples(self, samples: int) -> None:
        """The mapper has accepted this many pings so far."""
        self.samples = samples
        if self.max_samples and samples >= self.max_samples:
            self.state = DONE

    def pause(self) -> tuple[bool, str]:
        """Hold station until ``resume``; whether that was possible, and an answer in words."""
        if self.state == DONE:
            return False, "the mission is done"
        if self.state == PAUSED:
            return False, "the mission is paused already"
        self._resumed, self.state = self.state, PAUSED
        return True, f"paused while {self._resumed}"

    def resume(self) -> tuple[bool, str]:
        """Go on where the pause came; whether that was possible, and an answer in words."""
        if self.state != PAUSED:
            return False, f"the mission is not paused, but {self.state}"
        self.state = self._resumed
        if self._target is not None:
            # A new time limit, which begins with the next position.
            self._watch = GoalWatch(self._target, **self.arrival)
        return True, f"{self.state} again"

    def _choose_next(self) -> None:
        if self.state == PILOT:
            if self._waypoints:
                self._head_for(self._waypoints.pop(0))
                return
            self.state = EXPLORING
        if self._choose is not None and self.position is not None:
            goal = self._choose(self.position)
            if goal is not None:
                self._head_for(self._workspace.clip(goal))

    def _head_for(self, goal: np.ndarray) -> None:
        self._target = goal
        self._watch = GoalWatch(goal, **self.arrival)
        # Its time begins now; an arrival at once is judged with the next position.
        assert self.position is not None
        self._watch.update(self.position, self._measured)
