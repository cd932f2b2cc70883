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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..ros.declaring import Parameter, Value
from ..ros.parameters import NODES
from .processes import Children

if TYPE_CHECKING:
    from ..ros.nodes.monitor import MonitorNode
    from ..runs.recorder import Progress

FINISHED, FAILED, WRONG_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130
CHILDREN = ("mapper", "planner", "simulator")
# The simulated clock and frames belong to one simulation, so they move into its namespace.
SIMULATED_REMAPPINGS = (("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static"))
NO_RCLPY = (
    "poam sim needs ROS 2's rclpy, which this Python does not have: pip install 'poam_ros[ros]', "
    "or use a Python that sees a ROS 2 installation (source its setup file)"
)
ROWS = {row.name: row for table in NODES.values() for row in table}
# Options that are parameters of nodes: each goes to every node that declares it.
FORWARDED = (
    "terrain", "speed", "max_samples", "method", "planner", "pilot", "sonar_rate", "seed",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``poam sim``: those of sim.launch.py."""
    for name in FORWARDED:
        row = ROWS[name]
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            type=_typed(row),
            metavar="|".join(row.choices) or None,
            help=f"{row.description} (default: {row.default})",
        )
    for name, text in (
        ("--output", "the run's folder (default: runs/sim-...)"),
        ("--params-file", "ROS parameter file; options given here override it"),
    ):
        parser.add_argument(name, default=argparse.SUPPRESS, type=Path, metavar="PATH", help=text)
    parser.add_argument(
        "--namespace", default=argparse.SUPPRESS, help="namespace of all nodes (default: none)"
    )
    parser.add_argument("--rviz", action="store_true", help="show the mission in RViz")
    parser.add_argument("--keep", action="store_true", help="stay up when the mission is done")


def run(args: argparse.Namespace) -> int:
    """Run a simulated mission from start to end; returns the exit status.

    0: done, and the run's folder is written. 2: an option, a file or a parameter is wrong (one line
    on stderr). 1: it failed. 130: it was interrupted before it was done; what
    there is by then is written.
    """
    if importlib.util.find_spec("rclpy") is None:
        return _complain(NO_RCLPY)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    try:
        options = _resolve(args)
        return _run(options)
    except InputError as error:
        return _complain(str(error))


def _resolve(args: argparse.Namespace) -> dict[str, Any]:
    """The options with what follows from them, checked before anything is started."""
    from ..runs.folder import make_folder
    from ..world.terrain import load_terrain

    options: dict[str, Any] = dict.fromkeys((*FORWARDED, "output", "params_file"))
    options |= vars(args)
    file = options["params_file"]
    if file is not None and not file.is_file():
        raise InputError(f"--params-file: no such file: {file}")
    if options["rviz"] and shutil.which("rviz2") is None:
        raise InputError(
            "--rviz: there is no rviz2 on the path (it comes with ROS 2, not with pip)"
        )
    if options["terrain"] is not None or file is None:
        load_terrain(options["terrain"] or str(ROWS["terrain"].default))
    if options["output"] is None:
        terrain = Path(options["terrain"] or "jacksboro").stem
        options["output"] = Path("runs") / f"sim-{terrain}-{options['seed'] or 0}"
    options["namespace"] = options.get("namespace", "").strip("/")
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
    """What a node is started with: namespace, remappings and parameters, as ROS spells them."""
    given = {name: options[name] for name in FORWARDED if options[name] is not None}
    given |= {"output": str(options["output"]), "keep": options["keep"], "wait_for_mission": True}
    parameters = {row.name: given[row.name] for row in NODES[node] if row.name in given}
    # The monitor lives on wall time, and is spared the clock's messages.
    parameters["use_sim_time"] = node != "monitor"
    arguments = ["--ros-args"]
    if options["namespace"]:
        remappings = [f"{old}:={new}" for old, new in SIMULATED_REMAPPINGS]
        for rule in (f"__ns:=/{options['namespace']}", *remappings):
            arguments += ["-r", rule]
    if options["params_file"] is not None:
        arguments += ["--params-file", str(options["params_file"])]
    for name, value in parameters.items():
        # JSON quotes text, so that a terrain named 123 stays text.
        arguments += ["-p", f"{name}:={json.dumps(value)}"]
    return arguments


def _run(options: dict[str, Any]) -> int:
    from .display import Display

    log = options["output"] / "log"
    before = _versions(options["output"])
    with _interrupts() as interrupted, Display() as display:
        children = Children(log, display.say)
        try:
            for node in CHILDREN:
                command = [sys.executable, "-m", f"poam_ros.ros.nodes.{node}"]
                children.start(node, [*command, *ros_arguments(node, options)])
            if options["rviz"]:
                children.start("rviz2", _rviz_command(options), vital=False)
            with _monitor(options) as (monitor, executor):
                status = _follow(monitor, executor, children, display, interrupted)
                if status != FINISHED:
                    # The mapper writes what it has when it is ended, the monitor after it.
                    children.stop()
                    monitor.recorder.conclude()
        finally:
            children.stop()
        if status == FINISHED:
            for line in _summary(monitor.progress, options["output"]):
                display.say(line)
        elif status == INTERRUPTED:
            display.say(_remains(options["output"], before))
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


def _summary(progress: Progress, folder: Path) -> Iterator[str]:
    """What a person wants to know in the end."""
    if progress.epoch is not None:
        score = progress.epoch.metrics
        yield (
            f"{progress.samples} samples: SMSE {score.smse:.4f}, MSLL {score.msll:.3f}, "
            f"RMSE {score.rmse:.2f} m"
        )
    for figure in sorted(folder.glob("*.png")):
        yield f"figure:  {figure}"
    yield f"results: {folder}"


def _follow(
    monitor: MonitorNode, executor: Any, children: Children, display: Any, interrupted: list[int]
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
            _complain(f"{name} ended with exit status {status}: {last_line}")
            return WRONG_ARGUMENTS if status == WRONG_ARGUMENTS else FAILED
    return FINISHED if monitor.recorder.succeeded else FAILED


@contextmanager
def _monitor(options: dict[str, Any]) -> Iterator[tuple[MonitorNode, Any]]:
    """The monitor node in this process, with an executor."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from ..ros.nodes.monitor import MonitorNode

    try:
        rclpy.init(
            args=ros_arguments("monitor", options), signal_handler_options=SignalHandlerOptions.NO
        )
    except RuntimeError as error:  # what rclpy's C library makes of a broken parameter file
        raise InputError(str(error)) from None
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


def _rviz_command(options: dict[str, Any]) -> Sequence[str]:
    command = ["rviz2", "--ros-args", "-p", "use_sim_time:=true"]
    if options["namespace"]:
        for rule in (f"__ns:=/{options['namespace']}", "/tf:=tf", "/tf_static:=tf_static"):
            command += ["-r", rule]
        command += ["-r", "/clock:=clock"]
    layout = _rviz_layout()
    return [*command[:1], *(["-d", str(layout)] if layout else []), *command[1:]]


def _rviz_layout() -> Path | None:
    """The layout in a checkout, or in an installation's share folder."""
    places = [
        Path(__file__).parents[2] / "config",
        Path(sys.prefix) / "share/poam_ros/config",
        *(up / "share/poam_ros/config" for up in Path(__file__).parents),  # of a colcon install
    ]
    return next((p / "sim.rviz" for p in places if (p / "sim.rviz").is_file()), None)


def _typed(row: Parameter) -> Any:
    """An argparse type that checks as the node would."""

    def convert(text: str) -> Value:
        value: Any = text
        if not isinstance(row.default, str):
            with suppress(ValueError):
                value = int(text) if isinstance(row.default, int) else float(text)
        try:
            return row.convert(value)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _complain(text: str) -> int:
    sys.stderr.write(f"poam sim: {' '.join(text.split())}\n")
    return WRONG_ARGUMENTS
