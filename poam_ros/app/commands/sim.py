"""`poam sim`: a whole simulated ROS 2 graph, without the launch tools.

Simulator, mapper and planner run as processes of their own; the monitor runs in this one and feeds
the display. Importing this module needs no rclpy.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ...core.errors import InputError
from ...core.files import atomic_write
from ...core.settings import rows
from ...models.registry import MODELS
from ...planning.planners import PLANNERS
from ...ros.parameters import INNER, NODES, TERRAIN
from .. import graph
from ..cli import MODULES, needs_ros
from ..command import INTERRUPTED, Parser, add_setting, add_settings

if TYPE_CHECKING:
    from ...outputs.recorder import Progress


def add_arguments(parser: Parser) -> None:
    """The options of ``poam sim``: those of sim.launch.py."""
    add_settings(parser, (graph.SIM_ROWS[name] for name in graph.FORWARDED if name != "output"))
    text = "Folder of the run (default: runs/sim-...)."
    add_setting(parser, graph.SIM_ROWS["output"], text=text)
    add_settings(parser, graph.OWN)
    tables = (*NODES.values(), *INNER.values())
    parser.takes((row for table in tables for row in table), files=False)


def resolve(args: argparse.Namespace) -> dict[str, Any]:
    """The options with derived values, checked before anything is started."""
    from ...outputs.folder import make_folder
    from ...simulation.terrain import load_terrain

    own = {row.name: row.default for row in graph.OWN}
    options: dict[str, Any] = {**dict.fromkeys(graph.FORWARDED), **own, **vars(args)}
    options["params_file"] = graph.parameter_files(options["params_file"], "--params-file")
    if options["rviz"] and shutil.which("rviz2") is None:
        raise InputError("--rviz: expected rviz2 on the path; it comes with ROS 2, not with pip")
    terrain = options["terrain"] or str(TERRAIN.default)
    if options["terrain"] is not None or not options["params_file"]:
        load_terrain(terrain)
    if not options["output"]:
        options["output"] = Path("runs") / f"sim-{Path(terrain).stem}-{options['seed'] or 0}"
    options["namespace"] = name = options["namespace"].strip("/")
    if not re.fullmatch(r"|[A-Za-z_]\w*(/[A-Za-z_]\w*)*", name, re.ASCII):
        expected = "letters, digits and underscores, separated by slashes"
        raise InputError(f"--namespace: expected {expected}, got {name!r}")
    options["output"] = Path(options["output"]).expanduser()
    make_folder(options["output"])
    make_folder(options["output"] / "log")
    return options


def ros_arguments(node: str, options: dict[str, Any]) -> list[str]:
    """The ROS arguments of a node: namespace, remappings and parameters.

    The parameters from options are written into a file beside the logs, under the node's name: a
    parameter file that names the node would override those given by `-p`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    own_rows = [*NODES[node], *INNER.get(node, ())]
    if node == "mapper" and "method" in given:  # maybe of another package
        own_rows += rows(MODELS[given["method"]].options)
    elif node == "planner" and "planner" in given:
        own_rows += rows(PLANNERS[given["planner"]].options)
    given["output"] = str(options["output"])
    values = {row.name: given[row.name] for row in own_rows if row.name in given}
    name = f"/{options['namespace']}/{node}".replace("//", "/")
    own = options["output"] / "log" / f"{node}.yaml"
    with atomic_write(own) as file:  # JSON is YAML
        file.write(json.dumps({name: {"ros__parameters": values}}, indent=1).encode())
    files = [*graph.base_file("sim.yaml"), *options["params_file"], own]
    arguments = [word for file in files for word in ("--params-file", str(file))]
    return ["--ros-args", *_place(options["namespace"]), *arguments]


def rviz_command(options: dict[str, Any]) -> list[str]:
    """The command that starts RViz for the graph."""
    command = graph.rviz_command(str(options["output"]))
    return [*command, "--ros-args", "-p", "use_sim_time:=true", *_place(options["namespace"])]


def _place(namespace: str) -> list[str]:
    rules = [f"__ns:=/{namespace}"] if namespace else []
    rules += [f"{old}:={new}" for old, new in graph.remappings(namespace)]
    return [word for rule in rules for word in ("-r", rule)]


FINISHED, FAILED, WRONG_ARGUMENTS = 0, 1, 2
HUNG_UP = 128 + signal.SIGHUP
#: More accurate than the defaults, which are the paper's.
BETTER = {"method": "nngp", "planner": "path-entropy"}
CHILDREN = ("mapper", "planner", "simulator")
WATCH_PERIOD_S = 0.1  # between two looks at the processes


def run(args: argparse.Namespace) -> int:
    """Run a simulated mission from start to end; returns the exit status.

    0: done, and the run's folder is written. 1: it failed. 2: a node refused its parameters.
    130, 129: it was interrupted, or its terminal was closed; the partial results are written.

    Raises:
        InputError: an option or a file is wrong, or rclpy is not installed.
    """
    if importlib.util.find_spec("rclpy") is None:
        raise InputError(needs_ros("poam sim"))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    from ...ros.monitor import MonitorNode
    from ...ros.node import run_node
    from ..progress import ProgressDisplay

    options = resolve(args)
    folder = options["output"]
    before, processes = _file_times(folder), ProcessGroup(folder / "log")
    status, opened = INTERRUPTED, list[MonitorNode]()

    class Monitor(MonitorNode):
        """Starts the other nodes, shows the progress, and ends when one of them does."""

        def open(self) -> None:
            super().open()
            opened.append(self)
            # The mapper writes its results when it ends, and the monitor draws after it.
            self.on_exit.callback(processes.stop)
            try:
                for node in CHILDREN:
                    command = [sys.executable, "-m", MODULES[node]]
                    processes.start(node, [*command, *ros_arguments(node, options)])
                if options["rviz"]:
                    processes.start("rviz2", rviz_command(options), vital=False)
            except OSError as error:
                raise InputError(f"poam sim: {error.filename}: {error.strerror}") from None
            self.create_timer(WATCH_PERIOD_S, self.watch)

        def watch(self) -> None:
            nonlocal status
            try:
                display.show(self.progress)
                for line in processes.warnings():
                    display.print_line(line)
            except OSError:  # the terminal is closed
                self.finished = True
            if (ended := processes.ended()) is not None:
                name, code, last_line = ended
                last = " ".join(last_line.split())
                sys.stderr.write(f"poam sim: {name} ended with exit status {code}: {last}\n")
                status = WRONG_ARGUMENTS if code == WRONG_ARGUMENTS else FAILED
                self.finished = True

    display = ProgressDisplay()
    try:
        with display:
            # The display shows progress; lines of the log would break it.
            arguments = [*ros_arguments("monitor", options), "--log-level", "warn"]
            if code := run_node(Monitor, arguments):
                return code
            (monitor,) = opened
            if status == INTERRUPTED and (monitor.recorder.over or monitor.recorder.succeeded):
                status = FINISHED if monitor.recorder.succeeded else FAILED
            display.stop()
            if status == FINISHED:
                for line in _summary(monitor.progress, options):
                    display.print_line(line)
            elif status == INTERRUPTED:
                display.print_line(_partial_results(folder, before))
            return status
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        quiet = os.open(os.devnull, os.O_WRONLY)  # what is still in the streams has no reader
        for stream in (sys.stdout, sys.stderr):
            os.dup2(quiet, stream.fileno())
        return HUNG_UP


def _file_times(folder: Path) -> dict[str, int]:
    """When each file in a folder was written, in ns."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def _partial_results(folder: Path, before: dict[str, int]) -> str:
    """A line on what an interrupted mission left in its folder, with the files there before."""
    written = dict(_file_times(folder).items() - before.items())
    if not written:
        return f"interrupted before there were results; the logs are in {folder / 'log'}"
    return f"interrupted; partial results in {folder}: {', '.join(sorted(written))}"


def _summary(progress: Progress, options: dict[str, Any]) -> Iterator[str]:
    """The last lines of output."""
    folder: Path = options["output"]
    if progress.epoch is not None:
        score = progress.epoch
        yield (
            f"{progress.samples} samples: SMSE {score.smse:.4f}, MSLL {score.msll:.3f}, "
            f"RMSE {score.rmse:.2f} m"
        )
    for figure in sorted(folder.glob("*.png")):
        yield f"figure:  {figure}"
    yield f"results: {folder}"
    better = [f"--{name} {row}" for name, row in BETTER.items() if options[name] is None]
    if better and not options["params_file"]:
        yield f"for a more accurate map: {' '.join(better)} (docs/results.md)"


class ProcessGroup:
    """Starts processes with their output in log files, and stops them.

    Every process has a session of its own: Ctrl-C in the terminal reaches only this process, which
    signals each of them once.

    Args:
        folder: where ``<name>.log`` is written; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._vital: list[str] = []
        self._logs: dict[str, TextIO] = {}

    def start(self, name: str, command: Sequence[str], *, vital: bool = True) -> None:
        """Start ``command``, with its output in ``<name>.log``.

        ``vital``: whether ``ended`` reports its end.

        Raises:
            OSError: the log cannot be written.
        """
        path = self._folder / f"{name}.log"
        with path.open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self._logs[name] = path.open(errors="replace")
        if vital:
            self._vital.append(name)

    def warnings(self) -> Iterator[str]:
        """What the processes have logged as a warning or worse since the last call."""
        for name, log in self._logs.items():
            for line in log:
                if line.startswith(("[WARN]", "[ERROR]", "[FATAL]")):
                    yield f"{name}: {line.strip()}"

    def ended(self) -> tuple[str, int, str] | None:
        """A vital process that ended: name, exit status, last line. None while all run."""
        for name in self._vital:
            if (status := self._processes[name].poll()) is not None:
                text = (self._folder / f"{name}.log").read_text(errors="replace").strip()
                return name, status, text.rpartition("\n")[2]
        return None

    def stop(self, grace_s: float = 10.0) -> None:
        """Send SIGINT to all processes, SIGTERM after ``grace_s``, and SIGKILL 3 s later."""
        waits = (signal.SIGINT, grace_s), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)
        for number, wait_s in waits:
            running = [p for p in self._processes.values() if p.poll() is None]
            for process in running:
                process.send_signal(number)
            deadline = time.monotonic() + wait_s
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
