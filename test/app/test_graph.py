"""What robot.launch.py gives a vehicle's nodes, and what it refuses to start without."""

from __future__ import annotations

import pytest

from poam_ros.app import graph
from poam_ros.core.errors import InputError


def written(tmp_path, text: str) -> str:
    file = tmp_path / "robot.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", ["/**", "mapper_and_planner"])
def test_a_file_may_set_the_workspace_of_both_nodes(tmp_path, name):
    body = "\n  ros__parameters:\n    workspace: [0.0, 9.0, 0.0, 9.0]\n"
    text = f"/**:{body}" if name == "/**" else f"/**/mapper:{body}/auv/planner:{body}"
    graph.require_workspace(False, written(tmp_path, text))
    graph.require_workspace(True, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "it was not given$"),
        ("", "has none for mapper and planner"),
        ("/**/mapper:\n  ros__parameters:\n    workspace: [0.0, 9.0, 0.0, 9.0]\n", "for planner"),
        ("/**:\n  ros__parameters:\n    method: poam\n", "has none for mapper and planner"),
        ("[1, 2", "params_file: .*robot.yaml"),
    ],
)
def test_a_missing_workspace_is_refused_in_one_line(tmp_path, text, words):
    file = "" if text is None else written(tmp_path, text)
    with pytest.raises(InputError, match=words) as refused:
        graph.require_workspace(False, file)
    assert "\n" not in str(refused.value)


def test_grouped_parameters_of_a_file_are_found(tmp_path):
    """robot.launch.py makes the workspace of a polygon that the parameter file names."""
    text = "/**/planner:\n  ros__parameters:\n    areas: {file: lake.plan}\n    areas.margin: 2.0\n"
    file = written(tmp_path, text)
    found = {"areas.file": "lake.plan", "areas.margin": 2.0}
    assert graph.in_files(file, "planner") == found and not graph.in_files(file, "mapper")
