"""Rows that are no soundings are found, and only these: positions that the vehicle cannot have
reached, depths that a sounder holds, files that repeat each other. And depths are placed between
the positions of their log."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from poam_ros.importers.faults import POSITION_JUMP, frozen, no_position, spread
from poam_ros.importers.faults import impossible_positions as judged
from poam_ros.importers.readers import read_soundings
from poam_ros.importers.track import Track, over_midnight

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


RNG = np.random.default_rng(0)
TIMES, TRACK = survey(RNG, 1, 1.5)
OTHER = survey(RNG, 1, 1.2)[1] + (700, 200)
AWAY = excursions(np.random.default_rng(0), TIMES, TRACK)[0]
ORDER = np.random.default_rng(0).permutation(len(TIMES))


def beside(part):
    """The same with a part 120 m beside it."""
    return TRACK + np.where(np.isin(np.arange(len(TIMES)), part), 120, 0)[:, None] * (0, 1)


def both(rows):
    """Times and places of two vehicles in one file, so many rows of each in turn."""
    block = np.tile(np.arange(len(TIMES)) // rows, 2)
    order = np.lexsort((np.r_[TIMES, TIMES], np.repeat([0, 1], len(TIMES)), block))
    return np.r_[TIMES, TIMES][order], np.concatenate((TRACK, OTHER))[order]


@pytest.mark.parametrize(
    ("times", "xy", "refused", "said"),
    [
        (TIMES, beside(range(500, 700)), range(500, 700), ""),  # it comes back after minutes
        (TIMES, beside(range(30)), range(30), ""),
        (TIMES, beside(range(500, 1200)), (), "(from sounding 500 on)"),
        # In a short log, where most steps of some seconds lead to false positions or back.
        (TIMES[:330], beside([122, 125, 128])[:330], [122, 125, 128], ""),
        # After gaps, and before them.
        *((TIMES + 90.0 * (TIMES >= 600) + 90.0 * (TIMES >= 900), beside(false), false, "")
          for false in ([*range(600, 620), *range(900, 910)], [*range(590, 600), *range(870, 900)])
          ),
        # Without times, or with those of another order.
        (TIMES + np.nan, AWAY, (), ""), (0 * TIMES, AWAY, (), ""),
        (TIMES[ORDER], TRACK[ORDER], (), ""),
        # Two vehicles: what alternates at once is learned as the speed of the log.
        *((*both(rows), (), said) for rows, said in (
            (1, ""), (5, ""), (30, "times more"), (200, "or another vehicle's"))),
        *((np.arange(2 * len(TIMES)) / 2, both(rows)[1], (), "another vehicle's" * (rows > 5))
          for rows in (1, 5, 30, 200)),
    ],
)  # fmt: skip
def test_parts_beside_the_track_are_left_out_as_a_whole_or_named(times, xy, refused, said, caplog):
    assert np.flatnonzero(impossible_positions(times, xy)).tolist() == list(refused)
    assert said in caplog.text and bool(said) == bool(caplog.records)


def test_an_excursion_from_a_stop_costs_little(caplog):
    """The way out is possible, as the position had been repeated; the way back is not."""
    times, xy = np.arange(0.0, 400.0, 0.2), np.zeros((2000, 2))
    xy[:, 0] = 1.5 * np.clip(times - 100, 0, None)
    xy[400:405, 1] += 25
    out = np.flatnonzero(impossible_positions(times, xy))
    assert {*range(400, 405)} >= {*out} and "stay there" not in caplog.text


@pytest.mark.parametrize("timed", [True, False])
def test_a_table_with_times_loses_the_soundings_at_false_positions(timed, write):
    rng = np.random.default_rng(1)
    times, xy = survey(rng, 1, 1.5)
    moved, there = excursions(rng, times, xy)
    rows = (
        f"{f'{START + when:.1f},' * timed}{50 + y / DEGREE:.7f},{x / DEGREE:.7f},{3 + i % 7 / 10}"
        for i, (when, (x, y)) in enumerate(zip(times.tolist(), moved.tolist(), strict=True))
    )
    found = read_soundings(write("\n".join([f"{'time,' * timed}latitude,longitude,depth", *rows])))
    assert found.refused == Counter({POSITION_JUMP: timed * there.sum()})
    assert found.row.tolist() == np.flatnonzero(~(there & timed)).tolist()


def test_a_depth_that_is_held_is_refused_where_the_bottom_beside_it_changes(caplog):
    """Up to where the depth is the same again, or to the end of the record."""
    t = np.arange(600)
    lane, along = np.divmod(t, 60)
    xy = np.column_stack((np.where(lane % 2, 59 - along, along) * 2.0, lane * 8.0))
    depth = 6 + 2 * np.sin(xy[:, 0] / 30) + np.cos(xy[:, 1] / 25)
    again = 250 + int(np.abs(depth[250:290] - depth[199]).argmin())
    for part in (range(200, 260), range(200, again), range(500, 600), range(0)):
        held = depth.copy()
        held[part] = held[part.start - 1]
        assert np.flatnonzero(frozen("log", xy, held)).tolist() == [*part]
    for slope in (1 / 30, 1 / 3):  # of the bottom beyond a flat part
        flat = np.where(xy[:, 0] > 68, 5.0, np.round(5 + (68 - xy[:, 0]) * slope, 1))
        assert not frozen("log", xy, flat).any()
    assert not caplog.records
    # At the end of a single line nothing contradicts it.
    line, held = np.column_stack((2.0 * t, 0 * t)), np.where(t < 500, 6 + 2 * np.sin(t / 15), 7.9)
    assert not frozen("log", line, held).any()
    words = "100 soundings over 198 m have the same depth of 7.9 (from sounding 500 on): a flat"
    assert words in caplog.text


def day(path, which=slice(None), later=0.0, digits=8, fine=True, other=0.0, way=T):
    """A file of a track of 1 m/s and two pings a second, a day's or a part of it."""
    text = "time,latitude,longitude,depth\n"
    for k in T[which].tolist():
        t = START + later + 0.5 * k
        latitude, longitude = 53 + 4.5e-6 * way[k], 8 + 1e-4 * np.sin(way[k] / 40)
        depth = 5 + np.sin(way[k] / 15) + 0.02 * np.cos(k * k) + other
        place = f"{latitude:.{digits}f},{longitude:.{digits}f}"
        text += f"{t if fine else int(t)},{place},{depth:.3f}\n"
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


SECONDS = np.arange(60.0)
PLACE = np.column_stack((2 * SECONDS, np.sin(SECONDS)))


def degrees(seconds):
    seconds = np.asarray(seconds, float)
    return Track("log", seconds, np.column_stack((58 + 1e-5 * seconds, 11 + 2e-5 * seconds)))


def refused(track, at):
    """The indices of the depths that are refused, by reason."""
    found = track.refused(np.asarray(at, float))
    return {name: np.flatnonzero(these).tolist() for name, these in found.items() if these.any()}


def test_a_depth_lies_between_the_positions_before_and_after():
    found = degrees([0, 1, 2, 3]).places(np.array([0.0, 0.25, 2.5]))
    np.testing.assert_allclose(found, [[58, 11], [58.0000025, 11.000005], [58.000025, 11.00005]])
    assert refused(degrees([10, 20, 31]), [9, 10, 15, 20, 25, 31, 32]) == {
        "before_first_fix": [0], "after_last_fix": [6], "position_gap": [4],
    }  # fmt: skip
    # Across the antimeridian places stay there.
    place = np.array([[-17.0, 179.9999], [-17.0, -179.9999]])
    found = Track("log", np.array([0.0, 4.0]), place).places(np.array([1.0, 3.0]))
    np.testing.assert_allclose(found[:, 1], [179.99995, -179.99995])


def test_unknown_positions_and_zeros_are_none():
    place = np.array([[58, 11], [0, 0], [np.nan, 11], [58.00003, 11]])
    assert len(Track("log", SECONDS[:4], place)) == 2
    none = Track("log", SECONDS[:4], 0 * place)
    assert not len(none) and refused(none, [1, 2]) == {"before_first_fix": [0, 1]}
    assert np.isnan(none.places(SECONDS)).all()
    # In metres zero is a position, unless the survey lies elsewhere.
    near, far = np.array([[0, 0], [5, 5], [10, 0.0]]), np.array([[0, 0], [652e3, 6453e3]])
    assert not no_position(near, degrees=False).any()
    assert no_position(far, degrees=False).tolist() == [True, False]


@pytest.mark.parametrize("timed", [True, False])
def test_positions_may_be_interpolated_by_the_numbers_of_rows(timed):
    at, place = np.array([0.0, 10.0, 20.0, 200.0]), np.array([[0, 1], [10, 1], [20, 1], [200, 1.0]])
    seconds = at / 10 if timed else np.full(4, np.nan)
    found = Track("log", seconds, place, degrees=False, at=at)
    assert found.places(np.array([5.0]))[0].tolist() == [5, 1]
    assert refused(found, [5, 100]) == {"position_gap": [1]}


@pytest.mark.parametrize(
    ("changed", "places", "at", "lost"),
    [
        (slice(30, 31), (5000, 5000), [10.5, 29.5, 30, 32.5], None),
        # A receiver that repeats a position and then leaps knew none, but a boat may be at rest.
        (slice(20, 40), PLACE[20], SECONDS[:-1] + 0.5, [*range(20, 40)]),
        (slice(20, 60), PLACE[20] + np.clip(SECONDS[20:] - 39, 0, None)[:, None] * (1, 0),
         SECONDS[:-1] + 0.5, None),
    ],
)  # fmt: skip
def test_depths_at_false_positions_lie_between_others_or_are_refused(changed, places, at, lost):
    place = PLACE.copy()
    place[changed] = places
    track = Track("log", SECONDS, place, degrees=False)
    assert refused(track, at) == ({"position_gap": lost} if lost else {})
    assert np.nanmax(track.places(SECONDS)) < 200


def test_clocks_go_on_after_midnight_and_within_a_second():
    clock = np.array([86_398.0, np.nan, 86_399, 0, 1, 86_399, 0, 86_399.5, 1])
    found = over_midnight(clock) - 86_400
    assert found[[0, 2, 3, 4]].tolist() == [-2, -1, 0, 1]
    assert found[5:7].tolist() == [-1, 0]  # a row out of order is of its own day
    assert spread(np.array([0, 0, 1, 1, 1, 1, 2.0])).tolist() == [0, 0.5, 1, 1.25, 1.5, 1.75, 2]
