"""Points of GIS files and of GPX: coordinate systems, units, times, and depths in extensions."""

import json

import numpy as np
import pytest
from one_lake import COUNT, DEPTH, FOOT, LON_LAT, T, check, options_of, write_points

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

pytest.importorskip("pyogrio")


def collection(path, depth, units, scale=1.0):
    """A GeoJSON of points with depths in a unit that it states for all."""
    features = [
        {"type": "Feature", "properties": {"depth": round(z, 2)},
         "geometry": {"type": "Point", "coordinates": place}}
        for place, z in zip((scale * LON_LAT).tolist(), depth.tolist(), strict=True)
    ]  # fmt: skip
    own = {"properties": {"depthUnits": units}}
    path.write_text(json.dumps({"type": "FeatureCollection", **own, "features": features}))
    return path


@pytest.mark.parametrize(
    ("crs", "attributes"),
    [("EPSG:4258", {"depth": DEPTH}), ("EPSG:4269", {"Depth (m)": DEPTH}),
     ("EPSG:32610", {"depth": DEPTH}), ("EPSG:2285", {"depth_ft": DEPTH / FOOT}),
     ("EPSG:4326", {"depth": [f"{depth:.3f} ft" for depth in DEPTH / FOOT]})],
)  # fmt: skip
def test_points_in_any_coordinate_system_and_unit(crs, attributes, tmp_path):
    check(read_soundings(write_points(tmp_path / "log.gpkg", crs, LON_LAT, **attributes)))


def test_depths_beside_a_coordinate_system_in_feet_are_asked_about(tmp_path):
    path = write_points(tmp_path / "log.gpkg", "EPSG:2285", LON_LAT, depth=DEPTH / FOOT)
    words = r"EPSG:2285 is in feet.*--units ft; if n.*--units m"
    with pytest.raises(Question, match=words) as asked:
        read_soundings(path)
    check(read_soundings(path, options_of(next(iter(asked.value.answers.values())))))


def test_depths_in_the_unit_of_a_whole_collection_are_believed(tmp_path):
    """As crowd-sourced bathymetry has it (IHO B-12); and of a boat at its berth, whose sounder
    loses the bottom, and writes the largest number."""
    check(read_soundings(collection(tmp_path / "csb.geojson", DEPTH / FOOT, "feet")))
    depth = np.where(T % 20 < 10, 12.4 + 0.1 * (T % 3), 0.5 + 0.1 * (T % 3))
    depth[5:155] = 42949672.92
    found = read_soundings(collection(tmp_path / "a.geojson", depth, "meters", scale=0.2))
    assert len(found) == COUNT - 150 and found.refused == {"wild_elevation": 150}


def test_times_of_day_and_month_that_are_unclear_are_left_out_or_asked_about(tmp_path):
    times = [f"03/04/2025 10:00:{k % 60:02d}" for k in range(COUNT)]
    path = write_points(tmp_path / "log.gpkg", "EPSG:4326", LON_LAT, depth=DEPTH, time=times)
    found = read_soundings(path)
    assert found.stamp_ns is None and "times not read, such as 03/04" in found.source["understood"]
    with pytest.raises(InputError, match=r"column time: 03/04/2025 .* may be day/month"):
        read_soundings(path, ReadOptions(times=True))


HEAD = '<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'
EXTENSION = "<x:Ext xmlns:x='y'><x:Temperature>17</x:Temperature><x:Depth{}>{}</x:Depth></x:Ext>"


def gpx(path, *points):
    path.write_text(f"{HEAD}{''.join(points)}</gpx>")
    return path


def point(i, inside, kind="trkpt"):
    return f'<{kind} lat="{50 + i / 1e4}" lon="8.5"><ele>31</ele>{inside}</{kind}>'


@pytest.mark.parametrize("kind", ["trkpt", "rtept", "wpt"])
def test_points_with_a_depth_are_soundings(kind, tmp_path):
    points = []
    for i in range(10):
        deep = f"<extensions>{EXTENSION.format('', 3 + i / 10)}</extensions>" * (i % 2)
        points.append(point(i, f"<time>2025-06-01T10:00:{i:02}.5Z</time>{deep}", kind))
    path = gpx(tmp_path / "a.gpx", *points)
    found = read_soundings(path)
    assert find_reader(path) == "gpx" and found.refused == {"not_a_number": 5}
    np.testing.assert_allclose(-found.z, 3 + np.arange(1, 10, 2) / 10)
    assert np.ptp(found.xy[:, 1]) == pytest.approx(8e-4 * 111_230, rel=1e-3)
    first = 1_748_772_001_500_000_000
    assert found.stamp_ns.tolist() == [first + i * 10**9 for i in range(0, 10, 2)]
    path.write_text(path.read_text()[:-300])  # torn
    assert len(read_soundings(path)) in (3, 4)


@pytest.mark.parametrize(
    ("inside", "options", "z"),
    [(EXTENSION.format(" unit='ft'", 10), {}, -3.048),
     (EXTENSION.format("", 10), {"units": "fathom"}, -18.288),
     (EXTENSION.format("", 10), {"columns": {"z": "ele"}}, 31),
     (EXTENSION.format("", 10), {"columns": {"depth": "draft"}},
      "expected a column 'draft', got latitude,longitude,"),
     ("", {}, "got latitude,longitude: which column is the depth. candidates: none"),
     (None, {}, "which column is the depth. candidates: none"),
     ("<a>" * 60, {}, "expected GPX"), ("\0" * 60, {}, "expected GPX")],
)  # fmt: skip
def test_units_and_other_elements(inside, options, z, tmp_path):
    points = [] if inside is None else [point(1, inside, "wpt")]
    path, options = gpx(tmp_path / "a.gpx", *points), ReadOptions(**options)
    if isinstance(z, str):
        with pytest.raises(InputError, match=rf"a.gpx: .*{z}"):
            read_soundings(path, options)
    else:
        assert read_soundings(path, options).z == pytest.approx(z, abs=1e-4)
