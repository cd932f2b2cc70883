"""`poam report`: write tables and figures of a benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="Folder of the benchmark.")


def run(args: argparse.Namespace) -> int:
    """Write the report; returns the exit status."""
    from ..research.sweeps.report import write_report

    try:
        for path in write_report(args.folder):
            print(path)
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[benchmark]')")
    return 0
