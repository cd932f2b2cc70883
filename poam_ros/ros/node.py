"""What all nodes are made of: parameters, clocks, subscriptions, and a run to an exit status."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier
from std_msgs.msg import String

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, LogThrottle, shown
from ..core.settings import Setting, Value, unknown
from .messages import header
from .parameters import inner_rows, known_names

DONE, FAILED, WRONG_ARGUMENTS = 0, 1, 2
#: The exceptions for a parameter with a wrong value.
WRONG = InputError, InvalidParameterTypeException, InvalidParameterValueException
STOPPING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
START_TIMEOUT_S = 3.0  # for a node that is being created when a signal arrives
WAIT_S = 0.2  # for a callback, until it is looked whether a signal has arrived
IDLE_S = 0.004  # after each callback; a few may wait, so none waits longer than 20 ms
#: Settings of Fast DDS: its transports, and a file of profiles by its present and its former name.
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"
#: Settings of ROS 2: which nodes are found; and whether only those of this machine (older).
RANGE, ONLY_HERE = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"


def _qos(depth: int, *, reliable: bool, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


# Maps, terrain and mission state: a late subscriber gets the last message.
LATCHED = _qos(1, reliable=True, latched=True)
# As latched, with a queue for messages that arrive while the node is busy.
KEPT = _qos(20, reliable=True, latched=True)
# As sensor drivers publish.
SENSOR_PUBLISH = _qos(10, reliable=False)
# For reading sensors: 20 s of odometry at 100 Hz while the model is busy.
SENSOR_READ = _qos(2000, reliable=False)
# Goals are repeated, never latched: no old goal moves a vehicle that starts up.
GOAL = _qos(1, reliable=True)
# Simulated time: a lost message is replaced by the next.
CLOCK = _qos(1, reliable=False)


class BaseNode(Node):
    """A node of this package.

    The constructor only declares parameters. ``open`` creates everything else; a subclass calls
    ``super().open()`` first, and gives ``on_exit`` what must be undone before the node ends.

    Args:
        name: of the node.
        table: rows of its parameters.
        options: as ``rclpy.node.Node``.

    Attributes:
        values: current values of the parameters by name, in the declared types.
        warnings: throttled warnings, such as messages it could not use.
        on_exit: what ``destroy_node`` undoes, in reverse order: ``on_exit.callback(undo)``.
        steady_clock: the clock of every timer. Nobody sets it, and it runs while a simulated clock
            stands still. ``ahead_s``: of ``Moment``.
        lost: messages that were sent to ``listen`` but not received, by topic.
        finished: set by a node whose work is done; then ``run_node`` returns.

    Raises:
        InputError: a parameter is wrong, or an override (command line, parameter file) has a name
            that no parameter of this package has.
    """

    finished = False
    _is_open = False

    def __init__(self, name: str, table: Iterable[Setting], **options: Any) -> None:
        super().__init__(name, **options)
        self.on_exit = ExitStack()
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self.ahead_s = self.get_clock().now().nanoseconds / SECOND - time.monotonic()
        # rclpy allows one severity for each line of code that logs: not the throttle's.
        self.warnings = LogThrottle(lambda text: self.get_logger().warning(text))
        self.lost: Counter[str] = Counter()
        self._said: dict[str, tuple[Any, str | None]] = {}  # publishers and newest texts by topic
        self.values, self._rows = SimpleNamespace(), dict[str, Setting]()
        self._declare(table)
        self._declare(inner_rows(name, vars(self.values)))  # of the chosen model or planner
        # rclpy ignores overrides of undeclared parameters and offers no public access to them.
        declared, others = list(self._parameters), known_names()
        for override in self._parameter_overrides:
            known = override in declared or override in others
            if not (known or override.startswith("qos_overrides.")):
                raise InputError(f"parameter {unknown(shown(override), declared)}")
        self.add_on_set_parameters_callback(self._check_all)
        self.add_post_set_parameters_callback(self._apply)

    def open(self) -> None:
        """Create publishers, subscriptions, services, timers and threads.

        Raises:
            InputError: a parameter is wrong, or a file cannot be used.
        """
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._is_open = True

    def check(self, name: str, value: Any) -> None:
        """Refuse a new value of a parameter: one of the table, or of ROS itself.

        Raises:
            InputError: it is wrong.
        """
        if name in self._rows:
            self._converted(name, value)

    def changed(self, names: frozenset[str]) -> None:
        """Called with the names of parameters that have new values, once the node is open."""

    def destroy_node(self) -> None:
        """Undo what ``on_exit`` holds, and destroy the node."""
        self._is_open = False
        try:
            self.on_exit.close()
        finally:
            super().destroy_node()

    @property
    def now_ns(self) -> int:
        """ROS time; 0 before a simulated clock starts."""
        return self.get_clock().now().nanoseconds

    @property
    def moment(self) -> Moment:
        """The present time on all clocks."""
        clock: Any = self.get_clock()  # a ROSClock
        ahead_s = None if clock.ros_time_is_active else self.ahead_s
        return Moment(self.now_ns, time.monotonic(), ahead_s)

    def create_timer(  # type: ignore[override]  # the clock is fixed
        self, period_s: float, callback: Callable[[], Any], **options: Any
    ) -> Any:
        """rclpy's, with the steady clock: the system clock may be set back."""
        return super().create_timer(period_s, callback, clock=self.steady_clock, **options)

    def listen(
        self, kind: type, topic: str, callback: Callable[[Any], None],
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Subscribe to a sensor with many messages a second: each wake-up takes all that wait.

        ``callback`` is called with each message, ``afterwards`` once after all of them.
        """

        def take_all(message: Any) -> None:
            taken: tuple[Any, Any] | None = (message, None)
            left = SENSOR_READ.depth
            while taken is not None:
                callback(taken[0])
                left -= 1
                with subscription.handle:
                    taken = subscription.handle.take_message(kind, False) if left > 0 else None
            afterwards()

        def count(status: Any) -> None:
            self.lost[topic] += status.total_count_change

        wanted = kind, topic, take_all, SENSOR_READ
        try:
            events = SubscriptionEventCallbacks(message_lost=count)
            subscription = self.create_subscription(*wanted, event_callbacks=events)
        except UnsupportedEventTypeError:
            subscription = self.create_subscription(*wanted)
            self.get_logger().warning(f"this middleware does not report messages lost on {topic}")

    def say(self, topic: str, text: str) -> None:
        """Publish a text on a latched topic, if it is another than before."""
        if topic not in self._said:
            self._said[topic] = self.create_publisher(String, topic, LATCHED), None
        publisher, before = self._said[topic]
        if text != before:
            self._said[topic] = publisher, text
            publisher.publish(String(data=text))

    def report(self, level: bytes, text: str, values: Mapping[str, object]) -> None:
        """Publish a diagnostic status named after the node; floats have six digits."""
        name = self.get_fully_qualified_name().lstrip("/")
        status = DiagnosticStatus(level=level, name=name, message=text)
        status.values = [
            KeyValue(key=key, value=f"{value:.6g}" if isinstance(value, float) else str(value))
            for key, value in values.items()
        ]
        message = DiagnosticArray(header=header(self.now_ns, ""), status=[status])
        self._diagnostics.publish(message)

    def _declare(self, table: Iterable[Setting]) -> None:
        for row in table:
            self._rows[row.name] = row
            default = list(row.default) if isinstance(row.default, tuple) else row.default
            # The bounds are attached after our own check, whose message says what was expected.
            bare = ParameterDescriptor(dynamic_typing=True)
            value = self.declare_parameter(row.name, default, bare).value
            setattr(self.values, row.name, self._converted(row.name, value))
            self.set_descriptor(row.name, describe(row))

    def _converted(self, name: str, value: Any) -> Value:
        try:
            return self._rows[name].convert(value)
        except InputError as error:
            raise InputError(f"parameter {error}") from None

    def _check_all(self, parameters: list[Any]) -> SetParametersResult:
        """Validate changes before they are made."""
        try:
            for parameter in parameters:
                self.check(parameter.name, parameter.value)
        except InputError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _apply(self, parameters: list[Any]) -> None:
        """Apply changes after they are made."""
        own = {p.name: p.value for p in parameters if p.name in self._rows}
        for name, value in own.items():
            setattr(self.values, name, self._rows[name].convert(value))
        if own and self._is_open:
            self.changed(frozenset(own))


def describe(row: Setting) -> ParameterDescriptor:
    """The setting as a ROS descriptor (`ros2 param describe`)."""
    described = ParameterDescriptor(
        description=row.help,
        additional_constraints=row.expected,
        read_only=not row.mutable,
        # Allows an integer for a float; `convert` checks the type instead of rclpy.
        dynamic_typing=True,
    )
    low, high = row.minimum, row.maximum
    if low is None and high is None:
        return described
    if isinstance(row.default, float):
        ends = -math.inf if low is None else float(low), math.inf if high is None else float(high)
        described.floating_point_range = [FloatingPointRange(from_value=ends[0], to_value=ends[1])]
    elif isinstance(row.default, int):
        limits = -(2**63) if low is None else int(low), 2**63 - 1 if high is None else int(high)
        described.integer_range = [IntegerRange(from_value=limits[0], to_value=limits[1])]
    return described


def avoid_shared_memory() -> None:
    """Send messages through UDP, unless the user set up Fast DDS; call this before ``rclpy.init``.

    A process that is killed leaves its port of shared memory behind. Started again, it makes a new
    port of the same number. Others may go on writing to the old one, and then it never hears them.
    Where only nodes of this machine are found, rmw_fastrtps uses shared memory whatever Fast DDS is
    told. So the same is set up by a profile: UDP through 127.0.0.1.
    """
    if any(os.environ.get(name) for name in (TRANSPORTS, *PROFILES)):
        return
    if not get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
        return
    if os.environ.get(RANGE) == "LOCALHOST" or os.environ.get(ONLY_HERE) == "1":
        profile = str(Path(__file__).with_name("loopback.xml"))
        os.environ.update(dict.fromkeys(PROFILES, profile))
        os.environ[RANGE] = "SUBNET"
        os.environ.pop(ONLY_HERE, None)
    else:
        os.environ[TRANSPORTS] = "UDPv4"


def run_node(factory: Callable[[], BaseNode], args: Sequence[str] | None = None) -> int:
    """Open and run one node until it is stopped; return the exit status.

    0: stopped by Ctrl-C, SIGTERM, a closed terminal, shutdown of its context, or because it is
    ``finished``. 2: an argument, a file or a parameter is wrong (one line on stderr). 1: any other
    failure (traceback on stderr).
    """
    avoid_shared_memory()
    node: BaseNode | None = None
    with _signals() as stop:
        try:
            # Not rclpy's signal handlers: they shut the context down in the middle of callbacks,
            # and everything that is logged afterwards prints an error on stderr.
            rclpy.init(
                args=None if args is None else list(args),
                signal_handler_options=SignalHandlerOptions.NO,
            )
        except Exception as error:  # rclpy raises types of its C library
            return _report_wrong(error)
        try:
            node = factory()
            node.open()
            stop.starting = False
            # A full garbage collection of all that is loaded (torch above all) would delay every
            # callback by a quarter of a second.
            gc.freeze()
            _spin(node, stop)
            return DONE
        except ExternalShutdownException:
            return DONE
        except WRONG as error:
            return _report_wrong(error)
        except Exception:
            # A callback that the shutdown interrupts may fail in many ways.
            if not rclpy.ok():
                return DONE
            traceback.print_exc()
            return FAILED
        finally:
            if node is not None:
                node.destroy_node()
            rclpy.try_shutdown()


def _spin(node: BaseNode, stop: SimpleNamespace) -> None:
    """As ``rclpy.spin``, but with a short sleep after every callback.

    For the executor, waiting costs far more than a message. During the sleep several messages
    arrive, and ``listen`` takes them all at once.

    rclpy's ``experimental.EventsExecutor`` would cost half as much. But the first releases of Jazzy
    lack it. In 7.1.5, destroying an entity with event callbacks beside a spinning executor
    sometimes crashes the process (ros2/rclpy#1644).
    """
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while executor.context.ok() and not (stop.requested or node.finished):
            executor.spin_once(timeout_sec=WAIT_S)
            time.sleep(IDLE_S)
    finally:
        executor.remove_node(node)


@contextmanager
def _signals() -> Iterator[SimpleNamespace]:
    """Let Ctrl-C, SIGTERM and a closed terminal only set ``requested``: a KeyboardInterrupt could
    leave half-created objects whose finalisers print tracebacks.

    A node that is being created (``starting``) may shut down properly, as others would believe for
    20 s that a killed participant is still there. But a slow start, such as a download, is not
    worth waiting for.
    """
    stop = SimpleNamespace(requested=False, starting=True)

    def handle(number: int, frame: Any) -> None:
        stop.requested = True
        if stop.starting:
            late = threading.Timer(START_TIMEOUT_S, lambda: stop.starting and os._exit(DONE))
            late.daemon = True
            late.start()

    on_main, numbers = threading.current_thread() is threading.main_thread(), list(STOPPING)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # by nohup
        numbers.remove(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers if on_main}
    try:
        yield stop
    finally:
        stop.starting = False
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_wrong(error: Exception) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return WRONG_ARGUMENTS
