"""`poam report`: write tables and figures of a benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..command import figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="Folder of the benchmark.")


def run(args: argparse.Namespace) -> int:
    """Write the report; returns the exit status."""
    from ...research.sweeps.sweep_report import write_report

    with figures("benchmark"):
        for path in write_report(args.folder):
            print(path)
    return 0
