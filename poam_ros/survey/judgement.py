"""How a map stands against a target: within the TVU, and near to pings everywhere. No rclpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..maps import ElevationMap
from ..planning.gaps import Gaps, Reach, diagonal, to_nearest
from ..planning.tvu import shares
from .target_settings import TargetSettings


@dataclass(frozen=True)
class Judgement:
    """How a map stands against a target.

    Attributes:
        share: of the places under water that may be entered, within the TVU; NaN where none is.
        gaps: places that are farther from a ping than they may be, as a share of all.
        farthest: of them, in m; 0 without any.
        left_out: those besides that no way leads near to (over water, where depths count), or
            where no ping was accepted, as well.
        fault: why the target cannot be met, in words; empty where nothing is known.
    """

    share: float = math.nan
    gaps: float = 0.0
    farthest: float = 0.0
    left_out: float = 0.0
    fault: str = ""

    def words(self, settings: TargetSettings) -> str:
        """In words; shares are never rounded to look better than they are."""
        said = []
        if settings.target_tvu and not math.isnan(self.share):
            within = f"TVU within {settings.target_tvu}"
            said.append(f"{within} in {_percent(self.share, math.floor)} of the workspace")
        if self.gaps:
            gaps = _percent(self.gaps, math.ceil)
            far = f"{gaps} of the workspace farther than {settings.rule} from every ping"
            said.append(f"{far}, {self.farthest:.1f} m at most")
        elif settings.guarantees and not self.fault:
            said.append(f"every place within {settings.rule} of a ping")
        if self.left_out:
            left_out = _percent(self.left_out, math.ceil)
            why = "no way leads near, or no ping is accepted there"
            why = f"it is dry, {why}" if settings.target_depths else why
            said.append(f"{left_out} left out: {why}")
        return "; ".join([*said, *([self.fault] if self.fault else [])])


def measure(
    settings: TargetSettings,
    level: float,
    drawn: ElevationMap,
    reach: Reach,
    given_up: np.ndarray,
    more: np.ndarray,
) -> tuple[Judgement, Gaps]:
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
        return Judgement(fault="no cell of the map may be entered"), Gaps.none()
    depth, fault = level - drawn.mean, ""
    share = math.nan
    if settings.target_tvu:
        share = _share(settings.target_tvu, depth[reach.enterable], drawn.variance[reach.enterable])
    if settings.by_depth and not (reach.enterable & (depth > 0)).any():
        fault = f"no place that may be entered is under the water's level of {level:g} m"
    if not settings.guarantees:
        return Judgement(share, fault=fault), Gaps.none()
    # Without depths in the target nobody may have said where the water's level is.
    dry = (depth <= 0) & (settings.target_depths > 0)
    away, entry = reach.away, reach.entry
    if (dry & reach.enterable).any():  # as a keep-out: from outside, as far as that goes
        away, entry = to_nearest(drawn.grid, reach.enterable & ~dry)
    limit = _limit(settings, drawn, depth)
    if drawn.density is None:
        fault = "the map does not say where its pings are (field density)"
    elif not (limit > 0)[~dry].all():
        fault = fault or f"{settings.rule} is not more than a cell of the map everywhere"
    pinged = np.zeros(drawn.grid.shape) if drawn.density is None else drawn.density
    distance, _ = to_nearest(drawn.grid, (pinged > 0) | (drawn.grid.counted(more) > 0))
    far = reach.counted & (distance > limit)
    lost = far & ((away > limit) | given_up)
    gaps, total = far & ~lost, reach.counted.sum()
    farthest = float(distance[gaps].max(initial=0.0))
    judged = Judgement(share, gaps.sum() / total, farthest, lost.sum() / total, fault)
    points, entries = drawn.grid.points, drawn.grid.points[entry[gaps]]
    return judged, Gaps(points[gaps.ravel()], limit[gaps], (distance - limit)[gaps], entries)


def _share(order: str, depth: np.ndarray, variance: np.ndarray) -> float:
    """Of the places under water [N] that are within the TVU of an order; NaN where none is wet."""
    with np.errstate(invalid="ignore"):
        return shares(depth, np.sqrt(variance), [order])[order]


def _limit(settings: TargetSettings, drawn: ElevationMap, depth: np.ndarray) -> np.ndarray:
    """How far the centre of each cell may be from that of a ping's cell [rows, columns], in m.

    A place may be half a diagonal from its cell's centre, and so may the ping.
    """
    wet = np.where(depth > 0, depth, 0.0)  # NaN is no depth
    apart = np.maximum(settings.target_distance, settings.target_depths * wet)
    return apart - diagonal(drawn.grid)


def _percent(share: float, whole: Callable[[float], int]) -> str:
    return f"{whole(round(share * 1000, 9)) / 10:.1f} %"
