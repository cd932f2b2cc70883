"""`poam sim`: the whole ROS 2 graph on rclpy alone, for machines without the launch tools.

Simulator, mapper and planner are processes of their own, as anywhere else; the monitor runs here
and feeds the display. Importing this needs no rclpy.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..ros.common.parameters import NODES, TERRAIN, VIEWERS
from . import graph
from .interrupts import INTERRUPTED
from .nodes import MODULES, needs_ros
from .options import add_settings
from .processes import ProcessGroup

if TYPE_CHECKING:
    from ..outputs.recorder import Progress
    from ..ros.monitor.node import MonitorNode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``poam sim``: those of sim.launch.py."""
    whole, add = ("output", "keep"), parser.add_argument
    add_settings(parser, (graph.ROWS[name] for name in graph.FORWARDED if name not in whole))
    add("--output", type=Path, metavar="PATH", help="Folder of the run (default: runs/sim-...).")
    add("--params-file", type=Path, metavar="PATH", help=graph.PARAMS_FILE.help)
    add("--namespace", default="", help=f"{graph.NAMESPACE.help} (default: none)")
    add("--rviz", action=argparse.BooleanOptionalAction, help=graph.RVIZ.help)
    add("--keep", action=argparse.BooleanOptionalAction, help=graph.ROWS["keep"].help)


def resolve(args: argparse.Namespace) -> dict[str, Any]:
    """The options with what follows from them, checked before anything is started."""
    from ..outputs.folder import make_folder
    from ..simulation.world.terrain import load_terrain

    options: dict[str, Any] = {**dict.fromkeys(graph.FORWARDED), **vars(args)}
    file = options["params_file"]
    if file is not None and not file.is_file():
        raise InputError(f"--params-file: no such file: {file}")
    if options["rviz"] and shutil.which("rviz2") is None:
        raise InputError(
            "--rviz: there is no rviz2 on the path (it comes with ROS 2, not with pip)"
        )
    if options["terrain"] is not None or file is None:
        load_terrain(options["terrain"] or str(TERRAIN.default))
    if options["output"] is None:
        terrain = Path(options["terrain"] or str(TERRAIN.default)).stem
        options["output"] = Path("runs") / f"sim-{terrain}-{options['seed'] or 0}"
    options["namespace"] = options["namespace"].strip("/")
    if not re.fullmatch(r"|[A-Za-z_]\w*(/[A-Za-z_]\w*)*", options["namespace"], re.ASCII):
        raise InputError(
            "--namespace: expected letters, digits and underscores, parted by slashes, got "
            f"{options['namespace']!r}"
        )
    options["output"] = options["output"].expanduser()
    make_folder(options["output"])
    make_folder(options["output"] / "log")
    return options


def ros_arguments(node: str, options: dict[str, Any]) -> list[str]:
    """What a node is started with: namespace, remappings and parameters, as ROS spells them.

    The options' parameters are written beside the logs, for the node by its name: those of `-p`
    would give way to whatever a parameter file says of the node by name.
    """
    given = {name: options[name] for name in graph.FORWARDED if options[name] is not None}
    given["output"] = str(options["output"])
    values = {row.name: given[row.name] for row in (NODES | VIEWERS)[node] if row.name in given}
    name = f"/{options['namespace']}/{node}".replace("//", "/")
    own = options["output"] / "log" / f"{node}.yaml"
    content = {name: {"ros__parameters": {**values, **graph.fixed(node)}}}
    own.write_text(json.dumps(content, indent=1), encoding="utf-8")  # JSON is YAML
    files = [own] if options["params_file"] is None else [options["params_file"], own]
    arguments = [word for file in files for word in ("--params-file", str(file))]
    return ["--ros-args", *_place(options["namespace"]), *arguments]


def rviz_command(options: dict[str, Any]) -> list[str]:
    """How RViz is started beside the graph."""
    command = ["rviz2", "-d", str(graph.rviz_layout()), "--ros-args", "-p", "use_sim_time:=true"]
    return command + _place(options["namespace"])


def _place(namespace: str) -> list[str]:
    rules = [f"__ns:=/{namespace}"] if namespace else []
    rules += [f"{old}:={new}" for old, new in graph.remappings(namespace)]
    return [word for rule in rules for word in ("-r", rule)]


__all__ = ["add_arguments", "run"]

FINISHED, FAILED, WRONG_ARGUMENTS = 0, 1, 2
#: Rows that the paper does not have; the simulation's defaults are the paper's.
BETTER = {"method": "nngp", "planner": "path-entropy"}
CHILDREN = ("mapper", "planner", "simulator")


def run(args: argparse.Namespace) -> int:
    """Run a simulated mission from start to end; returns the exit status.

    0: done, and the run's folder is written. 1: it failed. 2: a node refused its parameters.
    130: it was interrupted before it was done; what there is by then is written.

    Raises:
        InputError: an option or a file is wrong, or there is no rclpy.
    """
    if importlib.util.find_spec("rclpy") is None:
        raise InputError(needs_ros("poam sim"))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    from .progress import ProgressDisplay

    options = resolve(args)
    folder = options["output"]
    before = _versions(folder)
    with _interrupts() as interrupted, ProgressDisplay() as display:
        children = ProcessGroup(folder / "log", display.say)
        try:
            for node in CHILDREN:
                command = [sys.executable, "-m", MODULES[node]]
                children.start(node, [*command, *ros_arguments(node, options)])
            if options["rviz"]:
                command = [sys.executable, "-m", "poam_ros.ros.viewers.node"]
                command += ros_arguments("drapes", options)
                children.start("drapes", command, vital=False)
                children.start("rviz2", rviz_command(options), vital=False)
            with _monitor(options) as (monitor, executor):
                status = _follow(monitor, executor, children, display, interrupted)
                if status != FINISHED:
                    # The mapper writes what it has when it is ended, the monitor after it.
                    children.stop()
                    monitor.recorder.finish_early()
        finally:
            children.stop()
        display.stop()
        if status == FINISHED:
            for line in _summary(monitor.progress, options):
                display.say(line)
        elif status == INTERRUPTED:
            display.say(_remains(folder, before))
        return status


def _versions(folder: Path) -> dict[str, tuple[int, int]]:
    """The files in a folder, and something that changes when they are written anew."""
    states = {path.name: path.stat() for path in folder.iterdir() if path.is_file()}
    return {name: (state.st_mtime_ns, state.st_ino) for name, state in states.items()}


def _remains(folder: Path, before: dict[str, tuple[int, int]]) -> str:
    """What an interrupted mission left in its folder, in a line."""
    written = dict(_versions(folder).items() - before.items())
    if not written:
        return f"interrupted before there was anything to keep; the logs are in {folder / 'log'}"
    return f"interrupted; {', '.join(sorted(written))} so far are in {folder}"


def _summary(progress: Progress, options: dict[str, Any]) -> Iterator[str]:
    """What a person wants to know in the end."""
    folder: Path = options["output"]
    if progress.epoch is not None:
        score = progress.epoch.metrics
        yield (
            f"{progress.samples} samples: SMSE {score.smse:.4f}, MSLL {score.msll:.3f}, "
            f"RMSE {score.rmse:.2f} m"
        )
    for figure in sorted(folder.glob("*.png")):
        yield f"figure:  {figure}"
    yield f"results: {folder}"
    better = [f"--{name} {row}" for name, row in BETTER.items() if options[name] is None]
    if better and options["params_file"] is None:
        yield f"a more accurate map from as many pings: {' '.join(better)} (docs/results.md)"


def _follow(
    monitor: MonitorNode,
    executor: Any,
    children: ProcessGroup,
    display: Any,
    interrupted: list[int],
) -> int:
    """Spin the monitor until the mission is over, somebody interrupts, or a process ends early."""
    while not monitor.ended:
        executor.spin_once(timeout_sec=0.1)
        display.show(monitor.progress)
        if interrupted:
            return FINISHED if monitor.recorder.succeeded else INTERRUPTED
        ended = children.ended()
        if ended is not None:
            name, status, last_line = ended
            last = " ".join(last_line.split())
            sys.stderr.write(f"poam sim: {name} ended with exit status {status}: {last}\n")
            return WRONG_ARGUMENTS if status == WRONG_ARGUMENTS else FAILED
    return FINISHED if monitor.recorder.succeeded else FAILED


@contextmanager
def _monitor(options: dict[str, Any]) -> Iterator[tuple[MonitorNode, Any]]:
    """The monitor node in this process, with an executor."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from ..ros.monitor.node import MonitorNode

    try:
        # What goes well is on the display, which a line of the log would run into.
        args = [*ros_arguments("monitor", options), "--log-level", "warn"]
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # what rclpy's C library makes of a broken parameter file
        raise InputError(" ".join(str(error).split())) from None
    try:
        node, executor = MonitorNode(), SingleThreadedExecutor()
        node.configure()
        node.activate()
        executor.add_node(node)
        yield node, executor
        executor.remove_node(node)
        node.destroy_node()
    finally:
        rclpy.try_shutdown()


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list that Ctrl-C, SIGTERM and a closed terminal append to, instead of raising anywhere."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
