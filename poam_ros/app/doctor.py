"""`poam doctor`: what is wrong with the graph and the machine, in words. Works without ROS 2."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from .findings import Finding, problem
from .graph_findings import any_problem, graph_findings, listen
from .machine import machine_findings, middleware_findings

HEALTHY, PROBLEMS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mission-dir", type=Path, metavar="DIR",
        help="look at the room on the disk of this folder, too")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=4.0,
        help="listen to /diagnostics for so long (default: 4; 0: not at all)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Look and print, a finding a line; 0: healthy, 1: something is wrong."""
    if not 0 <= args.seconds <= 3600:
        raise InputError(f"--seconds: expected a number from 0 to 3600, got {args.seconds:g}")
    findings = []
    for finding in _findings(args):
        findings.append(finding)
        print(finding, flush=True)
    wrong = sum(finding.problem for finding in findings)
    print(f"{wrong} problem{'s' * (wrong != 1)}" if wrong else "healthy")
    return PROBLEMS if any_problem(findings) else HEALTHY


def _findings(args: argparse.Namespace) -> Iterator[Finding]:
    yield from machine_findings(args.mission_dir)
    if importlib.util.find_spec("rclpy") is None:
        yield Finding("ROS 2 (rclpy) is not there", "source it where nodes are to run")
        return
    yield from middleware_findings()
    if not args.seconds:
        return
    try:
        heard = listen(args.seconds)
    except Exception as error:  # of the middleware's libraries, in many types
        words = " ".join(str(error).split())[:200]
        yield problem(f"ROS 2 does not come up ({words})", "check its installation and sourcing")
        return
    yield from graph_findings(heard)
