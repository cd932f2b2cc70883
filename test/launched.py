"""Nodes and launches as processes, and an ament prefix of this checkout for the launch files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from poam_ros.app.cli import MODULES

ROOT = Path(__file__).parent.parent
NODES = ("mapper", "planner", "simulator", "monitor")
LIMIT = 300.0  # s
#: Why a test is skipped.
REASON = "the launch tools of ROS 2 are not installed"
PARAMS = """
/**/simulator:
  ros__parameters: {terrain: seamounts, environment: [-7.0, 7.0, -7.0, 7.0],
                    workspace: [-6.0, 6.0, -6.0, 6.0]}
/**/mapper:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0], sparse: {num_inducing: 40}}
/**/planner:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0]}
/**/monitor:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0], linger: 1.0}
"""
# What `ros2 launch` does with a file and its arguments, exit status included.
LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

source = PythonLaunchDescriptionSource(sys.argv[1])
given = dict(word.split(":=") for word in sys.argv[2:])
service = LaunchService()
service.include_launch_description(
    LaunchDescription([IncludeLaunchDescription(source, launch_arguments=given.items())])
)
sys.exit(service.run())
"""


def launch(name: str, **given: str) -> list[str]:
    """The arguments for Python that launch a file with these arguments."""
    file = str(ROOT / "launch" / f"{name}.launch.py")
    return ["-c", LAUNCH, file, *(f"{key}:={value}" for key, value in given.items())]


def prefix(folder: Path, domain: int) -> dict[str, str]:
    """Make a folder an ament prefix with this checkout's nodes; returns the environment for it."""
    index = folder / "share" / "ament_index" / "resource_index" / "packages"
    executables = folder / "lib" / "poam_ros"
    for made in (index, executables):
        made.mkdir(parents=True)
    (index / "poam_ros").touch()
    for name in NODES:
        script = executables / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom {MODULES[name]} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
    (folder / "mission.yaml").write_text(PARAMS, encoding="utf-8")

    def path(name: str, first: Path) -> str:
        return os.pathsep.join([str(first), *filter(None, [os.environ.get(name)])])

    return {
        **os.environ,
        "AMENT_PREFIX_PATH": path("AMENT_PREFIX_PATH", folder),
        "PYTHONPATH": path("PYTHONPATH", ROOT),
        "POAM_TEST_PARAMS": str(folder / "mission.yaml"),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_DOMAIN_ID": str(domain),
        "ROS_LOG_DIR": str(folder / "log"),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }


class Started:
    """A process in a session of its own, and what it has said."""

    def __init__(self, command: list[str], environment: dict[str, str], said: Path) -> None:
        self._said = said
        with said.open("w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=said.parent,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    def wait_for(self, words: str, times: int = 1) -> str:
        """Wait until these words were said so many times; returns all that was said."""
        self.wait_until(lambda: self.said.count(words) >= times, repr(words))
        return self.said

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        """Wait until something has happened, while it runs."""
        end = time.monotonic() + LIMIT
        while not happened():
            assert self.process.poll() is None, f"ended before {what}:\n{self.said[-4000:]}"
            assert time.monotonic() < end, f"no {what}:\n{self.said[-4000:]}"
            time.sleep(0.05)

    def interrupt(self) -> int:
        """Ctrl-C in its terminal; returns the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LIMIT)


def node_command(name: str, parameters: Mapping[str, Any]) -> list[str]:
    """What starts a node with these parameters."""
    given = [word for key, value in parameters.items() for word in ("-p", f"{key}:={value}")]
    return [sys.executable, "-m", f"poam_ros.ros.{name}", "--ros-args", *given]


@contextmanager
def started(command: list[str], environment: dict[str, str], said: Path) -> Iterator[Started]:
    """Start Python with a command; in the end nothing of its session is left."""
    running = Started(command, environment, said)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
