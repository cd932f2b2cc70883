"""The mission's states and goals, from positions, maps and counts. No rclpy."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping

import numpy as np

from ..errors import InputError
from ..geometry import Extent
from ..planning.arrival import CAPTURE_RADIUS, GoalWatch
from ..planning.situation import Situation
from .track import Track

#: The states, as they are published. A further one, ``waiting``, is reserved.
PILOT, EXPLORING, PAUSED, DONE = "pilot", "exploring", "paused", "done"
STATES = (PILOT, EXPLORING, PAUSED, DONE)

CLIP_SLACK = 1e-6  # m: rounding may put a waypoint on the border a last digit beyond it

Choose = Callable[[np.ndarray], "np.ndarray | None"]
"""The next waypoints [K, 2] from the vehicle's position [2]; None where the map allows none."""


class Mission:
    """Pilot survey, then exploration until the budget is spent; can be paused anywhere before.

    Goals wait in a queue: the pilot's waypoints first; whenever it has run empty, the path that
    ``choose`` gives. The mission begins with the first position. It is done once ``max_samples``
    were taken or ``max_duration`` seconds have passed since it began, whatever it was doing, pauses
    included. Between the pilot's end and the first map there is no goal: the vehicle holds station.

    Args:
        pilot: waypoints of the pilot survey, [K, 2] in metres; K = 0 where there is none.
        workspace: every goal is clipped into it.
        arrival: how arrival is judged: goal_radius, capture_radius and max_speed of ``GoalWatch``.
        max_samples: samples, counted by the mapper; 0 = no limit.
        max_duration: seconds; 0 = no limit.

    Attributes:
        clipped: goals so far that lay outside the workspace.
        track: where the vehicle was, and when.

    Raises:
        InputError: if the pilot is no path.
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
        self.workspace = workspace
        self.arrival = dict(arrival or {})
        self.max_samples = max_samples
        self.max_duration = max_duration
        self.state = PILOT
        self.position: np.ndarray | None = None
        self.began: float | None = None
        self.samples = 0
        self.arrivals: Counter[str] = Counter()  # reached, passed, timeout
        self.clipped = 0
        self.track = Track(workspace)
        self._choose: Choose | None = None
        self._resumed = PILOT  # what a pause came from
        self._target: np.ndarray | None = None
        self._watch: GoalWatch | None = None
        self._queue: deque[np.ndarray] = deque()
        self._enqueue(pilot)

    @property
    def goal(self) -> np.ndarray | None:
        """Where the vehicle shall go now, [2]; None where it shall hold station."""
        return self._target if self.state in (PILOT, EXPLORING) else None

    @property
    def plan(self) -> np.ndarray:
        """Position, goal and the goals queued after it, [K, 2]; empty without a goal."""
        if self.goal is None or self.position is None:
            return np.empty((0, 2))
        return np.array([self.position, self.goal, *self._queue])

    @property
    def waits_for_map(self) -> bool:
        """Whether it holds station because there is no map yet, or the map allows no choice."""
        return self.state == EXPLORING and self._target is None

    @property
    def samples_left(self) -> int | None:
        """Samples until the mission is done; None where there is no limit."""
        return max(0, self.max_samples - self.samples) if self.max_samples else None

    @property
    def way_left(self) -> float:
        """Metres until the mission is done, at as many samples a metre as so far; may be inf."""
        if self.samples_left is None or not self.samples:
            return math.inf
        return self.samples_left * self.track.length / self.samples

    def situation(self, yaw: float, speed: float) -> Situation:
        """What a planner is to know, at this heading (rad) and top speed (m/s)."""
        assert self.position is not None
        return Situation(
            self.position,
            self.workspace,
            yaw,
            speed,
            turning_radius=self.arrival.get("capture_radius", CAPTURE_RADIUS) / 2,
            samples_left=self.samples_left,
            way_left=self.way_left,
            track=self.track.since(-math.inf),
            visited=self.track.visited(),
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
        if self.began is None:
            self.began = now
        self.tick(now)
        if self.state not in (PILOT, EXPLORING):
            return None
        arrival = None
        if self._watch is not None:
            arrival = self._watch.update(self.position, measured)
        if arrival is not None:
            self.arrivals[arrival] += 1
            self._target = self._watch = None
        if self._target is None:
            self._head_on()
        return arrival

    def tick(self, now: float) -> None:
        """Let ``now`` (s) come, which may end the mission."""
        if self.began is None:
            return
        self.began = min(self.began, now)  # a clock that is set back does not lengthen it
        if self.max_duration and now - self.began >= self.max_duration:
            self.state = DONE

    def explore_with(self, choose: Choose) -> None:
        """A map is there: waypoints after the pilot are chosen by ``choose`` from now on."""
        self._choose = choose
        if self.waits_for_map:
            self._head_on()

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

    def facts(self) -> dict[str, object]:
        """How it stands, by the names that diagnostics have."""
        return {
            "state": self.state,
            "samples": self.samples,
            "goals_reached": self.arrivals["reached"],
            "goals_passed": self.arrivals["passed"],
            "goals_timed_out": self.arrivals["timeout"],
            "goals_clipped": self.clipped,
        }

    def _head_on(self) -> None:
        """To the next goal in the queue, which is filled where it is empty."""
        if not self._queue:
            self.state = EXPLORING
            path = None
            if self._choose is not None and self.position is not None:
                path = self._choose(self.position)
            if path is not None:
                self._enqueue(path)
        if self._queue:
            self._target = self._queue.popleft()
            self._watch = GoalWatch(self._target, **self.arrival)

    def _enqueue(self, path: np.ndarray) -> None:
        """Queue waypoints [K, 2], each clipped into the workspace."""
        path = np.asarray(path, dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not np.all(np.isfinite(path)):
            raise InputError(f"waypoints: expected finite numbers [K, 2], got {path.tolist()}")
        self.clipped += int((~self.workspace.contains(path, CLIP_SLACK)).sum())
        self._queue.extend(self.workspace.clip(path))
