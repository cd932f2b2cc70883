"""A sweep's tables and figures, from the files in its folder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import atomic_write
from ..core.geometry import Grid
from ..outputs.figures import blank_figure, draw_layer, elevation_colours, no_lengthscale, plain
from ..outputs.folder import make_folder, read_table, read_truth, write_table
from .comparison import METRICS, Comparison, FinishedRun, Statistic, method_label, read_comparisons

_DPI = 150


def write_report(folder: Path) -> list[Path]:
    """Write the report of the sweep in ``folder`` to its folder ``report``.

    These are averages.csv, and for each pilot and planner (several: with their names in the
    files') table.md, and curves, maps and lengthscales as .png and .pdf.

    Returns:
        The files written.

    Raises:
        InputError: if there is no finished run, a file is missing or broken, or the folder cannot
            be written.
        ImportError: if matplotlib is not installed; the tables are written before.
    """
    comparisons = read_comparisons(folder)
    report = make_folder(folder / "report")
    rows = [row for comparison in comparisons for row in average_rows(comparison)]
    write_table(report / "averages.csv", AVERAGE_COLUMNS, rows)
    written, several = [report / "averages.csv"], len(comparisons) > 1
    suffixes = [f"-{c.pilot}-{c.planner}".replace(":", "-") if several else "" for c in comparisons]
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        written.append(report / f"table{suffix}.md")
        with atomic_write(written[-1]) as file:
            file.write(markdown_table(comparison).encode())
    if several:  # files of an earlier report on one pilot and planner are outdated
        for name in ("table.md", *(f"{f}.{e}" for f in FIGURES for e in ("png", "pdf"))):
            (report / name).unlink(missing_ok=True)
    # Over the whole sweep, so that a method looks the same in every figure.
    styles = method_styles([method for each in comparisons for method in each.methods])
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        for name, draw in FIGURES.items():
            figure = draw(comparison, styles)
            # Without the date, so that the same results make the same file.
            for ending, date in ((".png", "Software"), (".pdf", "CreationDate")):
                written.append(report / f"{name}{suffix}{ending}")
                with atomic_write(written[-1]) as file:
                    figure.savefig(file, format=ending[1:], dpi=_DPI, metadata={date: None})
                # Keep the layout of the first file: computing it takes longer than drawing.
                figure.set_layout_engine("none")
    return written


#: Columns of the table: metrics and their titles.
TABLE_METRICS = {"smse": "SMSE", "msll": "MSLL", "update_s": "Update time (s)"}

#: Columns of averages.csv; ``first`` and ``last``: the span of samples that was averaged over.
AVERAGE_COLUMNS = (
    "environment", "pilot", "planner", "method", "metric", "first", "last",
    "mean", "std", "seeds", "final_mean", "final_std",
)  # fmt: skip

#: Significant digits of a mean without a standard deviation, and their maximum.
_DIGITS, _MAX_DIGITS = 3, 5


def format_statistic(statistic: Statistic) -> str:
    """mean(std): the deviation with two significant digits, the mean with as many decimals.

    A single seed has no parentheses.
    """
    mean, std = statistic.mean, statistic.std
    if not isfinite(mean):
        return f"{mean}"
    decimals = _decimals(std, 2) if std else _decimals(mean, _DIGITS)
    decimals = max(0, min(decimals, _decimals(mean, _MAX_DIGITS)))
    # Adding zero turns a rounded -0 into 0.
    text = f"{round(mean, decimals) + 0.0:.{decimals}f}"
    return text if std is None else f"{text}({std:.{decimals}f})"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show ``digits`` significant digits, after rounding (0.0996 is 0.10)."""
    if value == 0:
        return digits
    return digits - 1 - Decimal(f"{value:.{digits - 1}e}").adjusted()


def average_rows(comparison: Comparison) -> Iterator[tuple[Any, ...]]:
    """The rows of averages.csv."""
    for environment, runs in comparison.runs.items():
        for method, metric in product(runs, METRICS):
            average = comparison.average(environment, method, metric)
            final = comparison.final(environment, method, metric)
            std, end_std = ("" if each.std is None else each.std for each in (average, final))
            yield (
                environment, comparison.pilot, comparison.planner, method, metric, *comparison.span,
                average.mean, std, average.seeds, final.mean, end_std,
            )  # fmt: skip


def markdown_table(comparison: Comparison) -> str:
    """The table with its caption and notes; the lowest mean of a column is bold in each
    environment."""
    lines = [
        " ".join(caption(comparison)),
        "",
        "| Environment | Method |" + "".join(f" {title} |" for title in TABLE_METRICS.values()),
        "|:--|:--|" + "--:|" * len(TABLE_METRICS),
    ]
    for environment, runs in comparison.runs.items():
        columns = [[method_label(method) for method in runs]]
        for metric in TABLE_METRICS:
            column = [comparison.average(environment, method, metric) for method in runs]
            lowest = min((s.mean for s in column if isfinite(s.mean)), default=None)
            texts = [(format_statistic(s), s.mean == lowest) for s in column]
            columns.append([f"**{text}**" if best else text for text, best in texts])
        names = [environment] + [""] * (len(runs) - 1)
        for row in zip(names, *columns, strict=True):
            lines.append("| " + " | ".join(text.replace("|", r"\|") for text in row) + " |")
    remarks = [f"* {note}" for note in notes(comparison)]
    return "\n".join([*lines, *([""] if remarks else []), *remarks]) + "\n"


def caption(comparison: Comparison) -> list[str]:
    """The caption of the table, in sentences."""
    first, last = comparison.span
    what = "Values at the last epoch: the runs have no common span of samples."
    if first < last:
        what = f"Averages from {first:g} to {last:g} samples."
    seeds = _seeds(comparison)
    count = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{max(seeds)}"
    over = "One seed." if seeds == {1} else f"mean(standard deviation) over {count} seeds."
    return [
        f"Pilot survey: {comparison.pilot}; planner: {comparison.planner}.", what, over,
        "Lower is better; the lowest mean is bold.",
    ]  # fmt: skip


def _seeds(comparison: Comparison) -> set[int]:
    """Numbers of seeds that methods have."""
    return {len(runs) for of_method in comparison.runs.values() for runs in of_method.values()}


def notes(comparison: Comparison) -> list[str]:
    """Notes for a fair comparison: runs that ended early, missing seeds."""
    remarks, last, most = [], comparison.span[1], max(_seeds(comparison))
    for environment, method in product(comparison.runs, comparison.methods):
        runs = comparison.runs[environment].get(method, [])
        name = f"{environment}, {method_label(method)}"
        if len(runs) < most:
            remarks.append(f"{name}: {len(runs)} of {most} seeds.")
        remarks += [
            f"{name}, seed {run.seed}: averaged up to its end at {run.samples[-1]:g} samples."
            for run in runs
            if run.samples[-1] < last
        ]
    return remarks


#: Panels next to each other in a figure of maps, and the width of a figure, in inches.
_ACROSS = 6
_WIDTH = 11.0

#: How matplotlib draws the lines of each method.
Styles = dict[str, dict[str, Any]]
#: Draws a run on an axis; given the image style of elevations.
Panel = Callable[[Any, FinishedRun, dict[str, Any]], None]


def draw_maps(comparison: Comparison, styles: Styles) -> Any:
    """The truth, and each method's predicted mean with its sampling path. Returns the figure."""

    def panel(axis: Any, run: FinishedRun, elevation: dict[str, Any]) -> None:
        draw_layer(axis, run.map.grid, run.map.mean, **elevation)
        samples = read_table(run.folder / "samples.csv", ("x", "y"))
        axis.plot(samples["x"], samples["y"], color="black", linewidth=0.45, alpha=0.8)

    figure, _ = _draw_panels(comparison, panel)
    return figure


def draw_lengthscales(comparison: Comparison, styles: Styles) -> Any:
    """The truth, and each method's lengthscales with its inducing inputs. Returns the figure.

    All lengthscales have one colour scale, which leaves out the outermost hundredths.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    runs = [run for name in comparison.runs for run in comparison.shown(name).values()]
    values = np.concatenate([run.map.lengthscale.ravel() for run in runs])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, (0.01, 0.99)) if len(values) else (0.0, 1.0)
    scale = ScalarMappable(Normalize(low, high if high > low else low + 1.0), "magma")

    def panel(axis: Any, run: FinishedRun, elevation: dict[str, Any]) -> None:
        if not np.isfinite(run.map.lengthscale).any():
            no_lengthscale(axis)
            return
        draw_layer(axis, run.map.grid, run.map.lengthscale, norm=scale.norm, cmap=scale.cmap)
        # White dots with a dark rim are visible on every colour.
        axis.scatter(*run.map.support.T, s=2.2, color="white", edgecolors="black", linewidths=0.25)

    figure, axes = _draw_panels(comparison, panel, below=0.8)
    figure.colorbar(
        scale, ax=axes, location="bottom", shrink=0.5, aspect=40, extend="both",
        label="lengthscale (m)",
    )  # fmt: skip
    return figure


def _draw_panels(comparison: Comparison, panel: Panel, below: float = 0.0) -> tuple[Any, Any]:
    """A block of panels for each environment: the truth, then ``panel`` for each method.

    Leaves ``below`` inches free. Returns the figure and its axes.
    """
    shown = {name: comparison.shown(name) for name in comparison.runs}
    most = 1 + max(len(runs) for runs in shown.values())
    rows, columns = -(-most // _ACROSS), min(most, _ACROSS)
    side = min(3.2, (_WIDTH - 1.6) / columns)
    first = next(iter(next(iter(shown.values())).values()))
    width, height = first.map.grid.borders.size
    total = rows * len(shown)
    high = 0.8 + below + total * (side * height / width + 0.3)
    figure = blank_figure((1.6 + side * columns, high))
    # Panels of a fixed aspect, without the gaps that would leave.
    figure.set_layout_engine("compressed")
    axes = figure.subplots(total, columns, squeeze=False)
    for block, (environment, runs) in enumerate(shown.items()):
        part = axes[block * rows : (block + 1) * rows]
        truth = _draw_block(part, environment, runs, panel)
        figure.colorbar(truth, ax=part, label="elevation (m)", aspect=20 * rows, pad=0.01)
    for axis in axes[-1]:
        axis.set_xlabel("x (m)")
    return figure, axes


def _draw_block(axes: Any, environment: str, runs: dict[str, FinishedRun], panel: Panel) -> Any:
    """Draw an environment's panels; returns the image of the truth, for its colour bar."""
    first = next(iter(runs.values()))
    truth, extent = read_truth(first.folder / "truth.npz")
    flat, elevation = axes.ravel(), elevation_colours(truth)
    image = draw_layer(flat[0], Grid.dividing(extent, truth.shape), truth, **elevation)
    flat[0].set_title("truth", fontsize=10)
    for axis, (method, run) in zip(flat[1:], runs.items(), strict=False):
        panel(axis, run, elevation)
        label = method_label(method)
        # A long name must not run into the next panel's.
        axis.set_title(label, fontsize=min(10, 160 / len(label)))
    for axis in flat[1 + len(runs) :]:
        axis.set_axis_off()
    bounds = first.map.grid.borders.bounds
    for (row, column), axis in np.ndenumerate(axes):
        axis.set(xlim=bounds[:2], ylim=bounds[2:])
        axis.locator_params(nbins=4)
        axis.tick_params(labelsize=8, labelleft=column == 0, labelbottom=row == len(axes) - 1)
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")
    axes[0, 0].set_ylabel(f"{plain(environment)}\ny (m)")
    return image


#: Metrics drawn over samples, and their axes' labels.
CURVES = {"smse": "SMSE", "msll": "MSLL", "update_s": "update (s)"}

#: Colours that differ in hue and lightness; where there are more methods, the line changes.
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555",
)  # fmt: skip
_LINES = ("-", "--", ":", "-.")

#: Metrics on a logarithmic axis, on which an outlying method does not flatten the others.
_LOGARITHMIC = ("smse", "update_s")

#: By method: samples [N], and the values of its runs there [runs, N].
Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def method_styles(methods: Sequence[str]) -> Styles:
    """Colour and line of each method, by its place in the sweep; the same in every figure."""
    count = len(_COLOURS)
    return {
        method: {"color": _COLOURS[i % count], "linestyle": _LINES[i // count % len(_LINES)]}
        for i, method in enumerate(dict.fromkeys(methods))
    }


def draw_curves(comparison: Comparison, styles: Styles) -> Any:
    """SMSE, MSLL and update time over samples, mean and one deviation over seeds.

    Environments are columns. Returns the figure.
    """
    from matplotlib.lines import Line2D

    environments, methods = list(comparison.runs), comparison.methods
    width = 1.0 + 2.6 * max(len(environments), 2)
    longest = max(len(method_label(method)) for method in methods)
    across = max(2, int(width / (1.5 if longest <= 10 else 1.9)))
    figure = blank_figure((width, 6.6 + 0.22 * -(-len(methods) // across)))
    axes = figure.subplots(len(CURVES), len(environments), sharex="col", squeeze=False)
    for column, (environment, runs) in zip(axes.T, comparison.runs.items(), strict=True):
        column[0].set_title(plain(environment))
        for axis, metric in zip(column, CURVES, strict=True):
            curves = {method: seed_curves(own, metric) for method, own in runs.items()}
            _draw_metric(axis, curves, styles)
            _limit(axis, metric, curves)
        column[-1].set_xlabel("samples")
    for axis, label in zip(axes[:, 0], CURVES.values(), strict=True):
        axis.set_ylabel(label)
    figure.align_ylabels(axes[:, 0])
    keys = [Line2D([], [], label=method_label(method), **styles[method]) for method in methods]
    columns = min(across, len(keys))
    figure.legend(handles=keys, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def seed_curves(runs: Sequence[FinishedRun], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric's curves on the samples that all runs have.

    Returns:
        Samples [N] and the interpolated values, [runs, N]; N is 0 if they have none in common.
    """
    first = max(run.samples[0] for run in runs)
    last = min(run.samples[-1] for run in runs)
    inside = np.unique(np.concatenate([run.samples for run in runs]))
    at = inside[(inside >= first) & (inside <= last)]
    return at, np.array([np.interp(at, run.samples, run.epochs[metric]) for run in runs])


def _draw_metric(axis: Any, curves: Curves, styles: Styles) -> None:
    for method, (samples, values) in curves.items():
        mean = values.mean(axis=0)
        # A run of one epoch is a point.
        marker = "." if len(samples) == 1 else None
        axis.plot(samples, mean, linewidth=1.3, marker=marker, **styles[method])
        if len(values) > 1:
            deviation = values.std(axis=0, ddof=1)
            colour = styles[method]["color"]
            axis.fill_between(
                samples, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0
            )
    axis.grid(alpha=0.3)
    axis.margins(x=0.02)


def _limit(axis: Any, metric: str, curves: Curves) -> None:
    """Set the y axis. That of MSLL ends at 0, beyond which a map says less than mean and variance
    of the samples."""
    if metric in _LOGARITHMIC:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(lambda at, _: f"{at:g}" if f"{at:e}"[0] in "25" else "")
        return
    lows = [values.mean(axis=0).min() for _, values in curves.values() if values.size]
    if np.isfinite(lows).any() and np.nanmin(lows) < 0:
        axis.set_ylim(1.1 * np.nanmin(lows), 0)


#: The figures, by the names of their files.
FIGURES = {"curves": draw_curves, "maps": draw_maps, "lengthscales": draw_lengthscales}
