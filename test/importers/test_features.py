"""Points of GIS files: other coordinate systems, units, times, and depths in extensions."""

import json
import struct

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import transformed
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

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


def test_units_of_a_column_and_beside_the_values(tmp_path):
    feet = DEPTH / FOOT
    check(read_soundings(points(tmp_path / "1.gpkg", "EPSG:4326", depth=feet, unit=["ft"] * COUNT)))
    texts = [f"{depth:.3f} ft" for depth in feet]
    check(read_soundings(points(tmp_path / "2.gpkg", "EPSG:4326", depth=texts)))


def test_the_unit_of_a_whole_collection(tmp_path):
    """As crowd-sourced bathymetry has it (IHO B-12)."""
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]},
         "properties": {"depth": round(z / FOOT, 2)}}
        for x, y, z in zip(LONGITUDE.tolist(), LATITUDE.tolist(), DEPTH.tolist(), strict=True)
    ]  # fmt: skip
    every = {
        "type": "FeatureCollection",
        "properties": {"depthUnits": "feet"},
        "features": features,
    }
    path = tmp_path / "csb.geojson"
    path.write_text(json.dumps(every))
    check(read_soundings(path))


def test_depths_in_a_stated_unit_are_believed(tmp_path):
    """Of a boat at its berth, whose sounder loses the bottom, and writes the largest number."""
    depth = np.where(T % 20 < 10, 12.4 + 0.1 * (T % 3), 0.5 + 0.1 * (T % 3))
    depth[5:35] = 42949672.92
    features = [
        {"type": "Feature", "properties": {"depth": z},
         "geometry": {"type": "Point", "coordinates": [x / 5 - 100, y / 5 + 40]}}
        for x, y, z in zip(LONGITUDE.tolist(), LATITUDE.tolist(), depth.tolist(), strict=True)
    ]  # fmt: skip
    every = {"type": "FeatureCollection", "features": features}
    path = tmp_path / "csb.geojson"
    path.write_text(json.dumps({**every, "properties": {"depthUnits": "meters"}}))
    found = read_soundings(path)
    assert len(found) == 30 and found.refused == {"wild_elevation": 30}
    path.write_text(json.dumps(every))
    with pytest.raises(InputError, match="in two groups"):
        read_soundings(path)


def test_times_of_day_and_month_that_are_unclear_are_left_out_or_asked_about(tmp_path):
    times = [f"03/04/2025 10:00:{k:02d}" for k in range(COUNT)]
    path = points(tmp_path / "log.gpkg", "EPSG:4326", depth=DEPTH, time=times)
    assert read_soundings(path).stamp_ns is None
    with pytest.raises(InputError, match=r"column time: 03/04/2025 .* may be day/month"):
        read_soundings(path, ReadOptions(times=True))
