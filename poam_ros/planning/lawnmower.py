"""The planner ``lawnmower``: parallel lanes, coarse to fine, whatever the map says. Numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import check, setting
from .situation import MapView, Situation


@dataclass(frozen=True)
class LawnmowerOptions:
    """Of ``lawnmower``.

    Raises:
        InputError: a value is outside its range.
    """

    lanes: int = setting(
        4, "Gaps between the lanes of the first sweep; each further one halves them", minimum=1,
        maximum=1000, mutable=True,
    )  # fmt: skip
    sweeps: int = setting(4, "Sweeps until all begins anew", minimum=1, maximum=10, mutable=True)

    def __post_init__(self) -> None:
        check(self)


def lawnmower(
    view: MapView, situation: Situation, options: LawnmowerOptions, rng: np.random.Generator
) -> np.ndarray:
    """All lanes of all sweeps, [K, 2]: the baseline that needs no map.

    The first sweep has ``lanes`` + 1 lanes from border to border, evenly spaced; each further one
    the lanes halfway between those that there are. Sweeps go up and down by turns, and begin at the
    corner that is nearest to the vehicle.
    """
    workspace = situation.workspace
    sweeps = [np.linspace(0, 1, options.lanes + 1)]
    for sweep in range(1, options.sweeps):
        gaps = options.lanes * 2 ** (sweep - 1)
        between = (np.arange(gaps) + 0.5) / gaps
        sweeps.append(between[::-1] if sweep % 2 else between)
    v = np.repeat(np.concatenate(sweeps), 2)
    u = np.resize([0.0, 1.0, 1.0, 0.0], len(v))  # there on one lane, back on the next
    unit = np.column_stack((u, v))
    # The corner to begin at: 0 or 1 in each direction.
    corner = situation.position > workspace.centre
    path = workspace.lower + np.where(corner, 1 - unit, unit) * workspace.size
    return workspace.clip(path)
