"""Where a map ends: at an outline, or where its soundings say nothing of the bottom."""

import json

import numpy as np
import pytest
from shapes import LAKE, geojson, square

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import GeoReference, transformed
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mapping import outline as module
from poam_ros.mapping.outline import Outline, between_soundings, read_outline, surveyed

MIDDLE = GeoReference(52.3, 13.0)
SOUNDINGS = np.array([[5.0, 5.0], [30.0, 5.0]])


def degrees(ring):
    """Longitude and latitude of places [K, 2] in m, near enough over some metres."""
    step = 1e-5
    jacobian = np.column_stack([
        (MIDDLE.local_metres(np.array([52.3 + a]), np.array([13.0 + b]))[0]) / step
        for a, b in ((0.0, step), (step, 0.0))
    ])  # fmt: skip
    return np.asarray(ring) @ np.linalg.inv(jacobian).T + [13.0, 52.3]


def written(path, polygons, **more):
    path.write_text(json.dumps({**geojson(polygons), **more}))
    return path


def test_the_inside_is_the_lake_without_its_island(tmp_path):
    outline = read_outline(written(tmp_path / "lake.geojson", LAKE), None, SOUNDINGS)
    grid = Grid.cells(Extent(-5, 45, -5, 25), 1.0)
    x, y = grid.points.T
    expected = (abs(x - 20) < 20) & (abs(y - 10) < 10) & ~((abs(x - 20) < 5) & (abs(y - 10) < 5))
    assert outline.area == 800 - 100
    assert np.array_equal(outline.covers(grid).ravel(), expected)
    assert np.array_equal(outline.holds(grid.points), expected)
    assert outline.box.bounds == (0, 40, 0, 20)
    across = np.array([[14.0, 10.0], [14.0, 3.0]]), np.array([[26.0, 10.0], [26.0, 3.0]])
    assert outline.land.between(*across).tolist() == [True, False]


def test_a_lake_on_an_island_and_polygons_that_overlap_are_inside():
    lake = (square(0, 0, 30), square(5, 5, 20), square(10, 10, 5))
    both = Outline((lake, (square(-5, -5, 10),)))
    places = np.array([[2.0, 2.0], [7.0, 7.0], [12.0, 12.0], [-3.0, -3.0]])
    assert both.holds(places).tolist() == [True, False, True, True]
    grid = Grid.cells(Extent(-10, 35, -10, 35), 0.5)
    assert np.array_equal(both.covers(grid).ravel(), both.holds(grid.points))


def test_polygons_without_a_sounding_are_left_out(tmp_path):
    both = [*LAKE, [square(1000, 1000, 50)]]
    outline = read_outline(written(tmp_path / "lakes.geojson", both), None, SOUNDINGS)
    assert len(outline.polygons) == 1 and outline.box.xmax == 40


def test_an_island_may_be_a_polygon_of_its_own(tmp_path):
    path = written(tmp_path / "lake.geojson", [[LAKE[0][0]], [LAKE[0][1]], [square(4, 4, 2)]])
    outline = read_outline(path, None, SOUNDINGS)
    assert outline.islands == 1 and len(outline.polygons) == 2  # one has a sounding
    inside = outline.holds(np.array([[20.0, 10.0], [5.0, 5.0], [2.0, 2.0]]))
    assert inside.tolist() == [False, True, True]


@pytest.mark.parametrize("kind", ["LineString", "MultiLineString"])
def test_a_closed_line_counts_as_a_polygon(kind, tmp_path):
    ring = np.asarray(square(0, 0, 40)).tolist()
    line = ring if ring[0] == ring[-1] else [*ring, ring[0]]
    path = tmp_path / "shore.geojson"
    text = {"type": kind, "coordinates": line if kind == "LineString" else [line]}
    path.write_text(json.dumps(text))
    assert read_outline(path, None, SOUNDINGS).area == 1600
    text["coordinates"] = line[:-1] if kind == "LineString" else [line[:-1]]
    path.write_text(json.dumps(text))
    with pytest.raises(InputError, match="expected polygons or closed lines of an outline"):
        read_outline(path, None, SOUNDINGS)


def test_an_outline_of_another_place_is_reported(tmp_path):
    ring = degrees(square(0, 0, 40))
    swapped = written(tmp_path / "swapped.geojson", [[ring[:, ::-1].tolist()]])
    with pytest.raises(InputError, match="inside if its longitudes and latitudes are swapped"):
        read_outline(swapped, MIDDLE, SOUNDINGS)
    other = written(tmp_path / "other.geojson", [[(ring + (0.0, 0.1)).tolist()]])
    with pytest.raises(InputError, match=r"nearest corner is 11\.1 km from their middle"):
        read_outline(other, MIDDLE, SOUNDINGS)
    far = written(tmp_path / "far.geojson", [[(ring + (150.0, -80.0)).tolist()]])
    with pytest.raises(InputError, match="on another side of the Earth"):
        read_outline(far, MIDDLE, SOUNDINGS)


def test_geojson_that_names_its_coordinate_system_is_converted(tmp_path):
    pytest.importorskip("pyogrio")
    corners = transformed(MIDDLE.local_crs, "EPSG:25833", np.asarray(square(0, 0, 40), dtype=float))
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::25833"}}
    path = written(tmp_path / "utm.geojson", [[corners.tolist()]], crs=crs)
    assert read_outline(path, MIDDLE, SOUNDINGS).area == pytest.approx(1600, rel=1e-3)


def test_degrees_become_the_map_s_metres(tmp_path):
    lake = [[degrees(ring).tolist() for ring in rings] for rings in LAKE]
    outline = read_outline(written(tmp_path / "lake.geojson", lake), MIDDLE, SOUNDINGS)
    assert outline.box.bounds == pytest.approx((0, 40, 0, 20), abs=1e-3)


@pytest.mark.parametrize("driver", ["GPKG", "ESRI Shapefile", "KML"])
def test_other_formats_give_the_same_outline(driver, tmp_path):
    raw = pytest.importorskip("pyogrio").raw
    shapely = pytest.importorskip("shapely")
    pytest.importorskip("rasterio")
    ((shore, island),) = LAKE
    lake = shapely.Polygon(degrees(shore), [degrees(island)])
    crs = "EPSG:4326"
    if driver == "GPKG":  # in metres of UTM 33
        from rasterio.warp import transform

        lake = shapely.transform(
            lake, lambda xy: np.column_stack(transform(crs, "EPSG:25833", *xy.T))
        )
        crs = "EPSG:25833"
    path = tmp_path / {"GPKG": "a.gpkg", "KML": "a.kml"}.get(driver, "a.shp")
    raw.write(
        path, np.array([lake.wkb], dtype=object), [], [], driver=driver,
        geometry_type="Polygon", crs=crs,
    )  # fmt: skip
    outline = read_outline(path, MIDDLE, SOUNDINGS)
    assert outline.area == pytest.approx(700, rel=1e-3)
    assert outline.box.bounds == pytest.approx((0, 40, 0, 20), abs=0.02)
    if driver == "KML":  # 15 digits of a degree
        rings = [[np.array(ring.coords).tolist() for ring in (lake.exterior, *lake.interiors)]]
        same = read_outline(written(tmp_path / "a.geojson", rings), MIDDLE, SOUNDINGS)
        for own, other in zip(outline.polygons[0], same.polygons[0], strict=True):
            np.testing.assert_allclose(own, other, atol=1e-8)
    if driver == "ESRI Shapefile":
        raw.write(
            path, np.array([lake.wkb], dtype=object), [], [], driver=driver,
            geometry_type="Polygon", crs="EPSG:2229",
        )  # fmt: skip
        with pytest.raises(InputError, match=r"in feet \(EPSG:2229\).*--crs EPSG:2229"):
            read_outline(path, None, SOUNDINGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "expected GeoJSON"),
        ("[]", "expected GeoJSON"),
        ('{"type": "FeatureCollection", "features": 5}', "expected GeoJSON"),
        (
            '{"type": "Point", "coordinates": [1, 2]}',
            "expected polygons or closed lines of an outline",
        ),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}', "at least 4 coordinates"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [9, "a"], [1, 1]]]}', "expected GeoJSON"),
        (json.dumps(geojson([[square(100, 0, 5)]])), "polygons: x 100 to 105 m.*need --crs"),
        (json.dumps(geojson([[square(1000, 0, 5)]])), r"soundings: x 5 to 30 m, y 5 to 5 m\)$"),
    ],
)
def test_what_is_wrong_is_said(text, words, tmp_path):
    path = tmp_path / "lake.geojson"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as raised:
        read_outline(path, None, SOUNDINGS)
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_metres_are_not_taken_for_degrees(tmp_path):
    path = written(tmp_path / "lake.geojson", [[square(500, 0, 40)]])
    with pytest.raises(InputError, match="expected degrees, longitude before latitude, got 500"):
        read_outline(path, MIDDLE, SOUNDINGS)
    with pytest.raises(InputError, match=r"none\.geojson: cannot be read \(No such file"):
        read_outline(tmp_path / "none.geojson", None, SOUNDINGS)


def test_the_fence_of_a_plan_is_an_outline(tmp_path):
    """Latitude comes first; without a fence, a survey's polygon counts."""
    corners = [[47.0, 8.0], [47.0, 8.01], [47.01, 8.01], [47.01, 8.0]]
    projection = GeoReference(47.005, 8.005)
    fence = {"polygons": [{"inclusion": True, "polygon": corners}], "circles": []}
    survey = {"type": "ComplexItem", "complexItemType": "survey", "polygon": corners}
    path = tmp_path / "area.plan"
    for content in (
        {"geoFence": fence, "mission": {"items": []}},
        {"geoFence": {"polygons": [], "circles": []}, "mission": {"items": [survey]}},
    ):
        path.write_text(json.dumps(content))
        found = read_outline(path, projection, np.zeros((1, 2)))
        assert found.area == pytest.approx(1112 * 760, rel=0.01) and not found.islands


GRID = Grid.cells(Extent(0, 200, 0, 100), 1.0)
X, Y = np.meshgrid(GRID.x, GRID.y)


def lines(first=20.0, last=120.0, apart=10.0):
    """Places on north-south lines from y = 20 to 60 m."""
    columns = np.arange(first, last + 1, apart)
    return np.array([(x, y) for x in columns for y in np.arange(20.0, 60.5, 0.5)])


def drawn(elevation):
    return ElevationMap(GRID, elevation, np.full(GRID.shape, 0.01))


def cells(elevation, xy, surface=0.0):
    z = np.linspace(-12.0, -2.0, len(xy))
    return surveyed(drawn(elevation), xy, z, surface)


def test_a_map_extends_beyond_the_lines_by_their_spacing():
    shown, counted = cells(np.full(GRID.shape, -5.0), lines())
    assert shown[(X > 20) & (X < 120) & (Y > 21) & (Y < 59)].all()
    east, north = np.clip((20 - X, X - 120), 0, None), np.clip((20 - Y, Y - 60), 0, None)
    beyond = np.hypot(east.max(0), north.max(0))
    assert not shown[beyond > 6].any() and shown[beyond < 3].all()
    np.testing.assert_array_equal(shown, counted)


def test_cells_behind_land_are_not_shown():
    elevation = np.where((Y > 62) & (Y < 64), 1.0, -5.0)  # a spit, and water behind it
    shown, counted = cells(elevation, lines())
    assert not shown[Y > 62].any() and not counted[Y > 64].any()
    assert counted[(Y > 62) & (Y < 64) & (X > 22) & (X < 118)].all()  # land, for the draws


def test_two_surveyed_basins_are_both_shown():
    elevation = np.where((X > 84) & (X < 86), 1.0, -5.0)
    shown, _ = cells(elevation, np.concatenate((lines(last=80), lines(first=90))))
    assert shown[(X < 80) & (X > 20) & (Y > 21) & (Y < 59)].all()
    assert shown[(X < 120) & (X > 90) & (Y > 21) & (Y < 59)].all()
    assert not shown[(X > 84) & (X < 86)].any()


def test_land_with_soundings_is_shown():
    elevation = np.where(X > 100, 1.0, -5.0)
    xy = lines()
    shown, _ = surveyed(drawn(elevation), xy, np.where(xy[:, 0] > 100, 1.0, -5.0), 0.0)
    assert shown[(X > 101) & (X < 119) & (Y > 21) & (Y < 59)].all()


def test_a_single_line_is_not_limited():
    shown, _ = cells(np.full(GRID.shape, -5.0), lines(last=20))
    assert shown.all()


def test_large_maps_are_searched_in_steps(monkeypatch):
    elevation = np.where((Y > 70) & (Y < 72), 1.0, -5.0)
    whole, _ = cells(elevation, lines())
    monkeypatch.setattr(module, "CELLS", GRID.shape[0] * GRID.shape[1] // 4)
    rough, _ = cells(elevation, lines())
    assert np.mean(whole != rough) < 0.03


@pytest.mark.parametrize("count", [0, 1])
def test_without_soundings_nothing_is_shown(count):
    shown, _ = cells(np.full(GRID.shape, -5.0), lines()[:count])
    assert shown.any() == bool(count)


SQUARE = Grid.cells(Extent(0, 100, 0, 100), 2.0)
EAST, NORTH = (axis.reshape(SQUARE.shape) for axis in SQUARE.points.T)
WATER = np.ones(SQUARE.shape, dtype=bool)


def tracks(step=1.0, ys=(21, 41, 61, 81), first=11):
    """Survey lines along x, ``first`` m from both sides."""
    x = np.arange(first, 101 - first, step)
    return np.concatenate([np.column_stack((x, np.full(len(x), y))) for y in ys])


@pytest.mark.parametrize("step", [1.0, 6.0])
def test_cells_between_lines_are_compared_and_those_beyond_are_not(step):
    """Also if soundings are three cells apart."""
    between = between_soundings(SQUARE, WATER, tracks(step))
    inside = (EAST > 14) & (EAST < 86) & (NORTH > 22) & (NORTH < 80)
    assert between[inside].all()
    beyond = (np.abs(NORTH - 51) > 30 + step) | (np.abs(EAST - 50) > 39 + step)
    assert not between[beyond].any()


@pytest.mark.parametrize("step", [0.6, 0.8, 1.3])
def test_soundings_a_little_farther_apart_than_cells_make_a_line_without_gaps(step):
    grid = Grid.cells(Extent(-2, 82, -2, 22), 0.5)
    track = np.array([(x, y) for y in range(0, 21, 5) for x in np.arange(0, 80, step)])
    between = between_soundings(grid, np.ones(grid.shape, dtype=bool), track)
    x, y = (axis.reshape(grid.shape) for axis in grid.points.T)
    assert between[(x > 2) & (x < 77) & (y > 0) & (y < 20)].all()
    assert not between[(y < -1) | (y > 21)].any()


def test_land_between_two_lines_separates_them():
    track = tracks()
    wall = (np.abs(NORTH - 51) < 1) & (EAST > 30) & (EAST < 70)
    beside = (np.abs(NORTH - 51) < 6) & (EAST > 44) & (EAST < 56) & ~wall
    assert between_soundings(SQUARE, WATER, track)[beside].all()
    between = between_soundings(SQUARE, ~wall, track)
    assert not between[beside].any() and not between[wall].any()
    assert between[(np.abs(NORTH - 31) < 6) & (EAST > 14) & (EAST < 86)].all()


def test_soundings_far_away_on_the_other_side_do_not_count():
    """Nine tenths of the cells are within 8 m of a sounding; the line is more than 16 m away."""
    between = between_soundings(SQUARE, WATER, tracks(ys=(*range(3, 72, 4), 97), first=1))
    assert between[(EAST > 20) & (EAST < 80) & (NORTH > 4) & (NORTH < 70)].all()
    assert not between[np.abs(NORTH - 77) < 3].any()
