"""Points of GIS files and of GPX: coordinate systems, units, times, and depths in extensions."""

import json
import struct

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import transformed
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

raw = pytest.importorskip("pyogrio").raw

COUNT, FOOT = 60, 0.3048
T = np.arange(COUNT)
LATITUDE, LONGITUDE = 47.6 + 1e-5 * T, -122.4 + 4e-5 * np.sin(T / 9)
DEPTH = 8 + 2 * np.sin(T / 7)


def points(path, crs, **attributes):
    """A GeoPackage of points with these attributes."""
    places = transformed("EPSG:4326", crs, np.column_stack((LONGITUDE, LATITUDE)))
    shapes = [struct.pack("<BIdd", 1, 1, x, y) for x, y in places.tolist()]
    columns = [
        np.asarray(values, dtype=object if isinstance(values[0], str) else float)
        for values in attributes.values()
    ]
    raw.write(
        path, np.array(shapes, dtype=object), columns, list(attributes), driver="GPKG",
        geometry_type="Point", crs=crs,
    )  # fmt: skip
    return path


def collection(path, depth, units="", scale=1.0):
    """A GeoJSON of points with depths in a unit that it states for all, or not."""
    features = [
        {"type": "Feature", "properties": {"depth": round(z, 2)},
         "geometry": {"type": "Point",
                      "coordinates": [-122.4 + scale * (x + 122.4), 47.6 + scale * (y - 47.6)]}}
        for x, y, z in zip(LONGITUDE.tolist(), LATITUDE.tolist(), depth.tolist(), strict=True)
    ]  # fmt: skip
    own = {"properties": {"depthUnits": units}} if units else {}
    path.write_text(json.dumps({"type": "FeatureCollection", **own, "features": features}))
    return path


def check(found):
    true = found.projection.local_metres(LATITUDE, LONGITUDE)
    np.testing.assert_allclose(found.xy, true, atol=0.01)
    np.testing.assert_allclose(-found.z, DEPTH, atol=0.01)


@pytest.mark.parametrize("crs", ["EPSG:4258", "EPSG:4269", "EPSG:32610"])
def test_points_in_any_coordinate_system(crs, tmp_path):
    check(read_soundings(points(tmp_path / "log.gpkg", crs, depth=DEPTH)))


def test_depths_beside_a_coordinate_system_in_feet_are_asked_about(tmp_path):
    path = points(tmp_path / "log.gpkg", "EPSG:2285", depth=DEPTH / FOOT)
    with pytest.raises(InputError, match=r"EPSG:2285 is in feet.*--units ft; if not: --units m"):
        read_soundings(path)
    check(read_soundings(path, ReadOptions(units="ft")))
    check(read_soundings(points(tmp_path / "named.gpkg", "EPSG:2285", depth_ft=DEPTH / FOOT)))


def test_units_beside_the_values_or_of_a_whole_collection(tmp_path):
    """As crowd-sourced bathymetry has it (IHO B-12)."""
    texts = [f"{depth:.3f} ft" for depth in DEPTH / FOOT]
    check(read_soundings(points(tmp_path / "2.gpkg", "EPSG:4326", depth=texts)))
    check(read_soundings(collection(tmp_path / "csb.geojson", DEPTH / FOOT, "feet")))


def test_depths_in_a_stated_unit_are_believed(tmp_path):
    """Of a boat at its berth, whose sounder loses the bottom, and writes the largest number."""
    depth = np.where(T % 20 < 10, 12.4 + 0.1 * (T % 3), 0.5 + 0.1 * (T % 3))
    depth[5:35] = 42949672.92
    found = read_soundings(collection(tmp_path / "a.geojson", depth, "meters", scale=0.2))
    assert len(found) == 30 and found.refused == {"wild_elevation": 30}


def test_times_of_day_and_month_that_are_unclear_are_left_out_or_asked_about(tmp_path):
    times = [f"03/04/2025 10:00:{k:02d}" for k in range(COUNT)]
    path = points(tmp_path / "log.gpkg", "EPSG:4326", depth=DEPTH, time=times)
    assert read_soundings(path).stamp_ns is None
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
    deep = [f"<extensions>{EXTENSION.format('', 3 + i / 10)}</extensions>" for i in range(10)]
    points = [
        point(i, f"<time>2025-06-01T10:00:{i:02}.5Z</time>{deep[i] if i % 2 else ''}", kind)
        for i in range(10)
    ]
    path = gpx(tmp_path / "a.gpx", *points)
    found = read_soundings(path)
    assert find_reader(path) == "gpx" and found.refused == {"not_a_number": 5}
    np.testing.assert_allclose(-found.z, 3 + np.arange(1, 10, 2) / 10)
    assert np.ptp(found.xy[:, 1]) == pytest.approx(8e-4 * 111_230, rel=1e-3)
    np.testing.assert_array_equal(np.diff(found.stamp_ns), 2 * 10**9)
    assert found.stamp_ns[0] == 1_748_772_001_500_000_000
    path.write_text(path.read_text()[:-300])  # torn
    assert len(read_soundings(path)) in (3, 4)


def test_units_and_other_elements(tmp_path):
    path = gpx(tmp_path / "a.gpx", point(1, EXTENSION.format(" unit='ft'", 10)))
    assert read_soundings(path).z == pytest.approx(-3.048)
    path = gpx(tmp_path / "a.gpx", point(1, EXTENSION.format("", 10)))
    assert read_soundings(path, ReadOptions(units="fathom")).z == pytest.approx(-18.288)
    assert read_soundings(path, ReadOptions(columns={"z": "ele"})).z == 31
    with pytest.raises(InputError, match="expected a column 'draft', got latitude,longitude,"):
        read_soundings(path, ReadOptions(columns={"depth": "draft"}))


@pytest.mark.parametrize("words", ["Depth: 3.2 m", "depth=10,5ft", "A, Depth 3.2, 17 C"])
def test_a_depth_may_stand_in_the_words_of_a_point(words, tmp_path):
    path = gpx(tmp_path / "a.gpx", *(point(i, f"<desc>{words}</desc>", "wpt") for i in range(3)))
    assert read_soundings(path).z == pytest.approx(-3.2, abs=0.001)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "which column is the depth. candidates: none"), ("<a>" * 60, "expected GPX"),
     (point(1, ""), "got latitude,longitude: which column is the depth. candidates: none"),
     ("\0" * 60, "expected GPX")],
)  # fmt: skip
def test_gpx_without_depths_says_what_it_has(text, words, tmp_path):
    with pytest.raises(InputError, match=rf"a.gpx: .*{words}"):
        read_soundings(gpx(tmp_path / "a.gpx", text))
