"""What a vehicle's drivers publish, and the launch line that fits: for `poam doctor` without a
mapper. Only ``Watch`` needs ROS 2."""

from __future__ import annotations

import math
import shlex
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.clock import SECOND
from ..frontend.front_end import MAX_ABOVE, OTHER_CLOCK_NS

ODOMETRY, RANGE, POSE = (
    "nav_msgs/msg/Odometry",
    "sensor_msgs/msg/Range",
    "geometry_msgs/msg/PoseStamped",
)
LEVEL, STATUS, MAVROS = (
    "std_msgs/msg/Float64",
    "action_msgs/msg/GoalStatusArray",
    "mavros_msgs/msg/State",
)
#: Other messages with a range: field; field of its quality.
FIELDS = {
    "marine_acoustic_msgs/msg/Dvl": ("altitude", "beam_velocities_valid"),
    "dvl_msgs/msg/DVL": ("altitude", "velocity_valid"),
    "geometry_msgs/msg/PoseWithCovarianceStamped": ("pose.pose.position.z", ""),
    "std_msgs/msg/Float32": ("data", ""),
    "std_msgs/msg/Float64": ("data", ""),
    "mavros_msgs/msg/Altitude": ("bottom_clearance", ""),
}  # fmt: skip
#: Parts of the names of topics whose numbers are ranges to the bottom.
NAMES = "altim", "altitude", "sonar", "echo", "range", "dvl", "depth_below"
MIN_RATE = 2.0  # slowest odometry that pings are placed by, in Hz
HALF = 50.0  # m: half a side of the workspace that is proposed


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


@dataclass
class Topic:
    """A topic of the graph, and what was heard on it.

    Attributes:
        offset_s: stamps minus the time of arrival, of the newest message; NaN: without stamps.
    """

    name: str
    kind: str
    publishers: int = 0
    subscribers: int = 0
    count: int = 0
    seconds: float = 1.0
    offset_s: float = math.nan
    newest: Any = None

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds

    @property
    def frame(self) -> str:
        """The frame in the newest message's header; empty: none."""
        header = getattr(self.newest, "header", None)
        return str(header.frame_id).lstrip("/") if header is not None else ""

    def __str__(self) -> str:
        stamps = "no stamps" if math.isnan(self.offset_s) else f"stamps {self.offset_s:+.1f} s"
        frame = f", frame '{self.frame}'" if self.frame else ""
        return f"{self.name} ({self.kind}): {self.rate:.1f} Hz{frame}, {stamps}"


class Watch:
    """Listens to what may be odometry or ranges, on a node that is spun by its owner."""

    def __init__(self, node: Any) -> None:
        self._node, self._begun = node, time.monotonic()
        self._heard: dict[str, Topic] = {}

    def look(self) -> None:
        """Subscribe to topics that have appeared."""
        from ..core.errors import InputError
        from ..ros.common.inputs import message_type
        from ..ros.common.qos import SENSOR_READ

        for name, kinds in self._node.get_topic_names_and_types():
            kind = kinds[0]
            wanted = kind in (ODOMETRY, RANGE) or (kind in FIELDS and _says_range(name))
            if name in self._heard or not wanted or len(kinds) > 1:
                continue
            topic = self._heard[name] = Topic(name, kind)
            try:
                self._node.create_subscription(
                    message_type(kind), name, lambda m, t=topic: self._take(t, m), SENSOR_READ
                )
            except InputError:
                continue  # its package is not installed here

    def topics(self) -> list[Topic]:
        """All topics of the graph."""
        seconds = max(time.monotonic() - self._begun, 1e-3)
        found = []
        for name, kinds in self._node.get_topic_names_and_types():
            topic = self._heard.get(name, Topic(name, kinds[0]))
            topic.publishers = self._node.count_publishers(name)
            ours = name in self._heard
            topic.subscribers = self._node.count_subscribers(name) - ours
            topic.seconds = seconds
            found.append(topic)
        return found

    def _take(self, topic: Topic, message: Any) -> None:
        topic.count, topic.newest = topic.count + 1, message
        header = getattr(message, "header", None)
        if header is not None and (header.stamp.sec or header.stamp.nanosec):
            stamp_s = header.stamp.sec + header.stamp.nanosec / 1e9
            topic.offset_s = stamp_s - self._node.get_clock().now().nanoseconds / 1e9


def _says_range(name: str) -> bool:
    return any(part in name.lower() for part in NAMES)


def driver_findings(topics: Sequence[Topic]) -> Iterator[Finding]:
    """Findings about drivers, and the launch line that fits them, if they are enough."""
    kinds = defaultdict(list)
    for topic in topics:
        kinds[topic.kind].append(topic)
    odometry = _best(t for t in kinds[ODOMETRY] if t.publishers)
    others = (t for kind in FIELDS for t in kinds[kind] if t.publishers and _says_range(t.name))
    ranges = _best(t for t in kinds[RANGE] if t.publishers) or _best(others)
    goals = next((t for t in kinds[POSE] if t.subscribers), None)
    action = next(
        (t for t in kinds[STATUS] if t.name.endswith("navigate_to_pose/_action/status")), None
    )
    if odometry is None:
        yield problem("nobody publishes nav_msgs/Odometry", "start the driver of the position, "
            "or compare ROS_DOMAIN_ID with its own")  # fmt: skip
    else:
        yield from _odometry_findings(odometry)
    if ranges is None:
        advice = "start the sonar's driver; any message with a number will do (docs/sensors.md)"
        yield problem("nobody publishes a sensor_msgs/Range, or a number named as one", advice)
    else:
        yield from _range_findings(ranges)
    if goals is None and action is None:
        advice = "the vehicle must drive to a geometry_msgs/PoseStamped, or have Nav2"
        yield problem("nobody listens to a goal", advice)
    if odometry is None or ranges is None:
        return
    line = " ".join(_launch_line(odometry, ranges, goals, action, kinds))
    yield Finding("start mapper and planner with", line)


def _best(topics: Iterator[Topic]) -> Topic | None:
    """The topic that says most; those in the frame `map` first."""
    found = sorted(topics, key=lambda t: (t.count > 0, t.frame == "map", t.rate), reverse=True)
    return found[0] if found else None


def _heard(topic: Topic) -> Iterator[Finding]:
    if not topic.count:
        yield problem(f"{topic.name}: nothing is heard", "its driver publishes nothing yet, or the "
            "package of its messages is not installed here")  # fmt: skip
    elif abs(topic.offset_s) > OTHER_CLOCK_NS / SECOND:
        yield problem(f"{topic}", "synchronise the clocks, or set use_sim_time for a recording")
    else:
        yield Finding(str(topic))


def _odometry_findings(topic: Topic) -> Iterator[Finding]:
    yield from _heard(topic)
    if not topic.count:
        return
    if topic.rate < MIN_RATE:
        yield problem(f"{topic.name}: {topic.rate:.1f} Hz", "5 Hz or more are needed")
    place, child = topic.newest.pose.pose, str(topic.newest.child_frame_id)
    if topic.frame.endswith("_link") or (topic.frame and topic.frame == child.lstrip("/")):
        yield problem(f"{topic.name}: frame '{topic.frame}' moves with the vehicle", "choose "
            "odometry in a fixed frame")  # fmt: skip
    if place.position.z > MAX_ABOVE:
        yield problem(f"{topic.name}: z is {place.position.z:.1f} m, above the water", "z must be "
            "0 at the water and grow upwards: odometry.surface on a vehicle that floats, "
            "odometry.vertical:=datum for heights")  # fmt: skip
    if not any(
        (place.orientation.x, place.orientation.y, place.orientation.z, place.orientation.w)
    ):
        yield problem(f"{topic.name}: no attitude (all zeros)", "the driver must fill it in")


def _range_findings(topic: Topic) -> Iterator[Finding]:
    yield from _heard(topic)
    if topic.kind != RANGE or (topic.count and not topic.newest.max_range > 0):
        yield Finding(f"{topic.name}: no limits of range", "set sonar.min_range, sonar.max_range")
    if quality := FIELDS.get(topic.kind, ("", ""))[1]:
        advice = f"set range_valid_field to {quality} in a parameter file"
        yield Finding(f"{topic.name}: ranges may be invalid", advice)


def _launch_line(
    odometry: Topic, ranges: Topic, goals: Topic | None, action: Topic | None,
    kinds: dict[str, list[Topic]],
) -> Iterator[str]:  # fmt: skip
    yield "ros2 launch poam_ros robot.launch.py"
    x = y = 0.0
    if odometry.newest is not None:
        x, y = (round(getattr(odometry.newest.pose.pose.position, axis)) for axis in "xy")
    box = f"{x - HALF:g} {x + HALF:g} {y - HALF:g} {y + HALF:g}"
    given = {"workspace": box, "odom_topic": odometry.name, "range_topic": ranges.name}
    if odometry.frame not in ("", "map"):
        given["frame_id"] = odometry.frame
    if ranges.kind != RANGE:
        given |= {"range_type": ranges.kind, "range_field": FIELDS[ranges.kind][0]}
    if goals is not None:
        given["goal_topic"] = goals.name
    if mavros := next((t for t in kinds[MAVROS] if t.publishers), None):
        given["mavros"] = mavros.name.removesuffix("/state")
    if level := next((t for t in kinds[LEVEL] if t.publishers and "water_level" in t.name), None):
        given["water_level_topic"] = level.name
    if goals is None and action is not None:
        given["params_file"] = "nav2.yaml"
    for name, value in given.items():
        yield f"{name}:={shlex.quote(value)}"
