"""Files that repeat each other: each sounding counts once, and nothing else is left out."""

import numpy as np
import pytest

from poam_ros.importers.readers import read_soundings

COUNT = 200
T = np.arange(COUNT)
START = 1_765_000_000.0


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
    "again",
    [
        {},  # a copy
        {"which": slice(60, 140)},  # a part
        {"which": slice(0, None, 2)},  # every other sounding
        {"digits": 6},  # another export
        {"fine": False, "digits": 7},  # with whole seconds
    ],
)
def test_a_file_that_repeats_another_adds_nothing(again, tmp_path, caplog):
    one, two = day(tmp_path / "monday.csv"), day(tmp_path / "export.csv", **again)
    found = read_soundings([one, two])
    count = len(two.read_text().split()) - 1
    assert len(found) == COUNT and found.refused == {"repeated": count}
    (part,) = found.left_out
    assert part.reason == "repeated" and part.why == "also in monday.csv"
    np.testing.assert_array_equal(part.row, COUNT + np.arange(count))
    assert f"export.csv: {count} soundings of {count} also in monday.csv" in caplog.text


def test_a_file_that_was_joined_to_itself_is_named(tmp_path, caplog):
    log = day(tmp_path / "twice.csv")
    log.write_text(log.read_text() + log.read_text().split("\n", 1)[1])
    assert len(read_soundings([log])) == COUNT
    words = f"twice.csv: {COUNT} soundings of {COUNT} also in an earlier part of it"
    assert caplog.text.count(words) == 1


def test_a_part_that_goes_on_is_kept_where_it_is_new(tmp_path):
    paths = [
        day(tmp_path / f"part{i}.csv", slice(begin, end))
        for i, (begin, end) in enumerate(((0, 80), (50, 150), (150, COUNT)))
    ]
    found = read_soundings(paths)
    assert len(found) == COUNT and found.refused == {"repeated": 30}
    assert len(np.unique(found.stamp_ns)) == COUNT


def test_a_line_that_is_gone_again_is_another_one(tmp_path):
    one = day(tmp_path / "monday.csv")
    for name, again in (
        ("tuesday", {"later": 86_400.0}),
        ("back", {"later": 300.0, "way": T[::-1]}),
        ("soon", {"later": 100.0}),
        ("other boat beside", {"way": T + 3}),  # 1.5 m ahead
    ):
        found = read_soundings([one, day(tmp_path / f"{name}.csv", **again)])
        assert len(found) == 2 * COUNT and not found.refused, name


def test_pings_beside_each_other_where_a_file_ends_are_two(tmp_path):
    paths = [
        day(tmp_path / f"{i}.csv", part, fine=False, digits=5)
        for i, part in enumerate((slice(0, 101), slice(101, COUNT)))
    ]
    assert not read_soundings(paths).refused


def test_other_depths_at_the_same_times_are_said(tmp_path, caplog):
    one, two = day(tmp_path / "high.csv"), day(tmp_path / "low.csv", other=0.8)
    assert read_soundings([one, two]).refused == {"repeated": COUNT}
    assert "depths differ by up to 0.8 m: give the right file first" in caplog.text


def test_without_times_only_a_copy_repeats(tmp_path):
    one = day(tmp_path / "one.csv", timed=False)
    copy = day(tmp_path / "copy.csv", timed=False)
    assert read_soundings([one, copy]).refused == {"repeated": COUNT}
    part = day(tmp_path / "part.csv", slice(20, 160), timed=False)
    assert not read_soundings([one, part]).refused
    # The same line again, on a coarse grid over a nearly flat bottom.
    rng = np.random.default_rng(3)
    for name in ("first", "second"):
        away, depth = rng.random((2, COUNT))
        rows = np.column_stack((53 + 1e-5 * (T + away), 5 + 0.1 * depth)).tolist()
        text = "".join(f"{a:.5f},8.0000{k % 3},{d:.1f}\n" for k, (a, d) in enumerate(rows))
        (tmp_path / name).write_text("latitude,longitude,depth\n" + text)
    assert not read_soundings([tmp_path / "first", tmp_path / "second"]).refused
