"""Terrains: the orientation of every format, voids, and errors with advice."""

import gzip
import sys
import zipfile
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from poam_ros.core.errors import InputError, TerrainError
from poam_ros.core.geometry import Extent
from poam_ros.simulation.terrain import ENVIRONMENT, Terrain, load_terrain

UNIT = Extent(0, 1, 0, 1)
# Where the corners of UNIT are, and what they hold in every tile made here.
CORNERS = {"sw": (0, 0), "se": (1, 0), "nw": (0, 1), "ne": (1, 1)}
HEIGHTS = {"sw": 10, "se": 60, "nw": 120, "ne": 200}


def north_first(side: int, dtype=float) -> np.ndarray:
    """Four quarters of constant height, row 0 north."""
    tile = np.empty((side, side), dtype=dtype)
    half = side // 2
    tile[:half, :half], tile[:half, half:] = HEIGHTS["nw"], HEIGHTS["ne"]
    tile[half:, :half], tile[half:, half:] = HEIGHTS["sw"], HEIGHTS["se"]
    return tile


def write_hgt(folder, side=1201, voids=0):
    tile = north_first(side, ">i2")
    tile.ravel()[:voids] = -32768
    path = folder / "N17E073.hgt"
    path.write_bytes(tile.tobytes())
    return path


def write_zip(folder):
    path = folder / "tile.hgt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(write_hgt(folder), "N17E073.hgt")
    return path


def write_gz(folder):
    path = folder / "tile.hgt.gz"
    path.write_bytes(gzip.compress(write_hgt(folder).read_bytes(), 1))
    return path


def write_npy(folder):
    np.save(folder / "t.npy", north_first(20)[::-1])
    return folder / "t.npy"


def write_npz(folder):
    np.savez(folder / "t.npz", elevation=north_first(20, np.uint8)[::-1])
    return folder / "t.npz"


def write_png(folder, kind=np.uint8):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(north_first(20, kind)).save(folder / "t.png")
    return folder / "t.png"


write_deep_png = partial(write_png, kind=np.uint16)


def write_tif(folder, nodata=None, tile=None):
    rasterio = pytest.importorskip("rasterio")
    tile = north_first(20, "float32") if tile is None else tile
    place = rasterio.transform.from_origin(73.0, 18.0, 0.05, 0.05)
    with rasterio.open(
        folder / "t.tif", "w", driver="GTiff", height=20, width=20, count=1,
        dtype=tile.dtype, nodata=nodata, transform=place, crs="EPSG:4326",
    ) as file:  # fmt: skip
        file.write(tile, 1)
    return folder / "t.tif"


WRITERS = [
    write_hgt, write_zip, write_gz, write_npy, write_npz, write_png, write_deep_png, write_tif,
]  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
def test_north_is_north_in_every_format(write, tmp_path):
    terrain = load_terrain(str(write(tmp_path)), UNIT)
    for name, corner in CORNERS.items():
        assert terrain.elevation_at(np.array([corner]))[0] == HEIGHTS[name]
    assert (terrain.lowest, terrain.highest) == (10, 200)


def test_bilinear_between_centres_and_flat_beyond():
    terrain = Terrain("t", np.array([[0.0, 10.0], [20.0, 30.0]]), Extent(0, 4, 0, 2))
    at = np.array([[1, 0.5], [3, 0.5], [1, 1.5], [3, 1.5], [2, 1.0], [0, 0], [9, 9]])
    assert_allclose(terrain.elevation_at(at), [0, 10, 20, 30, 15, 0, 30])


def test_few_voids_are_filled_from_their_neighbours(tmp_path):
    terrain = load_terrain(str(write_hgt(tmp_path, voids=500)), UNIT)
    assert_array_equal(terrain.elevation[-1, :500], HEIGHTS["nw"])
    tile = north_first(20, "float32")
    tile[3:6, 3:6] = -9999
    path = write_tif(tmp_path, nodata=-9999, tile=tile)
    assert load_terrain(str(path)).lowest == 10
    tile[0, 0] = np.nan
    np.save(tmp_path / "n.npy", np.where(tile == -9999, np.nan, tile))
    assert load_terrain(str(tmp_path / "n.npy")).lowest == 10


def test_many_voids_are_refused(tmp_path):
    with pytest.raises(TerrainError, match="got 30%"):
        load_terrain(str(write_hgt(tmp_path, voids=int(0.3 * 1201**2))))


def test_elevation_can_be_scaled(tmp_path):
    terrain = load_terrain(str(write_npy(tmp_path)), UNIT, elevation_range=(-80, -20))
    assert_allclose((terrain.lowest, terrain.highest), (-80, -20))
    assert_allclose(terrain.elevation_at(np.array([CORNERS["se"]])), -80 + 60 * 50 / 190)
    with pytest.raises(InputError, match="low < high"):
        load_terrain(str(write_npy(tmp_path)), UNIT, elevation_range=(5, 5))


def ramp(rows, columns):
    """Rises eastwards, and ten times as steeply northwards; row 0 south."""
    return np.linspace(0, 1, columns)[None, :] + 10 * np.linspace(0, 1, rows)[:, None]


@pytest.mark.parametrize("side", [3601, 1201, 100])
def test_the_papers_preparation_makes_grey_values_of_any_raster(side, tmp_path):
    elevation = -40 + 700 * ramp(side, side + 7)
    np.save(tmp_path / "r.npy", elevation)
    terrain = load_terrain(str(tmp_path / "r.npy"), preparation="paper")
    grey = terrain.elevation
    assert grey.shape == (360, 360) and terrain.extent == ENVIRONMENT
    assert_array_equal(grey, np.rint(grey))
    assert (terrain.lowest, terrain.highest) == (0, 255)
    # A ramp stays one, to rounding; near the border the kernel is cut.
    row, column = (axis.ravel() for axis in np.mgrid[9:351, 9:351])
    plane = np.column_stack((row, column, np.ones_like(row)))
    fitted = np.linalg.lstsq(plane, grey[9:-9, 9:-9].ravel(), rcond=None)[0]
    assert_allclose(plane @ fitted, grey[9:-9, 9:-9].ravel(), atol=0.6)
    assert_allclose(fitted[:2], np.array([10, 1]) / 11 * 255 / 360, rtol=0.02)
    # North above south, east above west, as it was.
    assert grey[0, 0] == 0 and grey[-1, -1] == 255 and grey[-1, 0] > 200 and grey[0, -1] < 50


def test_a_prepared_terrain_stays_unchanged(tmp_path):
    grey = np.random.default_rng(0).integers(3, 250, (360, 360), dtype=np.uint8)
    np.savez(tmp_path / "n17e073.npz", elevation=grey)
    terrain = load_terrain(str(tmp_path / "n17e073.npz"), preparation="paper")
    assert_array_equal(terrain.elevation, grey)
    np.save(tmp_path / "metres.npy", grey * 4.0)
    assert load_terrain(str(tmp_path / "metres.npy"), preparation="paper").highest == 255


def test_a_tile_is_prepared_with_its_voids_filled_and_its_sea_level(tmp_path, monkeypatch):
    tile = north_first(3601, ">i2")
    tile[:1800, :1800] = np.linspace(-300, -20, 1800).astype(">i2")  # depths from charts
    tile[2000:2020, 100:120] = -32768
    path = tmp_path / "N17E073.hgt"
    path.write_bytes(tile.tobytes())
    grey = load_terrain(str(path), preparation="paper").elevation
    assert grey.shape == (360, 360) and (grey.min(), grey.max()) == (0, 255)
    # The quarters' heights are 10, 60, 0 and 200 m; the cubic kernel overshoots at the cliffs.
    assert np.ptp(grey[200:, :160]) == 0 and np.ptp(grey[20:160, 20:160]) == 0
    sea, height = grey[340, 20], grey[340, 340] - grey[340, 20]
    assert_allclose(grey[20, 340] - sea, 0.3 * height, atol=1)
    assert_allclose(grey[20, 20] - sea, 0.05 * height, atol=1)
    assert height > 230
    pytest.importorskip("pooch")
    monkeypatch.setenv("POAM_CACHE", str(tmp_path))
    (tmp_path / "N17E073.hgt.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    cached = load_terrain("n17e073", preparation="paper")  # without network
    assert cached.name == "N17E073"
    assert_array_equal(cached.elevation, grey)


def test_impossible_preparations_are_refused(tmp_path):
    with pytest.raises(InputError, match="preparation: expected paper, got"):
        load_terrain("seamounts", preparation="papre")
    np.save(tmp_path / "flat.npy", np.full((50, 50), 7.0))
    with pytest.raises(TerrainError, match="flat at 7 m"):
        load_terrain(str(tmp_path / "flat.npy"), preparation="paper")
    np.save(tmp_path / "line.npy", np.arange(5.0))
    with pytest.raises(TerrainError, match="at least 2 x 2"):
        load_terrain(str(tmp_path / "line.npy"), preparation="paper")


def test_jacksboro_is_real_and_north_up():
    cbook = pytest.importorskip("matplotlib.cbook")
    terrain = load_terrain("jacksboro")
    with cbook.get_sample_data("jacksboro_fault_dem.npz") as data:
        raw = data["elevation"][:, :344].astype(float)
    assert terrain.elevation.shape == (344, 344) and terrain.extent == ENVIRONMENT
    assert (terrain.lowest, terrain.highest) == (0, 255)
    north_edge = 255 * (raw[0] - raw.min()) / np.ptp(raw)
    assert_allclose(terrain.elevation[-1], north_edge)


def test_seamounts_follow_the_seed_and_are_rough_in_the_east():
    first, again, other = (load_terrain("seamounts", seed=s).elevation for s in (3, 3, 4))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    slope = np.abs(np.diff(first, axis=1))
    assert slope[:, 270:].mean() > 3 * slope[:, :90].mean()


def test_offline_gives_one_line_with_advice(tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("POAM_CACHE", str(tmp_path))
    # Nothing listens on the discard port of this machine: offline, whatever the network.
    monkeypatch.setattr(
        "poam_ros.simulation.terrain.TILE_ADDRESS", "http://127.0.0.1:9/{row}/{tile}.hgt.gz"
    )
    with pytest.raises(TerrainError) as caught:
        load_terrain("S05W120")
    text = str(caught.value)
    assert "\n" not in text and "S05W120" in text and str(tmp_path) in text
    assert "http://127.0.0.1:9/S05/S05W120.hgt.gz" in text and "--terrain S05W120.hgt" in text


@pytest.mark.parametrize(
    ("module", "write", "extra"), [("rasterio", write_tif, "geotiff"), ("PIL", write_png, "sim")]
)
def test_a_missing_extra_is_named(module, write, extra, tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TerrainError, match=rf"poam_ros\[{extra}\]"):
        load_terrain(str(path))


def broken(folder, name, content):
    (folder / name).write_bytes(content)
    return str(folder / name)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.hgt", b"12345", "25934402 bytes .3601 x 3601. or 2884802 bytes .* got 5"),
        ("a.hgt.gz", b"12345", "cannot be read"),
        ("a.hgt.zip", b"12345", "cannot be read"),
        ("a.npy", b"12345", "cannot be read"),
        ("a.png", b"12345", "cannot be read"),
        ("a.tif", b"12345", "cannot be read"),
        ("a.txt", b"12345", "expected one of .hgt"),
    ],
)
def test_broken_files_are_named(name, content, words, tmp_path):
    with pytest.raises(TerrainError, match=words) as caught:
        load_terrain(broken(tmp_path, name, content))
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_invalid_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", height=np.ones((3, 3)))
    with pytest.raises(TerrainError, match="array `elevation`, got arrays: height"):
        load_terrain(str(tmp_path / "a.npz"))
    np.save(tmp_path / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(TerrainError, match="real numbers"):
        load_terrain(str(tmp_path / "words.npy"))


KNOWN = "jacksboro, seamounts, corner, lake, an SRTM tile"


@pytest.mark.parametrize(
    ("name", "words"), [("no/such/file.hgt", KNOWN), ("N17E73", KNOWN), ("N95E073", "no such tile")]
)
def test_unknown_names_list_the_known_ones(name, words):
    with pytest.raises(TerrainError, match=words):
        load_terrain(name)


@pytest.mark.parametrize("seed", range(4))
def test_a_lake_has_shallows_a_channel_a_flat_and_a_wreck(seed):
    lake = load_terrain("lake", seed=seed)
    assert_array_equal(lake.elevation, load_terrain("lake", seed=seed).elevation)
    assert_allclose((lake.lowest, lake.highest), (-30, -3))
    steepness = np.hypot(*np.gradient(lake.elevation, 62 / 360))
    level = steepness < 0.15
    assert np.mean(level & (lake.elevation > -8)) > 0.06
    assert np.mean(level & (lake.elevation < -25)) > 0.06
    walls = steepness > 4
    # The only walls are the wreck's, deep down and no longer than it.
    assert lake.elevation[walls].max() < -20
    reach = np.ptp(np.argwhere(walls), axis=0) * 62 / 360
    assert 4 < np.hypot(*reach) < 17
