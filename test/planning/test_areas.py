"""Polygons that may not be left or entered: what is allowed, clear, near, and the ways round."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import shapely

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import WGS84, GeoReference, transformed
from poam_ros.core.geometry import Extent
from poam_ros.mavlink.plans import FORMATS, Plan
from poam_ros.planning.areas import AreaSettings, NavigableArea, read_polygons, ring
from poam_ros.planning.routes import Routes

SQUARE = Extent(-30, 30, -30, 30)
BLOCK = np.array([(-5, -5), (5, -5), (5, 5), (-5, 5)], dtype=float)
# A U that opens to the north, with arms 2 m wide.
CUP = np.array(
    [(-10, -10), (10, -10), (10, 10), (8, 10), (8, -8), (-8, -8), (-8, 10), (-10, 10)], dtype=float
)


def at(*xy: float) -> np.ndarray:
    return np.array(xy, dtype=float)


# --- By other means than the code under test, which goes by distances ---


def random_polygon(rng: np.random.Generator) -> np.ndarray:
    """A star-shaped polygon about a random centre: mostly concave, with spikes and slivers."""
    count = int(rng.integers(3, 13))
    angles = np.sort(rng.uniform(0, 2 * math.pi, count))
    radii = rng.uniform(1, 14, count)
    corners = rng.uniform(-25, 25, 2) + radii[:, None] * np.column_stack(
        (np.cos(angles), np.sin(angles))
    )
    return corners[:: rng.choice((1, -1))]


def random_areas(rng: np.random.Generator, margin: float = 0.5) -> NavigableArea | None:
    """One to three keep-outs, every other time a polygon about them; None where they leave none."""
    keep_outs = [random_polygon(rng) for _ in range(rng.integers(1, 4))]
    polygon = None
    if rng.random() < 0.5:
        angles = np.linspace(0, 2 * math.pi, 11)[:-1]
        radii = rng.uniform(12, 34, 10)
        polygon = radii[:, None] * np.column_stack((np.cos(angles), np.sin(angles)))
    try:
        return NavigableArea(SQUARE, polygon, keep_outs, margin)
    except InputError as error:
        # Two neighbouring angles may be all but the same: then it is no polygon of an area.
        assert any(w in str(error) for w in ("nothing of the workspace", "cross", "area"))
        return None


def may_take(areas: NavigableArea, start: np.ndarray, end: np.ndarray) -> bool:
    """Whether a leg stays out of keep-outs and in the polygon, by how their insides meet."""
    leg = shapely.LineString((start, end))
    if any(shapely.relate(shapely.Polygon(c), leg)[0] != "F" for c in areas.keep_outs):
        return False
    return areas.polygon is None or shapely.Polygon(areas.polygon).covers(leg)


@pytest.mark.slow
def test_no_route_crosses_a_keep_out_of_300_random_polygons():
    rng = np.random.default_rng(0)
    polygons = legs = found = escapes = 0
    while polygons < 300:
        areas = random_areas(rng)
        if areas is None:
            continue
        polygons += len(areas.keep_outs)
        routes = Routes(areas)
        for start, goal in rng.uniform(-30, 30, (2, 2, 2)):
            if not areas.allowed(start[None])[0]:
                # From within nothing is promised but that it is left.
                start, before = areas.nearest(start), start
                assert areas.allowed(start[None])[0], before
                escapes += 1
            goal = areas.nearest(goal)
            way = routes.route(start, goal)
            assert (way is not None) == bool(routes.reachable(start, goal[None])[0])
            if way is None:
                continue
            found += 1
            np.testing.assert_array_equal(way[-1], goal)
            for a, b in pairwise((start, *way)):
                assert SQUARE.contains(b, 1e-6)
                assert may_take(areas, a, b), (areas.keep_outs, a, b)
                legs += 1
    assert legs > 1.2 * found > 180 and escapes > 15


def test_clear_legs_are_clear_by_an_independent_check():
    rng = np.random.default_rng(1)
    judged = clear = 0
    while judged < 900:
        areas = random_areas(rng, margin=0.01)
        if areas is None:
            continue
        starts, ends = rng.uniform(-30, 30, (2, 60, 2))
        verdicts = areas.leg_allowed(starts, ends)
        for start, end, verdict in zip(starts, ends, verdicts, strict=True):
            truth = may_take(areas, start, end)
            # What only just passes may be refused for its margin; nothing else is.
            assert truth or not verdict
            judged, clear = judged + 1, clear + verdict
    assert 90 < clear < 810


def test_everything_is_allowed_in_a_plain_rectangle():
    areas = NavigableArea(SQUARE)
    assert areas.unrestricted and len(areas.corners) == 0
    goals = np.array([(0, 0), (30, 30), (30.1, 0)], dtype=float)
    assert areas.allowed(goals).tolist() == [True, True, False]
    assert areas.leg_allowed(at(-99, 0), goals).tolist() == [True, True, False]
    assert areas.nearest(at(99, 3)).tolist() == [30, 3]
    goal = at(5, 5)
    assert Routes(areas).route(at(0, 0), goal).tolist() == [[5, 5]]
    assert Routes(areas).reachable(at(0, 0), goals).tolist() == [True, True, False]


def test_a_route_around_a_block_is_the_shortest_at_the_margin():
    areas = NavigableArea(SQUARE, keep_outs=[BLOCK], margin=1.0)
    way = Routes(areas).route(at(-20, 0), at(20, 0))
    points = np.vstack((at(-20, 0), way))
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    # Taut round two corners at 1 m: two tangents, two arcs and a straight.
    arm = math.hypot(15, 5)
    arc = math.pi / 2 - math.acos(1 / arm) + math.atan2(5, 15)
    taut = 2 * math.sqrt(arm**2 - 1) + 2 * arc + 10
    assert taut <= length < taut + 0.5
    assert not areas.leg_allowed(at(-20, 0), at(20, 0)[None])[0]


def test_the_margin_holds_at_borders_and_for_legs():
    areas = NavigableArea(SQUARE, keep_outs=[BLOCK], margin=1.0)
    places = np.array([(5.99, 0), (6.01, 0), (5.7, 5.7), (5.75, 5.75)])
    assert areas.allowed(places).tolist() == [False, True, False, True]
    assert areas.leg_allowed(at(6.01, -9), at(6.01, 9)[None]).tolist() == [True]
    assert areas.leg_allowed(at(5.99, -9), at(6.01, 9)[None]).tolist() == [False]
    assert not areas.too_close(at(5.6, -9), at(5.6, 9))
    assert areas.too_close(at(5.4, -9), at(5.4, 9))


def test_the_route_out_of_a_cup_leads_over_its_rim():
    routes = Routes(NavigableArea(SQUARE, keep_outs=[CUP], margin=0.5))
    way = routes.route(at(0, 0), at(0, -20))
    assert way[0][1] > 10 and abs(way[0][0]) < 9  # up and out first
    assert routes.reachable(at(0, 0), at(0, -20)[None])[0]


def test_a_start_in_a_keep_out_is_left_by_the_nearest_way_that_crosses_no_other():
    areas = NavigableArea(SQUARE, keep_outs=[BLOCK], margin=1.0)
    way = Routes(areas).route(at(1, 4), at(0, -20))
    np.testing.assert_allclose(way[0], (1, 6), atol=1e-5)
    assert way[-1].tolist() == [0, -20] and len(way) > 2
    thin = np.array([(-5, 6.5), (5, 6.5), (5, 7), (-5, 7)])
    areas = NavigableArea(SQUARE, keep_outs=[BLOCK, thin], margin=0.2)
    np.testing.assert_allclose(areas.nearest(at(1, 4)), (1, 5.2), atol=1e-5)
    areas = NavigableArea(
        SQUARE, keep_outs=[BLOCK, thin - (0, 1.4)], margin=0.2
    )  # close to the block
    assert areas.allowed(areas.nearest(at(1, 4))[None])[0]


def test_the_outside_of_a_polygon_is_not_entered():
    bay = np.array([(-30, -30), (30, -30), (30, 30), (0, 0), (-30, 30)], dtype=float)
    areas = NavigableArea(SQUARE, polygon=bay, margin=1.0)
    assert areas.allowed(np.array([(0, -5), (0, 5), (29.5, 0)])).tolist() == [True, False, False]
    way = Routes(areas).route(at(-25, 20), at(25, 20))
    assert len(way) > 1 and way[:, 1].min() < 0
    assert areas.outside(at(0, -1)) == 0.0
    assert areas.outside(at(0, 10)) == pytest.approx(math.hypot(5, 5))
    assert areas.outside(at(0, -34)) == pytest.approx(4.0)


def test_the_direction_and_repeats_of_corners_do_not_matter():
    closed = np.vstack((BLOCK, BLOCK[:1]))
    for corners in (BLOCK, BLOCK[::-1], closed, np.repeat(BLOCK, 2, axis=0)):
        areas = NavigableArea(SQUARE, keep_outs=[corners])
        assert areas.allowed(np.array([(0.0, 0.0), (7.0, 0.0)])).tolist() == [False, True]
        assert len(areas.keep_outs[0]) == 4


@pytest.mark.parametrize(
    ("corners", "words"),
    [
        (BLOCK[:2], "at least 3 different corners, got 2"),
        ([(0, 0), (1, 1), (2, 2)], "corners in a line"),
        ([(0, 0), (4, 4), (4, 0), (0, 4)], "sides cross each other at 2 2"),
        ([(0, 0), (4, np.nan), (4, 0)], "corners x y in metres"),
        ([(0, 0, 0), (4, 1, 0), (4, 0, 0)], "corners x y in metres"),
        (np.random.default_rng(0).normal(size=(201, 2)), "at most 200 corners"),
    ],
)
def test_an_invalid_polygon_is_refused_by_its_name(corners, words):
    with pytest.raises(InputError, match=f"keep-out 2: .*{words}"):
        NavigableArea(SQUARE, keep_outs=[BLOCK, np.array(corners, dtype=float)])
    assert len(ring(BLOCK, "fine")) == 4


def test_a_workspace_that_is_covered_altogether_is_refused():
    with pytest.raises(InputError, match="leave no place in the workspace"):
        NavigableArea(SQUARE, keep_outs=[BLOCK * 7])
    with pytest.raises(InputError, match="leave no place in the workspace"):
        NavigableArea(SQUARE, polygon=BLOCK + 99)
    with pytest.raises(InputError, match="margin"):
        NavigableArea(SQUARE, keep_outs=[BLOCK], margin=0.0)


# --- Polygons from parameters and files ---

RING = [[0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 0.0]]
OUTER = [[-20.0, -20.0], [20.0, -20.0], [20.0, 20.0], [-20.0, 20.0]]


def feature(kind, *rings):
    properties = {} if kind is None else {"kind": kind}
    geometry = {"type": "Polygon", "coordinates": list(rings)}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def written(tmp_path, content) -> str:
    file = tmp_path / "areas.geojson"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(file)


def test_polygons_of_a_text():
    first, second = read_polygons("0 0, 9 0, 9 9.5;1 1, 2 1, 2 -2e0 ;")
    assert first.tolist() == [[0, 0], [9, 0], [9, 9.5]] and second[2].tolist() == [2, -2]
    assert read_polygons("") == []


@pytest.mark.parametrize("text", ["0 0, 1", "a b, c d", "0 0 0, 1 1 1, 2 2 2", "nan 0, 1 1, 2 0"])
def test_other_texts_are_refused_by_the_parameters_name(text):
    with pytest.raises(InputError, match="keep_outs: expected corners as in"):
        AreaSettings(keep_outs=text)


def test_parameters_and_a_file_add_up(tmp_path):
    hole = [[-9.0, -9.0], [-5.0, -9.0], [-5.0, -5.0]]
    several = {
        "type": "MultiPolygon",
        "coordinates": [[RING], [[[x + 9 for x in p] for p in RING]]],
    }
    content = {
        "type": "FeatureCollection",
        "features": [
            feature("workspace", OUTER, hole),
            feature(None, RING),
            {"type": "Feature", "properties": None, "geometry": several},
        ],
    }
    file = written(tmp_path, content)
    areas = AreaSettings(file=file, keep_outs="-15 0, -12 0, -12 3", margin=0.1).open(SQUARE)
    assert areas.polygon is not None and len(areas.keep_outs) == 5
    points = np.array([(8, 3), (-6, -8), (-13, 1), (25, 0), (-10, 10)], dtype=float)
    assert areas.allowed(points).tolist() == [False, False, False, False, True]


def test_a_missing_origin_is_reported(tmp_path):
    pytest.importorskip("pyproj")
    file = written(tmp_path, {"type": "Polygon", "coordinates": [RING]})
    with pytest.raises(InputError, match=r"within 200 km of the origin \[60.0, 25.0\], got \["):
        AreaSettings(file=file, coordinates="degrees", origin=(60.0, 25.0)).open(SQUARE)
    with pytest.raises(InputError, match="latitude within 90"):
        AreaSettings(origin=(120.0, 0.0))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "it is not GeoJSON"),
        ({"type": "Point", "coordinates": [0, 0]}, "expected polygons in .*, got none"),
        ({"type": "FeatureCollection", "features": []}, "expected polygons in .*, got none"),
        (feature("harbour", RING), "kind workspace or keep_out in .*, got harbour"),
        (feature("keep_out", [[0, 0], ["a", 1], [2, 2]]), "expected GeoJSON with polygons"),
        (feature("keep_out", []), "expected polygons in .*, got none"),
        (
            {"type": "FeatureCollection", "features": [feature("workspace", OUTER)] * 2},
            "one workspace polygon, got 2",
        ),
    ],
)
def test_wrong_files_are_refused_with_a_reason(tmp_path, content, words):
    with pytest.raises(InputError, match=f"areas(.file)?: .*{words}"):
        AreaSettings(file=written(tmp_path, content)).open(SQUARE)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"areas.file: cannot read .*none\.json: No such file"):
        AreaSettings(file=str(tmp_path / "none.json")).open(SQUARE)
    with pytest.raises(InputError, match="expected one polygon, got several"):
        AreaSettings(polygon="0 0, 1 0, 1 1; 0 0, 1 0, 1 1")


#: Where a workspace and a keep-out of 40 and 6 m are, in both hemispheres and on the antimeridian.
PLACES = [(47.3, 8.55), (-33.9, 18.4), (-17.5, 180.0), (60.0, -179.99995)]


@pytest.mark.parametrize("ending", [".plan", ".kml"])
@pytest.mark.parametrize("origin", PLACES, ids=str)
def test_output_of_poam_waypoints_is_read_as_areas(tmp_path, origin, ending):
    """The areas of a plan, as ground stations show and change them, to a millimetre."""
    pytest.importorskip("pyproj")
    frame = GeoReference(*origin)
    outer, keep_out = np.array(OUTER), np.array(RING[:3])
    plan = Plan(
        "lake",
        [frame.to_degrees((0, 0)), frame.to_degrees((1, 0))],
        [frame.to_degrees(corner) for corner in outer],
        [[frame.to_degrees(corner) for corner in keep_out]],
    )
    file = tmp_path / f"lake{ending}"
    file.write_text(FORMATS[ending](plan), encoding="utf-8")
    areas = AreaSettings(file=str(file), origin=origin, margin=0.1).open(SQUARE)
    for found, wanted in ((areas.polygon, outer), (areas.keep_outs[0], keep_out)):
        ordered = found[np.lexsort(found.T.round(3))], wanted[np.lexsort(wanted.T)]
        np.testing.assert_allclose(*ordered, atol=1e-3)


@pytest.mark.parametrize(("ending", "crs"), [(".gpkg", "EPSG:4326"), (".shp", "EPSG:32632")])
def test_polygons_of_a_gis_in_any_coordinate_system(tmp_path, ending, crs):
    """The column ``kind`` says what they are; a hole of the workspace is a keep-out."""
    raw = pytest.importorskip("pyogrio").raw
    frame = GeoReference(47.3, 8.55)
    outer, hole, keep_out = (
        transformed(WGS84, crs, np.array([frame.to_degrees(corner)[::-1] for corner in ring]))
        for ring in (OUTER, RING[:3], np.array(RING[:3]) - 8.0)
    )
    found = [shapely.Polygon(outer, [hole]), shapely.Polygon(keep_out)]
    file = tmp_path / f"lake{ending}"
    raw.write(
        file, np.array([one.wkb for one in found], dtype=object),
        [np.array(["workspace", "keep_out"], dtype=object)], ["kind"],
        geometry_type="Polygon", crs=crs,
    )  # fmt: skip
    areas = AreaSettings(file=str(file), origin=(47.3, 8.55), margin=0.1).open(SQUARE)
    wanted = OUTER, RING[:3], np.array(RING[:3]) - 8.0
    for found_ring, expected in zip((areas.polygon, *areas.keep_outs), wanted, strict=True):
        corners = np.unique(found_ring.round(2) + 0.0, axis=0)
        np.testing.assert_allclose(corners, np.unique(np.array(expected, float), axis=0), atol=0.02)
    (tmp_path / "bad.gpkg").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"areas.file: cannot read .*bad.gpkg: expected polygons"):
        AreaSettings(file=str(tmp_path / "bad.gpkg")).open(SQUARE)


def test_circles_of_a_fence(tmp_path):
    """Within that of the workspace, and around that of a keep-out."""
    pytest.importorskip("pyproj")
    circles = [
        {"circle": {"center": [60.0, 25.0], "radius": radius}, "inclusion": inside, "version": 1}
        for radius, inside in ((25.0, True), (5.0, False))
    ]
    file = tmp_path / "fence.plan"
    file.write_text(json.dumps({"fileType": "Plan", "geoFence": {"circles": circles}}))
    areas = AreaSettings(file=str(file), origin=(60.0, 25.0), margin=0.1).open(SQUARE)
    assert np.linalg.norm(areas.polygon, axis=1) == pytest.approx(25.0)
    for a, b in zip(areas.keep_outs[0], np.roll(areas.keep_outs[0], 1, axis=0), strict=True):
        assert np.linalg.norm((a + b) / 2) == pytest.approx(5.0)


CIRCLE = (
    '{"geoFence": {"circles": [{"inclusion": true, "circle": {"center": [47, 8], "radius": 5}}]}}'
)


KML_2 = "http://www.opengis.net/kml/2.2"
KML = "<kml><Document><Placemark>{}</Placemark></Document></kml>"
#: Entities that grow to a thousand million characters.
LAUGHS = "<!ENTITY a0 'ha'>" + "".join(f"<!ENTITY a{n + 1} '{f'&a{n};' * 10}'>" for n in range(9))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.plan", "{}", "expected a QGroundControl plan with polygons"),
        ("a.plan", '{"geoFence": {"polygons": []}}', "expected polygons in"),
        ("a.plan", "QGC WPL 110", "it is not a QGroundControl plan"),
        ("a.plan", CIRCLE.replace("47", "NaN"), "expected a QGroundControl plan with polygons"),
        ("a.kml", "<kml>", "cannot read .*a.kml: expected polygons"),
        ("a.kml", "<kml/>", "cannot read .*a.kml: expected"),
        ("a.kml", f'<kml xmlns="{KML_2}"><Document></Document></kml>', "got none"),
        ("a.kml", f"<!DOCTYPE k [{LAUGHS}]><kml>&a9;</kml>", "cannot read .*a.kml: expected"),
        ("a.kml", KML.format("<Point><coordinates>1,2</coordinates></Point>"), "got none"),
    ],
)
def test_wrong_plans_and_kml_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"areas.file: .*{words}"):
        AreaSettings(file=str(tmp_path / name)).open(SQUARE)
