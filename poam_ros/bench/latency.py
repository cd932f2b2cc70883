"""How long messages wait: a vehicle made of publishers before a real mapper and planner.

Run by ``poam profile --nodes``. Three processes, real time, the nodes as on a vehicle; only that
the mapper notes when its odometry callback is called.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2, Range

from ..errors import PoamError
from ..planning.pilots import start_pose
from ..ros import messages, qos
from ..ros.nodes.mapper import SWITCH_INTERVAL_S, MapperNode
from ..ros.running import run_node
from ..survey.events import Drawn
from ..survey.gate import RawPing
from ..survey.odometry import VehicleState
from ..world.terrain import WORKSPACE, load_terrain

ODOMETRY_HZ, PINGS_EVERY = 100, 10  # a ping with every tenth odometry
SPEED = 10.0  # m/s: the pilot survey takes half a minute
GOAL_RADIUS = 0.1  # m, the planner's default
PATIENCE = 120.0  # s for the first map


class TimedMapper(MapperNode):
    """Notes how old every odometry message is when its callback begins (s)."""

    def __init__(self, **options: Any) -> None:
        self.delays: list[float] = []
        self.drawn: list[dict[str, float]] = []
        super().__init__(**options)

    def _on_odometry(self, message: Odometry) -> None:
        self.delays.append((time.time_ns() - messages.stamp_to_ns(message.header.stamp)) * 1e-9)
        super()._on_odometry(message)

    def _publish_map(self, drawn: Drawn) -> None:
        start = time.perf_counter()
        super()._publish_map(drawn)
        publish_s = time.perf_counter() - start
        assert drawn.learned is not None
        walls = {"predict_s": drawn.predict_s, "update_s": drawn.learned.report.update_s}
        self.drawn.append({"publish_s": publish_s, **walls, "odometry": len(self.delays)})


class Vehicle(Node):
    """Goes straight to the latest goal; sends odometry and pings, and notes what comes back."""

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
        """One step of the vehicle, and the messages that go with it."""
        now = time.time_ns()
        if self._goal is not None:
            way = self._goal - self._position
            distance, step = float(np.hypot(*way)), SPEED / ODOMETRY_HZ
            self._position += way * min(1.0, step / max(distance, 1e-9))
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
        # Its stamp is the moment at which its batch closed.
        last = bisect_right(self.pings, messages.stamp_to_ns(message.header.stamp)) - 1
        if last >= 0:
            self.maps.append((time.time_ns() - self.pings[last]) * 1e-9)


def measure(seconds: float = 60.0, resolution: float = 0.5) -> dict[str, Any]:
    """Latencies (s) over ``seconds`` after the first map, maps of 60 m / ``resolution`` a side.

    Raises:
        PoamError: if no map comes.
    """
    rclpy.init()
    vehicle, executor = Vehicle(), SingleThreadedExecutor()
    executor.add_node(vehicle)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "mapper.json"
        children = _start(noted, resolution)
        try:
            _drive(vehicle, children, seconds)
        finally:
            for child in children:
                child.send_signal(signal.SIGINT)
            for child in children:
                child.wait(20.0)
            executor.shutdown()
            thread.join(5.0)
            vehicle.destroy_node()
            rclpy.try_shutdown()
        mapper = json.loads(noted.read_text())
    first, delays = mapper["drawn"][0]["odometry"], mapper["delays"]
    later = mapper["drawn"][1:]
    return {
        "seconds": seconds,
        "odometry": _spread(delays[first:]),
        "ping_to_map": _spread(vehicle.maps[1:]),
        "arrival_to_goal": _spread(vehicle.goals),
        **{
            name.removesuffix("_s"): _spread([drawn[name] for drawn in later])
            for name in ("update_s", "predict_s", "publish_s")
        },
    }


def _start(noted: Path, resolution: float) -> list[subprocess.Popen[bytes]]:
    python = [sys.executable, "-m"]
    mapper = ["-p", f"resolution:={resolution}"]
    planner = ["-p", f"max_speed:={SPEED}", "-p", "pilot:=lawnmower", "-p", "autostart:=true"]
    planner += ["-p", "max_samples:=1000000"]
    environment = {**os.environ, "POAM_LATENCY_FILE": str(noted)}
    return [
        subprocess.Popen(
            [*python, f"poam_ros.{module}", "--ros-args", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for module, arguments in (("bench.latency", mapper), ("ros.nodes.planner", planner))
    ]


def _drive(vehicle: Vehicle, children: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    period, due = 1 / ODOMETRY_HZ, time.monotonic()
    give_up, end = due + PATIENCE, None
    while end is None or time.monotonic() < end:
        vehicle.tick()
        if end is None and vehicle.maps:
            end = time.monotonic() + seconds
        if (end is None and time.monotonic() > give_up) or any(c.poll() for c in children):
            raise PoamError(f"no map within {PATIENCE:g} s, or a node has failed")
        due = max(due + period, time.monotonic() - period)
        time.sleep(max(0.0, due - time.monotonic()))


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not len(values):
        return {"count": 0}
    median, p99, worst = np.quantile(values, (0.5, 0.99, 1.0)).tolist()
    return {"count": len(values), "median_s": median, "p99_s": p99, "worst_s": worst}


def main(args: Sequence[str] | None = None) -> int:
    """Run the mapper that takes notes; return its exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    made: list[TimedMapper] = []

    def make() -> TimedMapper:
        made.append(TimedMapper())
        return made[0]

    status = run_node(make, args)
    if made:
        notes = {"delays": made[0].delays, "drawn": made[0].drawn}
        Path(os.environ["POAM_LATENCY_FILE"]).write_text(json.dumps(notes))
    return status


if __name__ == "__main__":
    sys.exit(main())
