"""How every node's ``main`` starts and ends."""

from __future__ import annotations

import gc
import os
import signal
import socket
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
from .node import ManagedNode

DONE, FAILED, WRONG_ARGUMENTS = 0, 1, 2
#: What a parameter makes rclpy or us raise that has a wrong value.
WRONG = InputError, InvalidParameterTypeException, InvalidParameterValueException
START_TIMEOUT_S = 3.0  # with a node that is still being made when it is to stop
IDLE_S = 0.004  # a few callbacks wait at a time, so that none waits for 20 ms


def run_node(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """Run one node until it is stopped; return the exit status.

    A ``ManagedNode`` starts up first, unless it is managed.

    0: stopped by Ctrl-C, SIGTERM, shutdown of its context, or because it is ``finished``. 2: an
    argument, a file or a parameter is wrong (one line on stderr). 1: any other failure (traceback
    on stderr).
    """
    with _Stop() as stop:
        try:
            # The signals are ours: rclpy's handlers take the context away in the middle of
            # callbacks, and whatever is logged from there on complains of it on stderr.
            rclpy.init(
                args=None if args is None else list(args),
                signal_handler_options=SignalHandlerOptions.NO,
            )
        except Exception as error:  # rclpy raises types of its C library
            return _refused(error)
        node: Node | None = None
        try:
            node = factory()
            if isinstance(node, ManagedNode):
                node.start_up()
            # What is loaded by now stays: a full collection that walks through it (torch above all)
            # holds every callback up for a quarter of a second.
            gc.freeze()
            _spin(node, stop)
            return DONE
        except ExternalShutdownException:
            return DONE
        except WRONG as error:
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


def _spin(node: Node, stop: _Stop) -> None:
    """As ``rclpy.spin``, but with a breath after every callback.

    To wait for the next message costs the executor far more than a message does. In a breath
    several arrive, and ``subscribe`` takes them all at once.

    rclpy's own ``experimental.EventsExecutor`` would cost half as much. But the first releases of
    Jazzy lack it; and where it is there (7.1.5), destroying an entity with event callbacks, as
    ``cleanup`` does beside a spinning executor, crashes the process now and then
    (ros2/rclpy#1644), and ``spin_until_future_complete`` may take all of a core and call nothing.
    """
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    # A task, because merely waking an executor does not make it return.
    stop.act = lambda: executor.create_task(lambda: None)
    try:
        while executor.context.ok() and not (stop.asked or getattr(node, "finished", False)):
            executor.spin_once()
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
    numbered: Callable[[int | None], None] = lambda _: None,
    **options: Any,
) -> Subscription:
    """A subscription for many messages a second: one look at it takes all that wait.

    ``callback`` is called with each of them, ``afterwards`` once for all; ``numbered`` before each
    with the number that its publisher gave it, None where the middleware does not tell.
    """

    def take_all(message: Any, info: Any) -> None:
        taken: Any = message, info
        most = qos.depth
        while taken is not None:
            numbered(taken[1].get("publication_sequence_number"))
            callback(taken[0])
            most -= 1
            with subscription.handle:
                taken = subscription.handle.take_message(kind, False) if most > 0 else None
        afterwards()

    subscription = node.create_subscription(
        kind,
        topic,
        take_all,  # type: ignore[arg-type]  # with two arguments it is given the info, too
        qos,
        **options,
    )
    return subscription


class _Stop:
    """Ctrl-C and SIGTERM as a wish, told on a thread of its own, whatever the main one waits for.

    A KeyboardInterrupt anywhere would leave half-made objects whose finalisers print tracebacks.

    Attributes:
        asked: whether a signal came.
        act: called then, if anything has to be done.
    """

    def __init__(self) -> None:
        self.asked = False
        self.act: Callable[[], object] = self._leave

    def __enter__(self) -> _Stop:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._hears, self._told = socket.socketpair()
            self._told.setblocking(False)
            threading.Thread(target=self._listen, name="signals", daemon=True).start()
            self._fd = signal.set_wakeup_fd(self._told.fileno())
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._fd)
            self._told.close()

    def _leave(self) -> None:
        """The node is still being made: it leaves once it is, so that others learn of it.

        A participant that says no farewell is believed to be there for 20 s. But whatever takes
        long now, such as a download, is not worth waiting for.
        """
        time.sleep(START_TIMEOUT_S)
        if self.act == self._leave:
            os._exit(DONE)

    def _listen(self) -> None:
        with self._hears:
            while self._hears.recv(1):  # nothing once the other end is closed
                self.asked = True
                self.act()


def _refused(error: Exception) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return WRONG_ARGUMENTS
