"""A sweep's tables and figures, from the CSV files in its folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

from ...core.files import atomic_write
from ...outputs.folder import make_folder, write_table
from .comparison import METRICS, Comparison, Statistic, method_label, read_comparisons

_DPI = 150

#: Endings of each file of a report, but for averages.csv.
_ENDINGS = {
    "table": (".md",), **dict.fromkeys(("curves", "maps", "lengthscales"), (".png", ".pdf")),
}  # fmt: skip


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
    written = [report / "averages.csv"]
    several = len(comparisons) > 1
    suffixes = [f"-{c.pilot}-{c.planner}".replace(":", "-") if several else "" for c in comparisons]
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        written.append(report / f"table{suffix}.md")
        with atomic_write(written[-1]) as file:
            file.write(markdown_table(comparison).encode())
    if several:  # files of an earlier report on one pilot and planner are outdated
        for name, endings in _ENDINGS.items():
            for ending in endings:
                (report / f"{name}{ending}").unlink(missing_ok=True)
    # Over the whole sweep, so that a method looks the same in every figure.
    methods = dict.fromkeys(run.method for c in comparisons for run in c.runs)
    for comparison, suffix in zip(comparisons, suffixes, strict=True):
        written += _write_figures(report, comparison, suffix, list(methods))
    return written


def _write_figures(
    report: Path, comparison: Comparison, suffix: str, methods: list[str]
) -> list[Path]:
    from .figures import draw_curves, draw_lengthscales, draw_maps, method_styles

    figures = {
        "curves": draw_curves(comparison, method_styles(methods)),
        "maps": draw_maps(comparison),
        "lengthscales": draw_lengthscales(comparison),
    }
    written = []
    for name, figure in figures.items():
        for ending in _ENDINGS[name]:
            path = report / f"{name}{suffix}{ending}"
            _save(figure, path)
            # Keep the layout of the first file: computing it takes longer than drawing.
            figure.set_layout_engine("none")
            written.append(path)
    return written


def _save(figure: Any, path: Path) -> None:
    # Without the date, so that the same results make the same file.
    metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=_DPI, metadata=metadata)


#: Columns of the table: metrics and their titles.
TABLE_METRICS = {"smse": "SMSE", "msll": "MSLL", "update_s": "Update time (s)"}

#: Columns of averages.csv; ``first`` and ``last``: the span of samples that was averaged over.
AVERAGE_COLUMNS = (
    "environment", "pilot", "planner", "method", "metric", "first", "last",
    "mean", "std", "seeds", "final_mean", "final_std",
)  # fmt: skip

#: Significant digits of a mean without a standard deviation, and their maximum.
_DIGITS, _MAX_DIGITS = 3, 5


def format_statistic(statistic: Statistic | None) -> str:
    """mean(std): the deviation with two significant digits, the mean with as many decimals.

    A single seed has no parentheses; no seed is a dash.
    """
    if statistic is None:
        return "-"
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
    first, last = comparison.span
    for environment, method in _pairs(comparison):
        for metric in METRICS:
            average = comparison.average(environment, method, metric)
            final = comparison.final(environment, method, metric)
            yield (
                environment, comparison.pilot, comparison.planner, method, metric, first, last,
                *_mean_std(average), average.seeds if average else 0, *_mean_std(final),
            )  # fmt: skip


def _pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """Environments and methods that have runs."""
    pairs = product(comparison.environments, comparison.methods)
    return [pair for pair in pairs if comparison.of(*pair)]


def _mean_std(statistic: Statistic | None) -> tuple[float | str, float | str]:
    if statistic is None:
        return "", ""
    return statistic.mean, "" if statistic.std is None else statistic.std


def markdown_table(comparison: Comparison) -> str:
    """The table with its caption and notes."""
    lines = [
        " ".join(caption(comparison)),
        "",
        "| Environment | Method |" + "".join(f" {title} |" for title in TABLE_METRICS.values()),
        "|:--|:--|" + "--:|" * len(TABLE_METRICS),
    ]
    for environment in comparison.environments:
        name = environment
        for method, cells in _cells(comparison, environment):
            row = (text.replace("|", r"\|") for text in (name, method, *cells))
            lines.append("| " + " | ".join(row) + " |")
            name = ""
    remarks = [f"* {note}" for note in notes(comparison)]
    return "\n".join([*lines, *([""] if remarks else []), *remarks]) + "\n"


def _cells(comparison: Comparison, environment: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The methods' labels and cells in an environment; the lowest mean of a column is bold."""
    methods = [m for m in comparison.methods if comparison.of(environment, m)]
    columns = []
    for metric in TABLE_METRICS:
        column = [comparison.average(environment, method, metric) for method in methods]
        lowest = min((s.mean for s in column if s and isfinite(s.mean)), default=None)
        texts = [(format_statistic(s), s is not None and s.mean == lowest) for s in column]
        columns.append([f"**{text}**" if best else text for text, best in texts])
    return zip(map(method_label, methods), zip(*columns, strict=True), strict=True)


def caption(comparison: Comparison) -> list[str]:
    """The caption of the table, in sentences."""
    first, last = comparison.span
    what = "Values at the last epoch: the runs have no common span of samples."
    if first < last:
        what = f"Averages from {first:g} to {last:g} samples."
    seeds = {len(comparison.of(*pair)) for pair in _pairs(comparison)}
    count = str(max(seeds)) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    over = "One seed." if seeds == {1} else f"mean(standard deviation) over {count} seeds."
    return [
        f"Pilot survey: {comparison.pilot}; planner: {comparison.planner}.", what, over,
        "Lower is better; the lowest mean is bold.",
    ]  # fmt: skip


def notes(comparison: Comparison) -> list[str]:
    """Notes for a fair comparison: runs that ended early, missing seeds."""
    remarks = []
    last = comparison.span[1]
    most = max(len(comparison.of(*pair)) for pair in _pairs(comparison))
    for environment, method in product(comparison.environments, comparison.methods):
        runs = comparison.of(environment, method)
        name = f"{environment}, {method_label(method)}"
        if len(runs) < most:
            remarks.append(f"{name}: {len(runs)} of {most} seeds.")
        remarks += [
            f"{name}, seed {run.seed}: averaged up to its end at {run.samples[-1]:g} samples."
            for run in runs
            if run.samples[-1] < last
        ]
    return remarks
