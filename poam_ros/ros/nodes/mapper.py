"""The mapper node: odometry and pings in, an elevation map with its uncertainty out."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.node import Node
from sensor_msgs.msg import Range
from std_msgs.msg import Float64MultiArray, String, UInt64
from std_srvs.srv import Trigger

from ...clock import SECOND
from ...geometry import Extent, map_grid
from ...maps import ElevationMap
from ...survey.gate import GateSettings, PingGate
from ..diagnostics import describe, report_of
from ..map_topics import MapTopics
from ..messages import bare_frame, read_odometry, read_range, write_report
from ..parameters import MAPPER, declare
from ..qos import KEPT, LATCHED, SENSOR_READ
from ..running import run_node, subscribe
from ..transforms import FrameChanger

if TYPE_CHECKING:
    from ...drivers.thread import MapWorker
    from ...mapping import MapSnapshot
    from ...runs.scoring import MapReport

STATES = ("pilot", "exploring", "paused", "done")
# The model's thread and the callbacks share the interpreter. At Python's 5 ms a callback that
# waits for its turn a few times takes longer than the sensors' period.
SWITCH_INTERVAL_S = 5e-4


class MapperNode(Node):
    """Callbacks judge and place pings; a worker thread learns and publishes the maps."""

    def __init__(self, **options: Any) -> None:
        super().__init__("mapper", **options)
        self.values = declare(self, MAPPER, self._parameters_changed)
        self.frame_id = bare_frame(self.values.frame_id)
        self.workspace = Extent.of(self.values.workspace)
        self.grid = map_grid(self.workspace, self.values.resolution)
        self.gate = PingGate(self._gate_settings())
        self.lost: Counter[str] = Counter()
        self.lost_lately = 0  # since the diagnostics before
        self.state: str | None = None
        self._anew = False  # reset since the pilot survey
        self._samples_before = 0  # pings accepted before the last reset
        self._frames = FrameChanger(self, self.frame_id)
        # First of all: what comes while torch is loaded waits in the queues.
        self._subscribe()
        self.worker = self._make_worker()
        self.topics = MapTopics(self, self.frame_id, self.grid)
        self._samples = self.create_publisher(UInt64, "map/samples", LATCHED)
        self._reports = self.create_publisher(Float64MultiArray, "map/report", KEPT)
        self._report: MapReport | None = None
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_service(Trigger, "~/reset", self._on_reset)
        # Wall time: diagnostics and the wait for odometry go on when the simulated clock stands.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(1.0, self._on_timer, clock=self._steady)
        self._publish_unknown()
        self._publish_samples()
        self.worker.start()
        from ...gp.kernels.native import BACKEND
        from ...gp.sparse.methods import METHODS

        if not METHODS[self.values.method].bounded_time:
            self.get_logger().warning(
                f"method {self.values.method}: an update's time has no bound; for comparisons only"
            )
        rows, columns = self.grid.shape
        self.get_logger().info(
            f"mapping {columns} x {rows} cells with {self.values.method} ({BACKEND} kernel), "
            "waiting for pings"
        )

    def now_ns(self) -> int:
        """ROS time."""
        return self.get_clock().now().nanoseconds

    @property
    def samples(self) -> int:
        """Accepted pings since the start, or the last reset."""
        return self.gate.accepted - self._samples_before

    def _make_worker(self) -> MapWorker:
        # torch is loaded only once the parameters are known to be right.
        from dataclasses import fields

        from ...drivers.thread import Hooks, MapWorker
        from ...mapping import BathymetricMapper, ModelSettings
        from ...runs.folder import make_folder

        given = vars(self.values)
        settings = ModelSettings(
            **{f.name: given[f.name] for f in fields(ModelSettings) if f.name in given}
        )
        if self.values.output:
            make_folder(Path(self.values.output))
        mapper = BathymetricMapper(self.workspace, settings, self.values.seed)
        hooks = Hooks(
            now_ns=self.now_ns,
            may_start=self._may_start,
            publish=self._publish_map,
            cleared=self._publish_unknown,
            finish=self._keep_results,
            log=self.get_logger(),
        )
        return MapWorker(mapper, self.grid, self.values, hooks)

    def _subscribe(self) -> None:
        self._sensor("odom", Odometry, self._on_odometry)
        self._sensor("sonar/range", Range, self._on_range)
        self._state_topic = self.create_subscription(
            String, "mission/state", self._on_state, LATCHED
        ).topic_name
        backwards = JumpThreshold(
            min_forward=None, min_backward=Duration(nanoseconds=-SECOND), on_clock_change=False
        )
        self._jump = self.get_clock().create_jump_callback(
            backwards, post_callback=self._on_time_set_back
        )

    def _sensor(self, topic: str, kind: type, callback: Callable[[Any], None]) -> None:
        def count_lost(status: Any) -> None:
            self.lost[topic] += status.total_count_change
            self.lost_lately += status.total_count_change

        try:
            events = SubscriptionEventCallbacks(message_lost=count_lost)
            subscribe(
                self, kind, topic, callback, SENSOR_READ, self._pass_on, event_callbacks=events
            )
        except UnsupportedEventTypeError:
            self.get_logger().warning(f"this middleware does not tell of messages lost on {topic}")
            subscribe(self, kind, topic, callback, SENSOR_READ, self._pass_on)

    def _gate_settings(self) -> GateSettings:
        values = self.values
        return GateSettings(
            offset_ns=round(values.range_time_offset * SECOND),
            max_gap_ns=round(values.odometry_timeout * SECOND),
            wait_s=values.odometry_wait,
            sonar_offset=values.sonar_offset,
            area=Extent.of(values.workspace).grown(values.margin),
        )

    def _parameters_changed(self, names: frozenset[str]) -> None:
        self.gate.settings = self._gate_settings()

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(read_odometry(message))
        if state is None:
            self.gate.refuse_odometry("wrong_frame")
            self.get_logger().error(self._frames.reason, throttle_duration_sec=10.0)
            return
        restarts = self.gate.buffer.restarts
        self.gate.add_odometry(state)
        if self.gate.buffer.restarts > restarts:
            self.get_logger().warning("odometry was set back in time: starting again with it")

    def _on_range(self, message: Range) -> None:
        self.gate.add_ping(read_range(message), time.monotonic())

    def _pass_on(self) -> None:
        """Hand over what can be placed by now."""
        samples = self.gate.take(time.monotonic())
        if len(samples):
            self.worker.add(samples)
            self._publish_samples()

    def _on_state(self, message: String) -> None:
        if message.data not in STATES:
            self.get_logger().warning(
                f"mission/state: expected one of {', '.join(STATES)}, got '{message.data}'",
                throttle_duration_sec=10.0,
            )
            return
        previous, self.state = self.state, message.data
        self._anew = self._anew and self.state not in ("pilot", "done")
        if self.state == "done" and previous != "done":
            self._pass_on()
            self.gate.close()
            self.worker.finish()
        elif self.state != "done" and self.gate.closed:
            self.gate.open()
        self.worker.wake()

    def _may_start(self, waiting: int) -> bool:
        """Whether the pilot survey is over. Asked by the worker until there is a map."""
        if self._anew:  # after a reset in the middle of a mission nobody announces a pilot survey
            return waiting >= self.values.pilot_samples
        if self.state in ("exploring", "done"):
            return True
        try:
            awaited = self.count_publishers(self._state_topic) > 0
        except RuntimeError:  # the worker may ask while the node is shut down
            if self.context.ok():
                raise
            return False
        return not awaited and waiting >= self.values.pilot_samples

    def _on_time_set_back(self, jump: TimeJump) -> None:
        self.get_logger().warning("the clock was set back: waiting for new odometry")
        self.gate.restart()

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.worker.reset()
        self.gate.open()
        self._anew = True
        self._samples_before = self.gate.accepted
        self._publish_samples()
        response.success = True
        response.message = "model and data are cleared; waiting to start again"
        self.get_logger().info(response.message)
        return response

    def _on_timer(self) -> None:
        self._pass_on()
        self._diagnostics.publish(describe(self))
        self.lost_lately = 0

    def _publish_samples(self) -> None:
        self._samples.publish(UInt64(data=self.samples))

    def _publish_map(self, snapshot: MapSnapshot, stamp_ns: int) -> None:
        drawn = ElevationMap(
            snapshot.grid,
            snapshot.mean,
            snapshot.variance,
            {"lengthscale": snapshot.lengthscale},
            snapshot.inducing_points,
            snapshot.samples,
            stamp_ns,
        )
        report = self._report = report_of(self, snapshot, stamp_ns)
        self._unless_shut_down(lambda: self.topics.publish(drawn))
        self._unless_shut_down(lambda: self._reports.publish(write_report(report)))

    def _publish_unknown(self) -> None:
        self._unless_shut_down(lambda: self.topics.publish_unknown(self.now_ns()))

    def _unless_shut_down(self, publish: Callable[[], None]) -> None:
        """Publish from the worker: Ctrl-C may take the middleware away in the middle of it."""
        try:
            publish()
        except Exception:
            if self.context.ok():
                raise

    def _keep_results(self, snapshot: MapSnapshot | None, xy: np.ndarray, z: np.ndarray) -> None:
        if snapshot is None:
            self.get_logger().error("the mission is done, and there is no map: too few pings")
            return
        self.get_logger().info(f"the mission is done: {len(z)} samples in the map")
        self._write_results(snapshot, xy, z)
        if self._report is not None:
            self._reports.publish(write_report(replace(self._report, finished=True)))

    def _write_results(self, snapshot: MapSnapshot | None, xy: np.ndarray, z: np.ndarray) -> None:
        from ...runs.folder import write_map, write_samples

        if not self.values.output:
            return
        folder = Path(self.values.output)
        write_samples(folder / "samples.csv", xy, z)
        if snapshot is not None:
            write_map(folder / "map.npz", snapshot)
        names = "samples.csv" if snapshot is None else "map.npz and samples.csv"
        self.get_logger().info(f"wrote {names} in {folder}")

    def _keep_remains(self) -> None:
        """Write what there is of a mission that was interrupted."""
        if self.state == "done" and self.worker.status.finished:
            return
        snapshot, xy, z = self.worker.remains()
        # A pilot survey alone does not replace an earlier run's results.
        earlier = (Path(self.values.output) / "map.npz").exists()
        if len(z) and (snapshot is not None or not earlier):
            self._write_results(snapshot, xy, z)

    def destroy_node(self) -> None:
        """Stop the worker first: it publishes through this node."""
        if hasattr(self, "worker"):
            self.worker.stop()
            try:
                self._keep_remains()
            except OSError as error:
                self.get_logger().error(
                    f"output: cannot write to {self.values.output} ({error.strerror})"
                )
        super().destroy_node()


def main(args: Sequence[str] | None = None) -> int:
    """Run the mapper; return its exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run_node(MapperNode, args)


if __name__ == "__main__":
    sys.exit(main())
