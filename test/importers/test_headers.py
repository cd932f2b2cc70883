"""What headers and units say of places, depths and times, as instruments and people write them."""

import re
import shlex

import numpy as np
import pytest

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.options import read_mapping
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

COUNT = 60
FOOT = 0.3048
T = np.arange(COUNT)
#: A track near 47.6 N, 122.4 W; the same in m; and its depths.
LATITUDE, LONGITUDE = 47.6 + 1e-5 * T, -122.4 + 4e-5 * np.sin(T / 9)
EAST, NORTH = 550_000 + 3 * np.sin(T / 9), 5_272_000 + 1.1 * T
DEPTH = 8 + 2 * np.sin(T / 7)


def table(header, *columns, separator=","):
    lines = (separator.join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join((header, *lines)) + "\n"


@pytest.fixture
def read(write):
    def read(text, options=None, encoding="utf-8"):
        return read_soundings(write(text, encoding=encoding), options or ReadOptions())

    return read


def check(found, depth=DEPTH):
    true = found.projection.local_metres(LATITUDE, LONGITUDE)
    np.testing.assert_allclose(found.xy, true, atol=0.01)
    np.testing.assert_allclose(-found.z, depth, atol=0.01)


@pytest.mark.parametrize(
    "header",
    [
        "Latitude (N),Longitude (W),Depth",
        "Lat_N,Lon_W,depth",
        "North Latitude,West Longitude,depth",
        "Latitude,Longitude,Depth\n°N,°W,m",
    ],
)
def test_a_header_says_that_longitudes_are_west(header, read):
    found = read(table(header, LATITUDE, -LONGITUDE, DEPTH))
    check(found)
    assert "west by the header" in found.source["understood"]
    check(read(table(header, LATITUDE, LONGITUDE, DEPTH)))  # with a minus, too


def test_places_in_radians_are_refused_by_name(read):
    places = np.radians(LATITUDE), np.radians(LONGITUDE)
    with pytest.raises(InputError, match="in radians; expected degrees"):
        read(table("Latitude (rad),Longitude (rad),depth", *places, DEPTH))


@pytest.mark.parametrize(
    "header",
    ["Easting (ft),Northing (ft),Depth (ft)", "X_ft,Y_ft,Depth_ft", "x,y,depth\nft,ft,ft"],
)
def test_eastings_may_be_in_feet(header, read):
    columns = (column / FOOT for column in (EAST, NORTH, DEPTH))
    found = read(table(header, *columns))
    np.testing.assert_allclose(found.xy, np.column_stack((EAST, NORTH)), atol=1e-3)
    np.testing.assert_allclose(-found.z, DEPTH, atol=1e-6)
    assert "(ft)" in found.source["understood"].partition("depth")[0]


def test_eastings_in_feet_of_a_coordinate_system_in_feet_are_its_own(read):
    places = 6_050_000 + EAST - EAST[0], 2_100_000 + NORTH - NORTH[0]  # EPSG:2227, US feet
    plain = read(table("x,y,depth_ft", *places, DEPTH), ReadOptions(crs="EPSG:2227"))
    named = read(table("x_ft,y_ft,depth_ft", *places, DEPTH), ReadOptions(crs="EPSG:2227"))
    np.testing.assert_array_equal(plain.xy, named.xy)


def test_eastings_and_northings_in_different_units_are_asked_about(read):
    with pytest.raises(InputError, match=r"x_ft and y_m are in different units \(ft and m\)"):
        read(table("x_ft,y_m,depth", EAST / FOOT, NORTH, DEPTH))


@pytest.mark.parametrize("header", ["UTM_E,Northing,depth", "Easting,UTM Y,depth_ft"])
def test_eastings_or_northings_of_utm_are_in_metres(header, read):
    depth = DEPTH / FOOT if "ft" in header else DEPTH
    found = read(table(header, EAST, NORTH, depth))
    assert found.source["place_units"] == "m"
    np.testing.assert_allclose(np.ptp(found.xy, axis=0), (np.ptp(EAST), np.ptp(NORTH)), atol=0.02)


@pytest.mark.parametrize(
    ("unit", "metres"),
    [("dm", 0.1), ("in", 0.0254), ("yd", 0.9144), ("us survey feet", FOOT), ("m below datum", 1)],
)
def test_depths_in_the_unit_of_their_header(unit, metres, read):
    check(read(table(f"lat,lon,Depth ({unit})", LATITUDE, LONGITUDE, DEPTH / metres)))


def test_depths_in_the_unit_of_a_column(read):
    feet = LATITUDE, LONGITUDE, DEPTH / FOOT
    check(read(table("lat,lon,depth,Depth Units", *feet, ["Feet"] * COUNT)))
    with pytest.raises(InputError, match="column unit has ft and m for depths"):
        read(table("lat,lon,depth,unit", *feet, ["ft", "m"] * (COUNT // 2)))
    with pytest.raises(InputError, match="column unit has ft for depths in m by their header"):
        read(table("lat,lon,depth_m,unit", *feet, ["ft"] * COUNT))


@pytest.mark.parametrize(
    "text",
    [
        *(
            table(header, LATITUDE, LONGITUDE, DEPTH)
            for header in (
                "Latitudine,Longitudine,Profondità", "Latitude,Longitude,Profundidade",
                "Breedtegraad,Lengtegraad,Diepte", "Leveysaste,Pituusaste,Syvyys",
                "Szerokość,Długość,Głębokość", "Breddegrad,Lengdegrad,Dybde",
                "Breitengrad,Längengrad,Wassertiefe",
            )
        ),
        table("lat,lon,DBT,DBS", LATITUDE, LONGITUDE, DEPTH - 0.5, DEPTH),
        table("#,lat,lon,depth", T, LATITUDE, LONGITUDE, DEPTH),
        # A header of short words is no row of units.
        table("Survey of Monday\nDjup Latitud Longitud", DEPTH, LATITUDE, LONGITUDE, separator=" "),
        # A unit beside a value does not move the columns.
        table("depth\tlat\tlon", [f"{d:.2f} m" for d in DEPTH], LATITUDE, LONGITUDE,
              separator="\t"),
    ],
)  # fmt: skip
def test_headers_in_other_languages_and_layouts(text, read):
    check(read(text))


def test_times_may_be_days_of_a_spreadsheet(read):
    seconds = 1_765_000_000 + 2 * T
    days = [f"{second / 86_400 + 25_569:.8f}" for second in seconds]
    found = read(table("time,lat,lon,depth", days, LATITUDE, LONGITUDE, DEPTH))
    np.testing.assert_allclose(found.stamp_ns / 1e9, seconds, atol=0.01)
    assert not found.refused
    since = read(table("time,lat,lon,depth", 45_000 + 0.2 * T, LATITUDE, LONGITUDE, DEPTH))
    np.testing.assert_allclose(since.stamp_ns / 1e9, 45_000 + 0.2 * T)  # s since midnight


def test_eastings_and_northings_swapped_are_asked_about(read):
    options = ReadOptions(crs="EPSG:32610")
    with pytest.raises(InputError, match=r"inside it if they are swapped.*--columns y=x x=y --crs"):
        read(table("x,y,depth", NORTH, EAST, DEPTH), options)
    assert read(table("x,y,depth", EAST, NORTH, DEPTH), options).projection is not None


def test_a_northing_called_x_is_not_only_asked_about_as_mercators(read):
    with pytest.raises(Question) as asked:
        read(table("X,Y,depth", NORTH, EAST, DEPTH))
    first, second = asked.value.answers
    assert first == "if x is a northing and y an easting" and "Web Mercator" in second
    assert asked.value.answers[first] == "--columns y=X x=Y"


def test_eastings_in_feet_without_a_word_of_it_are_asked_about(read):
    """As hydrographers' x y z in a system of a state of the USA."""
    for header, east, north in (("x y z\n", 6e6, 2.1e6), ("", 6e6, 2.1e6), ("", 2.15e6, 6.15e5)):
        places = east + 6.0 * (T % 12), north + 30.0 * (T // 12)
        rows = (f"{a:.2f} {b:.2f} {-20 - np.sin(a):.2f}\n" for a, b in zip(*places, strict=True))
        said = r"not those of UTM.* or in feet: --crs EPSG:N"
        with pytest.raises(Question, match=said) as asked:
            read(header + "".join(rows))
        assert header or not asked.value.answers  # a guess is no advice


def test_places_beyond_the_earth_are_asked_about(read):
    places = [f"{1e7 * value:.0f}" for value in LONGITUDE], [f"{1e7 * v:.0f}" for v in LATITUDE]
    with pytest.raises(InputError, match=r"farther than any place.*longitude=x latitude=y"):
        read(table("x,y,depth", *places, DEPTH))
    options = ReadOptions({"longitude": "x", "latitude": "y"})
    check(read(table("x,y,depth", *places, DEPTH), options))


@pytest.mark.parametrize("form", ["6{:09,.2f}", "-6{:09,.2f}", "6{:05.3f}"])
def test_a_table_without_a_number_shows_its_first_row(form, read):
    depths = [f'"{form.format(depth)}"'.replace(".", "," if form[-3] == "3" else ".")
              for depth in DEPTH]  # fmt: skip
    with pytest.raises(
        InputError, match=r"first row: 47\.6 \| -122\.4 \| -?6.*without marks between"
    ):
        read(table("lat,lon,depth", LATITUDE, LONGITUDE, depths))


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("WGS84 Ost;WGS84 Nord;Wassertiefe (m)", True),
        ("RW;HW;Tiefe", True),
        ("L;B;Tiefe", True),
        ("E;N;Tiefe", True),
        ("eastwards;northwards;depth", True),
        ("Rechtswert;Hochwert;Tiefe", True),  # of degrees
        ("Östliche Länge;Nördliche Breite;Tiefe", False),
        ("geogr_ Länge;geogr_ Breite;Tiefe", False),
    ],
)
def test_names_of_sides_say_which_is_the_longitude(header, asked, write):
    """Of tables whose eastings stand first: the first answer is right."""
    texts = ([f"{v:.7f}".replace(".", ",") for v in each] for each in (LONGITUDE, LATITUDE, DEPTH))
    path = write(table(header, *texts, separator=";"))
    options = ReadOptions()
    if asked:
        with pytest.raises(Question) as question:
            read_soundings(path)
        words = shlex.split(next(iter(question.value.answers.values())))
        options = ReadOptions(read_mapping(words[1:]))
    check(read_soundings(path, options))


def test_latitudes_beyond_90_degrees_are_longitudes(write):
    path = write(table("lat,lon,depth", LONGITUDE, LATITUDE, DEPTH))
    with pytest.raises(Question, match="If they are swapped: --columns longitude=lat latitude=lon"):
        read_soundings(path)
    check(read_soundings(path, ReadOptions({"longitude": "lat", "latitude": "lon"})))


def test_a_file_of_another_continent_may_have_its_columns_swapped(write):
    east = LONGITUDE + 130  # 7.6 E
    first = write(table("lat,lon,depth", LATITUDE, east, DEPTH), "first.csv")
    second = write(table("lat,lon,depth", east, LATITUDE, DEPTH + 0.1), "second.csv")
    with pytest.raises(Question, match=r"59\d\d km away. If they are swapped: --columns longitud"):
        read_soundings([first, second])


def test_feet_of_depths_may_be_those_of_places(read, write):
    feet = EAST / FOOT - 1e6, NORTH / FOOT - 16e6, DEPTH / FOOT
    said = r"depths are in feet, and nothing says whether x and y are.*--units ft,ft; .*ft,m"
    with pytest.raises(Question, match=said):
        read(table("x,y,depth_ft", *feet))
    for text, options in (
        (table("x,y,depth_ft", *feet), ReadOptions(units="ft,ft")),
        (table("x_ft,y_ft,depth_ft", *feet), ReadOptions()),
    ):
        np.testing.assert_allclose(read(text, options).xy[:, 0], FOOT * feet[0], atol=0.01)
    plain = read(table("x,y,z", EAST, NORTH, -DEPTH)).source["understood"]
    assert "(m, as nothing says otherwise: --units ft,ft)" in plain
    with pytest.raises(InputError, match=r"--units: expected one of m, ft, .*got 'ft,elle'"):
        ReadOptions(units="ft,elle")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("time,northwards,latitude,depth", "--columns latitude=latitude longitude=northwards;"),
        ("time,longitude,position,depth", "--columns latitude=position longitude=longitude;"),
        ("time,lat,lon,temp", "which column is the depth. candidates: none$"),
    ],
)
def test_advice_does_not_contradict_the_names(header, words, read):
    with pytest.raises(Question) as asked:
        read(table(header, T, LONGITUDE, LATITUDE, DEPTH))
    assert re.search(words, f"{asked.value};".replace("none;", "none"))


def test_a_cell_beyond_the_header_is_no_unit(read):
    text = table("lat,lon,depth", LATITUDE, LONGITUDE, DEPTH).splitlines()
    text[8] += ",ft"
    np.testing.assert_allclose(read("\n".join(text)).z, -DEPTH, atol=1e-9)


def test_the_hint_for_x_and_y_keeps_the_unit_of_depths(read):
    found = read(table("x,y,depth (cm)", EAST, NORTH, 100 * DEPTH)).source["understood"]
    assert "--units cm,ft" in found
    for units in ("ft,ft", "m,ft"):
        with pytest.raises(InputError, match="--units: latitude and longitude are in degrees"):
            read(table("lat,lon,depth", LATITUDE, LONGITUDE, DEPTH), ReadOptions(units=units))
