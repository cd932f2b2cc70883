"""What the shore says of depth: the usual elevation by distance from land, as a prior.

A bay that nobody sounded is as shallow as what is as near to the shore elsewhere. How far this is
believed, the trust, is learned from the soundings, as of any prior (``models.prior``).
"""

from __future__ import annotations

import numpy as np

from ..core.geometry import Land
from ..models.prior import PriorMap

#: Classes of distances, with the same number of soundings each; and the fewest soundings of one.
CLASSES, FEWEST = 8, 16
#: Standard deviation of the smoothing, in the median distance of soundings from land. Midway
#: between two shores distances have ridges, which a bottom has not: unsmoothed, what dense lines
#: predict between them gets worse.
SMOOTH = 0.5


def shore_prior(land: Land | None, xy: np.ndarray, z: np.ndarray) -> PriorMap | None:
    """The median elevation by distance from land, between classes of distances by interpolation,
    and smoothed (a Gaussian); None without land or with too few soundings.

    Nothing is assumed of the edge itself: nearer than the first class its elevation is kept.

    Args:
        land: around the water; None: unknown.
        xy: places of the soundings [N, 2], in m.
        z: their elevations [N], in m.
    """
    if land is None or land.water.all() or len(z) < CLASSES * FEWEST:
        return None
    from scipy.ndimage import gaussian_filter

    distance = land.grid.interpolate(land.to_land, xy)
    classes = np.array_split(np.argsort(distance, kind="stable"), CLASSES)
    middle, usual = ([np.median(of[rows]) for rows in classes] for of in (distance, z))
    mean = np.interp(land.to_land, middle, usual)
    width = SMOOTH * float(np.median(distance)) / land.side
    mean = gaussian_filter(mean, width, mode="nearest")
    return PriorMap(land.grid, mean, np.zeros_like(mean), "depth by distance from the shore")
