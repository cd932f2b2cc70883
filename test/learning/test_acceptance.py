"""Every placed ping is accepted; verdicts withdraw it from the map or reinstate it."""

import numpy as np
import pytest

from poam_ros.screening import ScreeningSettings

ON = ScreeningSettings(enabled=True)


def mapped(survey):
    """A survey with screening and its first map."""
    s = survey(pilot_samples=30, screening=ON)
    s.learn(30)
    return s


def total(s):
    """received = accepted + pending + rejected, and accepted pings are in the map, wait for it or
    are withdrawn; returns all counts."""
    counts = s.session.ledger.counts()
    assert counts["received"] == counts["accepted"] + counts["pending"] + counts["rejected"]
    everything, out = s.session.all_samples().number, s.session.withdrawn.number
    if not s.session.status.dropped:
        assert s.session.samples == len(everything)
        assert np.union1d(everything, out).tolist() == list(range(s.session.ledger.samples))
    return counts


def test_pings_are_accepted_when_they_are_placed(survey):
    s = survey(pilot_samples=30, screening=ON)
    s.drive(29)
    assert total(s)["accepted"] == 29 == s.session.samples and not s.mapper.batches
    s.learn(1)
    assert s.mapper.batches == [30] and s.mapper.data.number.tolist() == list(range(30))


def test_a_false_echo_is_withdrawn_and_does_not_count(survey):
    s = mapped(survey)
    s.drive(10)
    s.drive(1, distance=230.0)
    s.learn(10)
    assert total(s)["accepted"] == 51 and s.session.samples == 50
    assert s.session.withdrawn.number.tolist() == [40] == s.session.withdrawn.number.tolist()
    refused = s.session.refused_and_withdrawn
    assert refused.counts == {"withdrawn": 1} and refused.xyz[0, 2] == 100.0 - 230.0
    assert s.mapper.data.number.tolist() == [*range(40), *range(41, 51)]


def test_a_batch_of_false_echoes_waits_for_the_next(survey):
    """Without a ping to learn there is no update."""
    s = mapped(survey)
    s.mapper.batches.clear()
    for _ in range(20):
        s.drive(1, distance=float(np.random.default_rng(s.now.ros_ns).uniform(150, 400)))
    s.work()
    assert len(s.session.sample_queue) in (0, 20) and total(s)["accepted"] == 50
    s.learn(20)
    assert not len(s.session.sample_queue) and total(s)["accepted"] == 70


def test_a_reset_forgets_verdicts_and_waiting_pings(survey):
    s = mapped(survey)
    s.drive(1, distance=230.0)
    s.learn(19)
    s.drive(5)
    assert s.session.samples == 54
    s.reset()
    assert s.session.samples == 0
    s.drive(4)
    assert s.session.samples == 4
    assert s.kinds() == ["ModelReset"]
    s.learn(30)
    assert s.session.all_samples().number.tolist() == list(range(34))
    assert not len(s.session.withdrawn) and total(s)


def test_a_model_that_cannot_forget_waits_for_what_follows_a_jump(survey):
    s = mapped(survey)
    s.mapper.forgets = False
    s.drive(14)
    s.learn(6, distance=40.0)  # a shoal, or fish
    assert s.mapper.samples == 44 and len(s.session.sample_queue) == 6 and total(s)
    s.mission("done")
    s.work()
    assert s.session.status.finished and not len(s.session.sample_queue)
    assert s.mapper.samples == s.session.samples == 50 - len(s.session.withdrawn)


def test_an_interruption_loses_no_ping(survey):
    s = mapped(survey)
    s.drive(20)

    def interrupt():
        raise KeyboardInterrupt

    s.mapper.during = interrupt
    with pytest.raises(KeyboardInterrupt):
        s.work()
    s.mapper.during = lambda: None
    assert len(s.session.sample_queue) == 20 and total(s)["accepted"] == 50
    s.learn(20)
    assert s.mapper.samples == 70 == total(s)["accepted"]
