"""Rows of other packages: by entry point, by ``module:name``, and errors."""

import sys
import types

import pytest

from poam_ros.core.errors import InputError
from poam_ros.models.registry import MODELS, ModelSettings
from poam_ros.planning.planners import PLANNERS, NoOptions, PlannerEntry
from poam_ros.simulation.settings import MissionSettings


def to_the_centre(view, situation, options, rng):
    return situation.workspace.centre[None]


@pytest.fixture
def mine(monkeypatch):
    module = types.ModuleType("mine")
    module.plan, module.row, module.wrong = to_the_centre, MODELS["nngp"], 3
    monkeypatch.setitem(sys.modules, "mine", module)
    return module


def test_a_function_and_a_row_of_a_module_are_rows(mine):
    assert PLANNERS["mine:plan"] == PlannerEntry(to_the_centre, NoOptions)
    settings = MissionSettings(planner="mine:plan", model=ModelSettings("mine:row"))
    assert settings.planner_options == NoOptions() and settings.model.method == "mine:row"
    assert "mine:plan" not in list(PLANNERS)  # the built-in ones alone are listed


def test_an_entry_point_is_found_by_its_name(mine, monkeypatch, tmp_path):
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[poam_ros.planners]\ncentre = mine:plan\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "centre" in PLANNERS.others and PLANNERS["centre"].plan is to_the_centre
    with pytest.raises(InputError, match=r"\(installed: centre\), got 'middle'"):
        MissionSettings(planner="middle")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:plan", "planner: nowhere:plan: cannot be loaded .*No module named 'nowhere'"),
        ("mine:gone", "planner: mine:gone: cannot be loaded"),
        ("mine:wrong", "planner: mine:wrong: .*expected a PlannerEntry .*, got int"),
    ],
)
def test_invalid_rows_are_refused(mine, name, words):
    with pytest.raises(InputError, match=words):
        MissionSettings(planner=name)
