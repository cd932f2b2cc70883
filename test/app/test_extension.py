"""The package of docs/extend.md: installed, then flown, benchmarked and read with."""

import os
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.importers.readers import READERS, read_soundings
from poam_ros.models.registry import MODELS
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.planning.planners import PLANNERS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "poam_extension"
#: A mission whose planner chooses some goals after the shortest pilot survey.
SHORT = ("--pilot", "diagonal", "--sonar-rate", "0.5", "--max-samples", "60")
OBJECTS = {"planner": "poam_extension.planner:NEAR", "method": "poam_extension.model:WEIGHTED"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that pip has installed the package into."""
    if not (find_spec("pip") and find_spec("setuptools")):
        pytest.skip("needs pip and setuptools")
    work = tmp_path_factory.mktemp("extension")
    source = work / "source"
    for path in (PACKAGE / "pyproject.toml", *sorted((PACKAGE / "poam_extension").glob("*.py"))):
        copy = source / path.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target"]
    command = [sys.executable, "-m", "pip", "install", *options, str(work / "there"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=work, check=False)
    assert done.returncode == 0, done.stderr
    return work / "there"


@pytest.fixture
def extension(installed, monkeypatch):
    """The package on the path of this process and of those that it starts."""
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(installed), before))))
    monkeypatch.syspath_prepend(str(installed))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "poam_extension"]:
        del sys.modules[name]
    for table in (PLANNERS, MODELS, READERS):
        table._found.clear()


def test_the_docs_show_the_package_as_it_is():
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    planner = (PACKAGE / "poam_extension" / "planner.py").read_text(encoding="utf-8")
    assert f"\n{planner}```\n" in page


def test_entry_points_are_found(extension):
    assert "near" in PLANNERS.others and "weighted" in MODELS.others and "slog" in READERS.others
    assert PLANNERS["near"] == PLANNERS[OBJECTS["planner"]]


def test_a_mission_is_flown(extension, tmp_path):
    words = [*SHORT, "--set", "near.reach=40", "--set", "weighted.power=3"]
    for option, name in OBJECTS.items():
        words += [f"--{option}", name]
    assert main(["run", *words, "--output", str(tmp_path)]) == 0
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert config["planner"] == OBJECTS["planner"] and config["method"] == OBJECTS["method"]
    assert config["near"]["reach"] == 40 and config["weighted"]["power"] == 3
    assert np.isfinite(read_map(tmp_path / "map.npz").mean).all()


@pytest.mark.slow
def test_a_sweep_is_made(extension, tmp_path):
    pytest.importorskip("distributed")
    sweep = {"environments": {"seamounts": "seamounts"}, "methods": ["weighted", OBJECTS["method"]],
             "seeds": [0], "max_samples": 60, "planners": ["near"], "pilots": ["diagonal"],
             "sonar": {"rate": 0.5}, "planning": {"near": {"reach": 40.0}}}  # fmt: skip
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    given = [str(tmp_path / "sweep.yaml"), "--output", str(tmp_path / "out"), "--workers", "1"]
    assert main(["benchmark", *given]) == 0
    epochs = [read_table(path) for path in (tmp_path / "out").rglob("epochs.csv")]
    assert len(epochs) == 2
    np.testing.assert_array_equal(epochs[0]["rmse"], epochs[1]["rmse"])


@pytest.mark.ros
@pytest.mark.slow
def test_the_nodes_fly_it(extension, tmp_path, ros_env):
    pytest.importorskip("rclpy")
    names = {"planner": "near", "method": OBJECTS["method"]}
    command = [sys.executable, "-m", "poam_ros.app.cli", "sim", "--speed", "30", *SHORT]
    for option, name in names.items():
        command += [f"--{option}", name]
    command += ["--output", str(tmp_path / "run")]
    done = subprocess.run(
        command, env=ros_env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert read_map(tmp_path / "run" / "map.npz").samples >= 60
    assert "exploring at" in (tmp_path / "run" / "log" / "planner.log").read_text()
    nodes = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["nodes"]
    assert nodes["planner"]["planner"] == names["planner"]
    assert nodes["mapper"]["method"] == names["method"]


@pytest.fixture
def slog(tmp_path):
    """A file that the package's reader reads."""
    from poam_extension.reader import MAGIC, RECORD

    i = np.arange(50)
    found = np.zeros(50, RECORD)
    found["time"], found["depth"] = 1.7e9 + i, 4 + np.sin(i / 7)
    found["latitude"], found["longitude"] = 53.1 + 1e-5 * i, 8.6 + 2e-5 * np.cos(i / 3)
    path = tmp_path / "lake.slog"
    path.write_bytes(MAGIC + found.tobytes()[:-5])  # the last record is torn
    return path


@pytest.fixture
def lowrance(tmp_path):
    """An .sl2 of 40 frames of the primary sonar, each with one of another channel."""
    library = pytest.importorskip("sonarlight.sonar_class")
    earth, data = 6_356_752.3142, struct.pack("<HHHH", 2, 0, 3200, 0)
    for i in range(80):
        latitude, longitude = np.radians(53.1 + 1e-4 * i), np.radians(8.6 + 2e-4 * np.cos(i / 3))
        frame = np.zeros(1, library.sl2_frame_dtype)
        for name, value in {
            "survey_type": i % 2, "water_depth": (4 + i / 20) / 0.3048, "seconds": 500 * i,
            "x": earth * longitude, "y": earth * np.log(np.tan(np.pi / 4 + latitude / 2)),
            "packet_size": 5, "frame_size": frame.nbytes + 5, "hardware_time": 1_700_000_000,
            "first_byte": len(data), "max_range": 60.0, "id": i,
        }.items():  # fmt: skip
            frame[name] = value
        data += frame.tobytes() + b"water"
    path = tmp_path / "lake.sl2"
    path.write_bytes(data)
    return path


def test_its_reader_of_lowrance_reads(extension, lowrance):
    for reader in ("", "lowrance"):
        found = read_soundings(lowrance, reader=reader)
        np.testing.assert_allclose(-found.z, 4 + np.arange(0, 80, 2) / 20, atol=1e-5)
        assert found.projection.latitude == pytest.approx(53.1039, abs=1e-3)
        assert found.projection.longitude == pytest.approx(8.6, abs=1e-3)
        assert (np.diff(found.stamp_ns) == 10**9).all()
    lowrance.write_bytes(b"x" * 500)
    with pytest.raises(InputError, match="no file of Lowrance"):
        read_soundings(lowrance)


def test_its_reader_reads(extension, slog, tmp_path, capsys):
    for reader in ("", "slog", "poam_extension.reader:SLOG", "poam_extension.reader:read"):
        found = read_soundings(slog, reader=reader)
        assert len(found) == 49 and found.stamp_ns[1] == 1_700_000_001_000_000_000
        np.testing.assert_allclose(-found.z, 4 + np.sin(np.arange(49) / 7), atol=1e-6)
    small = ["--set", "nngp.first_steps=20", "--set", "nngp.hidden=8"]
    assert main(["map", str(slog), "--output", str(tmp_path / "out"), *small]) == 0
    assert "lake.slog: latitude, longitude, depth (m) of SLOG, time UTC; 49 records" in (
        capsys.readouterr().out
    )
    with pytest.raises(InputError, match="expected soundings, got none"):
        slog.write_bytes(b"SLOG")
        read_soundings(slog)
