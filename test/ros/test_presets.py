"""The presets against messages as their drivers make them: what is accepted and refused, exactly.

The messages follow the drivers' sources: MAVROS' plugins rangefinder, distance_sensor and
local_position (branch ros2), ping_sonar_ros, and waterlinked_dvl_driver with marine_acoustic_msgs.
"""

import math
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")

from nav_msgs.msg import Odometry
from sensor_msgs.msg import Range
from std_msgs.msg import Header

from poam_ros.app.command import Parser
from poam_ros.app.commands import drive
from poam_ros.app.graph import in_files
from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.geometry import Extent
from poam_ros.core.samples import Samples
from poam_ros.core.settings import instance, rows
from poam_ros.frontend.front_end import FrontEnd
from poam_ros.frontend.odometry import read_odometry
from poam_ros.frontend.pings import FrontEndSettings, read_range
from poam_ros.mavlink.link import LinkSettings
from poam_ros.ros.inputs import FrameTransformer, RangeReader
from poam_ros.ros.messages import ns_to_stamp
from poam_ros.ros.parameters import MAPPER, PLANNER, RangeSettings

ROOT = Path(__file__).resolve().parents[2]
PRESETS = sorted((ROOT / "config" / "presets").glob("*.yaml"))
SPEED = 1.5  # m/s, along x


def values_of(presets, node="mapper"):
    """The values of a node in presets, separated by commas, where later ones override others."""
    names = ",".join(f"{name}.yaml" for name in presets.split(","))
    return in_files(names, node)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_are_parameters_with_a_documented_use(path):
    text = path.read_text(encoding="utf-8")
    tables = {"/**": (*MAPPER, *PLANNER), "/**/drive": rows(LinkSettings)}
    for section, content in yaml.safe_load(text).items():
        table = {row.name: row for row in tables[section]}
        for name, value in content["ros__parameters"].items():
            plain = tuple(value) if isinstance(value, list) else value
            assert table[name].convert(value) == plain != table[name].default
            assert type(value) in (type(table[name].default), list)
    assert path.name in re.findall(r"params_file:='(.*?)'", text)[0].split(",")
    assert text.startswith("# ") and path.name in (ROOT / "docs" / "sensors.md").read_text()


@pytest.mark.parametrize("sonar", ["ping1d", "ping2"])
@pytest.mark.parametrize(("vehicle", "floats"), [("blueboat", True), ("bluerov2", False)])
def test_a_whole_vehicle_of_three_files(vehicle, floats, sonar):
    """A boat's z is the water; a vehicle that dives has its own. `poam drive` takes all three."""
    files = f"ardupilot,{sonar},{vehicle}"
    mapper, planner = values_of(files), values_of(files, "planner")
    assert mapper.get("odometry.surface", False) is floats
    assert mapper["sonar.max_range"] == {"ping1d": 47.5, "ping2": 95.0}[sonar]
    assert mapper["sonar.repeat_window"] == 0.4 and mapper["sonar.offset"][2] < 0
    radii = {"blueboat": (1.5, 2.0, 4.0), "bluerov2": (0.5, 1.0, 2.0)}[vehicle]
    assert tuple(planner[n] for n in ("max_speed", "goal_radius", "capture_radius")) == radii
    parser = Parser(prog="poam drive")
    drive.add_arguments(parser)
    listed = ",".join(f"{name}.yaml" for name in files.split(","))
    words = ["--params-file", listed, "--workspace", "0", "9", "0", "9"]
    found = drive.settings(parser.parse_args(words))
    assert found["mavlink.surface"] is floats
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}
    assert plain.items() >= (mapper | planner).items()


def mavros_odometry(t):
    """local_position without LOCAL_POSITION_NED_COV: in ENU, and every covariance 0."""
    message = Odometry(header=Header(stamp=ns_to_stamp(round(t * SECOND)), frame_id="map"))
    message.child_frame_id = "base_link"
    message.pose.pose.position.x = SPEED * t
    message.pose.pose.orientation.w = 1.0
    return message


RANGES = {row.name: row.default for row in rows(RangeSettings)}


def survey(preset, ranges, odometry=mavros_odometry, read=read_range, **more):
    """Drive along x for 40 s while a driver's messages come; the front_end, and the samples."""
    settings = instance(
        FrontEndSettings, {**values_of(preset), **more}, workspace=Extent(0, 300, -100, 100)
    )
    front_end, frames = FrontEnd(settings), FrameTransformer("node", "map")
    refused = 0
    for i in range(401):
        state = frames.into_map(read_odometry(odometry(100 + i / 10)))
        refused += state is None
        if state is not None:
            front_end.odometry(state, Moment(0, 0.0))
    samples = []
    for message in ranges:
        front_end.ping(read(message), Moment(0, 0.0))
        samples.append(front_end.take(Moment(0, 0.0)))
    ledger = front_end.ledger
    assert ledger.received == len(ranges) == ledger.accepted + sum(ledger.rejected.values())
    return front_end, Samples.joined(samples), refused


def reading(i):
    """What the sonar measures for the i-th time, in m; in whole centimetres, and never twice."""
    return 20 + i / 100


def ranging(t, distance, frame, field_of_view, low, high):
    return Range(
        header=Header(stamp=ns_to_stamp(round(t * SECOND)), frame_id=frame),
        field_of_view=field_of_view, min_range=low, max_range=high, range=distance,
    )  # fmt: skip


def rangefinder(t, distance):
    """MAVROS' plugin rangefinder: constants, a leading slash, and the time of receipt."""
    return ranging(t, distance, "/rangefinder", 0.0, 0.0, 1000.0)


def test_mavros_rangefinder():
    """Streamed at 10 Hz, measured at 5: each reading comes twice. No echo is a number."""
    values = [reading(i // 2) for i in range(100)]
    values[10:14] = [0.0] * 4
    values[20:24] = [100.0] * 4  # beyond the sonar's reach
    values[30:36] = [655.35] * 6
    values[40:44] = [values[39]] * 4  # the last reading again
    messages = [rangefinder(101 + i / 10, value) for i, value in enumerate(values)]
    front_end, samples, _ = survey("ardupilot,ping2", messages, **{"sonar.time_offset": -0.1})
    # 86 of 100 are within limits, of 41 readings; one of them
    # stands for longer than the window, and is believed once more.
    assert front_end.ledger.rejected == {"too_close": 4, "out_of_range": 10, "repeat": 86 - 42}
    assert front_end.ledger.accepted == 42 and np.isnan(samples.noise_std).all()
    # Measured a tenth of a second before the autopilot's word came.
    assert samples.xy[0, 0] == pytest.approx(SPEED * 100.9) and samples.z[0] == pytest.approx(-20)


def distance_sensor(t, centimetres):
    """MAVROS' plugin distance_sensor: whole centimetres, the autopilot's limits and clock."""
    return ranging(t, centimetres * 1e-2, "sonar", 0.4, 0.3, 100.0)


def test_mavros_distance_sensor():
    values = [2000 + i for i in range(60)]
    values[5:8] = [0] * 3
    values[10:15] = [10_000] * 5  # nothing heard: the upper limit, which is within the limits
    values[20:22] = [10_001] * 2
    values[30:33] = [values[29]] * 3  # nothing new
    messages = [distance_sensor(101 + i / 5, value) for i, value in enumerate(values)]
    front_end, samples, _ = survey("ardupilot,ping2", messages)
    # The same for 0.6 s: the third of the four is two periods old, and believed once.
    assert front_end.ledger.rejected == {"too_close": 3, "out_of_range": 7, "repeat": 2}
    assert front_end.ledger.accepted == 48
    np.testing.assert_allclose(samples.xy[0, 0], SPEED * 101)


def ping1d(t, millimetres):
    """ping_sonar_ros: the scan's length as max_range, and the time of the answer as stamp."""
    return ranging(t, millimetres / 1000, "range_link", 0.1, 0.3, 30.0)


def test_ping1d():
    """Polled at 10 Hz, measured every 0.3 s; the scan is shorter than what it found."""
    values = [20_000 + 7 * (i // 3) for i in range(90)]
    values[30:33] = [30_200] * 3  # within 300 + 30,000 mm, and beyond the max_range that is sent
    values[60:63] = [0] * 3
    messages = [ping1d(101 + i / 10, value) for i, value in enumerate(values)]
    front_end, samples, _ = survey(
        "ping-sonar-ros,ping2", messages, **{"water.sound_speed": 1479.0}
    )
    assert (
        front_end.ledger.rejected == {"too_close": 3, "repeat": 58}
        and front_end.ledger.accepted == 29
    )
    np.testing.assert_allclose(samples.z[0], -20 * 1479 / 1450, rtol=1e-6)
    assert samples.z.min() == pytest.approx(-30.2 * 1479 / 1450, rel=1e-6)
    np.testing.assert_allclose(samples.range[0], 20)  # as it was reported
    assert samples.xy[0, 0] == pytest.approx(SPEED * 100.9)
    # Its footprint where it is asked for: 25 degrees, not the driver's 0.1 rad.
    _, samples, _ = survey(
        "ping-sonar-ros,ping2",
        messages,
        **{"noise.enabled": True, "noise.slope": 0.1, "water.sound_speed": 1450.0},
    )
    assert samples.noise_std[0] == pytest.approx(0.1 * 20 * math.tan(math.radians(12.5)), rel=2e-3)


class Dvl(SimpleNamespace):
    """A marine_acoustic_msgs/Dvl with what is read of it: no registry has the type."""

    @classmethod
    def get_fields_and_field_types(cls):
        return dict.fromkeys(("header", "altitude", "beam_ranges_valid", "beam_velocities_valid"))


def dvl(t, altitude, valid):
    header = Header(stamp=ns_to_stamp(round(t * SECOND)), frame_id="dvl_link")
    return Dvl(
        header=header, altitude=altitude, beam_ranges_valid=True, beam_velocities_valid=valid
    )


def lock(i):
    """Whether the DVL sees the bottom."""
    return i % 10 < 7


def test_waterlinked_dvl(monkeypatch):
    """Seven of ten have a lock on the bottom; the others carry -1 or the last altitude."""
    module = ModuleType("marine_acoustic_msgs.msg")
    module.Dvl = Dvl
    monkeypatch.setitem(sys.modules, "marine_acoustic_msgs", ModuleType("marine_acoustic_msgs"))
    monkeypatch.setitem(sys.modules, "marine_acoustic_msgs.msg", module)
    settings = instance(RangeSettings, RANGES | values_of("waterlinked-dvl"))
    read = RangeReader(settings).read
    messages = [
        dvl(101 + i / 5, 12.0 + i / 100 if lock(i) else (-1.0, 12.3)[i % 2], lock(i))
        for i in range(100)
    ]
    speed = {"water.sound_speed": 1481.0}
    front_end, samples, _ = survey("waterlinked-dvl", messages, read=read, **speed)
    assert front_end.ledger.rejected == {"nan": 30} and front_end.ledger.accepted == 70
    assert samples.z[0] == pytest.approx(-12.0)
