"""Tables as loggers, plotters and survey programs write them, made up: all of one lake."""

import json
import shlex
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.options import read_mapping
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

COUNT = 400
T = np.arange(COUNT)
LANE, ALONG = np.divmod(T, 50)
X, Y = np.where(LANE % 2, 49 - ALONG, ALONG) * 2.0, LANE * 10.0 + 0.3 * np.sin(T)
LATITUDE, LONGITUDE = 47.25 + Y / 111_320, -122.4 + X / (111_320 * np.cos(np.radians(47.25)))
DEPTH = 6 + 2 * np.sin(X / 30) + np.cos(Y / 25)
BEGIN = datetime(2024, 7, 3, 15, 0, tzinfo=timezone.utc)
WHEN = [BEGIN + timedelta(seconds=i) for i in range(COUNT)]
FOOT, EARTH = 0.3048, 6_356_752.3142


def table(header, row, separator=",", end=""):
    lines = [separator.join(map(str, row(i))) + end for i in range(COUNT)]
    return "\n".join([*([header] if header else []), *lines]) + "\n"


def at(i, every=1):
    """Latitude and longitude, in every n-th row."""
    return (f"{LATITUDE[i]:.7f}", f"{LONGITUDE[i]:.7f}") if i % every == 0 else None


def mercator(i):
    y = EARTH * np.log(np.tan(np.radians(LATITUDE[i]) / 2 + np.pi / 4))
    return round(np.radians(LONGITUDE[i]) * EARTH), round(y)


def minutes(value, sides):
    whole = int(abs(value))
    return f"{sides[int(value < 0)]}{whole}° {60 * (abs(value) - whole):.4f}'"


#: By the program; of those without a header the first answer is given.
KINDS = {
    "plotter's log, Mercator beside degrees": table(
        "Latitude,Longitude,Easting,Northing,Depth[ft],Time[s]",
        lambda i: (*at(i), *mercator(i), f"{DEPTH[i] / FOOT:.2f}", i)),
    "castable sonar": table("", lambda i: (*(at(i, 5) or ("0.0", "0.0")), f"{DEPTH[i]:.3f}",
                                           int(WHEN[i].timestamp() * 1000), f"{17 + i % 3 / 10}")),
    "waypoints of a plotter in degrees and minutes": table(
        "Name\tPosition Lat\tPosition Lon\tDepth", lambda i: (
            f"{i:03d}", minutes(LATITUDE[i], "NS"), minutes(LONGITUDE[i], "EW"),
            f"{DEPTH[i] / FOOT:.1f} ft"), "\t"),
    "track of a plotter": "Grid\tLat/Lon\n\nHeader\tName\tLength\nTrack\tA\t2.9 km\n\n" + table(
        "Header\tPosition\tTime\tDepth", lambda i: (
            "Trackpoint", f"{minutes(LATITUDE[i], 'NS')} {minutes(LONGITUDE[i], 'EW')}",
            f"{WHEN[i]:%d/%m/%Y %H:%M:%S}".replace("03/07", "23/07"), f"{DEPTH[i]:.2f} m"), "\t"),
    "contours' service": table("Longitude,Latitude,Elevation_m,ID", lambda i: (
        *at(i)[::-1], f"{-DEPTH[i]:.2f}", i)),
    "hydrographic x y z": table("", lambda i: (
        f"{540_000 + X[i]:.2f}", f"{5_233_000 + Y[i]:.2f}", f"{-DEPTH[i]:.2f}"), " "),
    "microcontroller with a card": table("millis;fix;lat;lon;depth_cm", lambda i: (
        1000 * i, int(i > 20), *((at(i) if i > 20 else None) or ("", "")), f"{100 * DEPTH[i]:.0f}"),
        ";", ";"),
    "receiver's fields, sides beside": table("UTC,Lat,NS,Lon,EW,Depth,Remark", lambda i: (
        f"{WHEN[i]:%H%M%S}.00", f"{abs(LATITUDE[i]):.7f}", "N", f"{abs(LONGITUDE[i]):.7f}", "W",
        f"{DEPTH[i]:.2f}")),
    "phone, blanks between fixes": table("timestamp,lat,lon,accuracy,depth", lambda i: (
        WHEN[i].isoformat(), *(at(i, 3) or ("null", "null")), 4, f"{DEPTH[i]:.2f}")),
    "sonar with confidence": table("Time,Depth (mm),Confidence (%),Latitude,Longitude", lambda i: (
        f"{WHEN[i]:%Y-%m-%d %H:%M:%S}", int(1000 * DEPTH[i]) if i % 9 else 250, 97 if i % 9 else 12,
        *at(i))),
    "feet and metres": table("Lat,Lon,DEPTH,DEPTH_M", lambda i: (
        *at(i), f"{DEPTH[i] / FOOT:.1f}", f"{DEPTH[i]:.2f}")),
    "spreadsheet, decimal commas": table("Breite;Länge;Wassertiefe (m)", lambda i: (
        *at(i), f"{DEPTH[i]:.2f}"), ";").replace(".", ","),
    "minus depths": table("lat,lon,depth", lambda i: (*at(i), f"{-DEPTH[i]:.2f}")),
    "autopilot's integers": table("TimeUS,Lat,Lng,Dist", lambda i: (
        1_000_000 * i, round(1e7 * LATITUDE[i]), round(1e7 * LONGITUDE[i]), f"{DEPTH[i]:.2f}")),
    "American dates": table("Date,Time,Lat,Long,Depth (ft)", lambda i: (
        f"{WHEN[i]:%m/%d/%Y}".replace("07/03", "07/23"), f"{WHEN[i]:%I:%M:%S %p}", *at(i),
        f"{DEPTH[i] / FOOT:.2f}")),
    "comments and a row of units": "# sounder 3.1\n# draught 0\n" + table(
        "Time,Lat,Lon,Depth\ns,deg,deg,ft", lambda i: (i, *at(i), f"{DEPTH[i] / FOOT:.2f}")),
    "depths and positions in rows of their own": table("time,lat,lon,depth", lambda i: (
        i, *((*at(i), "") if i % 2 else ("", "", f"{DEPTH[i]:.2f}")))),
    "echosounder's software": table(
        "Ping_date, Ping_time, Latitude, Longitude, Position_status, Depth, GPS_time", lambda i: (
            f"{WHEN[i]:%Y-%m-%d}", f" {WHEN[i]:%H:%M:%S}", *(at(i) if i % 17 else (999.0, 999.0)),
            int(i % 17 > 0), f" {DEPTH[i]:.3f}" if i % 19 else " -10000.99", " 15:00:00")),
    "side-scan's pings": table(
        "record_num,time_s,utm_e,utm_n,speed_ms,inst_dep_m,lon,lat,date,time,dep_m", lambda i: (
            i, f"{i / 10:.1f}", *mercator(i), 1.52, f"{DEPTH[i] - 0.3:.2f}", *at(i)[::-1],
            f"{WHEN[i]:%Y-%m-%d}", f"{WHEN[i]:%H:%M:%S}", f"{DEPTH[i]:.2f}")),
    "longitude, latitude, z": table("", lambda i: (*at(i)[::-1], f"{-DEPTH[i]:.2f}"), "\t"),
    "names of nobody": table("N_deg,E_deg,Bottom", lambda i: (*at(i), f"{DEPTH[i]:.2f}")),
    "a time in six columns, altitudes beside": table("", lambda i: (
        *WHEN[i].timetuple()[:6], *at(i), f"{np.sin(i / 20) - 2.5:.2f}", f"{DEPTH[i]:.2f}"),
        "\t"),
    "a northing called easting, degrees beside": table(
        "No.,Zone,Northing,Easting,longitude,latitude,Depth", lambda i: (
            i, "10T", f"{545_000 + X[i]:.0f}", f"{5_233_000 + Y[i]:.0f}", *at(i)[::-1],
            f"{DEPTH[i]:.2f}")),
    "a message's fields": table("GPS.lat,GPS.lon,RANGE.depth", lambda i: (
        round(1e7 * LATITUDE[i]), round(1e7 * LONGITUDE[i]), f"{DEPTH[i]:.2f}")),
    "JSON, an object in each line": table("", lambda i: (
        json.dumps({"gps": {"lat": LATITUDE[i], "lon": LONGITUDE[i]}, "t": i, "depth": DEPTH[i]}),)
    ),
    "a receiver's altitude": table("lat,lon,Altitude (m),Depth (cm)", lambda i: (
        *at(i), f"{44 + np.sin(i / 31):.2f}", f"{100 * DEPTH[i]:.0f}")),
    "a document of JSON": json.dumps({"log": [
        {"name": "a", "track": [
            {"coords": {"latitude": LATITUDE[i], "longitude": LONGITUDE[i]}, "depth": DEPTH[i]}
            for i in range(COUNT)]}]}, indent=1),
    "lists of JSON": json.dumps({"by": "a", "log": {
        "lat": LATITUDE.tolist(), "lon": LONGITUDE.tolist(), "depth": DEPTH.tolist()}}),
    "points of WKT": table("WKT,depth", lambda i: (
        f'"POINT ({LONGITUDE[i]:.7f} {LATITUDE[i]:.7f})"', f"{DEPTH[i]:.2f}")),
    "places in one cell": table("position;depth", lambda i: (
        f"{minutes(LATITUDE[i], 'NS')}, {minutes(LONGITUDE[i], 'EW')}", f"{DEPTH[i]:.2f}"), ";"),
    "quoted decimal commas": table("lat,lon,depth", lambda i: (
        f'"{each}"'.replace(".", ",") for each in (*at(i), f"{DEPTH[i]:.2f}"))),
    "pings in mm, and a gain": table("ping,distance,gain_setting,lat,lon", lambda i: (
        i, f"{1000 * DEPTH[i]:.0f}", 3 + i % 3, *at(i))),
    "degrees as x and y": table("X,Y,DEPTH", lambda i: (*at(i)[::-1], f"{DEPTH[i]:.2f}")),
}  # fmt: skip
#: Kinds whose meaning nothing in the file says: a question, and its first answer is right.
ASKED = {
    "castable sonar", "autopilot's integers", "names of nobody", "degrees as x and y",
    "pings in mm, and a gain", "a time in six columns, altitudes beside", "a receiver's altitude",
}  # fmt: skip
NO_PLACE = {"hydrographic x y z"}


def answered(path, words):
    columns, _, unit = words.removeprefix("--columns ").partition(" --units ")
    options = ReadOptions(read_mapping(shlex.split(columns)), units=unit)
    return read_soundings(path, options)


def test_a_time_in_six_columns_is_read(write):
    path = write(KINDS["a time in six columns, altitudes beside"])
    found = answered(path, "--columns latitude=7 longitude=8 depth=10 time=1")
    assert found.stamp_ns[0] == BEGIN.timestamp() * 1e9 and np.ptp(found.stamp_ns) == 399e9


def test_answers_say_where_they_lie_and_tries_warn_of_nothing(write, caplog):
    path = write(table("", lambda i: (*at(i), *(["4.5"] * 2 if i % 2 else ["4.6", "4.4"]))))
    with pytest.raises(Question) as asked:
        read_soundings(path)
    assert "at 47.25 N, 122.40 W" in str(asked.value)
    assert not caplog.records


@pytest.mark.parametrize(
    ("line", "words"),
    [("2014-08-15T19:00:00.048Z,2,128259,115,255,8,00,4e,01,ff,ff,00,00,ff", "a log of NMEA 2000"),
     ("(1749888000.106111) can0 0DF50B23#01A20200000000FF", "a log of NMEA 2000"),
     ("17:33:21.107 R 0DF50B23 01 A2 02 00 00 00 00 FF", "a log of NMEA 2000"),
     ("2025-06-14 08:00:00.00: DISTANCE_SENSOR {id : 0, current_distance : 412}", "mavlogdump.py"),
     ("ULog\1\x12\x35", "a log of PX4"),
     ("\0\0\0\x34\0P\0i\0n\0g\0V\0i\0e\0w\0e\0r", "a log of Ping Viewer"),
     ('BR\0\0\n\0\0\0{"session_devices":[]}', "a log of Cerulean's SonarView"),
     ('<?xml version="1.0"?>\n<TrainingCenterDatabase>', "a file of Garmin TCX"),
     ("\xfd\x1c\0\0\7\1\1\x21\0\0", "a stream of MAVLink without times"),
     ("navigation.position,source=gps lat=58.2,lon=11.4 1749888000000000000", "line protocol")],
)  # fmt: skip
def test_logs_that_must_be_converted_are_named(line, words, write):
    with pytest.raises(InputError, match=f"cannot be read, as it is .*{words}[:,]? "):
        read_soundings(write(100 * f"{line}\n", "boat.log", "latin-1"))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_becomes_the_lake(kind, write):
    path = write(KINDS[kind])
    try:
        found = read_soundings(path)
        assert kind not in ASKED
    except Question as asked:
        assert kind in ASKED, str(asked)
        found = answered(path, next(iter(asked.answers.values())))
    assert len(found) > 0.8 * COUNT or "of their own" in kind or "confidence" in kind
    true = np.column_stack((X, Y))
    if kind not in NO_PLACE:
        true = found.projection.local_metres(LATITUDE, LONGITUDE)
    off = found.xy - true[found.row]
    away = np.hypot(*(off - np.median(off, axis=0)).T)
    assert np.quantile(away, 0.9) < 1.0 and away.max() < 10  # at a turn
    assert np.abs(np.median(off, axis=0)).max() < 1 or kind in NO_PLACE
    assert np.median(np.abs(-found.z - DEPTH[found.row])) < 0.03
    assert np.abs(-found.z - DEPTH[found.row]).max() < 0.06


def test_the_first_depth_offered_is_the_one_that_the_place_tells(write):
    """Altitudes, speeds and satellites are functions of time."""
    path = write(table("", lambda i: (*at(i), f"{np.sin(i / 31):.2f}", i % 13, f"{DEPTH[i]:.2f}")))
    with pytest.raises(Question) as asked:
        read_soundings(path)
    first = next(iter(asked.value.answers.values()))
    assert first.startswith("--columns latitude=1 longitude=2 depth=5")


def test_a_cell_of_two_numbers_is_a_place_only_if_it_is_as_fine(write):
    path = write(table("p;q;beams;depth", lambda i: (i, 2 * i, f"{1 + i % 3}.5, 2.5", i % 9), ";"))
    with pytest.raises(Question):
        read_soundings(path)


def test_places_in_one_cell_may_begin_later(write):
    """A receiver without a fix has none."""
    path = write(table("fix,depth", lambda i: (
        f'"{", ".join(at(i))}"' if i >= 60 and i % 9 else "", f"{DEPTH[i]:.2f}")))  # fmt: skip
    assert len(read_soundings(path)) == COUNT - 60  # those between have one from their rows


@pytest.mark.parametrize("remark", ["Node Number = 400", "# draught 0 m"])
def test_a_remark_above_the_rows_is_no_header(remark, write):
    path = write(remark + "\n" + table("", lambda i: (*at(i), f"{DEPTH[i]:.2f}"), " "))
    assert read_soundings(path).source["columns"]["depth"] == "3"


def test_names_of_a_profile_s_samples_are_numbers(write):
    path = write(table("lat,lon,depth,0.5,1.0", lambda i: (*at(i), f"{DEPTH[i]:.2f}", 3, 70)))
    assert read_soundings(path).source["columns"]["depth"] == "depth"


def test_without_a_position_no_column_is_offered_for_one(write):
    path = write(table("ID,lake,depth_feet,area_acres", lambda i: (1138400 + i % 7, "a", i, 2 * i)))
    with pytest.raises(Question, match=r"\(no column looks like a position\)$") as asked:
        read_soundings(path)
    assert not asked.value.answers


SOUNDINGS = [
    {"lat": LATITUDE[i], "lon": LONGITUDE[i], "depth": DEPTH[i], "by": "a\u2028b"}
    for i in range(60)
]
LINES = [json.dumps(each, ensure_ascii=False) for each in SOUNDINGS]
POINTS = [{**each, "sats": [{"id": 1}] * 8} for each in SOUNDINGS]
TRACKS = [{"name": "a", "points": POINTS[:40]}, {"name": "b", "points": POINTS[40:]}]


@pytest.mark.parametrize(
    "text",
    ["\ufeff" + "\n".join([*LINES, '{"lat": 47.']), "\n".join([*LINES, ""]),
     json.dumps({"device": [{"id": 1}], "tracks": TRACKS}, indent=1)],
)  # fmt: skip
def test_json_is_read_with_a_mark_a_torn_line_and_all_tracks(text, write):
    assert len(read_soundings(write(text, "log.json"))) == 60


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(("\n".join([*LINES, wrong, *LINES]), r"expected JSON, .* in each line .line 61: ")
          for wrong in ("[1, 2", '{"a": ' * 3000)),
        (json.dumps(SOUNDINGS, indent=1)[:-30],
         r"expected JSON, a whole document or .*line 35\d column"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_named_by_its_place(text, said, write):
    with pytest.raises(InputError, match=said):
        read_soundings(write(text, "log.json"))
