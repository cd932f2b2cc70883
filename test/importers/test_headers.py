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
    def read(text, options=None):
        return read_soundings(write(text), options or ReadOptions())

    return read


def check(found, depth=DEPTH):
    true = found.projection.local_metres(LATITUDE, LONGITUDE)
    np.testing.assert_allclose(found.xy, true, atol=0.01)
    np.testing.assert_allclose(-found.z, depth, atol=0.01)


def words_of(asked):
    """The columns of the first answer to a question."""
    return read_mapping(shlex.split(next(iter(asked.value.answers.values())))[1:])


@pytest.mark.parametrize(
    "header",
    ["Latitude (N),Longitude (W),Depth", "Lat_N,Lon_W,depth", "North Latitude,West Longitude,depth",
     "Latitude,Longitude,Depth\n°N,°W,m"],
)  # fmt: skip
def test_a_header_says_that_longitudes_are_west(header, read):
    found = read(table(header, LATITUDE, -LONGITUDE, DEPTH))
    check(found)
    assert "west by the header" in found.source["understood"]
    check(read(table(header, LATITUDE, LONGITUDE, DEPTH)))  # with a minus, too


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
    plain, named = (read(table(header, *places, DEPTH), ReadOptions(crs="EPSG:2227"))
                    for header in ("x,y,depth_ft", "x_ft,y_ft,depth_ft"))  # fmt: skip
    np.testing.assert_array_equal(plain.xy, named.xy)


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


FEET = LATITUDE, LONGITUDE, DEPTH / FOOT


@pytest.mark.parametrize(
    "text",
    [
        *(
            table(header, LATITUDE, LONGITUDE, DEPTH)
            for header in (
                "Latitudine,Longitudine,Profondità", "Latitude,Longitude,Profundidade",
                "Breedtegraad,Lengtegraad,Diepte", "Leveysaste,Pituusaste,Syvyys",
                "Szerokość,Długość,Głębokość", "Breddegrad,Lengdegrad,Dybde",
                "Breitengrad,Längengrad,Wassertiefe", "geogr_ Breite,geogr_ Länge,Tiefe",
                "Nördliche Breite,Östliche Länge,Tiefe",
            )
        ),
        table("lat,lon,DBT,DBS", LATITUDE, LONGITUDE, DEPTH - 0.5, DEPTH),
        table("#,lat,lon,depth", T, LATITUDE, LONGITUDE, DEPTH),
        table("lat,lon,depth,Depth Units", *FEET, ["Feet"] * COUNT),
        # A header of short words is no row of units.
        table("Survey of Monday\nDjup Latitud Longitud", DEPTH, LATITUDE, LONGITUDE, separator=" "),
        # A unit beside a value does not move the columns; one beyond the header is none.
        table("depth\tlat\tlon", [f"{d:.2f} m" for d in DEPTH], LATITUDE, LONGITUDE,
              separator="\t"),
        table("lat,lon,depth", LATITUDE, LONGITUDE, DEPTH).replace("\n47.6,", "\n47.6,", 1)[:-1]
        + ",ft",
    ],
)  # fmt: skip
def test_headers_in_other_languages_and_layouts(text, read):
    check(read(text))


TENTHS = [f"{1e7 * v:.0f}" for v in LONGITUDE], [f"{1e7 * v:.0f}" for v in LATITUDE]


@pytest.mark.parametrize(
    ("header", "columns", "options", "said"),
    [
        ("Latitude (rad),Longitude (rad),depth", (LATITUDE / 57, LONGITUDE / 57, DEPTH), {},
         "in the open sea.*no fix, or radians"),
        ("lat,lon,depth,unit", (*FEET, ["ft", "m"] * 30), {}, "say ft and m for depths"),
        ("lat,lon,depth,unit", (*FEET, ["ft", "m"] * 30), {"units": "m"}, "ft and m for depths"),
        ("lat,lon,depth_m,unit", (*FEET, ["ft"] * COUNT), {}, "say ft and m for depths"),
        ("x,y,depth", (NORTH, EAST, DEPTH), {"crs": "EPSG:32610"},
         r"inside it if they are swapped.*--columns y=x x=y --crs"),
        ("x,y,depth", (*TENTHS, DEPTH), {}, r"farther than any place.*longitude=x latitude=y"),
        ("lat,lon,depth", (LONGITUDE, LATITUDE, DEPTH), {},
         "If they are swapped: --columns longitude=lat latitude=lon"),
        ("x,y,depth_ft", (EAST / FOOT - 1e6, NORTH / FOOT - 16e6, DEPTH / FOOT), {},
         r"depths are in feet, and nothing says whether x and y are.*--units ft,ft; .*ft,m"),
        ("x_ft,y,depth", (EAST, NORTH, DEPTH), {}, r"x_ft \(ft\) and y \(no unit\): write both"),
        ("lat,lon,depth", (LATITUDE, LONGITUDE, DEPTH), {"units": "m,ft"},
         "--units: latitude and longitude are in degrees"),
        ("time,northwards,latitude,depth", (T, LONGITUDE, LATITUDE, DEPTH), {},
         "--columns latitude=latitude longitude=northwards;?$"),
        ("time,longitude,position,depth", (T, LONGITUDE, LATITUDE, DEPTH), {},
         "--columns latitude=position longitude=longitude;?$"),
        *((f"time,lat,lon,{name}", (T, LONGITUDE, LATITUDE, DEPTH), {},
           "which column is the depth. candidates: none$")
          for name in ("temp", "water (degC)", "level %", "Battery_V", "depth [knots]")),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_or_asked_about(header, columns, options, said, read):
    with pytest.raises(InputError) as error:
        read(table(header, *columns), ReadOptions(**options))
    assert re.search(said, str(error.value))


def test_what_was_asked_about_is_read_as_the_answer_says(read):
    check(
        read(table("x,y,depth", *TENTHS, DEPTH), ReadOptions({"longitude": "x", "latitude": "y"}))
    )
    swapped = ReadOptions({"longitude": "lat", "latitude": "lon"})
    check(read(table("lat,lon,depth", LONGITUDE, LATITUDE, DEPTH), swapped))
    feet = table("x,y,depth_ft", EAST / FOOT - 1e6, NORTH / FOOT - 16e6, DEPTH / FOOT)
    for text, options in ((feet, ReadOptions(units="ft,ft")),
                          (feet.replace("x,y,", "x_ft,y_ft,"), ReadOptions())):  # fmt: skip
        np.testing.assert_allclose(read(text, options).xy[:, 0], EAST - 1e6 * FOOT, atol=0.01)
    assert read(table("x,y,depth", EAST, NORTH, DEPTH), ReadOptions(crs="EPSG:32610")).projection


def test_the_hint_for_x_and_y_keeps_the_unit_of_depths(read):
    for header, depth, units in (
        ("x,y,depth (cm)", 100 * DEPTH, "cm,ft"),
        ("x,y,z", -DEPTH, "ft,ft"),
    ):
        found = read(table(header, EAST, NORTH, depth)).source["understood"]
        assert f"(m, as nothing says otherwise: --units {units})" in found
    with pytest.raises(InputError, match=r"--units: expected one of m, ft, .*got 'ft,elle'"):
        ReadOptions(units="ft,elle")


def test_a_northing_called_x_is_asked_about(read):
    with pytest.raises(Question) as asked:
        read(table("X,Y,depth", NORTH, EAST, DEPTH))
    assert asked.value.answers == {"if x is a northing and y an easting": "--columns y=X x=Y"}


def test_eastings_in_feet_without_a_word_of_it_are_asked_about(read):
    """As hydrographers' x y z in a system of a state of the USA."""
    for header, east, north in (("x y z\n", 6e6, 2.1e6), ("", 6e6, 2.1e6), ("", 2.15e6, 6.15e5)):
        places = east + 6.0 * (T % 12), north + 30.0 * (T // 12)
        rows = (f"{a:.2f} {b:.2f} {-20 - np.sin(a):.2f}\n" for a, b in zip(*places, strict=True))
        said = r"not those of UTM.* or in feet: --crs EPSG:N"
        with pytest.raises(Question, match=said) as asked:
            read(header + "".join(rows))
        assert not asked.value.answers  # a guess is no advice


def test_minutes_of_three_decimals_in_one_cell_are_a_place(read):
    """As Garmin's programs write them."""
    cells = [f"N47 {60 * (a - 47):.3f} W122 {-60 * (b + 122):.3f}"
             for a, b in zip(LATITUDE, LONGITUDE, strict=True)]  # fmt: skip
    found = read(table("Name;Position;Depth", T, cells, DEPTH, separator=";"))
    true = found.projection.local_metres(LATITUDE, LONGITUDE)
    np.testing.assert_allclose(found.xy, true, atol=2.0)


@pytest.mark.parametrize("form", ["6{:09,.2f}", "-6{:09,.2f}"])
def test_a_table_without_a_number_shows_its_first_row(form, read):
    depths = [f'"{form.format(depth)}"' for depth in DEPTH]
    with pytest.raises(InputError, match=r"not_a_number.*first row: 47\.6 \| -122\.4 \| -?6"):
        read(table("lat,lon,depth", LATITUDE, LONGITUDE, depths))


@pytest.mark.parametrize(
    "header",
    ["WGS84 Ost;WGS84 Nord;Wassertiefe (m)", "RW;HW;Tiefe", "L;B;Tiefe", "E;N;Tiefe",
     "Rechtswert;Hochwert;Tiefe", "Eastwards;Northwards;It's (m)"],
)  # fmt: skip
def test_names_of_sides_say_which_is_the_longitude(header, read):
    """Of tables whose eastings stand first: the first answer is right, and can be pasted."""
    text = table(header, LONGITUDE, LATITUDE, DEPTH, separator=";").replace(".", ",")
    with pytest.raises(Question) as asked:
        read(text)
    check(read(text, ReadOptions(words_of(asked))))


def test_a_file_of_another_continent_may_have_its_columns_swapped(write):
    east = LONGITUDE + 130  # 7.6 E
    first = write(table("lat,lon,depth", LATITUDE, east, DEPTH), "first.csv")
    second = write(table("lat,lon,depth", east, LATITUDE, DEPTH + 0.1), "second.csv")
    with pytest.raises(Question, match=r"59\d\d km away. If they are swapped: --columns longitud"):
        read_soundings([first, second])
