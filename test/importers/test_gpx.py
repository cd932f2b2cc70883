"""Depths in the extensions of GPX, read without entities."""

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

HEAD = '<?xml version="1.0"?><gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">'
DEPTH = "<x:Ext xmlns:x='y'><x:Temperature>17</x:Temperature><x:Depth{}>{}</x:Depth></x:Ext>"


def write(path, *points, head=HEAD):
    path.write_text(f"{head}{''.join(points)}</gpx>")
    return path


def point(i, inside, kind="trkpt"):
    return f'<{kind} lat="{50 + i / 1e4}" lon="8.5"><ele>31</ele>{inside}</{kind}>'


@pytest.mark.parametrize("kind", ["trkpt", "rtept", "wpt"])
def test_points_with_a_depth_are_soundings(kind, tmp_path):
    points = [
        point(i, f"<time>2025-06-01T10:00:{i:02}.5Z</time>"
                 + (f"<extensions>{DEPTH.format('', 3 + i / 10)}</extensions>" if i % 2 else ""),
              kind)
        for i in range(10)
    ]  # fmt: skip
    path = write(tmp_path / "a.gpx", *points)
    found = read_soundings(path)
    assert find_reader(path) == "gpx" and found.refused == {"not_a_number": 5}
    np.testing.assert_allclose(-found.z, 3 + np.arange(1, 10, 2) / 10)
    assert np.ptp(found.xy[:, 1]) == pytest.approx(8e-4 * 111_230, rel=1e-3)
    np.testing.assert_array_equal(np.diff(found.stamp_ns), 2 * 10**9)
    assert found.stamp_ns[0] == 1_748_772_001_500_000_000
    path.write_text(path.read_text()[:-300])  # torn
    assert len(read_soundings(path)) in (3, 4)


def test_units_and_other_elements(tmp_path):
    path = write(tmp_path / "a.gpx", point(1, DEPTH.format(" unit='ft'", 10)))
    assert read_soundings(path).z == pytest.approx(-3.048)
    path = write(tmp_path / "a.gpx", point(1, DEPTH.format("", 10)))
    assert read_soundings(path, ReadOptions(units="fathom")).z == pytest.approx(-18.288)
    assert read_soundings(path, ReadOptions(columns={"z": "ele"})).z == 31
    with pytest.raises(InputError, match="expected a column 'draft', got latitude,longitude,"):
        read_soundings(path, ReadOptions(columns={"depth": "draft"}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (write, "which column is the depth. candidates: none"),
        (point(1, ""), "got latitude,longitude: which column is the depth. candidates: none"),
        ("<a>" * 60, "expected GPX"),
        ("\0" * 60, "expected GPX"),
    ],
)
def test_what_has_no_depths_says_what_it_has(text, words, tmp_path):
    path = tmp_path / "a.gpx"
    write(path, "" if text is write else text)
    with pytest.raises(InputError, match=rf"a.gpx: .*{words}"):
        read_soundings(path)
