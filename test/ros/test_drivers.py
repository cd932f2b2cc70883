"""What real drivers publish, played into a mapper: taken as it is meant, or refused by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray
from driver_messages import write_odometry, write_range
from heard import Listener, answer, status_values
from nav_msgs.msg import Odometry
from sensor_msgs.msg import BatteryState, Range
from std_msgs.msg import Float32, Float64
from std_srvs.srv import Trigger

from poam_ros.core.clock import SECOND
from poam_ros.core.errors import InputError
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.pings import RawPing
from poam_ros.ros import parameters
from poam_ros.ros.inputs import message_type
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.messages import header
from poam_ros.ros.node import LATCHED, SENSOR_PUBLISH
from poam_ros.ros.planner import PlannerNode

pytestmark = pytest.mark.ros

Z, BED = -2.0, -20.0  # of the vehicle and the bottom; the water is at 0
VALUES = {
    "method": "poam", "sparse.num_inducing": 20, "resolution": 10.0, "screening.enabled": False,
    "pilot_samples": 100_000, "odometry.wait": 1.0, "workspace": [-60.0, 60.0, -60.0, 60.0],
}  # fmt: skip


@dataclass
class Driver:
    """A vehicle's drivers, and what comes of their messages.

    Attributes:
        refused: the reason that refuses pings; empty: they are in the map, with the bed's depth.
        parameters: of the mapper, besides the defaults.
        state: what odometry says, from the truth; None: nothing.
        ping: the range's message, from stamp and true range, and its type.
        says: a part of the diagnostics' text.
        level: of the water, latched before the mapper starts.
    """

    name: str
    refused: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    state: Callable[[VehicleState], VehicleState] = lambda state: state
    ping: Callable[[int, float], Any] = lambda ns, far: write_range(RawPing(ns, far, 0.3, 99.0))
    kind: type = Range
    says: str = ""
    level: float | None = None
    elevation: float = BED

    @property
    def of_planner(self) -> dict[str, Any]:
        """Those of its parameters that the planner has as well."""
        names = {row.name for row in parameters.PLANNER}
        return {name: value for name, value in self.parameters.items() if name in names}


def at_height(z):
    return lambda s: replace(s, position=(*s.position[:2], z))


def north_east_down(s):
    x, y, z = s.position
    yaw = math.pi / 2 - s.yaw
    return replace(s, position=(y, x, -z), quaternion=(0, 0, math.sin(yaw / 2), math.cos(yaw / 2)))


def mirrored(s):
    """The position north, east; the heading from east."""
    return replace(s, position=(s.position[1], s.position[0], s.position[2]))


def upside_down(s):
    return replace(s, quaternion=(1.0, 0.0, 0.0, 0.0))


def with_variance(v):
    return lambda s: replace(s, variance=(v, v, v))


def stepping(variance):
    """Each half second a correction of 6 m."""

    def state(s):
        x, y, z = s.position
        shift = 6.0 * (s.stamp_ns // (SECOND // 2) % 2)
        return replace(s, position=(x + shift, y, z), variance=(variance, variance, 0.0))

    return state


def limits(low, high):
    return lambda ns, far: write_range(RawPing(ns, far, low, high))


def installed(kind):
    """A type of a package that no wheel brings; None where it is not installed."""
    try:
        return message_type(kind)
    except InputError:
        return None


Dvl, Altitude, SonarRanges = map(installed, (
    "marine_acoustic_msgs/msg/Dvl", "mavros_msgs/msg/Altitude",
    "marine_acoustic_msgs/msg/SonarRanges",
))  # fmt: skip


def a_dvl(lock):
    """With the bottom's velocity, and the altitude that comes with it, or without."""

    def ping(ns, far):
        valid = {"beam_velocities_valid": lock, "beam_ranges_valid": lock}
        mode = Dvl.DVL_MODE_BOTTOM if lock else Dvl.DVL_MODE_WATER
        return Dvl(header=header(ns, "dvl_link"), altitude=far, velocity_mode=mode, **valid)

    return ping


def own_field(kind, name, **more):
    """Parameters for a field of a type."""
    return {"range_type": kind, "range_field": name, **more}


REAL_DVL = own_field(
    "marine_acoustic_msgs/msg/Dvl", "altitude", range_valid_field="beam_velocities_valid"
)


CONFIDENCE = {
    "range_type": "sensor_msgs/msg/BatteryState", "range_field": "charge", "range_scale": 0.001,
    "range_valid_field": "percentage", "range_valid_min": 50.0,
}  # fmt: skip


def echo_sounder(percent):
    """In millimetres, with a confidence in per cent."""

    def ping(ns, far):
        return BatteryState(header=header(ns, "ping"), charge=1000.0 * far, percentage=percent)

    return ping


PLANNER = {"workspace": VALUES["workspace"], "mavros": ""}
DRIVERS = (
    Driver("as documented"),
    Driver("no limits", ping=limits(0.0, 0.0)),
    Driver("limits that are no numbers", ping=limits(math.nan, math.nan)),
    Driver("no limits, but parameters", "out_of_range", {"sonar.max_range": 10.0},
        ping=limits(0.0, 0.0)),
    Driver("no stamps", state=lambda s: replace(s, stamp_ns=0),
        ping=lambda ns, far: write_range(RawPing(0, far, 0.3, 99.0))),
    Driver("the sonar has another clock", "other_clock",
        ping=lambda ns, far: write_range(RawPing(ns + 37 * SECOND, far, 0.3, 99.0)),
        says="+37.0 s apart"),
    Driver("z points down", "above_water", state=at_height(-Z), says="odometry.vertical"),
    Driver("north, east, down", "above_water", state=north_east_down),
    Driver("a course mirrored against the heading", "mirrored", state=mirrored),
    Driver("a beam that points up", "beam_up", state=upside_down, says="sonar.tilt"),
    Driver("an altitude above a geoid", "above_water", state=at_height(431.0)),
    Driver("the same on a vehicle that floats", "", {"odometry.surface": True},
        state=at_height(431.0), elevation=BED - Z),
    Driver("heights above a datum", "", {"odometry.vertical": "datum", "water.level": 400.0},
        state=at_height(398.0), elevation=380.0),
    Driver("frame odom alone", "wrong_frame", state=lambda s: replace(s, frame_id="odom"),
        says="frame_id"),
    Driver("the same with frame_id", "", {"frame_id": "odom"},
        state=lambda s: replace(s, frame_id="odom")),
    Driver("a body's frame", "body_frame", state=lambda s: replace(s, frame_id="base_link")),
    Driver("covariance 0", state=with_variance(0.0)),
    Driver("covariance -1", state=with_variance(-1.0)),
    Driver("a level that was latched before", "", {"water.await_level": True}, level=3.5,
        elevation=BED + 3.5),
    Driver("a number", "", {"range_type": "std_msgs/msg/Float32", "range_field": "data"},
        ping=lambda ns, far: Float32(data=far), kind=Float32,
        state=lambda s: replace(s, stamp_ns=0)),
    Driver("a sonar that is sure", "", CONFIDENCE, ping=echo_sounder(51.0), kind=BatteryState),
    Driver("a sonar below 50 %", "nan", CONFIDENCE, ping=echo_sounder(49.0), kind=BatteryState),
    Driver("a Dvl with bottom lock", "", REAL_DVL, ping=a_dvl(True), kind=Dvl),
    Driver("a Dvl without bottom lock", "nan", REAL_DVL, ping=a_dvl(False), kind=Dvl),
    Driver("the second beam of a Dvl", "", own_field("marine_acoustic_msgs/msg/Dvl", "range[1]"),
        ping=lambda ns, far: Dvl(header=header(ns, "dvl"), range=[0.0, far, 0.0, 0.0]), kind=Dvl),
    Driver("a profiling sonar's nadir", "",
        own_field("marine_acoustic_msgs/msg/SonarRanges", "ranges[2]"),
        ping=lambda ns, far: SonarRanges(header=header(ns, "mbes"), ranges=[9.0, 9.0, far]),
        kind=SonarRanges),
    Driver("mavros/altitude", "", own_field("mavros_msgs/msg/Altitude", "bottom_clearance"),
        ping=lambda ns, far: Altitude(header=header(ns, "map"), bottom_clearance=far),
        kind=Altitude),
    Driver("mavros/altitude without a rangefinder", "nan",
        own_field("mavros_msgs/msg/Altitude", "bottom_clearance"),
        ping=lambda ns, far: Altitude(header=header(ns, "map"), bottom_clearance=math.nan),
        kind=Altitude),
    Driver("rel_alt", "", own_field("std_msgs/msg/Float64", "data"),
        ping=lambda ns, far: Float64(data=far), kind=Float64,
        state=lambda s: replace(s, stamp_ns=0)),
    Driver("corrections that their covariance explains", state=stepping(4.0)),
)  # fmt: skip


class Vehicle(Listener):
    """Drives a curve, and plays a driver's messages in real time."""

    def __init__(self, driver: Driver) -> None:
        super().__init__("driver")
        self.driver = driver
        self.odometry = self.create_publisher(Odometry, "odom", SENSOR_PUBLISH)
        self.ranges = self.create_publisher(driver.kind, "sonar/range", SENSOR_PUBLISH)
        self.listen(DiagnosticArray, "/diagnostics", 10, self._text)
        if driver.level is not None:
            self.levels = self.create_publisher(Float64, "water_level", LATCHED)
            self.levels.publish(Float64(data=driver.level))
        self.begun_ns = self.get_clock().now().nanoseconds

    @staticmethod
    def _text(message):
        return message.status[0].message if status_values(message, "mapper") else None

    @property
    def texts(self):
        return [text for text in self.heard["/diagnostics"] if text]

    def play(self) -> None:
        """A ping between two states, however long ago the last ones were: a busy machine delays."""
        now = self.get_clock().now().nanoseconds
        before, measured = now - SECOND // 25, now - SECOND // 100
        self.odometry.publish(write_odometry(self.driver.state(self._state(before))))
        self.odometry.publish(write_odometry(self.driver.state(self._state(now))))
        self.ranges.publish(self.driver.ping(measured, Z - BED))

    def _state(self, stamp_ns: int) -> VehicleState:
        """On a circle of 12 m at 12 m/s, heading along it, by the stamp alone."""
        turn = (stamp_ns - self.begun_ns) / SECOND
        place, yaw = (12 * math.cos(turn), 12 * math.sin(turn), Z), turn + math.pi / 2
        attitude = 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)
        return VehicleState(stamp_ns, place, attitude, speed=12.0)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_what_a_driver_publishes_is_taken_as_meant_or_refused_by_name(ros, eventually, driver):
    if driver.kind is None:
        pytest.skip(f"{driver.parameters['range_type']} is not installed")
    vehicle = ros(lambda: Vehicle(driver))
    mapper = ros(MapperNode, parameters=VALUES | driver.parameters)
    ledger = mapper.session.front_end.ledger

    def enough():
        vehicle.play()
        time.sleep(0.05)
        if driver.refused:
            said = [text for text in vehicle.texts if f"refused as {driver.refused}" in text]
            every = any(driver.says in text and text.startswith("100%") for text in said)
            return ledger.rejected[driver.refused] >= 20 and every
        return ledger.accepted >= 20

    eventually(enough, what=driver.name)
    planner = ros(PlannerNode, parameters=PLANNER | driver.of_planner)
    start = vehicle.create_client(Trigger, "planner/start")

    def asked():
        vehicle.play()
        return start.service_is_ready() and planner.guidance.fault is not None

    eventually(asked)
    said = answer(start, eventually)
    assert said.success == (not driver.refused) and driver.refused in said.message
    if driver.refused:
        return
    samples = mapper.session.all_samples()
    assert samples.z[5:] == pytest.approx(driver.elevation, abs=0.01)
    rejected = ledger.rejected.total() - ledger.rejected["waiting"]
    assert rejected <= 3 and not ledger.odometry_rejected["jump"]


def test_corrections_without_a_covariance_are_still_refused(ros, eventually):
    vehicle = ros(lambda: Vehicle(Driver("steps", state=stepping(0.0))))
    mapper = ros(MapperNode, parameters=VALUES)
    ledger = mapper.session.front_end.ledger

    def refused():
        vehicle.play()
        time.sleep(0.05)
        return ledger.odometry_rejected["jump"] >= 3

    eventually(refused)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"range_type": "nobody_msgs/msg/Depth"}, "expected an installed message type"),
        ({"range_type": "std_msgs/msg/Float32"}, "range_field: expected the field"),
        (CONFIDENCE | {"range_field": "volts"}, "has no field 'volts', only header, voltage"),
    ],
)
def test_a_wrong_type_or_field_is_named(ros, parameters, words):
    with pytest.raises(InputError, match=words):
        ros(MapperNode, parameters=VALUES | parameters)
