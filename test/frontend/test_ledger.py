"""Every ping is in one state, and counted there."""

import numpy as np
import pytest

from poam_ros.core.samples import Samples
from poam_ros.frontend.ledger import Ledger
from poam_ros.frontend.refused_pings import RefusedPings


def pings(count, first=0):
    return Samples.of(np.zeros((count, 2)), np.zeros(count), first)


def states(ledger):
    """Those that are not empty, and a check of their sum."""
    received, *parts = ledger.counts().values()
    assert received == sum(parts)
    return {name: count for name, count in ledger.counts().items() if count}


def test_a_ping_moves_from_state_to_state():
    ledger = Ledger()
    for _ in range(10):
        ledger.receive()
    ledger.refuse("nan")
    assert states(ledger) == {"received": 10, "pending": 9, "rejected": 1}
    ledger.refuse("no_odometry")
    assert ledger.accept(pings(5)).number.tolist() == [0, 1, 2, 3, 4]
    assert states(ledger) == {"received": 10, "accepted": 5, "pending": 3, "rejected": 2}
    ledger.restart()
    assert states(ledger) == {"received": 10, "accepted": 5, "pending": 3, "rejected": 2}
    assert ledger.samples == 0 and not len(ledger.refused)


def test_after_a_restart_numbers_continue():
    ledger = Ledger()
    ledger.recover(40, RefusedPings.none())
    assert states(ledger) == {} and ledger.samples == 40
    ledger.receive(5)
    assert ledger.accept(pings(5)).number.tolist() == [*range(40, 45)]


@pytest.mark.parametrize("numbering", [True, False])
def test_placed_pings_keep_their_numbers(numbering):
    ledger = Ledger(numbering)
    ledger.receive(3)
    accepted = ledger.accept(pings(3, first=70))
    assert accepted.number[0] == (0 if numbering else 70)
    assert states(ledger) == {"received": 3, "accepted": 3}
