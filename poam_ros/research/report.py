"""A sweep's report, from the files in its folder alone: its runs compared, averaged over samples
and seeds, in tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.files import atomic_write, within
from ..models.registry import MODELS
from ..outputs.figures import blank_figure, draw_layer, elevation_colours, plain
from ..outputs.folder import EPOCH_COLUMNS, RUN_COLUMNS, make_folder, read_records, write_table
from ..outputs.run import Run
from .configuration import read_metadata

#: Columns of epochs.csv that are averaged; those of them in the table and in the curves, with their
#: titles.
METRICS = tuple(name for name in EPOCH_COLUMNS if name not in ("samples", "time_s"))
SHOWN = {"smse": "SMSE", "msll": "MSLL", "update_s": "Update time (s)"}
#: Columns of averages.csv; ``first`` and ``last``: the span of samples that was averaged over.
AVERAGE_COLUMNS = (
    "environment", "pilot", "planner", "method", "metric", "first", "last",
    "mean", "std", "seeds", "final_mean", "final_std",
)  # fmt: skip
#: Samples over which the paper averages (Table 1).
PAPER_SPAN = (1000.0, 5000.0)
_KERNELS = {"rbf": "RBF", "attentive": "AK"}
#: Significant digits of a mean without a standard deviation, and their maximum.
_DIGITS, _MAX_DIGITS = 3, 5


def write_report(folder: Path) -> list[Path]:
    """Write the report of the sweep in ``folder`` to its folder ``report``.

    These are averages.csv, and for each pilot and planner (several: with their names in the
    files') table.md, and curves and maps as .png and .pdf.

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
                    figure.savefig(file, format=ending[1:], dpi=150, metadata={date: None})
                # Keep the layout of the first file: computing it takes longer than drawing.
                figure.set_layout_engine("none")
    return written


class Statistic(NamedTuple):
    """Mean and standard deviation (of n - 1) over ``seeds`` runs; no deviation of a single one."""

    mean: float
    std: float | None
    seeds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Statistic:
        """Of the runs' values."""
        numbers = [float(value) for value in values]
        std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
        return cls(float(np.mean(numbers)), std, len(numbers))

    def __str__(self) -> str:
        """mean(std): the deviation with two significant digits, the mean with as many decimals.

        A single seed has no parentheses.
        """
        mean, std = self.mean, self.std
        if not isfinite(mean):
            return f"{mean}"
        decimals = _decimals(std, 2) if std else _decimals(mean, _DIGITS)
        decimals = max(0, min(decimals, _decimals(mean, _MAX_DIGITS)))
        # Adding zero turns a rounded -0 into 0.
        text = f"{round(mean, decimals) + 0.0:.{decimals}f}"
        return text if std is None else f"{text}({std:.{decimals}f})"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show ``digits`` significant digits, after rounding (0.0996 is 0.10)."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2]) if value else -1
    return digits - 1 - exponent


def average_over_samples(
    samples: np.ndarray, values: np.ndarray, first: float = 1000, last: float = 5000
) -> float:
    """Average of a metric's curve over a span of samples, which begins within the curve, linearly
    interpolated; the last value for a span of zero length.

    A run that ends early is averaged up to its end.
    """
    if not first < (last := min(last, float(samples[-1]))):
        return float(values[-1])
    inside = samples[(samples > first) & (samples < last)]
    at = np.concatenate(([first], inside, [last]))
    heights = np.interp(at, samples, values)
    return float(np.sum(np.diff(at) * (heights[1:] + heights[:-1]) / 2) / (last - first))


@dataclass(frozen=True)
class Comparison:
    """All runs of one pilot survey and one planner: by environment, by method, both in the order
    of the sweep, and by seed."""

    pilot: str
    planner: str
    runs: dict[str, dict[str, dict[int, Run]]]

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the sweep."""
        return list(dict.fromkeys(method for runs in self.runs.values() for method in runs))

    def shown(self, environment: str) -> dict[str, Run]:
        """The run of each method that is drawn: of the first common seed, or of its own first seed.

        Methods are in the order of the sweep.
        """
        of_method = self.runs[environment]
        common = set.intersection(*map(set, of_method.values()))
        return {name: runs[min(common or runs)] for name, runs in of_method.items()}

    @cached_property
    def span(self) -> tuple[float, float]:
        """Span of samples to average over: the paper's, up to the end of the longest run; if a run
        does not reach it, the span that all runs have; of zero length if there is none."""
        ends = [
            run.epochs["samples"][[0, -1]].tolist()
            for of_method in self.runs.values() for runs in of_method.values()
            for run in runs.values()
        ]  # fmt: skip
        (start, end), (firsts, lasts) = PAPER_SPAN, zip(*ends, strict=True)
        if max(firsts) <= start < min(lasts):
            return start, min(end, max(lasts))
        return max(firsts), max(*firsts, min(lasts))

    def average(self, environment: str, method: str, metric: str) -> Statistic:
        """Over seeds, of a metric's average over the span."""
        every = [run.epochs for run in self.runs[environment][method].values()]
        return Statistic.of(
            average_over_samples(epochs["samples"], epochs[metric], *self.span) for epochs in every
        )

    def final(self, environment: str, method: str, metric: str) -> Statistic:
        """Over seeds, of a metric at the last epoch."""
        runs = self.runs[environment][method].values()
        return Statistic.of(run.epochs[metric][-1] for run in runs)

    @property
    def seeds(self) -> set[int]:
        """Numbers of seeds that methods have."""
        return {len(runs) for of_method in self.runs.values() for runs in of_method.values()}


def method_label(method: str) -> str:
    """A method's name in figures and tables: ``poam:rbf`` is POAM (RBF), ``module:name`` itself."""
    name, _, kernel = method.partition(":")
    if kernel and name not in list(MODELS):
        return method
    label = name.upper()
    return f"{label} ({_KERNELS.get(kernel, kernel.capitalize())})" if kernel else label


def read_comparisons(folder: Path) -> list[Comparison]:
    """The sweep in ``folder``, a comparison for each pilot and planner, in the sweep's order.

    Raises:
        InputError: if there is no finished run, a file is missing or broken, or the folder has the
            format of another version.
    """
    index = folder / "runs.csv"
    if not index.is_file():
        raise InputError(f"{folder}: expected the folder of a benchmark, with runs.csv in it")
    if (folder / "sweep.yaml").is_file():
        read_metadata(folder / "sweep.yaml")
    found: dict[tuple[str, str], Comparison] = {}
    for record in read_records(index, RUN_COLUMNS):
        environment, method, *names, seed, path = (
            record[name] for name in ("environment", "method", "pilot", "planner", "seed", "folder")
        )
        run = Run(within(folder, path), {})
        for name in names:  # they become parts of file names
            within(run.folder, name)
        if not seed.isdecimal():
            raise InputError(f"{index}: expected a whole number as seed, got {seed!r}")
        samples = run.epochs["samples"]
        if not len(samples) or not np.all(np.diff(samples) > 0):
            expected = "expected at least one epoch, and samples that increase"
            raise InputError(f"{run.folder / 'epochs.csv'}: {expected}")
        group = found.setdefault((names[0], names[1]), Comparison(names[0], names[1], {}))
        runs = group.runs.setdefault(environment, {}).setdefault(method, {})
        if int(seed) in runs:
            words = " ".join((environment, method, *names, seed))
            raise InputError(f"{index}: expected every run once, got {words} twice")
        runs[int(seed)] = run
    if not found:
        raise InputError(f"{index}: expected at least one finished run, got none")
    return list(found.values())


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
        caption(comparison),
        "",
        "| Environment | Method |" + "".join(f" {title} |" for title in SHOWN.values()),
        "|:--|:--|" + "--:|" * len(SHOWN),
    ]
    for environment, runs in comparison.runs.items():
        columns = [[environment] + [""] * (len(runs) - 1), [method_label(each) for each in runs]]
        for metric in SHOWN:
            column = [comparison.average(environment, method, metric) for method in runs]
            lowest = min((s.mean for s in column if isfinite(s.mean)), default=None)
            columns.append([f"**{s}**" if s.mean == lowest else str(s) for s in column])
        for row in zip(*columns, strict=True):
            lines.append("| " + " | ".join(text.replace("|", r"\|") for text in row) + " |")
    remarks = [f"* {note}" for note in notes(comparison)]
    return "\n".join([*lines, *([""] if remarks else []), *remarks]) + "\n"


def caption(comparison: Comparison) -> str:
    """The caption of the table."""
    (first, last), seeds = comparison.span, comparison.seeds
    what = "Values at the last epoch: the runs have no common span of samples."
    if first < last:
        what = f"Averages from {first:g} to {last:g} samples."
    count = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{max(seeds)}"
    over = "One seed." if seeds == {1} else f"mean(standard deviation) over {count} seeds."
    return (
        f"Pilot survey: {comparison.pilot}; planner: {comparison.planner}. {what} {over} "
        "Lower is better; the lowest mean is bold."
    )


def notes(comparison: Comparison) -> list[str]:
    """Notes for a fair comparison: runs that ended early, missing seeds."""
    remarks, last, most = [], comparison.span[1], max(comparison.seeds)
    for environment, method in product(comparison.runs, comparison.methods):
        runs = comparison.runs[environment].get(method, {})
        name = f"{environment}, {method_label(method)}"
        if len(runs) < most:
            remarks.append(f"{name}: {len(runs)} of {most} seeds.")
        for seed, run in sorted(runs.items()):
            if (end := run.epochs["samples"][-1]) < last:
                remarks.append(f"{name}, seed {seed}: averaged up to its end at {end:g} samples.")
    return remarks


#: Panels next to each other in a figure of maps, and the width of a figure, in inches.
_ACROSS, _WIDTH = 6, 11.0

#: How matplotlib draws the lines of each method.
Styles = dict[str, dict[str, Any]]


def draw_maps(comparison: Comparison, styles: Styles) -> Any:
    """A block of panels for each environment: the truth, and each method's predicted mean with its
    sampling path. Returns the figure."""
    shown = {name: comparison.shown(name) for name in comparison.runs}
    most = 1 + max(len(runs) for runs in shown.values())
    rows, columns = -(-most // _ACROSS), min(most, _ACROSS)
    side = min(3.2, (_WIDTH - 1.6) / columns)
    first = next(iter(next(iter(shown.values())).values()))
    width, height = first.drawn.grid.borders.size
    total = rows * len(shown)
    figure = blank_figure((1.6 + side * columns, 0.8 + total * (side * height / width + 0.3)))
    # Panels of a fixed aspect, without the gaps that would leave.
    figure.set_layout_engine("compressed")
    axes = figure.subplots(total, columns, squeeze=False)
    for part, (environment, runs) in zip(np.split(axes, len(shown)), shown.items(), strict=True):
        truth = _draw_block(part, environment, runs)
        figure.colorbar(truth, ax=part, label="elevation (m)", aspect=20 * rows, pad=0.01)
    for axis in axes[-1]:
        axis.set_xlabel("x (m)")
    return figure


def _draw_block(axes: Any, environment: str, runs: dict[str, Run]) -> Any:
    """Draw an environment's panels; returns the image of the truth, for its colour bar."""
    first = next(iter(runs.values()))
    grid, truth = first.truth
    flat, elevation = axes.ravel(), elevation_colours(truth)
    image = draw_layer(flat[0], grid, truth, **elevation)
    flat[0].set_title("truth", fontsize=10)
    for axis, (method, run) in zip(flat[1:], runs.items(), strict=False):
        draw_layer(axis, run.drawn.grid, run.drawn.mean, **elevation)
        axis.plot(run.samples["x"], run.samples["y"], color="black", linewidth=0.45, alpha=0.8)
        label = method_label(method)
        # A long name must not run into the next panel's.
        axis.set_title(label, fontsize=min(10, 160 / len(label)))
    for axis in flat[1 + len(runs) :]:
        axis.set_axis_off()
    bounds = first.drawn.grid.borders.bounds
    for (row, column), axis in np.ndenumerate(axes):
        axis.set(xlim=bounds[:2], ylim=bounds[2:])
        axis.locator_params(nbins=4)
        axis.tick_params(labelsize=8, labelleft=column == 0, labelbottom=row == len(axes) - 1)
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")
    axes[0, 0].set_ylabel(f"{plain(environment)}\ny (m)")
    return image


#: Colours that differ in hue and lightness; where there are more methods, the line changes.
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555",
)  # fmt: skip
_LINES = ("-", "--", ":", "-.")
#: Metrics on a logarithmic axis, on which an outlying method does not flatten the others.
_LOGARITHMIC = ("smse", "update_s")


def method_styles(methods: Sequence[str]) -> Styles:
    """Colour and line of each method, by its place in the sweep; the same in every figure."""
    looks = [{"color": c, "linestyle": line} for line in _LINES for c in _COLOURS]
    return {name: looks[i % len(looks)] for i, name in enumerate(dict.fromkeys(methods))}


def draw_curves(comparison: Comparison, styles: Styles) -> Any:
    """SMSE, MSLL and update time over samples, mean and one deviation over seeds.

    Environments are columns. Returns the figure.
    """
    from matplotlib.lines import Line2D

    labels = {method: method_label(method) for method in comparison.methods}
    width = 1.0 + 2.6 * max(len(comparison.runs), 2)
    across = max(2, int(width / (1.5 if max(map(len, labels.values())) <= 10 else 1.9)))
    figure = blank_figure((width, 6.6 + 0.22 * -(-len(labels) // across)))
    axes = figure.subplots(len(SHOWN), len(comparison.runs), sharex="col", squeeze=False)
    for column, (environment, of_method) in zip(axes.T, comparison.runs.items(), strict=True):
        column[0].set_title(plain(environment))
        for axis, metric in zip(column, SHOWN, strict=True):
            for method, runs in of_method.items():
                _draw_curve(axis, [*runs.values()], metric, styles[method])
            axis.grid(alpha=0.3)
            axis.margins(x=0.02)
            _limit(axis, metric)
        column[-1].set_xlabel("samples")
    for axis, label in zip(axes[:, 0], SHOWN.values(), strict=True):
        axis.set_ylabel(label)
    figure.align_ylabels(axes[:, 0])
    keys = [Line2D([], [], label=label, **styles[method]) for method, label in labels.items()]
    columns = min(across, len(keys))
    figure.legend(handles=keys, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _draw_curve(axis: Any, runs: Sequence[Run], metric: str, style: dict[str, Any]) -> None:
    """Draw a metric on the samples that all runs have, interpolated; maybe there are none."""
    every = [run.epochs["samples"] for run in runs]
    at = np.unique(np.concatenate(every))
    at = at[(at >= max(each[0] for each in every)) & (at <= min(each[-1] for each in every))]
    values = np.array([np.interp(at, run.epochs["samples"], run.epochs[metric]) for run in runs])
    mean = values.mean(axis=0)
    # A run of one epoch is a point.
    axis.plot(at, mean, linewidth=1.3, marker="." if len(at) == 1 else None, **style)
    if len(values) > 1:
        std, colour = values.std(axis=0, ddof=1), style["color"]
        axis.fill_between(at, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)


def _limit(axis: Any, metric: str) -> None:
    """Set the y axis. That of MSLL ends at 0, beyond which a map says less than mean and variance
    of the samples."""
    if metric in _LOGARITHMIC:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(lambda at, _: f"{at:g}" if f"{at:e}"[0] in "25" else "")
        return
    lows = [line.get_ydata().min(initial=0.0) for line in axis.lines]
    if np.isfinite(lows).any() and np.nanmin(lows) < 0:
        axis.set_ylim(1.1 * np.nanmin(lows), 0)


#: The figures, by the names of their files.
FIGURES = {"curves": draw_curves, "maps": draw_maps}
