"""Profiles of several cases as curves: time against samples, inducing points or grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.files import replacing
from .contest import WHOLES

#: What may be swept, and the name of its axis.
SWEPT = {"samples": "samples", "inducing": "inducing points", "grid": "map's columns and rows"}
ASPECT = (4.6, 3.6)  # inches of one panel


def draw_profile(results: Sequence[dict[str, Any]], path: Path) -> None:
    """One panel for each setting that takes several values; the others at their first value.

    Raises:
        ImportError: without matplotlib.
    """
    from matplotlib.figure import Figure

    first = results[0]
    swept = [name for name in SWEPT if len({r[name] for r in results}) > 1] or ["samples"]
    figure = Figure(figsize=(ASPECT[0] * len(swept), ASPECT[1]), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(swept), squeeze=False)[0], swept, strict=True):
        others = [other for other in SWEPT if other != name]
        chosen = [r for r in results if all(r[other] == first[other] for other in others)]
        for whole in WHOLES:
            _curve(axes, chosen, name, f"{whole}_cpu", whole)
            compared = [r for r in chosen if f"{whole}_ratio" in r]
            if compared:
                _curve(axes, compared, name, f"reference_{whole}_cpu", f"{whole}, reference")
        axes.set(xscale="log", yscale="log", xlabel=SWEPT[name], ylabel="CPU time (ms)")
        axes.grid(which="both", alpha=0.25)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=110, format=path.suffix[1:] or "png")


def _curve(axes: Any, results: Sequence[dict[str, Any]], at: str, name: str, label: str) -> None:
    results = sorted(results, key=lambda r: r[at])
    axes.errorbar(
        [r[at] for r in results],
        [1e3 * r[f"{name}_s"] for r in results],
        [1e3 * r[f"{name}_spread"] for r in results],
        marker="o", markersize=4, capsize=2, label=label,
        color=f"C{WHOLES.index(label.split(',')[0])}",
        linestyle="--" if "reference" in label else "-",
    )  # fmt: skip
