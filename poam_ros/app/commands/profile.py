"""`poam profile`: measure the time of updates, predictions and maps."""

from __future__ import annotations

import argparse
import json

from ...core.settings import rows
from ...models.registry import ModelSettings, SparseOptions, option_rows
from ..command import Parser, add_settings, exit_on_interrupt

#: The settings of a model that are options of their own.
OPTIONS = ("method", "threads", "device")


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    for name, default, text in (
        ("--samples", 2000, "Pings in the map before the update"),
        ("--inducing", SparseOptions.num_inducing, "Maximum number of inducing inputs"),
        ("--grid", 120, "A map has N x N cells"),
    ):
        add(name, type=int, nargs="+", default=[default], metavar="N",
            help=f"{text}; one case for each (default: {default}).")  # fmt: skip
    for name, usual, text in (
        ("--batch", 22, "New pings in an update"),
        ("--queries", 4500, "Places per prediction"),
        ("--repeats", 10, "Number of measurements after the warm-up"),
    ):
        add(name, type=int, default=usual, metavar="N", help=f"{text} (default: {usual}).")
    add_settings(parser, (row for row in rows(ModelSettings) if row.name in OPTIONS))
    add("--json", action=argparse.BooleanOptionalAction, default=False,
        help="Print one JSON object per line instead of a table.")  # fmt: skip
    parser.takes(option_rows())


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit status."""
    with exit_on_interrupt("poam profile"):
        from ...research.profile import ProfileSettings, machine, profile, table

    own = {name: getattr(args, name) for name in ("batch", "queries", "repeats")}
    models = [ModelSettings.of({"sparse.num_inducing": m, **vars(args)}) for m in args.inducing]
    cases = [
        ProfileSettings(samples=samples, grid=grid, model=model, **own)
        for samples in args.samples
        for model in models
        for grid in args.grid
    ]
    if not args.json:
        print(machine(cases[0]))
    for case in cases:
        result = profile(case)
        print(json.dumps(result) if args.json else f"\n{table(result)}", flush=True)
    return 0
