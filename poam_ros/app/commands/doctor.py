"""`poam doctor`: check the running graph and this machine. It also works without ROS 2.

Without a mapper it reads what a vehicle's drivers publish, and prints the launch line that fits.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import platform
import shlex
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.clock import SECOND
from ...core.errors import InputError, quantity
from ...frontend.front_end import MAX_ABOVE, OTHER_CLOCK_NS
from ...models.native.loader import missing_parts
from ..cli import MODULES

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray

HEALTHY, PROBLEMS = 0, 1
NEEDED = ("numpy", "scipy", "torch", "gpytorch")
PING_BYTES = 400  # on disk for a ping, including indices and checkpoints
MIN_DISK = 500 * 2**20
GROUP = "239.255.0.1"  # multicast group of DDS discovery
MIDDLEWARE_SETTINGS = (
    "RMW_IMPLEMENTATION", "ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY",
)  # fmt: skip

OK, WARN, ERROR = range(3)  # levels of diagnostic_msgs/DiagnosticStatus
LOST_SHARE = 0.01  # of all messages; more is a problem
#: A larger difference of a node's time from this machine's is no delay of messages, in s.
MAX_CLOCK_DIFFERENCE_S = 5.0
STARTING = "the simulation is starting: run poam doctor again in a moment"
#: What to do about counts of the nodes.
COUNTED = {
    "goals_timed_out": "set capture_radius (the turning diameter), max_speed or current",
    "goals_clipped": "they were moved into the workspace; only some planners do that",
}

ODOMETRY, RANGE, POSE, LEVEL, STATUS, MAVROS, CLOCK = (
    "nav_msgs/msg/Odometry", "sensor_msgs/msg/Range", "geometry_msgs/msg/PoseStamped",
    "std_msgs/msg/Float64", "action_msgs/msg/GoalStatusArray", "mavros_msgs/msg/State",
    "rosgraph_msgs/msg/Clock",
)  # fmt: skip
#: Other messages with a range: its field, and that of its quality.
KNOWN = {
    "marine_acoustic_msgs/msg/Dvl": ("altitude", "beam_velocities_valid"),
    "dvl_msgs/msg/DVL": ("altitude", "velocity_valid"),
    "geometry_msgs/msg/PoseWithCovarianceStamped": ("pose.pose.position.z", ""),
    "mavros_msgs/msg/Altitude": ("bottom_clearance", ""),
}
#: Of all other types, a number with one of these names.
FIELDS, NUMERIC = ("range", "altitude", "distance", "data"), ("float", "double", "int", "uint")
#: Parts of the names of topics: numbers that are ranges to the bottom; poses that are goals; and
#: poses that are none, though somebody listens to them, such as MAVROS to a camera's.
RANGES = "altim", "altitude", "sonar", "echo", "range", "dvl", "depth_below"
GOALS = "goal", "setpoint", "target", "waypoint", "reference", "cmd", "command", "desired"
ESTIMATES = "vision", "mocap", "landing", "fake", "slam", "initial"
#: What a vehicle of ArduPilot's needs besides.
PRESETS = (
    "params_file:='ardupilot.yaml,ping2.yaml,blueboat.yaml,mine.yaml' (or ping1d.yaml, "
    "bluerov2.yaml; mine.yaml is your own): repeated readings, the water as z = 0, radii of arrival"
)
NAV2 = "navigate_to_pose/_action/status"
#: What is missing, and what to do about it.
NO_ODOMETRY = (
    "nobody publishes nav_msgs/Odometry",
    "start the driver of the position, or compare ROS_DOMAIN_ID with its own",
)
NO_RANGE = (
    "nobody publishes a sensor_msgs/Range, or a number named as one",
    "start the sonar's driver; any message with a number will do (docs/sensors.md)",
)
NO_GOAL = "the vehicle must drive to a geometry_msgs/PoseStamped, or have Nav2"
MIN_RATE = 2.0  # slowest odometry that pings are placed by, in Hz
HALF = 50.0  # m: half a side of the workspace that is proposed
LOOK_S = 0.5  # between two looks for new topics


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        text: what was found.
        advice: what to do about it; empty if all is well.
        problem: whether it harms the survey; otherwise it is a note.
    """

    text: str
    advice: str = ""
    problem: bool = False

    def __str__(self) -> str:
        mark = "PROBLEM" if self.problem else "note" if self.advice else "ok"
        return f"{mark:8}{self.text}" + (f": {self.advice}" if self.advice else "")


def problem(text: str, advice: str) -> Finding:
    """A finding that harms the survey."""
    return Finding(text, advice, problem=True)


def machine_findings(mission_dir: Path | None) -> Iterator[Finding]:
    """The checks that need no ROS 2."""
    text = f"Python {platform.python_version()}"
    for name in NEEDED:
        try:
            text += f", {name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield problem(f"{name} is not installed", f"pip install {name}")
    yield Finding(text)
    off = os.environ.get("POAM_NATIVE") == "0"
    if missing := missing_parts():
        advice = "unset it" if off else "updates take longer until then"
        yield problem(f"POAM_NATIVE=0: {missing}" if off else missing, advice)
    else:
        yield Finding("the compiled parts are loaded")
    own = hasattr(os, "sched_getaffinity")
    cores = (len(os.sched_getaffinity(0)) if own else os.cpu_count()) or 1
    slow = "expect updates to take twice as long" if cores < 2 else ""
    yield Finding(f"{quantity(cores, 'core')} ({platform.machine()})", slow)
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > cores:
        advice = "unset it; the mapper's parameter `threads` sets its own"
        yield problem(f"OMP_NUM_THREADS={threads}: more threads than cores", advice)
    if (load := os.getloadavg()[0]) > 1.5 * cores:
        advice = "stop other programs; a lack of cores may explain what is too slow below"
        yield problem(f"load average {load:.1f} on {cores} cores", advice)
    if mission_dir is not None:
        yield _disk(mission_dir)


def _disk(folder: Path) -> Finding:
    there = next((p for p in (folder, *folder.absolute().parents) if p.exists()), None)
    if there is None or not there.is_dir() or not os.access(there, os.W_OK):
        return problem(f"{folder} cannot be written", "choose another folder")
    free = shutil.disk_usage(there).free
    text = f"{folder} has {free / 2**20:,.0f} MiB left"
    if free >= MIN_DISK:
        return Finding(text)
    return problem(f"{text}, about {free // PING_BYTES:,} pings", "free some space")


def middleware_findings() -> Iterator[Finding]:
    """The checks of what the middleware needs."""
    values = {name: os.environ.get(name, "") for name in MIDDLEWARE_SETTINGS}
    yield Finding("middleware: " + ", ".join(f"{k}={v or '(default)'}" for k, v in values.items()))
    if values["ROS_LOCALHOST_ONLY"] == "1":
        text = "ROS_LOCALHOST_ONLY=1: nodes on other machines are not seen"
        yield Finding(text, "unset it if the graph spans machines")
    if values["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "OFF":
        text = "ROS_AUTOMATIC_DISCOVERY_RANGE=OFF: nodes do not find each other"
        yield problem(text, "unset it, or set SUBNET or LOCALHOST")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.settimeout(1.0)
            end.bind(("", 0))
            local = socket.inet_aton("127.0.0.1")
            membership = socket.inet_aton(GROUP) + local
            end.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            end.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
            end.sendto(b"poam doctor", (GROUP, end.getsockname()[1]))
            end.recv(64)
        except OSError as error:
            advice = "ip link set lo multicast on; nodes here may still find each other by unicast"
            yield Finding(f"multicast on loopback does not work ({error})", advice)
        else:
            yield Finding("multicast on loopback works")


class NodeStatus(NamedTuple):
    """The newest status of a node. ``age_s``: wall clock minus stamp; None without a stamp."""

    level: int
    text: str
    values: Mapping[str, str]
    age_s: float | None

    def number(self, key: str) -> float:
        """A value as a number; 0 if it is none."""
        try:
            return float(self.values.get(key, "0"))
        except ValueError:
            return 0.0


def statuses(message: DiagnosticArray) -> dict[str, NodeStatus]:
    """The statuses of this package's nodes in a message, by full name."""
    stamp_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
    age_s = time.time() - stamp_s if stamp_s else None
    return {
        each.name: NodeStatus(
            ord(each.level), each.message, {item.key: item.value for item in each.values}, age_s
        )
        for each in message.status
        if _node(each.name) in MODULES
    }


def _node(name: str) -> str:
    return name.rpartition("/")[2]


@dataclass
class Topic:
    """A topic of the graph, and what was heard on it.

    Attributes:
        kind: type of its messages.
        rate: messages a second.
        offset_s: stamps minus the time of arrival, of the newest message; NaN: without stamps.
    """

    name: str
    kind: str
    publishers: int = 0
    subscribers: int = 0
    count: int = 0
    rate: float = 0.0
    offset_s: float = math.nan
    newest: Any = None

    @cached_property
    def type(self) -> Any:
        """The class of its messages; None if their package is not installed."""
        from ...ros.inputs import message_type

        try:
            return message_type(self.kind)
        except InputError:
            return None

    @cached_property
    def field(self) -> tuple[str, str]:
        """The field of a range in messages of other types, and that of its quality; or empty."""
        if self.kind in (ODOMETRY, RANGE) or not self.named(RANGES):
            return "", ""
        fields = {} if self.type is None else self.type.get_fields_and_field_types()
        numbers = (name for name in FIELDS if fields.get(name, "").startswith(NUMERIC))
        return KNOWN.get(self.kind) or (next(numbers, ""), "")

    @property
    def frame(self) -> str:
        """The frame in the newest message's header; empty: none."""
        header = getattr(self.newest, "header", None)
        return str(header.frame_id).lstrip("/") if header is not None else ""

    @property
    def points_down(self) -> bool:
        """Whether the frame's name says north, east, down."""
        return "ned" in self.frame.lower().replace("/", "_").split("_")

    def named(self, parts: Iterable[str]) -> bool:
        """Whether one of these is in its name."""
        return any(part in self.name.lower() for part in parts)

    def take(self, message: Any, now_ns: int) -> None:
        """Count a message."""
        self.count, self.newest = self.count + 1, message
        stamp = getattr(getattr(message, "header", None), "stamp", None)
        if stamp is not None and (stamp.sec or stamp.nanosec):
            self.offset_s = (stamp.sec * SECOND + stamp.nanosec - now_ns) / SECOND

    def __str__(self) -> str:
        stamps = "no stamps" if math.isnan(self.offset_s) else f"stamps {self.offset_s:+.1f} s"
        frame = f", frame '{self.frame}'" if self.frame else ""
        return f"{self.name} ({self.kind}): {self.rate:.1f} Hz{frame}, {stamps}"


def listen(seconds: float) -> tuple[dict[str, NodeStatus], list[Topic]]:
    """The newest status of each node of this package, by full name; and the graph's topics, one for
    each type of messages, with what was heard on those that may be odometry or ranges.

    Raises:
        ImportError: ROS 2 is not installed.
    """
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.executors import SingleThreadedExecutor

    from ...ros.node import SENSOR_READ

    heard: dict[str, NodeStatus] = {}
    topics: dict[tuple[str, str], Topic] = {}
    ours: set[str] = set()  # a middleware's participant has one type for a name
    context = rclpy.Context()
    rclpy.init(args=[], context=context)
    node = rclpy.create_node("poam_doctor", context=context)
    executor = SingleThreadedExecutor(context=context)

    def look() -> None:
        """Subscribe to what has appeared."""
        for name, kind in ((name, k) for name, ks in node.get_topic_names_and_types() for k in ks):
            if (name, kind) in topics:
                continue
            topic = topics[name, kind] = Topic(name, kind)
            wanted = topic.kind in (ODOMETRY, RANGE) or topic.field[0]
            if wanted and topic.type and name not in ours:
                ours.add(name)

                def take(message: Any, topic: Topic = topic) -> None:
                    topic.take(message, node.get_clock().now().nanoseconds)

                node.create_subscription(topic.type, name, take, SENSOR_READ)

    try:
        node.create_subscription(
            DiagnosticArray, "/diagnostics", lambda message: heard.update(statuses(message)), 100
        )
        executor.add_node(node)
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            look()
            until = begun + min(seconds, passed + LOOK_S)
            while time.monotonic() < until:
                executor.spin_once(timeout_sec=0.1)
        for topic in topics.values():
            topic.rate = topic.count / max(passed, 1e-3)
            publishers = node.get_publishers_info_by_topic(topic.name)
            others = node.get_subscriptions_info_by_topic(topic.name)
            topic.publishers = sum(p.topic_type == topic.kind for p in publishers)
            topic.subscribers = sum(
                s.topic_type == topic.kind and s.node_name != node.get_name() for s in others
            )
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
    return heard, list(topics.values())


def graph_findings(heard: Mapping[str, NodeStatus]) -> Iterator[Finding]:
    """Findings from the nodes' statuses."""
    if not heard:
        advice = "start one (poam sim, robot.launch.py), or compare ROS_DOMAIN_ID with theirs"
        yield Finding("no mapper, planner, simulator or monitor is found", advice)
        return
    simulators = [status for name, status in heard.items() if _node(name) == "simulator"]
    starting = any(s.text.startswith("waiting") or s.number("time_s") < 1 for s in simulators)
    yield from _clock_findings(heard, starting)
    for name, status in sorted(heard.items()):
        known = ": " in status.text or status.level == OK
        if status.level == OK or (starting and status.level == WARN):
            yield Finding(f"{name}: {status.text}", "" if status.level == OK else STARTING)
        else:
            yield problem(f"{name}: {status.text}", "" if known else "see its log")
        if _node(name) == "mapper":
            yield from _ping_findings(name, status)
        for key in status.values:
            refusal = key.startswith(("refused_", "goals_ref", "errors "))
            if (key in COUNTED or refusal) and (count := status.number(key)):
                advice = COUNTED.get(key, f"see the log of {name}")
                yield Finding(f"{name}: {key} {count:.0f}", advice)


def _clock_findings(heard: Mapping[str, NodeStatus], starting: bool) -> Iterator[Finding]:
    """Whether all nodes have a time, and the same. ``starting``: a simulation is starting."""
    # The monitor uses wall time, in simulations as well.
    ages = {name: status.age_s for name, status in heard.items() if _node(name) != "monitor"}
    known = {name: age for name, age in ages.items() if age is not None}
    if timeless := ", ".join(ages.keys() - known.keys()):
        advice = "use_sim_time is true, but no /clock arrives: set it to false on a vehicle"
        late = Finding(f"{timeless}: no time yet", STARTING)
        yield late if starting else problem(f"{timeless}: no time yet", advice)
    near, far = min(map(abs, known.values()), default=0.0), max(map(abs, known.values()), default=0)
    if near > MAX_CLOCK_DIFFERENCE_S:
        yield Finding("the nodes use a different time from this machine: simulated or recorded")
    elif far > MAX_CLOCK_DIFFERENCE_S:
        text = ", ".join(f"{name} {-age:+.0f} s" for name, age in known.items())
        advice = "give all nodes the same use_sim_time, and synchronise the machines' clocks"
        yield problem(f"the nodes' times differ ({text} from this machine's)", advice)


def _ping_findings(name: str, status: NodeStatus) -> Iterator[Finding]:
    received = status.number("received")
    if not received:
        yield Finding(f"{name}: no ping was received", "check the sonar's topic (range_topic)")
    for key in status.values:
        if key.startswith("lost ") and status.number(key) > LOST_SHARE * received:
            advice = "busy machine or small buffers: sysctl -w net.core.rmem_max=2147483647"
            lost = quantity(round(status.number(key)), "message")
            yield problem(f"{name}: {lost} of {key.removeprefix('lost ')} lost", advice)
    samples, cycle = status.number("samples"), status.number("cycle_p99_s")
    if samples and cycle:
        text = f"{samples:.0f} samples in the map; an update takes {cycle:.2f} s (p99)"
        yield Finding(f"{name}: {text}")


def driver_findings(topics: Sequence[Topic]) -> Iterator[Finding]:
    """Findings about drivers, and the launch line that fits them, if they are enough."""
    simulated = any(t.kind == CLOCK and t.publishers for t in topics)

    def ranked(judge: Any, wanted: Callable[[Topic], Any], order: Callable[[Topic], Any]) -> Any:
        """Those that are wanted, best first, each with its findings."""
        found = [(t, list(judge(t, simulated))) for t in topics if t.publishers and wanted(t)]
        key = lambda f: (f[0].count > 0, -sum(r.problem for r in f[1]), order(f[0]))  # noqa: E731
        return sorted(found, key=key, reverse=True)

    odometry = ranked(
        _odometry_findings, lambda t: t.kind == ODOMETRY, lambda t: (t.frame == "map", t.rate)
    )
    ranges = ranked(_range_findings, lambda t: t.kind == RANGE, lambda t: (t.named(RANGES), t.rate))
    ranges = ranges or ranked(_range_findings, lambda t: t.field[0], lambda t: t.rate)
    poses = [t for t in topics if t.kind == POSE and t.subscribers and not t.named(ESTIMATES)]
    nav2 = any(t.kind == STATUS and t.name.endswith(NAV2) for t in topics)
    goals = [] if nav2 else [t for t in poses if t.named(GOALS)]
    for name, count in Counter(t.name for t in topics if t.publishers).items():
        if count > 1:
            own = ", ".join(sorted(t.kind for t in topics if t.name == name and t.publishers))
            yield problem(f"{name} has several types: {own}", "give each a topic of its own")
    yield from odometry[0][1] if odometry else [problem(*NO_ODOMETRY)]
    yield from ranges[0][1] if ranges else [problem(*NO_RANGE)]
    if not (goals or nav2):
        names = ", ".join(t.name for t in poses)
        advice = (
            f"give goal_topic that of {names} to which the vehicle drives" if names else NO_GOAL
        )
        yield problem("nobody listens to a goal", advice)
    for argument, others in (
        ("odom_topic", [t for t, _ in odometry]), ("range_topic", [t for t, _ in ranges]),
        ("goal_topic", goals),
    ):  # fmt: skip
        if names := ", ".join(t.name for t in others[1:]):
            yield Finding(f"{argument} may be another", names)
    if odometry and ranges:
        line = _launch_line(odometry[0][0], ranges[0][0], goals[:1], nav2, topics)
        wrong = any(found.problem for _, every in (odometry[0], ranges[0]) for found in every)
        when = "once these problems are solved, " if wrong else ""
        yield Finding(f"{when}start mapper and planner with (put in your workspace)", line)
    if any("/mavros/" in t.name for t in topics):
        yield Finding("MAVROS: of ArduPilot, add its presets to the line", PRESETS)


def _heard(topic: Topic, simulated: bool) -> Finding:
    if not topic.count and topic.type is None:
        advice = "source its workspace, here and where mapper and planner run"
        return problem(f"{topic.name}: {topic.kind.split('/')[0]} is not installed", advice)
    if not topic.count:
        return problem(f"{topic.name}: nothing is heard", "its driver publishes nothing yet")
    if abs(topic.offset_s) > OTHER_CLOCK_NS / SECOND and not simulated:
        return problem(f"{topic}", "synchronise the clocks, or set use_sim_time for a recording")
    return Finding(str(topic))


def _odometry_findings(topic: Topic, simulated: bool) -> Iterator[Finding]:
    yield _heard(topic, simulated)
    if not topic.count:
        return
    name, pose, frame = topic.name, topic.newest.pose.pose, topic.frame
    if topic.rate < MIN_RATE:
        yield problem(f"{name}: {topic.rate:.1f} Hz", "5 Hz or more are needed")
    if frame.endswith("_link") or frame == str(topic.newest.child_frame_id).lstrip("/") != "":
        advice = "choose odometry in a fixed frame"
        yield problem(f"{name}: frame '{frame}' moves with the vehicle", advice)
    if topic.points_down:
        yield problem(
            f"{name}: '{frame}' has axes north, east, down",
            "see docs/connect.md, Axes north, east, down",
        )
    elif pose.position.z > MAX_ABOVE:
        yield problem(
            f"{name}: z is {pose.position.z:.1f} m, above the water",
            "z must be 0 at the water and grow upwards. A vehicle that floats: odometry.surface; "
            "heights: odometry.vertical: datum and water.level; z down: docs/connect.md",
        )
    turn = pose.orientation
    if not any((turn.x, turn.y, turn.z, turn.w)):
        yield problem(f"{name}: no attitude (all zeros)", "the driver must fill it in")


def _range_findings(topic: Topic, simulated: bool) -> Iterator[Finding]:
    yield _heard(topic, simulated)
    if topic.kind != RANGE or (topic.count and not topic.newest.max_range > 0):
        yield Finding(f"{topic.name}: no limits of range", "set sonar.min_range, sonar.max_range")
    if quality := topic.field[1]:
        advice = f"set range_valid_field to {quality} in a parameter file"
        yield Finding(f"{topic.name}: ranges may be invalid", advice)


def _launch_line(
    odometry: Topic, ranges: Topic, goals: Sequence[Topic], nav2: bool, topics: Sequence[Topic]
) -> str:
    def published(kind: str, word: str = "") -> str:
        names = (t.name for t in topics if t.kind == kind and t.publishers and word in t.name)
        return next(names, "")

    x = y = 0
    if odometry.newest is not None:
        x, y = (round(getattr(odometry.newest.pose.pose.position, axis)) for axis in "xy")
    x, y = (y, x) if odometry.points_down else (x, y)
    other = ranges.kind != RANGE
    given = {
        "workspace": f"{x - HALF:g} {x + HALF:g} {y - HALF:g} {y + HALF:g}",
        "odom_topic": odometry.name, "range_topic": ranges.name,
        "frame_id": "" if odometry.frame == "map" or odometry.points_down else odometry.frame,
        "range_type": ranges.kind if other else "", "range_field": ranges.field[0] if other else "",
        "goal_topic": "".join(goal.name for goal in goals),
        "mavros": published(MAVROS).removesuffix("/state"),
        "water_level_topic": published(LEVEL, "water_level"),
        "use_sim_time": "true" if published(CLOCK) else "",
        "params_file": "nav2.yaml" if nav2 else "",
    }  # fmt: skip
    arguments = (f"{name}:={shlex.quote(value)}" for name, value in given.items() if value)
    return " ".join(("ros2 launch poam_ros robot.launch.py", *arguments))


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
    sensors = any(t.publishers and (t.kind in (ODOMETRY, RANGE) or t.field[0]) for t in topics)
    if sensors and not any(name.rpartition("/")[2] in ("mapper", "simulator") for name in heard):
        yield from driver_findings(topics)
    else:
        yield from graph_findings(heard)
