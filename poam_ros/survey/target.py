"""The end of a mission by its map, and the way there: gaps are closed before the budget is spent.

No rclpy. A mission is looked at and led from outside, as by its watchdog.
"""

from __future__ import annotations

import math

import numpy as np

from ..clock import SECOND
from ..geometry import Grid
from ..maps import ElevationMap
from ..planning.gaps import Gaps, Reach, closing, diagonal, way_along
from .judgement import Judgement, measure
from .mission import Mission
from .states import DONE, EXPLORING, PAUSED, PILOT, WAITING
from .target_settings import TargetSettings
from .water import level_fault

#: Times that the vehicle goes to a place without a ping of it, before it is left out.
TRIES = 3
#: The way to the gaps is reckoned so much longer: vehicles turn, and pings come late into the map.
RESERVE = 1.3
#: s of the mission between two looks whether the gaps are due.
LOOK_S = 5.0
NOWHERE = np.empty((0, 2))


class Target:
    """Judges maps, ends a mission by them, and says where to go to close gaps.

    Args:
        settings: what is asked for.
        state: of the mission by now; one that is done already keeps its reason.

    Attributes:
        settings: may be replaced at any time.
        level: of the water over the map's zero, in m, as it was heard last; None before.
        judged: the newest map; None before there is one.
        closing: whether the gaps are gone to now.
    """

    def __init__(self, settings: TargetSettings, state: str = WAITING) -> None:
        self.settings = settings
        self.level: float | None = None  # the settings' holds until then
        self._state = state  # when the mission was looked at last
        self._spent: str | None = None  # why it ended, where that was not by the target
        self._starts = 0  # of the mission that it knows of
        self.forget()

    def hear(self, level: float) -> str:
        """The water's level over the map's zero, in m; in words what is wrong with it, or ""."""
        fault = level_fault(level)
        self.level = self.level if fault else level
        return fault

    def forget(self) -> None:
        """There is no map any more, or another mission."""
        self.judged: Judgement | None = None
        self.closing = self._met = False
        self._drawn: ElevationMap | None = None  # what was judged
        self._turned_at = -math.inf  # s, when it was looked at last whether gaps are due
        self._reach: Reach | None = None
        self._given_up = np.zeros(0, dtype=bool)
        self._tries = np.zeros(0, dtype=int)  # to close a gap from each cell [rows, columns]

    @property
    def words(self) -> str:
        """How the newest map stands; empty where nothing is asked for, or nothing is known."""
        if self.judged is None or not self.settings.on:
            return ""
        return self.judged.words(self.settings)

    @property
    def fault(self) -> str:
        """Why the target cannot be met, in words; empty where nothing is known."""
        return self.judged.fault if self.judged is not None and self.settings.on else ""

    def facts(self) -> dict[str, object]:
        """How it stands, by the names that diagnostics have."""
        judged, settings = self.judged, self.settings
        if judged is None or not settings.on:
            return {}
        values: dict[str, object] = {"target": self.words}
        if settings.target_tvu:
            values["target_share"] = judged.share
        if settings.guarantees:
            values |= {"target_gaps": judged.gaps, "target_left_out": judged.left_out}
            values["target_closing"] = str(self.closing).lower()
        return values

    def judge(self, mission: Mission, drawn: ElevationMap, now: float) -> None:
        """A map is there at ``now`` (s): the mission ends by it, or turns to the gaps at once."""
        self._follow(mission)
        if not self.settings.on or mission.position is None:
            return
        if mission.state in (WAITING, PILOT):
            self.forget()
        self.judged, _ = self._measure(mission, drawn, NOWHERE)
        self._drawn, self._turned_at = drawn, -math.inf
        paused = mission.state == PAUSED and mission.under_way == EXPLORING
        if (mission.state == EXPLORING or paused) and self._ends(mission):
            self._met = True
            mission.end(self.words)
        self.tick(mission, now)
        self.look(mission)

    def tick(self, mission: Mission, now: float) -> None:
        """Let ``now`` (s) come: where gaps are due, the goals of the planner are left for them."""
        self._follow(mission)
        drawn = self._drawn
        if drawn is None or mission.state != EXPLORING or self.closing:
            return
        if 0 <= now - self._turned_at < LOOK_S:
            return
        self._turned_at = now
        self.closing = self._due(mission, self._gaps(mission, drawn), now)
        if self.closing:
            mission.legs.clear()

    def path(self, mission: Mission, drawn: ElevationMap, now: float) -> np.ndarray | None:
        """The next goal [1, 2] where a gap is to be closed now; None: as the planner likes."""
        self._follow(mission)
        if not self.settings.guarantees or mission.position is None or self.judged is None:
            return None
        gaps = self._gaps(mission, drawn)
        self.closing = len(gaps) > 0 and (self.closing or self._due(mission, gaps, now))
        while self.closing and len(gaps):
            goal = closing(mission.position, gaps)[0]
            near = np.linalg.norm(gaps.places - goal, axis=1) <= gaps.limit
            near |= (gaps.entries == goal).all(1)
            same = max(float(gaps.limit[near].min()) / 2, diagonal(drawn.grid))
            if self._tries_about(drawn.grid, goal, same) < TRIES:
                self._tries += drawn.grid.counted(goal[None]).astype(int)
                return goal[None]
            self._given_up |= drawn.grid.counted(gaps.places[near]) > 0
            gaps = gaps[~near]
        self.closing = False
        return None

    def look(self, mission: Mission) -> None:
        """After whatever may have ended the mission: the reason says how the target stands.

        Where a budget ended it, that is said anew for the maps that come after.
        """
        self._follow(mission)
        before, self._state = self._state, mission.state
        if mission.state != DONE:
            self._spent, self._met = None, False
        elif before != DONE and not self._met:
            self._spent = mission.reason
        if self._spent is not None and self.words:
            mission.reason = f"{self._spent}; {self.words}"

    def _follow(self, mission: Mission) -> None:
        """Forget a mission before this one: the gaps that it gave up may be closed now."""
        if mission.starts != self._starts:
            self._starts = mission.starts
            self.forget()

    def _tries_about(self, grid: Grid, goal: np.ndarray, radius: float) -> int:
        """How often the vehicle was sent to within a radius in m of a goal [2], for a gap."""
        tries, cells = self._tries.ravel(), np.flatnonzero(self._tries)
        away = np.linalg.norm(grid.points[cells] - goal, axis=1)
        return int(tries[cells[away <= radius]].sum())

    def _ends(self, mission: Mission) -> bool:
        """Whether all is met, and that is the end."""
        assert self.judged is not None
        if self.judged.fault or self.judged.gaps:
            return False
        # The guarantee alone: the rest of a budget is for the map.
        return self._within() if self.settings.target_tvu else mission.budget.endless

    def _due(self, mission: Mission, gaps: Gaps, now: float) -> bool:
        """Whether the gaps are to be closed now: nothing is left to do but that, or no budget."""
        budget = mission.budget
        if not len(gaps) or mission.position is None:
            return False
        if self._within() if self.settings.target_tvu else budget.endless:
            return True
        speed = mission.legs.arrival.get("max_speed", 1.0)
        left = budget.way_left(mission.track.length, now, speed)
        if math.isinf(left):
            return False
        goals = closing(mission.position, gaps)
        turns = math.pi * mission.legs.turning_radius * len(goals)
        return RESERVE * (way_along(mission.position, goals, mission.legs.routes) + turns) >= left

    def _gaps(self, mission: Mission, drawn: ElevationMap) -> Gaps:
        """Where the vehicle has been since, there are pings that the map does not hold yet."""
        return self._measure(mission, drawn, mission.track.since(drawn.stamp_ns / SECOND))[1]

    def _within(self) -> bool:
        return self.judged is not None and self.judged.share >= self.settings.target_share

    def _measure(
        self, mission: Mission, drawn: ElevationMap, more: np.ndarray
    ) -> tuple[Judgement, Gaps]:
        reach = self._reach
        if reach is None or not reach.grid.same(drawn.grid):
            assert mission.position is not None
            reach = self._reach = Reach(drawn.grid, mission.legs.routes, mission.position)
            self._given_up = np.zeros(drawn.grid.shape, dtype=bool)
            self._tries = np.zeros(drawn.grid.shape, dtype=int)
        level = self.settings.water_level if self.level is None else self.level
        return measure(self.settings, level, drawn, reach, self._given_up, more)
