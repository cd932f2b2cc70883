"""What becomes of the rows of a table: readings that are none, times, units of x, y, z, gauges."""

from collections import Counter

import numpy as np
import pytest
from one_lake import COUNT, DEPTH, FOOT, LAT, LON, T, check, table

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.importers.levels import WaterLevels
from poam_ros.importers.options import read_mapping
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

DAY = 86_400 * 10**9
SECONDS = [f"{k // 60:02d}:{k % 60:02d}" for k in range(COUNT)]


def but(values, *changes):
    """Texts of numbers, but in some rows another text: rows and text each."""
    found = np.array([v if isinstance(v, str) else f"{v:.2f}" for v in values], dtype=object)
    for rows, text in changes:
        found[rows] = text
    return found


DIVES, DEEP = 3 + 2 * np.sin(T / 6), 30 + 2 * DEPTH
PIT = np.where(np.isin(T, (10, 11)), 300, DEEP)
#: A table of the lake, how many rows are refused by reason, and depths that are other ones.
LEFT_OUT = {
    "another unit than most": (
        table("lat,lon,depth", LAT, LON, but([f"{d / FOOT:.2f} ft" for d in DEPTH], (0, "1 m"))),
        {"not_a_number": 1}),
    "no readings": (
        table("lat,lon,depth", but(LAT, (40, "0.0"), (50, "-33.9")),
              but(LON, (40, "0.0"), (50, "151.2")),
              but(DEPTH, ([3, 9], "0.0"), (20, "-1.0"), ([30, 31], "999"))),
        {"no_reading": 5, "null_position": 1, "far_away": 1}),
    "less than all others": (
        table("lat,lon,depth_mm", LAT, LON, but(1000 * DEEP, ([3, 9, 20], "9999"))),
        {"no_reading": 3}, DEEP),
    "more than all others": (
        table("lat,lon,depth_mm", LAT, LON, but(1000 * DEEP, (slice(10, 16), "300000"))),
        {"sonar_limit": 6}, DEEP),
    "twice is a pit": (table("lat,lon,depth_mm", LAT, LON, 1000 * PIT), {}, PIT),
    # They are not mapped at the vehicle.
    "no altitudes": (
        table("latitude,longitude,depth,dvl_altitude", LAT, LON, DIVES,
              but(DEPTH - DIVES, (3, ""), (4, "nan"), (50, "0.00"), (slice(70, 80), "-1"),
                  (slice(90, 95), "999"))),
        {"no_reading": 18}),
    "a side that is not there": (
        table("lat,NS,lon,EW,depth", LAT, "N", [each.strip("-") for each in LON],
              but(COUNT * ["W"], (7, "")), DEPTH), {"not_a_number": 1}),
    # Nobody knows where a boat was between the end of a recording and the begin of an earlier one.
    "between two recordings": (
        table("time,lat,lon,depth", np.where(T < 150, T + 1000, T), but(LAT, (T % 2 > 0, "")), LON,
              DEPTH), {"position_gap": 1, "after_last_fix": 1}),
}  # fmt: skip


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_readings_that_are_none_are_refused_by_name(kind, read):
    text, refused, depth = (*LEFT_OUT[kind], DEPTH)[:3]
    found = read(text)
    check(found, depth)
    assert found.refused == refused and len(found) == COUNT - sum(refused.values())


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("52°20'32.3\"N", 52.342306), ("N 52 20.538", 52.3423), ("12:30:00S", -12.5),
        ("12 30 45 s", -12.5125), ("N 12d30'45\"", 12.5125), ("12d30m45s", None),
        ("13.5 e", 13.5), ("12.5 w", -12.5), ("-7.25", -7.25), ("12 61 0", None), ("N12S", None),
    ],
)  # fmt: skip
def test_degrees_minutes_and_seconds(text, degrees, read):
    """A sounding at 0, 0 would be none."""
    text = "longitude;latitude;depth\n" + f"{degrees or 5};8.25;3\n" + f"{text};8.25;3\n"
    found = read(text)
    assert found.refused == ({} if degrees else {"not_a_number": 1})
    assert found.source["origin"] == pytest.approx([8.25, degrees or 5], abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        ("1/17/2025 4:03:47 PM", "1/2/2025 4:03:47 AM", [1737129827, 1735790627]),
        ("1/17/2025 12:03:47 PM", "1/17/2025 12:03:48 AM", [1737115427, 1737072228]),
        ("17/1/2025", "2/1/2025", [1737072000, 1735776000]),
        ("16.01.2025", "never", [1736985600, 0]),
        ("16.01.25", "17/01/25", [1736985600, 1737072000]),
        ("2025-01-01T09:00:00+01", "2025-01-01T04:30:01-03:30", [1735718400, 1735718401]),
        ("08:59:00", "08:61:00", [32340, 0]), ("2025-01-01", "9999-01-01", [1735689600, 0]),
        *((f"1700000000{digits}", f"1700000001{digits}", [1700000000.5, 1700000001.5])
          for digits in (".5", "500", "500000", "500000000")),
        # A day belongs to the time only where the time has none.
        (*(f"2025-01-17;2025-01-17 08:00:0{k}" for k in range(2)), [1737100800, 1737100801]),
        ("2;2025-01-17T08:00:00", "2;2025-01-17T08:00:01", [1737100800, 1737100801]),
        ("2025-01-17;08:00:00", "2025-01-17;08:00:01", [1737100800, 1737100801]),
        ("2;08:00:00", "2;08:00:01", [28800, 28801]),
    ],
)  # fmt: skip
def test_times_are_of_one_order_and_unit(first, second, seconds, read):
    found = read(f"{'day;' * (';' in first)}time;x;y;z\n{first};0;0;-1\n{second};1;0;-1\n")
    assert found.stamp_ns.tolist() == [1e9 * each for each in seconds]


def test_times_of_a_table_without_a_header_need_not_be_named(read):
    dated = table("", LAT, LON, DEPTH, "08/26/2021", [f"08:{each}" for each in SECONDS])
    found = read(dated, {"latitude": "1", "longitude": "2", "depth": "3"}, times=True)
    check(found)
    assert (np.diff(found.stamp_ns) == 10**9).all()


def test_a_table_without_a_header_is_understood_beside_one_of_the_same_water(write):
    first = write(table("latitude,longitude,depth", LAT, LON, DEPTH))
    stamped = table("", LON, LAT, -DEPTH - 1, 1756713600 + T, separator=" ")
    found = read_soundings([first, write(stamped, "other.xyz")])
    np.testing.assert_allclose(found.xyz[COUNT:] + (0, 0, 1), found.xyz[:COUNT], atol=0.1)


def test_rows_without_a_time_stay_where_nothing_needs_it(read):
    text = table("time,lat,lon,depth", ["?" if i % 9 == 0 else str(i) for i in T], LAT, LON, DEPTH)
    found = read(text)
    assert len(found) == COUNT and not found.refused
    assert np.flatnonzero(found.stamp_ns == 0).tolist() == np.flatnonzero(T % 9 == 0).tolist()
    assert read(text, stop=1e6).refused == {"no_time": len(T[::9])}


def test_the_water_level_over_time(read, write):
    gauge = write("".join(f"2026-05-01 08:{m:02d},{m / 100}\n" for m in range(30)), "gauge.csv")
    levels = WaterLevels.read(gauge)
    rows = [f"2026-05-01 08:{i:02d}:30,{4 + i / 10:.1f}\n" for i in range(40)]
    text = "time,depth,x,y\n" + "".join(f"{r[:-1]},{i},{i % 7}\n" for i, r in enumerate(rows))
    found = read(text, levels=levels)
    assert found.refused == {"no_water_level": 11}
    assert found.source["gauge"] == levels.description
    np.testing.assert_allclose(found.z, (T[:29] + 0.5) / 100 - 4 - T[:29] / 10, atol=0.01)
    with pytest.raises(InputError, match="expected a column of times"):
        read(table("lat,lon,depth", LAT, LON, DEPTH), levels=levels)


GAUGE = "2026-05-01 08:00,{}\n2026-05-01 09:00,{}\n2026-05-01 10:00,{}\n"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (GAUGE.format(1, 2, 3), [1, 2, 3]),
        ("time,level (ft)\n" + GAUGE.format(1, 2, 3), [0.3048, 0.6096, 0.9144]),
        ("time,level_cm\n" + GAUGE.format(100, 200, 300), [1, 2, 3]),
        ("time,quality,stage\n" + GAUGE.format("9,1", "9,2", "9,3"), [1, 2, 3]),
        ("date,time,level\n" + GAUGE.format(1, 2, 3).replace(" ", ","), [1, 2, 3]),
        (
            "# USGS\nsite_no\tdatetime\ttz_cd\t7_00065\t7_00065_cd\n15s\t20d\t6s\t14n\t10s\n"
            + "".join(f"0142\t2026-05-01 0{h}:00\tEDT\t{h - 3}\tP\n" for h in (4, 5, 6)),
            [0.3048, 0.6096, 0.9144],
        ),
        (GAUGE.format(1, -999, 3), [1, 3]),
        (GAUGE.format(980, 999, 1000), [980, 999, 1000]),
        ("hello\n", "expected rows of time and level"),
        ("time,quality,remark\n" + GAUGE.format("1,2", "2,2", "3,2"), "several columns: quality"),
        (GAUGE.format("1,2", "2,2", "3,2"), "several columns: 2, 3; name one of them level"),
    ],
)
def test_levels_are_metres_of_the_column_of_levels(write, text, level):
    if isinstance(level, str):
        with pytest.raises(InputError, match=level):
            WaterLevels.read(write(text))
    else:
        found = WaterLevels.read(write(text))
        np.testing.assert_allclose(found.level, level)
        assert found.stamp_ns[0] == 1_777_622_400 * 10**9  # 08:00 UTC


def test_levels_hold_for_their_days_for_every_day_and_between_readings(write, caplog):
    levels = WaterLevels.read(write("date;level\n16.01.2025;0.762\n18.01.2025;0.782\n"))
    noon = 1736985600 * 10**9 + DAY // 2
    at = levels.at(np.array([noon - DAY, noon - DAY // 3, noon, noon + DAY, noon + 2 * DAY + 1]))
    np.testing.assert_allclose(at, [np.nan, 0.762, 0.762, 0.772, 0.782], atol=1e-3)
    clock = WaterLevels.read(write('"00:00","4.28"\n"00:10","4.38"\n"23:50","4.0"\n'))
    at = clock.at(np.array([300 * 10**9, 9 * DAY + 600 * 10**9]))
    np.testing.assert_allclose(at, [4.33, 4.38])
    levels = WaterLevels.read(write("2026-05-01 08:00,1\n2026-05-09 08:00,2\n"))
    levels.at((levels.stamp_ns[:1] + levels.stamp_ns[1:]) // 2)
    assert "of 1 sounding is interpolated between readings up to 8 days apart" in caplog.text


def test_metres_and_elevations_are_taken_as_they_are_and_lines_are_groups(read):
    """More rows than are read at once."""
    place = [f"{i},{i % 7},{-i - 1}" for i in range(9000)]
    found = read("x,y,z,line\n" + "".join(f"{p},{'bac'[i % 3]}\n" for i, p in enumerate(place)),
                 by="line", trusted=True)  # fmt: skip
    assert found.names == ("a", "b", "c") and found.group[:4].tolist() == [1, 0, 2, 1]
    assert found.projection is None and not found.refused
    np.testing.assert_array_equal(found.xyz, np.array([each.split(",") for each in place], float))


def test_depths_are_counted_from_the_water_and_corrected(read):
    depths, elevations = "x;y;Depth\n0;0;10\n1;0;2.5\n", "x,y,z\n0,0,90\n"
    assert read(depths).z.tolist() == [-10, -2.5]
    raised = read(depths, water_level=190.0)
    assert raised.z.tolist() == [180, 187.5] and raised.samples(190.0).range.tolist() == [10, 2.5]
    by = {"water_level": 100.0, "sound_scale": 0.98}
    assert read(depths, **by).z[0] == 90.2 and read(elevations, **by).z.tolist() == [90.2]
    assert read(elevations, water_level=100.0).z.tolist() == [90]  # already above the datum
    assert read(depths, draught=0.5, sound_scale=0.98).z[0] == -10.3
    with pytest.raises(InputError, match="--draught: applies to depths only"):
        read(elevations, draught=0.5)


def test_rows_that_are_no_soundings_are_counted_and_keep_their_numbers(read):
    found = read("x,y,z\n0,0,-1\n,0,-1\n0,0,nan\nfoo,1,2\n1\n\n0,0,-2e9\n0,1e15,-1\n5,5,-5\n")
    assert found.row.tolist() == [0, 7]  # a blank line is no row
    assert found.refused == Counter(not_a_number=4, wild_elevation=1, impossible_place=1)
    parts = {part.reason: part for part in found.left_out}
    assert {reason: len(part.row) for reason, part in parts.items()} == found.refused
    found = read("latitude,longitude,depth\n91,0,1\n50,190,1\n50,361,1\n")
    assert found.row.tolist() == [1] and found.refused == {"impossible_place": 2}
    assert np.isnan(found.left_out[0].xyz[:, :2]).any(1).all()


def test_refused_rows_lie_where_the_soundings_do(read):
    """In the same projection, and as elevations; what loggers write before they have a fix is not
    in this plane."""
    text = "latitude,longitude,depth\n50,10,4\n50.001,10.001,4\n50.001,10.001,4e6\n50.001,10,x\n"
    found = read(text, water_level=1.5)
    parts = {part.reason: part.xyz[0] for part in found.left_out}
    np.testing.assert_allclose(parts["wild_elevation"], [*found.xy[1], 1.5 - 4e6], atol=1e-9)
    expected = found.xy[0, 0], found.xy[1, 1], np.nan
    np.testing.assert_allclose(parts["not_a_number"], expected, atol=0.01)
    (nowhere,) = read("latitude,longitude,depth\n50,91,4\n0,0,\n").left_out
    assert nowhere.reason == "not_a_number" and np.isnan(nowhere.xyz).all()


def test_columns_that_are_said_decide(read):
    text = "x,y,z,latitude,longitude,depth,H\n1,2,-3,50,10,3,4\n5,2,-3,50.00001,10.00005,3,4\n"
    found = read(text, read_mapping(["latitude=latitude,depth=H"]))
    assert found.z.tolist() == [-4, -4] and found.projection is not None
    assert read(text, {"x": "x"}).projection is None
    with pytest.raises(InputError, match="expected MEANING=NAME"):
        read_mapping(["z"])
    with pytest.raises(InputError, match=r"--units: expected one of m, ft, .*got 'ft,elle'"):
        ReadOptions(units="ft,elle")


def test_a_workspace_has_room_and_crops_and_times_count_from_the_first(read):
    text = "when,x,y,z\n100.5,0,0,-1\n101.5,1000,0,-2\n105.5,500,0,-3\n"
    timed, found = {"time": "when"}, read(text)
    assert found.workspace() == Extent(-10, 1010, -10, 10)
    assert found.workspace(2.0) == Extent(-2, 1002, -2, 2)
    for part, rows, reason, place in (
        (found.within(Extent(-1, 600, -1, 1)), [0, 2], "outside_workspace", [1000, 0, -2]),
        (read(text, timed, stop=2.0), [0, 1], "outside_times", [500, 0, -3]),
        (read(text, timed, start=0.5), [1, 2], "outside_times", [0, 0, -1]),
    ):
        (beyond,) = part.left_out
        assert part.row.tolist() == rows and part.refused == {reason: 1}
        assert (beyond.reason, beyond.xyz.tolist()) == (reason, [place])
    assert beyond.stamp_ns == part.stamp_ns[0] - 10**9
    with pytest.raises(InputError, match=r"no soundings in that time .the log lasts 5 s"):
        read(text, timed, start=60.0)
    with pytest.raises(InputError, match="expected a column of times"):
        read(text, start=0.5)


def test_a_single_sounding_is_judged_without_warnings(read, recwarn):
    assert len(read("lat,lon,depth\n55.1,10.4,6.0\n")) == 1 and not recwarn.list
