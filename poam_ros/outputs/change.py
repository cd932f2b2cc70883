"""Change of the bottom between two surveys: where, how much, and how surely.

Computed from joint draws of both maps at the same cells, as if the errors of the two were
independent. Both maps are of nearly the same bottom, so that errors between survey lines partly
cancel in the difference: the intervals are rather too wide than too narrow.

To distinguish the offset between two surveys from a change of a part of the area, more than half of
the bottom is taken as unchanged, the rest as changed in patches, narrow or wide. With y the
differences of the surveys averaged over blocks of cells:

    y = b + sum_k w_k phi_k + e,  e ~ N(0, S)

b is the offset, phi_k a square patch of blocks, and S the covariance of the draws. Few patches
changed, by w_k ~ N(0, tau^2); the others have w_k = 0 (spike and slab, George and McCulloch 1993,
doi:10.1080/01621459.1993.10476353). Which ones, their share and tau are unknown as well, so that a
change too weak to be seen widens the intervals of the offset and of the net change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from .. import __version__
from ..core.files import atomic_write
from ..core.geodesy import LOCAL, GeoReference
from ..core.geometry import Grid
from ..planning.tvu import CONFIDENCE_95
from .chart import SIMULATED as SIMULATED_NOTE
from .exports import raster_of
from .figures import DPI, WIDTH, blank_figure, draw_layer, outline_cells, save_figure
from .folder import write_table
from .html import SIMULATED, figure, section, table, write_page
from .volume import ENDS, blocks, interval, rounded

FILE = "change.csv"
COLUMNS = ("x", "y", "change", "low", "high", "significant")
#: Expected share of cells without change among those reported as significant.
FALSE_DISCOVERIES = 0.05
#: Share of comparisons without any change in which no patch is significant.
CONFIDENCE = 0.95
#: Maximum number of blocks; sides of the patches, in blocks; and the largest share of the area that
#: is one patch.
BLOCKS, SIDES, LARGEST = 100, (1, 2, 3, 4, 6), 0.35
#: Number of patches that are expected to have changed, and the range of tau, in median standard
#: deviations of a block.
EXPECTED, SIZES = 30.0, np.geomspace(0.5, 12.0, 12)
#: Rounds of sampling, after which a sample is taken as independent of its start; and the weight of
#: the variances alone in S, as few draws tell covariances of many blocks.
ROUNDS, SHRINKAGE = 60, 0.3
REPORT = "report.html"
METHOD = (
    "Both surveys were mapped by a Gaussian process. The change is the difference of the two maps "
    "at the cells that lie between soundings of both. Its uncertainty, and the volumes, come from "
    "joint draws of both maps. An offset is estimated from the cells that seem unchanged, of which "
    "samples are drawn as well. Significant cells are chosen so that at most 5 % of them are "
    "expected to be unchanged (Benjamini-Hochberg); so are patches of cells beyond their own 95 % "
    "interval if 95 % of the draws have no patch as large. Not to be used for navigation."
)
ASSUMED = ", if more than half of the area is unchanged (else give --offset)"
NOT_TOLD = ": not distinguished from an offset (give --offset if it is known)"
CAPTION = (
    "Change of the elevation: positive where the bottom rose (the water became shallower). "
    "Outlined: significant. Grey: not compared."
)


@dataclass(frozen=True)
class Change:
    """Change of the elevation from the first survey to the second.

    Attributes:
        grid: centres of the cells, in the coordinates of the first survey.
        mean: positive where the bottom rose [rows, columns], in m; NaN where a map has no value.
        deviation: standard deviation of ``mean`` [rows, columns], in m.
        significant: where a change is significant [rows, columns], boolean.
        offset: elevations of the second survey minus those of the first where nothing changed: mean
            and 95 % interval [3], in m. It is not part of ``mean``.
        net: net volume of the change over all cells: mean and 95 % interval [3], in m^3.
        gained: the same of the significant cells that rose [3], in m^3.
        lost: the same of the significant cells that fell [3], in m^3, negative.
        extrapolated: cells that both maps have, but that were not compared [rows, columns],
            boolean; None: none.
        simulated: whether a simulated vehicle made soundings of one survey.
    """

    grid: Grid
    mean: np.ndarray
    deviation: np.ndarray
    significant: np.ndarray
    offset: np.ndarray
    net: np.ndarray
    gained: np.ndarray
    lost: np.ndarray
    extrapolated: np.ndarray | None = None
    simulated: bool = False

    @property
    def layers(self) -> dict[str, np.ndarray]:
        """The change, the ends of its 95 % interval (m), and 1 where it is significant, else 0
        [rows, columns]; NaN where a map has no value."""
        half = CONFIDENCE_95 * self.deviation
        significant = np.where(np.isfinite(self.mean), self.significant, np.nan)
        layers = (self.mean, self.mean - half, self.mean + half, significant)
        return dict(zip(COLUMNS[2:], layers, strict=True))


def compare(
    grid: Grid,
    both: np.ndarray,
    difference: np.ndarray,
    draws: np.ndarray,
    offset: float | None = None,
) -> Change:
    """The change at the cells that both maps have.

    Args:
        grid: of the cells.
        both: cells that both maps have [rows, columns], boolean; N of them.
        difference: of the two predictive means there [N], in m.
        draws: joint deviations of the true difference from that [draws, N], in m.
        offset: of the second survey, in m; None: estimated, from most cells not having changed.
    """
    drawn = difference + draws
    if offset is None:
        offsets = sampled_offset(both, difference, draws)
        middle = float(np.median(offsets))
        estimate = np.array([middle, *np.quantile(offsets, ENDS)])
        drawn = drawn - offsets[:, None]
    else:
        middle, estimate, drawn = offset, np.full(3, offset), drawn - offset
    change, deviation = difference - middle, np.maximum(drawn.std(0), 1e-9)
    score = np.where(deviation > 1e-9, change / deviation, 0.0)  # 0: a single cell is its offset
    significant = discoveries(2 * ndtr(-np.abs(score)), FALSE_DISCOVERIES)
    significant |= patches(both, score, (drawn - drawn.mean(0)) / deviation)
    cell = grid.cell_area
    net, gained, lost = (
        interval(cell * drawn[:, cells].sum(1))
        for cells in (slice(None), significant & (change > 0), significant & (change < 0))
    )
    mean, std = np.full((2, *grid.shape), np.nan)
    chosen = np.zeros(grid.shape, dtype=bool)
    mean[both], std[both], chosen[both] = change, deviation, significant
    return Change(grid, mean, std, chosen, estimate, net, gained, lost)


def sampled_offset(both: np.ndarray, difference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Samples of the offset [draws], in m, each with the errors of its draw: the average over the
    cells that changed in no patch, which Gibbs sampling chooses anew for each draw.

    Args:
        both: the cells [rows, columns], boolean; N of them.
        difference: of the two predictive means there [N], in m.
        draws: joint deviations of the true difference from that [draws, N], in m.
    """
    rows, columns = np.nonzero(both)
    block, place = blocks(rows, columns, BLOCKS)
    size = np.bincount(block)

    def averages(values: np.ndarray) -> np.ndarray:
        return np.array([np.bincount(block, row) for row in values]) / size

    drawn = averages(difference + draws)
    common = draws.mean(1, keepdims=True)  # not distinguished from an offset, and part of it
    errors = averages(draws - common)
    variance = np.maximum(errors.var(0), 1e-12)
    covariance = (1 - SHRINKAGE) * np.atleast_2d(np.cov(errors.T)) + SHRINKAGE * np.diag(variance)
    precision = np.linalg.inv(covariance)
    seen = precision.sum(0)
    precision -= np.outer(seen, seen) / seen.sum()  # of an unknown offset
    sizes = SIZES * float(np.sqrt(np.median(variance)))
    y = averages(difference[None])[0]
    # A larger change is as sure, and tau has no place for it.
    y = np.clip(y - np.median(y), -sizes[-1], sizes[-1])
    weight = size * ~_changed(y, precision, _patches(place), sizes, len(draws))
    unchanged = weight.sum(1)
    half = 0.5 * size.sum()
    most = np.flatnonzero(unchanged > (half if unchanged.max() > half else 0.0))
    weight = weight[np.resize(most, len(weight))] if len(most) else np.tile(size, (len(draws), 1))
    return np.asarray((weight * drawn).sum(1) / weight.sum(1))


def _patches(place: np.ndarray) -> np.ndarray:
    """Which blocks, at (row, column) [B, 2], each square patch has: [K, B], 0 or 1."""
    patches = set()
    for side in SIDES:
        ends = zip(place.min(0).tolist(), place.max(0).tolist(), strict=True)
        starts = (range(a - side // 2, b + 1, max(1, side // 2)) for a, b in ends)
        for start in product(*starts):
            inside = ((place >= start) & (place < np.add(start, side))).all(1)
            if 0 < inside.sum() <= LARGEST * len(place):
                patches.add(inside.tobytes())
    every = b"".join(sorted(patches))
    return np.frombuffer(every, dtype=bool).reshape(-1, len(place)).astype(float)


def _changed(
    y: np.ndarray, precision: np.ndarray, patch: np.ndarray, sizes: np.ndarray, chains: int
) -> np.ndarray:
    """Samples of which blocks lie in changed patches [chains, B], boolean, by Gibbs sampling in
    independent chains."""
    rng, count = np.random.default_rng(0), len(patch)
    seen = patch @ precision
    variance = 1 / (seen * patch).sum(1)  # of each patch's change, if all others were known
    tau, share = rng.choice(sizes, chains), np.full(chains, min(0.5, EXPECTED / max(count, 1)))
    change, rest = np.zeros((chains, count)), np.tile(y, (chains, 1))
    for _ in range(ROUNDS):
        for k in rng.permutation(count):
            own, prior = variance[k], tau**2
            seems = rest @ seen[k] * own + change[:, k]
            kept = prior / (prior + own)
            odds = share / (1 - share) * np.sqrt(1 - kept)
            evidence = np.minimum(0.5 * seems**2 / own * kept, 500.0)
            changed = rng.random(chains) < 1 - 1 / (1 + odds * np.exp(evidence))
            drawn = kept * seems + np.sqrt(kept * own) * rng.standard_normal(chains)
            new = np.where(changed, drawn, 0.0)
            moved = np.flatnonzero(new != change[:, k])
            rest[moved] -= (new - change[:, k])[moved, None] * patch[k]
            change[:, k] = new
        number = (change != 0).sum(1)
        share = rng.beta(1 + number, count / EXPECTED + count - number + 1e-9)
        squares = np.square(change).sum(1)[:, None]
        fit = -number[:, None] * np.log(sizes) - 0.5 * squares / sizes**2
        likelihood = np.exp(fit - fit.max(1, keepdims=True)).cumsum(1)
        tau = sizes[(rng.random(chains)[:, None] * likelihood[:, -1:] > likelihood).sum(1)]
    return np.asarray((change != 0) @ patch > 0)


def discoveries(p: np.ndarray, share: float) -> np.ndarray:
    """Which of the p-values [N] are significant, so that the expected share of false ones among
    them is at most ``share`` (Benjamini and Hochberg 1995,
    doi:10.1111/j.2517-6161.1995.tb02031.x). Boolean [N].
    """
    ordered = np.sort(p)
    within = np.flatnonzero(ordered <= share * np.arange(1, len(p) + 1) / len(p))
    return p <= ordered[within[-1]] if len(within) else np.zeros(len(p), dtype=bool)


def patches(both: np.ndarray, score: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Which cells lie in patches larger than those of chance. Boolean [N].

    A patch is of neighbouring cells that rose, or that fell, each by more than its own 95 %
    interval. Its size is the sum of its scores. It counts if it is larger than the largest patch of
    95 % of the draws (Bullmore et al. 1999, doi:10.1109/42.750253): as errors of neighbouring cells
    are alike, a change of a wide area is surer than that of any of its cells.

    Args:
        both: the cells [rows, columns], boolean; N of them.
        score: changes in standard deviations [N].
        chance: the same of draws without any change [draws, N].
    """
    largest = [_patch_sizes(both, each).max() for each in chance]
    return _patch_sizes(both, score) > np.quantile(largest, CONFIDENCE)


def _patch_sizes(both: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The size of each cell's patch [N]; 0 of a cell in none."""
    from scipy.ndimage import label

    sizes = np.zeros(len(score))
    for towards in (score, -score):
        beyond = np.zeros(both.shape, dtype=bool)
        beyond[both] = towards > CONFIDENCE_95
        number = label(beyond)[0][both]
        total = np.bincount(number, weights=np.maximum(towards, 0.0))
        sizes = np.where(number > 0, total[number], sizes)
    return sizes


def write_change(folder: Path, change: Change) -> Path:
    """Write change.csv: a row for each cell that both maps have, from the lower left corner on."""
    rows = np.column_stack((change.grid.points, *map(np.ravel, change.layers.values())))
    rows = rows[np.isfinite(rows[:, 2])]
    write_table(folder / FILE, COLUMNS, ([*row[:5], int(row[5])] for row in rows.tolist()))
    return folder / FILE


def write_change_raster(folder: Path, change: Change, place: GeoReference | None) -> Path:
    """Write change.tif: bands change, low, high (m), significant (0, 1); NaN in empty cells.

    Args:
        folder: of the results.
        change: to be written.
        place: where the grid lies on the Earth; None if that is unknown.

    Raises:
        InputError: rasterio is not installed.
    """
    wkt = LOCAL if place is None else place.system().to_wkt("WKT1_GDAL")
    tags = {"simulated": SIMULATED_NOTE} if change.simulated else {}
    content = raster_of("change.tif", change.layers, change.grid, wkt, place, tags=tags)
    with atomic_write(folder / "change.tif") as file:
        file.write(content)
    return folder / "change.tif"


def draw_change(folder: Path, change: Change) -> Path:
    """Draw the change, outlined where it is significant, and its uncertainty: change.png.

    Raises:
        ImportError: matplotlib is not installed.
    """
    width, height = change.grid.borders.size
    panel = (WIDTH - 1.2) * height / width + 0.7  # beside a colour bar; below, the axis's labels
    drawing = blank_figure((WIDTH, float(np.clip(2 * panel, 3.5, 8.0))))
    axes = drawing.subplots(2, 1, sharex=True, sharey=True)
    if change.simulated:
        drawing.suptitle("SIMULATED", fontweight="bold")
    size = np.abs(change.mean)
    # Every change that is reported is on the scale; without any, a few large ones need not be.
    told = size[change.significant]
    reach = float(told.max() if len(told) else np.nanquantile(size, 0.99)) or 1.0
    extend = "both" if np.nanmax(size) > reach else "neither"
    title = "change (m, positive: shallower); outlined: significant"
    draw_layer(axes[0], change.grid, change.mean, title, extend, cmap="RdBu", vmin=-reach,
        vmax=reach)  # fmt: skip
    title = "95 % uncertainty of the change (m)"
    draw_layer(axes[1], change.grid, CONFIDENCE_95 * change.deviation, title, cmap="magma")
    for axis in axes:
        axis.title.set_fontsize("medium")
        if change.extrapolated is not None:
            grey = np.ma.masked_equal(change.extrapolated, False)
            draw_layer(axis, change.grid, grey, vmin=0, vmax=2, cmap="Greys")
        axis.set_ylabel("y (m)")
    axes[1].set_xlabel("x (m)")
    if change.significant.any():
        outline_cells(axes[0], change.grid, change.significant)
    return save_figure(drawing, folder / "change.png", DPI)


def summary(change: Change, estimated: bool) -> dict[str, str]:
    """What a person wants to know, as text by name; ``estimated``: whether the offset was."""
    area = change.grid.cell_area * int(np.isfinite(change.mean).sum())
    share = float(change.significant.sum()) * change.grid.cell_area
    left_out = {}
    if change.extrapolated is not None and change.extrapolated.any():
        left = change.grid.cell_area * int(change.extrapolated.sum())
        left_out["not compared"] = (
            f"{left:,.0f} m\u00b2 ({100 * left / (area + left):.0f} % of what both maps show), "
            "grey in the figure: not between soundings of both surveys (beside shores and islands, "
            "in gaps much wider than usual), where the maps extrapolate"
        )
    middle, low, high = change.offset
    said = f"{middle:+.3f} m (95 %: {low:+.3f} to {high:+.3f}), left out of the change"
    words = {
        "compared": f"{area:,.0f} m\u00b2 in cells of {np.sqrt(change.grid.cell_area):g} m",
        **left_out,
        "offset": said if estimated else f"{middle:+g} m, as given",
        "uncertainty of the change (95 %)": f"median "
        f"{CONFIDENCE_95 * float(np.nanmedian(change.deviation)):.2f} m",
        "significant": f"{share:,.0f} m\u00b2 ({100 * share / area:.1f} % of the area)",
    }
    if share:
        changed = change.mean[change.significant]
        words["change there"] = f"{changed.min():+.2f} to {changed.max():+.2f} m"
    for name, volume in (
        ("gained there", change.gained), ("lost there", change.lost), ("net volume", change.net),
    ):  # fmt: skip
        mean, low, high = rounded(volume.tolist())
        words[name] = f"{mean} m\u00b3 (95 %: {low} to {high})"
    if estimated:
        words["net volume"] += NOT_TOLD if change.net[1] <= 0 <= change.net[2] else ASSUMED
    return words


def write_change_report(
    folder: Path, change: Change, names: tuple[str, str], numbers: Mapping[str, str]
) -> Path:
    """Write report.html of a comparison: its numbers, and change.png from the folder.

    Args:
        folder: of the results.
        change: of the surveys.
        names: of the two surveys.
        numbers: the numbers, as of ``summary``.

    Raises:
        OSError: change.png is missing.
    """
    title = f"Change from {names[0]} to {names[1]}"
    picture = figure((folder / "change.png").read_bytes(), CAPTION)
    parts = [
        f"<h1>{'SIMULATED: ' if change.simulated else ''}{escape(title)}</h1>",
        f"<p class=note>poam_ros {__version__}</p>",
        SIMULATED if change.simulated else "",
        table(numbers),
        *section("Change", picture),
        *section("Method", f"<p>{METHOD}</p>"),
    ]
    return write_page(folder / REPORT, title, parts)
