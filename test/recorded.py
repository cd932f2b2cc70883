"""A recorded survey against what it replays to."""

import numpy as np

from poam_ros.core.samples import Samples
from poam_ros.frontend.events import EventResult
from poam_ros.learning.session import SurveySession
from poam_ros.learning.withdrawals import without
from poam_ros.models.mapper import BathymetricMapper


def recorded(session):
    """A list to which every event is added that the session handles from now on."""
    record, handle = [], session.handle

    def handle_and_record(event, now):
        record.append((now, event))
        return handle(event, now)

    session.handle = handle_and_record
    return record


def fresh(session, mapper):
    """A session like this one before anything happened."""
    model = BathymetricMapper(mapper.workspace, mapper.settings, mapper.seed)
    return SurveySession(
        model,
        session.front_end.settings,
        session.sample_queue.policy,
        session.grid,
        session.pilot.samples,
        screening=session.verdicts.settings,
    )


def replay(record, session):
    """Handle recorded events in the time they came at; a batch is learned before the next event."""
    for now, event in record:
        yield session.handle(event, now)
        while session.due(now):
            yield from session.work(now)


def check_replayed(record, session):
    """Replay the record of a session, and hold what comes of it against what came of that."""
    again = fresh(session, session.mapper)
    outcomes = list(replay(record, again))
    assert again.ledger.counts() == session.ledger.counts()
    for counter in ("rejected", "odometry_rejected"):
        assert getattr(again.ledger, counter) == getattr(session.ledger, counter), counter
    accepted = Samples.joined([o.samples for o in outcomes if isinstance(o, EventResult)])
    accepted = without(accepted, again.withdrawn.number)
    expected = session.all_samples()
    for name in ("number", "stamp_ns", "xy", "z", "noise_std", "range", "applied"):
        np.testing.assert_array_equal(getattr(accepted, name), getattr(expected, name))
    return again, outcomes
