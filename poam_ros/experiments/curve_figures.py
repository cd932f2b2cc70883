"""Metric curves of a sweep, methods in one axis, environments side by side. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..runs.figures import blank_figure, plain
from .comparison import Comparison, FinishedRun, method_label

#: Metrics drawn over samples, and their axes' labels.
CURVES = {"smse": "SMSE", "msll": "MSLL", "update_s": "update (s)"}

#: Colours that differ in hue and lightness; where there are more methods, the line changes.
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555",
)  # fmt: skip
_LINES = ("-", "--", ":", "-.")

#: A curve far beyond the others leaves its axis at so many times their usual height.
_REACH = 2.0

#: By method: samples [N], and the values of its runs there [runs, N].
Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and line of each method, by its place in the sweep; the same in every figure."""
    count = len(_COLOURS)
    return {
        method: {"color": _COLOURS[i % count], "linestyle": _LINES[i // count % len(_LINES)]}
        for i, method in enumerate(methods)
    }


def draw_curves(comparison: Comparison, styles: dict[str, dict[str, Any]]) -> Any:
    """SMSE, MSLL and update time over samples, mean and one deviation over seeds.

    Environments are columns. Returns the figure.
    """
    from matplotlib.lines import Line2D

    environments = comparison.environments
    width = 1.0 + 2.6 * max(len(environments), 2)
    longest = max(len(method_label(method)) for method in comparison.methods)
    across = max(2, int(width / (1.5 if longest <= 10 else 1.9)))
    legend_rows = -(-len(comparison.methods) // across)
    figure = blank_figure((width, 6.6 + 0.22 * legend_rows))
    axes = figure.subplots(len(CURVES), len(environments), sharex="col", squeeze=False)
    for column, environment in zip(axes.T, environments, strict=True):
        column[0].set_title(plain(environment))
        for axis, metric in zip(column, CURVES, strict=True):
            curves = {
                method: seed_curves(comparison.of(environment, method), metric)
                for method in comparison.methods
                if comparison.of(environment, method)
            }
            _draw_metric(axis, curves, styles)
            _limit(axis, metric, curves)
        column[-1].set_xlabel("samples")
    for axis, label in zip(axes[:, 0], CURVES.values(), strict=True):
        axis.set_ylabel(label)
    figure.align_ylabels(axes[:, 0])
    keys = [Line2D([], [], label=method_label(m), **styles[m]) for m in comparison.methods]
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


def _draw_metric(axis: Any, curves: Curves, styles: dict[str, dict[str, Any]]) -> None:
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
    """Choose the y axis by what follows the first tenth, so that neither the steep start nor a
    method far off flattens the other curves."""
    every = np.concatenate([at for at, _ in curves.values()])
    start = 0.9 * every.min() + 0.1 * every.max() if len(every) else 0.0
    means = {}
    for method, (at, values) in curves.items():
        mean = values.mean(axis=0)[(at >= start) | (at == at[-1:])]
        if np.isfinite(mean).any():
            means[method] = mean[np.isfinite(mean)]
    if not means:
        return
    highs = np.array([np.quantile(mean, 0.98) for mean in means.values()])
    lowest = min(float(mean.min()) for mean in means.values())
    if metric == "update_s" and lowest > 0:
        if highs.max() > 2 * _REACH * np.median(highs):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        else:
            axis.set_ylim(0, 1.15 * highs.max())
        return
    floor = lowest if metric == "msll" else 0.0
    height = min(float(highs.max()) - floor, _REACH * (float(np.median(highs)) - floor))
    if height <= 0:
        return
    top = floor + 1.15 * height
    axis.set_ylim(floor - (0.08 * height if metric == "msll" else 0), top)
    beyond = [method_label(method) for method, mean in means.items() if mean.min() > top]
    if beyond:
        text = "above: " + ", ".join(beyond)
        axis.text(0.97, 0.96, text, transform=axis.transAxes, ha="right", va="top", fontsize=8)
