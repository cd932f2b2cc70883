"""Area, volume and mean depth of the water below any level, with 95 % intervals.

Computed from joint draws of the map: errors of neighbouring cells are correlated and do not average
out, so cells cannot be treated as independent. On a map of many cells, draws are made for blocks of
them: a draw shifts all cells of a block by the same amount from their own means. Blocks must be
smaller than what lies between survey lines, where the map is surest on the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.geometry import Grid
from ..core.maps import ElevationMap
from .folder import read_table, write_table

FILE = "volume.csv"
QUANTITIES = ("area", "volume", "mean_depth")
COLUMNS = ("level", *(f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")))
#: Number of draws; maximum number of blocks drawn, and of cells counted.
DRAWS, CELLS = 400, 100_000
#: Approximate number of levels between the lowest and the highest cell.
LEVELS = 25
#: Quantiles at the ends of a 95 % interval.
ENDS = (0.025, 0.975)
#: An interval this much narrower than its values is none.
WIDTH = 1e-6
#: Units of each quantity, from which value on, and how large they are, in m, m^2 or m^3.
UNITS = {
    "area": (("km\u00b2", 1e7, 1e6), ("ha", 1e4, 1e4), ("m\u00b2", 0.0, 1.0)),
    "volume": (("km\u00b3", 1e9, 1e9), ("million m\u00b3", 1e6, 1e6), ("m\u00b3", 0.0, 1.0)),
    "mean_depth": (("m", 0.0, 1.0),),
}
#: Joint draws of the bottom at places [N, 2], minus their mean, without noise [draws, N], in m.
Draws = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class WaterBelow:
    """The water below levels [L]: mean and 95 % interval of each quantity [3, L].

    Attributes:
        level: elevation of the water surface, in m.
        area: in m^2.
        volume: in m^3.
        mean_depth: volume over area, in m; 0 where there is no water.
    """

    level: np.ndarray
    area: np.ndarray
    volume: np.ndarray
    mean_depth: np.ndarray

    def at(self, level: float) -> dict[str, np.ndarray]:
        """Every quantity [3] at the nearest level of the table."""
        index = int(np.abs(self.level - level).argmin())
        return {name: getattr(self, name)[:, index] for name in QUANTITIES}


def round_step(wanted: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is at least ``wanted``."""
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(power * next(k for k in (1, 2, 5, 10) if k * power >= wanted * (1 - 1e-9)))


def levels_of(elevation: np.ndarray, water_level: float) -> np.ndarray:
    """Round levels from the lowest elevation [N] to the highest, and the water level."""
    low, high = float(elevation.min()), max(float(elevation.max()), water_level)
    step = round_step(max(high - low, 1e-3) / LEVELS)
    steps = np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step
    return np.unique(np.append(np.round(steps, 9), water_level))


def measure(
    drawn: ElevationMap, sample: Draws, levels: np.ndarray, banks: np.ndarray | None = None
) -> WaterBelow:
    """The water below levels on the cells of a map that are not NaN.

    Args:
        drawn: the map.
        sample: makes draws of it.
        levels: [L], in m.
        banks: how much higher than the map the bottom may be [rows, columns], in m, as of
            ``beyond``; None: not at all. Each draw has a share of it, the same everywhere, from
            Jeffreys' prior of a share: banks that nobody sounded may be anything from walls to
            slopes, and are alike.

    Raises:
        PoamError: no draws can be made.
    """
    rows, columns = np.nonzero(np.isfinite(drawn.mean))
    cell = drawn.grid.cell_area
    block, _ = blocks(rows, columns, CELLS)
    share = np.bincount(block)
    places = np.column_stack([
        np.bincount(block, axis[index]) / share
        for axis, index in ((drawn.grid.x, columns), (drawn.grid.y, rows))
    ])  # fmt: skip
    deviations = sample(places, DRAWS)
    deviations -= deviations.mean(0)
    # Of many cells some stand for all: in the order of their blocks, one at random in each run.
    step = -(-len(block) // CELLS)
    runs = step * np.arange(len(block) // step)
    within = np.random.default_rng(0).integers(step, size=len(runs))
    some = np.argsort(block, kind="stable")[runs + within]
    mean, block = drawn.mean[rows, columns][some], block[some]
    each = cell * len(rows) / len(mean)
    rise = 0.0 * mean if banks is None else banks[rows, columns][some]
    shares = np.sin(np.pi / 2 * (np.arange(DRAWS) + 0.5) / DRAWS) ** 2
    area, volume = np.empty((2, len(deviations), len(levels)))
    for number, (deviation, bank) in enumerate(zip(deviations, shares, strict=True)):
        z = np.sort(mean + deviation[block] + bank * rise)
        below = np.searchsorted(z, levels)
        sums = np.concatenate(([0.0], np.cumsum(z)))
        area[number], volume[number] = each * below, each * (below * levels - sums[below])
    depth = np.divide(volume, area, out=np.zeros_like(volume), where=area > 0)
    return WaterBelow(levels, *map(interval, (area, volume, depth)))


def blocks(rows: np.ndarray, columns: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The square block, numbered from 0, of each cell at a row [N] and a column [N], and the row
    and column of each block in blocks [B, 2]; at most ``most`` blocks, as small as that allows."""
    side = max(1, int(np.sqrt(len(rows) / most)))
    cells = np.column_stack((rows, columns))
    while True:
        places, block = np.unique(cells // side, axis=0, return_inverse=True)
        if len(places) <= most:
            return block.reshape(-1), places
        side += 1


def interval(values: np.ndarray) -> np.ndarray:
    """Mean and ends of the 95 % interval [3, ...] of draws [draws, ...]."""
    return np.stack([values.mean(0), *np.quantile(values, ENDS, axis=0)])


def beyond(
    elevation: np.ndarray, grid: Grid, track: np.ndarray, level: float
) -> tuple[float, np.ndarray]:
    """How much of a map lies beyond the outermost soundings, where its depths are extrapolated.

    Between soundings lies what they enclose, and what they have on both sides at no more than twice
    the distance that nine tenths of the map have from them (a closing of their cells).

    Args:
        elevation: [rows, columns], in m; NaN where there is no map.
        grid: of the map.
        track: places of the soundings [N, 2], in m.
        level: of the water, in m.

    Returns:
        The share of the area, and how much higher each cell is [rows, columns], in m, if the bottom
        rises evenly to the level from the outermost soundings to the end of the map.
    """
    from scipy.ndimage import binary_fill_holes, distance_transform_edt

    size = (float(np.diff(grid.y[:2])[0]), float(np.diff(grid.x[:2])[0]))
    mapped, sounded = np.isfinite(elevation), grid.counted(track) > 0
    far = distance_transform_edt(~sounded, sampling=size)
    reach = 2 * max(float(np.quantile(far[mapped], 0.9)), *size)
    room = int(reach / min(size)) + 2
    mapped, sounded = np.pad(mapped, room), np.pad(sounded, room)
    near = distance_transform_edt(~sounded, sampling=size) <= reach
    inside = distance_transform_edt(near, sampling=size) >= reach - max(size) / 2
    inside = binary_fill_holes(inside)
    strip = mapped & ~inside
    from_inside, to_end = (
        distance_transform_edt(cells, sampling=size)[strip] for cells in (~inside, mapped)
    )
    higher = np.zeros(mapped.shape)
    depth = np.maximum(0.0, level - np.pad(elevation, room)[strip])
    higher[strip] = depth * from_inside / (from_inside + to_end)
    return float(strip.sum() / mapped.sum()), higher[room:-room, room:-room]


def rounded(values: Sequence[float]) -> list[str]:
    """Values rounded to two digits of half their range, to four of their size where they have
    none, and to 0.01 at the finest."""
    half, size = (max(values) - min(values)) / 2, max(map(abs, values))
    estimated = half > WIDTH * size
    last = np.floor(np.log10(half)) - 1 if estimated else np.floor(np.log10(size or 1e3)) - 3
    digits = min(-int(last), 2)
    return [f"{round(value, digits) + 0.0:,.{max(0, digits)}f}" for value in values]


def unit_of(name: str, size: float) -> tuple[str, float]:
    """The unit in which a quantity of this size is given, and how large it is, in m, m^2, m^3."""
    return next((text, k) for text, least, k in UNITS[name] if size >= least)


def in_words(name: str, values: Sequence[float]) -> str:
    """A quantity's mean and 95 % interval (m, m^2 or m^3) as text, in a unit of its size; without
    an interval where there is none, as of the area of a map that ends at its outline."""
    unit, scale = unit_of(name, max(map(abs, values)))
    shown = rounded([value / scale for value in values])
    text = f"{shown[0]} {unit}"
    return text if shown[1] == shown[2] else f"{text} (95 %: {shown[1]} to {shown[2]})"


def write_water(folder: Path, water: WaterBelow) -> None:
    """Write volume.csv: a row per level."""
    columns = (water.level, water.area, water.volume, water.mean_depth)
    write_table(folder / FILE, COLUMNS, np.vstack(columns).T.tolist())


def read_water(folder: Path) -> WaterBelow:
    """Read what ``write_water`` wrote.

    Raises:
        InputError: the file is missing or broken.
    """
    table = read_table(folder / FILE, COLUMNS)
    level, *columns = (table[name] for name in COLUMNS)
    return WaterBelow(level, *np.reshape(columns, (3, 3, -1)))
