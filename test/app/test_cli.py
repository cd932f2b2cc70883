"""The command line: options from settings, one line for errors, a fast start."""

import argparse
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from poam_ros.app import graph
from poam_ros.app.cli import COMMANDS, main
from poam_ros.app.command import Parser, add_settings
from poam_ros.app.commands import drive, plan, run, sim, waypoints
from poam_ros.app.commands import map as poam_map
from poam_ros.core.settings import Setting, declared
from poam_ros.mission.target import TargetSettings
from poam_ros.models.registry import MODELS, ModelSettings, SparseOptions
from poam_ros.planning.planners import PLANNERS
from poam_ros.simulation.settings import MISSION_PILOTS, MissionSettings

ROWS = (
    Setting("pings_per_hour", 3.5, "Pings of 100 % an hour", "1/h", minimum=0.0, maximum=9.0),
    Setting("kind", "a", "A kind", choices={"a": 1, "b": 2}),
    Setting("count", 3, "A count", minimum=1),
)


@pytest.fixture
def parser():
    parser = Parser(prog="tool")
    add_settings(parser, ROWS)
    parser.takes([Setting("box.low", (0.0, 0.0), "Lower corner")], files=False)
    return parser


def refusal(parse, arguments, capsys):
    """The one line that a parser refuses arguments with."""
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2 and error.count("\n") == 1
    return error


def test_options_follow_their_settings(parser):
    args = parser.parse_args(["--pings-per-hour", "2", "--kind", "b"])
    assert vars(args) == {"pings_per_hour": 2.0, "kind": "b"}  # what is not given is absent
    args = parser.parse_args(["--set", "pings_per_hour=2", "--count", "4", "--set", "box.low=1,2"])
    assert vars(args) == {"pings_per_hour": 2.0, "count": 4, "box.low": (1.0, 2.0)}
    text = " ".join(parser.format_help().split())
    assert "Pings of 100 % an hour (1/h). (default: 3.5)" in text
    assert "A kind. One of: a, b. (default: a)" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pings-per-hour", "10"], "--pings-per-hour: expected a number from 0 to 9, got 10.0"),
        (["--kind", "c"], "--kind: expected one of a, b, got 'c'"),
        (["--count", "1.5"], "--count: expected an integer of at least 1, got '1.5'"),
    ],
)
def test_options_are_checked_as_their_settings(parser, arguments, words, capsys):
    assert f"tool: argument {words} (see" in refusal(parser.parse_args, arguments, capsys)


def options_of(command) -> dict[str, argparse.Action]:
    parser = Parser()
    command.add_arguments(parser)
    return {option: action for action in parser._actions for option in action.option_strings}


@pytest.mark.parametrize("command", [run, poam_map, drive, waypoints, plan])
def test_help_shows_every_option_on_one_screen(command):
    parser = Parser(prog="poam it")
    command.add_arguments(parser)
    lines = parser.format_help().splitlines()
    assert len(lines) <= 80 and max(map(len, lines)) <= 80
    for option in options_of(command):
        assert any(option in line.replace(",", " ").split() for line in lines), option


def test_sim_has_the_arguments_of_its_launch_file():
    whole = {row.name for row in (graph.NAMESPACE, graph.PARAMS_FILE, graph.RVIZ)}
    names = {f"--{name.replace('_', '-')}" for name in {*graph.FORWARDED, *whole}}
    others = {"-h", "--help", "--set", "--no-rviz", "--no-keep"}
    assert options_of(sim).keys() == {*others, *names}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: poam {command}") and COMMANDS[command] in " ".join(out.split())


def test_help_of_run_lists_models_planners_and_pilots(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = "".join(capsys.readouterr().out.split())  # lines may break inside a name
    for table in (MODELS, PLANNERS, MISSION_PILOTS):
        assert f"Oneof:{','.join(table)}.(default:" in text


def test_the_overview_names_every_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0 and set(COMMANDS) <= set(out.split())


def test_options_make_the_mission_s_settings(monkeypatch, tmp_path):
    """What is given goes where it belongs; the rest is as the settings have it."""
    taken = []

    def instead(terrain, settings, folder, on_epoch, on_end):
        taken.append((terrain.name, settings, folder))
        raise KeyboardInterrupt

    monkeypatch.setattr("poam_ros.simulation.lockstep.run_mission", instead)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--terrain", "seamounts"]) == 130
    options = {
        "method": "ovc", "threads": "2", "planner": "random", "pilot": "lawnmower",
        "policy": "deployed", "seed": "7", "max-samples": "900", "resolution": "2",
    }  # fmt: skip
    values = {
        "sparse.kernel": "rbf", "sparse.num_inducing": "40", "target.tvu": "1b",
        "target.distance": "25", "water.level": "3", "sparse.noise_variance": "0.01",
        "sparse.learning_rate": "0.1", "planner_noise": "false", "sonar_rate": "2.5",
    }  # fmt: skip
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    given += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    assert main(["run", "--terrain", "seamounts", *given]) == 130
    default, changed = (settings for _, settings, _ in taken)
    assert default == MissionSettings()
    own = SparseOptions(kernel="rbf", num_inducing=40, noise_variance=0.01, learning_rate=0.1)
    model = ModelSettings("ovc", own, threads=2)
    mission = MissionSettings(
        "random", "lawnmower", "deployed", 7, 900, 2.0, model=model, planner_noise=False,
        target=TargetSettings("1b", distance=25.0, water_level=3.0),
    )  # fmt: skip
    assert changed == replace(mission, sonar=replace(mission.sonar, rate=2.5))
    assert [str(folder) for _, _, folder in taken] == [
        "runs/seamounts-poam-0", "runs/seamounts-ovc-7",
    ]  # fmt: skip


def test_the_command_runs_a_mission(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    options = ["--terrain", "seamounts", "--max-samples", "60", "--resolution", "2"]
    options += ["--set", "sparse.num_inducing=30"]
    assert main(["run", *options, "--output", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "60 samples" in out and str(tmp_path / "a" / "maps.png") in out
    assert (tmp_path / "a" / "metrics.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["run", "--seed", "x"], "--seed: expected an integer"),
        (["run", "--method", "magic"], "--method: expected one of poam"),
        (["run", "--sonar-rate", "0"], "--sonar-rate: expected"),
        (["run", "--set", "sparse.num_inducing=0"], "--set: sparse.num_inducing: expected an int"),
        (["run", "--set", "sparse.steps"], "expected sparse.steps=VALUE, with an int"),
        (["run", "--set", "num_inducing=9"], "the nearest is sparse.num_inducing"),
        (["run", "--set", "target=1b"], "target: is a group; expected one of target.tvu, "),
        (["run", "--sparse.num-inducing", "9"], "expected --set sparse.num_inducing=VALUE"),
        (["run", "--num-inducing", "9"], "the nearest is --set sparse.num_inducing=VALUE"),
        (["run", "--max-sample=9"], "--max-sample: no such option; the nearest is --max-samples"),
        (["drive", "--workspace", "0 9 0 9"], "--workspace: expected 4 arguments"),
        (["drive", "--workspace", "0", "9", "9", "9"], "--workspace: extent: expected finite"),
        (["sim", "--pilot", "random-samples"], "--pilot: expected one of bezier"),
    ],
)
def test_wrong_arguments_give_one_line_and_status_2(arguments, words, capsys):
    assert words in refusal(main, arguments, capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--terrain", "atlantis"], "atlantis"),
        (["--device", "abacus"], "device: expected"),
        (["--elevation-range", "5", "5"], "elevation_range"),
        (["--output", "/proc/nothing"], "output"),
    ],
)
def test_wrong_input_gives_one_line_and_status_2(options, words, tmp_path, capsys):
    given = ["run", "--terrain", "seamounts", "--output", str(tmp_path), *options]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


# The moments are those at which a module has been loaded, which Python itself says.
@pytest.mark.parametrize(
    "module",
    ["poam_ros.core.geometry", "poam_ros.ros.parameters",
     pytest.param("torch.nn", marks=pytest.mark.slow),
     pytest.param("poam_ros.simulation.lockstep", marks=pytest.mark.slow)],
)  # fmt: skip
def test_ctrl_c_during_imports_gives_one_line_and_status_130(module, ros_env, tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "poam_ros.app.cli", "run"]
    process = subprocess.Popen(
        [*command, "--terrain", "seamounts", "--output", str(tmp_path)],
        env=ros_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = next((line for line in process.stderr if line.split()[-1] == module), None)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=300)
    assert seen is not None and not out
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert (process.returncode, said) == (130, ["poam run: interrupted"])


def test_every_mission_setting_can_be_set():
    """So that a new setting is taken by --set, a key of sweeps and a line of config.yaml."""
    own = set(declared(MissionSettings))
    parts = {
        "workspace", "model", "sonar", "batches", "clearance", "planner_options", "screening",
        "target",
    }  # fmt: skip
    assert vars(MissionSettings()).keys() - own == parts
