"""Configurations of sweeps: the shipped ones, and errors with their place."""

from dataclasses import dataclass

import pytest
import yaml

pytest.importorskip("matplotlib", reason="a built-in terrain comes with matplotlib")

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.settings import setting
from poam_ros.models.registry import MODELS, ModelEntry, ModelSettings, SparseOptions
from poam_ros.research.configuration import SHIPPED, find_sweep, read_sweep

GOOD = {"environments": {"sea": "seamounts"}, "methods": ["poam"]}


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("paper", 160), ("ablation", 240), ("robustness", 400), ("results", 60), ("planners", 160),
        ("smoke", 8),
    ],
)  # fmt: skip
def test_shipped_configurations(name, runs):
    sweep = read_sweep(find_sweep(name))
    assert len({run.folder for run in sweep.runs()}) == runs
    missions = [run.mission for run in sweep.runs()]
    assert {mission.resolution for mission in missions} == {0.5}
    if name != "smoke":
        assert {mission.max_samples for mission in missions} == {5000}
        assert len(sweep.environments) == (2 if name == "results" else 4)
    if name not in ("smoke", "planners"):
        assert all(e.preparation == "paper" for e in sweep.environments.values())


def test_help_and_errors_name_the_shipped_sweeps(capsys):
    folder = find_sweep("smoke").parent
    contents = {path.stem: yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")}
    sweeps = {name for name, content in contents.items() if "environments" in content}
    assert sweeps == set(SHIPPED) and all(read_sweep(find_sweep(name)).runs() for name in sweeps)
    with pytest.raises(SystemExit):
        main(["benchmark", "--help"])
    assert f"the name of a shipped one ({', '.join(SHIPPED)})" in " ".join(
        capsys.readouterr().out.split()
    )


def test_merged_mappings(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "environments:\n"
        "  a: &a {terrain: seamounts, elevation_range: [0, 9]}\n"
        "  b: &b {<<: *a, terrain: jacksboro}\n"
        "  c: {elevation_range: [0, 5], <<: *b}\n"
        "methods: [poam]\n"
    )
    a, b, c = read_sweep(path).environments.values()
    assert (a.terrain, b.terrain, c.terrain) == ("seamounts", "jacksboro", "jacksboro")
    assert (a.elevation_range, b.elevation_range) == ((0, 9), (0, 9))
    assert c.elevation_range == (0, 5)


def test_methods_with_kernels_and_the_order_of_runs(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({**GOOD, "methods": ["poam", "poam:rbf"], "seeds": [3, 1]}))
    runs = read_sweep(path).runs()
    assert [(run.mission.seed, run.method) for run in runs] == [
        (3, "poam"), (3, "poam:rbf"), (1, "poam"), (1, "poam:rbf"),
    ]  # fmt: skip
    assert [run.mission.model.options.kernel for run in runs[:2]] == ["attentive", "rbf"]
    assert runs[1].folder == "runs/sea/poam-rbf/bezier-max-entropy/seed-3"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"methods": ["poam", "kriging"]}, r"methods\[1\]: .*got 'kriging'"),
        ({"methods": []}, "methods: expected at least one"),
        ({"methods": ["poam", "poam"]}, "methods: .* 'poam' twice"),
        ({"methods": ["poam", "poam:attentive"]}, r"methods\[1\]: .* the same as 'poam'"),
        ({"environments": ["seamounts"]}, "environments: expected a mapping"),
        ({"environments": {"a/b": "seamounts"}}, "environments: .* got 'a/b'"),
        (
            {"environments": {"a": {"terrain": "seamounts", "size": 3}}},
            r"environments\.a\.size: no such",
        ),
        ({"environments": {"a": {"preparation": "paper"}}}, r"environments\.a\.terrain: missing"),
        (
            {"environments": {"a": {"terrain": "seamounts", "elevation_range": [3, 1]}}},
            r"environments\.a\.elevation_range: .* low < high",
        ),
        ({"seeds": ["a", "b"]}, r"seeds\[0\]: expected an integer from 0 to .*, got 'a'"),
        ({"seeds": [1, 2, 1]}, "seeds: expected every value once, got 1 twice"),
        ({"pilots": ["straight"]}, r"pilots\[0\]: .*got 'straight'"),
        ({"max_samples": 0}, "max_samples: expected an integer from 1 to .*, got 0"),
        ({"method": "poam"}, "method: expected under methods, as in"),
        ({"model": {"method": "poam"}}, r"model\.method: expected under methods"),
        ({"model": {"steps": 5}}, r"model\.steps: no such .*; the nearest is model\.sparse\.steps"),
        ({"training_rate": 5.0}, "training_rate: no such setting"),
        (
            {"model": {"sparse.num_inducing": 1.5}},
            r"model\.sparse\.num_inducing: expected an integer from 2",
        ),
        (
            {"planning": {"boustrophedon.spacing": 3}},
            r"planning\.boustrophedon\.spacing: no such setting",
        ),
        (
            {"planners": ["path-entropy"], "planning": {"path_entropy.exploration": -1}},
            r"planning\.path_entropy\.exploration: expected a number from 0",
        ),
        ({"sonar": {"rate": "fast"}}, r"sonar\.rate: expected a number"),
    ],
)
def test_errors_say_where(change, expected, tmp_path, capsys):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **change}))
    with pytest.raises(InputError, match=expected) as caught:
        read_sweep(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@dataclass(frozen=True)
class CellOptions:
    """The options of a model that is no inducing-point model."""

    cell: float = setting(2.0, "Side of a cell", "m", minimum=0.1, maximum=9.0)


@pytest.fixture
def cells(monkeypatch):
    """The table of models, with one of another family."""
    monkeypatch.setitem(MODELS, "cells", ModelEntry(lambda *_: None, CellOptions))


def test_each_method_of_a_sweep_takes_the_settings_that_it_has(cells, tmp_path):
    path = tmp_path / "sweep.yaml"
    model = {"cell": 3, "sparse.num_inducing": 25, "threads": 2}
    path.write_text(yaml.safe_dump({**GOOD, "methods": ["poam", "cells"], "model": model}))
    sweep = read_sweep(path)
    poam, other = (run.mission.model for run in sweep.runs())
    assert poam == ModelSettings("poam", SparseOptions(num_inducing=25), threads=2)
    assert other == ModelSettings("cells", CellOptions(cell=3.0), threads=2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model": {"cell": 3}}, r"model\.cell: no such setting"),
        (
            {"methods": ["cells"], "model": {"sparse.steps": 3}},
            r"model\.sparse\.steps: no such setting",
        ),
        ({"methods": ["cells:rbf"]}, r"methods\[0\]: .* kernels before the colon, got 'cells:rbf'"),
    ],
)
def test_a_setting_that_no_method_has_is_refused(change, expected, cells, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **change}))
    with pytest.raises(InputError, match=expected):
        read_sweep(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("environments: {a\n", "cannot be read as YAML"),
        ("environments:\n  a: seamounts\n  a: jacksboro\nmethods: [poam]\n", "'a' appears twice"),
        ("a: {terrain: &t {x: 1}}\nb: {<<: *t, x: 2, x: 3}\n", "'x' appears twice"),
        ("environments: {a: missing.npz}\nmethods: [poam]\n", "environments.a: terrain missing"),
        (
            "environments: {a: {terrain: seamounts, preparation: none}}\nmethods: [poam]\n",
            "environments.a: preparation: expected paper",
        ),
        (
            "environments: {a: seamounts}\nmethods: [poam]\nmodel: {device: abacus}\n",
            "environments.a: device",
        ),
    ],
)
def test_exit_2_and_one_line_before_anything_starts(text, expected, tmp_path, capsys):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    assert main(["benchmark", str(path), "--output", str(tmp_path / "out")]) == 2
    streams = capsys.readouterr()
    assert not streams.out and streams.err.count("\n") == 1
    assert streams.err.startswith(f"poam benchmark: {path}: ") and expected in streams.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--workers", "0"], "workers: expected at least 1"),
        (["--scheduler", "nowhere"], "scheduler: expected an address"),
        (["--terrains", "nowhere"], "terrains: expected a folder"),
        (["--output", "sweep.yaml"], "output: cannot write"),
        (["--output", "old"], "old/sweep.yaml: expected layout 2, got 0"),
    ],
)
def test_wrong_options(options, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(GOOD))
    (tmp_path / "old").mkdir()
    (tmp_path / "old/sweep.yaml").write_text("layout: 0\n")
    assert main(["benchmark", "sweep.yaml", *options]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing", "sim", "robot"])
def test_an_unknown_configuration_is_refused_and_a_file_comes_first(
    name, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", name]) == 2
    assert f"{name}: no such file" in capsys.readouterr().err
    for each in ("smoke", name):
        (tmp_path / each).mkdir()
    assert find_sweep("smoke").name == "smoke.yaml"
    with pytest.raises(InputError, match=f"{name}: is a folder; expected a YAML file, or one"):
        find_sweep(name)
    (tmp_path / "paper").write_text(yaml.safe_dump(GOOD))
    assert len(read_sweep(find_sweep("paper")).runs()) == 1


def test_every_planner_gets_its_own_options(tmp_path):
    path = tmp_path / "sweep.yaml"
    planners = ["max-entropy", "path-entropy", "random"]
    given = {
        "planners": planners,
        "planning": {"path_entropy.exploration": 0.5, "max_entropy.distance_weight": 7},
    }
    path.write_text(yaml.safe_dump({**GOOD, **given}))
    missions = {run.mission.planner: run.mission for run in read_sweep(path).runs()}
    assert missions["max-entropy"].planner_options.distance_weight == 7
    assert missions["path-entropy"].planner_options.exploration == 0.5
    assert missions.keys() == set(planners)
