"""Geodesy: headings by hand, projections against geodesics and known values."""

import sys

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geodesy import GeoReference, vertical_datum

pyproj = pytest.importorskip("pyproj")

XY = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [-3.0, 7.0]])
#: Origins in every quadrant, and on both sides of the antimeridian.
ORIGINS = [(17.5, -91.2), (-33.9, 151.2), (-17.0, 179.9), (65.0, -179.95), (0.0, 0.0), (78.2, 15.6)]


@pytest.mark.parametrize("origin", ORIGINS)
def test_local_metres_are_those_of_the_geodesic(origin):
    """To d^2 / (2 R^2): at 3 km, 0.1 mm in a km."""
    azimuth = np.linspace(-180, 180, 13)[:-1]
    count = len(azimuth)
    longitude, latitude, _ = pyproj.Geod(ellps="WGS84").fwd(
        np.full(count, origin[1]), np.full(count, origin[0]), azimuth, np.full(count, 3000.0)
    )
    xy = GeoReference(*origin).local_metres(latitude, longitude)
    expected = 3000 * np.column_stack((np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth))))
    np.testing.assert_allclose(xy, expected, atol=1e-3)
    middle = GeoReference.about(latitude, longitude)
    assert (middle.latitude, middle.longitude) == pytest.approx(origin, abs=1e-4)


def test_the_central_meridian_has_its_true_length():
    """The meridian from the equator to 45 degrees on WGS 84: 4 984 944.378 m."""
    for sign in (1.0, -1.0):
        (found,) = GeoReference(0.0, 30.0).local_metres(np.array([45.0 * sign]), np.array([30.0]))
        np.testing.assert_allclose(found, (0, sign * 4_984_944.378), atol=1e-3)


def test_places_too_far_for_one_plane_have_no_metres():
    with pytest.raises(InputError, match="within 60 degrees of each other"):
        GeoReference.about(np.zeros(2), np.array([-40.0, 40.0]))
    with pytest.raises(InputError, match="at least one place"):
        GeoReference.about(np.empty(0), np.empty(0))
    far = GeoReference(0.0, 0.0).local_metres(np.zeros(2), np.array([31.0, np.nan]))
    assert np.isnan(far).all()


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
    np.testing.assert_array_equal(place.to_projected(XY), east_north)
    np.testing.assert_array_equal(place.to_map(place.to_projected(XY)), XY)


def test_any_heading_round_trips():
    place = GeoReference(60.0, 25.0, 33.3)
    np.testing.assert_allclose(place.to_map(place.to_projected(XY)), XY, atol=1e-12)
    east, north = place.to_projected(np.array([[0.0, 1.0]]))[0]
    assert np.degrees(np.arctan2(east, north)) == pytest.approx(33.3)


@pytest.mark.parametrize(
    ("latitude", "longitude", "code"),
    [(17.5, -91.2, 32615), (-33.9, 151.2, 32756), (0.0, 180.0, 32660), (10.0, -180.0, 32601)],
)
def test_utm_equals_the_epsg_definition(latitude, longitude, code):
    place = GeoReference(latitude, longitude, 20.0, "UTM")
    assert place.crs == f"EPSG:{code}" and place.system().to_epsg() == code
    to_utm = pyproj.Transformer.from_crs(4326, code, always_xy=True)
    expected = to_utm.transform(longitude, latitude)
    np.testing.assert_allclose(place.to_projected(XY[:1]), [expected], atol=1e-6)
    np.testing.assert_allclose(place.to_map(place.to_projected(XY)), XY, atol=1e-6)


def test_a_national_system_round_trips():
    """British national grid: false origin south-west of the Scillies, another datum."""
    place = GeoReference(51.5, -0.1, 10.0, "EPSG:27700")
    (easting, northing) = place.to_projected(XY[:1])[0]
    assert 5.0e5 < easting < 5.6e5 and 1.5e5 < northing < 2.0e5
    np.testing.assert_allclose(place.to_map(place.to_projected(XY)), XY, atol=1e-3)


def test_degrees_are_on_the_ellipsoid():
    # A metre of latitude and of longitude on WGS 84 at 45 degrees, from the radii of curvature.
    a, e2 = 6378137.0, 0.00669437999014
    sine = np.sin(np.radians(45.0))
    meridian = a * (1 - e2) / (1 - e2 * sine**2) ** 1.5
    prime = a / np.sqrt(1 - e2 * sine**2)
    (lon, lat), _ = GeoReference(45.0, 7.0).degrees(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert np.radians(lat - 45.0) * meridian == pytest.approx(4.0, abs=1e-5)
    assert np.radians(lon - 7.0) * prime * np.cos(np.radians(45.0)) == pytest.approx(3.0, abs=1e-5)


def test_wrong_origins_and_systems_are_refused():
    for latitude, longitude in ((90, 0), (0, 181), (np.nan, 0), (0, np.inf)):
        with pytest.raises(InputError, match="origin: expected a latitude"):
            GeoReference(latitude, longitude)
    with pytest.raises(InputError, match="utm"):
        GeoReference(85.0, 0.0, crs="UTM")
    for crs, words in (
        ("EPSG:999999", "expected a code such as EPSG:25833"),
        ("EPSG:4326", "expected a projected system in metres"),
        ("EPSG:2263", "expected a projected system in metres"),  # feet
    ):
        with pytest.raises(InputError, match=f"crs: {words}"):
            GeoReference(40.7, -74.0, crs=crs).system()


def test_without_pyproj_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyproj", None)
    with pytest.raises(InputError, match=r"needs pyproj \(pip install 'poam_ros\[geo\]'\)"):
        GeoReference(1.0, 2.0).local_metres(np.zeros(1), np.zeros(1))  # as nowhere before


def test_a_vertical_datum_has_the_direction_of_the_map():
    found = vertical_datum(5703, depth=False)
    assert (found.code, found.name, found.is_water) == (5703, "NAVD88 height", False)
    assert found.wkt.startswith('VERT_CS["NAVD88 height"')
    assert vertical_datum(5831, depth=True).is_water
    for code, depth, words in (
        (5703, True, "expected depths in metres, got EPSG:5703"),
        (5715, False, "expected heights in metres, got EPSG:5715"),
        (8228, False, "expected heights in metres"),  # feet
        (4326, False, "not a vertical"),
        (999_999, False, "expected a code such as .*, got 'EPSG:999999'"),
    ):
        with pytest.raises(InputError, match=words):
            vertical_datum(code, depth)
