"""Commands on a full disk: one line, no half file, and what was there before stays.

A limit on the size of files stands in for it: writing fails in the middle, as there.
"""

from __future__ import annotations

import resource
from contextlib import contextmanager

import numpy as np
import pytest
from soundings import write_survey

from poam_ros.app.cli import main
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import folder as files
from poam_ros.outputs.exports.formats import FORMATS

QUICK = ["--batch.first", "100", "--nngp.first-steps", "40", "--nngp.hidden", "8"]
NEEDED = {
    ".tif": "rasterio", ".bag": "rasterio", ".png": "matplotlib", ".html": "bokeh",
    ".gpkg": "pyogrio",
}  # fmt: skip


@contextmanager
def full_disk(size):
    """No file can grow beyond ``size`` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def line_of(command, size, capsys):
    """What a command that finds the disk full says."""
    capsys.readouterr()
    with full_disk(size):
        assert main(command) in (1, 2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    grid = Grid.cells(Extent(0, 30, 0, 20), 1.0)
    mean = (-8.0 + 0.3 * grid.points[:, 0] - 0.1 * grid.points[:, 1]).reshape(grid.shape)
    files.write_map(folder / "map.npz", ElevationMap(grid, mean, np.full_like(mean, 0.04)))
    files.write_samples(folder / "samples.csv", grid.points[::7], mean.ravel()[::7])
    files.write_config(folder / "config.yaml", {"seed": 1})
    return folder


@pytest.mark.parametrize("ending", FORMATS)
def test_an_export_keeps_the_file_before(run, tmp_path, capsys, ending):
    if ending in NEEDED:
        pytest.importorskip(NEEDED[ending])
    place = ["--origin", "47", "8"] if FORMATS[ending].origin == "needed" else []
    path = tmp_path / f"lake{ending}"
    path.write_text("before")
    said = line_of(["export", str(run), "--to", str(path), *place], 100, capsys)
    assert "lake" in said and ("File too large" in said or "disk I/O error" in said)
    assert content(tmp_path) == {path.name: b"before"}


@pytest.mark.parametrize("ending", [".plan", ".waypoints", ".kml", ".gpx"])
def test_waypoints_keep_the_file_before(tmp_path, capsys, ending):
    path = tmp_path / f"lake{ending}"
    path.write_text("before")
    area = ["--workspace", "0 100 0 60", "--origin", "47 8"]
    assert f"cannot write {path}" in line_of(["waypoints", str(path), *area], 100, capsys)
    assert content(tmp_path) == {path.name: b"before"}


@pytest.mark.usefixtures("no_figures")
def test_a_map_leaves_whole_files(tmp_path, capsys):
    log, whole, out = write_survey(tmp_path / "log.csv"), tmp_path / "whole", tmp_path / "out"
    command = ["map", str(log), "--resolution", "2", *QUICK, "--output"]
    assert main([*command, str(whole)]) == 0
    full = content(whole)
    said = line_of([*command, str(out)], len(full["map.npz"]) - 1, capsys)
    assert said == f"poam map: {out / 'map.npz'}: File too large\n"
    part = content(out)
    assert "samples.csv" in part and part.items() < full.items()
