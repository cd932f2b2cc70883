"""Cross sections: the map's own values along the line that was given."""

import json

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.outputs.chart import ExportSettings
from poam_ros.outputs.exports import export
from poam_ros.outputs.folder import read_table


def test_values_along_a_line_are_the_map_s(run, tmp_path):
    """The fixture's map is a plane: interpolation is exact."""
    settings = ExportSettings(depth=True, water_level=1.0)
    figure, path = export(run, tmp_path / "s.csv", settings, ["-2", "0", "10,0", "10", "8"])
    table = read_table(path, ("section", "depth", "low", "high"))
    xy = np.column_stack((table["x"], table["y"]))
    assert table["distance"][-1] == 20 and np.diff(table["distance"]).max() <= 1
    assert (10.0, 0.0) in {tuple(p) for p in xy.tolist()}  # the corner
    np.testing.assert_allclose(table["depth"], 13 - xy @ (0.2, -0.3), atol=1e-3)
    half = (table["high"] - table["low"]) / 2
    inner = (xy[:, 1] > 0) & (xy[:, 0] > -2)
    np.testing.assert_allclose(half[inner], 1.96 * (0.1 + xy[inner] @ (0.01, 0.005)), atol=2e-3)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_lines_of_a_file_are_in_degrees(run, tmp_path):
    pytest.importorskip("pyproj")
    settings = ExportSettings(origin=(60.0, 25.0))
    _, path = export(run, tmp_path / "s.csv", settings, ["0", "0", "10", "4"])
    first = read_table(path)
    ends = np.column_stack((first["longitude"], first["latitude"]))[[0, -1]].tolist()
    line = {"type": "LineString", "coordinates": ends}
    features = [{"type": "Feature", "properties": {}, "geometry": line}] * 2
    file = tmp_path / "lines.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    _, path = export(run, tmp_path / "t.csv", settings, [str(file)])
    second = read_table(path)
    assert set(second["section"]) == {1, 2}
    one = second["section"] == 2
    np.testing.assert_allclose(
        second["elevation"][one][[0, -1]], first["elevation"][[0, -1]], atol=1e-3
    )


@pytest.mark.parametrize(
    ("name", "section", "words"),
    [
        ("s.csv", ["1", "2", "3"], "expected X Y X Y"),
        ("s.csv", ["1", "2", "3", "inf"], "expected X Y X Y"),
        ("s.csv", ["1", "2", "3", "x"], "expected X Y X Y"),
        ("s.csv", ["nowhere.geojson"], "cannot be read"),
        ("s.csv", ["500", "500", "600", "600"], "no line crosses a part of the map"),
        ("s.csv", ["1", "1", "1", "1"], "expected a length"),
        ("s.tif", ["0", "0", "9", "9"], "expected a .csv file"),
    ],
)
def test_what_is_no_section(run, tmp_path, name, section, words):
    with pytest.raises(InputError, match=words):
        export(run, tmp_path / name, ExportSettings(), section)
