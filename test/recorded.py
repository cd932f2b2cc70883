"""A recorded survey against what it replays to."""

import numpy as np

from poam_ros.core.clock import Moment
from poam_ros.core.samples import Samples
from poam_ros.learning.session import SurveySession
from poam_ros.learning.updater import without
from poam_ros.models.mapper import BathymetricMapper

#: What a session takes, by itself and by its front end.
TAKES = ("odometry", "ping", "tick", "mission", "reset", "waypoint_reached")
PLACES = ("mount", "water_level", "clock_set_back", "mission_source")


def recorded(session):
    """A list of all that the session takes from now on: when, by which method, with what."""
    record = []

    def recording(owner, name):
        method = getattr(owner, name)

        def take(*args):
            now = [each for each in args if isinstance(each, Moment)]
            record.append(((*now, record[-1][0] if record else Moment(0, 0.0))[0], name, args))
            return method(*args)

        setattr(owner, name, take)

    for name in TAKES:
        recording(session, name)
    for name in PLACES:
        recording(session.front_end, name)
    return record


def again(session, name, args):
    """Let a session take what another one took."""
    return getattr(session if name in TAKES else session.front_end, name)(*args)


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
    """Take what is recorded in the time it came at; a batch is learned before what follows."""
    for now, *call in record:
        yield again(session, *call)
        while session.due(now):
            yield from session.work(now)


def check_replayed(record, session):
    """Replay the record of a session, and hold what comes of it against what came of that."""
    replayed = fresh(session, session.mapper)
    outcomes = list(replay(record, replayed))
    assert replayed.ledger.counts() == session.ledger.counts()
    for counter in ("rejected", "odometry_rejected"):
        assert getattr(replayed.ledger, counter) == getattr(session.ledger, counter), counter
    accepted = Samples.joined([o for o in outcomes if isinstance(o, Samples)])
    accepted = without(accepted, replayed.withdrawn.number)
    expected = session.all_samples()
    for name in ("number", "stamp_ns", "xy", "z", "noise_std", "range", "applied"):
        np.testing.assert_array_equal(getattr(accepted, name), getattr(expected, name))
    return replayed, outcomes
