"""Logs and points as programs write them: each recognised, read, torn and fuzzed; what nothing
reads; and readers of other packages."""

import json
import math
import sys
import types
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from mavlink_logs import blueos, dataflash, tlog
from nmea_sentences import sentence, spelt
from one_lake import write_points

from poam_ros.core.errors import InputError
from poam_ros.importers.raw import RawSoundings, ReadOptions
from poam_ros.importers.readers import READERS, find_reader, read_soundings

COUNT = 60
INDEX = np.arange(COUNT)
BEGIN = datetime(2025, 6, 1, 23, 59, 30, tzinfo=timezone.utc)  # past midnight on the way
LATITUDE, LONGITUDE = 53.1 + 1e-5 * INDEX, -8.6 + 2e-5 * np.sin(INDEX / 9)
DEPTH = np.round(4 + np.sin(INDEX / 7), 2)


def off(found):
    """Where soundings are, beside the places of the first ones [N, 2], in m."""
    return found.xy - found.projection.local_metres(LATITUDE, LONGITUDE)[: len(found)]


def check(found, lost=1):
    """All soundings but so many (after the last position there is none) lie where their depth was
    measured; between positions it may be half a second later."""
    assert COUNT - lost <= len(found) <= COUNT, found.refused
    alike = np.abs(DEPTH + found.z[:, None]) < 0.006
    true = found.projection.local_metres(LATITUDE, LONGITUDE)
    apart = np.hypot(*(found.xy[:, None] - true).transpose(2, 0, 1))
    assert np.where(alike, apart, np.inf).min(1).max() < 1.5


def when(i):
    return BEGIN + timedelta(seconds=i)


def nmea(path):
    lines = []
    for i in range(COUNT):
        place = f"{spelt(LATITUDE[i], 'NS')},{spelt(LONGITUDE[i], 'EW')}"
        lines += [
            sentence(f"GPGGA,{when(i):%H%M%S}.00,{place},1,08,0.9,5.4,M,46.9,M,,"),
            sentence(f"SDDPT,{DEPTH[i]},"),
            sentence(f"GPRMC,{when(i):%H%M%S}.00,A,{place},2.0,84.4,{when(i):%d%m%y},3.1,W"),
        ]
    path.write_text("".join(lines), newline="")
    return path


def messages(
    other_vehicle=False, other_sonar=0.0, quality=0, roll=None, worse=0.0, best=True, sonar=(2, 1),
    receiver="", boots=1, ahead=False,
):  # fmt: skip
    """Time (ns) and message of a boat each second.

    ``other_vehicle``: 1 km away, with a depth each 2 s. ``other_sonar``, ``worse``: the share of
    the depth of another sonar, and of a worse kind of message; 0: there is none. ``best``: whether
    there is the best kind. ``sonar``: its system and component. ``receiver``: its positions with
    times since "boot" or since "1970"; else the autopilot's. ``boots``: how often that starts.
    ``ahead``: whether a sonar of its own looks ahead.
    """
    pytest.importorskip("pymavlink")
    from pymavlink.dialects.v20 import ardupilotmega as dialect

    link, other, sounder = (dialect.MAVLink(None, *of) for of in ((2, 1), (1, 1), sonar))
    record = []
    for i in range(COUNT):
        seconds, ms = int(BEGIN.timestamp()) + i, 5000 + 1000 * (i % (COUNT // boots))
        lat, lon = round(1e7 * LATITUDE[i]), round(1e7 * LONGITUDE[i])

        def depth(value, number=0, looks=25, own=quality * (i % 2), ms=ms):
            values = ms, 10, 5000, round(100 * value), 0, number, looks, 0
            return dialect.MAVLink_distance_sensor_message(*values, signal_quality=own)

        def place(north=0, ms=ms, lat=lat, lon=lon):
            return dialect.MAVLink_global_position_int_message(ms, lat + north, lon, *[0] * 6)

        sent = [(place(90_000), other)] * other_vehicle
        if roll is not None:
            angles = math.radians(roll), 0.0, math.pi / 2, 0.0, 0.0, 0.0
            sent.append((dialect.MAVLink_attitude_message(ms, *angles), link))
        us = 10**6 * seconds if receiver == "1970" else 1000 * ms
        fix = dialect.MAVLink_gps_raw_int_message(us, 3, lat, lon, 0, 0, 0, 0, 0, 9)
        sent += [(fix if receiver else place(), link)] + [(depth(DEPTH[i]), sounder)] * best
        sent += [(depth(9.0, 1), other)] * (other_vehicle and i % 2)
        sent += [(depth(other_sonar * DEPTH[i], 1), link)] * bool(other_sonar)
        sent += [(depth(9.0, looks=0), link)] * ahead
        if worse:
            sent.append((dialect.MAVLink_rangefinder_message(worse * DEPTH[i], 0.0), sounder))
        for message, by in sent:
            message.pack(by)
            record.append((10**9 * seconds, message))
    return record


def mavlink(path, **options):
    """A log of the kind that the ending says."""
    WRITERS[path.suffix](path, messages(**options))
    return path


WRITERS = {".bin": dataflash, ".tlog": tlog, ".mcap": blueos}


def test_attitudes_place_the_end_of_the_beam(tmp_path):
    """Heading east, starboard side 20 degrees down: the beam ends to port, in the north."""
    pytest.importorskip("pymavlink")
    level, tilted = (
        read_soundings(mavlink(tmp_path / f"{roll}.bin", roll=roll)) for roll in (0.0, 20.0)
    )
    depth = -level.z
    np.testing.assert_allclose(-tilted.z, depth * np.cos(np.radians(20)), rtol=1e-6)
    moved = off(tilted) - off(level)
    np.testing.assert_allclose(moved[:, 0], 0, atol=0.02)
    np.testing.assert_allclose(np.abs(moved[:, 1]), depth * np.sin(np.radians(20)), rtol=0.01)
    assert (moved[:, 1] > 0).all()
    assert "roll and pitch applied" in tilted.source["understood"]


def deltas(path):
    """Signal K: two sources of the same depths, and other values."""
    lines = []
    for i in range(COUNT):
        depth = "environment.depth.belowTransducer", float(DEPTH[i])
        for source, (name, value) in (
            ("gps", ("navigation.position", {"latitude": LATITUDE[i], "longitude": LONGITUDE[i]})),
            ("n2k.35", depth), ("n2k.36", depth), ("n2k.35", ("environment.temperature", 285.0)),
        ):  # fmt: skip
            update = {"$source": source, "timestamp": f"{when(i):%Y-%m-%dT%H:%M:%S}.000Z",
                      "values": [{"path": name, "value": value}]}  # fmt: skip
            lines.append(json.dumps({"context": "vessels.self", "updates": [update]}))
    path.write_text("\n".join(lines))
    return path


def server(path):
    """A log of signalk-server: time and connection before each delta."""
    lines = deltas(path).read_text().splitlines()
    path.write_text("\n".join(f"{1700000000000 + i};I;{line}" for i, line in enumerate(lines)))
    return path


def influx(path):
    """InfluxDB: a table for each field, with a header of its own."""
    head, lines = ["_time", "_value", "_field", "_measurement", "source"], []
    every = (("lat", "navigation.position", LATITUDE), ("lon", "navigation.position", LONGITUDE),
             ("value", "environment.depth.belowTransducer", DEPTH))  # fmt: skip
    for table, (field, name, values) in enumerate(every):
        head = head[1:] + head[:1]
        lines += ["#datatype,string,long,dateTime:RFC3339,double,string,string,string",
                  ",".join((",result,table", *head))]  # fmt: skip
        for i, value in enumerate(values.tolist()):
            cells = f"{when(i):%Y-%m-%dT%H:%M:%SZ}", repr(value), field, name, "s"
            lines.append(",".join((f",,{table}", *cells[table + 1 :], *cells[: table + 1])))
        lines.append("")
    path.write_text("\r\n".join(lines), newline="")
    return path


def points(path):
    """Points in UTM, of what kind the ending says."""
    crs = "EPSG:4326" if path.suffix == ".geojson" else "EPSG:32629"
    return write_points(path, crs, np.column_stack((LONGITUDE, LATITUDE)), depth=DEPTH)


#: Name of the file, what writes it, and by which reader it is read.
KINDS = {
    "log.nmea": (nmea, "nmea", "pynmeagps"),
    "log.bin": (mavlink, "mavlink", "pymavlink"),
    "log.tlog": (mavlink, "mavlink", "pymavlink"),
    "log.mcap": (mavlink, "mavlink", "mcap"),
    "deltas.jsonl": (deltas, "signalk", "numpy"),
    "server.log": (server, "signalk", "numpy"),
    "influx.csv": (influx, "signalk", "numpy"),
    "points.geojson": (points, "features", "pyogrio"),
    "points.gpkg": (points, "features", "pyogrio"),
    "points.shp": (points, "features", "pyogrio"),
}


@pytest.fixture(params=KINDS)
def log(request, tmp_path):
    write, reader, library = KINDS[request.param]
    pytest.importorskip(library)
    return write(tmp_path / request.param), reader


def test_each_kind_is_recognised_and_read(log):
    path, reader = log
    assert find_reader(path) == reader
    found = read_soundings(path)
    check(found)
    assert np.abs(off(found)).max() < 2
    assert "m" in found.source["understood"] and found.source["written"]


@pytest.mark.parametrize(
    "how",
    [{"sonar": (2, 194)}, {"sonar": (2, 194), "ahead": True}, {"sonar": (3, 191)},
     {"receiver": "1970"}, {"receiver": "boot", "best": False, "worse": 1.0},
     {"receiver": "1970", "best": False, "worse": 1.0}, {"receiver": "boot", "boots": 2}],
    ids=str,
)  # fmt: skip
def test_a_sonar_of_another_component_and_clocks_of_all_kinds(how, tmp_path):
    check(read_soundings(mavlink(tmp_path / "a.tlog", **how)))


def test_messages_at_impossible_times_are_counted(tmp_path):
    record = messages()
    for i in (30, 31, 90):
        record[i] = 1000 * (2**64 - 1), record[i][1]
    tlog(tmp_path / "a.tlog", record)
    found = read_soundings(tmp_path / "a.tlog")
    assert found.refused["no_time"] == 3
    check(found, lost=4)


def test_a_recording_of_blueos_that_begins_with_video_is_recognised(tmp_path):
    path = tmp_path / "log.mcap"
    blueos(path, messages(), video=True)
    assert find_reader(path) == "mavlink"
    check(read_soundings(path))


def test_a_torn_file_gives_what_stands_before_the_tear_or_says_what_is_wrong(log):
    path, _ = log
    data = path.read_bytes()
    for share in (0.9, 0.6, 0.3, 0.05, 0.0):
        path.write_bytes(data[: int(share * len(data))])
        try:
            found = read_soundings(path)
        except InputError as error:
            assert str(path) in str(error)
        else:
            assert 0 < len(found) <= COUNT
            assert np.isin(np.round(-found.z, 2), DEPTH).all()


@pytest.mark.parametrize("name", ["log.nmea", "log.bin", "log.tlog", "deltas.jsonl"])
def test_positions_that_are_0_0_throughout_are_refused_by_that_reason(name, tmp_path, monkeypatch):
    write, _, library = KINDS[name]
    pytest.importorskip(library)
    monkeypatch.setattr(sys.modules[__name__], "LATITUDE", 0 * LATITUDE)
    monkeypatch.setattr(sys.modules[__name__], "LONGITUDE", 0 * LONGITUDE)
    with pytest.raises(InputError, match="the positions are 0, 0 throughout: the receiver had no"):
        read_soundings(write(tmp_path / name))


@pytest.mark.parametrize(
    ("also", "options", "refused"),
    [({"other_vehicle": True}, {}, {"other_vehicle": COUNT // 2}),
     ({"other_sonar": 1.01}, {}, {"other_sonar": COUNT}),
     ({"worse": 0.5}, {}, {"other_sonar": COUNT}),  # the best kind of message is read
     ({"worse": 0.5}, {"columns": {"depth": "rangefinder"}}, {"other_sonar": COUNT}),
     ({"other_sonar": 0.3}, {}, r"several that differ.*depth=DISTANCE_SENSOR.0;"),
     ({"other_sonar": 0.3}, {"columns": {"depth": "DISTANCE_SENSOR.0"}}, {"other_sonar": COUNT}),
     ({"other_sonar": 0.3}, {"columns": {"depth": "RFND.0"}},
      r"expected depth=DISTANCE_SENSOR.0 or depth=DISTANCE"),
     ({"quality": 40}, {}, {}),
     ({"quality": 40}, {"settings": {"sonar.min_confidence": 50.0}},
      {"low_confidence": COUNT // 2})],
)  # fmt: skip
def test_depths_of_one_vehicle_and_sonar_are_read(also, options, refused, tmp_path):
    """And those that a sonar is not sure of left out, as on a link."""
    whole = read_soundings(mavlink(tmp_path / "a.tlog"))
    path, options = mavlink(tmp_path / "b.tlog", **also), ReadOptions(**options)
    if isinstance(refused, str):
        with pytest.raises(InputError, match=refused):
            read_soundings(path, options)
        return
    found = read_soundings(path, options)
    share = 0.5 if "rangefinder" in options.columns.values() else 1.0
    kept = np.isin(found.stamp_ns, whole.stamp_ns)
    assert found.refused == refused and kept.all()
    here = np.isin(whole.stamp_ns, found.stamp_ns)
    assert here.sum() == len(found) == COUNT - refused.get("low_confidence", 0)
    moved = found.xyz - whole.xyz[here] * (1, 1, share)
    np.testing.assert_allclose(moved[:, 2], 0, atol=1e-4)
    np.testing.assert_allclose(moved - moved[0], 0, atol=1e-4)  # around another middle


def test_the_text_of_a_log_is_read_without_what_is_no_depth_and_no_position(tmp_path):
    """Of a second receiver, of a sonar that looks ahead, without an echo or with a quality of 0: on
    a link it is sent as 1, since 0 stands for an unknown one there; -1 is that of the log."""
    pytest.importorskip("pymavlink")
    lines = [
        "FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format,Columns",
        "FMT, 130, 30, GPS, QBBIHLL, TimeUS,I,Status,GMS,GWk,Lat,Lng",
        "FMT, 131, 30, RFND, QBCBBb, TimeUS,Instance,Dist,Stat,Orient,Quality",
    ]
    silent, unsure = INDEX % 9 == 8, INDEX % 5 == 4
    for i, (latitude, longitude, depth) in enumerate(zip(LATITUDE, LONGITUDE, DEPTH, strict=True)):
        us, how = 10**6 * i, f"{3 if silent[i] else 4}, 25, {0 if unsure[i] else (-1, 80)[i % 2]}"
        lines += [
            f"GPS, {us}, 0, 3, {1000 * i}, 2300, {latitude:.7f}, {longitude:.7f}",
            f"RFND, {us + 250_000}, 0, {2.5 if unsure[i] else depth:.2f}, {how}",
            *[f"RFND, {us + 250_000 + k}, 1, 33.00, 4, 0, -1" for k in (1, 2)],
            f"GPS, {us + 500_000}, 1, 3, 0, 2300, {latitude + 1e-4:.7f}, {longitude:.7f}",
        ]
    path = tmp_path / "log.log"
    path.write_text("\n".join([*lines, ""]))
    found, none = read_soundings(path), silent | unsure
    check(found, lost=1 + none[:-1].sum())  # the last one is unsure, and after the last fix
    assert found.refused["nan"] == none.sum()
    assert found.projection.latitude == pytest.approx(np.median(LATITUDE), abs=2e-5)


def test_a_damaged_log_of_ardupilot_prints_nothing_of_the_library(tmp_path, capfd):
    pytest.importorskip("pymavlink")
    data = mavlink(tmp_path / "log.bin").read_bytes()
    (tmp_path / "log.bin").write_bytes(data[:2000] + b"\1\2\3" * 500 + data[2000:])
    assert read_soundings(tmp_path / "log.bin")
    assert "bad header" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("value", [None, "deep", [], {}, 10**400, {"type": 3}], ids=str)
@pytest.mark.parametrize("name", ["current_distance", "lat", "system_id", "time_boot_ms"])
def test_values_of_a_recording_that_are_no_numbers_are_counted(tmp_path, name, value):
    """In JSON, where NaN is null; every third message has one."""

    def spoil(number, *parts):
        for part in parts:
            part.update({name: value} if name in part and number % 3 == 0 else {})

    blueos(tmp_path / "log.mcap", messages(), spoil)
    found = read_soundings(tmp_path / "log.mcap", ReadOptions(trusted=True))
    assert COUNT // 3 < len(found) < COUNT + (name in ("lat", "system_id"))
    assert np.isin(np.round(-found.z, 2), DEPTH).all() and sum(found.refused.values())


@pytest.mark.parametrize(
    ("left", "missing"),
    [("GGA", r"depths \(DBS or DPT or DBT or DBK\)"),
     ("DPT", r"positions \(GGA or GNS or RMC or GLL\)")],
)  # fmt: skip
def test_a_log_without_depths_or_positions_says_what_it_has(tmp_path, left, missing):
    pytest.importorskip("pynmeagps")
    lines = nmea(tmp_path / "log.nmea").read_text().splitlines(keepends=True)
    (tmp_path / "log.nmea").write_text("".join(line for line in lines if left in line))
    with pytest.raises(InputError, match=f"expected {missing}, got none; the file has 60 {left}"):
        read_soundings(tmp_path / "log.nmea")


#: By the name: the bytes, and what is said of them.
UNREADABLE = {
    "sonar.raw": (b"\1\0\2\0" * 200, "no reader recognises this file.*nmea: "),
    "lake.asc": (b"ncols 3\nnrows 2\nxllcorner 0\nyllcorner 0\n1 2 3\n4 5 6\n", "is a grid"),
    **{f"sonar.{ending}": (b"\1\0\2\0" * 200, words) for ending, words in (
        ("sl2", "install the reader of docs/extend.md"), ("xlsx", "save its sheet as CSV"),
        ("gz", "unpack it"), ("tif", "gdal_translate -of XYZ"))},
    **{f"boat{number}.log": (100 * f"{line}\n".encode("latin-1"), f"as it is .*{words}[:,]? ")
       for number, (line, words) in enumerate((
        ("2014-08-15T19:00:00.048Z,2,128259,115,255,8,00,4e,01,ff,ff,00,00,ff", "log of NMEA 2000"),
        ("(1749888000.106111) can0 0DF50B23#01A20200000000FF", "a log of NMEA 2000"),
        ("17:33:21.107 R 0DF50B23 01 A2 02 00 00 00 00 FF", "a log of NMEA 2000"),
        ("2025-06-14 08:00:00.00: DISTANCE_SENSOR {id : 0, distance : 412}", "mavlogdump.py"),
        ("ULog\1\x12\x35", "a log of PX4"),
        ("\0\0\0\x34\0P\0i\0n\0g\0V\0i\0e\0w\0e\0r", "a log of Ping Viewer"),
        ('BR\0\0\n\0\0\0{"session_devices":[]}', "a log of Cerulean's SonarView"),
        ('<?xml version="1.0"?>\n<TrainingCenterDatabase>', "a file of Garmin TCX"),
        ("\xfd\x1c\0\0\7\1\1\x21\0\0", "a stream of MAVLink without times"),
        ("navigation.position,source=gps lat=58.2 1749888000000000000", "line protocol")))},
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_named_with_what_reads_it(name, tmp_path):
    path, (data, words) = tmp_path / name, UNREADABLE[name]
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: .*{words}"):
        read_soundings(path)


def test_a_reader_or_a_file_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "gone.csv"
    with pytest.raises(InputError, match=r"--reader: expected one of mission, .*got 'lowrance'"):
        read_soundings(path, reader="lowrance")
    with pytest.raises(InputError, match=r"gone.csv: cannot be read .No such file"):
        read_soundings(path)


def test_a_reader_of_a_module_reads_and_its_faults_are_named(write, monkeypatch):
    places, path = np.column_stack((LATITUDE, LONGITUDE)), write(b"\0anything", "log.dat")
    module = types.ModuleType("my_readers")
    module.read = lambda path, options: RawSoundings(places, DEPTH)
    module.wrong, module.other = (lambda path, options: {}["nothing"]), lambda path, options: 3
    monkeypatch.setitem(sys.modules, "my_readers", module)
    found = read_soundings(path, reader="my_readers:read")
    assert len(found) == COUNT and "my_readers:read" not in list(READERS)
    for name, words in (
        ("wrong", r"cannot be read by the reader my_readers:wrong \(KeyErr"),
        ("other", "expected RawSoundings, got int"),
    ):
        with pytest.raises(InputError, match=words):
            read_soundings(path, reader=f"my_readers:{name}")
    with pytest.raises(InputError, match=r"expected places \[N, 2\]"):
        RawSoundings(np.zeros((3, 2)), np.zeros(4))


def test_several_files_are_one_record(write):
    half, head = COUNT // 2, "latitude,longitude,depth\n"
    rows = [f"{a:.7f},{b:.7f},{c}\n" for a, b, c in zip(LATITUDE, LONGITUDE, DEPTH, strict=True)]
    texts = ["".join([head, *part]) for part in (rows[:half], rows[half:])]
    paths = [write(text, f"day{i}.csv") for i, text in enumerate(texts)]
    found = read_soundings(paths)
    assert np.abs(off(found)).max() < 0.02 and np.array_equal(-found.z, DEPTH)
    assert found.files == ((str(paths[0]), 0), (str(paths[1]), half))
    lines = found.grouped_by_line()
    assert lines.group[half - 1] != lines.group[half]  # no line goes from a day to the next
    for other, words in (
        (paths[0], "this file was given twice"),
        (write("x,y,z\n1,2,-3\n2,3,-4\n", "metres.csv"),
         r"metres.csv: expected places in degrees as in the other"),
        (write(texts[1].replace("53.", "13."), "away.csv"),
         r"expected the water at 53.10, -8.60 .*, got one 44"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            read_soundings([paths[0], other])
