"""Kinds of files: each recognised, read, torn and fuzzed; and readers of other packages."""

import json
import math
import struct
import sys
import types
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from mavlink_logs import blueos, tlog
from mavlink_logs import dataflash as write_dataflash
from nmea_sentences import sentence, spelt

from poam_ros.core.errors import InputError
from poam_ros.importers.mavlink import LogMessage
from poam_ros.importers.raw import RawSoundings, ReadOptions
from poam_ros.importers.readers import READERS, find_reader, read_soundings

COUNT = 60
BEGIN = datetime(2025, 6, 1, 23, 59, 30, tzinfo=timezone.utc)  # past midnight on the way
LATITUDE, LONGITUDE = 53.1 + 1e-5 * np.arange(COUNT), -8.6 + 2e-5 * np.sin(np.arange(COUNT) / 9)
DEPTH = np.round(4 + np.sin(np.arange(COUNT) / 7), 2)


def nmea(path):
    lines = []
    for i in range(COUNT):
        when = BEGIN + timedelta(seconds=i)
        place = f"{spelt(LATITUDE[i], 'NS')},{spelt(LONGITUDE[i], 'EW')}"
        lines += [
            sentence(f"GPGGA,{when:%H%M%S}.00,{place},1,08,0.9,5.4,M,46.9,M,,"),
            sentence(f"SDDPT,{DEPTH[i]},"),
            sentence(f"GPRMC,{when:%H%M%S}.00,A,{place},2.0,84.4,{when:%d%m%y},3.1,W"),
        ]
    path.write_text("".join(lines), newline="")
    return path


def messages(other_vehicle=False, other_sonar=0.0, quality=0, roll=None, worse=0.0):
    """Time (ns) and message of a boat each second; ``other_vehicle``: 1 km away, with a depth each
    2 s. ``other_sonar``, ``worse``: the share of the depth of another sonar, and of
    a worse kind of message; 0: there is none."""
    pytest.importorskip("pymavlink")
    from pymavlink.dialects.v20 import ardupilotmega as dialect

    link, other = dialect.MAVLink(None, srcSystem=2), dialect.MAVLink(None, srcSystem=1)
    link.srcComponent = other.srcComponent = 1
    record = []
    for i in range(COUNT):
        ms, lat, lon = 1000 * i, round(1e7 * LATITUDE[i]), round(1e7 * LONGITUDE[i])

        def depth(value, number=0, own=quality * (i % 2), ms=ms):
            values = ms, 10, 5000, round(100 * value), 0, number, 25, 0
            return dialect.MAVLink_distance_sensor_message(*values, signal_quality=own)

        def place(north=0, ms=ms, lat=lat, lon=lon):
            return dialect.MAVLink_global_position_int_message(ms, lat + north, lon, *[0] * 6)

        sent = [(place(90_000), other)] * other_vehicle
        if roll is not None:
            angles = math.radians(roll), 0.0, math.pi / 2, 0.0, 0.0, 0.0
            sent.append((dialect.MAVLink_attitude_message(ms, *angles), link))
        sent += [(place(), link), (depth(DEPTH[i]), link)]
        sent += [(depth(9.0, 1), other)] * (other_vehicle and i % 2)
        sent += [(depth(other_sonar * DEPTH[i], 1), link)] * bool(other_sonar)
        if worse:
            sent.append((dialect.MAVLink_rangefinder_message(worse * DEPTH[i], 0.0), link))
        for message, by in sent:
            message.pack(by)
            record.append((int(BEGIN.timestamp() * 1e9) + 10**9 * i, message))
    return record


def dataflash(path, **options):
    write_dataflash(path, messages(**options))
    return path


def telemetry(path, **options):
    tlog(path, messages(**options))
    return path


def recorded(path):
    blueos(path, messages())
    return path


def test_attitudes_place_the_end_of_the_beam(tmp_path):
    """Heading east, starboard side 20 degrees down: the beam ends to port, in the north."""
    pytest.importorskip("pymavlink")
    level, tilted = (
        read_soundings(dataflash(tmp_path / f"{roll}.bin", roll=roll)) for roll in (0.0, 20.0)
    )
    depth = -level.z
    np.testing.assert_allclose(-tilted.z, depth * np.cos(np.radians(20)), rtol=1e-6)
    moved = tilted.xy - level.xy - tilted.projection.local_metres(*origin(level))
    np.testing.assert_allclose(moved[:, 0], 0, atol=0.02)
    np.testing.assert_allclose(np.abs(moved[:, 1]), depth * np.sin(np.radians(20)), rtol=0.01)
    assert (moved[:, 1] > 0).all()
    assert "roll and pitch applied" in tilted.source["understood"]


def gpx(path):
    points = "\n".join(
        f'<wpt lat="{a:.7f}" lon="{b:.7f}"><ele>31</ele><extensions><depth>{c}</depth></extensions>'
        "</wpt>"
        for a, b, c in zip(LATITUDE, LONGITUDE, DEPTH, strict=True)
    )
    path.write_text(f'<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">{points}</gpx>')
    return path


def deltas(path):
    """Signal K: two sources of the same depths, and other values."""
    lines = []
    for i in range(COUNT):
        when = f"{BEGIN + timedelta(seconds=i):%Y-%m-%dT%H:%M:%S}.000Z"
        place = {"latitude": LATITUDE[i], "longitude": LONGITUDE[i]}
        for source, name, value in (
            ("gps.1", "navigation.position", place),
            ("n2k.35", "environment.depth.belowTransducer", float(DEPTH[i])),
            ("n2k.36", "environment.depth.belowTransducer", float(DEPTH[i])),
            ("n2k.35", "environment.water.temperature", 285.0),
        ):
            values = [{"path": name, "value": value}]
            update = {"$source": source, "timestamp": when, "values": values}
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
    head = ",result,table,_time,_value,_field,_measurement,source"
    every = (("lat", "navigation.position", LATITUDE), ("lon", "navigation.position", LONGITUDE),
             ("value", "environment.depth.belowTransducer", DEPTH))  # fmt: skip
    lines = []
    for table, (field, name, values) in enumerate(every):
        lines += ["#datatype,string,long,dateTime:RFC3339,double,string,string,string", head]
        for i, value in enumerate(values.tolist()):
            when = f"{BEGIN + timedelta(seconds=i):%Y-%m-%dT%H:%M:%SZ}"
            lines.append(f",,{table},{when},{value!r},{field},{name},s")
        lines.append("")
    path.write_text("\r\n".join(lines), newline="")
    return path


def geojson(path):
    features = [
        {"type": "Feature", "properties": {"Depth (m)": d, "name": "a"},
         "geometry": {"type": "Point", "coordinates": [b, a]}}
        for a, b, d in zip(LATITUDE.tolist(), LONGITUDE.tolist(), DEPTH.tolist(), strict=True)
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def eastings(path):
    """Points in UTM, of what kind the ending says."""
    raw, pyproj = pytest.importorskip("pyogrio.raw"), pytest.importorskip("pyproj")
    to_utm = pyproj.Transformer.from_crs(4326, 32629, always_xy=True).transform
    x, y = to_utm(LONGITUDE, LATITUDE)
    points = [struct.pack("<BIdd", 1, 1, *each) for each in zip(x, y, strict=True)]
    raw.write(path, np.array(points, dtype=object), [DEPTH], ["depth"], geometry_type="Point",
              crs="EPSG:32629")  # fmt: skip
    return path


#: Name of the file, what writes it, and by which reader it is read.
KINDS = {
    "log.nmea": (nmea, "nmea", "pynmeagps"),
    "log.bin": (dataflash, "dataflash", "pymavlink"),
    "log.tlog": (telemetry, "telemetry", "pymavlink"),
    "log.mcap": (recorded, "blueos", "mcap"),
    "deltas.jsonl": (deltas, "signalk", "numpy"),
    "server.log": (server, "signalk", "numpy"),
    "influx.csv": (influx, "signalk", "numpy"),
    "points.gpx": (gpx, "gpx", "numpy"),
    "points.geojson": (geojson, "features", "pyogrio"),
    "points.gpkg": (eastings, "features", "pyogrio"),
    "points.shp": (eastings, "features", "pyogrio"),
}


@pytest.fixture(params=KINDS)
def log(request, tmp_path):
    write, reader, library = KINDS[request.param]
    pytest.importorskip(library)
    return write(tmp_path / request.param), reader


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "log.csv"
    rows = (f"{a:.7f},{b:.7f},{c}" for a, b, c in zip(LATITUDE, LONGITUDE, DEPTH, strict=True))
    path.write_text("\n".join(["latitude,longitude,depth", *rows]) + "\n")
    return read_soundings(path)


def test_each_kind_is_recognised_and_read(log, reference):
    path, reader = log
    assert find_reader(path) == reader
    found = read_soundings(path)
    assert len(found) >= COUNT - 1, found.refused  # after the last position there is none
    count = len(found)
    np.testing.assert_allclose(-found.z, DEPTH[:count], atol=0.006)
    # Between positions a depth may be half a second later than in the table.
    apart = found.projection.local_metres(*origin(reference)) + reference.xy[:count] - found.xy
    assert np.abs(apart - np.median(apart, axis=0)).max() < 0.6 and np.abs(apart).max() < 2
    assert "m" in found.source["understood"] and found.source["written"]


def origin(soundings):
    return (np.array([soundings.projection.latitude]), np.array([soundings.projection.longitude]))


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


@pytest.mark.parametrize("name", ["log.nmea", "log.bin", "log.tlog", "deltas.jsonl", "points.gpx"])
def test_positions_that_are_0_0_throughout_are_refused_by_that_reason(name, tmp_path, monkeypatch):
    write, _, library = KINDS[name]
    pytest.importorskip(library)
    monkeypatch.setattr(sys.modules[__name__], "LATITUDE", 0 * LATITUDE)
    monkeypatch.setattr(sys.modules[__name__], "LONGITUDE", 0 * LONGITUDE)
    with pytest.raises(InputError, match="the positions are 0, 0 throughout: the receiver had no"):
        read_soundings(write(tmp_path / name))


@pytest.mark.parametrize(
    ("also", "refused"),
    [({"other_vehicle": True}, {"other_vehicle": COUNT // 2}),
     ({"other_sonar": 1.01}, {"other_sonar": COUNT})],
)  # fmt: skip
def test_depths_of_one_vehicle_and_sonar_are_read(tmp_path, also, refused):
    whole = read_soundings(telemetry(tmp_path / "a.tlog"))
    found = read_soundings(telemetry(tmp_path / "b.tlog", **also))
    np.testing.assert_array_equal(found.xyz, whole.xyz)
    assert found.refused == refused


def test_sonars_that_contradict_each_other_are_a_question_whose_answer_is_right(tmp_path):
    whole = read_soundings(telemetry(tmp_path / "a.tlog"))
    path = telemetry(tmp_path / "b.tlog", other_sonar=0.3)
    with pytest.raises(InputError, match=r"several that differ.*depth=DISTANCE_SENSOR.0;"):
        read_soundings(path)
    found = read_soundings(path, ReadOptions(columns={"depth": "DISTANCE_SENSOR.0"}))
    np.testing.assert_array_equal(found.xyz, whole.xyz)
    with pytest.raises(InputError, match=r"expected depth=DISTANCE_SENSOR.0 or depth=DISTANCE"):
        read_soundings(path, ReadOptions(columns={"depth": "RFND.0"}))


def test_the_best_kind_of_message_is_read_and_another_may_be_chosen(tmp_path):
    whole = read_soundings(telemetry(tmp_path / "a.tlog"))
    path = telemetry(tmp_path / "b.tlog", worse=0.5)
    found = read_soundings(path)
    np.testing.assert_array_equal(found.xyz, whole.xyz)
    assert found.refused == {"other_sonar": COUNT}
    chosen = read_soundings(path, ReadOptions(columns={"depth": "rangefinder"}))
    np.testing.assert_allclose(chosen.z, whole.z / 2, atol=1e-4)


def test_the_text_of_a_log_is_read_without_what_is_no_depth_and_no_position(tmp_path):
    """Of a second receiver, of a sonar that looks ahead, without an echo."""
    pytest.importorskip("pymavlink")
    lines = [
        "FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format,Columns",
        "FMT, 130, 30, GPS, QBBIHLL, TimeUS,I,Status,GMS,GWk,Lat,Lng",
        "FMT, 131, 30, RFND, QBCBB, TimeUS,Instance,Dist,Stat,Orient",
    ]
    for i, (latitude, longitude, depth) in enumerate(zip(LATITUDE, LONGITUDE, DEPTH, strict=True)):
        lines += [
            f"GPS, {1000000 * i}, 0, 3, {1000 * i}, 2300, {latitude:.7f}, {longitude:.7f}",
            f"RFND, {1000000 * i + 250_000}, 0, {depth:.2f}, {3 if i % 9 == 8 else 4}, 25",
            *[f"RFND, {1000000 * i + 250_000 + k}, 1, 33.00, 4, 0" for k in (1, 2)],
            f"GPS, {1000000 * i + 500_000}, 1, 3, 0, 2300, {latitude + 1e-4:.7f}, {longitude:.7f}",
        ]
    path = tmp_path / "log.log"
    path.write_text("\n".join([*lines, ""]))
    found, echo = read_soundings(path), np.arange(COUNT) % 9 != 8
    echo[-1] = False  # after the last fix
    np.testing.assert_allclose(-found.z, DEPTH[echo], atol=0.01)
    np.testing.assert_allclose(np.ptp(found.xy[:, 1]), 111_320 * np.ptp(LATITUDE[echo]), rtol=0.01)
    assert found.projection.latitude == pytest.approx(np.median(LATITUDE), abs=2e-5)
    message = LogMessage(kind="RANGEFINDER")
    assert message.distance == 0 and not hasattr(message, "distances")


def test_a_damaged_log_of_ardupilot_prints_nothing_of_the_library(tmp_path, capfd):
    pytest.importorskip("pymavlink")
    data = dataflash(tmp_path / "log.bin").read_bytes()
    (tmp_path / "log.bin").write_bytes(data[:2000] + b"\1\2\3" * 500 + data[2000:])
    assert read_soundings(tmp_path / "log.bin")
    assert "bad header" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("value", [None, "deep", [], {}, 10**400, {"type": 3}], ids=str)
@pytest.mark.parametrize("name", ["current_distance", "lat", "system_id", "time_boot_ms"])
def test_values_of_a_recording_that_are_no_numbers_are_counted(tmp_path, name, value):
    """In JSON, where NaN is null; every third message has one."""
    record = pytest.importorskip("mcap.writer")
    with (tmp_path / "log.mcap").open("wb") as file:
        writer = record.Writer(file)
        writer.start()
        channel = writer.register_channel("mavlink/2/1/ALL", "json", 0)
        for number, (ns, message) in enumerate(messages()):
            fields, header = message.to_dict(), {"system_id": 2, "component_id": 1}
            fields["type"] = fields.pop("mavpackettype")
            where = header if name in header else fields
            if name in where and number % 3 == 0:
                where[name] = value
            text = json.dumps({"header": header, "message": fields}).encode()
            writer.add_message(channel, ns, text, ns)
        writer.finish()
    found = read_soundings(tmp_path / "log.mcap", ReadOptions(trusted=True))
    assert COUNT // 3 < len(found) < COUNT + (name in ("lat", "system_id"))
    assert np.isin(np.round(-found.z, 2), DEPTH).all() and sum(found.refused.values())


@pytest.mark.parametrize("left", ["GGA", "DPT"])
def test_a_log_without_depths_or_positions_says_what_it_has(tmp_path, left):
    pytest.importorskip("pynmeagps")
    lines = nmea(tmp_path / "log.nmea").read_text().splitlines(keepends=True)
    (tmp_path / "log.nmea").write_text("".join(line for line in lines if left in line))
    missing = {
        "GGA": r"depths \(DBS or DPT or DBT or DBK\)",
        "DPT": r"positions \(GGA or GNS or RMC or GLL\)",
    }[left]
    with pytest.raises(InputError, match=f"expected {missing}, got none; the file has 60 {left}"):
        read_soundings(tmp_path / "log.nmea")


HOW = {"sl2": "install the reader of docs/extend.md", "xlsx": "save its sheet as CSV",
       "gz": "unpack it", "tif": "gdal_translate -of XYZ"}  # fmt: skip


def test_what_no_reader_knows_is_refused_with_their_names(tmp_path):
    path = tmp_path / "sonar.raw"
    path.write_bytes(b"\1\0\2\0" * 200)
    with pytest.raises(InputError, match=r"sonar.raw: no reader recognises this file.*nmea: "):
        read_soundings(path)
    for ending, words in HOW.items():
        path = path.rename(path.with_suffix(f".{ending}"))
        with pytest.raises(InputError, match=rf"sonar.{ending}: cannot be read, as .*{words}"):
            read_soundings(path)
    grid = tmp_path / "lake.asc"
    grid.write_text("ncols 3\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 5\n1 2 3\n4 5 6\n")
    with pytest.raises(InputError, match=r"lake.asc: cannot be read, as it is a grid"):
        read_soundings(grid)
    with pytest.raises(InputError, match=r"--reader: expected one of mission, .*got 'lowrance'"):
        read_soundings(path, reader="lowrance")
    with pytest.raises(InputError, match=r"No such file"):
        read_soundings(tmp_path / "gone.csv")


def test_a_reader_of_a_module_reads_and_its_faults_are_named(tmp_path, monkeypatch):
    path = tmp_path / "log.dat"
    path.write_bytes(b"\0anything")

    def read(path, options):
        return RawSoundings(np.column_stack((LATITUDE, LONGITUDE)), DEPTH, understood="mine")

    def wrong(path, options):
        raise KeyError("nothing")

    module = types.ModuleType("my_readers")
    module.read, module.wrong, module.other = read, wrong, lambda path, options: 3
    monkeypatch.setitem(sys.modules, "my_readers", module)
    found = read_soundings(path, reader="my_readers:read")
    assert len(found) == COUNT and "my_readers:read" not in list(READERS)
    with pytest.raises(InputError, match=r"cannot be read by the reader my_readers:wrong \(KeyErr"):
        read_soundings(path, reader="my_readers:wrong")
    with pytest.raises(InputError, match="expected RawSoundings, got int"):
        read_soundings(path, reader="my_readers:other")
    with pytest.raises(InputError, match=r"expected places \[N, 2\]"):
        RawSoundings(np.zeros((3, 2)), np.zeros(4))


def test_several_files_are_one_record(tmp_path, reference):
    half = COUNT // 2
    paths = []
    for i, part in enumerate((slice(0, half), slice(half, COUNT))):
        paths.append(tmp_path / f"day{i}.csv")
        rows = zip(LATITUDE[part], LONGITUDE[part], DEPTH[part], strict=True)
        text = "\n".join(f"{a:.7f},{b:.7f},{c}" for a, b, c in rows)
        paths[-1].write_text(f"latitude,longitude,depth\n{text}\n")
    found = read_soundings(paths)
    np.testing.assert_allclose(found.xy, reference.xy, atol=1e-6)
    np.testing.assert_array_equal(found.z, reference.z)
    assert found.files == ((str(paths[0]), 0), (str(paths[1]), half))
    lines = read_soundings(paths, ReadOptions(by="line"))
    assert lines.group[half - 1] != lines.group[half]  # no line goes from a day to the next
    with pytest.raises(InputError, match="this file was given twice"):
        read_soundings([paths[0], paths[0]])
    (tmp_path / "metres.csv").write_text("x,y,z\n1,2,-3\n2,3,-4\n")
    with pytest.raises(InputError, match=r"metres.csv: expected places in degrees as in the other"):
        read_soundings([paths[0], tmp_path / "metres.csv"])
    away = paths[1].read_text().replace("\n53.", "\n13.")
    paths[1].write_text(away)
    with pytest.raises(InputError, match=r"expected the water at 53.10, -8.60 .*, got one 44"):
        read_soundings(paths)


def test_readings_that_a_sonar_is_not_sure_of_are_left_out_as_on_a_link(tmp_path):
    path = telemetry(tmp_path / "a.tlog", quality=40)
    assert len(read_soundings(path)) == COUNT
    options = ReadOptions(settings={"sonar.min_confidence": 50.0})
    assert read_soundings(path, options).refused == {"low_confidence": COUNT // 2}
