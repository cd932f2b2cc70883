"""Contours and soundings read back by other libraries: closed, nested, and where the map says."""

import csv
import json
import re
import warnings
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("contourpy")

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.importers.readers import read_soundings
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.exports import export
from poam_ros.outputs.vectors import AREA, BAND, LINE, Feature, contours, levels_of

from .conftest import ground

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
            part = feature.shape
            assert part.is_valid and part.exterior.is_ccw
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
            part = feature.shape
            bands[feature.level] = bands.get(feature.level, shapely.Polygon()).union(part)
    lines = [feature for feature in found if feature.kind == LINE]
    assert {line.level for line in lines} == {3, 4, 5, 6, 7}
    for line in lines:
        depth = chart.grid.interpolate(chart.depth, np.array(line.shape.coords))
        known = np.isfinite(depth)
        assert known.any() and np.allclose(depth[known], line.level, atol=1e-9)
        assert line.attributes["low"] == pytest.approx(line.level - 0.196, abs=1e-3)
        assert bands[line.level].buffer(1e-6).contains(line.shape)
    assert sum(line.shape.is_closed for line in lines) >= 4


def test_a_geopackage_without_an_origin_gives_no_warning(lake):
    pytest.importorskip("pyogrio")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        (path,) = export(lake, lake / "c.gpkg", ExportSettings(contour_interval=1.0))
    assert path.stat().st_size


def test_contours_of_all_formats_are_the_same_to_geopandas(lake, tmp_path):
    """The levels and lengths of the lines, and the areas of the polygons, in m of one projection;
    degrees are rounded to some mm. GDAL splits the folders of a KML into layers; so that there is
    one for each kind."""
    geopandas = pytest.importorskip("geopandas")
    settings = ExportSettings(**PLACE, crs="UTM", depth=True, contour_interval=1.0)
    found = {}
    for ending in ("gpkg", "geojson", "kml"):
        (path,) = export(lake, tmp_path / f"c.{ending}", settings)
        for kind in (LINE, AREA, BAND):
            options = {"where": f"kind = '{kind}'"} if ending == "geojson" else {"layer": kind}
            features = geopandas.read_file(path, **options)
            assert features.is_valid.all()
            assert features.crs == ("EPSG:32635" if ending == "gpkg" else "EPSG:4326")
            if kind == LINE and ending == "gpkg":
                assert list(features) == ["depth", "low", "high", "closed", "geometry"]
            shapes = features.to_crs("EPSG:32635").geometry
            size = shapes.length if kind == LINE else shapes.area
            found[kind, ending] = size.groupby(features.depth.astype(float)).sum().to_dict()
    assert "title" in json.loads((tmp_path / "c.geojson").read_text())["provenance"]
    text = (tmp_path / "c.kml").read_text()
    styles = re.findall(r"<styleUrl>#(\w+)</styleUrl>", text)
    assert {*styles} == {*re.findall(r'<Style id="(\w+)">', text)} == {LINE, AREA, BAND}
    assert len(styles) == text.count("<Placemark")
    assert re.findall(r"<visibility>(\d)", text) == ["1", "0", "0"]
    assert "<name>6 m</name>" in text and "vertical_datum: not given" in text
    for kind in (LINE, AREA, BAND):
        assert list(found[kind, "gpkg"]) == [3, 4, 5, 6, 7]
        for ending in ("geojson", "kml"):
            assert found[kind, ending] == pytest.approx(found[kind, "gpkg"], rel=1e-3), ending


def test_a_border_that_touches_itself_where_it_is_rounded_is_written(lake, monkeypatch):
    shapely = pytest.importorskip("shapely")
    border = shapely.Polygon([(25, 60), (25.2, 60.2), (25.2, 60), (25, 60.2)])
    found = [Feature(AREA, 3.0, border, {"depth": 3.0})]
    monkeypatch.setattr("poam_ros.outputs.vectors.contours", lambda *_, **__: found)
    (path,) = export(lake, lake / "c.kml", ExportSettings(**PLACE, depth=True))
    assert path.read_text().count("<Polygon>") == 1


def test_levels():
    assert levels_of(np.array([-8.2, -0.3]), 0.0) == [-8, -7, -6, -5, -4, -3, -2, -1]
    assert levels_of(np.array([1.0, 3.0]), 1.0) == [2.0]
    with pytest.raises(InputError, match="expected at most 1000 levels"):
        levels_of(np.array([0.0, 100.0]), 0.01)


@pytest.mark.parametrize(("unit", "metres"), [("ft", 0.3048), ("fathom", 1.8288)])
def test_contours_in_another_unit_are_where_those_in_metres_are(unit, metres, lake):
    _, known = drawn_by(lake, contour_interval=metres)
    _, found = drawn_by(lake, units=unit, contour_interval=1.0)
    assert len(found) == len(known) > 5
    for one, other in zip(found, known, strict=True):
        assert one.level * metres == pytest.approx(other.level)
        assert one.shape.equals_exact(other.shape, 1e-6)
    settings = ExportSettings(**PLACE, depth=True, units=unit)
    path = export(lake, lake / "c.geojson", settings)[-1]
    levels = {f["properties"][f"depth_{unit}"] for f in json.loads(path.read_text())["features"]}
    assert levels and all(level == round(level, 1) for level in levels)
    with pytest.raises(InputError, match=r"units: \.tif is in m"):
        export(lake, lake / "c.tif", settings)


# --- Soundings ---

ORIGIN = ("--origin", "47.3", "8.55")


def exported(run, name, *options):
    to = run.parent / name
    assert main(["export", str(run), "--soundings", "--to", str(to), *options]) == 0
    return to


def test_rows_of_the_log_are_integers(run, pings):
    rows = np.arange(5)
    files.write_samples(run / "samples.csv", pings[:5], ground(pings[:5]), row=rows)
    with exported(run, "s.csv").open() as file:
        assert [row["row"] for row in csv.DictReader(file)] == list(map(str, rows))


@pytest.mark.parametrize("heading", ["0", "30"])
def test_a_table_in_degrees_is_what_poam_map_reads(run, pings, heading):
    pytest.importorskip("pyproj")
    options = ("--heading", heading, "--depth", "--water-level", "1.5")
    path = exported(run, "soundings.csv", *ORIGIN, *options)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["longitude", "latitude", "depth"] and len(rows) == 5  # those in the map
    place = GeoReference(47.3, 8.55, float(heading))
    turned = place.to_projected(pings[:5])
    there = place.degrees(turned)
    np.testing.assert_allclose([float(r["longitude"]) for r in rows], there[:, 0], atol=1e-7)
    found = read_soundings(path)
    np.testing.assert_allclose(-found.z, 1.5 - ground(pings[:5]), atol=1e-3)
    np.testing.assert_allclose(np.ptp(found.xy, axis=0), np.ptp(turned, axis=0), atol=0.02)


def test_without_an_origin_they_are_in_the_maps_metres(run, pings):
    lines = exported(run, "soundings.xyz").read_text().split("\n")
    found = np.array([[float(each) for each in line.split()] for line in lines if line])
    np.testing.assert_allclose(found, np.column_stack((pings[:5], ground(pings[:5]))), atol=1e-3)


def test_points_of_a_geopackage_have_a_coordinate_system(run, pings):
    pyogrio = pytest.importorskip("pyogrio")
    path = exported(run, "soundings.gpkg", *ORIGIN, "--utm")
    meta = pyogrio.read_info(path)
    assert meta["crs"] == "EPSG:32632" and meta["features"] == 5
    found = read_soundings(path)
    np.testing.assert_allclose(found.z, ground(pings[:5]), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "a.tif"), "expected a file that ends with .csv, .gpkg, .xyz"),
        (("--to", "a.csv", "--units", "ft"), "--units: does not apply to --soundings"),
    ],
)
def test_what_does_not_apply_is_refused(options, words, run, capsys):
    assert main(["export", str(run), "--soundings", *options]) != 0
    assert words in capsys.readouterr().err
