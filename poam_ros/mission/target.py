"""The end of a mission by its map, and the way there: gaps are closed before the budget is spent.

No rclpy. A mission is looked at and led from outside, as by its watchdog.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.settings import check, setting
from ..frontend.events import DONE, EXPLORING, PAUSED, PILOT, WAITING
from ..frontend.settings import water_level_setting
from ..frontend.water import level_fault
from ..planning import gaps as coverage
from ..planning.gaps import CoverageGaps, ReachableCells, diagonal, to_nearest, tour_length
from ..planning.tvu import ORDERS, shares
from .mission import Mission


def _order(name: str) -> None:
    if name and name not in ORDERS:
        raise InputError(f"expected one of {', '.join(ORDERS)}, or nothing, got {name[:40]!r}")


@dataclass(frozen=True)
class TargetSettings:
    """When a map is good enough. docs/good-enough.md explains.

    Raises:
        InputError: a value is outside its range.
    """

    prefix = "target"

    tvu: str = setting(
        "",
        "End the mission when target.share of the workspace is within the total vertical "
        "uncertainty of this S-44 order: exclusive, special, 1a, 1b or 2. Empty: no such end",
        mutable=True,
        check=_order,
    )
    share: float = setting(
        0.95,
        "Share of the workspace, as far as it is under water and may be entered, that is to be "
        "within target.tvu",
        minimum=0.001,
        maximum=1.0,
        mutable=True,
    )
    distance: float = setting(
        0.0,
        "Leave no place farther than this from a ping: close the gaps before the mission ends. "
        "0, with target.depths 0: no such guarantee",
        "m",
        minimum=0.0,
        maximum=1e5,
        mutable=True,
    )
    depths: float = setting(
        0.0,
        "Allow this many times the depth instead where that is more than target.distance. "
        "max(3 d, 25 m): 3 and 25",
        minimum=0.0,
        maximum=100.0,
        mutable=True,
    )
    water_level: float = water_level_setting()

    def __post_init__(self) -> None:
        check(self)

    @property
    def limits_distance(self) -> bool:
        """Whether places may only be so far from a ping."""
        return self.distance > 0 or self.depths > 0

    @property
    def by_depth(self) -> bool:
        """Whether what is asked for depends on the depth."""
        return bool(self.tvu) or self.depths > 0

    @property
    def on(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.tvu) or self.limits_distance

    @property
    def max_distance_text(self) -> str:
        """How far from a ping a place may be, in words."""
        near, depths = f"{self.distance:g} m", f"{self.depths:g} x the depth"
        if not self.depths:
            return near
        return f"max({depths}, {near})" if self.distance else depths


@dataclass(frozen=True)
class TargetStatus:
    """How a map stands against a target.

    Attributes:
        share: of the places under water that may be entered, within the TVU; NaN where none is.
        gaps: places that are farther from a ping than they may be, as a share of all.
        farthest: of them, in m; 0 without any.
        excluded: those besides that no way leads near to (over water, where depths count), or
            where no ping was accepted, as well.
        fault: why the target cannot be met, in words; empty where nothing is known.
    """

    share: float = math.nan
    gaps: float = 0.0
    farthest: float = 0.0
    excluded: float = 0.0
    fault: str = ""

    def text(self, settings: TargetSettings) -> str:
        """In words; shares are never rounded to look better than they are."""
        parts = []
        if settings.tvu and not math.isnan(self.share):
            within = f"TVU within {settings.tvu}"
            parts.append(f"{within} in {_percent(self.share, math.floor)} of the workspace")
        if self.gaps:
            gaps = _percent(self.gaps, math.ceil)
            far = (
                f"{gaps} of the workspace farther than {settings.max_distance_text} from every ping"
            )
            parts.append(f"{far}, {self.farthest:.1f} m at most")
        elif settings.limits_distance and not self.fault:
            parts.append(f"every place within {settings.max_distance_text} of a ping")
        if self.excluded:
            left_out = _percent(self.excluded, math.ceil)
            dry = "it is dry, " if settings.depths else ""
            why = f"{dry}no way leads near, or no ping is accepted there"
            parts.append(f"{left_out} left out: {why}")
        return "; ".join([*parts, *([self.fault] if self.fault else [])])


def assess(
    settings: TargetSettings,
    level: float,
    drawn: ElevationMap,
    reach: ReachableCells,
    given_up: np.ndarray,
    more: np.ndarray,
) -> tuple[TargetStatus, CoverageGaps]:
    """A map against a target, and the places that are too far from every ping.

    Args:
        settings: the target.
        level: of the water over the map's zero, in m.
        drawn: the map, with its density.
        reach: where on its grid the vehicle may go.
        given_up: cells that are left out where they are too far [rows, columns].
        more: places to be counted as pings besides the map's [K, 2], in m.
    """
    if not reach.enterable.any():  # it is of elsewhere: nothing is left out by that, or done
        return TargetStatus(fault="no cell of the map may be entered"), CoverageGaps.none()
    depth, fault = level - drawn.mean, ""
    share = math.nan
    if settings.tvu:
        std = np.sqrt(drawn.variance[reach.enterable])
        with np.errstate(invalid="ignore"):
            share = shares(depth[reach.enterable], std, [settings.tvu])[settings.tvu]
    if settings.by_depth and not (reach.enterable & (depth > 0)).any():
        fault = f"no place that may be entered is under the water's level of {level:g} m"
    if not settings.limits_distance:
        return TargetStatus(share, fault=fault), CoverageGaps.none()
    # Without depths in the target nobody may have parts where the water's level is.
    dry = (depth <= 0) & (settings.depths > 0)
    away, entry = reach.away, reach.entry
    if (dry & reach.enterable).any():  # as a keep-out: from outside, as far as that goes
        away, entry = to_nearest(drawn.grid, reach.enterable & ~dry)
    limit = _limit(settings, drawn, depth)
    if drawn.density is None:
        fault = "the map does not say where its pings are (field density)"
    elif not (limit > 0)[~dry].all():
        fault = (
            fault or f"{settings.max_distance_text} is not more than a cell of the map everywhere"
        )
    pinged = np.zeros(drawn.grid.shape) if drawn.density is None else drawn.density
    distance, _ = to_nearest(drawn.grid, (pinged > 0) | (drawn.grid.counted(more) > 0))
    far = reach.counted & (distance > limit)
    lost = far & ((away > limit) | given_up)
    gaps, total = far & ~lost, reach.counted.sum()
    farthest = float(distance[gaps].max(initial=0.0))
    judged = TargetStatus(share, gaps.sum() / total, farthest, lost.sum() / total, fault)
    points, excess = drawn.grid.points, (distance - limit)[gaps]
    return judged, CoverageGaps(points[gaps.ravel()], limit[gaps], excess, points[entry[gaps]])


def _limit(settings: TargetSettings, drawn: ElevationMap, depth: np.ndarray) -> np.ndarray:
    """How far the centre of each cell may be from that of a ping's cell [rows, columns], in m.

    A place may be half a diagonal from its cell's centre, and so may the ping.
    """
    wet = np.where(depth > 0, depth, 0.0)  # NaN is no depth
    apart = np.maximum(settings.distance, settings.depths * wet)
    return apart - diagonal(drawn.grid)


def _percent(share: float, whole: Callable[[float], int]) -> str:
    return f"{whole(round(share * 1000, 9)) / 10:.1f} %"


#: Times that the vehicle goes to a place without a ping of it, before it is left out.
MAX_VISITS = 3
#: The way to the gaps is reckoned so much longer: vehicles turn, and pings come late into the map.
DISTANCE_MARGIN = 1.3
#: s of the mission between two looks whether the gaps are due.
CHECK_PERIOD_S = 5.0
NOWHERE = np.empty((0, 2))


class MapTarget:
    """Judges maps, ends a mission by them, and says where to go to close gaps.

    Args:
        settings: what is asked for.
        state: of the mission by now; one that is done already keeps its reason.

    Attributes:
        settings: may be replaced at any time.
        level: of the water over the map's zero, in m, as it was heard last; None before.
        status: the newest map; None before there is one.
        closing_gaps: whether the gaps are gone to now.
    """

    def __init__(self, settings: TargetSettings, state: str = WAITING) -> None:
        self.settings = settings
        self.level: float | None = None  # the settings' holds until then
        self._state = state  # when the mission was looked at last
        self._spent: str | None = None  # why it ended, where that was not by the target
        self._starts = 0  # of the mission that it knows of
        self.forget()

    def set_water_level(self, level: float) -> str:
        """The water's level over the map's zero, in m; in words what is wrong with it, or ""."""
        fault = level_fault(level)
        self.level = self.level if fault else level
        return fault

    def forget(self) -> None:
        """There is no map any more, or another mission."""
        self.status: TargetStatus | None = None
        self.closing_gaps = self._met = False
        self._drawn: ElevationMap | None = None  # what was judged
        self._turned_at = -math.inf  # s, when it was looked at last whether gaps are due
        self._reach: ReachableCells | None = None
        self._given_up = np.zeros(0, dtype=bool)
        self._tries = np.zeros(0, dtype=int)  # to close a gap from each cell [rows, columns]

    @property
    def text(self) -> str:
        """How the newest map stands; empty where nothing is asked for, or nothing is known."""
        if self.status is None or not self.settings.on:
            return ""
        return self.status.text(self.settings)

    @property
    def fault(self) -> str:
        """Why the target cannot be met, in words; empty where nothing is known."""
        return self.status.fault if self.status is not None and self.settings.on else ""

    def diagnostics(self) -> dict[str, object]:
        """How it stands, by the names that diagnostics have."""
        judged, settings = self.status, self.settings
        if judged is None or not settings.on:
            return {}
        values: dict[str, object] = {"target": self.text}
        if settings.tvu:
            values["target_share"] = judged.share
        if settings.limits_distance:
            values |= {"target_gaps": judged.gaps, "target_left_out": judged.excluded}
            values["target_closing"] = str(self.closing_gaps).lower()
        return values

    def assess(self, mission: Mission, drawn: ElevationMap, now: float) -> None:
        """A map is there at ``now`` (s): the mission ends by it, or turns to the gaps at once."""
        self._follow(mission)
        if not self.settings.on or mission.position is None:
            return
        if mission.state in (WAITING, PILOT):
            self.forget()
        self.status, _ = self._measure(mission, drawn, NOWHERE)
        self._drawn, self._turned_at = drawn, -math.inf
        paused = mission.state == PAUSED and mission.state_before_pause == EXPLORING
        if (mission.state == EXPLORING or paused) and self._ends(mission):
            self._met = True
            mission.end(self.text)
        self.tick(mission, now)
        self.update_reason(mission)

    def tick(self, mission: Mission, now: float) -> None:
        """Let ``now`` (s) come: where gaps are due, the goals of the planner are left for them."""
        self._follow(mission)
        drawn = self._drawn
        if drawn is None or mission.state != EXPLORING or self.closing_gaps:
            return
        if 0 <= now - self._turned_at < CHECK_PERIOD_S:
            return
        self._turned_at = now
        self.closing_gaps = self._due(mission, self._gaps(mission, drawn), now)
        if self.closing_gaps:
            mission.discard_goals()

    def next_goal(self, mission: Mission, drawn: ElevationMap, now: float) -> np.ndarray | None:
        """The next goal [1, 2] where a gap is to be closed now; None: as the planner likes."""
        self._follow(mission)
        if not self.settings.limits_distance or mission.position is None or self.status is None:
            return None
        gaps = self._gaps(mission, drawn)
        self.closing_gaps = len(gaps) > 0 and (self.closing_gaps or self._due(mission, gaps, now))
        while self.closing_gaps and len(gaps):
            goal = coverage.gap_closing_goals(mission.position, gaps)[0]
            near = np.linalg.norm(gaps.places - goal, axis=1) <= gaps.limit
            near |= (gaps.entries == goal).all(1)
            same = max(float(gaps.limit[near].min()) / 2, diagonal(drawn.grid))
            if self._tries_about(drawn.grid, goal, same) < MAX_VISITS:
                self._tries += drawn.grid.counted(goal[None]).astype(int)
                return goal[None]
            self._given_up |= drawn.grid.counted(gaps.places[near]) > 0
            gaps = gaps[~near]
        self.closing_gaps = False
        return None

    def update_reason(self, mission: Mission) -> None:
        """After whatever may have ended the mission: the reason says how the target stands.

        Where a budget ended it, that is parts anew for the maps that come after.
        """
        self._follow(mission)
        before, self._state = self._state, mission.state
        if mission.state != DONE:
            self._spent, self._met = None, False
        elif before != DONE and not self._met:
            self._spent = mission.reason
        if self._spent is not None and self.text:
            mission.explain(f"{self._spent}; {self.text}")

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
        assert self.status is not None
        if self.status.fault or self.status.gaps:
            return False
        # The guarantee alone: the rest of a budget is for the map.
        return self._within() if self.settings.tvu else mission.budget.unlimited

    def _due(self, mission: Mission, gaps: CoverageGaps, now: float) -> bool:
        """Whether the gaps are to be closed now: nothing is left to do but that, or no budget."""
        budget = mission.budget
        if not len(gaps) or mission.position is None:
            return False
        if self._within() if self.settings.tvu else budget.unlimited:
            return True
        speed = mission.goals.arrival.get("max_speed", 1.0)
        left = budget.distance_left(mission.track.length, now, speed)
        if math.isinf(left):
            return False
        goals = coverage.gap_closing_goals(mission.position, gaps)
        turns = math.pi * mission.goals.turning_radius * len(goals)
        return (
            DISTANCE_MARGIN * (tour_length(mission.position, goals, mission.goals.routes) + turns)
            >= left
        )

    def _gaps(self, mission: Mission, drawn: ElevationMap) -> CoverageGaps:
        """Where the vehicle has been since, there are pings that the map does not hold yet."""
        return self._measure(mission, drawn, mission.track.since(drawn.stamp_ns / SECOND))[1]

    def _within(self) -> bool:
        return self.status is not None and self.status.share >= self.settings.share

    def _measure(
        self, mission: Mission, drawn: ElevationMap, more: np.ndarray
    ) -> tuple[TargetStatus, CoverageGaps]:
        reach = self._reach
        if reach is None or not reach.grid.same(drawn.grid):
            assert mission.position is not None
            reach = self._reach = ReachableCells(drawn.grid, mission.goals.routes, mission.position)
            self._given_up = np.zeros(drawn.grid.shape, dtype=bool)
            self._tries = np.zeros(drawn.grid.shape, dtype=int)
        level = self.settings.water_level if self.level is None else self.level
        return assess(self.settings, level, drawn, reach, self._given_up, more)
