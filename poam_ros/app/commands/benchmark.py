"""`poam benchmark`: run a benchmark and report on it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...research.configuration import SHIPPED, shared_settings
from ..command import INTERRUPTED, Parser, exit_on_interrupt, figures

if TYPE_CHECKING:
    from ...research.configuration import Run
    from ...research.sweep import SweepStatus


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    shipped = (
        f"YAML file, the name of a shipped one ({', '.join(SHIPPED)}), or the folder of a finished "
        "benchmark: write its tables and figures again."
    )
    add("config", metavar="CONFIG", help=shipped)
    add("--output", type=Path, metavar="DIR",
        help="Folder of results; an existing one is continued (default: "
        "runs/benchmark-CONFIG).")  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="N",
        help="Number of processes (default: cores / model.threads).")  # fmt: skip
    where.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="Use this dask scheduler instead, such as tcp://10.0.0.5:8786.",
    )  # fmt: skip
    add("--terrains", type=Path, metavar="DIR",
        help="Look for terrains in this folder before downloading them.")  # fmt: skip
    parser.takes(shared_settings().values())


def run(args: argparse.Namespace) -> int:
    """Run the unfinished runs of the benchmark and report; returns the exit status."""
    if (finished := Path(args.config).expanduser()).is_dir():
        return _report(finished)
    with exit_on_interrupt("poam benchmark"):
        from ...research.configuration import find_sweep, read_sweep
        from ...research.sweep import run_sweep
        from ..progress import work_progress

    config = find_sweep(args.config)
    folder = args.output or Path("runs") / f"benchmark-{config.stem}"
    settings = read_sweep(config).changed(vars(args))
    options = {name: getattr(args, name) for name in ("workers", "scheduler", "terrains")}
    try:
        with work_progress("benchmark", len(settings.runs()), 10**6) as report:
            status = run_sweep(settings, folder, on_run=partial(_tell, report), **options)
    except KeyboardInterrupt:
        print(
            f"\npoam benchmark: interrupted; finished runs are in {folder}, "
            "and the same command continues there",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(f"{status.finished} of {status.total} runs are in {folder}, {len(status.failed)} failed")
    if status.finished:
        _report(folder)
    return 1 if status.failed else 0


def _tell(report: Callable[..., None], status: SweepStatus, run: Run | None) -> None:
    """Report a run that has ended; that it failed, on stderr as well."""
    if run in status.failed:
        path = status.failed[run]
        lines = path.read_text(encoding="utf-8").strip().splitlines()
        print(f"FAILED {run}: {lines[-1] if lines else 'no reason given'} ({path})",
            file=sys.stderr, flush=True)  # fmt: skip
    text = f"{status.finished}/{status.total} runs done, {len(status.failed)} failed"
    report(status.finished + len(status.failed), text)


def _report(folder: Path) -> int:
    from ...research.report import write_report

    with figures("benchmark"):
        for path in write_report(folder):
            print(path)
    return 0
