"""The map target: ends a mission by its map, and closes coverage gaps while the budget lasts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geometry import Grid, path_length
from ..core.maps import ElevationMap
from ..core.settings import Settings, setting
from ..frontend.events import EXPLORING
from ..frontend.pings import level_fault, water_level_setting
from ..planning.areas import inside
from ..planning.planners import GridView, MapView, PlannerEntry
from ..planning.routes import Routes
from ..planning.tvu import ORDERS, shares
from .mission import Mission
from .states import MET


def _order(name: str) -> None:
    if name and name not in ORDERS:
        raise InputError(f"expected one of {', '.join(ORDERS)}, or nothing, got {name[:40]!r}")


@dataclass(frozen=True)
class TargetSettings(Settings):
    """When a map is good enough. See docs/good-enough.md."""

    prefix = "target"

    tvu: str = setting(
        "", "End the mission when target.share of the workspace is within the total vertical "
        "uncertainty of this S-44 order: exclusive, special, 1a, 1b or 2. Empty: never",
        mutable=True, check=_order,
    )  # fmt: skip
    share: float = setting(
        0.95, "Share of the navigable workspace under water that must be within target.tvu",
        minimum=0.001, maximum=1.0, mutable=True,
    )  # fmt: skip
    distance: float = setting(
        0.0, "Leave no place farther than this from a ping: close the gaps before the mission "
        "ends. 0, with target.depth_factor 0: no limit", "m", minimum=0.0, maximum=1e5,
        mutable=True,
    )  # fmt: skip
    depth_factor: float = setting(
        0.0, "Allow this many times the depth where that is more than target.distance. For max(3 "
        "d, 25 m): 3 and 25", minimum=0.0, maximum=100.0, mutable=True,
    )  # fmt: skip
    water_level: float = water_level_setting()

    @property
    def limits_distance(self) -> bool:
        """Whether the distance of places to the nearest ping is limited."""
        return self.distance > 0 or self.depth_factor > 0

    @property
    def on(self) -> bool:
        """Whether there is a target."""
        return bool(self.tvu) or self.limits_distance

    @property
    def max_distance_text(self) -> str:
        """The largest distance to a ping, as text."""
        near, depths = f"{self.distance:g} m", f"{self.depth_factor:g} x the depth"
        if not self.depth_factor:
            return near
        return f"max({depths}, {near})" if self.distance else depths


@dataclass(frozen=True)
class TargetStatus:
    """How a map compares with the target.

    Attributes:
        share: of the navigable places under water that are within the TVU; NaN: none is.
        gaps: share of all places that are too far from every ping and can be reached.
        farthest: largest distance of these to a ping, in m; 0 without any.
        excluded: share of places that are too far, but that no route leads close to (over water, if
            depths count) or where no ping was accepted.
        fault: why the target cannot be met, as text; empty: no known reason.
    """

    share: float = math.nan
    gaps: float = 0.0
    farthest: float = 0.0
    excluded: float = 0.0
    fault: str = ""

    def text(self, settings: TargetSettings) -> str:
        """As text; shares are rounded so that they never look better than they are."""
        parts = []
        share, gaps = _percent(self.share, math.floor), _percent(self.gaps, math.ceil)
        limit = settings.max_distance_text
        if settings.tvu and share:
            parts.append(f"TVU within {settings.tvu} in {share} of the workspace")
        if self.gaps:
            far = f"{gaps} of the workspace farther than {limit} from every ping"
            parts.append(f"{far}, {self.farthest:.1f} m at most")
        elif settings.limits_distance and not self.fault:
            parts.append(f"every place within {limit} of a ping")
        if self.excluded:
            dry = "it is dry, " if settings.depth_factor else ""
            why = f"{dry}no route leads close, or no ping is accepted there"
            parts.append(f"{_percent(self.excluded, math.ceil)} excluded: {why}")
        return "; ".join([*parts, *filter(None, [self.fault])])


def _percent(share: float, whole: Callable[[float], int]) -> str:
    return "" if math.isnan(share) else f"{whole(round(share * 1000, 9)) / 10:.1f} %"


#: Visits to a place without an accepted ping, before it is excluded.
MAX_VISITS = 3
#: Factor on the distance needed for the gaps: vehicles turn, and pings enter the map late.
DISTANCE_MARGIN = 1.3
#: The purpose of goals that close coverage gaps.
GAPS = "gaps"
#: s of the mission between two checks whether the gaps are due.
CHECK_PERIOD_S = 5.0


#: A coverage gap, a record of an array [U]: a place that is too far from every ping; its allowed
#: distance from the nearest one; how far beyond that it is, infinite without any ping; and the
#: vehicle's goal for it. All in m.
GAP = np.dtype([("place", float, 2), ("limit", float), ("excess", float), ("entry", float, 2)])
NO_GAPS = np.recarray(0, GAP)


class MapTarget:
    """Assesses the maps of a mission, which may end it, and chooses its waypoints: those that close
    coverage gaps, or the planner's.

    Args:
        settings: of the target.
        mission: asked for its state; ended, or freed of its goals, by its map.

    Attributes:
        settings: of the target, the present ones.
        level: last water level received, above the datum in m; None: use that of the settings.
        status: of the newest map; None: no map yet.
    """

    def __init__(self, settings: TargetSettings, mission: Mission) -> None:
        self.settings, self._mission = settings, mission
        self.level: float | None = None
        self.forget()

    def set_water_level(self, level: float) -> str:
        """Set the water level above the datum, in m; returns what is wrong with it, or ""."""
        fault = level_fault(level)
        self.level = self.level if fault else level
        return fault

    def forget(self) -> None:
        """Forget the map: it was cleared, or another mission began."""
        self.status: TargetStatus | None = None
        self._drawn: ElevationMap | None = None  # the assessed map
        self._checked_at = -math.inf  # time of the last check whether gaps are due, s
        self._reach: ReachableCells | None = None
        self._given_up = np.zeros(0, dtype=bool)
        self._visits = np.zeros(0, dtype=int)  # visits to close a gap, by cell [rows, columns]

    @property
    def text(self) -> str:
        """The status as text; empty without a target or a map."""
        if self.status is None or not self.settings.on:
            return ""
        return self.status.text(self.settings)

    @property
    def fault(self) -> str:
        """Why the target cannot be met, as text; empty: no known reason."""
        return self.status.fault if self.status is not None and self.settings.on else ""

    def diagnostics(self) -> dict[str, object]:
        """The status by its keys in diagnostics."""
        status, settings = self.status, self.settings
        if status is None or not settings.on:
            return {}
        values: dict[str, object] = {"target": self.text}
        if settings.tvu:
            values["target_share"] = status.share
        if settings.limits_distance:
            values |= {"target_gaps": status.gaps, "target_left_out": status.excluded}
            values["target_closing"] = str(self._mission.goals.purpose == GAPS).lower()
        return values

    def learn(self, drawn: ElevationMap, now: float) -> None:
        """Let the mission take a new map at ``now`` (s), and end it if that meets the target."""
        mission = self._mission
        mission.learn(drawn)
        if self.settings.on and mission.position is not None:
            self.status, _ = self._assess(drawn, np.empty((0, 2)))
            self._drawn, self._checked_at = drawn, -math.inf
            if not self.status.fault and not self.status.gaps and self._known:
                mission.end(self.text, MET)
        self.follow(now)

    def follow(self, now: float) -> None:
        """Drop the planner's goals when the gaps are due, at ``now`` (s)."""
        drawn, mission = self._drawn, self._mission
        mission.remark = self.text
        if drawn is None or mission.state != EXPLORING or mission.goals.purpose == GAPS:
            return
        if not 0 <= now - self._checked_at < CHECK_PERIOD_S:
            self._checked_at = now
            if self._due(self._gaps(drawn), now):
                mission.goals.clear(GAPS)

    def next_path(
        self, drawn: ElevationMap | None, now: float, yaw: float, speed: float,
        planner: PlannerEntry, options: Any, draws: np.random.Generator,
        view: MapView | None = None,
    ) -> tuple[np.ndarray, str]:  # fmt: skip
        """The next waypoints [K, 2], and their purpose, as ``Mission.drive`` takes them.

        Args:
            drawn: the latest map; None only if a view is given.
            now: the mission's time, in s.
            yaw: heading in rad.
            speed: the vehicle's top speed in m/s.
            planner: asked unless a gap is to be closed.
            options: the planner's own.
            draws: its random generator.
            view: for it; None: the map, with the places visited since.

        Raises:
            InputError: the map allows no choice.
        """
        mission = self._mission
        if drawn is not None and (gap := self.next_goal(drawn, now)) is not None:
            return gap, GAPS
        if view is None:
            assert drawn is not None
            since = drawn.stamp_ns / SECOND
            view = GridView(drawn, mission.track.since(since), mission.track.visited(since))
        return planner.path(view, mission.situation(yaw, speed), options, draws), ""

    def next_goal(self, drawn: ElevationMap, now: float) -> np.ndarray | None:
        """The next goal [1, 2] that closes a gap; None: ask the planner."""
        mission = self._mission
        if not self.settings.limits_distance or mission.position is None or self.status is None:
            return None
        gaps = self._gaps(drawn)
        if mission.goals.purpose != GAPS and not self._due(gaps, now):
            return None
        while len(gaps):
            goal = gap_closing_goals(mission.position, gaps)[0]
            near = np.linalg.norm(gaps.place - goal, axis=1) <= gaps.limit
            near |= (gaps.entry == goal).all(1)
            same = max(float(gaps.limit[near].min()) / 2, diagonal(drawn.grid))
            visited = np.linalg.norm(drawn.grid.points - goal, axis=1) <= same
            if self._visits.ravel()[visited].sum() < MAX_VISITS:
                self._visits += drawn.grid.counted(goal[None]).astype(int)
                return goal[None]
            self._given_up |= drawn.grid.counted(gaps.place[near]) > 0
            gaps = gaps[~near]
        return None

    def _due(self, gaps: np.recarray, now: float) -> bool:
        """Whether to close the gaps now: all else is met, or the budget just suffices."""
        mission = self._mission
        if not len(gaps) or mission.position is None:
            return False
        if self._known:
            return True
        speed = mission.goals.max_speed
        left = mission.budget.distance_left(mission.track.length, now, speed)
        if math.isinf(left):
            return False
        goals = gap_closing_goals(mission.position, gaps)
        turns = math.pi * mission.goals.turning_radius * len(goals)
        way = tour_length(mission.position, goals, mission.goals.routes) + turns
        return DISTANCE_MARGIN * way + mission.extra(now, speed)(goals) >= left

    def _gaps(self, drawn: ElevationMap) -> np.recarray:
        """The gaps, counting places visited since the map as pings."""
        return self._assess(drawn, self._mission.track.since(drawn.stamp_ns / SECOND))[1]

    @property
    def present_level(self) -> float:
        """The water level above the datum, in m."""
        return self.settings.water_level if self.level is None else self.level

    @property
    def _known(self) -> bool:
        """Whether the share is reached. Without a TVU, all of the budget improves the map."""
        if not self.settings.tvu:
            return self._mission.budget.unlimited
        return self.status is not None and self.status.share >= self.settings.share

    def _assess(self, drawn: ElevationMap, more: np.ndarray) -> tuple[TargetStatus, np.recarray]:
        """Compare a map, with its density, with the target; also returns the coverage gaps.
        ``more``: places that count as pings besides the map's [K, 2], in m."""
        reach, mission, settings, grid = self._reach, self._mission, self.settings, drawn.grid
        areas = mission.goals.routes.areas
        if reach is None or not reach.grid.same(grid) or reach.areas is not areas:
            assert mission.position is not None
            reach = self._reach = ReachableCells(grid, mission.goals.routes, mission.position)
            self._given_up = np.zeros(grid.shape, dtype=bool)
            self._visits = np.zeros(grid.shape, dtype=int)
        if not reach.enterable.any():  # the map is of another area: nothing is excluded or met
            return TargetStatus(fault="no cell of the map is navigable"), NO_GAPS
        level, share, fault = self.present_level, math.nan, ""
        depth = level - drawn.mean
        if settings.tvu:
            std = np.sqrt(drawn.variance[reach.enterable])
            with np.errstate(invalid="ignore"):
                share = shares(depth[reach.enterable], std, [settings.tvu])[settings.tvu]
        by_depth = settings.tvu or settings.depth_factor > 0
        if by_depth and not (reach.enterable & (depth > 0)).any():
            fault = f"no navigable place is below the water level of {level:g} m"
        if not settings.limits_distance:
            return TargetStatus(share, fault=fault), NO_GAPS
        # Without depths in the target the water level may be unknown.
        dry = (depth <= 0) & (settings.depth_factor > 0)
        away, entry = reach.away, reach.entry
        if (dry & reach.enterable).any():  # covered from outside, like a keep-out
            away, entry = to_nearest(grid, reach.enterable & ~dry)
        # Place and ping may each be half a diagonal from the centre of their cell. NaN: no depth.
        wet = np.where(depth > 0, depth, 0.0)
        limit = np.maximum(settings.distance, settings.depth_factor * wet) - diagonal(grid)
        if drawn.density is None:
            fault = "the map lacks the density of its pings (field density)"
        elif not (limit > 0)[~dry].all():
            fault = (
                fault or f"{settings.max_distance_text} is less than a cell of the map in places"
            )
        pinged = grid.counted(more) > 0
        if drawn.density is not None:
            pinged |= drawn.density > 0
        distance, _ = to_nearest(grid, pinged)
        far = reach.counted & (distance > limit)
        lost = far & ((away > limit) | self._given_up)
        gaps, total = far & ~lost, reach.counted.sum()
        farthest = float(distance[gaps].max(initial=0.0))
        status = TargetStatus(share, gaps.sum() / total, farthest, lost.sum() / total, fault)
        points, excess = grid.points, (distance - limit)[gaps]
        columns = points[gaps.ravel()], limit[gaps], excess, points[entry[gaps]]
        return status, np.rec.fromarrays(columns, GAP) if gaps.any() else NO_GAPS


#: Maximum number of places that a tour is computed from; if there are more, every Nth.
MAX_PLACES = 20_000
#: Maximum number of legs of a tour that are measured around keep-outs; longer tours count straight.
MAX_ROUTES = 60


def to_nearest(grid: Grid, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From every cell of a grid to the nearest marked one, centre to centre.

    Args:
        grid: of 2 x 2 points or more.
        marked: boolean [rows, columns].

    Returns:
        The distance [rows, columns] in m, infinite if none is marked; and the nearest marked cell
        [rows, columns], as an index into the flat grid.
    """
    if not marked.any():
        return np.full(grid.shape, np.inf), np.zeros(grid.shape, dtype=int)
    from scipy.ndimage import distance_transform_edt  # only needed with a map target

    steps = float(grid.y[1] - grid.y[0]), float(grid.x[1] - grid.x[0])
    distance, (row, column) = distance_transform_edt(~marked, sampling=steps, return_indices=True)
    return distance, row * grid.shape[1] + column


def diagonal(grid: Grid) -> float:
    """Diagonal of a cell, in m: the error of a distance between cells instead of places."""
    return math.hypot(grid.x[1] - grid.x[0], grid.y[1] - grid.y[0])


class ReachableCells:
    """The cells of a grid that the vehicle can reach, and their distances from all others.

    Attributes:
        grid: of the cells.
        areas: where they may lie.
        enterable: cells whose centre is allowed and has a route [rows, columns].
        counted: cells inside the area's polygon, including keep-outs [rows, columns].
        away: distance from each cell to the nearest of the enterable ones [rows, columns], in m.
        entry: this nearest cell [rows, columns], as an index into the flat grid.
    """

    def __init__(self, grid: Grid, routes: Routes, position: np.ndarray) -> None:
        from scipy.ndimage import label  # only needed with a map target

        self.grid, self.areas = grid, (areas := routes.areas)
        self.enterable = areas.allowed(grid.points).reshape(grid.shape)
        parts, count = label(self.enterable)
        if count and not areas.unrestricted:
            # To one cell of each connected part: routes to all cells would take minutes.
            firsts = np.unique(parts, return_index=True)[1][-count:]  # without part 0: not allowed
            reached = routes.reachable(position, grid.points[firsts])
            self.enterable = np.concatenate(([False], reached))[parts]
        self.counted: np.ndarray = np.ones(grid.shape, dtype=bool)
        if areas.polygon is not None:
            self.counted = inside(areas.polygon, grid.points).reshape(grid.shape)
        self.away, self.entry = to_nearest(grid, self.enterable)


def gap_closing_goals(position: np.ndarray, gaps: np.recarray) -> np.ndarray:
    """Goals [K, 2] that close all gaps, in the order of travel from position [2].

    The place farthest from any ping is chosen next, until none is left (Gonzalez 1985, k-centres).
    The order is by nearest neighbour.
    """
    left: Any = gaps[:: math.ceil(len(gaps) / MAX_PLACES) or 1].copy()
    goals = []
    while len(left):
        worst = int(np.argmax(left.excess))
        goals.append(left.entry[worst])
        distance = np.linalg.norm(left.place - left.entry[worst], axis=1) - left.limit
        left.excess = np.minimum(left.excess, distance)
        distance[worst] = 0.0
        left = left[distance > 0]
    order, waiting = [position], np.array(goals).reshape(-1, 2)
    while len(waiting):
        nearest = np.argmin(np.linalg.norm(waiting - order[-1], axis=1))
        order.append(waiting[nearest])
        waiting = np.delete(waiting, nearest, axis=0)
    return np.array(order[1:]).reshape(-1, 2)


def tour_length(position: np.ndarray, goals: np.ndarray, routes: Routes) -> float:
    """Length of the route from position [2] along the goals [K, 2], in m."""
    starts = np.vstack((position[None], goals[:-1]))
    if routes.areas.unrestricted or len(goals) > MAX_ROUTES:
        return float(np.linalg.norm(goals - starts, axis=1).sum())
    total = 0.0
    for start, goal in zip(starts, goals, strict=True):
        route = routes.route(start, goal)
        turns = np.vstack((start, goal)) if route is None else np.vstack((start, route))
        total += path_length(turns)
    return total
