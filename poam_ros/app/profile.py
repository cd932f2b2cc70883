"""`poam profile`: what one update and one prediction cost."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from .interrupts import exit_on_interrupt


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, where there are any."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = _HelpFormatter
    add = parser.add_argument
    add("--method", default="poam", help="map model, as of poam run")
    add("--samples", type=int, nargs="+", metavar="N",
        help="pings in the map before (one after another); 2000, with --nodes 0")  # fmt: skip
    add("--inducing", type=int, nargs="+", default=[500], metavar="N",
        help="largest number of inducing points, also of the reference")  # fmt: skip
    add("--batch", type=int, default=22, help="new pings in an update")
    add("--queries", type=int, default=4500, help="points of a prediction")
    add("--grid", type=int, nargs="+", default=[120], metavar="G", help="map of G x G points")
    add("--repeats", type=int, default=10, help="measurements of each, after warm-up")
    add("--threads", type=int, default=1, help="of the linear algebra")
    add("--device", default="cpu", help="torch device, such as cuda")
    add("--reference", action=argparse.BooleanOptionalAction, default=False,
        help="time GPyTorch with autograd in the same run")  # fmt: skip
    add("--json", action=argparse.BooleanOptionalAction, default=False,
        help="one JSON object a line instead of a table")  # fmt: skip
    add("--plot", type=Path, metavar="FILE", help="draw the cases (needs matplotlib)")
    add("--nodes", type=float, metavar="SECONDS",
        help="latencies of mapper and planner over real topics instead (needs ROS 2)")  # fmt: skip
    add("--update-budget", type=float, default=0.0, metavar="SECONDS",
        help="with --nodes: the mapper's training.budget")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    if args.nodes is not None:
        return _profile_nodes(args)
    with exit_on_interrupt("poam profile"):
        from ..research.bench.profile import (
            ProfileSettings,
            draw_profile,
            machine,
            profile,
            table,
        )
        from ..research.bench.rates import measure_rates

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
        from ..research.bench.latency import measure
    except ImportError as error:
        raise InputError(f"--nodes: expected ROS 2 (rclpy), which is not there ({error})") from None
    if not args.nodes > 0:
        raise InputError(f"--nodes: expected a positive number of seconds, got {args.nodes:g}")
    for samples in args.samples or [0]:
        result = measure(args.nodes, args.method, samples, args.update_budget)
        print(json.dumps(result) if args.json else _latencies(result), flush=True)
    return 0


def _latencies(result: dict[str, Any]) -> str:
    """What was measured of the nodes, for people, in ms."""
    head = "{method}, {samples} pings before; ms over {seconds:g} s: median, p99, worst"
    lines = [head.format(**result)]
    for name, spread in result.items():
        if isinstance(spread, dict) and spread["count"]:
            values = (1e3 * spread[f"{part}_s"] for part in ("median", "p99", "worst"))
            text = "".join(f"{value:9.1f}" for value in values)
            lines.append(f"{name:16s}{text}   of {spread['count']}")
    return "\n".join(lines)
