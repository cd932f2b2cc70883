"""Contours read back by other libraries: closed, nested, and where the map says."""

import json
import warnings
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("contourpy")

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import folder as files
from poam_ros.outputs.exports.chart import ExportSettings, read_chart
from poam_ros.outputs.exports.contours import AREA, BAND, LINE, contours, levels_of
from poam_ros.outputs.exports.formats import export

PLACE = {"origin": (60.0, 25.0)}


@pytest.fixture
def lake(tmp_path):
    """A bowl of 8 m with a shoal of one cell in it, blank beyond a circle."""
    grid = Grid.cells(Extent(-50, 50, -40, 40), 2.0)
    x, y = grid.points.T
    radius = np.hypot(x, y).reshape(grid.shape)
    z = -8 + 0.004 * radius**2
    z[20, 10] = -3.2  # at x = -29, y = 1
    drawn = ElevationMap(grid, z, np.full(grid.shape, 0.01)).only(radius < 38)
    files.write_map(tmp_path / "map.npz", drawn)
    files.write_samples(tmp_path / "samples.csv", grid.points[:9], z.ravel()[:9])
    return tmp_path


def drawn_by(lake, **settings):
    chart = read_chart(lake, ExportSettings(**{"depth": True, "contour_interval": 1.0, **settings}))
    return chart, contours(chart)


@pytest.mark.parametrize("depth", [True, False])
def test_areas_are_closed_and_nested_and_hold_what_is_deep(lake, depth):
    shapely = pytest.importorskip("shapely")
    chart, found = drawn_by(lake, depth=depth)
    areas = {}
    for feature in found:
        if feature.kind == AREA:
            part = shapely.Polygon(feature.rings[0], feature.rings[1:])
            assert part.is_valid and part.exterior.is_ccw and feature.closed
            level = feature.level if depth else -feature.level
            areas[level] = areas.get(level, shapely.Polygon()).union(part)
    levels = sorted(areas)
    assert levels[0] == 3 and levels[-1] == 7
    for shallow, deep in pairwise(levels):
        assert areas[shallow].buffer(1e-6).contains(areas[deep])
    inside = np.hypot(*chart.grid.points.T) < 34
    centres, known = chart.grid.points[inside], chart.depth.ravel()[inside]
    for level, area in areas.items():
        held = shapely.contains_xy(area, *centres.T)
        assert (known[held] >= level).all() and held[known > level + 1e-6].all()
    assert not areas[4].contains(shapely.Point(-29, 1))  # the shoal is not lost


def test_lines_lie_where_the_map_has_their_level_and_in_their_band(lake):
    shapely = pytest.importorskip("shapely")
    chart, found = drawn_by(lake)
    bands = {}
    for feature in found:
        if feature.kind == BAND:
            part = shapely.Polygon(feature.rings[0], feature.rings[1:])
            bands[feature.level] = bands.get(feature.level, shapely.Polygon()).union(part)
    lines = [feature for feature in found if feature.kind == LINE]
    assert {line.level for line in lines} == {3, 4, 5, 6, 7}
    for line in lines:
        depth = chart.grid.interpolate(chart.depth, line.rings[0])
        known = np.isfinite(depth)
        assert known.any() and np.allclose(depth[known], line.level, atol=1e-9)
        assert line.low == pytest.approx(line.level - 0.196, abs=1e-3)
        assert bands[line.level].buffer(1e-6).contains(shapely.LineString(line.rings[0]))
    assert sum(line.closed for line in lines) >= 4


def test_geojson_is_in_degrees(lake):
    shapely = pytest.importorskip("shapely")
    pytest.importorskip("rasterio")
    (path,) = export(lake, lake / "c.geojson", ExportSettings(**PLACE, contour_interval=2.0))
    tree = json.loads(path.read_text())
    assert {f["properties"]["kind"] for f in tree["features"]} == {LINE, AREA, BAND}
    levels = {f["properties"]["elevation"] for f in tree["features"]}
    assert levels == {-6.0, -4.0}
    for feature in tree["features"]:
        shape = shapely.geometry.shape(feature["geometry"])
        west, south, east, north = shape.bounds
        assert shape.is_valid and 59.999 < south < north < 60.001 and 24.999 < west < east < 25.001
    assert "title" in tree["provenance"]


def test_a_geopackage_has_three_layers(lake):
    raw = pytest.importorskip("pyogrio").raw
    shapely = pytest.importorskip("shapely")
    pytest.importorskip("rasterio")
    settings = ExportSettings(**PLACE, utm=True, depth=True, contour_interval=1.0)
    (path,) = export(lake, lake / "c.gpkg", settings)
    for layer in (LINE, AREA, BAND):
        meta, _, geometries, columns = raw.read(path, layer=layer)
        assert meta["crs"] == "EPSG:32635" and len(geometries)
        assert set(columns[0]) <= {3, 4, 5, 6, 7}
        assert all(shapely.from_wkb(bytes(found)).is_valid for found in geometries)
    assert list(raw.read(path, layer=LINE)[0]["fields"]) == ["depth", "low", "high", "closed"]


def test_a_geopackage_without_an_origin_gives_no_warning(lake):
    pytest.importorskip("pyogrio")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        (path,) = export(lake, lake / "c.gpkg", ExportSettings(contour_interval=1.0))
    assert path.stat().st_size


def test_a_kml_has_a_folder_of_each_kind(lake):
    pytest.importorskip("rasterio")
    (path,) = export(lake, lake / "c.kml", ExportSettings(**PLACE, depth=True))
    tree = ElementTree.parse(path)
    space = {"k": "http://www.opengis.net/kml/2.2"}
    assert [n.text for n in tree.findall(".//k:Folder/k:name", space)] == [LINE, AREA, BAND]
    text = tree.find(".//k:LineString/k:coordinates", space).text
    lon, lat = map(float, text.split()[0].split(","))
    assert lon == pytest.approx(25, abs=1e-3) and lat == pytest.approx(60, abs=1e-3)


def test_gdal_reads_the_layers_of_a_kml(lake):
    pyogrio, shapely = pytest.importorskip("pyogrio"), pytest.importorskip("shapely")
    pytest.importorskip("rasterio")
    (path,) = export(lake, lake / "c.kml", ExportSettings(**PLACE, contour_interval=2.0))
    shape = {LINE: "LineString", AREA: "Polygon", BAND: "Polygon"}
    for layer, kind in shape.items():
        meta, _, geometries, _ = pyogrio.raw.read(path, layer=layer)
        found = [shapely.from_wkb(bytes(each)) for each in geometries]
        assert meta["crs"] == "EPSG:4326" and found
        assert all(each.is_valid and each.geom_type.endswith(kind) for each in found)
        west, south, east, north = shapely.total_bounds(found)
        assert 24.999 < west < east < 25.001 and 59.999 < south < north < 60.001


def test_levels():
    assert levels_of(np.array([-8.2, -0.3]), 0.0) == [-8, -7, -6, -5, -4, -3, -2, -1]
    assert levels_of(np.array([1.0, 3.0]), 1.0) == [2.0]
    with pytest.raises(InputError, match="expected at most 1000 levels"):
        levels_of(np.array([0.0, 100.0]), 0.01)


def test_degrees_need_a_georeference(lake):
    with pytest.raises(InputError, match="needs a georeference; expected --origin"):
        export(lake, lake / "c.kml", ExportSettings())
