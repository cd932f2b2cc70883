"""`poam profile`: measure the time of updates and predictions."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ..command import exit_on_interrupt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--samples", type=int, nargs="+", metavar="N",
        help="Pings in the map before the update; one case for each (default: 2000, with "
        "--nodes 0).")  # fmt: skip
    add("--inducing", type=int, nargs="+", default=[500], metavar="N",
        help="Maximum number of inducing inputs; one case for each (default: 500).")  # fmt: skip
    add("--grid", type=int, nargs="+", default=[120], metavar="G",
        help="Map of G x G cells; one case for each (default: 120).")  # fmt: skip
    for name, default, text in (
        ("--method", "poam", "Map model, as in poam run"),
        ("--batch", 22, "New pings in an update"),
        ("--queries", 4500, "Places per prediction"),
        ("--repeats", 10, "Number of measurements after the warm-up"),
        ("--threads", 1, "Number of threads for linear algebra"),
        ("--device", "cpu", "Torch device, such as cuda"),
    ):
        kind = type(default)
        add(name, type=kind, default=default, metavar="N" if kind is int else "NAME",
            help=f"{text} (default: {default}).")  # fmt: skip
    add("--reference", action=argparse.BooleanOptionalAction, default=False,
        help="Measure GPyTorch with autograd as well.")  # fmt: skip
    add("--json", action=argparse.BooleanOptionalAction, default=False,
        help="Print one JSON object per line instead of a table.")  # fmt: skip
    add("--plot", type=Path, metavar="FILE", help="Draw the cases (extra `sim`).")
    add("--nodes", type=float, metavar="SECONDS",
        help="Measure the latencies of mapper and planner over topics for this long instead "
        "(s; needs ROS 2).")  # fmt: skip
    add("--update-budget", type=float, default=0.0, metavar="SECONDS",
        help="With --nodes: training.budget of the mapper (s; default: 0: no limit).")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    if args.nodes is not None:
        return _profile_nodes(args)
    with exit_on_interrupt("poam profile"):
        from ...research.bench.profile import ProfileSettings, draw_profile, machine, profile, table
        from ...research.bench.rates import measure_rates

    names = ("method", "batch", "queries", "repeats", "threads", "device", "reference")
    options = {name: getattr(args, name) for name in names}
    cases = [
        ProfileSettings(samples=n, inducing=m, grid=g, **options)
        for n in args.samples or [2000]
        for m in args.inducing
        for g in args.grid
    ]
    rates, results = measure_rates(), []
    if not args.json:
        print(machine(cases[0], rates))
    for case in cases:
        results.append(profile(case, rates))
        print(json.dumps(results[-1]) if args.json else f"\n{table(results[-1])}", flush=True)
    if args.plot:
        draw_profile(results, args.plot)
    return 0


def _profile_nodes(args: argparse.Namespace) -> int:
    try:
        from ...research.bench.latency import measure
    except ImportError as error:
        raise InputError(f"--nodes: expected ROS 2 (rclpy) to be installed ({error})") from None
    if not args.nodes > 0:
        raise InputError(f"--nodes: expected a positive number of seconds, got {args.nodes:g}")
    for samples in args.samples or [0]:
        result = measure(args.nodes, args.method, samples, args.update_budget)
        print(json.dumps(result) if args.json else _latencies(result), flush=True)
    return 0


def _latencies(result: dict[str, Any]) -> str:
    """The measured latencies as text, in ms."""
    head = "{method}, {samples} pings in the map; ms over {seconds:g} s: median, p99, maximum"
    lines = [head.format(**result)]
    for name, spread in result.items():
        if isinstance(spread, dict) and spread["count"]:
            values = (1e3 * spread[f"{part}_s"] for part in ("median", "p99", "worst"))
            text = "".join(f"{value:9.1f}" for value in values)
            lines.append(f"{name:16s}{text}   of {spread['count']}")
    return "\n".join(lines)
