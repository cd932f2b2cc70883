"""Mapper and planner with a mission folder on a disk that fills up and comes free again."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray
from disks import mounted
from heard import Listener, answer, status_values
from kept import SMALL, compare, of_log, rows
from std_srvs.srv import Trigger

from poam_ros.app.cli import main
from poam_ros.core.files import read_json
from poam_ros.outputs.folder import read_map
from poam_ros.ros.mapper.node import MapperNode
from poam_ros.ros.planner.node import PlannerNode
from poam_ros.ros.simulator.node import SimulatorNode

pytestmark = [pytest.mark.ros, pytest.mark.soak, pytest.mark.usefixtures("no_figures")]

EVERY = {"use_sim_time": True, "workspace": [-8.0, 8.0, -8.0, 8.0]}
SIMULATOR = {"terrain": "seamounts", "speed": 10.0, "wait_for_mission": True}
MAPPER = {**SMALL, "resolution": 0.5, "batch.size": 20, "pilot_samples": 500}
PLANNER = {
    "planner": "max-entropy", "pilot": "lawnmower", "max_samples": 1500, "autostart": True,
}  # fmt: skip
WATCHDOGS = {f"watchdog.{what}_timeout": 0.0 for what in ("odometry", "sonar", "map", "progress")}


class Crew(Listener):
    def __init__(self) -> None:
        super().__init__("crew")
        self.listen(DiagnosticArray, "/diagnostics", 100)
        self.saving = self.create_client(Trigger, "mapper/save_map")

    def disk(self, name: str) -> str:
        """What a node said last of its disk."""
        told = [status_values(message, name).get("disk") for message in self.heard["/diagnostics"]]
        return ([text for text in told if text] or [""])[-1]


def test_nodes_go_on_while_the_disk_is_full(ros, eventually, tmp_path, capsys):
    with mounted(tmp_path / "disk") as disk:
        folder = disk.path / "m"

        def start(kind, values):
            return ros(kind, parameters=EVERY | values)

        mapper = start(MapperNode, {**MAPPER, "mission_dir": str(folder)})
        planner = start(PlannerNode, {**PLANNER, **WATCHDOGS, "mission_dir": str(folder)})
        crew = ros(Crew)
        start(SimulatorNode, SIMULATOR)

        for _ in range(3):
            samples = mapper.session.samples
            eventually(lambda n=samples: mapper.session.samples > n + 100)
            eventually(lambda: mapper.session.map)
            disk.fill()
            for node in ("mapper", "planner"):
                eventually(lambda name=node: "No space left" in crew.disk(name))
            saved = answer(crew.saving, eventually)
            assert not saved.success and "No space left on device" in saved.message
            assert read_json(folder / "mission.json", "a mission")["status"]["state"] != "waiting"
            samples = mapper.session.samples
            eventually(lambda n=samples: mapper.session.samples > n, what="pings do not count")
            disk.free()
            for node in ("mapper", "planner"):
                eventually(lambda name=node: crew.disk(name) == "ok")
        assert answer(crew.saving, eventually).success
        eventually(lambda: mapper.session.status.finished)
        eventually(
            lambda: read_json(folder / "mission.json", "a mission")["status"]["state"] == "done"
        )
        count = mapper.session.samples
        ros.end(planner, mapper)
        assert len(rows(folder)) == count >= PLANNER["max_samples"]
        assert main(["repair", str(folder)]) == 0
        assert "nothing is damaged" in capsys.readouterr().out
        compare(read_map(folder / "map.npz"), of_log(folder, tmp_path))
        assert not list(disk.path.rglob(".map*")), "temporary files are left"
    print(f"{count} pings, all in the journal")
