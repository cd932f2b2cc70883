"""The live graph behind a page: a node that listens, and what it hears in words. rclpy inside."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..core.errors import PoamError
from ..outputs.exports.chart import ExportSettings
from ..outputs.view.scene import BAD, GOOD, NOTE, Remark, Scene
from .doctor import Heard, graph_findings, statuses
from .machine import Finding, problem

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray

#: s without a status of a node that had spoken; they speak once a second.
SILENT_S = 10.0


class LiveGraph:
    """A node of its own on a thread of its own; to be entered, and left when it is done.

    Args:
        namespace: of the nodes that are watched; empty: of none.
        settings: how maps are shown.

    Raises:
        PoamError: ROS 2 does not come up.
    """

    def __init__(self, namespace: str, settings: ExportSettings) -> None:
        self._namespace, self._settings = namespace, settings
        self._heard: dict[str, tuple[Heard, float]] = {}  # and when, by our clock
        self._known: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> LiveGraph:
        try:
            self._start()
        except Exception as error:  # of the middleware's libraries, in many types
            words = " ".join(str(error).split())[:200]
            raise PoamError(f"ROS 2 does not come up ({words})") from None
        return self

    def _start(self) -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        from ..ros.viewers.watching import GraphWatch

        self._context: Any = rclpy.Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node(
            "poam_view", namespace=self._namespace or None, context=self._context
        )
        self._watch = GraphWatch(self._node, self._settings)
        self._node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 100)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._spin, name="graph", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        import rclpy

        self._ended.set()
        self._thread.join(5.0)
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    def scene(self) -> Scene:
        """What is known now; the same object as before while nothing is new."""
        with self._lock:
            known = self._watch.version, int(time.monotonic())
            if known != self._known:
                self._known = known
                self._scene = self._watch.scene([_remark(found) for found in self._findings()])
            return self._scene

    def _spin(self) -> None:
        from ..ros.common.running import BREATH_S

        while not self._ended.is_set():
            self._executor.spin_once(timeout_sec=0.1)
            time.sleep(BREATH_S)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        with self._lock:
            for name, status in statuses(message).items():
                if name.strip("/").rpartition("/")[0] == self._namespace:
                    self._heard[name] = status, now

    def _findings(self) -> Iterator[Finding]:
        yield from graph_findings({name: status for name, (status, _) in self._heard.items()})
        now = time.monotonic()
        for name, (_, when) in self._heard.items():
            if now - when > SILENT_S:
                yield problem(f"{name}: silent for {now - when:.0f} s", "see whether it still runs")


def _remark(found: Finding) -> Remark:
    return Remark(found.what, found.todo, BAD if found.problem else NOTE if found.todo else GOOD)
