"""Milliseconds since boot on this computer's clock: delays, drift, a reboot, a full counter."""

import numpy as np
import pytest

from poam_ros.core.clock import SECOND
from poam_ros.mavlink.boot_clock import WRAP_MS, BootClock

BOOTED = 1_700_000_000 * SECOND


def stamps(clock, boot_ms, delay_s, drift=0.0):
    """Errors in s of the stamps of messages after such delays, by a clock that is too fast."""
    errors = []
    for ms, late in zip(boot_ms, delay_s, strict=True):
        measured = BOOTED + ms * 1_000_000
        counted = round(ms * (1 + drift))
        errors.append((clock.stamp(counted, measured + round(late * SECOND)) - measured) / SECOND)
    return np.array(errors)


def test_stamps_are_late_by_the_shortest_delay_alone():
    rng = np.random.default_rng(0)
    delay = 0.02 + rng.exponential(0.1, 1000)
    errors = stamps(BootClock(), range(0, 100_000, 100), delay)
    assert (errors <= delay + 1e-9).all()  # never in the future
    assert np.abs(errors[100:] - 0.02).max() < 0.01


def test_clocks_that_differ_do_not_drift_apart():
    """50 ppm over an hour are 0.18 s; a minute of it is 3 ms."""
    for drift in (-5e-5, 5e-5):
        ms = range(0, 3_600_000, 200)
        assert np.abs(stamps(BootClock(), ms, [0.02] * len(ms), drift)).max() < 0.03


def test_the_age_of_what_waited_in_a_queue():
    clock = BootClock()
    stamps(clock, range(0, 10_000, 100), [0.02] * 100)
    assert clock.age_s == pytest.approx(0.0, abs=1e-6)
    (error,) = stamps(clock, [10_000], [20.0])
    assert clock.age_s == pytest.approx(19.98) and error == pytest.approx(0.02)


def test_a_reboot_is_counted_and_a_counter_overflow_is_not():
    clock = BootClock()
    stamps(clock, range(60_000, 70_000, 100), [0.02] * 100)
    later = BOOTED + 100 * SECOND
    assert clock.stamp(500, later) == later and clock.boots == 1
    clock = BootClock()
    first = clock.stamp(WRAP_MS - 100, BOOTED)
    assert clock.stamp(100, BOOTED + SECOND // 5) - first == SECOND // 5 and not clock.boots


def test_messages_out_of_order_do_not_count_as_a_reboot():
    clock = BootClock()
    stamps(clock, [5000, 5100, 4900, 5200], [0.02, 0.02, 0.3, 0.02])
    assert not clock.boots
