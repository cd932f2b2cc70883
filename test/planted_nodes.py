"""The planted missions through a real mapper node, which is killed on the way. Each batch waits
until the one before it is learned, so that they are those of lock-step."""

from __future__ import annotations

import operator
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from driver_messages import write_odometry, write_range
from feeder import Feeder
from kept import SMALL, rows
from launched import node_command
from planted_missions import Planted
from std_msgs.msg import UInt64

from poam_ros.core.clock import SECOND
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.journal.folder import read_mission
from poam_ros.journal.tables import REINSTATE, WITHDRAW
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.ros.node import LATCHED

LIMIT = 300.0  # s, for what must happen


def mapper_process(folder: Path, env: dict[str, str], **settings: Any) -> subprocess.Popen[bytes]:
    """A mapper node in a process of its own, with this mission folder; its log is beside it."""
    values = {**SMALL, "mission_dir": str(folder), **settings}
    with folder.with_suffix(".log").open("a") as log:
        return subprocess.Popen(node_command("mapper", values), env=env, stdout=log, stderr=log)


class Sender(Feeder):
    """Sends the odometry and pings of a planted mission."""

    def __init__(self, mission: Planted, folder: Path) -> None:
        super().__init__()
        self.listen(UInt64, "map/samples", LATCHED)
        self.mission, self._folder = mission, folder
        self._greeted: int | None = None

    def reaches(self) -> bool:
        """Whether odometry and pings arrive, by the counts of two without a value."""
        nothing = VehicleState(self.sent * SECOND // 10, (np.nan, 0.0, 0.0))
        self._odom.publish(write_odometry(nothing))
        self._range.publish(write_range(RawPing(nothing.stamp_ns, np.nan, 0.1, 100.0)))
        if self.status:
            pings = int(self.status.get("rejected nan", 0))
            self._greeted = pings if self._greeted is None else self._greeted
            return pings > self._greeted and "odometry rejected not_finite" in self.status
        self._greeted = None
        return False

    def send(self, until: int) -> None:
        """The pings up to this one."""
        while self.sent < until:
            (x, y), distance = self.mission.xy[self.sent].tolist(), self.mission.ranges[self.sent]
            self.sent += 1
            ns = self.sent * SECOND // 10
            self._odom.publish(write_odometry(VehicleState(ns, (x, y, 0.0))))
            self._range.publish(write_range(RawPing(ns, float(distance), 0.1, 100.0)))
            time.sleep(0.002)

    @property
    def judged(self) -> int:
        """Pings that were in batches so far, by the journal."""
        query = "SELECT COALESCE(MAX(last), -1) FROM updates WHERE kind IN ('update', 'drop')"
        return rows(self._folder, query)[0][0] + 1

    @property
    def counted(self) -> int:
        """Pings that count, by the mapper."""
        counts = self.heard["map/samples"]
        return counts[-1].data if counts else 0

    @property
    def stored(self) -> int:
        """Pings that are on the disk."""
        return rows(self._folder, "SELECT count(*) FROM pings")[0][0]


def fly(
    vehicle: Sender, folder: Path, env: dict[str, str], wait: Callable[..., Any], kill: int
) -> None:
    """Send a whole mission through a mapper, which is killed while it works on batch ``kill`` after
    the pilot survey, and started again.

    Args:
        vehicle: of the mission.
        folder: of the mapper.
        env: of its process.
        wait: for a condition, else it fails with a text ``what``.
        kill: see above.
    """
    changed, pings = vehicle.mission.changed, vehicle.mission.pings
    stops = [*range(changed["pilot_samples"], pings, SMALL["batch.size"]), pings]
    mapper = mapper_process(folder, env, **changed)
    try:
        wait(vehicle.reaches, what="no discovery")
        for number, stop in enumerate(stops):
            vehicle.send(stop)
            wait(lambda n=stop: vehicle.stored == n, what="pings were lost")
            if number == 0:  # the first batch takes the pings that the mapper knows to be stored
                wait(lambda n=stop: vehicle.counted == n, what="pings do not count")
                vehicle.say("exploring")
            if number == kill:
                time.sleep(random.uniform(0.0, 0.2))
                mapper.send_signal(signal.SIGKILL)
                mapper.wait(LIMIT)
                vehicle.status = {}
                mapper = mapper_process(folder, env, **changed)
                wait(vehicle.reaches, what="no discovery")
            if stop < pings:
                wait(lambda n=stop: vehicle.judged == n, what="it does not learn")
        vehicle.say("done")
        wait(lambda: vehicle.reports[-1].finished, what="no results")
        mapper.send_signal(signal.SIGINT)
        assert mapper.wait(LIMIT) == 0
    finally:
        if mapper.poll() is None:
            mapper.kill()
            mapper.wait()


def decisions(folder: Path) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int, int]]]:
    """Which pings were withdrawn and reinstated, and all batches, by a mission's journal."""
    steps, changes = read_mission(folder).logged.steps, (WITHDRAW, REINSTATE)
    return (
        [(s.kind, s.first, s.last) for s in steps if s.kind in changes],
        [(s.kind, s.first, s.last, s.steps) for s in steps if s.kind not in changes],
    )


def written(folder: Path, mission: Planted) -> np.ndarray:
    """Stamps of the pings in the map that the mapper wrote, in order."""
    table = read_table(folder / "samples.csv")
    stamps = {place: i for i, place in enumerate(map(tuple, np.round(mission.xy, 3).tolist()), 1)}
    places = zip(table["x"].tolist(), table["y"].tolist(), strict=True)
    return np.sort([stamps[place] for place in places]) * SECOND // 10


def compared(folder: Path, mission: Planted) -> dict[str, bool]:
    """What is alike in a mission through the nodes, in its replay, and in the same in lock-step."""
    mapped, replayed = written(folder, mission), mission.replayed(folder)
    found = read_map(folder / "map.npz")
    verdicts, batches = map(operator.eq, decisions(folder), decisions(mission.folder))
    return {
        "pings of the replay": np.array_equal(np.sort(replayed.data.stamp_ns), mapped),
        "map of the replay": np.abs(replayed.map(found.grid).mean - found.mean).max() <= 1e-6,
        "verdicts": verdicts,
        "batches": batches,
        "pings": np.array_equal(mapped, mission.mapped),
    }
