"""Small sweeps: complete, continued, unaffected by failures; errors."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("distributed", reason="sweeps run on dask.distributed")
pytest.importorskip("matplotlib", reason="the report at the end has figures")

from distributed import LocalCluster

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError, PoamError
from poam_ros.outputs.folder import RUN_COLUMNS, read_map
from poam_ros.research.configuration import load_environments, read_sweep
from poam_ros.research.sweep import SweepFolder, TaskResult, locked, run_sweep
from poam_ros.simulation.terrain import load_terrain

ROOT = Path(__file__).parents[2]
SMALL = {
    "environments": {"sea": "seamounts"},
    "methods": ["poam", "ovc++"],
    "seeds": [0],
    "max_samples": 120,
    "resolution": 2.0,
    "model": {"sparse.num_inducing": 25, "sparse.steps": 1, "sparse.noise_variance": "1e-1"},
}
#: A sonar that reaches the ground of one terrain, but nothing of a much deeper one.
DEEP = {
    "environments": {
        "sea": "seamounts",
        "deep": {"terrain": "seamounts", "elevation_range": [-1e6, 0]},
    },
    "sonar": {"max_range": 300},
}


def write_sweep(folder: Path, **changes) -> Path:
    path = folder / "sweep-of-test.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **changes}))
    return path


def rows_of(folder: Path) -> list[dict]:
    with (folder / "runs.csv").open() as file:
        return list(csv.DictReader(file))


def state_of(folder: Path) -> dict:
    """Values that would change if a run were repeated."""
    return {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in folder.glob("runs/*/*/*/*/*")}


@pytest.fixture(scope="module")
def scheduler():
    """A cluster as `--scheduler` wants it, its workers threads of this process."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp",
        dashboard_address="127.0.0.1:0", silence_logs=50,
    ) as cluster:  # fmt: skip
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def swept(tmp_path_factory, scheduler):
    """The folder of a small sweep that is finished."""
    folder = tmp_path_factory.mktemp("swept")
    assert not run_sweep(read_sweep(write_sweep(folder)), folder, scheduler=scheduler).failed
    return folder


def test_every_run_is_complete(swept):
    rows = rows_of(swept)
    assert tuple(rows[0]) == RUN_COLUMNS
    assert [row["method"] for row in rows] == ["poam", "ovc++"]
    for row in rows:
        assert row["folder"] == f"runs/sea/{row['method']}/bezier-max-entropy/seed-0"
        assert (row["kernel"], row["samples"]) == ("attentive", "120")
        assert float(row["wall_s"]) > 0
        names = {path.name for path in (swept / row["folder"]).iterdir()}
        assert names == {
            "epochs.csv", "samples.csv", "refused.csv", "map.npz", "truth.npz", "config.yaml",
            "run.csv",
        }  # fmt: skip
    assert not list(swept.glob("runs/*/*/*/.*"))


def test_finished_runs_are_kept_and_new_ones_added(swept, scheduler, tmp_path):
    before = state_of(swept)
    settings = read_sweep(write_sweep(tmp_path, methods=["poam"], seeds=[0, 2]))
    status = run_sweep(settings, swept, scheduler=scheduler)
    assert (status.total, status.finished) == (2, 2)
    after = state_of(swept)
    assert {path: after[path] for path in before} == before
    assert {path.parent.name for path in after.keys() - before.keys()} == {"seed-2"}
    assert [(row["method"], row["seed"]) for row in rows_of(swept)] == [
        ("poam", "0"), ("poam", "2"), ("ovc++", "0"),
    ]  # fmt: skip


def test_half_written_runs_do_not_count(swept, scheduler):
    finished = swept / "runs/sea/poam/bezier-max-entropy/seed-0"
    finished.rename(finished.with_name(".seed-0.99"))  # as a kill would leave it
    (swept / "runs.csv").unlink()
    status = run_sweep(read_sweep(swept / "sweep-of-test.yaml"), swept, scheduler=scheduler)
    assert status.finished == 2 and finished.is_dir()
    assert not list(swept.glob("runs/*/*/*/.*"))
    assert {"poam", "ovc++"} == {row["method"] for row in rows_of(swept)}


def test_results_do_not_depend_on_the_worker(swept, scheduler, tmp_path):
    settings = read_sweep(write_sweep(tmp_path, methods=["ovc++"]))
    run_sweep(settings, tmp_path, scheduler=scheduler)
    one, two = (f / "runs/sea/ovc++/bezier-max-entropy/seed-0" for f in (swept, tmp_path))
    assert (one / "samples.csv").read_text() == (two / "samples.csv").read_text()
    np.testing.assert_array_equal(*(read_map(run / "map.npz").mean for run in (one, two)))


@pytest.mark.slow
def test_a_failing_run_is_reported_and_the_others_continue(tmp_path, scheduler, capsys):
    config = write_sweep(tmp_path, **DEEP, methods=["poam"])
    arguments = ["benchmark", str(config), "--output", str(tmp_path), "--scheduler", scheduler]
    assert main(arguments) == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and errors[0].startswith("FAILED deep poam")
    (failure,) = (tmp_path / "failures").iterdir()
    assert str(failure) in errors[0]
    assert failure.read_text().startswith("Traceback") and "InputError" in failure.read_text()
    assert [row["environment"] for row in rows_of(tmp_path)] == ["sea"]
    with (tmp_path / "report" / "averages.csv").open(newline="") as file:
        assert {row["environment"] for row in csv.DictReader(file)} == {"sea"}


@pytest.mark.slow
def test_an_interrupted_sweep_continues(tmp_path, scheduler, monkeypatch, capsys):
    config = write_sweep(tmp_path, methods=["poam"], seeds=[0, 1, 2, 3])

    def interrupt(status, run):
        if run is not None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # As Ctrl-C would, after the first run.
        patch.setattr("poam_ros.app.commands.benchmark._tell", lambda _, *ended: interrupt(*ended))
        arguments = ["--output", str(tmp_path), "--scheduler", scheduler]
        assert main(["benchmark", str(config), *arguments]) == 130
    assert "the same command continues" in capsys.readouterr().err
    done = {row["seed"] for row in rows_of(tmp_path)}
    assert 0 < len(done) < 4  # the other worker may have ended a run at the same time
    before = state_of(tmp_path)
    seen = []
    run_sweep(
        read_sweep(config), tmp_path, scheduler=scheduler, on_run=lambda _, run: seen.append(run)
    )
    assert {str(run.mission.seed) for run in seen[1:]} == {"0", "1", "2", "3"} - done
    assert {path: state_of(tmp_path)[path] for path in before} == before


@pytest.mark.slow
def test_workers_of_this_machine_and_another_configuration_in_the_folder(tmp_path):
    """The whole command in its own process, which starts the workers."""
    config = write_sweep(tmp_path, methods=["poam"])
    command = [sys.executable, "-m", "poam_ros.app.cli", "benchmark", str(config), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "out")], capture_output=True, text=True,
        env=environment, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0 and "1/1 runs done" in done.stdout
    assert "distributed" not in done.stderr and "Traceback" not in done.stderr
    write_sweep(tmp_path, model={**SMALL["model"], "sparse.num_inducing": 26})
    with pytest.raises(InputError, match=r"sparse.num_inducing: .* have 25, the configuration 26"):
        run_sweep(read_sweep(config), tmp_path / "out")


def test_terrains_are_looked_for_in_a_folder(tmp_path, scheduler):
    terrains = tmp_path / "there"
    terrains.mkdir()
    np.savez(terrains / "n17e073.npz", elevation=np.arange(16.0).reshape(4, 4))
    config = write_sweep(tmp_path, environments={"ghats": "N17E073"}, methods=["poam"])
    run_sweep(read_sweep(config), tmp_path, scheduler=scheduler, terrains=terrains)
    assert [row["environment"] for row in rows_of(tmp_path)] == ["ghats"]
    sweep = yaml.safe_load((tmp_path / "sweep.yaml").read_text())
    assert sweep["environments"]["ghats"]["shape"] == [4, 4]


@pytest.fixture
def kept(tmp_path):
    """The folder of a sweep with one run of two finished, and the run that is not."""
    settings = read_sweep(write_sweep(tmp_path))
    sweep_folder = SweepFolder(tmp_path / "out", settings, {"sea": load_terrain("seamounts")})
    done, other = settings.runs()
    sweep_folder.add(done, TaskResult({"epochs.csv": b"samples"}, 250, 1.5))
    return sweep_folder, done, other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_samples": 121}, "max_samples: the runs in this folder have 120, "),
        (
            {"model": {**SMALL["model"], "sparse.steps": 2}},
            r"model.sparse.steps: .* have 1, the configuration 2",
        ),
        ({"model": {}}, r"model.sparse.[a-z_]+: .* the configuration None"),
        ({"sonar": {"rate": 5.0}}, r"sonar.rate: .* have 3.0, the configuration 5.0"),
        (
            {"environments": {"sea": {"terrain": "seamounts", "elevation_range": [0, 9]}}},
            "environments.sea: ",
        ),
    ],
)
def test_a_folder_with_other_settings_is_refused(kept, change, message, tmp_path):
    sweep_folder, *_ = kept
    settings = read_sweep(write_sweep(tmp_path, **change))
    with pytest.raises(InputError, match=message):
        SweepFolder(sweep_folder.folder, settings, load_environments(settings))


@pytest.mark.parametrize("count", [0, 2])
def test_a_broken_row_of_a_run_is_named(kept, count, capsys):
    sweep_folder, done, _ = kept
    path = sweep_folder.folder / done.folder / "run.csv"
    header, row = path.read_text().splitlines()
    path.write_text("\n".join([header, *[row] * count, ""]))
    config = sweep_folder.folder.parent / "sweep-of-test.yaml"
    assert main(["benchmark", str(config), "--output", str(sweep_folder.folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"poam benchmark: {path}: expected one row") and error.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
def test_a_full_disk_gives_one_line_and_its_space_back(kept):
    sweep_folder, done, other = kept
    result = TaskResult({"epochs.csv": b"samples", "/dev/full": b"no room for this"}, 250, 1.5)
    with pytest.raises(PoamError, match=r"seed-0: cannot be written \(No space left") as caught:
        sweep_folder.add(other, result)
    assert not isinstance(caught.value, InputError) and "\n" not in str(caught.value)
    assert [row["folder"] for row in rows_of(sweep_folder.folder)] == [done.folder]
    assert not list((sweep_folder.folder / "runs").rglob(".*")), "a part of a run is left"


def test_one_writer_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="another benchmark"):
        run_sweep(read_sweep(write_sweep(tmp_path)), tmp_path)
    assert not (tmp_path / "sweep.yaml").exists()
