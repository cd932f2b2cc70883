"""Crossing lines: multiples are refused, the true bottom never."""

from pathlib import Path

import numpy as np
import pytest
from crossing_lines import ground, lake
from objects import lake_with_objects
from planted import Record, plant, refused, simulated
from random_lakes import counts, random_survey
from random_lakes import refused as multiples_of

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.outputs.held_out import split_off
from poam_ros.screening import hypotheses
from poam_ros.screening.crossings import find_crossings
from poam_ros.screening.lines import find_lines

BAJA = Path(__file__).resolve().parents[3] / "shared" / "soundings" / "baja.csv"


#: Of the lake, by its places and lines: a line, a part of one, a part that no line crosses, and a
#: quarter of all lines.
FALSE = {
    "line": lambda xy, line: line == 3,
    "part": lambda xy, line: (line == 9) & (xy[:, 0] > 60) & (xy[:, 0] < 180),
    "uncrossed": lambda xy, line: (line == 4) & (xy[:, 1] > 85) & (xy[:, 1] < 118),
    "quarter": lambda xy, line: line % 4 == 0,
}


@pytest.mark.parametrize("part", FALSE)
@pytest.mark.parametrize("factor", [2, 3])
def test_multiples_are_refused_and_nothing_else(part, factor):
    xy, z, line = lake()
    false = FALSE[part](xy, line)
    z[false] *= factor
    found = find_crossings(xy, z, line, -z)
    assert (found.multiple[false] == factor).mean() > 0.97
    assert (found.multiple[~false] == 1).all()
    if part == "line":
        own = line[found.row] == 3
        expected = (factor - 1) * ground(found.xy[own])
        np.testing.assert_allclose(found.difference[own], expected, atol=1)


def test_a_clean_lake_loses_no_sounding_and_its_crossings_agree():
    xy, z, line = lake()
    found = find_crossings(xy, z, line, -z)
    assert (found.multiple == 1).all()
    pairs = {tuple(sorted(pair)) for pair in zip(line[found.row], line[found.other], strict=True)}
    assert pairs == {(north, east) for north in range(8) for east in range(8, 12)}
    assert len(found.row) == 32 and np.abs(found.difference).max() < 1


def flat(depth):
    noise = np.random.default_rng(4).normal(size=len(lake()[1]))
    return lambda xy, z, line: np.round(-depth + 0.02 * noise, 1)


def on_one_line(factor):
    """Between two lines across."""
    there = FALSE["uncrossed"]
    return lambda xy, z, line: z * np.where(there(xy, line), factor, 1)


@pytest.mark.parametrize(
    "ground",
    [
        *map(on_one_line, (0.4, 1.6, 2.3, 2.5)),
        *map(flat, (0.6, 8.0)),
        lambda xy, z, line: z * np.where(xy[:, 0] > 110, 2, 1),  # a terrace
        lambda xy, z, line: z - (line % 2 == 0),  # lines of another level
    ],
)
def test_cliffs_pits_terraces_and_offsets_stay(ground):
    xy, z, line = lake()
    z = ground(xy, z, line)
    assert (find_crossings(xy, z, line, -z).multiple == 1).all()


@pytest.mark.parametrize("gap", [0.0, 80.0])
@pytest.mark.parametrize("slope", [0.05, 0.12, 0.5])
def test_a_line_that_comes_from_the_deep_stays(slope, gap):
    """Nothing else crosses it there; however steep and deep it is, and across a gap."""
    xy, z, line = lake()
    x, y = xy[0]
    beyond = np.arange(320.0, 0.0, -1.5)
    beyond = beyond[(beyond > 280) | (beyond < 280 - gap)]
    z = np.r_[ground(xy[:1]) - slope * beyond, z]
    xy = np.concatenate((np.column_stack((np.full(len(beyond), x), y + beyond)), xy))
    line = np.r_[np.zeros(len(beyond), dtype=int), line]
    assert (find_crossings(xy, z, line, -z).multiple == 1).all()


def test_a_range_that_comes_again_and_again_is_refused():
    """A sounder that hears itself ring, in every third ping."""
    xy, z, line = lake()
    rng = np.random.default_rng(4)
    false = rng.random(len(z)) < 0.3
    z[false] = -0.6 + 0.03 * rng.normal(size=false.sum())
    refused = find_crossings(xy, z, line, -z).multiple != 1
    assert refused[false].mean() > 0.99 and refused[~false].mean() < 0.005


def test_runs_of_a_shallow_reflector_are_refused_where_lines_cross_them():
    xy, z, line = lake()
    crossed = np.isin(line, [2, 5]) & (abs(xy[:, 1] - 95) < 35)
    another = (line == 6) & (abs(xy[:, 1] - 150) < 20)  # no line crosses it
    noise = 0.03 * np.random.default_rng(0).normal(size=len(z))
    measured = np.where(crossed, -1.2 + noise, z)
    found = find_crossings(xy, measured, line, -measured)
    np.testing.assert_array_equal(found.multiple == 0, crossed)
    shoal = np.where(another, -1.2 + noise, z)
    assert (find_crossings(xy, shoal, line, -shoal).multiple == 1).all()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
def test_isolated_false_echoes_are_refused_and_nothing_else(share):
    xy, z, line = lake()
    rng = np.random.default_rng(2)
    false = rng.random(len(z)) < share
    z[false] *= rng.uniform(1.5, 3, false.sum())
    refused = find_crossings(xy, z, line, -z).multiple != 1
    assert refused[false].mean() > 0.93 and refused[~false].mean() < 0.005


def test_bursts_of_multiples_between_terraces_are_no_cliffs():
    """Each is two cliffs, or a multiple: which is usual here, the record's other bursts tell. As
    echoes are rare beforehand, some stay that no other line is near."""
    record = simulated("terraces", 4)
    every = np.ones(len(record.z), dtype=bool)
    case = plant(record, "bursts", every)
    out = refused(record, case.z, every)
    assert out[~case.sound].mean() > 0.9 and out[case.sound].sum() <= 2


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_a_sparse_track_is_judged_by_its_other_lines(factor):
    """Steps of 14 m in 13 m of water; a step, a bank or a shoal between two soundings stays, and so
    may a false sounding at an end of the line."""
    whole = simulated("terraces")
    record = Record(*(values[::10] for values in vars(whole).values()))
    every, z, false = np.arange(len(record.z)), record.z.copy(), record.line == 6
    z[false] *= factor
    out = refused(record, z, every)
    assert not out[~false].any()
    assert out[false].mean() > 0.9 if factor > 1 else not out[false].any()


def test_double_echoes_between_gaps_are_refused_or_named():
    """Half of them lie in runs that no other line contradicts: these are named. Across a gap the
    bottom may have changed by anything."""
    record = simulated("rough")
    kept = ~split_off(record.line, 0.25, 0)
    case = plant(record, "gaps", kept)
    there = np.flatnonzero(kept & np.isfinite(case.z))
    sound, xy, z = case.sound[there], record.xy[there], case.z[there]
    found = find_crossings(xy, z, record.line[there], -z)
    out, named = found.multiple != 1, np.zeros(len(z), dtype=bool)
    for run in found.suspicious:
        named[run.rows] = True
    assert (out | named)[~sound].mean() > 0.8 and out[~sound].mean() > 0.5
    assert not out[sound].any()


def test_depths_of_zero_are_refused_but_a_shore_stays():
    xy, z, line = lake()
    z *= np.clip(xy[:, 1] / 100, 0, 1)  # a shore
    zero = np.random.default_rng(3).random(len(z)) < 0.03
    zero |= (line == 5) & (xy[:, 1] > 80) & (xy[:, 1] < 130)
    zero &= xy[:, 1] > 40
    z[zero] = 0.0
    refused = find_crossings(xy, z, line, -z).multiple != 1
    assert refused[zero].mean() > 0.97 and refused[~zero].mean() < 0.005


@pytest.mark.parametrize("first", [12.0, 14.0, 16.0])
@pytest.mark.parametrize("curve", [0.0, 4.0, 8.0])
def test_lines_along_a_bank_that_nothing_crosses_stay(first, curve):
    """The others see no slope: all lie in deep water, or on both sides of the bank."""
    y = np.arange(0, 300, 1.5)
    xy = np.concatenate([
        np.column_stack((np.full(len(y), first + 12 * i), y[:: 1 - 2 * (i % 2)])) for i in range(12)
    ])  # fmt: skip
    edge = 18 + curve * np.sin(xy[:, 1] / 60)
    basin = 14 + np.sin(xy[:, 0] / 25) + np.sin(xy[:, 1] / 35)
    depth = np.clip(1.2 + xy[:, 0] - edge, 1.2, basin)
    z = np.random.default_rng(1).normal(0, 0.05, len(xy)) - depth
    line = np.repeat(np.arange(12), len(y))
    assert (find_crossings(xy, z, line, -z).multiple == 1).all()


@pytest.mark.parametrize("count", [0, 1, 2, 19, 20, 60])
def test_short_records_are_not_screened(count):
    xy, z, line = (values[:count] for values in lake())
    found = find_crossings(xy, z, line, -z)
    assert (found.multiple == 1).all() and len(found.multiple) == count and not len(found.row)


@pytest.mark.parametrize("change", ["one line", "still", "duplicates", "dry"])
def test_unusual_records_do_not_fail(change):
    xy, z, line = lake()
    if change == "one line":
        line = np.zeros(len(z), dtype=np.int64)
    elif change == "still":
        xy = np.zeros_like(xy)
    elif change == "duplicates":
        xy, z, line = (np.repeat(values, 3, axis=0) for values in (xy, z, line))
    else:
        z = np.zeros(len(z))
    assert (find_crossings(xy, z, line, -z).multiple == 1).all()


@pytest.mark.parametrize(
    "seed", [13, *(pytest.param(n, marks=pytest.mark.slow) for n in (54, 305))]
)
def test_numpy_finds_what_the_compiled_search_does_however_many_steps_it_weighs_at_once(
    seed, monkeypatch
):
    """Of lakes with lines of several lengths, multiples, shallow runs, schools and zeros."""
    survey = random_survey(seed)
    found = multiples_of(survey)
    assert found.any()
    monkeypatch.setattr(hypotheses, "_library", None)
    for count in (1, 100, hypotheses.AT_ONCE):
        monkeypatch.setattr(hypotheses, "AT_ONCE", count)
        np.testing.assert_array_equal(multiples_of(survey), found)


def test_single_precision_makes_no_difference():
    survey = random_survey(305)
    line, (xy, r) = find_lines(survey.xy), (v.astype(np.float32) for v in (survey.xy, -survey.z))
    found = find_crossings(xy, -r, line, r).multiple
    expected = find_crossings(xy.astype(float), -r, line, r.astype(float)).multiple
    np.testing.assert_array_equal(found, expected)


def test_bottom_that_drops_where_no_sounding_was_taken_is_no_double_echo():
    """Twelve steps on, a basin is 1.75 times as deep up to the end of the line; another line, far
    away, has long runs of double echoes."""
    count, step = 300, 0.5
    basin = np.full(270, 22.5) + 0.5 * np.sin(np.arange(270) / 20)
    along = step * np.r_[np.arange(count), count + 11 + np.arange(len(basin))]
    other = step * np.arange(1500)
    echoes = np.ones(len(other))
    echoes[200:500] = echoes[900:1200] = 2
    xy = np.r_[np.c_[0 * along, along], np.c_[0 * other + 2000, other]]
    z = np.r_[np.full(count, 12.9), basin, echoes * (14 + 5 * np.sin(other / 10))]
    z *= 1 + 0.005 * np.random.default_rng(0).normal(size=len(z))
    line = np.repeat([0, 1], [len(along), len(other)])
    found = find_crossings(xy, -z, line, z)
    assert (found.multiple == 1).all()  # no other pass contradicts anything
    named = np.concatenate([run.rows for run in found.suspicious])
    np.testing.assert_array_equal(np.sort(named), len(along) + np.flatnonzero(echoes == 2))


def test_bottom_behind_a_wreck_of_half_the_depth_is_no_double_echo_of_it():
    """From the wreck on, up to the shore, nothing crosses the line."""
    rng = np.random.default_rng(0)
    along = np.arange(0, 400, 1.4)
    depth = np.minimum(12 + np.sin(along / 30), (400 - along) / 12 + 0.4)
    depth *= 1 + 0.005 * rng.normal(size=len(along))
    wreck = (along > 240) & (along < 270)
    depth[wreck] *= np.linspace(0.65, 0.5, wreck.sum())
    found = find_crossings(np.c_[along, 0 * along], -depth, np.zeros(len(along), dtype=int), depth)
    assert (found.multiple == 1).all()


@pytest.mark.parametrize("kind", ["terraces", "rough"])
def test_true_soundings_in_a_school_of_fish_stay(kind):
    """Most of the fish stay, too, as a shoal would; a map of them alone would be worse. Without a
    rule of its own for objects, 0.3 % of all soundings are lost between fish."""
    record = simulated(kind)
    case = plant(record, "fish", np.ones(len(record.z), dtype=bool))
    lost = case.sound & refused(record, case.z, np.arange(len(case.z)))
    assert lost.sum() <= 0.0035 * case.sound.sum()


@pytest.mark.skipif(not BAJA.exists(), reason="the recorded soundings are not here")
def test_soundings_without_a_track_lose_only_what_others_contradict():
    """Between ships' lines hundreds of km apart, no sounder has lost the bottom. Two runs of which
    nothing is contradicted stay."""
    found = read_soundings(BAJA, ReadOptions())
    factors = np.bincount(cross(found, SoundingMapSettings()).found.multiple, minlength=4)
    assert 27 <= factors[2] < 35 and factors[3] < 10 and factors[0] < 30


def test_lakes_drawn_at_random_keep_their_true_soundings_and_lose_their_false_ones():
    """Limits of the sums over 40 lakes that nothing was chosen on; larger ones are left out."""
    surveys = [random_survey(seed) for seed in range(51000, 51040)]
    every = np.zeros(6, dtype=np.int64)
    named = np.zeros(3, dtype=np.int64)
    for survey in (each for each in surveys if len(each.z) <= 4000):
        found = find_crossings(survey.xy, survey.z, find_lines(survey.xy), -survey.z)
        own = counts(survey, found.multiple)
        assert own[0] <= 0.05 * own[1]
        every += own
        for run in found.suspicious:
            named += np.bincount(survey.multiple[run.rows].clip(0), minlength=3)[[1, 2, 0]]
    lost, true, double, doubles, other, others = every
    assert lost <= 0.001 * true
    assert double + named[1] >= 0.75 * doubles and double >= 0.65 * doubles
    assert other + named[2] >= 0.5 * others


def test_true_objects_that_lines_cross_stay():
    surveys = [lake_with_objects(seed) for seed in (0, 1, 2, 8)]
    lost = sum(int((multiples_of(survey) != 1).sum()) for survey in surveys)
    assert lost <= 0.005 * sum(len(survey.z) for survey in surveys)
