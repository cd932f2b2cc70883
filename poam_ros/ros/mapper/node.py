"""The mapper node: odometry and pings in, an elevation map with its uncertainty out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nav_msgs.msg import Odometry
from rclpy.clock import JumpThreshold, TimeJump
from rclpy.duration import Duration
from std_msgs.msg import Float64MultiArray, String, UInt64
from std_srvs.srv import Trigger

from ...core.clock import SECOND
from ...core.errors import InputError, LogThrottle, quantity
from ...core.process import configure_process
from ...core.settings import instance
from ...frontend import events
from ...frontend.odometry import OdometryRefused
from ...frontend.placing import level_fault
from ...learning.create import change_settings, open_mission, recovery_message
from ...learning.session import SurveySession
from ...learning.thread import ModelThread
from ...models.registry import MODELS
from ...outputs.results import ResultFolder, SessionResults
from ..common.executor import run_node
from ..common.inputs import Inputs
from ..common.messages import bare_frame, write_report
from ..common.node import BaseNode
from ..common.parameters import MAPPER, RangeSettings
from ..common.qos import KEPT, LATCHED, SensorSubscriptions
from ..common.transforms import FrameTransformer, MountLookup
from .diagnostics import Lately, View, map_report, mapper_status
from .saving import save_map
from .topics import MapTopics

# The model's thread and the callbacks share the interpreter. With Python's default of 5 ms, a
# callback that waits a few times for the lock takes longer than the sensors' period.
SWITCH_INTERVAL_S, BACKWARDS = 5e-4, Duration(nanoseconds=-SECOND)


class MapperNode(BaseNode):
    """Feeds a ``SurveySession``; the model's thread learns and publishes the maps.

    Raises:
        InputError: a parameter is wrong.
    """

    session: SurveySession
    thread: ModelThread

    def __init__(self, **options: Any) -> None:
        super().__init__("mapper", MAPPER, **options)

    def open(self) -> None:
        """Create session and topics, subscribe, and start the model's thread. Loads torch."""
        super().open()
        values, self.frame_id = self.values, bare_frame(self.values.frame_id)
        self._sensors = SensorSubscriptions(self, self._on_sensors)
        self._errors, self._lately = LogThrottle(self.get_logger().error), Lately()
        self._frames = FrameTransformer(self, self.frame_id)
        self._mounts = MountLookup(
            self._frames, getattr(values, "sonar.base_frame"), self.warnings.add
        )
        self.on_exit.callback(self._frames.close)
        if not MODELS[values.method].bounded_time:
            self.get_logger().warning(
                f"method {values.method}: the time of an update is unbounded; for comparisons only"
            )
        self._open_session()
        assert self.session.grid is not None  # a mission's maps are drawn
        self.topics = MapTopics(self, self.frame_id, self.session.grid)
        self._shifts = self.create_publisher(String, "map/shift", LATCHED)
        self._reports = self.create_publisher(Float64MultiArray, "map/report", KEPT)
        self._listen()
        # After the sensors: a simulator waits for it.
        self._samples = self.create_publisher(UInt64, "map/samples", LATCHED)
        self.topics.publish_unknown(self.now_ns)
        self._publish_samples()
        self.create_timer(1.0, self._on_timer)
        self.thread.start()
        self.get_logger().info(f"mapping with {values.method}, waiting for pings")

    def _open_session(self) -> None:
        values = self.values
        ResultFolder(values.output)  # raises an error for a folder that cannot be written
        self.session, leave = open_mission(vars(values))
        self.session.front_end.warn = self.warnings.add
        self.on_exit.callback(lambda: self._log_missing(leave()))
        if found := recovery_message(self.session):
            self.get_logger().info(found)
        self._results = SessionResults(self.session, values.output)
        self.on_exit.callback(self._write_interrupted)
        self.thread = ModelThread(self.session, lambda: self.moment, self._handle_loop_event)
        self.on_exit.callback(self.thread.stop)

    def _log_missing(self, missing: str) -> None:
        if missing:
            self.get_logger().error(missing)

    def _write_interrupted(self) -> None:
        """Write partial results of an interrupted mission."""
        try:
            text = self._results.write_interrupted(
                self.moment, self.thread.alive, self._log_problem
            )
            self._log_written(text)
        except (OSError, InputError) as error:
            self.get_logger().error(f"output: partial results cannot be written ({error})")

    def changed(self, names: frozenset[str]) -> None:
        """Apply new values to front end and model loop."""
        change_settings(self.session, vars(self.values))

    def _listen(self) -> None:
        self._inputs = Inputs(self, instance(RangeSettings, vars(self.values)))
        self._sensors.listen("odom", Odometry, self._on_odometry)
        self._sensors.listen("sonar/range", self._inputs.ranges.kind, self._on_range)
        self._inputs.listen_to_level(self._on_level)
        self._state = self._taken_over = ""
        # Before the state, so that it is read first where both have come.
        self.create_subscription(String, "mission/taken_over", self._on_taken_over, LATCHED)
        self._states = self.create_subscription(String, "mission/state", self._on_state, LATCHED)
        jump = self.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=BACKWARDS, on_clock_change=False),
            post_callback=self._on_time_set_back,
        )
        self.on_exit.callback(jump.unregister)
        self.create_service(Trigger, "~/reset", self._on_reset)
        self.create_service(Trigger, "~/save_map", self._on_save)

    def _on_odometry(self, message: Odometry) -> None:
        state = self._frames.into_map(self._inputs.odometry(message))
        if state is None:
            self.warnings.add(self._frames.fault, self._frames.reason)
        self.session.odometry(state or OdometryRefused(self._frames.fault), self.moment)

    def _on_range(self, message: Any) -> None:
        ping = self._inputs.ping(message)
        mount = self._mounts.changed_mount(ping.frame_id, time.monotonic())
        if mount is not None:
            self.session.front_end.mount(mount)
        self.session.ping(ping, self.moment)

    def _on_level(self, level: float) -> None:
        if fault := level_fault(level):
            self.warnings.add("water_level", fault)
        self.session.front_end.water_level(level, self.moment)

    def _on_sensors(self) -> None:
        """Place the pings for which there is odometry."""
        if len(self.session.tick(self.moment)):
            self._publish_samples()
            self.thread.wake()

    def _on_state(self, message: String) -> None:
        self._state = message.data
        self._follow_mission()

    def _on_taken_over(self, message: String) -> None:
        self._taken_over = message.data
        if self._state:
            self._follow_mission()

    def _follow_mission(self) -> None:
        state = events.mapped_state(self._state, self._taken_over)
        self.session.mission(state, self.moment)
        self._publish_samples()
        self.thread.wake()

    def _on_time_set_back(self, jump: TimeJump) -> None:
        self.session.front_end.clock_set_back()

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.session.reset(self.now_ns)
        self._publish_samples()
        self.thread.wake()
        response.success = True
        response.message = "model and data are reset; waiting for pings"
        self.get_logger().info(response.message)
        return response

    def _on_save(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            response.message = save_map(self.session, vars(self.values), self.moment)
            response.success = True
        except OSError as error:
            response.message = f"nothing is saved: cannot write ({error.strerror or error})"
        except Exception as error:  # no error may end the mission
            response.message = f"nothing is saved: {error}"
        if response.success:
            self.get_logger().info(f"save_map: {response.message}")
        else:
            self.get_logger().error(f"save_map: {response.message}")
        return response

    def _on_timer(self) -> None:
        # Only then, as asking the graph is slow.
        if self.session.front_end.closed or not self.session.mapper.initialised:
            awaited = self.count_publishers(self._states.topic_name) > 0
            self.session.front_end.mission_source(awaited)
        self._on_sensors()
        if failing := self.session.journal.failing:
            self._errors.remind("disk", f"pings are not being stored: {failing}")
        self.topics.publish_refused(self.session, self.moment)
        self._lately.take(self.session, time.monotonic())
        order, bounds = getattr(self.values, "target.tvu") or "1a", self.topics.bounds
        alive, lost = self.thread.alive, self._sensors.take_lost()
        view = View(self.session, self.moment, alive, *lost, bounds, self._lately, order)
        self.report(*mapper_status(view))

    def _publish_samples(self) -> None:
        self._samples.publish(UInt64(data=self.session.samples))

    def _handle_loop_event(self, outcome: events.LoopEvent) -> None:
        """Publish what the model loop yields. Ctrl-C may shut the context down meanwhile."""
        try:
            match outcome:
                case events.MapDrawn():
                    self._publish_map(outcome)
                case events.ModelReset():
                    self.topics.publish_unknown(self.now_ns)
                case events.MissionFinished():
                    self._write_results(outcome)
                case events.PositionsShifted(text):
                    self.warnings.add("shift", text)
                    self._shifts.publish(String(data=text))
                case events.Problem():
                    self._log_problem(outcome)
                case events.BatchLearned():
                    self._publish_samples()  # some may have been withdrawn
        except Exception:
            if self.context.ok():
                raise

    def _publish_map(self, drawn: events.MapDrawn) -> None:
        level, tvu = self.session.front_end.level(self.moment), getattr(self.values, "target.tvu")
        self.topics.publish(drawn.map, tvu, level)
        self._reports.publish(write_report(map_report(drawn)))
        self._last = drawn

    def _write_results(self, finished: events.MissionFinished) -> None:
        if finished.map is None:
            if self.session.ledger.received:  # else it is the latched state of an earlier mission
                self.get_logger().error("the mission is done without a map: too few pings")
            return
        self.get_logger().info(
            f"the mission is done: {quantity(len(finished.samples), 'ping')} in the map"
        )
        try:
            self._log_written(self._results.finish(finished))
        except OSError as error:  # the disk may be free again when the node ends
            self._errors.add("output", f"output: the results cannot be written ({error})")
        self._reports.publish(write_report(replace(map_report(self._last), finished=True)))

    def _log_problem(self, outcome: events.LoopEvent) -> None:
        if isinstance(outcome, events.Problem):
            (self._errors if outcome.error else self.warnings).add(*outcome.message)

    def _log_written(self, text: str) -> None:
        if text:
            self.get_logger().info(text)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)

    def make() -> MapperNode:
        node = MapperNode()
        configure_process(node.values.threads)
        return node

    return run_node(make, args)


if __name__ == "__main__":
    sys.exit(main())
