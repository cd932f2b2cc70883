"""Even survey lines: the planner ``boustrophedon``, and how many lines a survey needs.

Lines are the best fixed survey for a bottom that is equally rough everywhere, and the baseline that
every adaptive planner has to beat at the end of its budget. The planner spends the distance left.

The forecast is made before a single ping is taken. Away from its pings, a map's variance grows
about as slope d^exponent with the distance d to the nearest one. Both numbers come from an earlier
map of the same or a similar bottom. They determine the spacing of even survey lines, and so the
length of the survey.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import shapely

from ..core.errors import InputError
from ..core.geometry import Extent, Grid, path_length
from ..core.maps import ElevationMap
from ..core.settings import Settings, setting
from .areas import NavigableArea
from .tvu import within

if TYPE_CHECKING:
    from .planners import MapView, Situation

#: Maximum number of lines in a plan; a larger budget repeats the survey.
MAX_LINES = 500
#: Number of points of a line that are tested for the navigable area.
POINTS = 256


@dataclass(frozen=True)
class BoustrophedonOptions(Settings):
    """Options of ``boustrophedon``."""

    prefix = "boustrophedon"

    spacing: float = setting(
        0.0, "Distance between the survey lines. 0: the smallest that the budget allows; "
        "without a budget, a thirtieth of the workspace's shorter side", "m", minimum=0.0,
        maximum=100_000.0, mutable=True,
    )  # fmt: skip


def boustrophedon(
    view: MapView, situation: Situation, options: BoustrophedonOptions, rng: np.random.Generator
) -> np.ndarray:
    """Both ends of all survey lines, [K, 2].

    The lines run along the workspace's longer side, half a spacing from the borders, and begin at
    the corner nearest to the vehicle. Their number is the largest whose length fits into
    ``distance_left``: transit, lines, turns as a Dubins vehicle drives them, and the way home. If
    not even two lines fit into it, a single one runs across. Keep-outs interrupt a line.

    Raises:
        InputError: no part of any line is allowed.
    """
    workspace = situation.workspace
    along = int(workspace.size[1] >= workspace.size[0])
    across = float(workspace.size[1 - along])
    if options.spacing:
        count = int(np.clip(round(across / options.spacing), 1, MAX_LINES))
    elif math.isinf(situation.distance_left):
        count = 30
    else:
        count = _most_lines(situation, along)
    path = survey_lines(situation, count, along if count > 1 or options.spacing else 1 - along)
    if not len(path):
        raise InputError("boustrophedon: no survey line lies in the navigable area")
    return path


def survey_lines(situation: Situation, count: int, along: int) -> np.ndarray:
    """The ends of ``count`` lines along one axis (0: x, 1: y) in driving order [K, 2], in m."""
    workspace = situation.workspace
    # The corner to begin at: 0 or 1 in each direction.
    corner = (situation.position > workspace.centre).astype(float)
    area = situation.routes.areas
    ends = []
    for k, offset in enumerate((np.arange(count) + 0.5) / count):
        line = np.empty((2, 2))
        line[:, along] = (0.0, 1.0) if k % 2 == 0 else (1.0, 0.0)
        line[:, 1 - along] = offset
        line = workspace.lower + np.abs(corner - line) * workspace.size
        ends.append(_allowed_parts(line, workspace, area))
    return np.concatenate(ends)


def path_cost(path: np.ndarray, position: np.ndarray, radius: float) -> float:
    """Length in m of the path from ``position`` [2] along the lines of ``path`` [K, 2]."""
    legs = np.linalg.norm(np.diff(path, axis=0, prepend=position[None]), axis=1)
    steps = legs[2::2]  # from the end of a line to the beginning of the next
    return float(legs.sum() - steps.sum() + turn_lengths(steps, radius).sum())


def turn_lengths(steps: np.ndarray, radius: float) -> np.ndarray:
    """Lengths [N] in m of the turns from a line to the next one, which is ``steps`` [N] m away.

    Two turns of a right angle less than two turning radii apart are driven as the three arcs of a
    Dubins vehicle (Dubins 1957): r (pi + 4 a) with cos a = (2 r + d) / (4 r).
    """
    straight = np.maximum(steps - 2 * radius, 0.0)
    bend = np.arccos(np.clip((2 * radius + steps) / (4 * radius), -1.0, 1.0)) if radius else 0.0
    return np.maximum(straight + radius * (math.pi + 4 * bend), steps)


def _most_lines(situation: Situation, along: int) -> int:
    """The largest number of lines that can be driven within the budget, by bisection."""

    def cost(count: int) -> float:
        path = survey_lines(situation, count, along)
        extra = situation.extra(path) if len(path) else 0.0
        return path_cost(path, situation.position, situation.turning_radius) + extra

    return 1 + bisect_right(range(2, MAX_LINES + 1), situation.distance_left, key=cost)


def _allowed_parts(line: np.ndarray, workspace: Extent, area: NavigableArea) -> np.ndarray:
    """The ends of the parts of a line [2, 2] that are allowed, in order [K, 2]."""
    if area.unrestricted:
        return workspace.clip(line)
    points = line[0] + np.linspace(0, 1, POINTS)[:, None] * (line[1] - line[0])
    inside = np.concatenate(([False], area.allowed(points), [False]))
    changes = np.flatnonzero(inside[1:] != inside[:-1])  # first of a part, first after it
    first, last = changes[::2], changes[1::2] - 1
    return points[np.column_stack((first, last)).ravel()] if len(first) else points[:0]


#: Number of blocks along the longer side of a map, each with its own slope and depth.
BLOCKS = 6
#: Minimum number of cells away from pings, in a map and in a block.
MIN_CELLS = 12
#: Distances to the nearest line at which the variance is computed, as shares of half a spacing.
DISTANCES = (np.arange(24) + 0.5) / 24
#: Number of draws of the bottom, and the probability with which a survey must meet its target.
DRAWS, SURE = 200, 0.9
#: Half the width of the middle 90 % of a normal distribution, in standard deviations.
MIDDLE_90 = 1.645
#: Standard deviation of the logarithm of the length of surveys of a known bottom.
LENGTH_DEVIATION = 0.08
#: Maximum number of cells of a map that are used; of a larger map, every Nth.
MAX_CELLS = 20_000
#: Standard deviation of log slope in addition to that between blocks: another survey learns another
#: kernel.
DEVIATION = 0.25
#: Share of a map's cells away from pings that are nearer to a ping than its ``reach``, and the
#: probability that variance grows alike beyond it.
REACH, ALIKE = 0.95, 0.5
#: Number of places along each side at which the pilot survey is assessed.
PLACES = 40
#: Exponent of a bottom that is stated, not learned.
STATED_EXPONENT = 1.5


@dataclass(frozen=True)
class Bottom:
    """How a map's variance is expected to grow with the distance to the nearest ping.

    Attributes:
        slope: of the variance without noise, for each part of the bottom [B], in m^2 at 1 m.
        depth: of each part [B], in m; 0 or less: dry.
        exponent: of the distance.
        noise: standard deviation of a ping, in m.
        deviation: standard deviation of the logarithm of a factor common to all slopes.
        reach: distance up to which this is known, in m. On a smooth bottom, variance far from pings
            grows faster than close to them.
    """

    slope: np.ndarray
    depth: np.ndarray
    exponent: float
    noise: float
    deviation: float = DEVIATION
    reach: float = math.inf

    @classmethod
    def stated(cls, low: float, high: float, depth: float, noise: float) -> Bottom:
        """A bottom of one depth. The standard deviation 1 m from a ping, without noise, is between
        ``low`` and ``high`` (m) with a probability of 0.9.

        Raises:
            InputError: these are not positive or not in order.
        """
        if not 0 < low <= high < math.inf:
            raise InputError(f"expected 0 < LOW <= HIGH, in m, got {low:g} {high:g}")
        slope, spread = np.array([low * high]), 2 * math.log(high / low) / (2 * MIDDLE_90)
        return cls(slope, np.array([depth]), STATED_EXPONENT, noise, spread)

    @classmethod
    def of_map(cls, drawn: ElevationMap, pings: np.ndarray, level: float) -> Bottom:
        """The bottom of an earlier map with its pings [N, 2], and the water level, all in m.

        Raises:
            InputError: the map has too few cells with a variance away from its pings.
        """
        from scipy.spatial import cKDTree  # only for forecasts

        points, mean, variance = drawn.grid.points, drawn.mean.ravel(), drawn.variance.ravel()
        every = math.ceil(len(points) / MAX_CELLS)
        points, mean, variance = points[::every], mean[::every], variance[::every]
        distance = cKDTree(pings).query(points)[0] if len(pings) else np.full(len(points), np.nan)
        cell = math.hypot(drawn.grid.x[1] - drawn.grid.x[0], drawn.grid.y[1] - drawn.grid.y[0])
        known = np.isfinite(mean) & np.isfinite(variance) & (variance > 0)
        noise = float(variance[known].min(initial=math.inf))
        away = known & (distance > cell / 2) & (variance > noise)
        if away.sum() < MIN_CELLS:
            raise InputError(f"map: expected {MIN_CELLS} cells away from pings, got {away.sum()}")
        borders = drawn.grid.borders
        shares = (points[away] - borders.lower) / borders.size.max()
        block = (shares * BLOCKS).astype(int) @ (1, BLOCKS + 1)
        grown, far = variance[away] - noise, distance[away]
        x, y = np.log(far), np.log(grown)
        count = np.maximum(np.bincount(block), 1)
        x, y = (v - (np.bincount(block, v) / count)[block] for v in (x, y))  # about block's mean
        exponent = float(np.clip(x @ y / max(x @ x, 1e-12), 0.3, 2.0))
        parts = [block == b for b in np.unique(block) if (block == b).sum() >= MIN_CELLS]
        parts = parts or [np.full(len(block), True)]
        slope = [grown[part].mean() / (far[part] ** exponent).mean() for part in parts]
        depth = [level - mean[away][part].mean() for part in parts]
        reach = float(np.quantile(far, REACH))
        return cls(np.array(slope), np.array(depth), exponent, math.sqrt(noise), reach=reach)

    def drawn(self, rng: np.random.Generator) -> Bottom:
        """A random bottom: the parts of this one drawn with replacement, and all slopes times one
        random factor. In some, nothing beyond ``reach`` is within any order; in others it is known.
        """
        part = rng.integers(len(self.depth), size=len(self.depth))
        factor = math.exp(self.deviation * rng.standard_normal())
        reach = math.inf if rng.uniform() < ALIKE else self.reach
        return replace(self, slope=factor * self.slope[part], depth=self.depth[part], reach=reach)

    def share(self, distances: np.ndarray, order: str) -> float:
        """Share of the bottom under water that is within an order, where places are at these
        distances [N] from the nearest ping, in m; 0 if all is dry."""
        grown = np.multiply.outer(self.slope, distances**self.exponent)
        good = within(order, self.depth[:, None], np.sqrt(grown + self.noise**2))
        good &= distances <= self.reach
        wet = self.depth > 0
        return float(good[wet].mean()) if wet.any() else 0.0

    def share_between(self, spacing: float, order: str) -> float:
        """The same for lines ``spacing`` m apart."""
        return self.share(spacing * DISTANCES / 2, order)


@dataclass(frozen=True)
class Forecast:
    """The survey that is expected to meet a target.

    Attributes:
        lines: number of survey lines.
        spacing: of the lines, in m.
        path: ends of the lines in driving order [K, 2], in m.
        length: expected distance until the target is met, in m.
        low, high: limits of its 90 % interval, in m.
    """

    lines: int
    spacing: float
    path: np.ndarray
    length: float
    low: float
    high: float


def forecast(
    bottom: Bottom, situation: Situation, order: str, share: float, pilot: np.ndarray,
    rng: np.random.Generator,
) -> Forecast:  # fmt: skip
    """The survey with the fewest lines that alone meets a target with a probability of ``SURE``.

    The share within the TVU starts at that of the pilot survey and grows with the lines driven. If
    it is below the target at the end of the survey, the distance is extended in proportion. The
    interval also holds how far surveys of a known bottom differ (``LENGTH_DEVIATION``).

    Args:
        bottom: what is known of the bottom.
        situation: position at the start of the survey, workspace and turning radius.
        order: a name of ``tvu.ORDERS``.
        share: of the workspace under water that must be within its TVU.
        pilot: the pilot survey [K, 2], in m; K is 0 without one.
        rng: draws parts of the bottom and their slopes.

    Raises:
        InputError: no survey of up to ``MAX_LINES`` lines meets the target.
    """
    drawn = [bottom.drawn(rng) for _ in range(DRAWS)]
    along = int(situation.workspace.size[1] >= situation.workspace.size[0])
    across = float(situation.workspace.size[1 - along])

    def needed(bottom: Bottom) -> int:
        """The smallest number of lines that meets the target."""
        share_of = lambda lines: bottom.share_between(across / lines, order)  # noqa: E731
        return 1 + bisect_left(range(1, MAX_LINES + 1), share, key=share_of)

    lines = int(np.quantile([needed(one) for one in drawn], SURE, method="higher"))
    if lines > MAX_LINES:
        raise InputError(
            f"target: {order} in {share:.0%} of the workspace needs more than {MAX_LINES} lines, "
            f"as a ping has a standard deviation of {bottom.noise:.3g} m"
        )
    path = survey_lines(situation, lines, along)
    if not len(path):
        raise InputError("areas: no survey line lies in the navigable area")
    whole = path_cost(path, situation.position, situation.turning_radius)
    met = np.array([one.share_between(across / lines, order) for one in drawn])
    before, begun = path_length(pilot), np.zeros(DRAWS)
    places = Grid.dividing(situation.workspace, (PLACES, PLACES)).points
    places = places[situation.routes.areas.allowed(places)]
    if before and len(places):  # none lies in a thin strip
        away = shapely.distance(shapely.points(places), shapely.LineString(pilot))
        begun = np.array([one.share(away, order) for one in drawn])
    ways = before + whole * np.maximum(share - begun, 0.0) / np.maximum(met - begun, 1e-3)
    low, length, high = (float(limit) for limit in np.quantile(ways, (0.05, 0.5, 0.95)))
    shorter, longer = (
        math.exp(math.hypot(math.log(limit / length), MIDDLE_90 * LENGTH_DEVIATION))
        for limit in (low, high)
    )
    low, high = max(length / shorter, before), length * longer
    return Forecast(lines, across / lines, path, length, low, high)
