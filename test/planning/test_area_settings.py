"""Polygons from parameters and GeoJSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import WGS84, transformed
from poam_ros.core.geometry import Extent
from poam_ros.mavlink.frame import LocalFrame
from poam_ros.mavlink.plans import FORMATS, Plan
from poam_ros.planning.areas import AreaSettings, read_polygons

SQUARE = Extent(-30, 30, -30, 30)
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
    frame = LocalFrame(*origin)
    outer, keep_out = np.array(OUTER), np.array(RING[:3])
    plan = Plan(
        "lake",
        [frame.to_degrees((0, 0))],
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
    shapely, raw = pytest.importorskip("shapely"), pytest.importorskip("pyogrio").raw
    frame = LocalFrame(47.3, 8.55)
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
    for ring, expected in zip((areas.polygon, *areas.keep_outs), wanted, strict=True):
        corners = np.unique(ring.round(2) + 0.0, axis=0)
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


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.plan", "{}", "expected a QGroundControl plan with polygons"),
        ("a.plan", '{"geoFence": {"polygons": []}}', "expected polygons in"),
        ("a.plan", "QGC WPL 110", "it is not a QGroundControl plan"),
        ("a.plan", CIRCLE.replace("47", "NaN"), "expected a QGroundControl plan with polygons"),
        ("a.kml", "<kml>", "it is not KML"),
        ("a.kml", "<kml/>", "expected polygons in"),
        ("a.kml", "<!DOCTYPE k [<!ENTITY a 'b'>]><kml>&a;</kml>", "without a document type"),
        (
            "a.kml",
            "<kml><Placemark><Polygon><outerBoundaryIs><coordinates>1,x 2,3</coordinates>"
            "</outerBoundaryIs></Polygon></Placemark></kml>",
            "expected KML with polygons",
        ),
    ],
)
def test_wrong_plans_and_kml_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"areas.file: .*{words}"):
        AreaSettings(file=str(tmp_path / name)).open(SQUARE)
