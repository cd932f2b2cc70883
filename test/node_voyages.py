"""A mission of real nodes on a boat of our own, in simulated time: see ``voyages.Voyage``.

All nodes spin on the test's thread. Each step waits until planner and mapper have read what the
link has published, so that a busy machine changes nothing.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger
from voyages import Voyage

from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.ranges import RawPing
from poam_ros.mavlink.simulated_boat import HOME
from poam_ros.ros.common.node import ManagedNode
from poam_ros.ros.common.parameters import TABLES
from poam_ros.ros.mapper.node import MapperNode
from poam_ros.ros.mavlink.node import MavlinkNode
from poam_ros.ros.planner.node import PlannerNode

LIMIT_S = 300.0  # of wall time


class NodeVoyage(Voyage):
    """``monkeypatch`` sets the nodes' clocks; rclpy's default context is there."""

    def __init__(self, monkeypatch, values=None, boat=None) -> None:
        monkeypatch.setattr(ManagedNode, "now_ns", property(lambda _: self.now.ros_ns))
        steady = SimpleNamespace(monotonic=lambda: self.now.steady_s, sleep=time.sleep)
        for module in ("common.node", "planner.node", "mapper.node"):
            monkeypatch.setattr(f"poam_ros.ros.{module}.time", steady)
        super().__init__(values, boat)

    def begin(self) -> None:
        values = {**self.values, "origin": HOME, "pilot_samples": 5}
        self.executor, self.sent_on = SingleThreadedExecutor(), {"odom": 0, "range": 0}
        self.heard = {"planner odom": 0, "planner range": 0, "mapper odom": 0, "mapper range": 0}
        made = []
        kinds = {"mapper": MapperNode, "planner": PlannerNode, "mavlink": MavlinkNode}
        for name, kind in kinds.items():
            names = {row.name for row in TABLES[name]} & values.keys()
            options = (n for n in values if n.startswith("mavlink.") and name == "mavlink")
            given = {n: values[n] for n in {*names, *options}}
            listed = {n: list(v) if isinstance(v, tuple) else v for n, v in given.items()}
            node = kind(parameter_overrides=[Parameter(n, value=v) for n, v in listed.items()])
            node.start_up()
            self.executor.add_node(node)
            made.append(node)
        self.mapper, self.planner, self.node = made
        self._count()
        self._wait(lambda: self.node.count_subscribers("odom") == 2)
        self._wait(lambda: self.planner.count_subscribers("mission/taken_over") == 1)
        self._wait(lambda: self.node._requests == 0)
        self.deliver()

    def _count(self) -> None:
        def counted(target, name, counts, key):
            real = getattr(target, name)

            def call(*args):
                found = key(*args) if callable(key) else key
                counts[found] = counts.get(found, 0) + 1
                return real(*args)

            setattr(target, name, call)

        kinds = {VehicleState: "mapper odom", RawPing: "mapper range"}
        counted(self.node._odometry, "publish", self.sent_on, "odom")
        counted(self.node._ranges, "publish", self.sent_on, "range")
        counted(self.planner.guidance, "locate", self.heard, "planner odom")
        counted(self.mapper, "_handle_event", self.heard, lambda event: kinds.get(type(event), ""))

    @property
    def vehicle(self):
        return self.node.vehicle

    @property
    def session(self):
        return self.mapper.session

    @property
    def guidance(self):
        return self.planner.guidance

    before_frame = 0

    def deliver(self) -> None:
        """One look at the link, and all that follows from it."""
        self.node._step()
        self._wait(self._read)
        self.planner._on_timer()
        self.mapper._on_timer()
        self._wait(self._read)

    def _read(self) -> bool:
        """Whether everybody has read what concerns them."""
        heard, sent = self.heard, self.sent_on
        arrived = heard["planner odom"] == heard["mapper odom"] == sent["odom"]
        arrived &= heard["mapper range"] == sent["range"]
        arrived &= self.planner.autopilot.refusal == self.node._published
        arrived &= (self.mapper._state, self.mapper._taken_over) == (
            self.planner.mission.state, self.planner.guidance.taken_over
        )  # fmt: skip
        arrived &= self.node._requests == self.planner._requested
        return arrived and not self.session.due(self.mapper.moment)

    def _wait(self, condition) -> None:
        ends = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < ends, (self.heard, self.sent_on, self.state)
            self.executor.spin_once(timeout_sec=0.01)
        while self.executor.get_nodes() and self._spun():
            pass

    def _spun(self) -> bool:
        before = self.heard.get("", 0), self.vehicle.steering.sent
        self.executor.spin_once(timeout_sec=0)
        return before != (self.heard.get("", 0), self.vehicle.steering.sent)

    def command(self, word: str) -> str:
        answer = self.planner._answer(word, Trigger.Request(), Trigger.Response())
        self.deliver()
        return f"{word}: {answer.message}"

    def end(self) -> None:
        self.executor.shutdown()
        for node in (self.node, self.planner, self.mapper):
            node.destroy_node()
