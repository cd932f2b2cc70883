"""The command line: options from settings and files, one line for errors, a fast start."""

import argparse
import importlib
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from sweep_folders import write_sweep

from poam_ros.app import graph
from poam_ros.app.cli import COMMANDS, main
from poam_ros.app.command import Parser, add_settings
from poam_ros.app.commands import drive, plan, run, sim, waypoints
from poam_ros.app.commands import map as poam_map
from poam_ros.core.errors import InputError
from poam_ros.core.settings import Setting, declared
from poam_ros.mission.target import TargetSettings
from poam_ros.models.registry import ModelSettings, SparseOptions
from poam_ros.research.configuration import find_sweep, read_sweep
from poam_ros.simulation.settings import MissionSettings

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


OTHERS = {
    "run": [], "map": ["log.csv"], "diff": ["a", "b"], "drive": [], "waypoints": ["a.plan"],
    "plan": ["--like", "a"], "benchmark": ["smoke"], "export": ["a", "--to", "a.tif"], "view": [],
    "profile": [],
}  # fmt: skip


def parsed(command, *words):
    parser = Parser(prog=f"poam {command}")
    importlib.import_module(f"poam_ros.app.commands.{command}").add_arguments(parser)
    return vars(parser.parse_args([*OTHERS[command], *words]))


@pytest.fixture
def file(tmp_path):
    """A function that writes a parameter file."""

    def write(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


MINE = """
/**:
  ros__parameters: {use_sim_time: true, frame_id: lake, method: nngp, water: {level: 2}}
/**/mapper:
  ros__parameters: {method: poam, sparse: {num_inducing: 40}}
"""


@pytest.mark.parametrize("command", OTHERS)
def test_every_command_takes_both(command, file):
    """Parameters of nodes that the command has no use for are left out."""
    found = parsed(command, "--params-file", file(MINE))
    levels = {"run", "map", "diff", "drive", "plan", "export", "view"}
    assert found.get("water.level") == (2.0 if command in levels else None)
    if command in ("run", "map", "drive", "profile"):
        assert (found["method"], found["sparse.num_inducing"]) == ("poam", 40)
        assert {"method", "sparse.num_inducing"} <= found["in_files"]


def test_options_override_files_and_later_files_earlier_ones(file):
    later = file("/**/run: {ros__parameters: {seed: 3, max_samples: 9}}", "later.yaml")
    files = f"{file(MINE)},{later}"
    words = ("--params-file", files, "--seed", "4", "--set", "sparse.num_inducing=50")
    found = parsed("run", *words)
    assert (found["seed"], found["max_samples"], found["sparse.num_inducing"]) == (4, 9, 50)
    assert found["in_files"] == {"method", "max_samples", "water.level"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/**: {ros__parameters: {sparse: {num_induced: 4}}}", "nearest is sparse.num_inducing"),
        ("/**: {ros__parameters: {seed: x}}", r"/\*\*: seed: expected an integer"),
        ("[1, 2", "mine.yaml"),
        (
            "/**/mapper: {ros__parameters: {seed: 1}}\n/**/planner: {ros__parameters: {seed: 2}}",
            "expected one value of seed",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_refused(text, words, file):
    with pytest.raises(InputError, match=words):
        parsed("run", "--params-file", file(text))
    with pytest.raises(InputError, match="no such file"):
        parsed("run", "--params-file", "no/such.yaml")


def test_settings_of_a_sweep_change_all_its_runs():
    sweep = read_sweep(find_sweep("smoke"))
    values = {"max_samples": 50, "sparse.num_inducing": 30, "sonar.noise_std": 0.5, "seed": 9}
    mission = sweep.changed(values).runs()[0].mission
    assert (mission.max_samples, mission.sonar.noise_std, mission.seed) == (50, 0.5, 0)
    assert mission.model.options.num_inducing == 30
    with pytest.raises(InputError, match=r"nngp\.blending: no such setting"):
        sweep.changed({"nngp.blending": 0.0})


HEAVY = (
    "torch", "gpytorch", "matplotlib", "scipy", "dask", "distributed", "rclpy", "pandas", "bokeh",
)  # fmt: skip
COMMAND = "from poam_ros.app.cli import main\ntry: main({!r})\nexcept SystemExit: pass"


def heavy(program: str, env: dict[str, str]) -> set[str]:
    """Which of the heavy packages a program has loaded at its end."""
    asked = f"{program}\nimport sys\nprint('loaded', *{HEAVY} & sys.modules.keys())"
    asked = asked.replace(f"*{HEAVY}", f"*set({HEAVY})")
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_help_and_errors_import_nothing_slow(ros_env):
    arguments = [[], ["--version"], ["run", "--method", "magic"]]
    arguments += [[command, "--help"] for command in COMMANDS]
    program = "\n".join(COMMAND.format(each) for each in arguments)
    assert heavy(program, ros_env) == set()


def test_the_first_help_needs_no_numpy(ros_env):
    program = "\n".join(COMMAND.format([each]) for each in ("--help", "--version"))
    assert heavy(f"{program}\nimport sys\nassert 'numpy' not in sys.modules", ros_env) == set()


@pytest.mark.slow
def test_a_report_loads_no_torch(tmp_path, ros_env):
    pytest.importorskip("matplotlib")
    samples = [500, 900, 1400]
    run = {"environment": "sea", "method": "poam", "seed": 0, "samples": samples}
    write_sweep(tmp_path, [{**run, "values": {"smse": [0.3, 0.2, 0.1]}}])
    loaded = heavy(COMMAND.format(["benchmark", str(tmp_path)]), ros_env)
    assert (tmp_path / "report" / "table.md").read_text()
    assert not loaded & {"torch", "gpytorch", "scipy", "dask", "distributed"}
