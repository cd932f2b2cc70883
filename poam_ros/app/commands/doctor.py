"""`poam doctor`: check the running graph and this machine. It also works without ROS 2."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import InputError, quantity
from ...models.native.loader import missing_parts
from ..drivers import ODOMETRY, RANGE, Finding, Topic, Watch, driver_findings, problem

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray


NEEDED = ("numpy", "scipy", "torch", "gpytorch")
PING_BYTES = 400  # on disk for a ping, including indices and checkpoints
MIN_DISK = 500 * 2**20
GROUP = "239.255.0.1"  # multicast group of DDS discovery
MIDDLEWARE_SETTINGS = ("RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE")


def machine_findings(mission_dir: Path | None) -> Iterator[Finding]:
    """The checks that need no ROS 2."""
    yield from _versions()
    yield _compiled()
    yield from _processor()
    yield from _disk(mission_dir)


def middleware_findings() -> Iterator[Finding]:
    """The checks of what the middleware needs."""
    values = {name: os.environ.get(name, "") for name in MIDDLEWARE_SETTINGS}
    yield Finding("middleware: " + ", ".join(f"{k}={v or '(default)'}" for k, v in values.items()))
    if os.environ.get("ROS_LOCALHOST_ONLY") == "1":
        yield Finding(
            "ROS_LOCALHOST_ONLY=1: nodes on other machines are not seen",
            "unset it if the graph spans machines",
        )
    if values["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "OFF":
        yield problem(
            "ROS_AUTOMATIC_DISCOVERY_RANGE=OFF: nodes do not find each other",
            "unset it, or set SUBNET or LOCALHOST",
        )
    yield _multicast()


def _versions() -> Iterator[Finding]:
    found = {}
    for name in NEEDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield problem(f"{name} is not installed", f"pip install {name}")
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    yield Finding(f"Python {platform.python_version()}, {text}")


def _compiled() -> Finding:
    missing = missing_parts()
    if missing and os.environ.get("POAM_NATIVE") == "0":
        return problem(f"POAM_NATIVE=0: {missing}", "unset it")
    return (
        problem(missing, "updates take longer until then")
        if missing
        else Finding("the compiled parts are loaded")
    )


def _processor() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding(f"{cores} cores ({platform.machine()})")
    if (cores or 1) < 2:
        yield Finding("one core for model and callbacks", "expect updates to take twice as long")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > (cores or 1):
        yield problem(
            f"OMP_NUM_THREADS={threads} on {cores} cores: more threads than cores",
            "unset it; the mapper's parameter `threads` sets its own",
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 1.5 * (cores or 1):
        advice = "stop other programs; a lack of cores may explain what is too slow below"
        yield problem(f"load average {load:.1f} on {cores} cores", advice)


def _disk(mission_dir: Path | None) -> Iterator[Finding]:
    if mission_dir is None:
        return
    there = next((p for p in (mission_dir, *mission_dir.absolute().parents) if p.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK):
        yield problem(f"{mission_dir} cannot be written", "choose another folder")
        return
    free = shutil.disk_usage(there).free
    pings = free // PING_BYTES
    if free < MIN_DISK:
        yield problem(
            f"{mission_dir} has {_size(free)} left, about {pings:,} pings", "free some space"
        )
    else:
        yield Finding(f"{mission_dir} has {_size(free)} left")


def _multicast() -> Finding:
    """Whether a message to the multicast group of DDS arrives on this machine."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        try:
            receiver.settimeout(1.0)
            receiver.bind(("", 0))
            local = socket.inet_aton("127.0.0.1")
            membership = socket.inet_aton(GROUP) + local
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
            sender.sendto(b"poam doctor", (GROUP, receiver.getsockname()[1]))
            receiver.recv(64)
        except OSError as error:
            return Finding(
                f"multicast on loopback does not work ({error})",
                "ip link set lo multicast on; nodes on this machine may still find each "
                "other by unicast",
            )
    return Finding("multicast on loopback works")


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


LOOK_S = 0.5  # between two looks for new topics
NODES = ("mapper", "planner", "simulator", "monitor")
OK, WARN, ERROR, STALE = range(4)  # levels of diagnostic_msgs/DiagnosticStatus
LOST_SHARE = 0.01  # of all messages; more is a problem
#: Larger differences between the nodes' times are no delays of messages, in s; of simulated time,
#: which a busy machine delays, per unit of its speed.
MAX_CLOCK_DIFFERENCE_S, MAX_SIMULATED_DIFFERENCE_S = 5.0, 60.0
#: Time of a simulation after which every node knows it, in s.
STARTING_S = 10.0

STARTING = "the simulation is starting: run poam doctor again in a moment"


class NodeStatus(NamedTuple):
    """The newest status of a node. ``age_s``: wall clock minus stamp; None without a stamp."""

    level: int
    text: str
    values: Mapping[str, str]
    age_s: float | None


def statuses(message: DiagnosticArray) -> dict[str, NodeStatus]:
    """The statuses of this package's nodes in a message, by full name."""
    stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
    age_s = time.time() - stamp_s if stamp_s else None
    by_node = {}
    for status in message.status:
        if status.name.rpartition("/")[2] in NODES:
            values = {item.key: item.value for item in status.values}
            level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
            by_node[status.name] = NodeStatus(level, status.message, values, age_s)
    return by_node


def listen(seconds: float) -> tuple[dict[str, NodeStatus], list[Topic]]:
    """The newest status of each node of this package, by full name; and the graph's topics.

    Raises:
        ImportError: ROS 2 is not installed.
    """
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.executors import SingleThreadedExecutor

    heard: dict[str, NodeStatus] = {}

    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    node = rclpy.create_node("poam_doctor", context=context)
    executor = SingleThreadedExecutor(context=context)
    try:
        node.create_subscription(
            DiagnosticArray, "/diagnostics", lambda message: heard.update(statuses(message)), 100
        )
        executor.add_node(node)
        watch, end = Watch(node), time.monotonic() + seconds
        while time.monotonic() < end:
            watch.look()
            until = min(end, time.monotonic() + LOOK_S)
            while time.monotonic() < until:
                executor.spin_once(timeout_sec=0.1)
        topics = watch.topics()
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
    return heard, topics


def graph_findings(heard: Mapping[str, NodeStatus]) -> Iterator[Finding]:
    """Findings from the nodes' statuses."""
    if not heard:
        advice = "start one (poam sim, robot.launch.py), or compare ROS_DOMAIN_ID with theirs"
        yield Finding("no mapper, planner, simulator or monitor is found", advice)
        return
    starting = any(
        _is_starting(s) for name, s in heard.items() if name.rpartition("/")[2] == "simulator"
    )
    yield from _clock_findings(heard, starting)
    for name, status in sorted(heard.items()):
        if status.level == OK:
            yield Finding(f"{name}: {status.text}")
        elif starting and status.level == WARN:
            yield Finding(f"{name}: {status.text}", STARTING)
        else:
            yield problem(f"{name}: {status.text}", "" if ": " in status.text else "see its log")
        if name.rpartition("/")[2] == "mapper":
            yield from _ping_findings(name, status.values)
        yield from _count_findings(name, status.values)


def _is_starting(simulator: NodeStatus) -> bool:
    """Whether a simulation waits for its nodes, or has only just begun to send its time."""
    time_s, speed = (_number(simulator.values, key) for key in ("time_s", "speed"))
    return simulator.text.startswith("waiting") or time_s < STARTING_S * speed


def _clock_findings(heard: Mapping[str, NodeStatus], starting: bool) -> Iterator[Finding]:
    """Whether the nodes' clocks agree and run. ``starting``: a simulation is starting."""
    timeless = [name for name, status in heard.items() if status.age_s is None]
    if timeless and starting:
        yield Finding(f"{', '.join(timeless)}: no time yet", STARTING)
    elif timeless:
        advice = "use_sim_time is true, but no /clock arrives: set it to false on a vehicle"
        yield problem(f"{', '.join(timeless)}: no time yet", advice)
    # The monitor uses wall time, in simulations as well.
    ages = {
        name: status.age_s
        for name, status in heard.items()
        if status.age_s is not None and not name.endswith("monitor")
    }
    speed = max([1.0, *(_number(status.values, "achieved_speed") for status in heard.values())])
    simulated = bool(ages) and min(map(abs, ages.values())) > MAX_CLOCK_DIFFERENCE_S
    limit = MAX_SIMULATED_DIFFERENCE_S * speed if simulated else MAX_CLOCK_DIFFERENCE_S
    if ages and max(ages.values()) - min(ages.values()) > limit:
        text = ", ".join(f"{name} {-age:+.0f} s" for name, age in ages.items())
        advice = "give all nodes the same use_sim_time, and synchronise the machines' clocks"
        yield problem(f"the nodes' times differ ({text} from this machine's)", advice)
    elif simulated:
        yield Finding("the nodes use a different time from this machine: simulated or recorded")


def _ping_findings(name: str, values: Mapping[str, str]) -> Iterator[Finding]:
    received = _number(values, "received")
    if not received:
        yield Finding(f"{name}: no ping was received", "check the sonar's topic (range_topic)")
        return
    lost = {key[5:]: _number(values, key) for key in values if key.startswith("lost ")}
    for topic, count in lost.items():
        if count > LOST_SHARE * received:
            advice = "busy machine or small buffers: sysctl -w net.core.rmem_max=2147483647"
            yield problem(f"{name}: {quantity(round(count), 'message')} of {topic} lost", advice)
    samples, cycle = _number(values, "samples"), _number(values, "cycle_p99_s")
    if samples and cycle:
        yield Finding(
            f"{name}: {samples:.0f} samples in the map; an update takes {cycle:.2f} s (p99)"
        )


def _count_findings(name: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Findings from counts of goals, refusals and errors."""
    for key, advice in (
        ("goals_timed_out", "set capture_radius (the turning diameter), max_speed or current"),
        ("goals_clipped", "they were moved into the workspace; only some planners do that"),
    ):
        if count := _number(values, key):
            yield Finding(f"{name}: {key} {count:.0f}", advice)
    refusals = [k for k in values if k.startswith(("refused_", "goals_refused_", "errors "))]
    for key in refusals:
        if count := _number(values, key):
            yield Finding(f"{name}: {key} {count:.0f}", f"see the log of {name}")


def _number(values: Mapping[str, str], key: str) -> float:
    try:
        return float(values.get(key, "0"))
    except ValueError:
        return 0.0


HEALTHY, PROBLEMS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mission-dir", type=Path, metavar="DIR",
        help="Check the free disk space of this mission folder as well.")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=4.0,
        help="Listen to /diagnostics for this long (s; default: 4; 0: do not listen).")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the findings, one per line; returns 0 if healthy and 1 if there is a problem."""
    if not 0 <= args.seconds <= 3600:
        raise InputError(f"--seconds: expected a number from 0 to 3600, got {args.seconds:g}")
    problems = 0
    for finding in _findings(args):
        problems += finding.problem
        print(finding, flush=True)
    print(f"{problems} problem{'s' * (problems != 1)}" if problems else "healthy")
    return PROBLEMS if problems else HEALTHY


def _findings(args: argparse.Namespace) -> Iterator[Finding]:
    yield from machine_findings(args.mission_dir)
    if importlib.util.find_spec("rclpy") is None:
        yield Finding("ROS 2 (rclpy) is not installed", "source it if nodes are to run here")
        return
    yield from middleware_findings()
    if not args.seconds:
        return
    try:
        heard, topics = listen(args.seconds)
    except Exception as error:  # libraries of the middleware raise many types
        reason = " ".join(str(error).split())[:200]
        yield problem(f"ROS 2 does not start ({reason})", "check its installation and setup file")
        return
    sensors = any(topic.kind in (ODOMETRY, RANGE) and topic.publishers for topic in topics)
    if sensors and not any(name.rpartition("/")[2] in ("mapper", "simulator") for name in heard):
        yield from driver_findings(topics)
    else:
        yield from graph_findings(heard)
