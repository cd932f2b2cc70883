"""The console scripts: the `poam` command, and the nodes. Exit status 0: done; 2: the input is
wrong; 1: any other failure.

Each command is a module with ``add_arguments(parser)`` and ``run(args)``. It is imported only when
it is used, and imports what is slow to load only when it runs.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from .. import __version__
from ..core.errors import InputError, PoamError, Question, needs_extra
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
#: The module of each node.
MODULES = {n: f"poam_ros.ros.{n}" for n in ("mapper", "planner", "simulator", "monitor")}
#: Python packages that come with ROS 2.
ROS = re.compile(r"rclpy|\w+_(msgs|srvs|interfaces)")
#: What a node says of itself after its name: rclpy would start it.
HELP = """[--ros-args [--params-file FILE] [-p NAME:=VALUE ...] [-r NAME:=OTHER ...]]

Runs the node until Ctrl-C. Its parameters are in docs/parameters.md, its topics and services in
docs/interfaces.md."""


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


def needs_ros(who: str, module: str = "rclpy") -> str:
    """The error text if a module of ROS 2 is missing."""
    needed = needs_extra(who, f"{module} of ROS 2", "ros")
    return f"{needed}, or source the setup file of a ROS 2 installation"


def start(node: str) -> int:
    """Run a node with the arguments of the command line; returns the exit status. Without ROS 2 it
    ends with one line."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.stdout.write(f"usage: {node} {HELP}\n")
        return 0
    if node == "mapper":
        from ..models.native.loader import announce

        announce()
    try:
        module = import_module(MODULES[node])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not ROS.fullmatch(missing):
            raise
        sys.stderr.write(f"{needs_ros(node, missing)}\n")
        return 2
    return module.main()


mapper, planner, simulator, monitor = (partial(start, node) for node in MODULES)


if __name__ == "__main__":
    sys.exit(main())
