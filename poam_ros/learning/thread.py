"""Runs the model loop on a thread of its own, beside the callbacks that feed it."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

from ..core.clock import Moment
from ..frontend.events import LoopEvent, Problem
from .session import SurveySession

log = logging.getLogger(__name__)

POLL_PERIOD_S = 0.05  # between checks whether a batch is due: also by its age
ERROR_PAUSE_S = 0.5  # after an unexpected error


class ModelThread:
    """Runs a session's ``work`` and passes its events on.

    Args:
        session: its events are handled on one other thread.
        now: returns the time; called on this thread as well.
        take: called on this thread with every event. Its errors are counted like any other, and
            passed to it as ``Problem``.
    """

    def __init__(
        self, session: SurveySession, now: Callable[[], Moment], take: Callable[[LoopEvent], None]
    ) -> None:
        self._session, self._now, self._take = session, now, take
        self._changed = threading.Condition()
        self._stopping = False
        # A daemon: an update in progress does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check for work at once."""
        with self._changed:
            self._changed.notify()

    def stop(self, timeout: float = 5.0) -> bool:
        """End the thread; whether it ended within the timeout (s)."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            try:
                with self._changed:
                    while not (self._stopping or self._session.due(self._now())):
                        self._changed.wait(POLL_PERIOD_S)
                for outcome in () if self._stopping else self._session.work(self._now()):
                    if self._stopping:
                        return
                    try:
                        self._take(outcome)
                    except Exception as error:
                        self._report_error(error)
            except Exception as error:  # whatever it is, the thread continues and reports it
                self._report_error(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, ERROR_PAUSE_S)

    def _report_error(self, error: Exception) -> None:
        if self._stopping:  # publishing fails while a node is shut down
            return
        try:
            self._take(Problem(self._session.failed(error, traceback.format_exc())))
        except Exception:
            log.exception("a failure cannot be reported")
