"""Every export, read back by a library that did not write it, and held against the run's folder."""

import io
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import yaml

from poam_ros import __version__
from poam_ros.core.errors import InputError
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.exports import export, export_settings
from poam_ros.outputs.held_out import OTHER_SURVEY
from poam_ros.outputs.run import Run
from poam_ros.planning.tvu import CONFIDENCE_95, strictest

from .conftest import deviation, ground

ORIGIN = (17.5, -91.2)
PLACED = ExportSettings(ORIGIN, vertical_datum=5703)
TURNED = ExportSettings(ORIGIN, heading=30.0)
DENSITY = {(1, 2): 3, (5, 11): 1, (0, 0): 1}  # cells (row from the south, column) with pings


def counted(shape):
    expected = np.zeros(shape)
    for cell, count in DENSITY.items():
        expected[cell] = count
    return expected


def assert_provenance(words):
    """What every format says, as text by name."""
    assert words["software"] == f"poam_ros {__version__}" and words["samples"] == "5"
    assert words["map_time"] == "2025-12-06T05:46:40Z"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", words["export_time"])
    assert "Gaussian process" in words["uncertainty"] and words["vertical_datum"]
    assert json.loads(words["settings"]) == {"seed": 3, "note": "tiefer als Höhe"}


@pytest.mark.parametrize(
    ("settings", "compound"),
    [(PLACED, True), (ExportSettings(ORIGIN), False), (ExportSettings(), False)],
)
def test_geotiff(run, drawn, tmp_path, settings, compound):
    rasterio, warp = pytest.importorskip("rasterio"), pytest.importorskip("rasterio.warp")
    (path,) = export(run, tmp_path / "map.tif", settings)
    with rasterio.open(path) as file:
        assert file.descriptions[:4] == (
            "elevation", "uncertainty (95 %)", "density (pings per cell)", "sigma (1 sigma)",
        )  # fmt: skip
        assert file.descriptions[4].startswith("TVU within")
        # North-west: the first pixel is the last row of the map.
        assert (file.transform.c, file.transform.f) == (-4.0, 10.0)
        np.testing.assert_allclose(file.read(1)[0, 0], drawn.mean[-1, 0], rtol=1e-6)
        std = np.sqrt(drawn.variance)
        expected = (
            drawn.mean, CONFIDENCE_95 * std, counted(drawn.grid.shape), std,
            strictest(-drawn.mean, std), CONFIDENCE_95 * std,
        )  # fmt: skip
        np.testing.assert_allclose(file.read()[:, ::-1], np.stack(expected), rtol=1e-6)
        assert np.isnan(file.nodatavals).all()
        text = file.crs.to_wkt()
        assert text.startswith("COMPD_CS") == compound and ("NAVD88 height" in text) == compound
        assert file.crs.is_projected == (settings.origin is not None)
        if settings.origin:
            lon, lat = warp.transform(file.crs, "EPSG:4326", [0.0], [0.0])
            np.testing.assert_allclose((lat[0], lon[0]), ORIGIN, atol=1e-9)
        assert_provenance(file.tags())


def test_a_rotated_map_is_exported_north_up(run, drawn, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    (path,) = export(run, tmp_path / "map.tif", TURNED)
    angle = np.radians(30.0)
    x, y = np.array([-4.0, 20, 20, -4]), np.array([-2.0, -2, 10, 10])
    east, north = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    with rasterio.open(path) as file:
        assert file.transform.c == pytest.approx(east.min())
        assert file.bounds.bottom == pytest.approx(north.min())
        assert 0 <= file.bounds.right - east.max() < 2 and 0 <= file.bounds.top - north.max() < 2
        bands, places = file.read(), np.stack(file.xy(*np.indices(file.shape).reshape(2, -1)))
    own = np.column_stack((
        places[0] * np.cos(angle) - places[1] * np.sin(angle),
        places[1] * np.cos(angle) + places[0] * np.sin(angle),
    ))  # fmt: skip
    inside = drawn.grid.borders.contains(own).reshape(bands.shape[1:])
    assert 0.3 < inside.mean() < 0.9
    np.testing.assert_array_equal(np.isfinite(bands[0]), inside)
    # Beyond the outermost centres a map is flat; between them its planes come back exactly.
    middle = drawn.grid.borders.grown(-1.0).contains(own).reshape(inside.shape)
    np.testing.assert_allclose(bands[0][middle], ground(own[middle.ravel()]), rtol=1e-5)
    np.testing.assert_allclose(bands[3][middle], deviation(own[middle.ravel()]), rtol=1e-5)
    assert np.nansum(bands[2]) == 5


def test_what_another_survey_measures_is_the_last_band(run, drawn, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    (path,) = export(run, tmp_path / "map.tif", ExportSettings(ORIGIN))
    with rasterio.open(path) as file:
        assert file.descriptions[5] == "uncertainty of another survey (95 %)" and file.count == 6
        np.testing.assert_array_equal(file.read(6), file.read(2))  # nothing is known
    wider = 3 * np.sqrt(drawn.variance)
    files.write_map(run / "map.npz", replace(drawn, fields={**drawn.fields, OTHER_SURVEY: wider}))
    (path,) = export(run, tmp_path / "wider.tif", ExportSettings(ORIGIN))
    with rasterio.open(path) as file:
        np.testing.assert_allclose(file.read(6), 3 * file.read(2), rtol=1e-6)
    assert Run.open(run).map.fields[OTHER_SURVEY] == pytest.approx(wider)


def test_a_quarter_turn_keeps_the_cells(run, drawn):
    chart = read_chart(run, ExportSettings(ORIGIN, heading=90.0))
    np.testing.assert_allclose(chart.elevation, drawn.mean.T[::-1], atol=1e-12)
    np.testing.assert_array_equal(chart.density, counted(drawn.grid.shape).T[::-1])


@pytest.mark.parametrize("given", [{"crs": "UTM"}, {"crs": "EPSG:32615"}])
def test_another_system_has_its_code_and_the_same_bottom(run, drawn, tmp_path, given):
    rasterio, warp = pytest.importorskip("rasterio"), pytest.importorskip("rasterio.warp")
    settings = ExportSettings(ORIGIN, **given, vertical_datum=3855)
    (path,) = export(run, tmp_path / "map.tif", settings)
    with rasterio.open(path) as file:
        assert 'AUTHORITY["EPSG","32615"]' in file.crs.to_wkt()
        around = "+proj=tmerc +lat_0=17.5 +lon_0=-91.2 +datum=WGS84"
        spot = warp.transform(around, "EPSG:32615", [8.0], [4.0])
        row, column = file.index(spot[0][0], spot[1][0])
        at = warp.transform("EPSG:32615", around, *([v] for v in file.xy(row, column)))
        expected = ground(np.column_stack(at))[0]
        assert file.read(1)[row, column] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("settings", [PLACED, ExportSettings(ORIGIN, heading=30.0)])
def test_bag(run, tmp_path, settings):
    h5py = pytest.importorskip("h5py")
    rasterio, warp = pytest.importorskip("rasterio"), pytest.importorskip("rasterio.warp")
    (path,) = export(run, tmp_path / "map.bag", settings)
    chart = read_chart(run, settings)
    with h5py.File(path) as file:
        group = file["BAG_root"]
        assert group.attrs["Bag Version"].startswith(b"1.")
        for key, layer in (("elevation", chart.elevation), ("uncertainty", chart.uncertainty)):
            expected = np.where(np.isfinite(layer), layer, 1e6)
            np.testing.assert_allclose(group[key][:], expected, rtol=1e-6)  # row 0 is south
        text = b"".join(group["metadata"][:].tolist()).decode()
    assert "The uncertainty is a Gaussian process's" in text
    assert re.search(r"<bag:BAG_VertUncertCode[^>]*>unknown<", text)
    assert "Bathymetry of bay &amp; &lt;lake&gt;" in text and f"poam_ros {__version__}" in text
    assert 'AXIS["Up",UP]' in text or "NAVD88 height" in text
    with rasterio.open(path) as file:
        borders = chart.grid.borders
        assert (file.bounds.left, file.bounds.top) == pytest.approx((borders.xmin, borders.ymax))
        lon, lat = warp.transform(file.crs, "EPSG:4326", [0.0], [0.0])
        np.testing.assert_allclose((lat[0], lon[0]), ORIGIN, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "standard"),
    [
        (PLACED, "height_above_geopotential_datum"),
        (ExportSettings(depth=True, water_level=2.0), "sea_floor_depth_below_sea_surface"),
        (
            ExportSettings(ORIGIN, vertical_datum=5715, depth=True),
            "sea_floor_depth_below_geopotential_datum",
        ),
    ],
)
def test_netcdf(run, drawn, tmp_path, settings, standard):
    netcdf4 = pytest.importorskip("netCDF4")
    (path,) = export(run, tmp_path / "map.nc", settings)
    with netcdf4.Dataset(path) as file:
        name = "depth" if settings.depth else "elevation"
        main = file[name]
        assert file.Conventions == "CF-1.8" and main.standard_name == standard
        values = settings.water_level - drawn.mean if settings.depth else drawn.mean
        np.testing.assert_allclose(main[:], values, rtol=1e-6)
        np.testing.assert_array_equal(file["x"][:], drawn.grid.x)
        np.testing.assert_array_equal(file["y"][:], drawn.grid.y)
        others = main.ancillary_variables.split()
        assert others == ["uncertainty", "sigma", "density", "tvu", "uncertainty_other_survey"]
        std = np.sqrt(drawn.variance)
        np.testing.assert_allclose(file["uncertainty"][:], CONFIDENCE_95 * std, rtol=1e-6)
        np.testing.assert_array_equal(file["density"][:], counted(drawn.grid.shape))
        assert file["sigma"].standard_name == f"{standard} standard_error"
        meanings = file["tvu"].flag_meanings.split()
        assert len(meanings) == len(file["tvu"].flag_values) == 5
        if settings.origin:
            mapping = file[main.grid_mapping]
            assert mapping.grid_mapping_name == "transverse_mercator"
            assert mapping.latitude_of_projection_origin == ORIGIN[0]
            assert mapping.crs_wkt.startswith("COMPD_CS") and mapping.geopotential_datum_name
        else:
            assert "crs" not in file.variables and "standard_name" not in file["x"].ncattrs()
        assert_provenance({key: file.getncattr(key) for key in file.ncattrs()})


def test_netcdf_lies_where_gdal_looks_for_it(run, drawn, tmp_path):
    rasterio, warp = pytest.importorskip("rasterio"), pytest.importorskip("rasterio.warp")
    (path,) = export(run, tmp_path / "map.nc", TURNED)
    chart = read_chart(run, TURNED)
    with rasterio.open(f"netcdf:{path}:elevation") as file:
        borders = chart.grid.borders
        assert (file.bounds.left, file.bounds.top) == pytest.approx((borders.xmin, borders.ymax))
        lon, lat = warp.transform(file.crs, "EPSG:4326", [0.0], [0.0])
        np.testing.assert_allclose((lat[0], lon[0]), ORIGIN, atol=1e-9)
        np.testing.assert_allclose(file.read(1), chart.elevation[::-1], rtol=1e-6)


def test_csv(run, drawn, tmp_path):
    pytest.importorskip("rasterio")
    *_, path = written = export(run, tmp_path / "map.csv", PLACED)
    rows = np.genfromtxt(path, delimiter=",", names=True)
    columns = "x y elevation uncertainty sigma density longitude latitude"
    assert rows.dtype.names == tuple(columns.split())
    np.testing.assert_allclose(np.column_stack((rows["x"], rows["y"])), drawn.grid.points)
    np.testing.assert_allclose(rows["elevation"], drawn.mean.ravel(), atol=6e-5)
    np.testing.assert_allclose(rows["sigma"], np.sqrt(drawn.variance).ravel(), atol=6e-5)
    np.testing.assert_array_equal(rows["density"], counted(drawn.grid.shape).ravel())
    assert abs(rows["latitude"] - ORIGIN[0]).max() < 1e-4
    assert_provenance(yaml.safe_load(written[0].read_text(encoding="utf-8")))


def test_nav2(run, drawn, tmp_path):
    image = pytest.importorskip("PIL.Image")
    settings = ExportSettings(clearance=10.0, water_level=0.5)
    picture, path = export(run, tmp_path / "map.yaml", settings)
    described = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert described["image"] == picture.name == "map.pgm"
    assert described["resolution"] == 2.0 and described["origin"] == [-4.0, -2.0, 0.0]
    assert (described["negate"], described["mode"]) == (0, "trinary")
    grey = np.asarray(image.open(io.BytesIO(picture.read_bytes())))
    surely = 0.5 - drawn.mean - CONFIDENCE_95 * np.sqrt(drawn.variance)
    occupancy = (255 - grey[::-1].astype(float)) / 255  # the map server's, row 0 south
    np.testing.assert_array_equal(occupancy < described["free_thresh"], surely > 10.0)
    np.testing.assert_array_equal(occupancy > described["occupied_thresh"], surely <= 10.0)
    assert 0 < (surely > 10.0).mean() < 1
    for text in (path.read_text(encoding="utf-8"), picture.read_bytes().decode("latin-1")):
        assert f"# software: poam_ros {__version__}\n" in text and "# samples: 5\n" in text


def test_png(run, tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    (path,) = export(run, tmp_path / "map.png", ExportSettings())
    with image.open(path) as picture:
        assert min(picture.size) > 800
        assert_provenance(picture.text)


def test_html_is_one_page_that_fetches_nothing(run, drawn, tmp_path):
    """What it shows is tested where the page is; here what it is: complete, and readable."""
    pytest.importorskip("bokeh")
    (path,) = export(run, tmp_path / "map.html", ExportSettings())
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]*\ssrc", text)
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    assert not re.search(r"\s(src|href)=|<(link|iframe|img)\b", body)
    assert "Bathymetry of bay &amp; &lt;lake&gt;" in body and f"poam_ros {__version__}" in body
    assert f"{drawn.mean.min():.2f} to {drawn.mean.max():.2f} m" in body
    wet = strictest(-drawn.mean, np.sqrt(drawn.variance))
    assert f"Order 1a {100 * (wet >= 2).mean():.1f} %" in body


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("map.bag", {}, "expected --origin"),
        ("map.kml", {}, "expected --origin"),
        ("map.yaml", {"origin": ORIGIN}, "expected no --origin"),
        ("map.bag", {"origin": ORIGIN, "depth": True}, "expected no --depth"),
        ("map.tif", {"vertical_datum": 5703}, "expected --origin"),
        (
            "map.csv",
            {"vertical_datum": 5715, "depth": True, "water_level": 3.0},
            "expected --water-level 0",
        ),
    ],
)
def test_incompatible_options_are_refused(run, tmp_path, name, settings, words):
    if "vertical_datum" in settings:
        pytest.importorskip("rasterio")
    with pytest.raises(InputError, match=words):
        export(run, tmp_path / "out" / name, ExportSettings(**settings))
    assert not (tmp_path / "out").exists()


def test_an_export_has_the_map_s_contours_and_remarks_and_no_folders(run):
    config = {"contour_interval": 0.5, "remarks": "For us", "log": "/srv/maps/lake.csv"}
    files.write_config(run / "config.yaml", config)
    for given in ({}, {"origin": (1.0, 2.0)}):
        assert export_settings(run, run / "a.kml", given).contour_interval == 0.5
    assert export_settings(run, run / "a.kml", {"contour_interval": 2.0}).contour_interval == 2.0
    words = read_chart(run, ExportSettings()).provenance
    assert words["remarks"] == "For us" and "lake.csv" in words["settings"]
    assert "/srv" not in "".join(words.values())


def test_invalid_settings_and_runs_are_refused(run, tmp_path):
    with pytest.raises(InputError, match="heading and crs: expected an origin"):
        ExportSettings(heading=10.0)
    with pytest.raises(InputError, match="crs: expected a projected system"):
        ExportSettings(ORIGIN, crs="EPSG:4326")
    with pytest.raises(InputError, match="heading: expected"):
        ExportSettings(ORIGIN, heading=400.0)
    with pytest.raises(InputError, match=r"map\.npz"):
        export(tmp_path, tmp_path / "map.csv", ExportSettings())
    (run / "config.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"config\.yaml: expected YAML"):
        export(run, tmp_path / "map.csv", ExportSettings())
    (run / "config.yaml").unlink()
    assert read_chart(run, ExportSettings()).provenance["settings"] == "null"


def test_a_missing_package_is_named_with_its_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rasterio", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("map.csv", "map.yaml", "map.nc"):  # without a georeference they need none
        assert export(run, tmp_path / name, ExportSettings())[-1].exists()
    for name, package in (("map.tif", "rasterio"), ("map.png", "matplotlib")):
        with pytest.raises(InputError, match=rf"{name} needs {package} \(pip install .*\[geo\]"):
            export(run, tmp_path / name, ExportSettings())


def test_a_simulated_clock_is_no_time_of_day(run, drawn):
    files.write_map(run / "map.npz", replace(drawn, stamp_ns=12_500_000_000))
    assert read_chart(run, ExportSettings()).provenance["map_time"] == "12.500 s of the run's clock"
    files.write_map(run / "map.npz", replace(drawn, stamp_ns=0))
    assert "map_time" not in read_chart(run, ExportSettings()).provenance


# --- Values along lines ---


def test_values_along_a_line_are_the_map_s(run, tmp_path):
    """The fixture's map is a plane: interpolation is exact."""
    settings = ExportSettings(depth=True, water_level=1.0)
    figure, path = export(run, tmp_path / "s.csv", settings, ["-2", "0", "10,0", "10", "8"])
    table = files.read_table(path, ("section", "depth", "low", "high"))
    xy = np.column_stack((table["x"], table["y"]))
    assert table["distance"][-1] == 20 and np.diff(table["distance"]).max() <= 1
    assert (10.0, 0.0) in {tuple(p) for p in xy.tolist()}  # the corner
    np.testing.assert_allclose(table["depth"], 13 - xy @ (0.2, -0.3), atol=1e-3)
    half = (table["high"] - table["low"]) / 2
    inner = (xy[:, 1] > 0) & (xy[:, 0] > -2)
    np.testing.assert_allclose(half[inner], 1.96 * (0.1 + xy[inner] @ (0.01, 0.005)), atol=2e-3)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_lines_of_a_file_are_in_degrees(run, tmp_path):
    pytest.importorskip("pyproj")
    settings = ExportSettings(origin=(60.0, 25.0))
    _, path = export(run, tmp_path / "s.csv", settings, ["0", "0", "10", "4"])
    first = files.read_table(path)
    ends = np.column_stack((first["longitude"], first["latitude"]))[[0, -1]].tolist()
    line = {"type": "LineString", "coordinates": ends}
    features = [{"type": "Feature", "properties": {}, "geometry": line}] * 2
    file = tmp_path / "lines.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    _, path = export(run, tmp_path / "t.csv", settings, [str(file)])
    second = files.read_table(path)
    assert set(second["section"]) == {1, 2}
    one = second["section"] == 2
    np.testing.assert_allclose(
        second["elevation"][one][[0, -1]], first["elevation"][[0, -1]], atol=1e-3
    )


@pytest.mark.parametrize(
    ("name", "section", "words"),
    [
        ("s.csv", ["1", "2", "3"], "expected X Y X Y"),
        ("s.csv", ["1", "2", "3", "x"], "expected X Y X Y"),
        ("s.csv", ["nowhere.geojson"], "cannot be read"),
        ("s.csv", ["500", "500", "600", "600"], "no line crosses a part of the map"),
        ("s.csv", ["1", "1", "1", "1"], "expected a length"),
        ("s.tif", ["0", "0", "9", "9"], "expected a .csv file"),
    ],
)
def test_what_is_no_section(run, tmp_path, name, section, words):
    with pytest.raises(InputError, match=words):
        export(run, tmp_path / name, ExportSettings(), section)
