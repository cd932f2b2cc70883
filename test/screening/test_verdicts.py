"""Accepted pings are withdrawn and reinstated when other lines cross theirs, batch by batch."""

from dataclasses import replace

import crossing_lines
import numpy as np
import pytest

from poam_ros.core.samples import Samples
from poam_ros.screening.blocks import LiveCrossings, PingBlocks
from poam_ros.screening.verdicts import MAX_PINGS, NEWEST, LineVerdicts, withdrawn_lines


def lake():
    """Every second sounding, 3 m apart."""
    return tuple(values[::2] for values in crossing_lines.lake())


class Mission:
    """A record that is compared as on a vehicle: a pilot survey, then batches of 20."""

    def __init__(self, xy, z, first=150):
        stamps = np.arange(len(z)) * 10**9
        self.samples = replace(Samples.of(xy, z), stamp_ns=stamps, range=-z)
        self.blocks, self.first = PingBlocks(), first
        self.verdicts = LineVerdicts(self.blocks)
        self.withdrawn, self.sentences = np.empty(0, dtype=np.int64), []
        self.most = 0  # pings compared with one batch

    def run(self, begin=0):
        ends = [self.first, *range(self.first + 20, len(self.samples), 20), len(self.samples)]
        for end in ends:
            if end <= begin:
                continue
            self.blocks.add(self.samples[begin:end])
            before = self.verdicts.compared
            for verdict in self.verdicts.decide(end - begin, self.withdrawn):
                change = np.setdiff1d if verdict.multiple == 1 else np.union1d
                self.withdrawn = change(self.withdrawn, verdict.pings.number)
                self.sentences.append(verdict.sentence)
            self.most, begin = max(self.most, self.verdicts.compared - before), end
        return self


@pytest.mark.parametrize("factor", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("false", [3, 9, pytest.param(0, marks=pytest.mark.slow)])
def test_a_line_of_multiples_is_withdrawn_once_others_cross_it(factor, false):
    xy, z, line = lake()
    z[line == false] *= factor
    mission = Mission(xy, z).run()
    np.testing.assert_array_equal(mission.withdrawn, np.flatnonzero(line == false))
    name = {2: "double", 3: "triple"}[factor]
    assert all(f": {name} echoes, " in text for text in mission.sentences)
    if false == 3:  # an early line is withdrawn as a whole by the first that crosses it
        assert mission.sentences == [
            "line from (105, 0) to (106, 198): 1 crossing, "
            f"median {-15.6 if factor == 2 else -31.2} m: {name} echoes, 67 pings withdrawn"
        ]


def test_a_run_of_a_shallow_reflector_is_withdrawn_once_others_cross_it():
    xy, z, line = lake()
    false = np.isin(line, [2, 5]) & (abs(xy[:, 1] - 95) < 35)
    z[false] = -1.2 + 0.03 * np.random.default_rng(0).normal(size=false.sum())
    mission = Mission(xy, z).run()
    np.testing.assert_array_equal(mission.withdrawn, np.flatnonzero(false))
    assert mission.sentences == [
        "line from (73, 128) to (77, 62), by the lines beside it: false echoes, 23 pings withdrawn",
        "line from (167, 63) to (163, 129), by the lines beside it: false echoes, 23 pings "
        "withdrawn",
    ]


@pytest.mark.parametrize("ground", ["clean", "pit", "terrace", "offsets"])
def test_bottom_is_never_withdrawn_and_costs_nothing_where_lines_agree(ground):
    xy, z, line = lake()
    if ground == "pit":  # between two lines across, exactly twice as deep
        z[(line == 4) & (xy[:, 1] > 85) & (xy[:, 1] < 118)] *= 2
    elif ground == "terrace":
        z[xy[:, 0] > 110] *= 2
    elif ground == "offsets":
        z[line % 2 == 0] -= 1.0
    mission = Mission(xy, z).run()
    assert not len(mission.withdrawn) and not mission.sentences
    assert ground == "terrace" or mission.verdicts.compared == 0


def test_a_slope_into_water_three_times_as_deep_is_not_withdrawn():
    xy, z, _ = crossing_lines.lake()
    x, y = xy[0]
    beyond = np.arange(300.0, 0.0, -1.5)
    deep = crossing_lines.ground(xy[:1]) - 0.12 * beyond
    xy = np.concatenate((np.column_stack((np.full(len(beyond), x), y + beyond)), xy))
    assert not Mission(xy, np.r_[deep, z], first=200).run().sentences


@pytest.mark.slow
def test_true_pings_are_reinstated_though_three_of_four_crossing_lines_are_shallow():
    xy, z, line = lake()
    order = np.concatenate([np.flatnonzero(line == k) for k in (8, 9, 10, 3, 4, 5, 6, 7, 11, 0, 1)])
    xy, z, line = xy[order], z[order], line[order]
    z[(line >= 8) & (line < 11)] /= 2
    mission = Mission(xy, z, first=60).run()
    assert any(" withdrawn" in text for text in mission.sentences)
    assert not len(mission.withdrawn)


@pytest.mark.slow
def test_after_a_restart_at_any_batch_the_verdicts_are_the_same():
    xy, z, line = lake()
    z[(line == 3) | (line == 9)] *= 2
    whole = Mission(xy, z).run()
    for begin in (150, 570, 590, 630, 750):
        known = Mission(xy[:begin], z[:begin]).run()
        again = Mission(xy, z)
        again.blocks.add(again.samples[:begin])
        again.withdrawn = known.withdrawn
        np.testing.assert_array_equal(again.run(begin).withdrawn, whole.withdrawn)
        assert known.sentences + again.sentences == whole.sentences


def test_the_work_of_a_batch_is_bounded_and_distant_pings_do_not_matter():
    xy, z, line = lake()
    shifts = [(300.0 * i, 250.0 * j) for i in range(5) for j in range(4)]
    z = np.concatenate([z * np.where(line == 3, 2, 1), *[z] * (len(shifts) - 1)])
    xy = np.concatenate([xy + shift for shift in shifts])
    assert len(z) > 6 * MAX_PINGS
    mission = Mission(xy, z).run()
    assert 0 < mission.most <= MAX_PINGS
    assert set(mission.withdrawn) == set(np.flatnonzero(line == 3))


def test_unknown_ranges_get_no_verdict():
    xy, z, line = lake()
    z[line == 3] *= 2
    mission = Mission(xy, z)
    mission.samples = replace(mission.samples, range=np.full(len(z), np.nan))
    assert not len(mission.run().withdrawn)


def straight(first, x, count=40):
    """Pings numbered from ``first`` along a line north."""
    xy = np.column_stack((np.full(count, x), np.arange(count, dtype=float)))
    return Samples.of(xy, np.full(count, -20.0), first)


def test_withdrawn_lines_say_what_their_crossings_with_lines_in_use_show():
    # One line, the turn after it and the way back; and one far away, which was withdrawn first.
    x, y = np.r_[np.zeros(40), 1:20, np.full(40, 20)], np.r_[:40, np.full(19, 39), 39:-1:-1]
    turned = Samples.of(np.column_stack((x, y)).astype(float), np.full(99, -20.0), 100)
    withdrawn = Samples.joined([straight(300, 40.0), turned])
    late, early = np.array([400, 404, 408, 300, 500]), np.array([104, 120, 10, 100, 304])
    difference = np.array([8.0, 10.0, 0.1, 5.0, 20.0])
    ranges = np.array([[10.0, 20.0], [10.0, 21.0], [10.0, 10.0], [20.0, 20.0], [10.0, 31.0]])
    crossings = LiveCrossings(late, early, difference, np.full(5, 0.1), ranges)
    multiple = np.repeat([3, 2, 0], [40, 61, 38])
    lines = withdrawn_lines(withdrawn, multiple, crossings, 2.0)
    assert [verdict.sentence for verdict in lines] == [
        "line from (20, 37) to (20, 0), by the lines beside it: false echoes, 38 pings withdrawn",
        "line from (2, 39) to (20, 38), by the lines beside it: double echoes, 20 pings withdrawn",
        "line from (0, 0) to (1, 39): 2 crossings, median -9.0 m: double echoes, "
        "41 pings withdrawn",
        "line from (40, 0) to (40, 39): 1 crossing, median -20.0 m: triple echoes, "
        "40 pings withdrawn",
    ]


def test_the_newest_withdrawn_lines_are_reported():
    lines = [straight(100 * i, 5.0 * i) for i in range(NEWEST + 3)]
    withdrawn, none = Samples.joined(lines[::-1]), LiveCrossings.none()
    found = withdrawn_lines(withdrawn, np.zeros(len(withdrawn)), none, 2.0)
    assert [verdict.pings.number[0] for verdict in found] == [100 * i for i in range(NEWEST)]
    assert withdrawn_lines(Samples.empty(), np.empty(0), none, 2.0) == []
