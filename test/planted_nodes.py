"""The planted missions through a real mapper node, which is killed on the way; and in lock-step.

``python test/planted_nodes.py FIRST LAST [FAULT ...]`` prints a line for each seed and fault.
"""

from __future__ import annotations

import contextlib
import operator
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from feeder import Feeder
from kept import SMALL, rows
from planted_missions import FAULTS, Planted
from rclpy.executors import SingleThreadedExecutor

from poam_ros.core.clock import SECOND
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.journal.interface import REINSTATE, WITHDRAW
from poam_ros.journal.reader import read_mission
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.ros.common.messages import write_odometry, write_range

LIMIT = 300.0  # s, for what must happen
Wait = Callable[..., Any]
Fly = Callable[[Planted, Path, int], None]


def mapper_process(folder: Path, env: dict[str, str], **settings: Any) -> subprocess.Popen[bytes]:
    """A mapper node in a process of its own, with this mission folder; its log is beside it."""
    values = {**SMALL, "mission_dir": str(folder), **settings}
    given = [p for name, value in values.items() for p in ("-p", f"{name}:={value}")]
    command = [sys.executable, "-m", "poam_ros.ros.mapper.node", "--ros-args", *given]
    with folder.with_suffix(".log").open("a") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)


class Sender(Feeder):
    """Sends the odometry and pings of a planted mission.

    A batch is sent when the one before it has been screened, as in lock-step.
    """

    def __init__(self, mission: Planted, folder: Path) -> None:
        super().__init__()
        self._mission, self._folder = mission, folder
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
            (x, y), distance = self._mission.xy[self.sent].tolist(), self._mission.ranges[self.sent]
            self.sent += 1
            ns = self.sent * SECOND // 10
            self._odom.publish(write_odometry(VehicleState(ns, (x, y, 0.0))))
            self._range.publish(write_range(RawPing(ns, float(distance), 0.1, 100.0)))
            time.sleep(0.002)

    @property
    def screened(self) -> int:
        """Pings that were screened so far, by the journal."""
        return sum(row[0] for row in rows(self._folder, "SELECT judged FROM screen"))

    @property
    def stored(self) -> int:
        """Pings that are on the disk."""
        return self.screened + rows(self._folder, "SELECT count(*) FROM waiting")[0][0]


def fly(
    mission: Planted, vehicle: Sender, folder: Path, env: dict[str, str], wait: Wait, kill: int
) -> None:
    """Send a whole mission through a mapper, which is killed while it works on batch ``kill`` after
    the pilot survey, and started again."""
    pilot, batch = mission.changed["pilot_samples"], SMALL["batch.size"]
    stops = [*range(pilot, mission.pings, batch), mission.pings]
    mapper = mapper_process(folder, env, **mission.changed)
    try:
        wait(vehicle.reaches, LIMIT, "no discovery")
        for number, stop in enumerate(stops):
            vehicle.send(stop)
            wait(lambda n=stop: vehicle.stored == n, LIMIT, "pings were lost")
            if number == 0:
                vehicle.say("exploring")
            if number == kill:
                time.sleep(random.uniform(0.0, 0.2))
                mapper.send_signal(signal.SIGKILL)
                mapper.wait(LIMIT)
                vehicle.status = {}
                mapper = mapper_process(folder, env, **mission.changed)
                wait(vehicle.reaches, LIMIT, "no discovery")
            if stop < mission.pings:
                wait(lambda n=stop: vehicle.screened == n, LIMIT, "it does not screen")
        vehicle.say("done")
        wait(lambda: vehicle.reports[-1].finished, LIMIT, "no results")
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


def measure(root: Path, seed: int, fault: str, kill: int, fly: Fly) -> str:
    """What became of a mission through the nodes, in words."""
    mission, folder = Planted(root / "lock-step", seed, fault, True).finish(), root / "nodes"
    mission.close()
    fly(mission, folder, kill)
    used, sound = mission.sound[written(folder, mission) * 10 // SECOND - 1], mission.sound
    unlike = [name for name, same in compared(folder, mission).items() if not same]
    return (
        f"SMSE {mission.smse_of(mission.replayed(folder)):.4f}, lock-step {mission.smse:.4f}; "
        f"false in the map {(~used).sum()}/{(~sound).sum()}, true lost "
        f"{sound.sum() - used.sum()}/{sound.sum()}; {len(decisions(folder)[0])} verdicts; "
        + (f"NOT ALIKE: {', '.join(unlike)}" if unlike else "all alike")
    )


def eventually(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """A condition's first true value."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with contextlib.suppress(IndexError, sqlite3.OperationalError):
            if value := condition():
                return value
        time.sleep(0.01)
    raise AssertionError(what)


def main(first: str, last: str, *names: str) -> None:
    rclpy.init()
    for seed in range(int(first), int(last)):
        for fault in names or FAULTS:
            with tempfile.TemporaryDirectory() as root:
                kill = random.Random(f"{seed} {fault}").randrange(1, 20)
                text = measure(Path(root), seed, fault, kill, fly_alone)
                print(f"{seed} {fault:<11}{text}", flush=True)
    rclpy.shutdown()


def fly_alone(mission: Planted, folder: Path, kill: int) -> None:
    vehicle = Sender(mission, folder)
    executor = SingleThreadedExecutor()
    executor.add_node(vehicle)
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        fly(mission, vehicle, folder, dict(os.environ), eventually, kill)
    finally:
        ended.set()
        thread.join()
        vehicle.destroy_node()


if __name__ == "__main__":
    main(*sys.argv[1:])
