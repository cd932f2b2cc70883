"""The `poam` command. Exit status 0: done, 2: the input is wrong, 1: it failed otherwise.

Each command is a module with ``add_arguments(parser)`` and ``run(args)``, which is loaded only when
it is asked for, and loads what is heavy only when it runs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from .. import __version__
from ..core.errors import InputError, PoamError
from .interrupts import INTERRUPTED, exit_on_interrupt, report_interrupted
from .options import Parser

#: Every command, a module of its name here, and its summary.
COMMANDS = {
    "sim": "the whole ROS 2 graph: simulator, mapper, planner, with live progress",
    "run": "one mission in lock-step, without ROS (Algorithm 1 of the paper)",
    "map": "a recorded log becomes a map, validated on soundings held out",
    "benchmark": "missions side by side: environments x methods x seeds x pilots x planners",
    "report": "tables and figures of a benchmark, from its CSV",
    "export": "a run's map, or its contours, in formats that other programs read",
    "view": "a page of a run's folder or of the live graph, served on this machine",
    "repair": "a mission's folder: check it, and make it whole again",
    "profile": "time one update and one prediction, part by part",
    "doctor": "what is wrong with the running graph and with this machine, in words",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in COMMANDS:
        _overview().parse_args(given)  # helps, or refuses
    name = given[0]
    try:
        with exit_on_interrupt(f"poam {name}"):
            command = import_module(f".{name}", __package__)
            parser = Parser(prog=f"poam {name}", description=COMMANDS[name])
            command.add_arguments(parser)
        return command.run(parser.parse_args(given[1:]))
    except PoamError as error:
        print(f"poam {name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        report_interrupted(f"poam {name}")
        return INTERRUPTED


def _overview() -> Parser:
    """What `poam --help` shows. It never lets anything pass: commands have parsers of their own."""
    parser = Parser(prog="poam", description="Probabilistic Online Attentive Mapping (POAM).")
    parser.add_argument("--version", action="version", version=f"poam_ros {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


if __name__ == "__main__":
    sys.exit(main())
