"""Pings get verdicts again with every batch that comes near them; and a shift of all positions is
found where the track crosses itself."""

from dataclasses import replace

import crossing_lines
import numpy as np
import pytest
import random_lakes

from poam_ros.core.samples import Samples
from poam_ros.frontend.pings import held_readings
from poam_ros.screening.judge import BLOCK, COMPARED, Judge, PingBlocks, ShiftWatch, line_verdicts


def lake():
    """Every second sounding, 3 m apart."""
    return tuple(values[::2] for values in crossing_lines.lake())


class Mission:
    """A record that is judged as on a vehicle: a pilot survey, then batches of 20.

    ``changes``: rows that changed, what they became, and pings in the batches before.
    """

    def __init__(self, xy, z, first=150):
        stamps = np.arange(len(z)) * 10**9
        self.samples = replace(Samples.of(xy, z), stamp_ns=stamps, range=-z)
        self.blocks, self.first = PingBlocks(), first
        self.judge, self.changes = Judge(self.blocks), []

    def run(self, begin=0):
        ends = [self.first, *range(self.first + 20, len(self.samples), 20), len(self.samples)]
        for end in ends:
            if end > begin:
                self.blocks.add(self.samples[begin:end])
                change = (*self.judge.judge(end - begin), begin)
                self.judge.follow(*change)
                self.changes.append(change)
                begin = end
        return self

    @property
    def withdrawn(self):
        return np.flatnonzero(self.judge.multiple != 1)

    @property
    def turns(self):
        """How often the verdict on each ping turned after its first."""
        old = [rows[rows < begin] for rows, _, begin in self.changes]
        return np.bincount(np.concatenate(old), minlength=len(self.samples))


@pytest.mark.parametrize("factor", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("false", [3, 9, pytest.param(0, marks=pytest.mark.slow)])
def test_a_line_of_multiples_is_withdrawn_once_others_cross_it(factor, false):
    xy, z, line = lake()
    z[line == false] *= factor
    mission = Mission(xy, z).run()
    np.testing.assert_array_equal(mission.withdrawn, np.flatnonzero(line == false))
    assert set(mission.judge.multiple[mission.withdrawn]) == {factor}


def test_a_run_of_a_shallow_reflector_is_withdrawn_once_others_cross_it():
    xy, z, line = lake()
    false = (line == 2) & (abs(xy[:, 1] - 95) < 35)
    z[false] = -1.2 + 0.03 * np.random.default_rng(0).normal(size=false.sum())
    mission = Mission(xy, z).run()
    np.testing.assert_array_equal(mission.withdrawn, np.flatnonzero(false))


def test_a_range_that_is_held_is_withdrawn_when_the_bottom_shows_it():
    xy, z, line = lake()
    rows = np.flatnonzero(line == 4)[8:40]
    z[rows] = z[rows[0]]
    np.testing.assert_array_equal(Mission(xy, z).run().withdrawn, rows[1:])  # one was measured


def test_a_range_that_is_held_stays_withdrawn_when_others_pass_by_a_part_of_it():
    survey = random_lakes.random_survey(190122)
    z = np.round(survey.truth, 1)
    for begin in range(250, 2500, 450):
        z[begin : begin + 50] = z[begin]
    held, _ = held_readings(survey.xy, z, -z)
    mission = Mission(survey.xy, z).run()
    assert held.sum() > 100 and set(np.flatnonzero(held)) <= set(mission.withdrawn)


@pytest.mark.parametrize("ground", ["clean", "terrace", "offsets"])
def test_bottom_is_never_withdrawn(ground):
    xy, z, line = lake()
    if ground == "terrace":
        z[xy[:, 0] > 110] *= 2
    elif ground == "offsets":
        z[line % 2 == 0] -= 1.0
    assert not len(Mission(xy, z).run().withdrawn)


def test_withdrawn_pings_are_reinstated_when_the_odds_turn():
    """Two lines at half the depth are out when others cross them. With more lines, half of all
    depths is as likely as a bottom with banks: nothing is refused without evidence."""
    xy, z, line = lake()
    order = np.concatenate(
        [np.flatnonzero(line == k) for k in (8, 9, 3, 10, 11, 0, 1, 2, 4, 5, 6, 7)]
    )
    xy, z, line = xy[order], z[order], line[order]
    halved = (line == 8) | (line == 9)
    z[halved] /= 2
    mission = Mission(xy, z, first=60).run()
    out = [rows for rows, multiple, _ in mission.changes if (multiple != 1).sum() > 50]
    assert out and halved[out[0]].all()
    assert not len(mission.withdrawn)


def test_after_a_restart_at_any_batch_the_verdicts_are_the_same():
    xy, z, line = lake()
    z[(line == 3) | (line == 9)] *= 2
    whole = Mission(xy, z).run()
    for begin in (150, 590, 630):
        again = Mission(xy, z)
        again.blocks.add(again.samples[:begin])
        for change in whole.changes:
            if change[2] < begin:
                again.judge.follow(*change)
        np.testing.assert_array_equal(again.run(begin).judge.multiple, whole.judge.multiple)


def test_the_work_of_a_batch_is_bounded_and_distant_pings_do_not_matter(monkeypatch):
    xy, z, line = lake()
    shifts = [(300.0 * i, 250.0 * j) for i in range(3) for j in range(2)]
    z = np.concatenate([z * np.where(line == 3, 2, 1), *[z] * (len(shifts) - 1)])
    xy = np.concatenate([xy + shift for shift in shifts])
    assert len(z) > 2 * COMPARED
    compared, track = [], PingBlocks.track
    spy = lambda blocks, near: compared.append(len(near)) or track(blocks, near)  # noqa: E731
    monkeypatch.setattr(PingBlocks, "track", spy)
    mission = Mission(xy, z).run()
    assert max(compared) * BLOCK <= 3 * COMPARED  # with the blocks before and after each
    assert set(mission.withdrawn) == set(np.flatnonzero(line == 3))


def test_unknown_ranges_get_no_verdict():
    xy, z, line = lake()
    z[line == 3] *= 2
    mission = Mission(xy, z)
    mission.samples = replace(mission.samples, range=np.full(len(z), np.nan))
    assert not len(mission.run().withdrawn)


@pytest.mark.slow
def test_verdicts_turn_seldom_on_random_lakes():
    """Lakes that nobody looked at: a new block of seeds would do as well."""
    turns, lost, true = [], 0, 0
    for seed in range(8100, 8112):
        survey = random_lakes.random_survey(seed)
        if len(survey.z) <= 3000:
            mission = Mission(survey.xy, survey.z, first=len(survey.z) // 4).run()
            turns.append(mission.turns)
            sound = survey.multiple == 1
            lost += (sound & (mission.judge.multiple != 1)).sum()
            true += sound.sum()
    assert np.mean(np.concatenate(turns) > 3) <= 0.001
    assert lost <= 0.01 * true


def straight(first, x, count=40):
    """Pings numbered from ``first`` along a line north."""
    xy = np.column_stack((np.full(count, x), np.arange(count, dtype=float)))
    return Samples.of(xy, np.full(count, -20.0), first)


def test_withdrawn_lines_say_what_they_are():
    # One line, the turn after it and the way back; and one far away, which was withdrawn first.
    x, y = np.r_[np.zeros(40), 1:20, np.full(40, 20)], np.r_[:40, np.full(19, 39), 39:-1:-1]
    turned = Samples.of(np.column_stack((x, y)).astype(float), np.full(99, -20.0), 100)
    withdrawn = Samples.joined([turned, straight(300, 40.0)])
    multiple = np.repeat([2, 0, 3], [61, 38, 40])
    assert [verdict.sentence for verdict in line_verdicts(withdrawn, multiple, 2.0)] == [
        "line from (0, 0) to (1, 39): double echoes, 41 pings withdrawn",
        "line from (2, 39) to (20, 38): double echoes, 20 pings withdrawn",
        "line from (20, 37) to (20, 0): false echoes, 38 pings withdrawn",
        "line from (40, 0) to (40, 39): triple echoes, 40 pings withdrawn",
    ]


def test_single_pings_are_no_lines():
    few = straight(0, 0.0)[np.r_[:9, 30:39]]
    assert line_verdicts(few, np.zeros(18), 2.0) == []
    assert line_verdicts(few[:0], np.empty(0), 2.0) == []


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
