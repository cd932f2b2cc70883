"""A mission on a link, and logs of its messages: the same soundings, whatever the sonar does."""

import numpy as np
import pytest
from mavlink_logs import blueos, dataflash, tlog
from toy import Toy, ToyOptions
from voyages import Voyage

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.simulation.simulator import SonarSettings

FAULTS = {
    "none": {}, "late": {"latency": 0.5},
    **{name: {name: 0.2} for name in ("dropout", "outlier", "nan", "inf", "false_echo")},
    "all": dict.fromkeys(("dropout", "outlier", "nan", "inf", "false_echo"), 0.1),
}  # fmt: skip
#: Of two kinds of messages from one sonar, a live link takes the better.
KINDS = ("DISTANCE_SENSOR", "WATER_DEPTH", "RANGEFINDER")


@pytest.fixture
def driven(monkeypatch):
    """`driven(kind, fault)`: places in degrees, depths and stamps of a mission's pings, and the
    messages with the time (ns) at which they came."""
    pytest.importorskip("pymavlink")
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))

    def drive(kind, fault):
        sonar = SonarSettings(noise_std=0.05, **FAULTS[fault])
        values = {"workspace": (-6.0, 6.0, -6.0, 6.0), "max_samples": 60}
        v = Voyage(values, {"sonar": sonar, "ranges": kind, "seed": 4})
        poll, record = v.drive.link.poll, []

        def recorded(now_s):
            messages = poll(now_s)
            record.extend((v.now.ros_ns, message) for message in messages)
            return messages

        v.drive.link.poll = recorded
        v.boat.mode, v.boat.armed = "GUIDED", True
        v.until(lambda: v.state == "waiting" and not v.drive.telemetry.parameters.missing, 60)
        v.command("start")
        v.until(lambda: v.state == "done")
        lived = v.session.all_samples()
        place = np.array([v.drive.telemetry.frame.to_degrees(xy) for xy in lived.xy])
        v.close()
        return place, -lived.z, lived.stamp_ns, record

    return drive


LOGS = {"tlog": tlog, "mcap": blueos, "bin": dataflash}
#: With each fault the boat's own kind of message, and with all of them every kind.
CASES = [*((KINDS[0], fault) for fault in FAULTS), *((kind, "all") for kind in KINDS[1:])]


@pytest.mark.parametrize(("kind", "fault"), CASES)
def test_a_log_gives_the_soundings_of_the_mission(kind, fault, driven, tmp_path):
    place, depth, stamps, record = driven(kind, fault)
    assert len(depth) == 60
    for ending, write in LOGS.items():
        if ending == "bin" and kind == "RANGEFINDER":
            continue
        path = tmp_path / f"log.{ending}"
        write(path, record)
        # It is deeper than long: no survey, but a mission.
        found = read_soundings(path, ReadOptions(trusted=True))
        # Before the start and after the end the mission takes no pings; the log does.
        first = int(np.abs(found.stamp_ns - stamps[0]).argmin())
        found = found[np.arange(first, first + len(stamps))]
        np.testing.assert_allclose(-found.z, depth, atol=1e-3, err_msg=ending)
        there = found.projection.local_metres(*place.T)
        np.testing.assert_allclose(found.xy, there, atol=0.02, err_msg=ending)
        np.testing.assert_allclose(found.stamp_ns, stamps, atol=2e6, rtol=0, err_msg=ending)
