"""From placed to accepted: every ping is counted in its state, whatever happens."""

import numpy as np
import pytest

from poam_ros.frontend.batching import TimedBatches
from poam_ros.frontend.events import MissionStateChanged, PingsScreened, ResetRequested, Tick
from poam_ros.screening.screen import ScreeningSettings

ON = ScreeningSettings(enabled=True)
BATCHES = TimedBatches(batch_size=20, batch_period=3600.0)


def mapped(survey):
    """A survey with screening and its first map."""
    s = survey(pilot_samples=30, screening=ON)
    s.learn(30)
    return s


def total(s):
    """received = accepted + held + pending + rejected; returns all counts."""
    counts = s.session.ledger.counts()
    parts = counts["accepted"] + counts["held"] + counts["pending"] + counts["rejected"]
    assert counts["received"] == parts
    return counts


def test_pings_are_accepted_when_their_batch_is_due(survey):
    s = survey(pilot_samples=30, screening=ON)
    s.drive(29)
    assert s.samples == [] and s.session.samples == 0 and total(s)["pending"] == 29
    judged, *_ = s.learn(1)
    assert judged.accepted.number.tolist() == list(range(30)) and len(judged.refused) == 0
    assert total(s)["accepted"] == 30 == s.session.samples and s.mapper.batches == [30]


def test_a_false_echo_is_refused_by_name(survey):
    s = mapped(survey)
    s.drive(10)
    s.drive(1, distance=230.0)
    s.learn(10)
    assert s.session.ledger.rejected == {"false_echo": 1} and total(s)["accepted"] == 50
    assert s.session.all_samples().number.tolist() == list(range(50))


def test_held_pings_are_refused_when_the_mission_is_done(survey):
    s = mapped(survey)
    s.drive(8)
    s.drive(12, distance=230.0)
    *_, judged = [o for o in s.work() if isinstance(o, PingsScreened)]
    assert len(judged.held) == 12 == total(s)["held"] == len(s.session.held)
    s.handle(MissionStateChanged("done"))
    *_, finished = s.work()
    assert total(s)["held"] == 0 and s.session.ledger.rejected["false_echo"] == 12
    assert len(finished.samples) == 38


def test_a_reset_refuses_held_and_unscreened_pings(survey):
    s = mapped(survey)
    s.learn(20, distance=230.0)
    s.drive(5)
    s.handle(ResetRequested())
    assert s.session.ledger.rejected == {"reset": 25} and total(s)["held"] == 0
    s.drive(4)
    assert s.kinds() == ["ModelReset"]
    s.learn(30)
    assert s.session.all_samples().number.tolist() == list(range(34)) and total(s)


def test_a_reset_during_screening_refuses_the_pings(survey):
    s = mapped(survey)
    s.drive(20)
    predict = s.mapper.predict

    def predict_and_reset(xy):
        s.handle(ResetRequested())
        return predict(xy)

    s.mapper.predict = predict_and_reset
    assert s.kinds() == ["ModelReset"]
    assert total(s)["rejected"] == 20 and s.session.samples == 0


def test_pings_after_a_pending_reset_wait_for_it(survey):
    s = mapped(survey)
    s.drive(20)
    s.session._problem = "of other rules"  # reported before the first screening
    work = s.session.work(s.now)
    next(work)
    s.handle(ResetRequested())
    s.drive(30)
    list(work)
    s.work()
    assert total(s)["accepted"] == 60 and s.session.samples == 30 and total(s)["pending"] == 0


def test_without_predictions_pings_are_screened_without_the_map(survey):
    s = mapped(survey)
    s.mapper.unpredictable = True
    s.drive(20)
    assert s.kinds() == ["Problem", "PingsScreened", "BatchLearned", "MapDrawn"]
    assert total(s)["accepted"] == 50


def test_an_interruption_loses_no_ping(survey):
    s = mapped(survey)
    s.drive(20)
    predict = s.mapper.predict

    def interrupt(xy):
        raise KeyboardInterrupt

    s.mapper.predict = interrupt
    with pytest.raises(KeyboardInterrupt):
        s.work()
    s.mapper.predict = predict
    assert total(s)["pending"] == 20
    s.learn(20)
    assert total(s)["accepted"] == 70


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 12))]
)
def test_no_ping_is_ever_lost_or_counted_twice(survey, seed):
    """At random: echoes, gaps, failures, pauses, resets and ends of missions."""
    rng = np.random.default_rng(seed)
    settings = ScreeningSettings(enabled=True, held_pings=int(rng.integers(0, 40)))
    s = survey(pilot_samples=20, policy=BATCHES, screening=settings)
    states = ("pilot", "exploring", "paused", "done")
    for _ in range(120):
        kind = rng.integers(12)
        if kind < 6:
            s.drive(int(rng.integers(1, 30)))
        elif kind < 9:
            s.drive(int(rng.integers(1, 15)), distance=float(rng.uniform(50, 400)))
        elif kind == 9:
            s.handle(MissionStateChanged(states[rng.integers(4)]))
        elif kind == 10:
            s.ping(float("nan"))
            s.wait(float(rng.uniform(0, 30)))
            s.handle(Tick())
        elif rng.random() < 0.3:
            s.handle(ResetRequested())
        total(s)
        s.work()
        total(s)
        assert len(s.session.held) == total(s)["held"] <= settings.held_pings
        everything = s.session.all_samples().number
        assert everything.tolist() == list(range(s.session.samples))


def test_slow_screening_takes_no_more_pings(survey):
    s = survey(pilot_samples=1000, screening=ON)
    s.session.queue.capacity = 25
    s.drive(40)
    assert s.session.ledger.rejected == {"overload": 15} and total(s)["pending"] == 25
