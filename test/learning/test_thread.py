"""The model's thread works when something is due, survives failures, and can be stopped."""

import queue
import threading

import pytest

from poam_ros.core.clock import Moment
from poam_ros.core.maps import UpdateReport
from poam_ros.frontend.events import BatchLearned, Problem
from poam_ros.learning.session import ModelThread

LEARNED = BatchLearned(UpdateReport({}), (0.0, 1.0))
PATIENCE = 300.0  # s, for a machine that is busy with something else


class Session:
    """Has work whenever it is given some: outcomes to yield, or an exception to raise."""

    def __init__(self) -> None:
        self.given: queue.SimpleQueue = queue.SimpleQueue()

    def due(self, now):
        return not self.given.empty()

    def work(self, now):
        for outcome in self.given.get():
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    def failed(self, error, outcome):
        return Problem(type(error).__name__, outcome)


@pytest.fixture
def driven():
    """A thread over such a session, and a queue of what it hands on."""
    session, taken = Session(), queue.Queue()
    thread = ModelThread(session, lambda: Moment(0, 0.0), taken.put)
    thread.start()
    yield session, thread, taken
    assert thread.stop(PATIENCE)


@pytest.mark.parametrize("wakes", [True, False], ids=["woken", "due by time alone"])
def test_events_are_passed_on(driven, wakes):
    session, thread, taken = driven
    session.given.put([LEARNED, LEARNED])
    if wakes:
        thread.wake()
    assert taken.get(timeout=PATIENCE) is taken.get(timeout=PATIENCE) is LEARNED


def test_a_failure_of_the_work_does_not_end_the_thread(driven):
    session, thread, taken = driven
    session.given.put([RuntimeError("no memory")])
    trouble = taken.get(timeout=PATIENCE)
    assert isinstance(trouble, Problem) and "no memory" in trouble.text
    session.given.put([LEARNED])
    assert taken.get(timeout=PATIENCE) is LEARNED and thread.alive


def test_a_failing_receiver_gets_the_remaining_events():
    session, taken, seen, troubles = Session(), queue.Queue(), [], []

    def take(outcome):
        if isinstance(outcome, Problem):
            troubles.append(outcome)
            raise RuntimeError("nor this")
        taken.put(outcome)
        seen.append(outcome)
        if len(seen) == 1:
            raise RuntimeError("not published")

    thread = ModelThread(session, lambda: Moment(0, 0.0), take)
    session.given.put([LEARNED, LEARNED])
    thread.start()
    assert taken.get(timeout=PATIENCE) is taken.get(timeout=PATIENCE) is LEARNED
    assert [trouble.reason for trouble in troubles] == ["RuntimeError"]
    assert thread.stop(PATIENCE)


def test_the_thread_stops_in_the_middle_of_the_work():
    session, begun, taken = Session(), threading.Event(), []
    thread = ModelThread(session, lambda: Moment(0, 0.0), taken.append)

    def work():
        begun.set()
        while not stopping.is_set():
            yield LEARNED

    stopping = threading.Event()
    session.given.put(work())
    thread.start()
    assert begun.wait(PATIENCE)
    assert thread.stop(PATIENCE) and not thread.alive
