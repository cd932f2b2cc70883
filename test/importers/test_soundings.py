"""CSV files of soundings: columns, units, groups, what is refused, and degrees to metres."""

import shlex
from collections import Counter

import numpy as np
import pytest

from poam_ros.core.errors import InputError, Question
from poam_ros.core.geometry import Extent
from poam_ros.importers import tables as reader
from poam_ros.importers.options import read_mapping
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings


def test_metres_and_elevations_are_taken_as_they_are(write):
    found = read_soundings(
        write("line,x,y,z\nb,1,2,-3\na,4,5,-6\nb,4,5,-6.5\n"), ReadOptions(by="line")
    )
    assert found.row.tolist() == [0, 1, 2]
    assert found.xy.tolist() == [[1, 2], [4, 5], [4, 5]] and found.z.tolist() == [-3, -6, -6.5]
    assert found.names == ("a", "b") and found.group.tolist() == [1, 0, 1]
    assert found.projection is None and not found.refused


def test_depths_are_counted_from_the_water(write):
    path = write("x;y;Depth\n0;0;3\n1;0;2.5\n")
    assert read_soundings(path).z.tolist() == [-3, -2.5]
    raised = read_soundings(path, ReadOptions(water_level=190.0))
    assert raised.z.tolist() == [187, 187.5]
    assert raised.samples(190.0).range.tolist() == [3, 2.5]


def test_degrees_become_metres_about_the_middle(write):
    rows = "".join(f"{60 + 0.001 * i},{10 + 0.002 * i},{i + 1}\n" for i in range(11))
    found = read_soundings(write(f"LAT,LON,depth\n{rows}"))
    middle = found.projection.latitude, found.projection.longitude
    assert middle == pytest.approx((60.005, 10.01))
    np.testing.assert_allclose(found.xy[0], -found.xy[-1], atol=1)
    # A minute of latitude is a nautical mile or so; of longitude, half of it at 60 degrees.
    assert np.ptp(found.xy[:, 1]) == pytest.approx(0.6 * 1857, rel=1e-2)
    assert np.ptp(found.xy[:, 0]) == pytest.approx(1.2 * 1855 / 2, rel=1e-2)


def test_rows_that_are_no_soundings_are_counted_and_keep_their_numbers(write):
    text = "x,y,z\n0,0,-1\n,0,-1\n0,0,nan\nfoo,1,2\n1\n\n0,0,-2e9\n0,1e15,-1\n5,5,-5\n"
    found = read_soundings(write(text))
    assert found.row.tolist() == [0, 7]  # a blank line is no row
    assert found.refused == Counter(not_a_number=4, wild_elevation=1, impossible_place=1)
    known = [(row.reason, row.x, row.z) for row in found.refused_pings.placed.rows]
    assert sorted(map(str, known)) == [
        "('not_a_number', 0.0, nan)", "('wild_elevation', 0.0, -2000000000.0)",
    ]  # fmt: skip
    assert found.refused_pings.counts == found.refused


def test_impossible_latitudes_are_refused(write):
    found = read_soundings(write("latitude,longitude,depth\n91,0,1\n50,0,1\n50,361,1\n"))
    assert found.row.tolist() == [1] and found.refused == {"impossible_place": 2}
    assert not len(found.refused_pings.placed)


def test_refused_rows_lie_where_the_soundings_do(write):
    """In the same projection, and as elevations."""
    text = "latitude,longitude,depth\n50,10,4\n50.001,10.001,4\n50.001,10.001,4e6\n50.001,10,x\n"
    found = read_soundings(write(text), ReadOptions(water_level=1.5))
    wild, odd = sorted(found.refused_pings.rows, reverse=True)
    assert (wild.reason, wild.z) == ("wild_elevation", 1.5 - 4e6)
    np.testing.assert_allclose((wild.x, wild.y), found.xy[1], atol=1e-9)
    assert odd.reason == "not_a_number" and np.isnan(odd.z)
    np.testing.assert_allclose((odd.x, odd.y), (found.xy[0, 0], found.xy[1, 1]), atol=0.01)
    # What loggers write before they have a fix is not in this plane.
    (nowhere,) = read_soundings(
        write("latitude,longitude,depth\n50,91,4\n0,0,\n")
    ).refused_pings.rows
    assert nowhere.reason == "not_a_number" and np.isnan(nowhere[3:]).all()


def test_chunks_make_no_difference(write, monkeypatch):
    rows = "".join(f"{i},{i % 7},{-i},{'abc'[i % 3]}\n" for i in range(100))
    path = write(f"x,y,z,line\n{rows}")
    whole = read_soundings(path, ReadOptions(by="line"))
    monkeypatch.setattr(reader, "CHUNK", 7)
    parts = read_soundings(path, ReadOptions(by="line"))
    for name in ("row", "xy", "z", "group"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.names == whole.names


def test_columns_that_are_said_decide(write):
    header = "x,y,z,latitude,longitude,depth,H"
    path = write(f"{header}\n1,2,-3,50,10,3,4\n5,2,-3,50.00001,10.00005,3,4\n")
    found = read_soundings(path, ReadOptions(read_mapping(["latitude=latitude,depth=H"])))
    assert found.z.tolist() == [-4, -4] and found.projection is not None
    assert read_soundings(path, ReadOptions({"x": "x"})).projection is None


@pytest.mark.parametrize("header", ["Northwards;Eastwards;It's (m)", "Lat [deg];Lon;Bottom (m)"])
def test_an_answer_can_be_pasted_into_a_shell(write, header):
    """It names what the command did not find, and the file becomes a map with it."""
    rows = "".join(f"{52 + i / 1e5:.5f};{130 + i % 7 / 1e5:.5f};{3.5 + i % 5}\n" for i in range(60))
    path = write(f"{header}\n{rows}")
    with pytest.raises(Question) as asked:
        read_soundings(path)
    (words,) = asked.value.answers.values()
    given = read_mapping(shlex.split(words.removeprefix("--columns ")))
    assert set(given.values()) == set(header.split(";")[-len(given) :]) and "depth" in given
    assert read_soundings(path, ReadOptions(given)).z[0] == -3.5


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        ("a,b,c\n1,2,3\n", {}, r"log\.csv: expected columns latitude, longitude, depth or x, y, z"),
        ("x,y\n1,2\n", {}, "expected columns"),
        ("x,y,z\n1,2,3\n", {"z": "h"}, "expected a column 'h', got x,y,z"),
        ("x,y,z\n1,2,3\n", {"height": "z"}, "expected meanings x, y, latitude"),
        ("x,y,z\n1,2,\n", {}, "expected soundings, got none .1 not_a_number"),
        ("x,y,z\n", {}, "got none .no rows"),
        ("x,y,z,depth\n", {}, "got none .no rows"),
        ("", {}, "got no rows"),
    ],
)
def test_what_is_wrong_is_said(write, text, columns, words):
    with pytest.raises(InputError, match=words):
        read_soundings(write(text), ReadOptions(columns))


def test_missing_files_and_groups_are_said(write, tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        read_soundings(tmp_path / "none.csv")
    with pytest.raises(InputError, match="expected a column 'leg'"):
        read_soundings(write("x,y,z\n1,2,3\n"), ReadOptions(by="leg"))
    with pytest.raises(InputError, match="expected MEANING=NAME"):
        read_mapping(["z"])


def test_a_workspace_has_room_and_crops(write):
    found = read_soundings(write("x,y,z\n0,0,-1\n1000,0,-2\n500,0,-3\n"))
    assert found.workspace() == Extent(-10, 1010, -10, 10)
    assert found.workspace(2.0) == Extent(-2, 1002, -2, 2)
    inside = found.within(Extent(-1, 600, -1, 1))
    assert inside.row.tolist() == [0, 2] and inside.refused == {"outside_workspace": 1}
    (beyond,) = inside.refused_pings.rows
    assert beyond == ("outside_workspace", 0, 0, 1000.0, 0.0, -2.0)


TIMES = [
    ["100.5", "101.5", "105.5"],
    ["1700000000500", "1700000001500", "1700000005500"],  # ms
    ["1700000000500000000", "1700000001500000000", "1700000005500000000"],
    ["2026-05-01T12:00:00.5", "2026-05-01T12:00:01.500Z", "2026-05-01 14:00:05.5+02:00"],
]


@pytest.mark.parametrize("times", TIMES)
def test_a_crop_in_time_counts_from_the_first(write, times):
    path = write("when,x,y,z\n" + "".join(f"{t},{i},0,-1\n" for i, t in enumerate(times)))
    named = {"time": "when"}
    assert read_soundings(path, ReadOptions(named, stop=2.0)).row.tolist() == [0, 1]
    found = read_soundings(path, ReadOptions(named, start=0.5))
    assert found.row.tolist() == [1, 2] and found.refused == {"outside_times": 1}
    (early,) = found.refused_pings.rows
    assert (early.reason, early.x, early.z) == ("outside_times", 0.0, -1.0)
    assert early.stamp_ns == found.stamp_ns[0] - 10**9
    with pytest.raises(InputError, match=r"no soundings in that time .the log lasts 5 s"):
        read_soundings(path, ReadOptions(named, start=60.0))
    with pytest.raises(InputError, match="expected a column of times"):
        read_soundings(path, ReadOptions(start=0.5))


def test_times_matter_to_those_who_ask(write):
    path = write("time,x,y,z\nnever,0,0,-1\n7,1,0,-1\n")
    assert len(read_soundings(path)) == 2
    assert read_soundings(path, ReadOptions(stop=1.0)).refused == {"no_time": 1}


def test_the_speed_of_sound_is_applied_anew(write):
    by = ReadOptions(water_level=100.0, sound_scale=0.98)
    assert read_soundings(write("x,y,depth\n0,0,10\n"), by).z.tolist() == [90.2]
    assert read_soundings(write("x,y,z\n0,0,90\n"), by).z.tolist() == [90.2]


def test_the_sonars_depth_is_added_to_depths(write):
    path = write("x,y,depth\n0,0,10\n")
    assert read_soundings(path, ReadOptions(draught=0.5, sound_scale=0.98)).z.tolist() == [-10.3]
    with pytest.raises(InputError, match="--draught: applies to depths only"):
        read_soundings(write("x,y,z\n0,0,-9\n"), ReadOptions(draught=0.5))
