"""A survey from a record of what happened: the same pings, the same refusals, the same samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..clock import Moment
from ..survey.events import Event, Handled, Outcome
from ..survey.session import Session


def replay(record: Iterable[tuple[Moment, Event]], session: Session) -> Iterator[Handled | Outcome]:
    """Feed recorded events to a session, in the time they came at, and run its model when due.

    Nobody waits: the model has learned a batch before the next event comes.
    """
    for now, event in record:
        yield session.handle(event, now)
        while session.due(now):
            yield from session.work(now)
