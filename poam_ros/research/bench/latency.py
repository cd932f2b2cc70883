"""Latencies of messages: a simulated vehicle publishes to a real mapper and planner.

``poam profile --nodes`` runs it: three processes in real time, with the nodes as on a vehicle,
except that the mapper records when its odometry callback is called. To start with many pings, the
mapper recovers a mission folder that holds them. Run as a module, this file is that mapper.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2, Range

from ...core.errors import PoamError
from ...core.samples import Samples
from ...frontend.events import MapDrawn
from ...frontend.front_end import RawPing
from ...frontend.odometry import VehicleState
from ...journal.folder import MissionFolder, identity
from ...journal.interface import UPDATE, JournalStep
from ...planning.pilots import start_pose
from ...ros.common import messages, qos
from ...ros.common.executor import run_node
from ...ros.common.parameters import MAPPER
from ...ros.common.transport import avoid_shared_memory
from ...ros.mapper.node import SWITCH_INTERVAL_S, MapperNode
from ...simulation.world.terrain import WORKSPACE, load_terrain

ODOMETRY_HZ, PINGS_EVERY = 100, 10  # a ping with every tenth odometry
SPEED = 10.0  # m/s: the pilot survey takes nine seconds
GOAL_RADIUS = 0.1  # m, the planner's default
MAP_TIMEOUT_S = 120.0  # s for the first map
FILLING = 1000  # initial pings in a batch
FILLING_STEPS = 10  # training steps with each of these batches
TIMEOUT_PER_PING_S = 0.02  # s more for each initial ping


class Vehicle(Node):
    """Drives straight to the latest goal, publishes odometry and pings, records maps and goals."""

    def __init__(self) -> None:
        super().__init__("vehicle")
        self._odometry = self.create_publisher(Odometry, "odom", qos.SENSOR_PUBLISH)
        self._range = self.create_publisher(Range, "sonar/range", qos.SENSOR_PUBLISH)
        self.create_subscription(PoseStamped, "goal_pose", self._on_goal, qos.GOAL)
        self.create_subscription(PointCloud2, "map/points", self._on_map, qos.LATCHED)
        self._terrain = load_terrain("seamounts")
        self._rng = np.random.default_rng(0)
        self._position = np.array(start_pose(WORKSPACE)[:2])
        self._goal: np.ndarray | None = None
        self._reached_ns: int | None = None
        self._ticks = 0
        self.pings: list[int] = []
        self.maps: list[float] = []
        self.goals: list[float] = []

    def tick(self) -> None:
        """One step of the vehicle, with its messages."""
        now = time.time_ns()
        if self._goal is not None:
            aim = self._goal - self._position
            distance, step = float(np.hypot(*aim)), SPEED / ODOMETRY_HZ
            self._position += aim * min(1.0, step / max(distance, 1e-9))
            left = float(np.hypot(*(self._goal - self._position)))
            if left <= GOAL_RADIUS and self._reached_ns is None:
                self._reached_ns = now
        place = (float(self._position[0]), float(self._position[1]), 300.0)
        state = VehicleState(now, place, frame_id="map")
        self._odometry.publish(messages.write_odometry(state))
        self._ticks += 1
        if self._ticks % PINGS_EVERY == 0:
            ground = float(self._terrain.elevation_at(self._position[None])[0])
            depth = place[2] - ground + self._rng.normal()
            self._range.publish(messages.write_range(RawPing(now, depth, 0.1, 1000.0)))
            self.pings.append(now)

    def _on_goal(self, message: PoseStamped) -> None:
        goal = messages.read_pose(message)[:2]
        if self._goal is not None and np.array_equal(goal, self._goal):
            return  # repeated
        if self._reached_ns is not None and self.maps:
            self.goals.append((time.time_ns() - self._reached_ns) * 1e-9)
        self._goal, self._reached_ns = goal, None

    def _on_map(self, message: PointCloud2) -> None:
        # Its stamp is the time at which its batch closed.
        last = bisect_right(self.pings, messages.stamp_to_ns(message.header.stamp)) - 1
        if last >= 0:
            self.maps.append((time.time_ns() - self.pings[last]) * 1e-9)


def measure(
    seconds: float = 60.0,
    method: str = "poam",
    samples: int = 0,
    budget: float = 0.0,
) -> dict[str, Any]:
    """Latencies in s after the first map, of a workspace of 60 m x 60 m.

    ``all`` is update, map and publication together, ``all_cpu`` the CPU time of their thread.

    Args:
        seconds: duration of the measurement after the first map.
        method: of the mapper.
        samples: pings in its model at the start.
        budget: its ``training.budget``, in s.

    Raises:
        PoamError: if no map arrives.
    """
    settings = {"method": method, "resolution": 0.5, "training.budget": budget}
    vehicle, mapper = _run(settings, seconds, samples)
    # The first map is that of the pilot survey. With initial pings, it is theirs, and the second
    # one has all pings that waited for it.
    begin = 1 if samples else 0
    first, delays = mapper["drawn"][begin]["odometry"], mapper["delays"]
    later = mapper["drawn"][begin + 1 :]
    return {
        "seconds": seconds,
        "method": method,
        "samples": samples,
        "odometry": _spread(delays[first:]),
        "ping_to_map": _spread(vehicle.maps[1:]),
        "arrival_to_goal": _spread(vehicle.goals),
        **{
            name.removesuffix("_s"): _spread([drawn[name] for drawn in later])
            for name in ("update_s", "predict_s", "publish_s", "all_s", "all_cpu_s")
        },
    }


def _run(settings: dict[str, Any], seconds: float, samples: int) -> tuple[Vehicle, dict[str, Any]]:
    """Run a vehicle with mapper and planner; returns it, and the times of the mapper."""
    avoid_shared_memory()
    rclpy.init()
    vehicle, executor = Vehicle(), SingleThreadedExecutor()
    executor.add_node(vehicle)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory() as folder:
        times_file = Path(folder) / "mapper.json"
        if samples:
            settings["mission_dir"] = _filled(Path(folder) / "mission", settings, samples)
        children = _start(times_file, settings)
        try:
            _drive(vehicle, children, seconds, MAP_TIMEOUT_S + TIMEOUT_PER_PING_S * samples)
        finally:
            for child in children:
                child.send_signal(signal.SIGINT)
            for child in children:
                child.wait(20.0)
            executor.shutdown()
            thread.join(5.0)
            vehicle.destroy_node()
            rclpy.try_shutdown()
        return vehicle, json.loads(times_file.read_text())


def _filled(folder: Path, settings: Mapping[str, Any], samples: int) -> str:
    """A mission folder with this number of pings, all in the model."""
    values = {**{row.name: row.default for row in MAPPER}, **settings}
    rng, terrain = np.random.default_rng(1), load_terrain("seamounts")
    xy = WORKSPACE.sample(samples, rng)
    pings = Samples.of(xy, terrain.elevation_at(xy) + rng.normal(size=samples))
    firsts = range(0, samples, FILLING)
    steps = [JournalStep(UPDATE, i, min(i + FILLING, samples) - 1, FILLING_STEPS) for i in firsts]
    mission = MissionFolder(folder, identity(values))
    try:
        mission.journal.append([pings], steps, 0)
    finally:
        mission.close()
    return str(folder)


def _start(times_file: Path, settings: Mapping[str, Any]) -> list[subprocess.Popen[bytes]]:
    python = [sys.executable, "-m"]
    mapper = [part for name, value in settings.items() for part in ("-p", f"{name}:={value}")]
    planner = ["-p", f"max_speed:={SPEED}", "-p", "pilot:=diagonal", "-p", "autostart:=true"]
    planner += ["-p", "max_samples:=1000000"]
    environment = {**os.environ, TIMES_FILE: str(times_file)}
    return [
        subprocess.Popen(
            [*python, f"poam_ros.{module}", "--ros-args", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for module, arguments in (("research.bench.latency", mapper), ("ros.planner.node", planner))
    ]


def _drive(
    vehicle: Vehicle, children: Sequence[subprocess.Popen[bytes]], seconds: float, timeout: float
) -> None:
    """Drive for ``seconds`` after the first map, which must arrive within ``timeout`` (s)."""
    period, due = 1 / ODOMETRY_HZ, time.monotonic()
    give_up, end = due + timeout, None
    while end is None or time.monotonic() < end:
        vehicle.tick()
        if end is None and vehicle.maps:
            end = time.monotonic() + seconds
        if (end is None and time.monotonic() > give_up) or any(c.poll() for c in children):
            raise PoamError(f"no map within {timeout:g} s, or a node has failed")
        due = max(due + period, time.monotonic() - period)
        time.sleep(max(0.0, due - time.monotonic()))


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not len(values):
        return {"count": 0}
    median, p99, worst = np.quantile(values, (0.5, 0.99, 1.0)).tolist()
    return {"count": len(values), "median_s": median, "p99_s": p99, "worst_s": worst}


#: Environment variable: the file for the recorded times.
TIMES_FILE = "POAM_LATENCY_FILE"


class TimedMapper(MapperNode):
    """A mapper that records the age of every odometry message at its callback, in s."""

    def __init__(self, **options: Any) -> None:
        self.delays: list[float] = []
        self.drawn: list[dict[str, float]] = []
        self._cpu_s = 0.0
        super().__init__(**options)

    def _on_odometry(self, message: Odometry) -> None:
        self.delays.append((time.time_ns() - messages.stamp_to_ns(message.header.stamp)) * 1e-9)
        super()._on_odometry(message)

    def _publish_map(self, drawn: MapDrawn) -> None:
        start = time.perf_counter()
        super()._publish_map(drawn)
        publish_s = time.perf_counter() - start
        assert drawn.learned is not None
        walls = {"predict_s": drawn.predict_s, "update_s": drawn.learned.report.update_s}
        # All CPU time of this thread since the last map; it has no other work.
        before, self._cpu_s = self._cpu_s, time.thread_time()
        times = {"publish_s": publish_s, **walls, "all_s": publish_s + sum(walls.values())}
        times["all_cpu_s"] = self._cpu_s - before
        self.drawn.append({**times, "odometry": len(self.delays)})


def main(args: Sequence[str] | None = None) -> int:
    """Run the timed mapper; return its exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    made: list[TimedMapper] = []

    def make() -> TimedMapper:
        made.append(TimedMapper())
        return made[0]

    status = run_node(make, args)
    if made:
        times = {"delays": made[0].delays, "drawn": made[0].drawn}
        Path(os.environ[TIMES_FILE]).write_text(json.dumps(times))
    return status


if __name__ == "__main__":
    sys.exit(main())
