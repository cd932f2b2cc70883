"""Commands on a full disk: one line, no half file, and what was there before stays.

A limit on the size of files stands in for it: writing fails in the middle, as there.
"""

from __future__ import annotations

import resource
from contextlib import contextmanager

import pytest
from soundings import write_survey
from view_folders import write_slope

from poam_ros.app.cli import main
from poam_ros.outputs.exports.formats import FORMATS

QUICK = ["--batch.first", "100", "--nngp.first-steps", "40", "--nngp.hidden", "8"]
NEEDED = {
    ".tif": "rasterio", ".bag": "rasterio", ".png": "matplotlib", ".html": "bokeh",
    ".gpkg": "pyogrio",
}  # fmt: skip


SIZE = 20_000  # bytes: more than the table of soundings, less than the map


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
    return write_slope(tmp_path_factory.mktemp("run"))


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
    log, out = write_survey(tmp_path / "log.csv"), tmp_path / "out"
    command = ["map", str(log), "--resolution", "1", *QUICK, "--output", str(out)]
    assert line_of(command, SIZE, capsys) == f"poam map: {out / 'map.npz'}: File too large\n"
    part = content(out)
    assert len(part["samples.csv"].splitlines()) == 241 and "map.npz" not in part
    assert all(len(kept) < SIZE for kept in part.values())
