"""What one update, one prediction and one map cost, part by part."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from ...core.files import replacing
from ...core.process import prepare
from ...models.native.attentive import BACKEND
from ...models.registry import NeighbourOptions, SparseOptions
from . import neighbour_rates
from .contest import WHOLES, Contest, ProfileSettings
from .rates import Rates, Work, map_work, prediction_work, update_work

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


WARM_UP = 2  # updates and predictions that do not count


def profile(settings: ProfileSettings, rates: Rates) -> dict[str, Any]:
    """Medians over the repeats, after warm-up: wall times ``*_s`` and CPU times ``*_cpu_s``.

    CPU times of an update's parts are its own, shared out like the wall time. The spread is half
    the range between the quartiles. ``*_bound_s`` is the time that the unavoidable operations take
    at the machine's rates, for POAM and for the nearest neighbours. Of the reference there are CPU
    times and ``*_ratio``, the median of its CPU time over ours in the same round. Pings are
    scattered over the generated seamounts.
    """
    prepare(settings.threads)
    contest = Contest(settings)
    contest.fill()
    rounds = [contest.round() for _ in range(WARM_UP + settings.repeats)][WARM_UP:]
    times = {name: [r[name] for r in rounds] for name in rounds[0]}
    result: dict[str, Any] = {
        "method": settings.method,
        "samples": settings.samples,
        "inducing": len(contest.mapper.support),
        **{name: getattr(settings, name) for name in ("batch", "queries", "grid", "threads")},
        "device": settings.device,
        "backend": BACKEND,
        **{name: median(values) for name, values in times.items()},
        **{f"{name.removesuffix('_s')}_spread": _spread(v) for name, v in times.items()},
        "gflops": rates.flops / 1e9,
        "exponentials_per_ns": rates.exponentials / 1e9,
        **_bounds(settings, rates),
    }
    if settings.reference:
        for name in WHOLES:
            pairs = zip(times[f"reference_{name}_cpu_s"], times[f"{name}_cpu_s"], strict=True)
            result[f"{name}_ratio"] = median(theirs / ours for theirs, ours in pairs)
    return result


def machine(settings: ProfileSettings, rates: Rates) -> str:
    """What it is measured on, in two lines: kernel, threads, BLAS, processor and its rates."""
    blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in threadpool_info()}
    return (
        f"kernel: {BACKEND}, device: {settings.device}, threads: {settings.threads}, "
        f"BLAS: {', '.join(sorted(blas))}, {platform.machine()}\n"
        f"one thread: {rates.flops / 1e9:.1f} GFlop/s (DGEMM of 500), "
        f"{rates.exponentials / 1e9:.2f} exponentials per ns"
    )


def table(result: dict[str, Any]) -> str:
    """One case for people, in ms."""
    reference = "update_ratio" in result
    head = f"{'':12}{'wall ms':>16}{'CPU ms':>16}{'bound':>9}{'reached':>9}"
    lines = [
        "{method}: samples {samples}, inducing {inducing}, batch {batch}".format(**result),
        head + (f"{'reference':>18}{'ratio':>8}" if reference else ""),
    ]
    labels = {"predict": f"{result['queries']} points", "map": "{0} x {0}".format(result["grid"])}
    for name in _timed(result):
        cells = _cell(result, name) + _cell(result, f"{name}_cpu")
        bound = result.get(f"{name}_bound_s")
        if bound is None:
            cells += " " * 18
        else:
            cells += f"{1e3 * bound:9.1f}{bound / result[f'{name}_cpu_s']:9.0%}"
        if reference:
            cells += _cell(result, f"reference_{name}_cpu", 18)
            cells += f"{result[f'{name}_ratio']:7.1f}x" if name in WHOLES else ""
        lines.append(f"{labels.get(name, name):12}{cells}".rstrip())
    return "\n".join(lines)


def _timed(result: dict[str, Any]) -> list[str]:
    """What was timed of ours: the parts of an update in their order, then the wholes."""
    suffix = "_cpu_s"
    names = [name.removesuffix(suffix) for name in result if name.endswith(suffix)]
    parts = [n for n in names if not n.startswith("reference_") and n not in WHOLES]
    return [*parts, *WHOLES]


def _bounds(settings: ProfileSettings, rates: Rates) -> dict[str, float]:
    """Of the methods whose operations are counted; of others nothing."""
    options, grid = settings.model.options, settings.grid
    if isinstance(options, NeighbourOptions):
        work = {
            "update": neighbour_rates.update_work(options, settings.samples),
            "predict": neighbour_rates.prediction_work(options, settings.queries),
            "map": neighbour_rates.prediction_work(options, grid * grid),
        }
        work["training"] = work["update"]
    elif settings.method == "poam":
        work = _sparse_work(settings, options)
    else:
        return {}
    bounds = {f"{name}_bound_s": w.seconds(rates) for name, w in work.items()}
    flops = {f"{name}_gflop": work[name].flops / 1e9 for name in WHOLES}
    return bounds | flops | {f"{n}_exponentials": work[n].exponentials for n in WHOLES}


def _sparse_work(settings: ProfileSettings, options: SparseOptions) -> dict[str, Work]:
    M, bases = settings.inducing, options.num_lengthscales
    return {
        **update_work(M, settings.batch, options.minibatch, options.steps, bases),
        "predict": prediction_work(M, settings.queries, bases),
        "map": map_work(M, settings.grid, settings.grid, bases),
    }


def _spread(values: Sequence[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 2


def _cell(result: dict[str, Any], name: str, width: int = 16) -> str:
    """A median and its spread in ms; blank where that was not measured."""
    if f"{name}_s" not in result:
        return " " * width
    return f"{1e3 * result[f'{name}_s']:.1f} +-{1e3 * result[f'{name}_spread']:5.1f}".rjust(width)
