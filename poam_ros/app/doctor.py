"""`poam doctor`: what is wrong with the graph and the machine, in words. Works without ROS 2."""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..core.errors import InputError
from .machine import Finding, machine_findings, middleware_findings, problem

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray

OURS = ("mapper", "planner", "simulator", "monitor")
OK, WARN, ERROR, STALE = range(4)  # levels of diagnostic_msgs/DiagnosticStatus
REFUSED_SHARE, LOST_SHARE = 0.2, 0.01  # of all pings, above which something is wrong
#: s between the nodes' times that are not their messages' ways; as many times as many as simulated
#: time is quicker, because each is looked at when its status comes, once a second.
CLOCKS_APART = 5.0

#: What to do, by how a status begins.
ADVICE = {
    "odometry is in another frame": "set the parameter frame_id to the odometry's frame, or "
    "install tf2_ros and publish the transform between them",
    "pings come, but no odometry": "check the odometry's topic (odom_topic) and its stamps",
    "no odometry": "check the odometry's topic (odom_topic), and /clock where use_sim_time is true",
    "the model's thread has ended": "restart the mapper, and keep its log",
    "the model cannot keep up": "give it a core, raise batch.size, or choose a cheaper method",
    "one update in a hundred": "give it a core, raise batch.size or resolution",
    "the target cannot be met": "compare water.level and the settings of target with the "
    "map's elevations and cells (docs/good-enough.md)",
    "positions jumped": "look at the fix; see odometry.max_speed and odometry.max_jump",
    "too slow": "lower the simulation's speed",
}
#: What refuses pings, and what to do where it refuses many. Not in it: what is meant to refuse many
#: (waiting, paused, after_mission, a driver that repeats itself).
REASONS = {
    "nan": "the driver sends NaN: the sonar fails or its messages are misread",
    "no_return": "no echo comes back: too deep, or the beam's range is set too short",
    "too_close": "ranges below the driver's min_range: the hull is seen, or the limit is wrong",
    "out_of_range": "ranges above the driver's max_range: the limit may be wrong",
    "no_odometry": "no odometry at the pings' times: compare the clocks of sonar and odometry, and "
    "set sonar.time_offset or odometry.timeout",
    "outside_workspace": "the vehicle is outside the workspace: check workspace and the frame",
    "overload": "the model is too slow for so many pings",
    "low_confidence": "the driver's confidence is low: lower sonar.min_confidence, or mend the "
    "sonar",
    "duplicate": "two publishers on the sonar's topic, or a bag that is played twice",
    "no_mount": "tf2 does not know the sonar's frame, or its beam does not point down: publish it, "
    "or leave sonar.base_frame empty",
    "water_level_stale": "nobody publishes water_level: start its source, or set "
    "water.level_timeout to 0",
    "too_noisy": "their known noise is above noise.max_std",
    "position_uncertain": "the position is worse than odometry.max_std: wait for a fix",
    "wild_elevation": "they lie 100 km from the datum: odometry's z is no metres",
    "false_echo": "they contradict track and map: see screening.echo_ratio and "
    "screening.confirm_pings, if ground is lost",
    "standing": "the vehicle does not move: see why it keeps its place, or set "
    "sonar.pings_at_place to 0",
    "log_full": "the disk of mission_dir does not come after them",
}


class NodeStatus(NamedTuple):
    """The newest status of a node. ``age_s``: the wall clock less its stamp; None without one."""

    level: int
    text: str
    values: Mapping[str, str]
    age_s: float | None


def statuses(message: DiagnosticArray) -> dict[str, NodeStatus]:
    """What a message says of nodes of ours, by their names with namespace."""
    stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
    age_s = time.time() - stamp_s if stamp_s else None
    found = {}
    for status in message.status:
        if status.name.rpartition("/")[2] in OURS:
            values = {item.key: item.value for item in status.values}
            level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
            found[status.name] = NodeStatus(level, status.message, values, age_s)
    return found


def listen(seconds: float) -> dict[str, NodeStatus]:
    """The newest status of each node of ours, by its name with namespace.

    Raises:
        ImportError: there is no ROS 2.
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
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            executor.spin_once(timeout_sec=0.1)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
    return heard


def graph_findings(heard: Mapping[str, NodeStatus]) -> Iterator[Finding]:
    """What the nodes say, in words."""
    if not heard:
        todo = "start one (poam sim, robot.launch.py), or compare ROS_DOMAIN_ID here and there"
        yield Finding("no node of ours is heard", todo)
        return
    yield from _times(heard)
    for name, status in sorted(heard.items()):
        todo = next((t for begin, t in ADVICE.items() if status.text.startswith(begin)), "")
        if status.level == OK:
            yield Finding(f"{name}: {status.text}")
        else:
            yield problem(f"{name}: {status.text}", todo or f"see the log of {name}")
        if name.rpartition("/")[2] == "mapper":
            yield from _pings(name, status.values)
        yield from _counted(name, status.values)


def _times(heard: Mapping[str, NodeStatus]) -> Iterator[Finding]:
    """Whether the nodes share a clock, and whether it runs."""
    standing = [name for name, status in heard.items() if status.age_s is None]
    if standing:
        todo = "use_sim_time is true and nobody publishes /clock: unset it on a vehicle"
        yield problem(f"{', '.join(standing)}: time has not begun", todo)
    # The monitor is on wall time in every simulation.
    ages = {
        name: status.age_s
        for name, status in heard.items()
        if status.age_s is not None and not name.endswith("monitor")
    }
    speed = max([1.0, *(_number(status.values, "achieved_speed") for status in heard.values())])
    if ages and max(ages.values()) - min(ages.values()) > CLOCKS_APART * speed:
        said = ", ".join(f"{name} {-age:+.0f} s" for name, age in ages.items())
        todo = "give all the same use_sim_time, and synchronise the machines' clocks"
        yield problem(f"the nodes' times differ ({said} from this machine's)", todo)
    elif ages and abs(min(ages.values(), key=abs)) > CLOCKS_APART:
        yield Finding("the nodes' time is not this machine's: simulated or recorded")


def _pings(name: str, values: Mapping[str, str]) -> Iterator[Finding]:
    received = _number(values, "received")
    if not received:
        yield Finding(f"{name}: no ping was received", "check the sonar's topic (range_topic)")
        return
    refused = {key[9:]: _number(values, key) for key in values if key.startswith("rejected ")}
    for reason, count in sorted(refused.items(), key=lambda item: -item[1]):
        if count > REFUSED_SHARE * received and reason in REASONS:
            said = f"{name}: {count:.0f} of {received:.0f} pings refused as {reason}"
            yield problem(said, REASONS[reason])
    lost = {key[5:]: _number(values, key) for key in values if key.startswith("lost ")}
    for topic, count in lost.items():
        if count > LOST_SHARE * received:
            todo = "a busy machine, or small buffers: sysctl -w net.core.rmem_max=2147483647"
            yield problem(f"{name}: {count:.0f} messages of {topic} were lost on the way", todo)
    samples, cycle = _number(values, "samples"), _number(values, "cycle_p99_s")
    if samples and cycle:
        yield Finding(
            f"{name}: {samples:.0f} samples in the map; an update takes {cycle:.2f} s (p99)"
        )


def _counted(name: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Goals that came to nothing, and whatever was refused."""
    for key, todo in (
        ("goals_timed_out", "raise capture_radius to the turning diameter, or set max_speed"),
        ("goals_clipped", "they were moved into the workspace; expected of some planners only"),
    ):
        if count := _number(values, key):
            yield Finding(f"{name}: {key} {count:.0f}", todo)
    refusals = [k for k in values if k.startswith(("refused_", "goals_refused_", "errors "))]
    for key in refusals:
        if count := _number(values, key):
            yield Finding(f"{name}: {key} {count:.0f}", f"see the log of {name}")


def _number(values: Mapping[str, str], key: str) -> float:
    try:
        return float(values.get(key, "0"))
    except ValueError:
        return 0.0


def any_problem(findings: Iterable[Finding]) -> bool:
    """Whether anything is wrong."""
    return any(finding.problem for finding in findings)


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
