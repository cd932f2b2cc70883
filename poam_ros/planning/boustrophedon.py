"""The planner ``boustrophedon``: even survey lines that spend the distance left. Numpy only.

The best fixed survey for a bottom that is equally rough everywhere, and the baseline that every
adaptive planner has to beat at the end of its budget.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.settings import Settings, setting
from .areas import NavigableArea
from .situation import MapView, Situation

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
