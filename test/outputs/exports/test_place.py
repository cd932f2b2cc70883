"""Where a map lies: headings by hand, projections against PROJ's own."""

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.outputs.exports.georeference import GeoReference, vertical_datum

XY = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [-3.0, 7.0]])


@pytest.mark.parametrize(
    ("heading", "east_north"),
    [
        (0, [[0, 0], [10, 0], [0, 10], [-3, 7]]),
        (90, [[0, 0], [0, -10], [10, 0], [7, 3]]),  # +y looks east, so +x looks south
        (180, [[0, 0], [-10, 0], [0, -10], [3, -7]]),
        (-90, [[0, 0], [0, 10], [-10, 0], [-7, -3]]),
    ],
)
def test_heading_is_that_of_y_clockwise_from_north(heading, east_north):
    place = GeoReference(60.0, 25.0, heading)
    np.testing.assert_array_equal(place.outwards(XY), east_north)
    np.testing.assert_array_equal(place.inwards(place.outwards(XY)), XY)


def test_any_heading_comes_back():
    place = GeoReference(60.0, 25.0, 33.3)
    np.testing.assert_allclose(place.inwards(place.outwards(XY)), XY, atol=1e-12)
    east, north = place.outwards(np.array([[0.0, 1.0]]))[0]
    assert np.degrees(np.arctan2(east, north)) == pytest.approx(33.3)


@pytest.mark.parametrize(
    ("latitude", "longitude", "code"),
    [(17.5, -91.2, 32615), (-33.9, 151.2, 32756), (0.0, 180.0, 32660), (10.0, -180.0, 32601)],
)
def test_utm_is_that_of_epsg(latitude, longitude, code):
    warp = pytest.importorskip("rasterio.warp")
    place = GeoReference(latitude, longitude, 20.0, utm=True)
    assert place.projection.epsg == code
    expected = warp.transform("EPSG:4326", f"EPSG:{code}", [longitude], [latitude])
    np.testing.assert_allclose(place.outwards(XY[:1]), np.transpose(expected), atol=1e-6)
    np.testing.assert_allclose(place.inwards(place.outwards(XY)), XY, atol=1e-6)


def test_degrees_are_those_of_the_ellipsoid():
    pytest.importorskip("rasterio")
    # A metre of latitude and of longitude on WGS 84 at 45 degrees, from the radii of curvature.
    a, e2 = 6378137.0, 0.00669437999014
    sine = np.sin(np.radians(45.0))
    meridian = a * (1 - e2) / (1 - e2 * sine**2) ** 1.5
    prime = a / np.sqrt(1 - e2 * sine**2)
    (lon, lat), _ = GeoReference(45.0, 7.0).degrees(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert np.radians(lat - 45.0) * meridian == pytest.approx(4.0, abs=1e-5)
    assert np.radians(lon - 7.0) * prime * np.cos(np.radians(45.0)) == pytest.approx(3.0, abs=1e-5)


def test_places_that_are_none_are_refused():
    for latitude, longitude in ((90, 0), (0, 181), (np.nan, 0), (0, np.inf)):
        with pytest.raises(InputError, match="origin: expected a latitude"):
            GeoReference(latitude, longitude)
    with pytest.raises(InputError, match="utm"):
        GeoReference(85.0, 0.0, utm=True)


def test_a_vertical_datum_counts_the_way_that_the_map_does():
    pytest.importorskip("rasterio")
    found = vertical_datum(5703, depth=False)
    assert (found.code, found.name, found.is_water) == (5703, "NAVD88 height", False)
    assert vertical_datum(5831, depth=True).is_water
    for code, depth, words in (
        (5703, True, "expected depths in metres, got EPSG:5703"),
        (5715, False, "expected heights in metres, got EPSG:5715"),
        (8228, False, "expected heights in metres"),  # feet
        (4326, False, "not a vertical"),
        (999_999, False, "there is no EPSG:999999"),
    ):
        with pytest.raises(InputError, match=words):
            vertical_datum(code, depth)
