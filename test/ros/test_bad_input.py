"""Bad input for nodes: messages, parameters, and service calls at the wrong time."""

import math
import os

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from driver_messages import write_odometry
from feeder import Feeder
from geometry_msgs.msg import PoseStamped
from heard import Listener, answer
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import PointCloud2, PointField, Range
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger

from poam_ros.core.geometry import Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.events import STATES
from poam_ros.frontend.odometry import VehicleState
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.messages import write_map_cloud
from poam_ros.ros.monitor import MonitorNode
from poam_ros.ros.node import GOAL, KEPT, LATCHED, SENSOR_PUBLISH
from poam_ros.ros.parameters import NODES
from poam_ros.ros.planner import PlannerNode
from poam_ros.ros.simulator import SimulatorNode

pytestmark = [pytest.mark.ros, pytest.mark.filterwarnings("error::RuntimeWarning")]

KINDS = {
    "mapper": MapperNode, "planner": PlannerNode, "simulator": SimulatorNode,
    "monitor": MonitorNode,
}  # fmt: skip
ODD_NUMBERS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, 5e-324)
ODD_TEXTS = ("", "map", "/map", "Ünterwasser", "\u6df1\u5ea6", "x" * 20_000, "a\n[FATAL] b")
WRONG_VALUES = (
    True, -1, 0, 2**62, -(2**62), math.nan, math.inf, -1e300, "", "\u6df1" * 3000, [], [True],
    [1, 2], [math.nan] * 4, ["a"] * 4, [b"\x00"],
)  # fmt: skip
ROUNDS = 25
PINGS, CALLS = (int(os.environ.get(f"POAM_SOAK_{name}", count)) for name, count in
                (("ODD", 265_000), ("CALLS", 500)))  # fmt: skip


def fill(message, rng):
    """Odd values in every field, whatever the message."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if hasattr(value, "get_fields_and_field_types"):
            fill(value, rng)
        elif kind in ("double", "float"):
            number = ODD_NUMBERS[rng.integers(len(ODD_NUMBERS))]
            fits = kind == "double" or not 1e38 < abs(number) < math.inf
            setattr(message, name, number if fits else 3e38)
        elif kind == "string":
            setattr(message, name, ODD_TEXTS[rng.integers(len(ODD_TEXTS))])
        elif kind == "int32":
            setattr(message, name, int(rng.choice([0, 1, -1, -(2**31), 2**31 - 1])))
        elif kind in ("uint32", "uint8", "uint64"):
            bits = int(kind[4:])
            setattr(message, name, int(rng.choice([0, 1, 2**31 - 1])) % 2**bits)
        elif kind == "double[36]":
            setattr(message, name, rng.choice(ODD_NUMBERS, 36))
    return message


def odd_cloud(rng):
    """A cloud whose header does not fit its data."""
    cloud = fill(PointCloud2(), rng)
    cloud.fields = [
        PointField(name=n, offset=int(rng.choice([0, 4, 8, 2**31])), datatype=7, count=1)
        for n in ("x", "y", "z", "variance")
    ]
    cloud.height, cloud.width = int(rng.integers(0, 3)), int(rng.integers(0, 5))
    cloud.point_step, cloud.row_step = int(rng.choice([0, 12, 16])), int(rng.choice([0, 16, 64]))
    cloud.data = rng.bytes(int(rng.choice([0, 1, 64, 500])))
    cloud.header.frame_id = "map"
    return cloud


def odd_map(rng):
    """A valid map of odd numbers."""
    rows, columns = rng.integers(1, 4, 2)
    grid = Grid(rng.uniform(-40, 20) + np.arange(columns), np.sort(rng.uniform(-30, 30, rows)))
    numbers = [*ODD_NUMBERS, 1.0, 2.0, 3.0]
    values = [rng.choice(numbers, (rows, columns)) for _ in range(3)]
    with np.errstate(over="ignore"):
        drawn = ElevationMap(grid, *values[:2], {"lengthscale": values[2]}, stamp_ns=1)
        return write_map_cloud(drawn, "map")


class Stranger(Listener):
    """Sends odd messages."""

    def __init__(self):
        super().__init__("stranger")
        self.topics = {
            "odom": (Odometry, SENSOR_PUBLISH), "sonar/range": (Range, SENSOR_PUBLISH),
            "mission/state": (String, LATCHED), "map/points": (PointCloud2, LATCHED),
            "map/samples": (UInt64, LATCHED), "goal_pose": (PoseStamped, GOAL),
            "map/report": (String, KEPT), "terrain": (PointCloud2, LATCHED),
        }  # fmt: skip
        self.out = {t: self.create_publisher(k, t, q) for t, (k, q) in self.topics.items()}
        self.diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.listen(DiagnosticArray, "/diagnostics", 10, lambda m: {s.name for s in m.status})

    @property
    def said(self):
        return set().union(*self.heard["/diagnostics"])

    def talk(self, rng):
        for topic, (kind, _) in self.topics.items():
            cloud = (odd_cloud, odd_map)[rng.integers(2)]
            self.out[topic].publish(cloud(rng) if kind is PointCloud2 else fill(kind(), rng))
        place = tuple(rng.uniform(-30, 30, 3))
        self.out["odom"].publish(write_odometry(VehicleState(rng.integers(2**60), place)))
        self.out["mission/state"].publish(String(data=STATES[rng.integers(len(STATES))]))
        values = [KeyValue(key="achieved_speed", value="fast")]
        status = [DiagnosticStatus(name="simulator", message="x" * 1000, values=values)]
        self.diagnostics.publish(DiagnosticArray(status=status))


def odd_pings(mapper, stranger, count, rng, eventually):
    """Send ``count`` odd pings as fast as they can be; returns how many were sent and lost."""
    lost, ledger = mapper.lost, mapper.session.ledger
    sent = 0
    while sent < count:
        for _ in range(min(1000, count - sent)):
            stranger.out["sonar/range"].publish(fill(Range(), rng))
            sent += 1
        stranger.out["odom"].publish(write_odometry(VehicleState(rng.integers(2**60), (0.0,) * 3)))
    for _ in range(20):  # the number of one that arrives tells of what was lost before it
        stranger.out["sonar/range"].publish(fill(Range(), rng))
    eventually(
        lambda: ledger.received + lost["sonar/range"] == sent + 20,
        what="a ping is in no count",
    )
    eventually(lambda: all_counted(ledger))
    return sent + 20, lost["sonar/range"]


def calls(stranger, count, rng, eventually):
    """Call any service ``count`` times in any state; each answers."""
    names = [f"planner/{name}" for name in ("start", "stop", "pause", "resume")]
    names += ["mapper/reset", "mapper/save_map"]
    clients = [stranger.create_client(Trigger, name) for name in names]
    for _ in range(count):
        assert answer(clients[rng.integers(len(clients))], eventually).message
        if not rng.integers(4):
            stranger.talk(rng)


@pytest.mark.soak
def test_odd_pings_and_services_at_any_time(ros, eventually, tmp_path):
    rng = np.random.default_rng(22)
    mapper = ros(MapperNode, parameters={"output": str(tmp_path)})
    planner, stranger = ros(PlannerNode), ros(Stranger)
    eventually(stranger.out["sonar/range"].get_subscription_count)
    sent, lost = odd_pings(mapper, stranger, PINGS, rng, eventually)
    calls(stranger, CALLS, rng, eventually)
    for node in (mapper, planner):
        alive(node, stranger, eventually)
    print(f"{CALLS} calls; {sent} odd pings sent, {lost} lost by DDS")


def all_counted(ledger):
    """Whether every ping is in a count; false while one is being screened."""
    return ledger.received == ledger.accepted + ledger.pending + ledger.rejected.total()


def alive(node, stranger, eventually):
    """The node still says something of itself, or at least spins (the monitor says nothing)."""
    turned = []
    timer = node.create_timer(0.01, lambda: turned.append(True))
    eventually(lambda: turned, what="the node spins no more")
    timer.cancel()
    if node.get_name() != "monitor":
        stranger.heard.forget("/diagnostics")
        eventually(lambda: node.get_name() in stranger.said, what="no diagnostics any more")


@pytest.mark.parametrize("name", KINDS)
def test_odd_messages_are_survived_and_logged_briefly(name, ros, eventually, capfd):
    node, stranger = ros(KINDS[name]), ros(Stranger)
    rng = np.random.default_rng(0)
    heard = "terrain" if name == "monitor" else "goal_pose" if name == "simulator" else "odom"
    eventually(stranger.out[heard].get_subscription_count)
    for _ in range(ROUNDS):
        stranger.talk(rng)
    alive(node, stranger, eventually)
    if name == "mapper":
        ledger = node.session.ledger
        eventually(lambda: ledger.received > 0)
        eventually(lambda: all_counted(ledger))
    log = capfd.readouterr().err.splitlines()
    assert len(log) < 200 and max(map(len, log), default=0) < 1000
    assert not any(line.startswith("[FATAL]") for line in log)


@pytest.mark.parametrize("name", KINDS)
def test_parameters_of_every_wrong_kind_are_refused_or_converted(name, ros, eventually):
    node, stranger = ros(KINDS[name]), ros(Stranger)
    before = {row.name: node.get_parameter(row.name).value for row in NODES[name]}
    client = stranger.create_client(SetParameters, f"{name}/set_parameters")
    for wrong in WRONG_VALUES:
        parameters = [Parameter(row.name, value=wrong) for row in NODES[name]]
        found = answer(client, eventually, parameters=[p.to_parameter_msg() for p in parameters])
        for row, result in zip(NODES[name], found.results, strict=True):
            if result.successful:  # a value that the table allows
                row.convert(wrong)
                before[row.name] = wrong
            else:
                assert result.reason and len(result.reason) < 10_000
                value = node.get_parameter(row.name).value
                assert (
                    list(value) == list(before[row.name])
                    if hasattr(value, "typecode")
                    else value == before[row.name]
                )
    alive(node, stranger, eventually)


def test_services_at_the_wrong_time(ros, eventually):
    mapper, planner, vehicle = ros(MapperNode), ros(PlannerNode), ros(Feeder)
    eventually(vehicle.connected)
    names = ("mapper/reset", "planner/resume", "planner/pause", "planner/pause", "planner/resume")
    clients = {name: vehicle.create_client(Trigger, name) for name in {*names}}
    for step in range(3):
        for name in names:
            assert answer(clients[name], eventually).message
        vehicle.drive(5)
        vehicle.say(("done", "pilot", "nonsense")[step])
    stranger = ros(Stranger)
    alive(mapper, stranger, eventually)
    alive(planner, stranger, eventually)
    eventually(lambda: all_counted(mapper.session.ledger))
