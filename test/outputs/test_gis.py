"""A run's files and exports, read and held against each other by geopandas and rasterio."""

import json

import numpy as np
import pytest
from crossing_lines import lake

from poam_ros.app.cli import main
from poam_ros.core.geodesy import GeoReference

geopandas = pytest.importorskip("geopandas")
rasterio = pytest.importorskip("rasterio")
shapely = pytest.importorskip("shapely")

PLACE = GeoReference(60.0, 25.0)
#: The outline and its island, in m of the track.
SHORE = [(-5, -5), (245, -5), (245, 205), (-5, 205), (-5, -5)]
ISLAND = [(52, 40), (52, 60), (66, 60), (66, 40), (52, 40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of a log in degrees with an outline, and its exports."""
    folder = tmp_path_factory.mktemp("gis")
    xy, z, line = lake()
    degrees = PLACE.degrees(xy)
    rows = [
        f"{lat:.8f},{lon:.8f},{-z:.3f},L{k}"
        for (lon, lat), z, k in zip(degrees.tolist(), z.tolist(), line.tolist(), strict=True)
    ]
    (folder / "log.csv").write_text("\n".join(["latitude,longitude,depth,line", *rows]))
    rings = [PLACE.degrees(np.array(ring, dtype=float)).tolist() for ring in (SHORE, ISLAND)]
    shore = {"type": "Polygon", "coordinates": rings}
    (folder / "shore.geojson").write_text(json.dumps(shore))
    run = folder / "run"
    options = ["--resolution", "4", "--set", "nngp.first_steps=60", "--set", "nngp.hidden=8"]
    arguments = [str(folder / "log.csv"), "--outline", str(folder / "shore.geojson")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("poam_ros.app.commands.map.draw_figures", lambda *_, **__: None)
        patch.setattr("poam_ros.app.commands.map.print_summary", lambda *_: None)
        assert main(["map", *arguments, "--output", str(run), *options]) == 0
    assert main(["export", str(run), "--to", str(run / "map.tif")]) == 0
    return run


def points(path):
    """A table with columns x and y as GDAL reads it."""
    return geopandas.read_file(
        path, X_POSSIBLE_NAMES="x", Y_POSSIBLE_NAMES="y", AUTODETECT_TYPE="YES"
    )


def outline_in(folder):
    corners = points(folder / "outline.csv")
    rings = [
        list(zip(ring.geometry.x, ring.geometry.y, strict=True))
        for _, ring in corners.groupby(["polygon", "ring"])
    ]
    return shapely.Polygon(rings[0], rings[1:])


def test_the_raster_ends_at_the_outline_and_fits_the_soundings(folder):
    outline, soundings = outline_in(folder), points(folder / "samples.csv")
    assert outline.area == pytest.approx(250 * 210 - 14 * 20, rel=1e-3)
    assert soundings.within(outline).all() and len(soundings) > 1000
    with rasterio.open(folder / "map.tif") as raster:
        elevation = raster.read(1)
        rows, columns = np.indices(elevation.shape).reshape(2, -1)
        centres = geopandas.GeoSeries.from_xy(
            *rasterio.transform.xy(raster.transform, rows, columns)
        )
        clear = centres.distance(outline.boundary) > 0.01
        known = np.isfinite(elevation.ravel())
        np.testing.assert_array_equal(known[clear], centres.within(outline)[clear])
        places = list(zip(soundings.geometry.x, soundings.geometry.y, strict=True))
        found = np.array([values[0] for values in raster.sample(places)])
    assert np.nanmedian(np.abs(found - soundings.z)) < 0.3


def test_crossings_lie_on_the_two_tracks_that_they_name(folder):
    soundings, crossings = points(folder / "samples.csv"), points(folder / "crossings.csv")
    tracks = {
        name: shapely.LineString(line.geometry.tolist()) for name, line in soundings.groupby("line")
    }
    assert len(tracks) == 12 and len(crossings) >= 30
    for end in ("line", "other"):
        track = geopandas.GeoSeries([tracks[name] for name in crossings[end]])
        assert (crossings.distance(track) < 1.5).all()
