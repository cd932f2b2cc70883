"""A small mission on real elevation, whole: deterministic, complete, and it learns."""

import csv

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the built-in real terrain comes with matplotlib")

from poam_ros.cli import main
from poam_ros.errors import InputError
from poam_ros.experiments.figures import draw_run
from poam_ros.experiments.mission import EPOCH_COLUMNS, MissionSettings, run_mission
from poam_ros.experiments.results import read_map, read_table
from poam_ros.mapping import ModelSettings
from poam_ros.world.terrain import load_terrain

SMALL = ModelSettings(num_inducing=120, steps=5, minibatch=64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run_mission(load_terrain("jacksboro"), MissionSettings(max_samples=800, model=SMALL), folder)
    return folder


def test_leaves_everything_that_was_promised(folder):
    with (folder / "epochs.csv").open() as file:
        assert tuple(next(csv.reader(file))) == EPOCH_COLUMNS
    epochs, samples = read_table(folder / "epochs.csv"), read_table(folder / "samples.csv")
    assert epochs["samples"][-1] == len(samples["z"]) == 800
    assert np.all(np.diff(epochs["samples"]) > 0) and np.all(np.diff(epochs["time_s"]) > 0)
    # A true 3 Hz: 800 pings take 800 / 3 s, to within a control period.
    assert abs(epochs["time_s"][-1] - 800 / 3) <= 0.1
    assert np.abs(np.column_stack((samples["x"], samples["y"]))).max() <= 31
    snapshot = read_map(folder / "map.npz")
    assert snapshot.mean.shape == (120, 120) and np.all(snapshot.variance > 0)
    assert (folder / "config.yaml").exists()


def test_learns_the_terrain(folder):
    epochs = read_table(folder / "epochs.csv")
    assert epochs["smse"][-1] < 0.96 * epochs["smse"][0] < 0.6
    assert epochs["msll"][-1] < epochs["msll"][0] - 0.05


def test_draws_its_figures_from_the_files_alone(folder):
    for path in draw_run(folder):
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 30_000


def test_same_seed_same_epochs_but_for_times(folder, tmp_path):
    settings = MissionSettings(max_samples=800, model=SMALL)
    run_mission(load_terrain("jacksboro"), settings, tmp_path)
    first, second = read_table(folder / "epochs.csv"), read_table(tmp_path / "epochs.csv")
    for column in set(EPOCH_COLUMNS) - {"update_s", "predict_s"}:
        np.testing.assert_array_equal(first[column], second[column])
    assert (folder / "samples.csv").read_text() == (tmp_path / "samples.csv").read_text()


def test_another_seed_another_mission(folder, tmp_path):
    settings = MissionSettings(max_samples=650, model=SMALL, seed=1)
    run_mission(load_terrain("jacksboro"), settings, tmp_path)
    first, second = read_table(folder / "samples.csv"), read_table(tmp_path / "samples.csv")
    assert not np.array_equal(first["z"][:600], second["z"][:600])


def test_a_budget_below_the_pilot_survey_still_makes_a_map(tmp_path):
    records = run_mission(
        load_terrain("seamounts"), MissionSettings(max_samples=50, model=SMALL), tmp_path
    )
    assert [r.samples for r in records] == [50]
    assert (tmp_path / "map.npz").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("planner", "best"), ("pilot", "spiral"), ("max_samples", 0)]
)
def test_settings_are_checked(option, value):
    with pytest.raises(InputError, match=f"{option}: expected"):
        MissionSettings(**{option: value})


def test_the_command_runs_it(tmp_path, capsys):
    options = ["--terrain", "seamounts", "--max-samples", "60", "--num-inducing", "30"]
    assert main(["run", *options, "--output", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "60 samples" in out and str(tmp_path / "a" / "maps.png") in out
    assert (tmp_path / "a" / "metrics.png").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "magic"], "method: expected one of poam"),
        (["--terrain", "atlantis"], "atlantis"),
        (["--planner", "best"], "planner: expected one of max-entropy"),
        (["--pilot", "spiral"], "pilot: expected one of bezier"),
        (["--seed", "-1"], "seed: expected"),
        (["--max-samples", "0"], "max_samples: expected"),
        (["--sonar-rate", "0"], "rate"),
        (["--num-inducing", "0"], "num_inducing: expected"),
        (["--resolution", "-1"], "resolution: expected"),
        (["--device", "abacus"], "device: expected"),
        (["--elevation-range", "5", "5"], "elevation_range"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(options, words, tmp_path, capsys):
    given = ["run", "--max-samples", "30", "--output", str(tmp_path), *options]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "COMMAND"), (["fly"], "invalid choice: 'fly'"), (["run", "--seed", "x"], "--seed")],
)
def test_wrong_words_are_one_line_and_status_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2 and words in error and error.count("\n") == 1
