"""Commands on a full disk: one line, no half file, and what was there before stays.

A limit on the size of files stands in for it: writing fails in the middle, as there. ``make soak``
does the same, and whole missions, on a real one.
"""

import resource
import shlex
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest
from disks import LARGE, mounted
from soundings import write_survey
from view_folders import write_slope

from poam_ros.app.cli import main
from poam_ros.outputs.exports import FORMATS
from poam_ros.outputs.folder import read_table

QUICK = ["--set", "batch.first=100", "--set", "nngp.first_steps=40", "--set", "nngp.hidden=8"]
NEEDED = {
    ".tif": "rasterio", ".bag": "rasterio", ".png": "matplotlib", ".html": "bokeh",
    ".gpkg": "pyogrio",
}  # fmt: skip


LIMIT = 300.0  # s, for a process to end
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
        assert main(command) == 1
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


def test_waypoints_keep_the_file_before(tmp_path, capsys):
    path = tmp_path / "lake.plan"
    path.write_text("before")
    area = ["--workspace", "0", "100", "0", "60", "--origin", "47", "8"]
    assert f"{path}: File too large" in line_of(["waypoints", str(path), *area], 100, capsys)
    assert content(tmp_path) == {path.name: b"before"}


@pytest.mark.usefixtures("no_figures")
def test_a_map_leaves_whole_files(tmp_path, capsys):
    log, out = write_survey(tmp_path / "log.csv"), tmp_path / "out"
    command = ["map", str(log), "--resolution", "1", *QUICK, "--output", str(out)]
    assert line_of(command, SIZE, capsys) == f"poam map: {out / 'map.npz'}: File too large\n"
    part = content(out)
    assert len(part["samples.csv"].splitlines()) == 241 and "map.npz" not in part
    assert all(len(kept) < SIZE for kept in part.values())


# --- A real one, by ``make soak`` ---

ORIGIN = ["--origin", "47", "8"]
#: Commands by name; DISK stands for the folder of the disk, A and B for maps elsewhere.
COMMANDS = {
    "map": f"map LOG --resolution 1 {' '.join(QUICK)} --folds 2 --by line --output DISK/out",
    "run": "run --method nngp --set nngp.hidden=8 --set nngp.first_steps=20 --max-samples 400 "
           "--resolution 2 --output DISK/out",
    "diff": "diff A B --output DISK/out",
    "section": "export A --to DISK/section.csv --section 2 2 40 30",
    "waypoints": "waypoints DISK/lake.plan --workspace 0 100 0 60 --origin 47 8",
    **{f"export{ending}": f"export A --to DISK/map{ending}" for ending in FORMATS},
}  # fmt: skip
SHARES = (0.0, 0.3, 0.6, 0.95)  # of what a command writes that is free
#: Holds how long something took.
VARIES = "epochs.csv"


def sizes(folder):
    """Of all files; their content may hold the time."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.stat().st_size for path in files}


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Where the log and two maps of it are."""
    folder = tmp_path_factory.mktemp("maps")
    log = write_survey(folder / "log.csv", echoes=4)
    for name in "AB":
        command = ["map", str(log), "--resolution", "1", *QUICK, "--output", str(folder / name)]
        assert main(command) == 0
    return folder


@pytest.mark.soak
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_on_a_real_full_disk(maps, tmp_path, capsys, name):
    ending = name.removeprefix("export")
    if ending in NEEDED:
        pytest.importorskip(NEEDED[ending])
    with mounted(tmp_path / "disk") as disk:
        places = {"LOG": maps / "log.csv", "A": maps / "A", "B": maps / "B"}
        words = shlex.split(COMMANDS[name].replace("DISK", str(disk.path)))
        command = [str(places.get(word, word)) for word in words]
        if ending in FORMATS and FORMATS[ending].origin == "needed":
            command += ORIGIN
        assert main(command) == 0
        whole, size = sizes(disk.path), shutil.disk_usage(disk.path).used
        for share in SHARES:
            for path in disk.path.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            disk.resize(int(share * size))
            if not share:
                disk.fill()
            capsys.readouterr()
            assert main(command) == 1, (name, share)
            said = capsys.readouterr().err.splitlines()
            assert len(said) == 1 and str(disk.path) in said[0], said
            assert "No space left on device" in said[0] or "disk I/O error" in said[0], said
            disk.free()
            left = sizes(disk.path)
            assert left.keys() < whole.keys(), "something else is left behind"
            cut = [path for path in left if left[path] != whole[path] and path.name != VARIES]
            assert not cut, (name, share)
            disk.resize(LARGE)
        assert main(command) == 0
        assert sizes(disk.path).keys() == whole.keys()
    print(f"{name}: {len(whole)} files, {size / 1024:.0f} kB")


@pytest.mark.soak
@pytest.mark.parametrize("end", ["full", "free", "without inodes"])
def test_a_mission_of_poam_drive_on_a_disk_that_fills_up(
    tmp_path, python, ros_env, eventually, capsys, end
):
    pytest.importorskip("pymavlink")
    words = (
        "--practice 20 --autostart --pilot diagonal --max-samples 100000 --set nngp.hidden=8 "
        "--set nngp.lattice=8 --set nngp.first_steps=40 --set watchdog.odometry_timeout=0 "
        "--set watchdog.sonar_timeout=0 --mission-dir"
    )
    with mounted(tmp_path / "disk") as disk:
        folder, log = disk.path / "m", tmp_path / "said.txt"
        command = [python, "-m", "poam_ros.app.cli", "drive", *words.split(), str(folder)]
        with log.open("w") as file:
            process = subprocess.Popen(
                command, env=ros_env, stdin=subprocess.PIPE, stdout=file, stderr=file
            )
        journal = folder / "pings.journal"

        def steps():
            assert process.poll() is None, log.read_text()[-2000:]
            return journal.read_bytes().count(b'"updates"') if journal.exists() else 0

        def goes_on():
            before = steps()
            eventually(lambda: steps() > before + 2)

        goes_on()
        if end == "without inodes":
            disk.use_up_inodes()
            goes_on()  # files that exist can grow
        for _ in range(0 if end == "without inodes" else 3):
            disk.fill()
            eventually(lambda: "No space left" in log.read_text())
            time.sleep(6.0)  # of a mission that goes on; it tries again every 5 s
            assert journal.read_bytes().endswith(b"\n"), "a part of a transaction is left"
            disk.free()
            goes_on()
        if end == "full":
            disk.fill()
            time.sleep(3.0)
        process.communicate(b"q\n", timeout=LIMIT)
        said = log.read_text()
        assert process.returncode == (end != "free"), said
        lacking = [line for line in said.splitlines() if "the journal lacks" in line]
        assert len(lacking) == (end == "full") and "Traceback" not in said
        disk.free()
        capsys.readouterr()
        assert main(["repair", str(folder)]) == 0
        assert "nothing is damaged" in capsys.readouterr().out
        assert main(["map", str(folder), "--output", str(tmp_path / "again")]) == 0
        assert not list(disk.path.rglob(".*")), "temporary files are left"
        print(f"{end}: {len(read_table(tmp_path / 'again' / 'samples.csv')['z'])} pings")


@pytest.mark.soak
@pytest.mark.parametrize("lacking", ["space", "inodes"])
def test_poam_sim_on_a_disk_that_fills_up(tmp_path, python, ros_env, eventually, lacking):
    pytest.importorskip("rclpy")
    words = "--method nngp --speed 20 --max-samples 200 --pilot diagonal --terrain jacksboro"
    with mounted(tmp_path / "disk") as disk:
        run, said = disk.path / "run", tmp_path / "said.txt"
        command = [python, "-m", "poam_ros.app.cli", "sim", *words.split(), "--output", str(run)]
        with said.open("w") as file:
            process = subprocess.Popen(command, env=ros_env, stdout=file, stderr=file)
        mapper = run / "log" / "mapper.log"
        eventually(lambda: mapper.exists() and "mapping with" in mapper.read_text())
        disk.fill() if lacking == "space" else disk.use_up_inodes()
        assert process.wait(LIMIT) == 1
        text = said.read_text()
        assert "mapper: [ERROR]" in text and "No space left on device" in text, text
        assert "Traceback" not in text
        assert not list(run.rglob(".*")), "temporary files are left"
