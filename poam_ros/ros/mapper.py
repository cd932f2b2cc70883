"""The mapper node: odometry and pings in, an elevation map with its uncertainty out, and
diagnostics of all that becomes of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, LogThrottle, quantity
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.process import configure_process
from ..frontend import events
from ..frontend.front_end import AFTER_MISSION, OVERLOAD
from ..frontend.odometry import OdometryRefused, VehicleState
from ..frontend.pings import RawPing, level_fault
from ..frontend.refused_pings import ADVICE, LATELY_S, REASONS, Lately
from ..learning.create import change_settings, open_mission, recovery_message
from ..learning.session import ModelThread, SurveySession
from ..models.registry import MODELS
from ..outputs.crossings import statistics_of
from ..outputs.folder import make_folder, save
from ..outputs.recorder import MapReport
from ..outputs.run import SessionResults, read_settings
from ..planning.tvu import tvu_ratio
from . import messages
from .inputs import Inputs
from .node import KEPT, LATCHED, BaseNode, run_node
from .parameters import MAPPER

# The model's thread and the callbacks share the interpreter. With Python's default of 5 ms, a
# callback that waits a few times for the lock takes longer than the sensors' period.
SWITCH_INTERVAL_S, BACKWARDS = 5e-4, Duration(nanoseconds=-SECOND)
LAYERS, FAULT = ("mean", "variance", "lengthscale"), "pings/fault"
STATE = "mission/state"
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
SENSORS = ("odom", "sonar/range")
SLOW_UPDATE_S = 1.0  # p99 of an update with its map; more is reported
#: What to do.
SLOW = "give the mapper a core, or raise batch.size or resolution"
ENDED = "the model's thread has ended: restart the mapper; its log has the error"
MOVED = (
    "check the position fix and the odometry's origin; the map has both, so reset it, or continue "
    "from a folder without the pings after it"
)


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
        values, log = self.values, self.get_logger()
        self._errors, self._lately = LogThrottle(lambda text: log.error(text)), Lately()
        if not MODELS[values.method].bounded_time:
            log.warning(
                f"method {values.method}: the time of an update is unbounded; for comparisons only"
            )
        self._open_session()
        assert self.session.grid is not None  # a mission's maps are drawn
        self.topics = MapTopics(self, values.frame_id, self.session.grid)
        self._shifts = self.create_publisher(String, "map/shift", LATCHED)
        self.say(FAULT, self._lately.fault)  # before the first look: no mission begins unseen
        self._reports = self.create_publisher(String, "map/report", KEPT)
        self._listen()
        # After the sensors: a simulator waits for it.
        self._samples = self.create_publisher(UInt64, "map/samples", LATCHED)
        self.topics.publish(None, self.now_ns)
        self._publish_samples()
        self.create_timer(1.0, self._on_timer)
        self.thread.start()
        log.info(f"mapping with {values.method}, waiting for pings")

    def _open_session(self) -> None:
        values, log = self.values, self.get_logger()
        if values.output:  # raises an error for a folder that cannot be written
            make_folder(Path(values.output).expanduser())
        self.session, leave = open_mission(vars(values))

        def close() -> None:
            if missing := leave():
                log.error(missing)

        self.on_exit.callback(close)
        self.session.front_end.warn = self.warnings.add
        if found := recovery_message(self.session):
            log.info(found)
        self._results = SessionResults(self.session, values.output)
        self.thread = ModelThread(self.session, lambda: self.moment, self._handle_loop_event)

        self.on_exit.callback(self._write_interrupted)
        self.on_exit.callback(self.thread.stop)

    def _write_interrupted(self) -> None:
        """Write partial results of an interrupted mission."""
        try:
            alive, told = self.thread.alive, self._log_problem
            self._log_written(self._results.write_interrupted(self.moment, alive, told))
        except (OSError, InputError) as error:
            self.get_logger().error(f"output: partial results cannot be written ({error})")

    def changed(self, names: frozenset[str]) -> None:
        """Apply new values to front end and model loop."""
        change_settings(self.session, vars(self.values))

    def _listen(self) -> None:
        self._inputs = Inputs(
            self, self._on_odometry, self._on_ping, self._on_level, self._on_sensors
        )
        self._mission = {"mission/taken_over": "", STATE: ""}
        # First the one that is to be read first where both have come.
        for topic in self._mission:
            self.create_subscription(String, topic, partial(self._on_mission, topic), LATCHED)
        jump = self.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=BACKWARDS, on_clock_change=False),
            post_callback=lambda jump: self.session.front_end.clock_set_back(),
        )
        self.on_exit.callback(jump.unregister)
        self.create_service(Trigger, "~/reset", self._on_reset)
        self.create_service(Trigger, "~/save_map", self._on_save)

    def _on_odometry(self, state: VehicleState | None, message: Odometry) -> None:
        frames = self._inputs.frames
        if state is None:
            self.warnings.add(frames.fault, frames.reason)
        self.session.odometry(state or OdometryRefused(frames.fault), self.moment)

    def _on_ping(self, ping: RawPing) -> None:
        mount = self._inputs.frames.changed_mount(ping.frame_id, time.monotonic())
        if mount is not None:
            self.session.front_end.mount(mount)
        self.session.ping(ping, self.moment)

    def _on_level(self, level: float) -> None:
        if fault := level_fault(level):
            self.warnings.add("water_level", fault)
        self.session.front_end.water_level(level, self.moment)

    def _on_sensors(self) -> None:
        """Place the pings for which there is odometry."""
        accepted = self.session.ledger.accepted
        if len(self.session.tick(self.moment)):
            self._publish_samples(wake=True)
        if self.session.ledger.accepted > accepted:
            self.say(FAULT, "")

    def _on_mission(self, topic: str, message: String) -> None:
        self._mission[topic] = message.data
        taken_over, state = self._mission.values()
        if state:
            self.session.mission(events.mapped_state(state, taken_over), self.moment)
            self._publish_samples(wake=True)

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.session.reset(self.now_ns)
        self._publish_samples(wake=True)
        response.success = True
        response.message = "model and data are reset; waiting for pings"
        self.get_logger().info(response.message)
        return response

    def _on_save(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        log, failed = self.get_logger(), "nothing is saved: "
        try:
            response.message = save_map(self.session, vars(self.values), self.moment)
            response.success = True
        except OSError as error:
            response.message = f"{failed}cannot write ({error.strerror or error})"
        except Exception as error:  # no error may end the mission
            response.message = f"{failed}{error}"
        if response.success:
            log.info(f"save_map: {response.message}")
        else:  # rclpy allows one severity in a line of code
            log.error(f"save_map: {response.message}")
        return response

    def _on_timer(self) -> None:
        session = self.session
        # Only then, as asking the graph is slow.
        if session.front_end.closed or not session.mapper.initialised:
            awaited = self.count_publishers(self.resolve_topic_name(STATE)) > 0
            session.front_end.mission_source(awaited)
        self._on_sensors()
        self.topics.publish_refused(session, self.moment)
        self._lately.take(session.front_end, self.lost, time.monotonic())
        self.say(FAULT, self._lately.fault)
        order, bounds = getattr(self.values, "target.tvu") or "1a", self.topics.bounds
        now, alive = self.moment, self.thread.alive
        level, text, counted = mapper_status(session, now, alive, bounds, self._lately, order)
        if level == ERROR:
            self._errors.remind("status", text)
        self.report(level, text, counted)

    def _publish_samples(self, wake: bool = False) -> None:
        self._samples.publish(UInt64(data=self.session.samples))
        if wake:
            self.thread.wake()

    def _handle_loop_event(self, outcome: events.LoopEvent) -> None:
        """Publish what the model loop yields. Ctrl-C may shut the context down meanwhile."""
        try:
            match outcome:
                case events.MapDrawn():
                    level = self.session.front_end.level(self.moment)
                    order, drawn = getattr(self.values, "target.tvu"), outcome.map
                    self.topics.publish(drawn, drawn.stamp_ns, order, level)
                    self._report_map(outcome)
                    self._last = outcome
                case events.ModelReset():
                    self.topics.publish(None, self.now_ns)
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

    def _report_map(self, drawn: events.MapDrawn, finished: bool = False) -> None:
        unknown, learned = float("nan"), drawn.learned
        mean, variance = (unknown, unknown) if learned is None else learned.targets
        update_s = unknown if learned is None else learned.report.update_s
        numbers = drawn.map.stamp_ns, drawn.map.samples, mean, variance, update_s, drawn.predict_s
        self._reports.publish(messages.write_report(MapReport(*numbers, finished=finished)))

    def _write_results(self, finished: events.MissionFinished) -> None:
        log = self.get_logger()
        if finished.map is None:
            if self.session.ledger.received:  # else it is the latched state of an earlier mission
                log.error("the mission is done without a map: too few pings")
            return
        log.info(f"the mission is done: {quantity(len(finished.samples), 'ping')} in the map")
        try:
            self._log_written(self._results.finish(finished))
        except OSError as error:  # the disk may be free again when the node ends
            self._errors.add("output", f"output: the results cannot be written ({error})")
        self._report_map(self._last, finished=True)

    def _log_problem(self, outcome: events.LoopEvent) -> None:
        if isinstance(outcome, events.Problem):
            (self._errors if outcome.error else self.warnings).add(outcome.reason, outcome.text)

    def _log_written(self, text: str) -> None:
        if text:
            self.get_logger().info(text)


class MapTopics:
    """Publishes maps and refused pings on latched topics.

    Attributes:
        bounds: values at 0 and 100 of the occupancy grids, by layer.
    """

    def __init__(self, node: Node, frame_id: str, grid: Grid) -> None:
        self._frame_id, self._grid = frame_id, grid
        self._points = node.create_publisher(PointCloud2, "map/points", LATCHED)
        # The name of the topic is fixed; it has the support of any model.
        self._support = node.create_publisher(MarkerArray, "map/inducing_points", LATCHED)
        self._pictures = {
            layer: node.create_publisher(OccupancyGrid, f"map/{layer}", LATCHED) for layer in LAYERS
        }
        self._tvu = node.create_publisher(OccupancyGrid, "map/tvu", LATCHED)
        self._refused = node.create_publisher(PointCloud2, "pings/refused", LATCHED)
        self._refused_markers = node.create_publisher(MarkerArray, "pings/refused_markers", LATCHED)
        self._shown: tuple[Any, ...] = ()  # what the refused pings were drawn from
        self._map: ElevationMap | None = None
        self.bounds: dict[str, tuple[float, float]] = {}

    def publish(
        self, drawn: ElevationMap | None, stamp_ns: int, order: str = "", level: float | None = None
    ) -> None:
        """Publish a map on every topic.

        Args:
            drawn: the map; None: there is none yet.
            stamp_ns: of all messages.
            order: S-44 order for `map/tvu`; empty: all cells are unknown.
            level: water level above the datum, in m; None if unknown.
        """
        self._map, where, bounds = drawn, (stamp_ns, self._frame_id), {}
        ratio, support = None, np.empty((0, 3))
        size = float(self._grid.x[1] - self._grid.x[0]) / 2 if len(self._grid.x) > 1 else 0.5
        if drawn is not None:
            self._points.publish(messages.write_map_cloud(drawn, self._frame_id, level or 0.0))
            if order and level is not None:
                ratio = tvu_ratio(order, level - drawn.mean, np.sqrt(drawn.variance))
            # On the map, so that viewers show them.
            support = np.column_stack((drawn.support, self._heights(drawn.support) + size / 2))
        for name, pictures in self._pictures.items():
            layer = None if drawn is None else getattr(drawn, name)
            picture, span = messages.write_occupancy(self._grid, layer, *where)
            pictures.publish(picture)
            if span is not None:
                bounds[name] = span
        self.bounds = bounds
        self._tvu.publish(messages.write_tvu(self._grid, ratio, *where))
        self._support.publish(messages.write_support(support, size, *where))

    def publish_refused(self, session: SurveySession, now: Moment) -> None:
        """Publish the newest refused pings and the withdrawn ones, if they changed, or the map they
        are drawn on; those without an elevation at that of the sonar. The caller limits the rate.
        """
        version, withdrawn, drawn = session.ledger.version, session.withdrawn, self._map
        known, self._shown = self._shown, (version, withdrawn, drawn)
        if known and known[0] == version and known[1] is withdrawn and known[2] is drawn:
            return
        refused = session.refused_and_withdrawn
        unknown, xyz = np.isnan(refused.xyz[:, 2]), refused.xyz.copy()
        xyz[unknown, 2] = session.front_end.sonar_heights(refused.stamp_ns[unknown], now)
        pings, where = replace(refused, xyz=xyz), (now.ros_ns, self._frame_id)
        self._refused.publish(messages.write_refused(pings, *where))
        size = float(np.hypot(*self._grid.borders.size))
        markers = messages.write_refused_pings(pings, self._heights, size, *where)
        self._refused_markers.publish(markers)

    def _heights(self, xy: np.ndarray) -> np.ndarray:
        """What the map hides is below these at xy [N, 2], [N] in m; NaN where there is none."""
        drawn = self._map
        return np.full(len(xy), np.nan) if drawn is None else messages.surface(drawn)(xy)


def mapper_status(
    session: SurveySession,
    now: Moment,
    alive: bool,
    bounds: Mapping[str, tuple[float, float]],
    lately: Lately,
    order: str = "1a",
) -> tuple[bytes, str, dict[str, object]]:
    """The mapper's state as a diagnostic level, a text and values.

    Args:
        session: its ledger and status.
        now: the present time.
        alive: whether the model's thread runs.
        bounds: values at 0 and 100 of each occupancy grid.
        lately: what was refused and lost.
        order: of S-44, whose limit the differences at crossings are compared with.
    """
    values = _counts(session, lately) | _crossings(session, order) | _model(session)
    if (stamp_ns := session.status.map_stamp_ns) is not None:
        values["map_age_s"] = (now.ros_ns - stamp_ns) / SECOND
    for layer, (low, high) in bounds.items():
        values |= {f"map/{layer} at 0": low, f"map/{layer} at 100": high}
    return *next(_checks(session, alive, lately)), values


def _checks(session: SurveySession, alive: bool, lately: Lately) -> Iterator[tuple[bytes, str]]:
    """What is wrong, the worst first, and at last what the mapper does. A new check is a line."""
    status = session.status
    if not alive:
        yield ERROR, ENDED
    if status.failing:
        yield ERROR, status.failing
    if session.journal.failing:
        yield ERROR, f"pings are not being stored: {session.journal.failing}"
    if session.sample_queue.full:
        yield ERROR, f"pings are refused: {REASONS[OVERLOAD]}"
    front_end = session.front_end
    if (found := lately.main()) is not None:
        text = f"{found.share:.0%} of the {found.what} of the last {LATELY_S:g} s refused as "
        apart = f", {front_end.clock_offset_s:+.1f} s apart"
        text += found.reason + (apart if found.reason == "other_clock" else "")
        yield ERROR if found.every else WARN, f"{text}: {ADVICE[found.reason]}"
    if (shift := session.verdicts.watch.found) is not None:
        yield WARN, f"{shift.sentence}: {MOVED}"
    if dropped := sum(status.dropped.values()):
        yield WARN, f"{dropped} accepted pings were dropped"
    if lately.lost_now:
        yield WARN, f"{quantity(lately.lost_now, 'message')} lost in the last second"
    # With fewer, the first update, which trains the initial model, would count.
    late = status.times.quantile(0.99) if len(status.times) >= 100 else 0.0
    if late > SLOW_UPDATE_S:
        yield WARN, f"one update in a hundred takes {late:.1f} s or more: {SLOW}"
    if not status.updates:
        yield OK, "waiting for the pilot survey"
    elif front_end.closed == AFTER_MISSION:
        yield OK, "done" if status.finished else "finishing the last map"
    yield OK, front_end.closed or "mapping"


def _counts(session: SurveySession, lately: Lately) -> dict[str, object]:
    """What became of the pings, and how far the mission is."""
    ledger, status = session.ledger, session.status
    values: dict[str, object] = dict(ledger.counts())
    for name, counts in (
        ("rejected", ledger.rejected),
        ("odometry rejected", ledger.odometry_rejected),
        ("odd", ledger.suspect),
        ("lost", {topic: lately.lost[topic] for topic in SENSORS}),
        ("dropped", status.dropped),
        ("errors", status.errors),
    ):
        values |= {f"{name} {reason}": count for reason, count in sorted(counts.items())}
    for name, shares in (("", lately.refused), ("odometry ", lately.odometry)):
        values |= {f"lately {name}{reason}": share for reason, share in shares.items()}
    return values | {
        "mission_state": session.pilot.state or "unknown",
        "backlog": len(session.sample_queue),
        "samples": status.samples,
        "withdrawn": status.withdrawn,
        "epoch": status.updates,
        "errors": sum(status.errors.values()),
        "finished": str(status.finished).lower(),
        "disk": session.journal.failing or "ok",
        "not kept": session.journal.lost,
    }


def _crossings(session: SurveySession, order: str) -> dict[str, object]:
    """What the track says where it crosses itself."""
    watch, out = session.verdicts.watch, session.withdrawn.number
    shift, met = watch.found, watch.crossings
    met = met[~(np.isin(met.row, out) | np.isin(met.other, out))]
    found = statistics_of(met.difference, watch.ranges(met), order)
    values: dict[str, object] = {
        "crossings": len(met), "shift": "none" if shift is None else shift.sentence
    }  # fmt: skip
    if found is not None:
        values |= {
            "crossings_median": found.median,
            "crossings_95": found.quantile95,
            f"crossings_within_{order}": found.within,
        }
    lines = enumerate(session.verdicts.withdrawn_lines, start=1)
    return values | {f"withdrawn line {i}": verdict.sentence for i, verdict in lines}


def _model(session: SurveySession) -> dict[str, object]:
    status, report, latest = session.status, session.status.report, session.map
    values: dict[str, object] = {}
    if latest is not None and "lengthscale" in latest.fields:
        scales = latest.lengthscale
        values = {
            "lengthscale_min": float(scales.min()), "lengthscale_max": float(scales.max())
        }  # fmt: skip
    if report is None:
        return values
    return values | {
        "update_s": report.update_s,
        "steps": report.steps,
        **{f"{part}_s": seconds for part, seconds in report.seconds.items()},
        "predict_s": status.predict_s,
        # An update with its map, over the last few hundred.
        "cycle_s": status.times.last,
        "cycle_p50_s": status.times.quantile(0.5),
        "cycle_p99_s": status.times.quantile(0.99),
        "noise_std": report.noise_std,
        "support": report.support,
        "jitter": session.mapper.extra_jitter,
        "loss": report.loss,
    }


def save_map(session: SurveySession, values: Mapping[str, Any], now: Moment) -> str:
    """Write the map of a session; returns what was written, and where.

    Only parameters determine the folder: a request has no fields. Meanwhile messages wait: about a
    second for 100,000 pings.

    Raises:
        InputError: there is no map, or no folder for it.
        OSError: it cannot be written.
    """
    folder = values["output"] or str(session.journal.folder or "")
    if not folder:
        raise InputError("set the parameter output or mission_dir")
    drawn, samples = session.map, session.mapper.data
    if drawn is None or len(samples) < drawn.samples:  # fewer during a reset
        raise InputError("there is no map yet")
    level = session.front_end.level(now)
    level = values["water.level"] if level is None else level
    config: dict[str, Any] = {"nodes": {"mapper": {**values, "water.level": level}}}
    where = Path(folder).expanduser()
    # What was simulated stays so after a restart.
    if values["simulated"] or read_settings(where).get("simulated"):
        config["simulated"] = True
    place, names = save(where, drawn, samples, config)
    return f"saved the map of {quantity(drawn.samples, 'ping')} in {place}: {', '.join(names)}"


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
