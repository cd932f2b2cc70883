"""The `poam` command. Exit status 0: done; 2: the input is wrong; 1: any other failure.

Each command is a module with ``add_arguments(parser)`` and ``run(args)``. It is imported only when
it is used, and imports what is slow to load only when it runs.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from .. import __version__
from ..core.errors import InputError, PoamError, Question
from .command import INTERRUPTED, Parser, exit_on_interrupt, report_interrupted

#: The commands with their summaries. Each is a module of ``app/commands/`` with the same name.
COMMANDS = {
    "sim": "Simulate a mission with the ROS 2 nodes.",
    "run": "Simulate a mission in lock-step, without ROS (Algorithm 1 of the paper).",
    "map": "Map a recorded log, and validate the map.",
    "diff": "Compute the change of the bottom between two surveys.",
    "drive": "Drive a mission on an ArduPilot vehicle over MAVLink, without ROS.",
    "waypoints": "Write a survey as a plan for a ground station.",
    "benchmark": "Run a benchmark: terrains x methods x seeds x pilots x planners.",
    "export": "Export the map or the contours of a run for other programs.",
    "plan": "Forecast how long a survey takes until its map meets a target.",
    "view": "Show a run or the live ROS graph in a browser.",
    "repair": "Check and repair a mission folder.",
    "profile": "Measure the time of updates and predictions.",
    "doctor": "Check the running ROS graph and this machine.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in COMMANDS:
        _overview().parse_args(words)  # prints the help or an error, and exits
    name = words[0]
    try:
        with exit_on_interrupt(f"poam {name}"):
            command = import_module(f".commands.{name}", __package__)
            parser = Parser(prog=f"poam {name}", description=COMMANDS[name])
            command.add_arguments(parser)
        args = parser.parse_args(words[1:])
        if name == "map":  # it records its command line
            args.given = shlex.join(["poam", *words])
        status = command.run(args)
        sys.stdout.flush()
        return status
    except Question as asked:
        print(f"poam {name}: {asked.text}", file=sys.stderr)
        for when, options in asked.answers.items():  # a command has a line of its own
            print(f"{when}:\n    {shlex.join(['poam', *words])} {options}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as by `poam ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except PoamError as error:
        print(f"poam {name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except OSError as error:  # above all a full disk
        if error.filename is None:
            raise
        print(f"poam {name}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        report_interrupted(f"poam {name}")
        return INTERRUPTED


def _overview() -> Parser:
    """The parser of `poam --help`. Every command has a parser of its own."""
    text = "Drive and simulate bathymetric surveys, map soundings, and export the maps."
    parser = Parser(prog="poam", description=text)
    parser.add_argument("--version", action="version", version=f"poam_ros {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


if __name__ == "__main__":
    sys.exit(main())
