"""Rows that are no soundings are found, and only these: positions that the vehicle cannot have
reached, depths that a sounder holds, files that repeat each other."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from poam_ros.importers.faults import POSITION_JUMP, frozen
from poam_ros.importers.faults import impossible_positions as judged
from poam_ros.importers.readers import read_soundings

DEGREE = 111_320.0
COUNT, START = 200, 1_765_000_000.0
T = np.arange(COUNT)
impossible_positions = partial(judged, "lake.csv")


def survey(rng, rate, speed, minutes=20.0, still=False):
    """Times (s) and places (m) of lines with turns; ``still``: with stops, drift and circles."""
    times = np.arange(round(60 * minutes * rate)) / rate
    heading, wanted, turning, run, left = rng.uniform(0, 6), speed, 0.0, 0.0, 0.0
    now, place, places = speed, np.zeros(2), []
    for _ in times:
        if still and left <= 0:
            wanted, left = rng.choice([speed, 0.0, 0.2]), rng.uniform(10, 90)
        left, run = left - 1 / rate, run + now / rate
        if run > 150:
            turning, run = np.pi * rng.choice([-1, 1]), 0.0
        turn = np.sign(turning) * min(abs(turning), np.radians(40) / rate)
        heading, turning = heading + turn, turning - turn
        now += np.clip(wanted - now, -1.5 / rate, 1.5 / rate)
        place = place + now / rate * np.array([np.cos(heading), np.sin(heading)])
        places.append(place)
    return times, np.array(places)


def excursions(rng, times, xy, count=14):
    """The same with excursions of 1 to 4 s to places 15 to 200 m away, and where."""
    moved, there = xy.copy(), np.zeros(len(times), dtype=bool)
    for begin in np.linspace(20, times[-1] - 20, count):
        these = (times >= begin) & (times < begin + rng.integers(1, 5))
        angle = rng.uniform(0, 2 * np.pi)
        off = rng.uniform(15, 200) * np.array([np.cos(angle), np.sin(angle)])
        moved[these] += off
        there |= these
    return moved, there


@pytest.mark.parametrize("seed", range(3))
def test_excursions_are_found(seed):
    rng = np.random.default_rng(seed)
    times, xy = survey(rng, rng.choice([1, 5]), rng.uniform(0.5, 3))
    moved, there = excursions(rng, times, xy + rng.normal(0, 0.1, xy.shape))
    found = impossible_positions(times, moved)
    assert (found & there).sum() > 0.8 * there.sum() and (found & ~there).sum() < 4


@pytest.mark.parametrize("rate", [0.1, 1, 5, 10])
@pytest.mark.parametrize("speed", [0.3, 2, 6])
def test_of_a_clean_log_nothing_is_refused(rate, speed):
    """With gaps, stops, lost and repeated positions, coarse times and places, and noise."""
    rng = np.random.default_rng(7)
    for still in (False, True):
        times, xy = survey(rng, rate, speed, 20 if rate > 1 else 60, still)
        kept = rng.random(len(times)) > 0.2
        for begin in rng.uniform(0, times[-1], 3):
            kept &= (times < begin) | (times > begin + rng.uniform(30, 300))
        times, xy = times[kept], xy[kept]
        held = np.searchsorted(times, np.floor(times))  # a receiver of 1 Hz
        noisy = xy + rng.normal(0, 1, xy.shape)
        coarse = np.round(xy / DEGREE, 5) * DEGREE
        late = np.maximum.accumulate(times + rng.uniform(0, 0.9 / rate, len(times)))
        for when in (times, np.floor(times), late):
            for where in (xy, xy[held], noisy, coarse, coarse[held]):
                assert not impossible_positions(when, where).any()


@pytest.mark.parametrize(
    ("moved", "refused", "said"),
    [
        (slice(500, 700), range(500, 700), ""),  # it comes back after minutes
        (slice(30), range(30), ""),
        (slice(500, None), (), "(from sounding 500 on)"),
    ],
)
def test_a_part_beside_the_track_is_left_out_as_a_whole_or_named(moved, refused, said, caplog):
    times, xy = survey(np.random.default_rng(0), 1, 1.5)
    xy[moved] += (0, 120)
    assert np.flatnonzero(impossible_positions(times, xy)).tolist() == list(refused)
    assert said in caplog.text


def test_an_excursion_from_a_stop_costs_little(caplog):
    """The way out is possible, as the position had been repeated; the way back is not."""
    times, xy = np.arange(0.0, 400.0, 0.2), np.zeros((2000, 2))
    xy[:, 0] = 1.5 * np.clip(times - 100, 0, None)
    xy[400:405, 1] += 25
    out = np.flatnonzero(impossible_positions(times, xy))
    assert set(range(400, 405)) >= set(out) and "stay there" not in caplog.text


def test_without_times_or_with_those_of_another_order_nothing_is_refused():
    rng = np.random.default_rng(0)
    times, xy = survey(rng, 1, 1.5)
    moved, _ = excursions(rng, times, xy)
    assert impossible_positions(times, moved).any()
    assert not impossible_positions(np.full(len(times), np.nan), moved).any()
    assert not impossible_positions(np.zeros(len(times)), moved).any()
    order = rng.permutation(len(times))
    assert not impossible_positions(times[order], xy[order]).any()


@pytest.mark.parametrize("rows", [1, 5, 30, 200])
def test_of_two_vehicles_in_one_file_nothing_is_refused(rows, caplog):
    """However many rows of one follow those of the other."""
    rng = np.random.default_rng(0)
    times, first = survey(rng, 1, 1.5)
    second = survey(rng, 1, 1.2)[1] + (700, 200)
    block = np.arange(len(times)) // rows
    order = np.lexsort((np.r_[times, times], np.repeat([0, 1], len(times)), np.r_[block, block]))
    both = np.concatenate((first, second))[order]
    for when in (np.r_[times, times][order], np.arange(len(both)) / 2):
        assert not impossible_positions(when, both).any()
    # What alternates at once is learned as the speed of the log.
    assert ("as those of several vehicles do" in caplog.text) == (rows >= 30)


@pytest.mark.parametrize("timed", [True, False])
def test_a_table_with_times_loses_the_soundings_at_false_positions(timed, tmp_path):
    rng = np.random.default_rng(1)
    times, xy = survey(rng, 1, 1.5)
    moved, there = excursions(rng, times, xy)
    rows = (
        f"{f'{START + when:.1f},' * timed}{50 + y / DEGREE:.7f},{x / DEGREE:.7f},{3 + i % 7 / 10}"
        for i, (when, (x, y)) in enumerate(zip(times.tolist(), moved.tolist(), strict=True))
    )
    path = tmp_path / "a.csv"
    path.write_text("\n".join([f"{'time,' * timed}latitude,longitude,depth", *rows]) + "\n")
    found = read_soundings(path)
    assert found.refused == Counter({POSITION_JUMP: timed * there.sum()})
    assert found.row.tolist() == np.flatnonzero(~(there & timed)).tolist()


def test_rows_without_a_time_stay_where_nothing_needs_it(write):
    rows = (
        f"{START + i if i % 9 else '?'},{53 + i / 1e5},{8 + i % 7 / 1e5},{3 + i % 5}" for i in T
    )
    path = write("\n".join(["time,latitude,longitude,depth", *rows]) + "\n")
    found = read_soundings(path)
    assert len(found) == COUNT and not found.refused
    assert np.flatnonzero(found.stamp_ns == 0).tolist() == np.flatnonzero(T % 9 == 0).tolist()


def test_a_depth_that_is_held_is_refused_where_the_bottom_beside_it_changes(caplog):
    t = np.arange(600)
    lane, along = np.divmod(t, 60)
    xy = np.column_stack((np.where(lane % 2, 59 - along, along) * 2.0, lane * 8.0))
    depth = 6 + 2 * np.sin(xy[:, 0] / 30) + np.cos(xy[:, 1] / 25)
    held = depth.copy()
    held[200:260] = held[199]
    assert np.flatnonzero(frozen("log", xy, held)).tolist() == list(range(200, 260))
    # Up to where the depth is the same again, and to the end of the record.
    for begin, end in (
        (200, 200 + int(np.abs(depth[250:290] - depth[199]).argmin()) + 50),
        (500, 600),
    ):
        held = depth.copy()
        held[begin:end] = held[begin - 1]
        assert np.flatnonzero(frozen("log", xy, held)).tolist() == list(range(begin, end))
    flat = np.where(xy[:, 0] < 60, 5.0, np.round(5 + (xy[:, 0] - 60) / 30, 1))
    assert not frozen("log", xy, depth).any() and not frozen("log", xy, flat).any()
    assert not caplog.records


def day(path, which=slice(None), later=0.0, digits=8, fine=True, timed=True, other=0.0, way=T):
    """A file of a track of 1 m/s and two pings a second, a day's or a part of it."""
    text = f"{'time,' if timed else ''}latitude,longitude,depth\n"
    for k in T[which].tolist():
        t = START + later + 0.5 * k
        when = f"{t if fine else int(t)}," if timed else ""
        latitude, longitude = 53 + 4.5e-6 * way[k], 8 + 1e-4 * np.sin(way[k] / 40)
        depth = 5 + np.sin(way[k] / 15) + 0.02 * np.cos(k * k) + other
        text += f"{when}{latitude:.{digits}f},{longitude:.{digits}f},{depth:.3f}\n"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("first", "again", "repeated"),
    [
        ({}, {}, COUNT),  # a copy
        ({}, {"which": slice(60, 140)}, 80),  # a part
        ({}, {"which": slice(0, None, 2)}, COUNT // 2),  # every other sounding
        ({}, {"digits": 6}, COUNT),  # another export
        ({}, {"fine": False, "digits": 7}, COUNT),  # with whole seconds
        ({}, {"other": 0.8}, COUNT),
        ({"which": slice(0, 80)}, {"which": slice(50, None)}, 30),  # it goes on
        # Pings beside each other where a file ends are two.
        ({"which": slice(0, 101), "fine": False, "digits": 5},
         {"which": slice(101, None), "fine": False, "digits": 5}, 0),
        ({}, {"later": 86_400.0}, 0),
        ({}, {"later": 300.0, "way": T[::-1]}, 0),  # the line is gone again
        ({}, {"later": 100.0}, 0),
        ({}, {"way": T + 3}, 0),  # another boat, 1.5 m ahead
    ],
)  # fmt: skip
def test_what_a_file_repeats_of_another_is_left_out(first, again, repeated, tmp_path, caplog):
    one, two = day(tmp_path / "monday.csv", **first), day(tmp_path / "export.csv", **again)
    found = read_soundings([one, two])
    counts = [len(each.read_text().split()) - 1 for each in (one, two)]
    assert len(found) == sum(counts) - repeated and found.refused == Counter(repeated=repeated)
    said = f"export.csv: {repeated} soundings of {counts[1]} also in monday.csv"
    assert (said in caplog.text) == bool(repeated)
    assert ("depths differ by up to 0.8 m: give the right file first" in caplog.text) == (
        "other" in again
    )
    for part in found.left_out:
        assert part.reason == "repeated" and part.why == "also in monday.csv"
        np.testing.assert_array_equal(part.row, counts[0] + np.arange(repeated))


def test_a_file_that_was_joined_to_itself_is_named(tmp_path, caplog):
    log = day(tmp_path / "twice.csv")
    log.write_text(log.read_text() + log.read_text().split("\n", 1)[1])
    assert len(read_soundings([log])) == COUNT
    words = f"twice.csv: {COUNT} soundings of {COUNT} also in an earlier part of it"
    assert caplog.text.count(words) == 1


def test_without_times_only_a_copy_repeats(tmp_path):
    one, copy = (day(tmp_path / f"{name}.csv", timed=False) for name in ("one", "copy"))
    assert read_soundings([one, copy]).refused == {"repeated": COUNT}
    part = day(tmp_path / "part.csv", slice(20, 160), timed=False)
    assert not read_soundings([one, part]).refused
    # The same line again, on a coarse grid over a nearly flat bottom.
    rng = np.random.default_rng(3)
    for path in (one, copy):
        away, depth = rng.random((2, COUNT))
        rows = np.column_stack((53 + 1e-5 * (T + away), 5 + 0.1 * depth)).tolist()
        text = "".join(f"{a:.5f},8.0000{k % 3},{d:.1f}\n" for k, (a, d) in enumerate(rows))
        path.write_text("latitude,longitude,depth\n" + text)
    assert not read_soundings([one, copy]).refused
