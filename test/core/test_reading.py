"""Files that ask for more memory than they are worth: refused before it is taken."""

import io
import signal
import tracemalloc
import zipfile

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.files import UNREADABLE
from poam_ros.core.reading import VARIABLE, allowance, lines, parse_json, read_arrays, read_yaml
from poam_ros.importers.bags import BagSettings, Recording
from poam_ros.importers.cells import Times, angle, value_with_unit
from poam_ros.importers.columns import plain_column_name, unit_of
from poam_ros.importers.points import read_features
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.outline import read_outline
from poam_ros.outputs.folder import read_map, read_records, read_table, write_table
from poam_ros.research.configuration import read_sweep
from poam_ros.simulation.terrain import read_raster

MIB = 2**20
#: Bytes of a message of zeros, and of the chunk that holds it: fewer than one may have.
SIZE = MIB // 2


@pytest.fixture
def small(monkeypatch):
    """An allowance of 16 MiB; what is refused under it may take a little more, but no multiple."""
    monkeypatch.setenv(VARIABLE, "16")
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * MIB


def array_file(shape, kind="<f8", content=b""):
    """An array's file whose header says what one likes."""
    file = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("shape", [(10**14,), (10**30,)])
@pytest.mark.parametrize("packed", [True, False])
def test_a_false_header_is_noticed(tmp_path, shape, packed):
    content = array_file(shape, content=bytes(100))
    path = tmp_path / "lie.npz"
    archive(path, elevation=content) if packed else path.write_bytes(content)
    with pytest.raises(UNREADABLE):
        read_arrays(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_raster(path)


def test_an_archive_that_unpacks_to_more_than_is_allowed(small, tmp_path):
    path = archive(tmp_path / "map.npz", mean=array_file((3 * MIB,), content=bytes(24 * MIB)))
    assert path.stat().st_size < MIB
    with pytest.raises(InputError, match=f"map.npz: .*takes 24 MiB .* at most 16 .{VARIABLE}"):
        read_map(path)


def test_arrays_are_read_by_name_and_objects_are_not(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "none": np.empty((0, 2))}
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    np.testing.assert_equal(read_arrays(tmp_path / "x.npz"), arrays)
    np.save(tmp_path / "x.npy", arrays["a"])
    np.testing.assert_equal(read_arrays(tmp_path / "x.npy"), {"": arrays["a"]})
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        read_arrays(tmp_path / "o.npy")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "much"])
def test_an_invalid_allowance_is_reported(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(InputError, match=VARIABLE):
        allowance()


def billion_laughs(depth=12):
    rows = ["a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(9)) + "}"]
    for n in range(1, depth):
        rows.append(f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]")
    return "\n".join(rows)


def merges(depth=24):
    rows = ["a0: &a0 {k: 1}"]
    rows += [f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, depth)]
    return "\n".join(rows)


ALIASES = {
    "lists": billion_laughs(), "merges": merges(), "deep": "[" * 300,
    "long": "[" + "1," * 2_000_000 + "1]",
}  # fmt: skip


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_are_counted_wherever_yaml_is_read(small, tmp_path, name):
    path = tmp_path / "bomb.yaml"
    path.write_text(ALIASES[name])
    for read in (read_yaml, read_sweep):
        with pytest.raises(InputError):
            read(path)


@pytest.mark.parametrize("content", ["[" * 100_000, "[" + "[]," * 700_000 + "[]]"])
def test_oversized_json(small, tmp_path, content):
    path = tmp_path / "area.geojson"
    path.write_text(content)
    with pytest.raises(InputError):
        parse_json(path)
    with pytest.raises(InputError, match=r"area\.geojson: expected GeoJSON"):
        read_outline(path, None, np.zeros((1, 2)))


def test_tables_without_an_end_of_line(small, tmp_path):
    path = tmp_path / "samples.csv"
    path.write_bytes(b"x,y\n" + b"1" * MIB)
    for read in (lambda: read_table(path), lambda: read_records(path, ("x",))):
        with pytest.raises(InputError, match=r"samples\.csv: .*"):
            read()
    with pytest.raises(InputError, match="a log: line 2"), path.open() as file:
        list(lines(file, "a log: "))


@pytest.mark.parametrize("ending", [".png", ".tif"])
def test_a_picture_larger_than_is_allowed(monkeypatch, tmp_path, ending):
    image, rasterio = pytest.importorskip("PIL.Image"), pytest.importorskip("rasterio")
    path = tmp_path / f"large{ending}"
    if ending == ".png":
        image.new("L", (3000, 3000)).save(path)
    else:
        shape = {"width": 3000, "height": 3000, "count": 1}
        with rasterio.open(
            path, "w", driver="GTiff", dtype="uint8", compress="lzw", **shape
        ) as file:
            file.write(np.zeros((1, 3000, 3000), np.uint8))
    assert read_raster(path).shape == (3000, 3000)
    monkeypatch.setenv(VARIABLE, "16")
    with pytest.raises(InputError, match=VARIABLE):
        read_raster(path)


def test_a_terrain_that_refers_to_another_file_is_refused(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    shape = {"width": 4, "height": 4, "count": 1, "driver": "GTiff", "dtype": "uint8"}
    with rasterio.open(tmp_path / "secret.tif", "w", **shape) as file:
        file.write(np.ones((1, 4, 4), np.uint8))
    (tmp_path / "link.tif").write_text(
        '<VRTDataset rasterXSize="4" rasterYSize="4"><VRTRasterBand dataType="Byte" band="1">'
        f"<SimpleSource><SourceFilename>{tmp_path}/secret.tif</SourceFilename></SimpleSource>"
        "</VRTRasterBand></VRTDataset>"
    )
    assert read_raster(tmp_path / "secret.tif").sum() == 16
    with pytest.raises(InputError, match=r"link\.tif"):
        read_raster(tmp_path / "link.tif")
    (tmp_path / "lake.kml").write_text("<OGRVRTDataSource></OGRVRTDataSource>")
    with pytest.raises(InputError, match="refers to other files"):
        read_outline(tmp_path / "lake.kml", None, np.zeros((1, 2)))


def recording(path, compression, chunks=1, size=SIZE, encoding="cdr"):
    """An MCAP of messages of zeros, which take next to nothing in the file."""
    writer = pytest.importorskip("mcap.writer")
    with path.open("wb") as file:
        kind = getattr(writer.CompressionType, compression)
        record = writer.Writer(file, chunk_size=size, compression=kind)
        record.start()
        schema = record.register_schema("nav_msgs/msg/Odometry", "ros2msg", b"")
        channel = record.register_channel("/odom", encoding, schema)
        for _ in range(chunks):
            record.add_message(channel, 0, bytes(size), 0)
        record.finish()
    return path


@pytest.mark.parametrize("compression", ["ZSTD", "LZ4"])
def test_recordings_are_not_unpacked_beyond_what_is_allowed(small, tmp_path, compression):
    path = recording(tmp_path / "bomb.mcap", compression, size=8 * MIB)
    with pytest.raises(InputError, match=rf"bomb\.mcap: a chunk takes 128 MiB.*{VARIABLE}"):
        list(Recording(path, BagSettings()))


#: Logs of which little takes much: of many messages, rows or cells.
MANY = {
    "log.nmea": ("pynmeagps", b"$SDDPT,4.2,*7D\r\n" * 6000),
    "log.bin": ("pymavlink", b"\xa3\x95\x80" * 400_000),
    "log.csv": ("numpy", b"x,y,z\n" + b"1,2,3\n4,5,6\n7,8,9\n" * 4000),
    "log.gpx": ("numpy", b"<gpx>" + b"<wpt lat='1' lon='2'><depth>3</depth></wpt>" * 5000),
}


@pytest.mark.parametrize("name", MANY)
def test_logs_that_take_more_than_is_allowed(monkeypatch, tmp_path, name):
    library, content = MANY[name]
    pytest.importorskip(library)
    monkeypatch.setenv(VARIABLE, "1")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: .*takes .* MiB .*{VARIABLE}"):
        read_soundings(tmp_path / name)


@pytest.fixture
def not_for_ever():
    """Ends what takes 20 s of CPU, as patterns do that try every way to cut a long cell."""

    def end(*_):
        raise AssertionError("it takes for ever")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def test_long_cells_and_names_take_no_longer_than_their_length(not_for_ever):
    for part in ("1", "1,", "1.", "1 ", " ", "(", "[ ", ":", "a"):
        long = "1" + 60_000 // len(part) * part + "("
        assert value_with_unit(long) is None and np.isnan(angle(long))
        assert np.isnan(Times([long]).seconds(long))
        assert plain_column_name(long) and not unit_of("(" + long)


def sparse(path, begin, size=8 * 2**30):
    """A file of ``size`` bytes, which takes next to none of the disk."""
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)
    return path


@pytest.mark.parametrize("fault", ["large", "archive", "names"])
def test_gis_files_are_checked_before_a_library_opens_them(small, tmp_path, fault):
    pytest.importorskip("pyogrio")
    path = tmp_path / ("a.kml" if fault == "archive" else "a.shp")
    if fault == "large":
        path.write_bytes(bytes(100))
        sparse(tmp_path / "a.dbf", b"")
    elif fault == "archive":
        archive(path, doc=bytes(8 * MIB))
    else:
        path.write_text("<OGRVRTDataSource></OGRVRTDataSource>")
    words = "other files" if fault == "names" else VARIABLE
    for read in (lambda: read_features(path, ReadOptions()),
                 lambda: read_outline(path, None, np.zeros((1, 2)))):  # fmt: skip
        with pytest.raises(InputError, match=rf"{path.name}: .*{words}"):
            read()


def test_no_text_in_a_table_is_a_formula(tmp_path):
    texts = ["=1+1", "+cmd", "-2+3", "@sum", "\ttab", "plain", "-12", "+1.5", "=a,b"]
    write_table(tmp_path / "t.csv", ("=name", "value"), [(text, -1.5) for text in texts])
    header, *rows = (tmp_path / "t.csv").read_text().splitlines()
    assert header == "'=name,value"
    assert rows[0] == "'=1+1,-1.5" and rows[-1] == '"\'=a,b",-1.5'
    cells = [row.strip('"')[0] for row in rows]
    assert cells == ["'", "'", "'", "'", "'", "p", "-", "+", "'"]
