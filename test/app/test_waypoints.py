"""`poam waypoints`: the files, read by others' readers, have the survey's waypoints."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from voyages import polygons

from poam_ros.app.cli import main
from poam_ros.mavlink.frame import LocalFrame

CENTRE = (-17.5, 179.9999)  # its workspace crosses the antimeridian
FRAME = LocalFrame(*CENTRE)


def degrees():
    (south, west), (north, east) = FRAME.to_degrees((-100, -60)), FRAME.to_degrees((100, 60))
    return f"{south!r} {west!r} {north!r} {east!r}"


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
    options = ["--workspace-degrees", degrees(), "--boustrophedon.spacing", "30"]
    assert main(["waypoints", str(path), *options, "--origin", f"{CENTRE[0]} {CENTRE[1]}"]) == 0
    found = np.array([FRAME.to_map(*place) for place in waypoints(path)])
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
    common = ["--origin", f"{CENTRE[0]} {CENTRE[1]}", "--areas.file", file]
    common += ["--areas.coordinates", "degrees", "--areas.margin", "2"]
    assert main(["waypoints", str(path), *common, "--boustrophedon.spacing", "20"]) == 0
    content = json.loads(path.read_text())
    inside, outside = content["geoFence"]["polygons"]
    assert inside["inclusion"] and not outside["inclusion"]
    corners = np.array([FRAME.to_map(*corner) for corner in outside["polygon"]])
    assert np.abs(np.abs(corners) - 20).max() < 0.05
    found = np.array([FRAME.to_map(*place) for place in waypoints(path)])
    steps = np.linspace(0, 1, 200)[:, None, None]
    driven = (found[:-1] + steps * np.diff(found, axis=0)).reshape(-1, 2)
    beside = np.linalg.norm(np.maximum(np.abs(driven) - 20, 0), axis=1)
    assert beside.min() > 1.99
    assert (np.abs(driven) <= (88.1, 48.1)).all()


@pytest.mark.parametrize("pilot", ["bezier", "lawnmower", "diagonal"])
def test_a_pilot_survey_in_the_middle_of_the_workspace(tmp_path, pilot):
    path = tmp_path / "lake.gpx"
    assert main(["waypoints", str(path), "--workspace-degrees", degrees(), "--survey", pilot]) == 0
    found = np.array([FRAME.to_map(*place) for place in waypoints(path)])
    assert len(found) >= 2 and (np.abs(found) <= (100.2, 60.2)).all()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lake.txt", "--workspace-degrees", degrees()], "expected a name that ends with .plan"),
        (["lake.plan"], "expected --workspace-degrees"),
        (["lake.plan", "--origin", "47 8"], "expected --workspace, --workspace-degrees"),
        (["no/lake.plan", "--workspace-degrees", degrees()], "cannot write"),
    ],
)
def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(tmp_path)
    assert main(["waypoints", *words]) == 2
    assert expected in capsys.readouterr().err
