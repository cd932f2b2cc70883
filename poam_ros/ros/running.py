"""How every node's ``main`` starts and ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rclpy
from rclpy.exceptions import InvalidParameterValueException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from ..errors import InputError

DONE, FAILED, WRONG_ARGUMENTS = 0, 1, 2
BREATH_S = 0.004  # a few callbacks wait at a time, so that none waits for 20 ms


def run_node(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """Run one node until it is stopped; return the exit status.

    0: stopped by Ctrl-C, SIGTERM or its own shutdown. 2: arguments, a file or a parameter are wrong
    (one line on stderr). 1: it failed otherwise (traceback on stderr).
    """
    running = threading.Event()
    with _quiet_signals(running):
        try:
            rclpy.init(args=None if args is None else list(args))
        except Exception as error:  # rclpy raises types of its C library
            return _refused(error)
        node: Node | None = None
        try:
            node = factory()
            running.set()
            _spin(node)
            return DONE
        except ExternalShutdownException:
            return DONE
        except (InputError, InvalidParameterValueException) as error:
            return _refused(error)
        except Exception:
            # A callback that was interrupted by the shutdown fails in many ways; none is a fault.
            if not rclpy.ok():
                return DONE
            traceback.print_exc()
            return FAILED
        finally:
            if node is not None:
                node.destroy_node()
            rclpy.try_shutdown()


def _spin(node: Node) -> None:
    """As ``rclpy.spin``, but with a breath after every callback.

    To wait for the next message costs the executor far more than a message does. In a breath
    several arrive, and ``subscribe`` takes them all at once.
    """
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while executor.context.ok():
            executor.spin_once()
            time.sleep(BREATH_S)
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
    """A subscription for many messages a second: one look at it takes all that wait.

    ``callback`` is called with each of them, ``afterwards`` once for all.
    """

    def take_all(message: Any) -> None:
        callback(message)
        for _ in range(qos.depth):
            with subscription.handle:
                taken = subscription.handle.take_message(kind, False)
            if taken is None:
                break
            callback(taken[0])
        afterwards()

    subscription = node.create_subscription(kind, topic, take_all, qos, **options)
    return subscription


@contextmanager
def _quiet_signals(running: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process without an exception in the middle of anything.

    rclpy shuts its context down on both by itself, and the spin ends; all that is left to do is to
    keep Python from raising a KeyboardInterrupt, which leaves half-made objects whose finalisers
    print tracebacks. While the node is still being made, nothing is worth waiting for.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: object) -> None:
        if not running.is_set():
            os._exit(DONE)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refused(error: Exception) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return WRONG_ARGUMENTS
