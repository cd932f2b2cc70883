"""One table for descriptors, checks, YAML and docs."""

import contextlib
import math
from functools import partial
from pathlib import Path

import pytest
import yaml
from parameter_files import generated_files

from poam_ros.app import graph
from poam_ros.core.errors import InputError
from poam_ros.core.settings import Setting, flat, rows
from poam_ros.models.registry import MODELS, ModelSettings, SparseOptions
from poam_ros.ros.parameters import (
    MAPPER,
    NODES,
    PLANNER,
    SIMULATOR,
    inner_rows,
)
from poam_ros.simulation.simulator import SonarSettings

ROOT = Path(__file__).resolve().parents[2]
ROWS = [pytest.param(row, id=f"{node}-{row.name}") for node, t in NODES.items() for row in t]
BY_NAME = {row.name: row for row in (*MAPPER, *PLANNER, *SIMULATOR)}


@pytest.mark.parametrize("row", ROWS)
def test_every_default_is_valid_and_described(row):
    assert row.convert(list(row.default) if isinstance(row.default, tuple) else row.default) == (
        row.default
    )
    assert row.description
    assert row.expected
    if isinstance(row.default, (int, float)) and not isinstance(row.default, bool):
        assert row.minimum is not None
        assert row.maximum is not None


def test_the_tables_contain_the_settings_of_lower_packages():
    mapper, simulator = ({row.name: row for row in table} for table in (MAPPER, SIMULATOR))
    others = [row for row in rows(ModelSettings) if row.name != "method"]
    assert all(mapper[row.name] == row for row in others)
    for method, model in MODELS.items():
        assert inner_rows("mapper", {"method": method}) == rows(model.options)
        assert not {row.name for row in rows(model.options)} & set(mapper)
    assert all(simulator[row.name] == row for row in rows(SonarSettings))
    assert "sonar_rate" in simulator  # a promise


def test_a_mapper_s_parameters_make_its_model_s_settings():
    defaults = {row.name: row.default for row in MAPPER}
    assert ModelSettings.of(defaults) == ModelSettings("nngp")
    settings = ModelSettings.of({**defaults, "method": "ovc", "sparse.steps": 3, "threads": 2})
    assert settings == ModelSettings("ovc", SparseOptions(steps=3), threads=2)
    assert ModelSettings.of(settings.values) == settings


@pytest.mark.parametrize("path", generated_files())
def test_generated_files_are_up_to_date(path):
    assert (ROOT / path).read_text() == generated_files()[path]


@pytest.mark.parametrize("name", ["robot.yaml", "sim.yaml"])
def test_nodes_take_the_files_of_the_launch_files(name):
    """robot.yaml holds the nodes' defaults, so that a node alone equals one that is launched."""
    nodes = NODES if name == "sim.yaml" else {"mapper": MAPPER, "planner": PLANNER}
    table = {row.name: row for rows in nodes.values() for row in rows}
    for body in yaml.safe_load((ROOT / "config" / name).read_text()).values():
        for own, value in flat(body["ros__parameters"]).items():
            if own == "use_sim_time" and name == "sim.yaml":
                continue
            converted = table[own].convert(value)
            if name == "robot.yaml" or own in graph.FORWARDED:
                rows = table if name == "robot.yaml" else graph.SIM_ROWS
                assert converted == rows[own].default, own


TABLE = (
    Setting("gain", 1.0, "A gain", "m", minimum=0.0, maximum=10.0, mutable=True),
    Setting("count", 3, "A count", minimum=1, maximum=5, mutable=True),
    Setting("fixed", 2.0, "Fixed", minimum=0.0, maximum=5.0),
    Setting("corners", (0.0, 1.0), "Two", mutable=True),
    Setting("kind", "a", "A kind", choices=("a", "b"), mutable=True),
)


@pytest.mark.ros
def test_declared_described_and_changed_at_run_time(ros):
    from rclpy.parameter import Parameter as Given

    from poam_ros.ros.node import BaseNode

    changes = []
    node = ros(partial(BaseNode, "declared", TABLE), parameters={"gain": 2, "corners": [3, 4]})
    node.changed, values = changes.append, node.values
    assert (values.gain, values.count, values.corners) == (2.0, 3, (3.0, 4.0))
    described = node.describe_parameter("gain")
    assert described.description == "A gain (m)."
    assert described.floating_point_range[0].to_value == 10.0
    assert node.describe_parameter("count").integer_range[0].from_value == 1
    assert node.describe_parameter("fixed").read_only
    assert "one of a, b" in node.describe_parameter("kind").additional_constraints

    for name, value in (
        ("gain", 11.0), ("gain", 11), ("gain", math.nan), ("gain", "x"), ("count", 6),
        ("count", 2.0), ("fixed", 1.0), ("corners", [1.0]), ("kind", "c"),
    ):  # fmt: skip
        (result,) = node.set_parameters([Given(name, value=value)])
        assert not result.successful, (name, value)
        assert name in result.reason
    assert not changes
    assert values.gain == 2.0

    # All or nothing.
    both = [Given("gain", value=3.0), Given("count", value=99)]
    assert not node.set_parameters_atomically(both).successful
    assert values.gain == 2.0

    (result,) = node.set_parameters([Given("gain", value=7)])
    assert result.successful
    assert values.gain == 7.0
    assert changes == [frozenset({"gain"})]


@pytest.mark.ros
@pytest.mark.parametrize(
    ("name", "words"),
    [("gian", "the nearest is gain"), ("zzz\n", "zzz.n: no such setting"), ("sparse.steps", None),
     ("qos_overrides./odom.depth", None), ("use_sim_time", None)],
)  # fmt: skip
def test_an_override_that_no_parameter_takes_is_refused(ros, name, words):
    from poam_ros.ros.node import BaseNode

    given = {name: True if name == "use_sim_time" else 2}
    expected = pytest.raises(InputError, match=words) if words else contextlib.nullcontext()
    with expected:
        ros(partial(BaseNode, "undeclared", TABLE), parameters=given)


@pytest.mark.ros
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["-p", "batch_size:=0"],
            "parameter batch_size: no such setting; the nearest is batch.size",
        ),
        (
            ["-p", "nngp.neighbours:=99", "-p", "method:=nngp"],
            "parameter nngp.neighbours: expected",
        ),
        (["-p", "batch.size:=0"], "parameter batch.size: expected an integer from 1"),
        (["-p", "resolution:=fine"], "parameter resolution: expected a number"),
        (["-p", "workspace:=[1,0,0,1]"], "parameter workspace: "),
        (["-p", "method:=nothing"], "method: expected one of"),
        (["-p", "frame_id:=/map"], "frame_id: a frame's name without a leading slash"),
        (["-p", "output:=/proc/nowhere"], "output: "),
        (["--params-file", "/no/such/file"], "/no/such/file"),
    ],
)
def test_a_mapper_ends_with_one_line_and_status_2(arguments, words, refusal):
    from poam_ros.ros.mapper import main

    assert words in refusal(main, *arguments)
