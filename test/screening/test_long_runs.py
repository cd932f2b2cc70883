"""A long run of soundings is refused only if soundings of another pass contradict it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.screening.crossings import find_crossings
from poam_ros.screening.lines import find_lines

NOISE = 0.01  # of the depth
RECORDS = Path(__file__).resolve().parents[3] / "shared" / "soundings"


def judged(xy, depth):
    return find_crossings(xy, -depth, find_lines(xy), depth)


def trip(rng, step=2.0, shoal=1.6, singles=6, together=5, deepest=8.7):
    """Depths [N] along one track that nothing crosses, and which are single false readings [N]: a
    shoal, later single shallow readings and some in a row, then on into deeper water."""
    over = 2.5 + 2.5 * np.cos(np.linspace(0, 2 * np.pi, 645))
    depth = shoal + (5.0 - shoal) * over / 5.0
    flat = np.interp(np.arange(400), [0, 60], [5.0, 5.6])
    on = np.linspace(5.6, deepest, 300)
    depth = np.concatenate((depth, flat, on)) * (1 + NOISE * rng.normal(size=1345))
    single = np.zeros(len(depth), dtype=bool)
    single[645 + 60 + rng.choice(np.arange(0, 320, 8), singles, replace=False)] = True
    row = single.copy()
    row[645 + 400 - together : 645 + 400] = True
    depth[row] = rng.uniform(1.4, 1.9, row.sum())
    along = step * np.arange(len(depth))
    bend = rng.uniform(200, 2000)
    return np.column_stack((along, 40 * np.sin(along / bend))), np.round(depth, 2), single, row


@pytest.mark.parametrize("seed", range(51))
def test_a_trip_loses_its_single_false_readings_and_nothing_else(seed):
    rng = np.random.default_rng(seed)
    more = {} if seed == 0 else {
        "step": rng.uniform(0.5, 4.0), "shoal": rng.uniform(1.4, 2.0),
        "singles": int(rng.integers(1, 12)), "together": int(rng.integers(2, 12)),
        "deepest": rng.uniform(5.8, 14.0),
    }  # fmt: skip
    xy, depth, single, row = trip(rng, **more)
    out = judged(xy, depth).multiple != 1
    assert out[single].all() and not out[~row].any()


def test_a_trip_loses_the_same_wherever_it_begins():
    """Verdicts do not depend on what was recorded long before; but a few false readings in a row
    may be nonsense, or a rock, as nonsense is rare or not."""
    rng = np.random.default_rng(0)
    xy, depth, single, row = trip(rng)
    few = row & ~single
    whole = judged(xy, depth).multiple
    for cut in np.linspace(40, len(depth) - 60, 30).astype(int):
        changed = judged(xy[cut:], depth[cut:]).multiple != whole[cut:]
        assert changed[~few[cut:]].sum() <= 3


@pytest.mark.parametrize("seed", range(4))
def test_a_sounder_that_lost_the_bottom_is_refused_and_a_reef_stays(seed):
    """Some readings in a row of a few decimetres, as of the transmitted pulse; and a reef of as
    little depth, which the bottom rises to."""
    rng = np.random.default_rng(seed)
    along = 4.0 * np.arange(900)
    depth = 10 + 4 * np.sin(along / 90) + 0.1 * rng.normal(size=900)
    reef = np.abs(along - 2000) < 60
    depth = np.minimum(depth, 0.4 + np.maximum(np.abs(along - 2000) - 60, 0) / 6)
    lost = np.zeros(900, dtype=bool)
    for begin in range(40, 400, 40):
        lost[begin : begin + int(rng.integers(1, 12))] = True
    depth[lost] = 0.03 * rng.uniform(7, 16, lost.sum())
    out = judged(np.column_stack((along, 30 * np.sin(along / 700))), depth).multiple != 1
    assert out[lost].mean() > 0.95 and out[~lost].sum() <= 2 and not out[reef].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_few_readings_that_are_deeper_than_they_are_long_are_refused(seed):
    """Of 20 to 30 m amid less than a metre; five of them are not as long as they are deep."""
    rng = np.random.default_rng(seed)
    along = 2.0 * np.arange(600)
    depth = 0.8 + 0.1 * np.sin(along / 60) + 0.01 * rng.normal(size=600)
    deep = np.isin(np.arange(600) // 5, (20, 50, 80))
    depth[deep] = rng.uniform(20, 30, deep.sum())
    out = judged(np.column_stack((along, 30 * np.sin(along / 700))), depth).multiple != 1
    np.testing.assert_array_equal(out, deep)


BOTTOMS = {
    "rising": lambda s: 12 - s / 250,
    "falling": lambda s: 3 + s / 120,
    "terraces": lambda s: 4.0 + 2.5 * np.floor(s / 400),
    "rough": lambda s: 8 + 2 * np.sin(s / 11) + 1.5 * np.sin(s / 4.3),
    "flat": lambda s: 6 + 0 * s,
    "shoal": lambda s: 10 - 8 * np.exp(-(((s - 700) / 150) ** 2)),
}
FAULTS = {
    "a third": (1 / 3, 70), "a half": (0.5, 120), "twice": (2.0, 90), "three times": (3.0, 40),
    "something else": (1.7, 60), "the rest twice": (2.0, 2000), "the rest a half": (0.5, 2000),
}  # fmt: skip


def track(bottom, rng, step=1.5):
    """Places and depths along a track with a gap, and single dropouts to nothing."""
    along = step * np.arange(1000)
    along[500:] += rng.uniform(0, 60)
    depth = BOTTOMS[bottom](along) * (1 + NOISE * rng.normal(size=len(along)))
    depth[rng.uniform(size=len(along)) < 0.01] = 0.0
    return np.column_stack((along, 20 * np.sin(along / 300))), depth


def long_runs(xy, depth, out):
    """Rows of the runs of refused soundings that are longer than 20, or five depths."""
    rows = np.flatnonzero(depth > 0.05)
    run = np.cumsum(np.r_[True, np.diff(out[rows]) != 0])
    parts = np.split(rows[out[rows]], np.flatnonzero(np.diff(run[out[rows]])) + 1)
    usual = np.median(depth[rows])
    return [
        part for part in parts
        if len(part) > 20 or (len(part) > 1 and np.hypot(*(xy[part[-1]] - xy[part[0]])) > 5 * usual)
    ]  # fmt: skip


@pytest.mark.parametrize("bottom", BOTTOMS)
@pytest.mark.parametrize("fault", ["nothing", *FAULTS, "noise"])
def test_a_long_run_that_nothing_crosses_stays(bottom, fault):
    rng = np.random.default_rng([list(BOTTOMS).index(bottom), len(fault)])
    xy, depth = track(bottom, rng)
    if fault == "noise":
        depth[600:700] *= rng.uniform(0.3, 3.5, 100)
    elif fault != "nothing":
        factor, count = FAULTS[fault]
        depth[600 : 600 + count] *= factor
    found = judged(xy, depth)
    assert not long_runs(xy, depth, found.multiple != 1)
    for run in found.suspicious:  # they stay, and are named
        assert (found.multiple[run.rows] == 1).all() and not run.crossed
        assert run.sentence.endswith("and nothing crosses it")


@pytest.mark.parametrize("factor, words", [(2, "twice"), (3, "three times")])
def test_a_run_of_multiples_is_named_if_nothing_crosses_it_and_refused_if_a_line_does(
    factor, words
):
    rng = np.random.default_rng(3)
    xy, depth = track("flat", rng)
    false = np.arange(600, 690)
    depth[false] *= factor
    found = judged(xy, depth)
    (run,) = found.suspicious
    assert set(run.rows) <= set(false) and len(run.rows) > 80 and run.multiple == factor
    assert run.sentence == f"{words} the depth beside it, and nothing crosses it"
    x, y = xy[645]
    across = np.arange(-120, 120, 1.5)
    xy = np.concatenate((xy, np.column_stack((np.full(len(across), x), y + across))))
    depth = np.r_[depth, 6 * (1 + NOISE * rng.normal(size=len(across)))]
    found = judged(xy, depth)
    assert not found.suspicious
    assert (found.multiple[false][depth[false] > 0] == factor).all()
    assert not long_runs(xy, depth, (found.multiple != 1) & ~np.isin(np.arange(len(depth)), false))


@pytest.mark.parametrize("bottom", BOTTOMS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_long_run_that_crossings_agree_with_is_never_refused(bottom, fault):
    """It is the bottom, seen by the lines across, too."""
    rng = np.random.default_rng([list(BOTTOMS).index(bottom), len(fault), 1])
    xy, depth = track(bottom, rng)
    factor, count = FAULTS[fault]
    run = np.arange(600, min(600 + count, len(depth)))
    depth[run] *= factor
    parts = [xy]
    depths = [depth]
    for row in run[10::25]:
        across = np.arange(-60, 60, 1.5)
        parts.append(np.column_stack((np.full(len(across), xy[row, 0]), xy[row, 1] + across)))
        usual = np.median(depth[max(row - 3, 600) : row + 4])
        depths.append(usual * (1 + NOISE * rng.normal(size=len(across))))
    xy, depth = np.concatenate(parts), np.concatenate(depths)
    out = judged(xy, depth).multiple != 1
    assert not long_runs(xy, depth, out & np.isin(np.arange(len(depth)), run))


@pytest.mark.parametrize("name", ["metzabok", "caputh", "grohn", "bay_feet", "baja"])
def test_no_long_run_of_a_record_is_refused_unless_another_pass_contradicts_it(name):
    path = RECORDS / f"{name}.csv"
    if not path.exists():
        pytest.skip("the recorded soundings are not here")
    columns = {"latitude": "4", "longitude": "5", "depth": "3"} if name == "grohn" else {}
    soundings = read_soundings(path, ReadOptions(columns, trusted=True))
    found = cross(soundings, SoundingMapSettings()).found
    depth, out = -soundings.z, found.multiple != 1
    travelled = np.r_[0.0, np.cumsum(np.hypot(*np.diff(soundings.xy, axis=0).T))]
    kept = np.flatnonzero(~out)
    tree = cKDTree(soundings.xy[kept])
    for run in long_runs(soundings.xy, depth, out):
        away, near = tree.query(soundings.xy[run], k=min(400, len(kept)))
        passes = np.abs(travelled[kept[near]] - travelled[run][:, None]) > 4 * away
        differs = np.abs(depth[kept[near]] / depth[run][:, None] - 1) > 0.25
        assert (passes & differs).any(), f"rows {run[0]} to {run[-1]}"
