"""The planners: from a view of the map and the vehicle's situation to waypoints.

A planner is a row of ``PLANNERS`` with options of its own. It depends on no model and no clock, and
draws random numbers only from the generator passed to it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..core.errors import InputError
from ..core.geometry import MAX_COORDINATE, Extent, Grid, squared_distance_to
from ..core.maps import ElevationMap, Predicted
from ..core.settings import Setting, Settings, Table, rows, setting
from .areas import NavigableArea
from .boustrophedon import BoustrophedonOptions, boustrophedon
from .routes import Routes

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

log = logging.getLogger(__name__)

#: Points along a path at which its entropy is evaluated.
POINTS = 48
#: Random waypoints drawn before giving up.
MAX_DRAWS = 1000
#: The square of a smaller lengthscale may underflow, in m; larger variances are not usable, in m^2.
MIN_DISTANCE, MAX_VARIANCE = 1e-12, 1e300


class GridView:
    """A published map, interpolated, with variances as if newer pings were already in it.

    Args:
        elevation_map: of any model.
        since: places of pings that are not in the map yet [K, 2], in m.
        before: places of pings in the map [K, 2], in m.
    """

    def __init__(self, elevation_map: ElevationMap, since: np.ndarray, before: np.ndarray) -> None:
        self._grid, self._since, self._before = elevation_map.grid, since, before
        # NaN propagates silently through interpolation; zero times infinity raises a warning.
        self._mean, self._variance, self._lengthscale = (
            np.where(np.isfinite(layer), layer, np.nan)
            for layer in (elevation_map.mean, elevation_map.variance, elevation_map.lengthscale)
        )

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and discounted variance with noise, [N] each, at the points xy [N, 2] in metres."""
        mean, variance, lengthscale = (
            self._grid.interpolate(layer, xy)
            for layer in (self._mean, self._variance, self._lengthscale)
        )
        discounted = discount_visited(variance, xy, lengthscale, self._since, self._before)
        return Predicted(mean, discounted)


class ModelView:
    """Predictions of the model itself: in the paper the planner waits for the newest pings.

    Args:
        model: predicts exactly the points that the planner asks for.
        noise: whether the variance is that of a ping, or of the bottom.
    """

    def __init__(self, model: BathymetricMapper, noise: bool = True) -> None:
        self._model, self._noise = model, noise

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance, [N] each, at the points xy [N, 2] in metres."""
        return self._model.predict(xy, self._noise)


def discount_visited(
    variance: np.ndarray, points: np.ndarray, lengthscale: np.ndarray, since: np.ndarray,
    before: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Predictive variances [N] as if pings at ``since`` [K, 2] were already in the map.

    A map is always a little older than the vehicle's track. Without a discount, the most uncertain
    place nearby would be where the vehicle has just been. In any model, variance grows about
    linearly with the distance d to the nearest ping, up to about a lengthscale l. So where a new
    ping is nearer than any old one, the variance above the noise floor (the smallest variance) is
    scaled by d_new / min(d_old, l). Variances that are not positive finite numbers stay unchanged.

    Args:
        variance: of the map at the points, with noise [N], in m^2.
        points: [N, 2] in m.
        lengthscale: of the map at the points [N], in m; ignored where it is unknown.
        since: places of pings that are not in the map yet [K, 2], in m.
        before: places of pings in the map [K, 2], in m.
    """
    known = np.isfinite(variance) & (variance > 0)
    if not len(since) or not known.any():
        return variance
    good = (lengthscale > MIN_DISTANCE) & (lengthscale < MAX_COORDINATE)
    reach = np.where(good, lengthscale, np.inf)
    new = np.sqrt(squared_distance_to(points, since))
    closer = known & (new < reach)
    old = np.sqrt(squared_distance_to(points[closer], before))
    reach = np.minimum(old, reach[closer])
    nearer = np.isfinite(reach) & (new[closer] < reach)
    share = np.divide(new[closer], reach, where=nearer, out=np.ones(len(reach)))
    floor = variance[known].min()
    after = variance.copy()
    after[closer] = floor + (variance[closer] - floor) * share
    return after


class MapView(Protocol):
    """What a planner sees of a map."""

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance with noise, [N] each, at the points xy [N, 2] in metres."""


def no_extra(path: np.ndarray) -> float:
    """``Situation.extra`` without a way home."""
    return 0.0


@dataclass(frozen=True)
class Situation:
    """Where the vehicle is, and how much of its budget is left.

    Attributes:
        position: [2], in m.
        workspace: where waypoints may lie.
        yaw: heading, counter-clockwise from x (east), in rad; NaN if unknown.
        turning_radius: the vehicle's smallest turning radius, in m; 0 if it turns on the spot.
        distance_left: distance that can still be travelled, in m; infinite without a limit.
        extra: how much of that a path [K, 2] from the vehicle takes besides its length, in m: for
            the current along it, and for the way home from its end.
        visited: positions of the whole mission, thinned out [K, 2], in m.
        routes: allowed routes within the workspace; by default all straight legs are allowed.
    """

    position: np.ndarray
    workspace: Extent
    yaw: float = math.nan
    turning_radius: float = 0.0
    distance_left: float = math.inf
    extra: Callable[[np.ndarray], float] = no_extra
    visited: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    routes: Routes = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        if self.routes is None:
            object.__setattr__(self, "routes", Routes(NavigableArea(self.workspace)))


def usable(variance: np.ndarray, count: int) -> np.ndarray:
    """Which of ``count`` variances are positive finite numbers; boolean [count].

    Raises:
        InputError: the shape is wrong, or no variance is usable.
    """
    if variance.shape != (count,):
        raise InputError(f"variance: expected shape ({count},), got {variance.shape}")
    # NaN fails both comparisons.
    good = (variance > 0) & (variance < MAX_VARIANCE)
    if not good.any():
        raise InputError(f"variance: none of {count} candidates has a positive finite variance")
    return good


def entropy(variance: np.ndarray) -> np.ndarray:
    """H = 1/2 log(2 pi e variance), in nats (Sec. V-A)."""
    return 0.5 * np.log(2 * math.pi * math.e * variance)


@dataclass(frozen=True)
class PathEntropyOptions(Settings):
    """Options of ``path-entropy``. Lengths are shares of the workspace's longer side.

    ``candidates``: number of random paths; ``grid_cells``: of the entropy grid along that side.
    """

    prefix = "path_entropy"

    max_leg: float = setting(
        0.2, "Maximum distance driven before planning again, as a share of the workspace's "
        "longer side", minimum=0.01, maximum=10.0, mutable=True,
    )  # fmt: skip
    exploration: float = setting(
        1.0, "Entropy added at places far from all pings", "nats",
        minimum=0.0, maximum=100.0, mutable=True,
    )  # fmt: skip
    exploration_distance: float = setting(
        0.13, "Distance from the nearest ping beyond which a place is far, as a share of the "
        "workspace's longer side", minimum=0.001, maximum=10.0, mutable=True,
    )  # fmt: skip
    candidates: int = 400
    grid_cells: int = 60


def path_entropy(
    view: MapView, situation: Situation, options: PathEntropyOptions, rng: np.random.Generator
) -> np.ndarray:
    """The first leg of the random path with the highest mean entropy, [1, 2].

    A path is a turn at the vehicle's turning radius from its heading, and a straight line to a goal
    drawn uniformly from the workspace. It ends where the budget ends. Paths shorter than a quarter
    of a leg or than two turning diameters, and paths that are not allowed, are excluded.

    Raises:
        InputError: the prediction's shape is wrong, no place has a usable variance, or no path is
            allowed.
    """
    workspace, side = situation.workspace, float(situation.workspace.size.max())
    leg, radius = options.max_leg * side, situation.turning_radius
    goals = workspace.sample(options.candidates, rng)
    shortest = max(leg / 4, 4 * radius)
    position, routes, left = situation.position, situation.routes, situation.distance_left
    shortened = routes.shortened(position, goals)
    open_to = routes.legs_open(position, shortened)
    if open_to.any():
        goals = shortened
    else:
        open_to = routes.reachable(position, goals)
    distances = np.linalg.norm(goals - position, axis=1)
    if not open_to.any():
        raise InputError(f"path-entropy: no candidate path of {options.candidates} is allowed")
    enough = open_to & (distances >= min(shortest, distances[open_to].max()))
    paths = CandidatePaths(position, situation.yaw, radius, goals[enough])
    grid, interest = _interest(view, situation, options, side)
    looks = (np.arange(POINTS) + 0.5) / POINTS
    seen = paths.at(np.minimum(paths.length, left)[:, None] * looks)
    worth = grid.interpolate(interest, seen.reshape(-1, 2)).reshape(len(seen), POINTS).mean(1)
    # A goal within the turn could not be driven to: the leg ends on the straight.
    end = np.minimum(np.maximum(leg, paths.turn + shortest), paths.length)
    return workspace.clip(paths.at(end[:, None])[np.argmax(worth)])


def _interest(
    view: MapView, situation: Situation, options: PathEntropyOptions, side: float
) -> tuple[Grid, np.ndarray]:
    """Entropy [rows, columns] on a grid over the workspace, raised where no ping is near."""
    cells = np.maximum(np.round(options.grid_cells * situation.workspace.size / side), 2)
    grid = Grid.nodes(situation.workspace, *(cells.astype(int) + 1))
    variance = np.asarray(view.predict(grid.points).variance, dtype=float)
    good = usable(variance, len(grid.points))
    values = np.full(len(variance), np.nan)
    values[good] = entropy(variance[good])
    values[~good] = values[good].min()  # unknown variance: no reason to go there
    if options.exploration:
        reach = options.exploration_distance * side
        places = thinned(situation.visited, situation.workspace, reach / 8)
        far = squared_distance_to(grid.points, places)
        values += options.exploration * -np.expm1(-far / reach**2)
    return grid, values.reshape(grid.shape)


class CandidatePaths:
    """Paths of a turn and a straight line (Dubins 1957, with free final heading).

    Args:
        position: common start [2], in m.
        yaw: heading at the start, in rad; NaN: no turns.
        radius: of the turn, in m; goals lie farther away than its diameter.
        goals: ends of the paths [N, 2], in m.

    Attributes:
        turn: length of the turn [N], in m.
        length: length of the whole path [N], in m.
    """

    def __init__(self, position: np.ndarray, yaw: float, radius: float, goals: np.ndarray) -> None:
        self._position, self._goals = position, goals
        self._yaw, self._radius = yaw, radius
        aim = goals - position
        if math.isnan(yaw) or radius == 0:
            self.turn, self._side = np.zeros(len(goals)), np.ones(len(goals))
            self._tangent = np.arctan2(aim[:, 1], aim[:, 0])
            self.length = np.linalg.norm(aim, axis=1)
            return
        both = [self._turning(side, aim) for side in (1.0, -1.0)]
        left = both[0][0] + both[0][1] <= both[1][0] + both[1][1]
        self.turn, straight, self._tangent = (
            np.where(left, a, b) for a, b in zip(*both, strict=True)
        )
        self._side = np.where(left, 1.0, -1.0)
        self.length = self.turn + straight

    def at(self, travelled: np.ndarray) -> np.ndarray:
        """Places [N, K, 2] at the distances ``travelled`` [N, K] along the paths, in m."""
        side, turn = self._side[:, None], self.turn[:, None]
        beyond = np.maximum(travelled - turn, 0.0)
        heading = self._tangent[:, None]
        along = np.stack((np.cos(heading), np.sin(heading)), -1)
        # Backwards from the goal, so that all paths end exactly there.
        rest = (self.length[:, None] - turn - beyond)[..., None]
        straight = self._goals[:, None] - rest * along
        if not self.turn.any():
            return straight
        angle = self._yaw + side * np.minimum(travelled, turn) / self._radius
        centre = self._centre(side)
        arc = centre + self._radius * np.stack((side * np.sin(angle), -side * np.cos(angle)), -1)
        return np.where((travelled < turn)[..., None], arc, straight)

    def _centre(self, side: np.ndarray | float) -> np.ndarray:
        """Centre of the turning circle to the left (1) or to the right (-1)."""
        across = np.array((-math.sin(self._yaw), math.cos(self._yaw)))
        return self._position + self._radius * np.multiply.outer(side, across)

    def _turning(self, side: float, aim: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lengths of turn and straight, and the straight's heading, turning to one side."""
        radius = self._radius
        arm = self._goals - self._centre(side)
        # arm = (straight - side i radius) exp(i heading), as complex numbers
        straight = np.sqrt(np.maximum((arm**2).sum(1) - radius**2, 0.0))
        heading = np.arctan2(arm[:, 1], arm[:, 0]) + side * np.arctan2(radius, straight)
        turn = radius * np.mod(side * (heading - self._yaw), 2 * math.pi)
        turn[2 * math.pi * radius - turn < 1e-9 * radius] = 0.0  # a rounding error, not a circle
        inside = (arm**2).sum(1) < radius**2  # no tangent leads there
        return turn, np.where(inside, np.inf, straight), heading


def thinned(places: np.ndarray, workspace: Extent, spacing: float) -> np.ndarray:
    """One of the places [K, 2] in each square of side ``spacing`` (m)."""
    if not len(places):
        return places
    squares = np.floor((places - workspace.lower) / spacing).astype(np.int64)
    _, first = np.unique(squares, axis=0, return_index=True)
    return places[np.sort(first)]


@dataclass(frozen=True)
class PlannerEntry:
    """One row of the table.

    Attributes:
        plan: the waypoints to go to, in order [K, 2] with K >= 1, from a view of the map, the
            situation, the row's options and a generator; raises ``InputError`` where the map
            allows no choice.
        options: frozen dataclass of the row's own settings, with a prefix.
    """

    plan: Callable[[MapView, Situation, Any, np.random.Generator], np.ndarray]
    options: type[Any]

    def path(
        self, view: MapView, situation: Situation, options: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """The checked result of ``plan``, [K, 2].

        Raises:
            InputError: the map allows no choice, or the result is not a path.
        """
        path = np.asarray(self.plan(view, situation, options, rng), dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not len(path) or not np.isfinite(path).all():
            raise InputError(f"planner: expected finite waypoints [K, 2], got {path.tolist()}")
        return path


@dataclass(frozen=True)
class MaxEntropyOptions(Settings):
    """Options of ``max-entropy``, as published. ``candidates``: number of random waypoints."""

    prefix = "max_entropy"

    distance_weight: float = setting(
        0.5, "Weight of the normalised distance against the normalised entropy", minimum=0.0,
        maximum=100.0, mutable=True,
    )  # fmt: skip
    candidates: int = 2000


@dataclass(frozen=True)
class NoOptions:
    """Options of a planner that has none."""


def max_entropy(
    view: MapView, situation: Situation, options: MaxEntropyOptions, rng: np.random.Generator
) -> np.ndarray:
    """The random candidate with the best score of entropy and distance, [1, 2] (Sec. V-A).

    Candidates are uniform in the workspace; the score is the entropy of the prediction with noise
    minus ``distance_weight`` times the distance from the vehicle, both scaled to [0, 1] over the
    candidates. Candidates whose variance is not a positive finite number are excluded.

    Raises:
        InputError: the prediction's shape is wrong, or no candidate has a usable variance and a
            route.
    """
    count = options.candidates
    points = situation.workspace.sample(count, rng)
    variance = np.asarray(view.predict(points).variance, dtype=float)
    good = usable(variance, count)
    if not good.all():
        log.warning("%d of %d candidates have no usable variance", (~good).sum(), count)
    good &= situation.routes.reachable(situation.position, points)
    if not good.any():
        raise InputError(f"max-entropy: expected a reachable candidate, got none among {count}")
    points, variance = points[good], variance[good]
    distance = np.linalg.norm(points - situation.position, axis=1)
    score = _to_unit_range(entropy(variance)) - options.distance_weight * _to_unit_range(distance)
    return points[np.argmax(score)][None]


def random_waypoint(
    view: MapView, situation: Situation, options: NoOptions, rng: np.random.Generator
) -> np.ndarray:
    """A uniform random waypoint with a route, [1, 2].

    Raises:
        InputError: none of ``MAX_DRAWS`` waypoints has a route.
    """
    for _ in range(MAX_DRAWS):
        waypoint = situation.workspace.sample(1, rng)
        if situation.routes.reachable(situation.position, waypoint).all():
            return waypoint
    raise InputError(f"random: expected a reachable waypoint, got none among {MAX_DRAWS}")


#: Every planner, by name: ``planner`` on a command line, in a parameter file, in a sweep. A bare
#: function of another package is a planner without options.
PLANNERS: Table[PlannerEntry] = Table(
    "poam_ros.planners",
    PlannerEntry,
    {
        "max-entropy": PlannerEntry(max_entropy, MaxEntropyOptions),
        "random": PlannerEntry(random_waypoint, NoOptions),
        "path-entropy": PlannerEntry(path_entropy, PathEntropyOptions),
        "boustrophedon": PlannerEntry(boustrophedon, BoustrophedonOptions),
    },
    made=lambda plan: PlannerEntry(plan, NoOptions),
)


def planner_rows() -> tuple[Setting, ...]:
    """The options of every built-in planner."""
    return rows(*(planner.options for planner in PLANNERS.values()))


def _to_unit_range(values: np.ndarray) -> np.ndarray:
    """Values [N] scaled linearly to [0, 1]; zeros if all are equal."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
