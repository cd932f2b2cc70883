"""Polygons from parameters and GeoJSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
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


def test_nothing_given_allows_everything():
    assert AreaSettings().open(SQUARE).unrestricted


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


def test_degrees_become_metres_about_the_origin(tmp_path):
    pytest.importorskip("pyproj")
    x = np.array(RING) / 1e5 + (25.0, 60.0)
    file = written(tmp_path, {"type": "Polygon", "coordinates": [x.tolist()]})
    settings = AreaSettings(file=file, coordinates="degrees", origin=(60.0, 25.0), margin=0.01)
    corners = settings.open(SQUARE).keep_outs[0]
    np.testing.assert_allclose(corners[:, 0].max(), 9e-5 * 55801, rtol=1e-3)
    np.testing.assert_allclose(corners[:, 1].max(), 9e-5 * 111412, rtol=1e-3)
    turned = replace(settings, heading=90.0).open(SQUARE).keep_outs[0]
    np.testing.assert_allclose(turned[:, 0].min(), -9e-5 * 111412, rtol=1e-3)


def test_a_forgotten_origin_is_told(tmp_path):
    pytest.importorskip("pyproj")
    file = written(tmp_path, {"type": "Polygon", "coordinates": [RING]})
    with pytest.raises(InputError, match=r"within 200 km of the origin \[60.0, 25.0\], got one at"):
        AreaSettings(file=file, coordinates="degrees", origin=(60.0, 25.0)).open(SQUARE)
    with pytest.raises(InputError, match="latitude within 90"):
        AreaSettings(origin=(120.0, 0.0))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "it is no JSON"),
        ("[]", "expected GeoJSON with polygons"),
        ({"type": "Point", "coordinates": [0, 0]}, "expected GeoJSON with polygons"),
        ({"type": "FeatureCollection", "features": []}, "expected polygons in .*, got none"),
        (feature("harbour", RING), "kind workspace or keep_out in .*, got harbour"),
        (feature("keep_out", [[0, 0], ["a", 1], [2, 2]]), "expected GeoJSON with polygons"),
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
