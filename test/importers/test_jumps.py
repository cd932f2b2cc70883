"""Positions that the vehicle cannot have reached: found, and only these."""

from functools import partial

import numpy as np
import pytest

from poam_ros.importers.faults import POSITION_JUMP
from poam_ros.importers.faults import impossible_positions as judged
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

DEGREE = 111_320.0
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


def test_what_comes_back_after_minutes_is_left_out_as_a_whole():
    rng = np.random.default_rng(0)
    times, xy = survey(rng, 1, 1.5)
    xy[500:700] += (0, 120)
    assert np.flatnonzero(impossible_positions(times, xy)).tolist() == list(range(500, 700))


def test_a_jump_that_stays_is_named(caplog):
    rng = np.random.default_rng(0)
    times, xy = survey(rng, 1, 1.5)
    xy[500:] += (0, 120)
    assert not impossible_positions(times, xy).any()
    assert "(from sounding 500 on)" in caplog.text


def test_a_false_begin_is_left_out():
    rng = np.random.default_rng(0)
    times, xy = survey(rng, 1, 1.5)
    xy[:30] += (0, 120)
    assert np.flatnonzero(impossible_positions(times, xy)).tolist() == list(range(30))


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


def table(path, times, xy, written=True, wrong=()):
    clock = [f"2025-01-{13 + int(t) // 86400} {np.datetime64(int(1000 * t), 'ms').item():%H:%M:%S}"
             for t in times.tolist()]  # fmt: skip
    head = "time,latitude,longitude,depth\n" if written else "latitude,longitude,depth\n"
    with path.open("w") as file:
        file.write(head)
        for i, (when, (x, y)) in enumerate(zip(clock, xy.tolist(), strict=True)):
            when = "?" if i in wrong else when
            first = f"{when}," if written else ""
            file.write(f"{first}{50 + y / DEGREE:.7f},{x / DEGREE:.7f},{3 + i % 7 / 10}\n")
    return path


def test_a_table_with_times_loses_the_soundings_at_false_positions(tmp_path):
    rng = np.random.default_rng(1)
    times, xy = survey(rng, 1, 1.5)
    moved, there = excursions(rng, times, xy)
    found = read_soundings(table(tmp_path / "a.csv", times, moved))
    assert found.refused == {POSITION_JUMP: there.sum()}
    assert found.row.tolist() == np.flatnonzero(~there).tolist()
    assert not read_soundings(table(tmp_path / "b.csv", times, xy)).refused
    assert not read_soundings(table(tmp_path / "c.csv", times, moved, written=False)).refused


def test_rows_without_a_time_stay_where_nothing_needs_it(tmp_path):
    rng = np.random.default_rng(1)
    times, xy = survey(rng, 1, 1.5)
    path = table(tmp_path / "a.csv", times, xy, wrong=(5, 6, 100))
    found = read_soundings(path)
    assert len(found) == len(times) and not found.refused
    assert np.flatnonzero(found.stamp_ns == 0).tolist() == [5, 6, 100]
    assert read_soundings(path, ReadOptions(times=True)).refused == {"no_time": 3}
