"""The soundings of a map for other programs, in degrees, and read back."""

import csv

import numpy as np
import pytest

from poam_ros.app.cli import main
from poam_ros.core.geodesy import GeoReference
from poam_ros.importers.readers import read_soundings


def ground(xy):
    """That of the run's soundings."""
    return -12.0 + 0.2 * xy[:, 0] - 0.3 * xy[:, 1]


ORIGIN = ("--origin", "47.3", "8.55")


def exported(run, name, *options):
    to = run.parent / name
    assert main(["export", str(run), "--soundings", "--to", str(to), *options]) == 0
    return to


def test_a_table_in_degrees_is_what_poam_map_reads(run, pings):
    pytest.importorskip("pyproj")
    path = exported(run, "soundings.csv", *ORIGIN, "--depth", "--water-level", "1.5")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["longitude", "latitude", "depth"] and len(rows) == 5  # those in the map
    there = GeoReference(47.3, 8.55).degrees(pings[:5])
    np.testing.assert_allclose([float(r["longitude"]) for r in rows], there[:, 0], atol=1e-7)
    found = read_soundings(path)
    np.testing.assert_allclose(-found.z, 1.5 - ground(pings[:5]), atol=1e-3)
    np.testing.assert_allclose(np.ptp(found.xy, axis=0), np.ptp(pings[:5], axis=0), atol=0.02)


def test_without_an_origin_they_are_in_the_maps_metres(run, pings):
    lines = exported(run, "soundings.xyz").read_text().split("\n")
    found = np.array([[float(each) for each in line.split()] for line in lines if line])
    np.testing.assert_allclose(found, np.column_stack((pings[:5], ground(pings[:5]))), atol=1e-3)


def test_points_of_a_geopackage_have_a_coordinate_system(run, pings):
    pyogrio = pytest.importorskip("pyogrio")
    path = exported(run, "soundings.gpkg", *ORIGIN, "--utm")
    meta = pyogrio.read_info(path)
    assert meta["crs"] == "EPSG:32632" and meta["features"] == 5
    found = read_soundings(path)
    np.testing.assert_allclose(found.z, ground(pings[:5]), atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "a.tif"), "expected a file that ends with .csv, .gpkg, .xyz"),
        (("--to", "a.csv", "--units", "ft"), "--units: does not apply to --soundings"),
    ],
)
def test_what_does_not_apply_is_refused(options, words, run, capsys):
    assert main(["export", str(run), "--soundings", *options]) != 0
    assert words in capsys.readouterr().err
