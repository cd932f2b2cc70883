"""A shift of all positions is found where the track crosses itself."""

from dataclasses import replace

import crossing_lines
import numpy as np
import pytest

from poam_ros.core.samples import Samples
from poam_ros.screening.judge import BLOCK, COMPARED, PingBlocks, ShiftWatch

NONE = np.empty(0, dtype=np.int64)
#: The lake's lines, and once more 7 m aside: places, line of each, and the first ping of these.
XY, _, LINE = crossing_lines.lake()
XY, LINE, JUMP = np.vstack((XY, XY + (7.0, 5.0))), np.r_[LINE, LINE + 12], len(XY)


def pings(shift=lambda i: np.zeros((len(i), 2)), z=lambda z: z):
    """Of the lake; positions are shifted by ``shift`` of the numbers of pings, [N, 2] in m."""
    xy, rng = XY, np.random.default_rng(1)
    elevation = z(2 * crossing_lines.ground(xy) + rng.normal(0, 0.02, len(xy)))
    stamps = np.arange(len(xy)) * 10**9
    found = Samples.of(xy + shift(np.arange(len(xy))), elevation)
    return replace(found, stamp_ns=stamps, range=-elevation)


def jumped(east, north):
    return lambda i: np.outer(i >= JUMP, (east, north))


def watched(samples, batch=20, withdrawn=NONE, position_std=0.35):
    blocks = PingBlocks()
    watch, found = ShiftWatch(blocks, position_std), []
    for begin in range(0, len(samples), batch):
        blocks.add(samples[begin : begin + batch])
        found.append(watch.decide(withdrawn))
    return watch, [shift for shift in found if shift is not None]


def test_positions_that_may_wander_as_far_show_no_shift():
    shifted = pings(jumped(-9.0, 12.0))
    assert watched(shifted)[1]
    assert not watched(shifted, position_std=0.0)[1] and not watched(shifted, position_std=10.0)[1]


@pytest.mark.parametrize("east, north", [(4.0, 3.0), (-9.0, 12.0)])
def test_a_shift_is_said_in_a_sentence(east, north):
    _, (shift, *_) = watched(pings(jumped(east, north)))
    assert JUMP <= shift.first <= JUMP + 8 * BLOCK and shift.last < JUMP + 20 * BLOCK
    assert shift.since > 4 * shift.before and shift.crossings >= 6
    assert shift.sentence == (
        f"positions may have shifted: since ping {shift.first}, {shift.crossings} crossings with "
        f"earlier lines differ by {shift.since:.1f} m, before by {shift.before:.1f} m"
    )


def test_a_drift_is_found():
    ramp = lambda i: np.outer(np.maximum(i - JUMP, 0) * 0.015, (0.6, 0.8))  # noqa: E731
    _, found = watched(pings(ramp))
    assert found and found[0].first >= JUMP


@pytest.mark.parametrize(
    "fault",
    ["none", "level", "multiples", "noise"],
)
def test_nothing_else_is_taken_for_a_shift(fault):
    rng = np.random.default_rng(2)
    z = {
        "level": lambda z: z - 1.0 * (np.arange(len(z)) >= JUMP),
        "multiples": lambda z: z * np.where(np.isin(LINE, (8, 9, 15)), 2, 1),
    }.get(fault, lambda z: z)
    off = rng.normal(0, 0.3 * (fault == "noise"), (24, 2))[LINE]
    withdrawn = np.flatnonzero(np.isin(LINE, (8, 9, 15))) if fault == "multiples" else NONE
    watch, found = watched(pings(lambda i: off, z), withdrawn=withdrawn)
    assert not found and len(watch.crossings) >= 80


def test_the_shift_is_the_same_with_other_batches_and_after_a_restart():
    samples = pings(jumped(4.0, 3.0))
    watch, found = watched(samples)
    shift = found[0]
    assert watched(samples, batch=170)[1] == found
    for end in (shift.last + 1, 2560):
        again = PingBlocks()
        again.add(samples[:end])
        restarted = ShiftWatch(again, 0.35)
        before = [each for each in found if each.last < end]
        assert restarted.decide(NONE) == restarted.found == before[-1]
        for begin in range(end, len(samples), 20):
            again.add(samples[begin : begin + 20])
            restarted.decide(NONE)
        np.testing.assert_array_equal(restarted.crossings.row, watch.crossings.row)


def test_a_second_shift_is_found_among_what_came_after_the_first():
    once, later = pings(jumped(4.0, 3.0)), pings(lambda i: np.tile((9.0, -2.0), (len(i), 1)))
    both = Samples.joined([once, later])
    both = replace(both, number=np.arange(len(both)), stamp_ns=np.arange(len(both)) * 10**9)
    _, found = watched(both)
    assert len(found) >= 2 and found[1].first > found[0].last


def test_withdrawn_pings_show_no_shift():
    samples = pings(jumped(4.0, 3.0))
    assert not watched(samples, withdrawn=np.arange(JUMP, len(samples)))[1]


@pytest.mark.slow
def test_the_work_of_a_block_is_bounded(monkeypatch):
    compared, track = [], PingBlocks.track
    spy = lambda blocks, near: compared.append(len(near)) or track(blocks, near)  # noqa: E731
    monkeypatch.setattr(PingBlocks, "track", spy)
    samples = pings(jumped(4.0, 3.0))
    whole = Samples.joined([replace(samples, xy=samples.xy + (0, 0.4 * k)) for k in range(4)])
    whole = replace(whole, number=np.arange(len(whole)), stamp_ns=np.arange(len(whole)) * 10**9)
    watched(whole)
    assert len(whole) > COMPARED and max(compared) * BLOCK <= COMPARED
