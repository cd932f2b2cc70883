"""Ctrl-C while a command still loads what it needs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def exit_on_interrupt(command: str) -> Iterator[None]:
    """Ctrl-C ends the process with one line, in whatever import it comes.

    As an exception it would come out of the middle of other people's modules, which swallow it or
    turn it into errors of their own. Nothing is lost: nothing has begun.
    """
    before = signal.getsignal(signal.SIGINT)
    # Signals belong to the main thread; whoever ignores or handles this one has a reason.
    in_main_thread = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or not in_main_thread:
        yield
        return

    def end(*_: object) -> None:
        report_interrupted(command)
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def report_interrupted(command: str) -> None:
    """The one line that an interrupted command ends with."""
    line = f"{command}: interrupted\n"
    sys.stderr.write(f"\n{line}" if sys.stderr.isatty() else line)  # a terminal shows ^C before
    sys.stderr.flush()
