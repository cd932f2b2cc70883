"""Workspace, areas and home in degrees, around an origin that nobody knew beforehand."""

import math

import pytest
from voyages import polygons

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.mavlink.frame import LocalFrame

FIJI = (-17.5, 179.99995)


def square(frame, half):
    """South, west, north, east of a square around a frame's origin, with its half side in m."""
    (south, west), (north, east) = frame.to_degrees((-half, -half)), frame.to_degrees((half, half))
    return south, west, north, east


def test_a_mission_across_the_antimeridian(voyage):
    """The frame is made by the first fix; the boat's own, and the places it is sent to, agree."""
    pytest.importorskip("pyproj")
    degrees = square(LocalFrame(*FIJI), 10.0)
    assert degrees[1] > 0 > degrees[3]
    v = voyage({"workspace_degrees": degrees}, {"home": FIJI}).explore().run(20)
    assert v.drive.values["origin"] == pytest.approx(FIJI, abs=1e-7)
    assert v.drive.values["workspace"] == pytest.approx((-10, 10, -10, 10), abs=0.02)
    assert f"origin of the map: {FIJI[0]:.8f}" in "\n".join(v.said)
    for _, place in v.boat.targets:
        x, y = v.boat.frame.to_map(*place)
        assert max(abs(x), abs(y)) < 10.05
    assert v.mission.goals.results["reached"] or v.mission.goals.results["passed"]


def test_a_workspace_of_the_areas_file(voyage, tmp_path):
    frame = LocalFrame(47.3, 8.55)
    areas = {"workspace": (-9, 9, -8, 8), "keep_out": (2, 5, 2, 5)}
    file = polygons(tmp_path / "lake.geojson", frame, **areas)
    values = {"workspace": (0.0,) * 4, "areas.file": file, "areas.coordinates": "degrees"}
    v = voyage(values)
    v.until(lambda: v.state == "waiting", 20)
    assert v.drive.values["workspace"] == pytest.approx((-9, 9, -8, 8), abs=0.01)
    (keep_out,) = v.mission.goals.routes.areas.keep_outs
    assert Extent(1.99, 5.01, 1.99, 5.01).contains(keep_out).all()


def corners(frame, *places):
    """Latitude and longitude of places of a frame, as parameters have them."""
    degrees = (frame.to_degrees(place) for place in places)
    return ", ".join(f"{latitude!r} {longitude!r}" for latitude, longitude in degrees)


def test_areas_and_goals_in_degrees(voyage):
    """Of parameters alone, across the antimeridian; the first fix makes the frame."""
    frame = LocalFrame(*FIJI)
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
    first = v.boat.frame.to_map(*v.boat.targets[0][1])
    assert math.dist(first, goals[0]) < 0.02 and v.mission.goals.results.total() >= 2
    assert math.dist(v.boat.position, goals[1]) < 2.0
    (keep_out,) = v.mission.goals.routes.areas.keep_outs
    assert Extent(-1.02, 1.02, -9.02, -2.98).contains(keep_out).all()


def test_without_a_workspace_or_with_one_elsewhere_it_is_refused(voyage, tmp_path):
    file = polygons(tmp_path / "lake.geojson", LocalFrame(47.3, 8.55), keep_out=(2, 5, 2, 5))
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
