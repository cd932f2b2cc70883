"""``--params-file`` and ``--set`` of the commands, which have one parser."""

import importlib

import pytest

from poam_ros.app.command import Parser
from poam_ros.core.errors import InputError
from poam_ros.research.configuration import find_sweep, read_sweep

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
