"""The sample queue and the batch policies, without a model."""

import numpy as np

from poam_ros.core.clock import SECOND
from poam_ros.core.samples import Samples
from poam_ros.frontend.batching import SampleQueue, TimedBatches, WaypointBatches


def some(count, first=0):
    return Samples.of(np.zeros((count, 2)), np.arange(count), first)


def test_all_waiting_samples_become_one_batch_in_order():
    backlog = SampleQueue(TimedBatches(batch_size=5))
    backlog.add(some(3), 0)
    backlog.add(some(0), 0)
    assert not backlog.batch_due(0)
    backlog.add(some(4, first=3), 0)
    assert backlog.batch_due(0)
    assert backlog.take().number.tolist() == list(range(7))
    assert len(backlog) == 0 and not backlog.batch_due(10**18)


def test_a_retried_batch_goes_first_and_does_not_make_the_next_one_due():
    backlog = SampleQueue(TimedBatches(batch_size=2, batch_period=10.0))
    backlog.add(some(3), 0)
    failed = backlog.take()
    backlog.add(some(1, first=3), 5 * SECOND)  # came during the update
    backlog.put_back(failed, 6 * SECOND, retry=True)
    assert not backlog.batch_due(14 * SECOND)
    assert backlog.batch_due(15 * SECOND)  # of age: counted from the new one
    assert backlog.take().number.tolist() == [0, 1, 2, 3]


def test_a_batch_put_back_without_retry_is_due_again():
    backlog = SampleQueue(TimedBatches(batch_size=2, batch_period=10.0))
    backlog.put_back(some(1), 0, retry=False)
    assert not backlog.batch_due(0) and backlog.batch_due(10 * SECOND)


def test_a_waypoint_makes_the_new_samples_due():
    backlog = SampleQueue(WaypointBatches())
    backlog.waypoint_reached()
    backlog.add(some(2), 0)
    assert not backlog.batch_due(10**18)
    backlog.waypoint_reached()
    assert backlog.batch_due(0)
    backlog.put_back(backlog.take(), 0, retry=True)
    backlog.waypoint_reached()
    assert not backlog.batch_due(0)
