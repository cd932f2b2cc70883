"""`poam profile`: measure the time of updates, predictions and maps."""

from __future__ import annotations

import argparse
import json

from ..command import exit_on_interrupt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for name, default, text in (
        ("--samples", 2000, "Pings in the map before the update"),
        ("--inducing", 500, "Maximum number of inducing inputs"),
        ("--grid", 120, "A map has N x N cells"),
    ):
        add(name, type=int, nargs="+", default=[default], metavar="N",
            help=f"{text}; one case for each (default: {default}).")  # fmt: skip
    other: tuple[tuple[str, str | int, str], ...] = (
        ("--method", "poam", "Map model, as in poam run"),
        ("--batch", 22, "New pings in an update"),
        ("--queries", 4500, "Places per prediction"),
        ("--repeats", 10, "Number of measurements after the warm-up"),
        ("--threads", 1, "Number of threads for linear algebra"),
        ("--device", "cpu", "Torch device, such as cuda"),
    )
    for name, usual, text in other:
        kind = type(usual)
        add(name, type=kind, default=usual, metavar="N" if kind is int else "NAME",
            help=f"{text} (default: {usual}).")  # fmt: skip
    add("--json", action=argparse.BooleanOptionalAction, default=False,
        help="Print one JSON object per line instead of a table.")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    with exit_on_interrupt("poam profile"):
        from ...research.profile import ProfileSettings, machine, profile, table

    names = ("method", "batch", "queries", "repeats", "threads", "device")
    options = {name: getattr(args, name) for name in names}
    cases = [
        ProfileSettings(samples=n, inducing=m, grid=g, **options)
        for n in args.samples
        for m in args.inducing
        for g in args.grid
    ]
    if not args.json:
        print(machine(cases[0]))
    for case in cases:
        result = profile(case)
        print(json.dumps(result) if args.json else f"\n{table(result)}", flush=True)
    return 0
