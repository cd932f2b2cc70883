"""How every node's ``main`` starts and ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence

import rclpy
from rclpy.exceptions import InvalidParameterValueException
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from ..errors import InputError

DONE, FAILED, WRONG_ARGUMENTS = 0, 1, 2


def run_node(factory: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """Run one node until it is stopped; return the exit status.

    0: stopped by Ctrl-C, SIGTERM or its own shutdown. 2: arguments, a file or a parameter are wrong
    (one line on stderr). 1: it failed otherwise (traceback on stderr).
    """
    try:
        rclpy.init(args=None if args is None else list(args))
    except KeyboardInterrupt:
        return DONE
    except Exception as error:  # rclpy raises types of its C library
        return _refused(error)
    node: Node | None = None
    try:
        node = factory()
        rclpy.spin(node)
        return DONE
    except (KeyboardInterrupt, ExternalShutdownException):
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
        _close(node)


def _close(node: Node | None) -> None:
    try:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    except KeyboardInterrupt:
        # A second Ctrl-C while closing asks for what is already under way.
        rclpy.try_shutdown()


def _refused(error: Exception) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return WRONG_ARGUMENTS
