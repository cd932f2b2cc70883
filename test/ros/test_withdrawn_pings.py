"""The mapper node withdraws a line of double echoes when another line crosses it, and says so."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import Surveyor
from heard import read_refused
from kept import SMALL, Crossed
from sensor_msgs.msg import PointCloud2

from poam_ros.core.clock import SECOND
from poam_ros.journal.interface import REINSTATE, WITHDRAW, JournalStep
from poam_ros.outputs.folder import read_table
from poam_ros.outputs.results import read_unmapped
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.node import LATCHED

pytestmark = pytest.mark.ros


def test_a_line_of_double_echoes_is_withdrawn_from_the_map_and_reported(ros, eventually, tmp_path):
    values = {**SMALL, "screening.enabled": True, "mission_dir": str(tmp_path / "m")}
    mapper = ros(MapperNode, parameters=values)
    vehicle = ros(Surveyor)
    eventually(vehicle.connected, what="no discovery")
    vehicle.say("pilot")
    vehicle.drive(int(np.flatnonzero(Crossed.LINES == 3)[0]))
    vehicle.say("exploring")
    eventually(lambda: vehicle.mapped, what="no map of the pilot survey")
    vehicle.drive(len(Crossed.PLACES) - vehicle.sent)
    vehicle.say("done")
    eventually(lambda: vehicle.reports[-1].finished, what="no results")
    withdrawn, false = mapper.session.withdrawn, int((Crossed.LINES == Crossed.FALSE).sum())
    assert 0.9 * false < len(withdrawn) <= false  # the transport may lose pings
    at = (withdrawn.stamp_ns * 10 // SECOND).astype(int)
    assert set(Crossed.LINES[at]) == {Crossed.FALSE}
    eventually(lambda: vehicle.status.get("withdrawn") == str(len(withdrawn)))
    vehicle.listen(PointCloud2, "pings/refused", LATCHED, read_refused)  # as poam view

    def marked():
        heard = vehicle.heard["pings/refused"]
        return heard and (heard[-1].reason == "withdrawn").sum()

    eventually(lambda: marked() == len(withdrawn))
    reinstated = JournalStep(REINSTATE, *withdrawn.number[[0, 9]].tolist())
    mapper.session._updater.change([(reinstated, withdrawn[:10])])
    eventually(lambda: marked() == len(withdrawn) - 10)
    mapper.session._updater.change([(replace(reinstated, kind=WITHDRAW, steps=2), withdrawn[:10])])
    accepted = mapper.session.ledger.accepted
    assert vehicle.mapped == accepted - len(withdrawn)
    assert len(read_table(tmp_path / "m" / "samples.csv")["x"]) == vehicle.mapped
    assert read_unmapped(tmp_path / "m").refused.counts["withdrawn"] == len(withdrawn)
    line = f"double echoes, {len(withdrawn)} pings withdrawn"
    eventually(lambda: vehicle.status.get("withdrawn line 1", "").endswith(line))
    said = vehicle.status["withdrawn line 1"]
    ros.end(mapper)
    vehicle.status = {}
    ros(MapperNode, parameters=values)
    eventually(lambda: vehicle.status.get("withdrawn line 1") == said, what="not after a restart")
    assert "withdrawn line 2" not in vehicle.status
