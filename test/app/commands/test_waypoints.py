"""`poam waypoints`: the files, read by others' readers, have the survey's waypoints."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from voyages import polygons

from poam_ros.app.cli import main
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mavlink.plans import FORMATS
from poam_ros.outputs import folder as files

CENTRE = (-17.5, 179.9999)  # its workspace crosses the antimeridian
FRAME = GeoReference(*CENTRE)


def degrees():
    (south, west), (north, east) = FRAME.to_degrees((-100, -60)), FRAME.to_degrees((100, 60))
    return [repr(side) for side in (south, west, north, east)]


def waypoints(path):
    """Latitude, longitude of each waypoint, by a reader of the format."""
    if path.suffix == ".plan":
        items = json.loads(path.read_text())["mission"]["items"]
        return [item["params"][4:6] for item in items]
    if path.suffix == ".waypoints":
        mavwp = pytest.importorskip("pymavlink.mavwp")
        loader = mavwp.MAVWPLoader()
        loader.load(str(path))
        found = [loader.wp(number) for number in range(loader.count())]
        assert found[0].frame == 0 and all(wp.frame == 3 and wp.command == 16 for wp in found[1:])
        return [(wp.x, wp.y) for wp in found[1:]]
    root = ElementTree.parse(path).getroot()
    if path.suffix == ".gpx":
        return [(float(p.get("lat")), float(p.get("lon"))) for p in root.iter() if p.get("lat")]
    line = next(root.iter("{http://www.opengis.net/kml/2.2}LineString"))
    places = [text.split(",") for text in line[0].text.split()]
    return [(float(lat), float(lon)) for lon, lat, _ in places]


@pytest.mark.parametrize("ending", [".plan", ".waypoints", ".kml", ".gpx"])
def test_round_trips(tmp_path, capsys, ending):
    path = tmp_path / f"lake{ending}"
    options = ["--workspace-degrees", *degrees(), "--set", "boustrophedon.spacing=30"]
    assert main(["waypoints", str(path), *options, "--origin", *map(str, CENTRE)]) == 0
    found = np.array([FRAME.metres(*place) for place in waypoints(path)])
    # Four lines along the longer side, half a spacing from the borders.
    y = np.repeat([-45, -15, 15, 45], 2)
    x = np.resize([-100, 100, 100, -100], 8)
    assert np.abs(found - np.column_stack((x, y))).max() < 0.05
    assert "8 waypoints, 890 m, 0.25 h" in capsys.readouterr().out


def test_areas_become_the_fence_and_are_driven_around(tmp_path):
    file = polygons(
        tmp_path / "areas.geojson", FRAME, workspace=(-90, 90, -50, 50), keep_out=(-20, 20, -20, 20)
    )
    path = tmp_path / "lake.plan"
    common = ["--origin", *map(str, CENTRE), "--set", f"areas.file={file}"]
    common += ["--set", "areas.coordinates=degrees", "--set", "areas.margin=2"]
    assert main(["waypoints", str(path), *common, "--set", "boustrophedon.spacing=20"]) == 0
    content = json.loads(path.read_text())
    inside, outside = content["geoFence"]["polygons"]
    assert inside["inclusion"] and not outside["inclusion"]
    corners = np.array([FRAME.metres(*corner) for corner in outside["polygon"]])
    assert np.abs(np.abs(corners) - 20).max() < 0.05
    found = np.array([FRAME.metres(*place) for place in waypoints(path)])
    steps = np.linspace(0, 1, 200)[:, None, None]
    driven = (found[:-1] + steps * np.diff(found, axis=0)).reshape(-1, 2)
    beside = np.linalg.norm(np.maximum(np.abs(driven) - 20, 0), axis=1)
    assert beside.min() > 1.99
    assert (np.abs(driven) <= (88.1, 48.1)).all()


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("survey", ["boustrophedon", "bezier", "lawnmower", "diagonal", "next"])
def test_each_survey_is_read_back_from_each_format(tmp_path, mission, monkeypatch, survey, ending):
    """The survey's waypoints in their order, to a millimetre, and none besides."""
    plans, write = [], FORMATS[ending]
    monkeypatch.setitem(FORMATS, ending, lambda plan: plans.append(plan) or write(plan))
    path = tmp_path / f"lake{ending}"
    options = ["--workspace-degrees", *degrees(), "--survey", survey]
    if survey == "next":
        options = ["--after", str(mission), "--duration", "300"]
    assert main(["waypoints", str(path), *options]) == 0
    (plan,) = plans
    written = np.array([FRAME.metres(*place) for place in plan.waypoints])
    assert len(written) >= 2 and (np.abs(written) <= (100.2, 60.2)).all()
    np.testing.assert_allclose([FRAME.metres(*p) for p in waypoints(path)], written, atol=1e-3)


@pytest.fixture
def mission(tmp_path):
    """The folder of a mission in the west of 100 x 60 m, whose map is uncertain in the east."""
    pings = np.column_stack((np.linspace(-45, -30, 60), np.full(60, -10.0)))
    grid = Grid.cells(Extent(-50, 50, -30, 30), 1.0)
    variance = 0.01 + 0.002 * np.maximum(grid.points[:, 0] + 40, 0)
    lengthscale = np.full(grid.shape, 20.0)
    drawn = ElevationMap(
        grid, np.full(grid.shape, -8.0), variance.reshape(grid.shape), {"lengthscale": lengthscale}
    )
    folder = tmp_path / "monday"
    folder.mkdir()
    files.write_map(folder / "map.npz", drawn)
    files.write_table(folder / "samples.csv", ("x", "y"), pings.tolist())
    place = {"origin": list(CENTRE), "heading": 25.0}
    files.write_config(folder / "config.yaml", {"nodes": {"planner": place, "mapper": place}})
    return folder


@pytest.mark.parametrize(
    ("planner", "ending"), [("path-entropy", ".plan"), ("boustrophedon", ".waypoints")]
)
def test_the_path_of_the_planner_after_a_map(tmp_path, mission, planner, ending):
    """From the last ping, for as long as was asked, to where the map is uncertain."""
    path, frame = tmp_path / f"next{ending}", GeoReference(*CENTRE, 25.0)
    keep_out = polygons(tmp_path / "areas.geojson", frame, keep_out=(5, 15, -10, 10))
    words = ["waypoints", str(path), "--after", str(mission), "--set", f"areas.file={keep_out}"]
    words += ["--set", "areas.coordinates=degrees", "--duration", "300", "--max-speed", "1.5"]
    assert main([*words, "--planner", planner]) == 0
    found = np.array([frame.metres(*place) for place in waypoints(path)])
    way = np.vstack(((-30.0, -10.0), found))
    legs = np.diff(way, axis=0)
    assert np.linalg.norm(legs, axis=1).sum() == pytest.approx(450, abs=0.5)
    driven = (way[:-1] + np.linspace(0, 1, 200)[:, None, None] * legs).reshape(-1, 2)
    assert (np.abs(driven) <= (50.01, 30.01)).all()
    beside = np.abs(driven - (10, 0)) - (5, 10)
    assert np.linalg.norm(np.maximum(beside, 0), axis=1).min() > 0.99  # areas.margin is 1 m
    if planner == "path-entropy":
        assert (driven[:, 0] > 0).mean() > 0.5
        reached = {(math.floor(x / 10), math.floor(y / 10)) for x, y in driven if x > 15}
        assert len(reached) > 10  # of 21 squares: what the plan measures counts as measured


@pytest.mark.parametrize(("least", "shallow"), [(0.0, True), (1.5, True), (1.9, False)])
def test_nothing_is_planned_in_shallow_water(tmp_path, mission, least, shallow):
    """By the map, the water level and the depth of the transducer: 1.7 m in the east."""
    drawn = files.read_map(mission / "map.npz")
    drawn.mean[:, drawn.grid.x > 0] = -2.5
    drawn.variance[:] = np.where(drawn.grid.x > 20, 2e-3, 1e-3)
    files.write_map(mission / "map.npz", drawn)
    place = {"origin": list(CENTRE), "heading": 0.0}
    mapper = {**place, "water": {"level": -0.5}, "sonar": {"offset": [0.1, 0.0, -0.3]}}
    files.write_config(mission / "config.yaml", {"nodes": {"planner": place, "mapper": mapper}})
    path = tmp_path / "next.gpx"
    words = ["waypoints", str(path), "--after", str(mission), "--duration", "200"]
    words += ["--capture-radius", "3", "--min-depth", str(least)]
    assert main(words) == 0
    found = np.array([FRAME.metres(*place) for place in waypoints(path)])
    way = np.vstack(((-30.0, -10.0), found))
    driven = (way[:-1] + np.linspace(0, 1, 99)[:, None, None] * np.diff(way, axis=0)).reshape(-1, 2)
    assert (driven[:, 0].max() > 10) == shallow
    assert shallow or driven[:, 0].max() < -2.5  # nor within the turning diameter of it


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lake.txt", "--workspace-degrees", *degrees()], "expected a name that ends with .plan"),
        (["lake.plan"], "expected --workspace-degrees"),
        (["lake.plan", "--origin", "47", "8"], "expected --workspace, --workspace-degrees"),
        (["no/lake.plan", "--workspace-degrees", *degrees()], "cannot be written"),
        (["lake.plan", "--workspace-degrees", *degrees(), "--min-depth", "2"],
         "min_depth: expected --after as well"),
        (["lake.plan", "--after", "nowhere", "--survey", "bezier"], "survey: not with --after"),
        (["lake.plan", "--after", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_what_is_missing_or_does_not_fit_is_reported(
    tmp_path, monkeypatch, capsys, words, expected
):
    monkeypatch.chdir(tmp_path)
    assert main(["waypoints", *words]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(("radius", "farthest"), [("0.8", 59), ("1.34", 20)])
def test_narrow_passages_are_entered_as_by_a_mission_with_this_capture_radius(
    tmp_path, caplog, radius, farthest
):
    path = tmp_path / "basins.gpx"
    basins = "0 0, 20 0, 20 8.7, 40 8.7, 40 0, 60 0, 60 20, 40 20, 40 11.3, 20 11.3, 20 20, 0 20"
    words = ["--workspace", *["0", "60", "0", "20"], "--set", f"areas.polygon={basins}"]
    words += ["--set", "boustrophedon.spacing=4", "--origin", *map(str, CENTRE)]
    assert main(["waypoints", str(path), *words, "--capture-radius", radius]) == 0
    found = np.array([FRAME.metres(*place) for place in waypoints(path)])
    assert abs(found[:, 0].max() - farthest) < 1.5
    assert ("narrower than twice capture_radius (1.34 m)" in caplog.text) == (farthest < 59)
