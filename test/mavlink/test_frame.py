"""The local frame against geodesics, in both hemispheres and across the antimeridian."""

import json
import math

import numpy as np
import pytest
from voyages import DEFAULTS, polygons

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent
from poam_ros.core.settings import instance
from poam_ros.mavlink.frame import extent_of
from poam_ros.mavlink.plans import FORMATS, Plan
from poam_ros.mission.guidance import Guidance
from poam_ros.planning.areas import AreaSettings

PLACES = [(47.3, 8.55), (-33.9, 18.4), (-17.5, 179.9995), (65.0, -179.9999), (0.0, -80.0)]


@pytest.mark.parametrize("origin", PLACES, ids=str)
def test_a_workspace_in_degrees(origin):
    """Its sides are those of geodesics; a rectangle in degrees lies within it."""
    geod = pytest.importorskip("pyproj").Geod(ellps="WGS84")
    frame, (latitude, longitude) = GeoReference(*origin), origin
    east, _, _ = geod.fwd(longitude, latitude, 90, 1000.0)
    west, _, _ = geod.fwd(longitude, latitude, 270, 1000.0)
    _, north, _ = geod.fwd(longitude, latitude, 0, 1000.0)
    _, south, _ = geod.fwd(longitude, latitude, 180, 1000.0)
    extent = extent_of(frame, (south, west, north, east), "workspace_degrees")
    # Meridians converge: the rectangle reaches the farthest corner.
    bend = 1000.0**2 / 6.37e6 * abs(math.tan(math.radians(latitude))) + 0.01
    for side in (-extent.xmin, extent.xmax, -extent.ymin, extent.ymax):
        assert 1000 - 0.01 <= side <= 1000 + bend
    for corner in ((south, west), (south, east), (north, west), (north, east)):
        x, y = frame.metres(*corner)
        assert extent.grown(1e-6).contains((x, y))


def test_what_is_no_place_or_no_rectangle(tmp_path):
    frame = GeoReference(47.3, 8.55)
    assert all(math.isnan(number) for number in frame.metres(math.nan, 8.0))
    with pytest.raises(InputError, match="origin: expected a latitude"):
        GeoReference(90.0, 0.0)
    with pytest.raises(InputError, match="expected south west north east"):
        extent_of(frame, (47.4, 8.5, 47.3, 8.6), "workspace_degrees")


BEARINGS = (20.0, 110.0, 200.0, 290.0)  # of corners, 2 km from the origin
WAYS = ["areas.polygon_degrees", "areas.keep_outs_degrees", "areas.file", "goals.degrees",
        "home_degrees", ".geojson", ".kml", ".plan", ".gpkg"]  # fmt: skip


@pytest.mark.parametrize("origin", PLACES[:3], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_places_by_every_conversion_agree_with_geodesics(tmp_path, origin, way):
    """Wherever places in degrees are taken, also with longitudes beyond the antimeridian."""
    geod, places, heading = pytest.importorskip("pyproj").Geod(ellps="WGS84"), [], 25.0
    for bearing in BEARINGS:
        longitude, latitude, _ = geod.fwd(origin[1], origin[0], bearing, 2000.0)
        places.append((latitude, longitude))
    turned = np.radians(np.array(BEARINGS) - heading)
    expected = 2000.0 * np.column_stack((np.sin(turned), np.cos(turned)))
    values = {**DEFAULTS, "origin": origin, "heading": heading, "workspace": (-2e3, 2e3) * 2}
    values |= {"areas.coordinates": "degrees"}
    if way == "home_degrees":
        values[way] = places[0]
    elif way.endswith("_degrees") or way == "goals.degrees":
        values[way] = ", ".join(f"{latitude!r} {longitude!r}" for latitude, longitude in places)
    else:
        file = _file(tmp_path / f"places{way if way in FILES else '.geojson'}", places)
        values["goals.file" if way in FILES else way] = str(file)
    if way.startswith("areas."):
        areas = instance(AreaSettings, values).open(Extent(-5e3, 5e3, -5e3, 5e3))
        found = areas.polygon if "keep" not in way else areas.keep_outs[0]
    else:
        mission = Guidance(values, print).mission
        found = np.array([mission.home] if way == "home_degrees" else mission.goals.queue)
        if mission.home is not None:
            assert math.dist(mission.home, expected[0]) < 0.01
        expected = expected[:1] if way == "home_degrees" else expected
    assert len(found) == len(expected)
    away = np.linalg.norm(found[:, None] - expected, axis=2).min(axis=1)
    assert away.max() < 0.01


#: Files of goals: an area is none of them.
FILES = [".geojson", ".kml", ".plan", ".gpkg"]


def _file(file, places):
    """A file with a home, goals and (if the format can have both) an area."""
    line = [place[::-1] for place in places]
    if file.suffix in (".plan", ".kml"):
        text = FORMATS[file.suffix](Plan("goals", places, places))
        home = f"<Placemark><name>Home</name><Point><coordinates>{line[0][0]},{line[0][1]},0"
        home += "</coordinates></Point></Placemark></Document>"
        file.write_text(text.replace("</Document>", home))
    elif file.suffix == ".geojson":
        shapes = (("Polygon", [[*line, line[0]]], "workspace"), ("Point", [*line[0], 0.0], "home"),
                  ("LineString", line, None))  # fmt: skip
        features = [
            {"type": "Feature", "properties": {"kind": kind} if kind else {},
             "geometry": {"type": shape, "coordinates": where}}
            for shape, where, kind in shapes
        ]  # fmt: skip
        file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    else:
        pyogrio, shapely = pytest.importorskip("pyogrio"), pytest.importorskip("shapely")
        points = np.array([shapely.to_wkb(shapely.Point(place)) for place in (line[0], *line)])
        kinds = np.array(["home", *["goal"] * len(line)], dtype=object)
        options = {"crs": "EPSG:4326", "geometry_type": "Point", "fields": ["kind"]}
        pyogrio.raw.write(file, points, [kinds], **options)
    return file


def test_surveys_of_a_plan_are_goals_and_other_commands_are_not(tmp_path):
    inner = [{"command": 16, "params": [0, 0, 0, None, 47.3 + n / 1e4, 8.55, 0]} for n in (1, 2)]
    items = [
        {"command": 178, "params": [1, 2, -1, 0, 0, 0, 0]},
        {"command": 18, "params": [1, 0, 0, 1, 47.3, 8.5501, 0]},
        {"type": "ComplexItem", "TransectStyleComplexItem": {"Items": [{"command": 206}, *inner]}},
        {"command": 20, "params": [0] * 7},
    ]
    file = tmp_path / "survey.plan"
    file.write_text(json.dumps({"mission": {"items": items}}))
    values = {**DEFAULTS, "origin": (47.3, 8.55), "workspace": (-50.0, 50.0) * 2}
    mission = Guidance({**values, "goals.file": str(file)}, print).mission
    expected = [(7.6, 0.0), (0.0, 11.1), (0.0, 22.2)]
    np.testing.assert_allclose(mission.goals.queue, expected, atol=0.1)
    assert mission.home is None


BUOY = (
    '{"type": "Feature", "properties": {"kind": "buoy"}, '
    '"geometry": {"type": "Point", "coordinates": [8.5, 47.3]}}'
)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.plan", '{"mission": {"items": []}}', "expected points or lines in .*, got none"),
     ("a.kml", "<kml/>", "cannot read .*a.kml: expected polygons, points or lines"),
     ("a.json", '{"type": "Point", "coordinates": [400.0, 91.0]}', "expected latitude longitude"),
     ("a.json", BUOY, "expected kind goal or home in .*, got buoy"),
     ("none.json", None, "cannot read .*: No such file")],
)  # fmt: skip
def test_wrong_files_of_goals_are_refused(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    values = {**DEFAULTS, "origin": (47.3, 8.55), "workspace": (-50.0, 50.0) * 2}
    values |= {"goals.file": str(tmp_path / name), "areas.coordinates": "degrees"}
    with pytest.raises(InputError, match=f"goals.file: .*{words}"):
        Guidance(values, print)


# --- A mission around an origin that nobody knew beforehand ---

FIJI = (-17.5, 179.99995)


def square(frame, half):
    """South, west, north, east of a square around a frame's origin, with its half side in m."""
    (south, west), (north, east) = frame.to_degrees((-half, -half)), frame.to_degrees((half, half))
    return south, west, north, east


def test_a_mission_across_the_antimeridian(voyage):
    """The frame is made by the first fix; the boat's own, and the places it is sent to, agree."""
    pytest.importorskip("pyproj")
    degrees = square(GeoReference(*FIJI), 10.0)
    assert degrees[1] > 0 > degrees[3]
    v = voyage({"workspace_degrees": degrees}, {"home": FIJI}).explore().run(20)
    assert v.drive.values["origin"] == pytest.approx(FIJI, abs=1e-7)
    assert v.drive.values["workspace"] == pytest.approx((-10, 10, -10, 10), abs=0.02)
    assert f"origin of the map: {FIJI[0]:.8f}" in "\n".join(v.said)
    for _, place in v.boat.targets:
        x, y = v.boat.frame.metres(*place)
        assert max(abs(x), abs(y)) < 10.05
    assert v.mission.goals.results["reached"] or v.mission.goals.results["passed"]


def corners(frame, *places):
    """Latitude and longitude of places of a frame, as parameters have them."""
    degrees = (frame.to_degrees(place) for place in places)
    return ", ".join(f"{latitude!r} {longitude!r}" for latitude, longitude in degrees)


def test_areas_and_goals_in_degrees(voyage):
    """Of parameters alone, across the antimeridian; the first fix makes the frame."""
    frame = GeoReference(*FIJI)
    goals = (-8.0, -7.0), (8.0, -7.0)
    values = {
        "workspace": (0.0,) * 4,
        "areas.polygon_degrees": corners(frame, (-10, -9), (10, -9), (10, 9), (-10, 9)),
        "areas.keep_outs_degrees": corners(frame, (-1, -9), (1, -9), (1, -3), (-1, -3)),
        "goals.degrees": corners(frame, *goals),
    }
    v = voyage(values, {"home": FIJI}).start()
    assert v.drive.values["workspace"] == pytest.approx((-10, 10, -9, 9), abs=0.02)
    v.until(lambda: v.state == "exploring", 200)
    first = v.boat.frame.metres(*v.boat.targets[0][1])
    assert math.dist(first, goals[0]) < 0.02 and v.mission.goals.results.total() >= 2
    assert math.dist(v.boat.position, goals[1]) < 2.0
    (keep_out,) = v.mission.goals.routes.areas.keep_outs
    assert Extent(-1.02, 1.02, -9.02, -2.98).contains(keep_out).all()


def test_without_a_workspace_or_with_one_elsewhere_it_is_refused(voyage, tmp_path):
    file = polygons(tmp_path / "lake.geojson", GeoReference(47.3, 8.55), keep_out=(2, 5, 2, 5))
    areas = {"workspace": (0.0,) * 4, "areas.file": file, "areas.coordinates": "degrees"}
    for values, words in (
        (areas, "expected a polygon of kind workspace"),
        ({"workspace_degrees": (8.5, 47.2, 8.6, 47.3)}, "within 200 km of the origin"),
    ):
        with pytest.raises(InputError, match=words):
            voyage(values).run(10)


def test_a_polygon_whose_corner_is_nearest(voyage):
    """The frame's origin is where the vehicle is: here beyond a corner of the polygon."""
    values = {"workspace": (0.0,) * 4, "areas.polygon": "2 2, 20 2, 20 20, 2 20"}
    v = voyage(values).run(10)
    assert v.drive.values["workspace"] == (2, 20, 2, 20)
