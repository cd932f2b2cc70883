"""Lines in a track that does not name them."""

from itertools import pairwise

import numpy as np
import pytest
from soundings import LINES, PER_LINE, write_survey

from poam_ros.core.errors import InputError
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.screening.lines import find_lines


def along(*corners, step=0.5):
    """Places along straight legs, with a boat's jitter; and how many there are by each corner."""
    legs = []
    for begin, end in pairwise(corners):
        a, b = np.array(begin, float), np.array(end, float)
        count = int(np.hypot(*(b - a)) / step)
        legs.append(a + (b - a) * np.arange(count)[:, None] / count)
    xy = np.concatenate(legs)
    return xy + np.random.default_rng(0).normal(0, 0.1, xy.shape), np.cumsum([len(x) for x in legs])


def test_the_lines_of_a_survey_are_found(tmp_path):
    path = write_survey(tmp_path / "log.csv")
    path.write_text(path.read_text().replace("line", "name"))
    found = read_soundings(path).grouped_by_line()
    assert found.names == tuple("123456")
    np.testing.assert_array_equal(found.group, np.repeat(np.arange(LINES), PER_LINE))
    named = read_soundings(path, ReadOptions(by="name"))
    np.testing.assert_array_equal(named.group, found.group)


def test_a_line_goes_on_over_gaps_and_gentle_curves():
    xy, _ = along((0, 0), (100, 0), (190, 20))
    whole = np.delete(xy, np.s_[60:110], axis=0)
    assert set(find_lines(whole)) == {0}
    stopped = np.repeat(whole, 3, axis=0)  # each position comes three times
    assert set(find_lines(stopped)) == {0}


def test_turns_end_lines_where_the_track_came_to():
    xy, ends = along((0, 0), (100, 0), (100, 30), (0, 30), (0, 35), (100, 35))
    group = find_lines(xy)
    for turn in ends[[0, 1]]:
        before, after = group[turn - 40 : turn - 8], group[turn + 8 : turn + 40]
        assert len({*before}) == len({*after}) == 1 and after[0] == before[0] + 1
    assert 4 <= group[-1] + 1 <= 5  # the way of 5 m to the last one may belong to a neighbour
    assert np.ptp(group[ends[3] + 10 :]) == 0


def test_what_is_no_track_has_no_lines(tmp_path):
    rows = np.random.default_rng(1).uniform(0, 1000, (300, 2))
    path = tmp_path / "log.csv"
    path.write_text("x,y,z\n" + "".join(f"{x},{y},{-3 - x / 500}\n" for x, y in rows))
    with pytest.raises(InputError, match="no survey lines found in the track: 300"):
        read_soundings(path).grouped_by_line()
    path.write_text("x,y,z\n" + "5,5,-3\n" * 9)  # at one place
    assert read_soundings(path).grouped_by_line().names == ("1",)
