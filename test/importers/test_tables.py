"""Tables as instruments and people write them: layouts, readings that are none, times, gauges."""

from collections import Counter

import numpy as np
import pytest

from poam_ros.core.errors import InputError, Question
from poam_ros.core.geometry import Extent
from poam_ros.importers import columns as reader
from poam_ros.importers.cells import Times, angle
from poam_ros.importers.columns import Table
from poam_ros.importers.levels import WaterLevels
from poam_ros.importers.options import read_mapping
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.importers.tables import read_text

COUNT, DAY = 60, 86_400 * 10**9


@pytest.fixture
def lake():
    """Latitude, longitude and depth [60] along a track near 53 N, 8.6 E."""
    t = np.arange(COUNT)
    return 53.1 + 1e-5 * t, 8.6 + 2e-5 * np.sin(t / 9), 4 + np.sin(t / 7)


def rows(lake, form="{:.6f},{:.6f},{:.2f}"):
    return "".join(form.format(*row) + "\n" for row in zip(*lake, strict=True))


HEAD, ROW = "Lat;Lon;Depth\n", "{:.6f};{:.6f};{:.2f}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_layouts_mean_the_same(encoding, lake, write):
    lat, lon, depth = lake
    reference = read_soundings(write("latitude,longitude,depth\n" + rows(lake)))
    blanks = "{:.6f}   {:.6f} {:.2f}"
    for text in (
        "lat lon depth\n" + rows(lake, blanks),
        "# made by a sounder\n#\n\nLat,Lon,Depth\n" + rows(lake),
        "Survey of Monday\nBoat: Ada\nLat,Lon,Depth\n" + rows(lake),
        "# lat lon depth\n" + rows(lake, blanks),
        "# lat,lon,depth\n#53.2,8.6,5.1\n" + rows(lake),
        "# 3,4,5\nLat,Lon,Depth\n" + rows(lake),
        "sep=;\n" + HEAD + rows(lake, ROW),
        HEAD + rows(lake, ROW + " m"),
        HEAD + rows(lake, ROW + "m").replace(".", ","),
        HEAD + rows((lat, lon, depth / 0.3048), ROW + " ft"),
    ):
        found = read_soundings(write(text, encoding=encoding))
        np.testing.assert_allclose(found.xy, reference.xy, atol=0.1, err_msg=text[:40])
        np.testing.assert_allclose(found.z, reference.z, atol=0.01, err_msg=text[:40])


def test_a_value_in_another_unit_than_most_is_no_number(lake, write):
    text = HEAD + rows(lake, ROW + " ft").replace("ft", "m", 1)
    found = read_soundings(write(text))
    assert found.refused == {"not_a_number": 1}
    np.testing.assert_allclose(-found.z, 0.3048 * lake[2][1:], atol=0.01)


@pytest.mark.parametrize("row", ["{:.6f},N,{:.6f},O,{:.2f}", "{:.6f}N,,{:.6f}°O,,{:.2f}"])
def test_an_o_may_be_east_or_west(lake, write, row):
    """Ost, ouest, oeste: a lake in France would be mapped in Germany."""
    with pytest.raises(InputError, match=r"got none .60 not_a_number.*first row: 53\.1000"):
        read_soundings(write("lat,ns,lon,ew,depth\n" + rows(lake, row)))


def test_integers_and_packed_minutes_are_no_degrees(lake, write):
    lat, lon, depth = lake
    millions = rows((1e6 * lat, 1e6 * lon, depth), "{:.0f},{:.0f},{:.2f}")
    with pytest.raises(InputError, match="Expected latitudes and longitudes in degrees"):
        read_soundings(write("lat,lon,depth\n" + millions))
    packed = 100 * np.trunc(lat) + 60 * (lat % 1), 100 * np.trunc(lon) + 60 * (lon % 1), depth
    with pytest.raises(Question, match=r"60 impossible_place.*degrees, minutes and") as asked:
        read_soundings(write("lat,lon,depth\n" + rows(packed, "{:.5f},{:.5f},{:.2f}")))
    assert not asked.value.answers


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("52°20'32.3\"N", 52.342306), ("N 52 20.538", 52.3423), ("12:30:00W", -12.5),
        ("13.5 e", 13.5), ("-7.25", -7.25), ("12 61 0", np.nan), ("N12S", np.nan), ("x", np.nan),
    ],
)  # fmt: skip
def test_degrees_minutes_and_seconds(text, degrees):
    assert angle(text) == pytest.approx(degrees, abs=1e-6, nan_ok=True)


def test_times_are_of_one_order():
    times = Times(["1/17/2025 4:03:47 PM", "1/2/2025 4:03:47 AM"])
    assert times.seconds("1/2/2025 4:03:47 AM") == 1735790627 and not times.ambiguous
    assert Times(["16.01.2025"]).seconds("16.01.2025") == 1736985600
    assert Times(["1/2/2025", "3/4/2025"]).ambiguous
    assert np.isnan(Times([]).seconds("yesterday"))
    assert Times([]).seconds("20250101T080000Z") == 1735718400


@pytest.mark.parametrize(
    ("header", "day", "time", "first"),
    [
        ("day,time", "2025-01-17", "2025-01-17 08:00:{:02d}", 1737100800),
        ("day,time", "2", "2025-01-17T08:00:{:02d}Z", 1737100800),
        ("date,time", "2025-01-17", "08:00:{:02d}", 1737100800),
        ("day,time", "2", "08:00:{:02d}", 8 * 3600),
    ],
)
def test_a_day_belongs_to_the_time_only_where_the_time_has_none(
    header, day, time, first, lake, write
):
    lines = (f"{day},{time.format(i % 60)},{r}" for i, r in enumerate(rows(lake).split()))
    path = write(f"{header},latitude,longitude,depth\n" + "\n".join(lines))
    found = read_soundings(path, ReadOptions(times=True))
    assert len(found) == COUNT and not found.refused and found.stamp_ns[0] == first * 10**9


def test_times_of_a_table_without_a_header_need_not_be_named(lake, write):
    dated = "".join(
        f"{r},08/26/2021,08:00:{i % 60:02d}\n" for i, r in enumerate(rows(lake).split())
    )
    said = ReadOptions({"latitude": "1", "longitude": "2", "depth": "3"}, times=True)
    found = read_soundings(write(dated), said)
    assert found.stamp_ns[1] - found.stamp_ns[0] == 10**9
    np.testing.assert_allclose(found.z, -lake[2], atol=0.01)


def test_a_table_without_a_header_is_understood_beside_one_of_the_same_water(lake, write):
    first = write("latitude,longitude,depth\n" + rows(lake))
    stamps = (lake[1], lake[0], -lake[2] - 1, 1756713600 + np.arange(COUNT))
    found = read_soundings([first, write(rows(stamps, "{:.6f} {:.6f} {:.2f} {}"), "other.xyz")])
    np.testing.assert_allclose(found.xyz[COUNT:] + (0, 0, 1), found.xyz[:COUNT], atol=0.1)


def test_what_the_user_says_is_not_questioned(lake, write):
    path = write("latitude,longitude,z\n" + rows(lake))
    assert (read_soundings(path, ReadOptions(trusted=True)).z > 0).all()
    for columns in ({}, {"z": "z"}):  # only named
        with pytest.raises(Question, match="100 % of the soundings above the water") as asked:
            read_soundings(path, ReadOptions(columns))
        assert ("--columns depth=z" in asked.value.answers.values()) == (not columns)
    assert (read_soundings(path, ReadOptions({"depth": "z"})).z < 0).all()


def test_readings_that_are_none_are_refused_by_name(lake, write):
    latitude, longitude, depth = (column.copy() for column in lake)
    depth[[3, 9]], depth[20], depth[[30, 31]] = 0.0, -1.0, 999.0
    latitude[40], longitude[40] = 0.0, 0.0
    latitude[50], longitude[50] = -33.9, 151.2
    found = read_soundings(write("lat,lon,depth\n" + rows((latitude, longitude, depth))))
    assert found.refused == {"no_reading": 5, "null_position": 1, "far_away": 1}
    assert np.ptp(found.xy) < 200 and len(found) == COUNT - 7


@pytest.mark.parametrize(
    ("changed", "value", "refused"),
    [
        ([3, 9, 20], 9999.0, {"no_reading": 3}),  # less than all others
        ([10, 11, 12, 13, 14, 15], 300_000.0, {"sonar_limit": 6}),
        ([10, 11], 300_000.0, {}),  # twice is a pit
    ],
)
def test_of_the_least_and_largest_readings_some_are_none(changed, value, refused, lake, write):
    depth = 40_000 + 2000 * lake[2]
    depth[changed] = value
    found = read_soundings(write("lat,lon,depth_mm\n" + rows((*lake[:2], depth))))
    assert found.refused == refused


def test_the_water_level_over_time(lake, write):
    gauge = write("".join(f"2026-05-01 08:{m:02d},{m / 100}\n" for m in range(30)), "gauge.csv")
    levels = WaterLevels.read(gauge)
    text = "time,lat,lon,depth\n" + "".join(
        f"2026-05-01 08:{i:02d}:30,{row}\n" for i, row in enumerate(rows(lake).split()) if i < 40
    )
    found = read_soundings(write(text), ReadOptions(levels=levels))
    assert found.refused == {"no_water_level": 11}
    assert found.source["gauge"] == levels.description
    np.testing.assert_allclose(found.z, (np.arange(29) + 0.5) / 100 - lake[2][:29], atol=0.01)
    with pytest.raises(InputError, match="expected a column of times"):
        read_soundings(write("lat,lon,depth\n" + rows(lake)), ReadOptions(levels=levels))


GAUGE = "2026-05-01 08:00,{}\n2026-05-01 09:00,{}\n2026-05-01 10:00,{}\n"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (GAUGE.format(1, 2, 3), [1, 2, 3]),
        ("time,level (ft)\n" + GAUGE.format(1, 2, 3), [0.3048, 0.6096, 0.9144]),
        ("time,level_cm\n" + GAUGE.format(100, 200, 300), [1, 2, 3]),
        ("time,quality,stage\n" + GAUGE.format("9,1", "9,2", "9,3"), [1, 2, 3]),
        ("date,time,level\n" + GAUGE.format(1, 2, 3).replace(" ", ","), [1, 2, 3]),
        (GAUGE.format(1, -999, 3), [1, 3]),
        (GAUGE.format(980, 999, 1000), [980, 999, 1000]),
    ],
)
def test_levels_are_metres_of_the_column_of_levels(write, text, level):
    np.testing.assert_allclose(WaterLevels.read(write(text)).level, level)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "expected rows of time and level"),
        ("time,quality,remark\n" + GAUGE.format("1,2", "2,2", "3,2"), "several columns: quality"),
        (GAUGE.format("1,2", "2,2", "3,2"), "several columns: 2, 3; name one of them level"),
    ],
)
def test_a_gauge_s_file_that_does_not_say_the_level_is_refused(write, text, said):
    with pytest.raises(InputError, match=said):
        WaterLevels.read(write(text))


def test_readings_far_apart_are_said(write, caplog):
    levels = WaterLevels.read(write("2026-05-01 08:00,1\n2026-05-09 08:00,2\n"))
    levels.at((levels.stamp_ns[:1] + levels.stamp_ns[1:]) // 2)
    assert "of 1 sounding is interpolated between readings up to 8 days apart" in caplog.text


def test_daily_levels_hold_for_their_days_and_those_of_a_clock_for_every_day(write):
    levels = WaterLevels.read(write("date;level\n16.01.2025;0.762\n18.01.2025;0.782\n"))
    noon = 1736985600 * 10**9 + DAY // 2
    at = levels.at(np.array([noon - DAY, noon - DAY // 3, noon, noon + DAY, noon + 2 * DAY + 1]))
    np.testing.assert_allclose(at[1:], [0.762, 0.762, 0.772, 0.782], atol=1e-3)
    assert np.isnan(at[0])
    clock = WaterLevels.read(write('"00:00","4.28"\n"00:10","4.38"\n"23:50","4.0"\n'))
    np.testing.assert_allclose(
        clock.at(np.array([300 * 10**9, 9 * DAY + 600 * 10**9])), [4.33, 4.38]
    )


def test_what_is_no_table_is_refused_before_memory_is_taken(write):
    with pytest.raises(InputError, match="more than 65536 characters"):
        read_text(write("1,2,3," * 50_000))
    with pytest.raises(InputError, match="binary"):
        read_text(write("\0" * 100))
    quoted = "lat,lon,depth\n" + "50.1,9.2,4\n" * 300 + '50.1,"' + "9.2,4\n50.1," * 20_000
    with pytest.raises(InputError, match=r"cannot be read .row 302: field larger"):
        read_soundings(write(quoted))


def test_eastings_become_degrees_by_their_crs(write):
    pytest.importorskip("pyproj")
    t = np.arange(COUNT)
    text = "".join(f"{363400 + i:.2f},{5801100 + 2 * i:.2f},{3 + 0.01 * i:.2f}\n" for i in t)
    path = write("easting,northing,depth\n" + text)
    placed = read_soundings(path, ReadOptions(crs="EPSG:25833"))
    assert placed.source["origin"] == pytest.approx([52.3427, 12.9956], abs=2e-3)
    local = read_soundings(path)
    # UTM is 0.9996 of the true length there, and turned by the convergence of its meridian.
    true = np.hypot(*(placed.xy[-1] - placed.xy[0])) / np.hypot(*(local.xy[-1] - local.xy[0]))
    assert true == pytest.approx(1 / 0.9998, abs=3e-4) and local.projection is None
    with pytest.raises(InputError, match="expected a code such as"):
        read_soundings(path, ReadOptions(crs="EPSG:nonsense"))
    feet = write(path.read_text().replace("3634", "62584").replace("5801", "1970"), "feet.csv")
    with pytest.raises(InputError, match=r"depth does not say its unit.*--units ft"):
        read_soundings(feet, ReadOptions(crs="EPSG:2229"))
    assert -read_soundings(feet, ReadOptions(crs="EPSG:2229", units="ft")).z[0] < 1


def test_metres_and_elevations_are_taken_as_they_are_and_lines_are_groups(write, monkeypatch):
    text = "".join(f"{i},{i % 7},{-i - 1},{'bac'[i % 3]}\n" for i in range(100))
    path = write(f"x,y,z,line\n{text}")
    whole = read_soundings(path, ReadOptions(by="line"))
    assert whole.xyz[9].tolist() == [9, 2, -10] and whole.projection is None and not whole.refused
    assert whole.names == ("a", "b", "c") and whole.group[:4].tolist() == [1, 0, 2, 1]
    monkeypatch.setattr(reader, "CHUNK", 7)  # makes no difference
    parts = read_soundings(path, ReadOptions(by="line"))
    for name in ("row", "xyz", "group"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_depths_are_counted_from_the_water_and_corrected(write):
    path = write("x;y;Depth\n0;0;10\n1;0;2.5\n")
    assert read_soundings(path).z.tolist() == [-10, -2.5]
    raised = read_soundings(path, ReadOptions(water_level=190.0))
    assert raised.z.tolist() == [180, 187.5] and raised.samples(190.0).range.tolist() == [10, 2.5]
    by = ReadOptions(water_level=100.0, sound_scale=0.98)
    assert read_soundings(path, by).z[0] == 90.2
    assert read_soundings(write("x,y,z\n0,0,90\n"), by).z.tolist() == [90.2]
    path = write("x;y;Depth\n0;0;10\n")
    assert read_soundings(path, ReadOptions(draught=0.5, sound_scale=0.98)).z.tolist() == [-10.3]
    with pytest.raises(InputError, match="--draught: applies to depths only"):
        read_soundings(write("x,y,z\n0,0,-9\n"), ReadOptions(draught=0.5))


def test_rows_that_are_no_soundings_are_counted_and_keep_their_numbers(write):
    text = "x,y,z\n0,0,-1\n,0,-1\n0,0,nan\nfoo,1,2\n1\n\n0,0,-2e9\n0,1e15,-1\n5,5,-5\n"
    found = read_soundings(write(text))
    assert found.row.tolist() == [0, 7]  # a blank line is no row
    assert found.refused == Counter(not_a_number=4, wild_elevation=1, impossible_place=1)
    parts = {part.reason: part for part in found.left_out}
    assert parts["wild_elevation"].xyz.tolist() == [[0.0, 0.0, -2e9]]
    (odd,) = (xyz for xyz in parts["not_a_number"].xyz if np.isfinite(xyz[:2]).all())
    assert odd[0] == 0.0 and np.isnan(odd[2])
    assert {reason: len(part.row) for reason, part in parts.items()} == found.refused
    found = read_soundings(write("latitude,longitude,depth\n91,0,1\n50,0,1\n50,361,1\n"))
    assert found.row.tolist() == [1] and found.refused == {"impossible_place": 2}
    assert np.isnan(found.left_out[0].xyz[:, :2]).any(1).all()


def test_refused_rows_lie_where_the_soundings_do(write):
    """In the same projection, and as elevations."""
    text = "latitude,longitude,depth\n50,10,4\n50.001,10.001,4\n50.001,10.001,4e6\n50.001,10,x\n"
    found = read_soundings(write(text), ReadOptions(water_level=1.5))
    parts = {part.reason: part.xyz[0] for part in found.left_out}
    np.testing.assert_allclose(parts["wild_elevation"], [*found.xy[1], 1.5 - 4e6], atol=1e-9)
    *place, z = parts["not_a_number"]
    assert np.isnan(z)
    np.testing.assert_allclose(place, (found.xy[0, 0], found.xy[1, 1]), atol=0.01)
    # What loggers write before they have a fix is not in this plane.
    (nowhere,) = read_soundings(write("latitude,longitude,depth\n50,91,4\n0,0,\n")).left_out
    assert nowhere.reason == "not_a_number" and np.isnan(nowhere.xyz).all()


def test_columns_that_are_said_decide(write):
    header = "x,y,z,latitude,longitude,depth,H"
    path = write(f"{header}\n1,2,-3,50,10,3,4\n5,2,-3,50.00001,10.00005,3,4\n")
    found = read_soundings(path, ReadOptions(read_mapping(["latitude=latitude,depth=H"])))
    assert found.z.tolist() == [-4, -4] and found.projection is not None
    assert read_soundings(path, ReadOptions({"x": "x"})).projection is None


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


def test_a_number_of_the_row_is_no_latitude(write):
    text = "latitude,longitude,depth\n" + "".join(
        f"{i},{8 + i / 1e5},{4 + i % 7}\n" for i in range(300)
    )
    with pytest.raises(Question, match="209 of 300 rows have places or depths that cannot be"):
        read_soundings(write(text))


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
    (beyond,) = inside.left_out
    assert (beyond.reason, beyond.xyz.tolist()) == ("outside_workspace", [[1000.0, 0.0, -2.0]])


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
    (early,) = found.left_out
    assert (early.reason, early.xyz.tolist()) == ("outside_times", [[0.0, 0.0, -1.0]])
    assert early.stamp_ns == found.stamp_ns[0] - 10**9
    with pytest.raises(InputError, match=r"no soundings in that time .the log lasts 5 s"):
        read_soundings(path, ReadOptions(named, start=60.0))


def test_plain_numbers_are_times_if_a_name_says_so(write):
    path = write("when,x,y,z\n100.5,0,0,-1\n101.5,1,0,-1\n")
    with pytest.raises(InputError, match="expected a column of times"):
        read_soundings(path, ReadOptions(start=0.5))


def test_times_matter_to_those_who_ask(write):
    path = write("time,x,y,z\nnever,0,0,-1\n7,1,0,-1\n")
    assert len(read_soundings(path)) == 2
    assert read_soundings(path, ReadOptions(stop=1.0)).refused == {"no_time": 1}


def test_a_single_sounding_is_judged_without_warnings(recwarn):
    assert not Table.of(("lat", "lon", "depth"), [("55.1", "10.4", "6.0")], "").times({})
    assert not recwarn.list
