"""Runs a node from start to exit status: executor, signals, subscriptions."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription

from ...core.errors import InputError
from .node import BaseNode
from .transport import avoid_shared_memory

DONE, FAILED, WRONG_ARGUMENTS = 0, 1, 2
#: The exceptions for a parameter with a wrong value.
WRONG = InputError, InvalidParameterTypeException, InvalidParameterValueException
START_TIMEOUT_S = 3.0  # for a node that is being created when a signal arrives
WAIT_S = 0.2  # for a callback, until it is looked whether a signal has arrived
IDLE_S = 0.004  # after each callback; a few may wait, so none waits longer than 20 ms


def run_node(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """Run one node until it is stopped; return the exit status.

    A ``BaseNode`` is opened first.

    0: stopped by Ctrl-C, SIGTERM, shutdown of its context, or because it is ``finished``. 2: an
    argument, a file or a parameter is wrong (one line on stderr). 1: any other failure (traceback
    on stderr).
    """
    avoid_shared_memory()
    with _Stop() as stop:
        try:
            # Not rclpy's signal handlers: they shut the context down in the middle of callbacks,
            # and everything that is logged afterwards prints an error on stderr.
            rclpy.init(
                args=None if args is None else list(args),
                signal_handler_options=SignalHandlerOptions.NO,
            )
        except Exception as error:  # rclpy raises types of its C library
            return _report_wrong(error)
        node: Node | None = None
        try:
            node = factory()
            if isinstance(node, BaseNode):
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


def _spin(node: Node, stop: _Stop) -> None:
    """As ``rclpy.spin``, but with a short sleep after every callback.

    For the executor, waiting costs far more than a message. During the sleep several messages
    arrive, and ``subscribe`` takes them all at once.

    rclpy's ``experimental.EventsExecutor`` would cost half as much. But the first releases of Jazzy
    lack it. In 7.1.5, destroying an entity with event callbacks beside a spinning executor
    sometimes crashes the process (ros2/rclpy#1644).
    """
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while executor.context.ok() and not (stop.requested or getattr(node, "finished", False)):
            executor.spin_once(timeout_sec=WAIT_S)
            time.sleep(IDLE_S)
    finally:
        executor.remove_node(node)


def subscribe(
    node: Node,
    kind: type,
    topic: str,
    callback: Callable[[Any], None],
    qos: QoSProfile,
    afterwards: Callable[[], None] = lambda: None,
    **options: Any,
) -> Subscription:
    """A subscription for many messages a second: each wake-up takes all that wait.

    ``callback`` is called with each message, ``afterwards`` once after all of them.
    """

    def take_all(message: Any) -> None:
        taken: tuple[Any, Any] | None = (message, None)
        left = qos.depth
        while taken is not None:
            callback(taken[0])
            left -= 1
            with subscription.handle:
                taken = subscription.handle.take_message(kind, False) if left > 0 else None
        afterwards()

    subscription = node.create_subscription(kind, topic, take_all, qos, **options)
    return subscription


class _Stop:
    """Handles Ctrl-C and SIGTERM, which only ask the node to end.

    A KeyboardInterrupt could leave half-created objects whose finalisers print tracebacks.

    Attributes:
        requested: whether a signal arrived.
        starting: whether the node is still being created.
    """

    def __init__(self) -> None:
        self.requested, self.starting = False, True
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Stop:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self.starting = False
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: Any) -> None:
        """A node that is being created may shut down properly, but is not waited for for long.

        Other nodes would believe for 20 s that a killed participant is still there. A slow start,
        such as a download, is not worth waiting for.
        """
        self.requested = True
        if self.starting:
            late = threading.Timer(START_TIMEOUT_S, self._leave)
            late.daemon = True
            late.start()

    def _leave(self) -> None:
        if self.starting:
            os._exit(DONE)


def _report_wrong(error: Exception) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return WRONG_ARGUMENTS
