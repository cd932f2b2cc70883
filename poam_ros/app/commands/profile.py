"""`poam profile`: measure the time of updates, predictions and maps of a model, part by part."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.geometry import Grid
from ...core.settings import rows
from ...models.registry import ModelSettings, SparseOptions, option_rows
from ..command import Parser, add_settings, exit_on_interrupt

#: The settings of a model that are options of their own.
OPTIONS = ("method", "threads", "device")
#: Numbers of which each gives a case, and the others: default and help.
CASES = {
    "samples": (2000, "Pings in the map before the update"),
    "inducing": (SparseOptions.num_inducing, "Maximum number of inducing inputs"),
    "grid": (120, "A map has N x N cells"),
}
NUMBERS = {
    "batch": (22, "New pings in an update"),
    "queries": (4500, "Places per prediction"),
    "repeats": (10, "Number of measurements after the warm-up"),
}
#: Samples in one batch before the measurement; rounds that do not count.
FILL, WARM_UP = 1500, 2
#: Operations that are timed as a whole, by wall clock and by CPU time of the process.
WHOLES = ("update", "predict", "map")


def add_arguments(parser: Parser) -> None:
    for name, (usual, text) in CASES.items():
        parser.add_argument(f"--{name}", type=int, nargs="+", default=[usual], metavar="N",
            help=f"{text}; one case for each (default: {usual}).")  # fmt: skip
    for name, (usual, text) in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N",
            help=f"{text} (default: {usual}).")  # fmt: skip
    add_settings(parser, (row for row in rows(ModelSettings) if row.name in OPTIONS))
    parser.add_argument("--json", action=argparse.BooleanOptionalAction, default=False,
        help="Print one JSON object per line instead of a table.")  # fmt: skip
    parser.takes(option_rows())


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    with exit_on_interrupt("poam profile"):
        from threadpoolctl import threadpool_info

        from ...core.process import configure_process
        from ...models.native.loader import load

    for name in (*CASES, *NUMBERS):
        if (least := np.min(getattr(args, name))) < 1:
            raise InputError(f"{name}: expected at least 1, got {least}")
    models = [ModelSettings.of({"sparse.num_inducing": m, **vars(args)}) for m in args.inducing]
    configure_process(models[0].threads)
    backend = "native" if load("attentive") else "torch"
    facts = {"threads": models[0].threads, "device": models[0].device, "backend": backend}
    if not args.json:
        pools = threadpool_info()
        blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in pools}
        print(
            "kernel: {backend}, device: {device}, threads: {threads}, ".format(**facts)
            + f"BLAS: {', '.join(sorted(blas))}, {platform.machine()}"
        )
    for samples, model, grid in product(args.samples, models, args.grid):
        case = {"samples": samples, **{name: getattr(args, name) for name in NUMBERS}, "grid": grid}
        result = {"method": model.method, **case, **facts, **measure(model, **case)}
        print(json.dumps(result) if args.json else f"\n{table(result)}", flush=True)
    return 0


def measure(
    model: ModelSettings, samples: int, batch: int, queries: int, repeats: int, grid: int
) -> dict[str, Any]:
    """Medians over the repeats, after a warm-up: wall times ``*_s`` and CPU times ``*_cpu_s`` of
    one update with its parts, one prediction and one map; ``*_spread``: half the interquartile
    range; ``inducing``: their number. Pings are scattered over the generated seamounts."""
    from ...models.mapper import BathymetricMapper
    from ...simulation.terrain import WORKSPACE, load_terrain

    mapper, terrain = BathymetricMapper(WORKSPACE, model, 0), load_terrain("seamounts", seed=0)
    rng, cells = np.random.default_rng(0), Grid.nodes(WORKSPACE, grid, grid)

    def pings(count: int) -> tuple[np.ndarray, np.ndarray]:
        xy = WORKSPACE.sample(count, rng)
        return xy, terrain.elevation_at(xy) + rng.normal(size=count)

    while (missing := samples - mapper.samples) > 0:
        mapper.update(*pings(min(FILL, missing)))
    places, times = WORKSPACE.sample(queries, rng), []
    for _ in range(WARM_UP + repeats):
        new, spent = pings(batch), {}
        calls: dict[str, Callable[[], Any]] = {
            "update": partial(mapper.update, *new),
            "predict": lambda: mapper.predict(places),
            "map": lambda: mapper.map(cells),
        }
        for name, call in calls.items():
            wall, cpu = perf_counter(), process_time()
            done = call()
            spent[f"{name}_s"] = perf_counter() - wall
            spent[f"{name}_cpu_s"] = process_time() - cpu
            if name == "update":
                spent |= {f"{part}_s": seconds for part, seconds in done.seconds.items()}
        times.append(spent)
    result: dict[str, Any] = {"inducing": len(mapper.support)}
    for name in times[0]:
        values = [spent[name] for spent in times[WARM_UP:]]
        low, high = np.quantile(values, (0.25, 0.75))
        result |= {name: median(values), f"{name[:-2]}_spread": float(high - low) / 2}
    return result


def table(result: dict[str, Any]) -> str:
    """The results of one case as a table, in ms."""
    lines = [
        "{method}: samples {samples}, inducing {inducing}, batch {batch}".format(**result),
        f"{'':12}{'wall ms':>16}{'CPU ms':>16}",
    ]
    labels = {"predict": f"{result['queries']} points", "map": "{0} x {0}".format(result["grid"])}
    names = [n.removesuffix("_s") for n in result if n.endswith("_s") and "_cpu" not in n]
    for name in sorted(names, key=WHOLES.__contains__):  # the parts of an update, then the wholes
        cells = [
            f"{1e3 * result[f'{of}_s']:.1f} +-{1e3 * result[f'{of}_spread']:5.1f}"
            for of in (name, f"{name}_cpu")
            if f"{of}_s" in result
        ]
        lines.append(f"{labels.get(name, name):12}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)
