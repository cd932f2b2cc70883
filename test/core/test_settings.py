"""Settings: what a row converts, reads and refuses, dataclasses and tables of them."""

import array
import math
import sys
import types
from dataclasses import dataclass

import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.settings import (
    Setting,
    Settings,
    at,
    flat,
    instance,
    nested,
    rows,
    setting,
    values_of,
)
from poam_ros.models.registry import MODELS, ModelSettings
from poam_ros.planning.planners import PLANNERS, NoOptions, PlannerEntry
from poam_ros.simulation.settings import MissionSettings


def _even(value):
    if value % 2:
        raise InputError(f"expected an even number, got {value}")


TABLE = {"first": 1, "second": 2}


@dataclass(frozen=True)
class Some(Settings):
    """A setting of each kind, and a field that is not a setting."""

    flag: bool = setting(False, "A flag")
    count: int = setting(2, "A count", minimum=0, maximum=8, check=_even)
    least: int = setting(1, "Bounded below", minimum=1)
    length: float = setting(1.5, "A length", "m", minimum=0.5, maximum=9.0, mutable=True)
    word: str = setting("a", "A word", choices=("a", "b"))
    row: str = setting("first", "A row of a table", choices=TABLE)
    text: str = setting("", "Any text")
    pair: tuple[float, float] = setting((0.0, 1.0), "Two numbers", maximum=5.0)
    other: object = None


ROWS = {row.name: row for row in rows(Some)}


def test_rows_are_the_declared_fields_in_order():
    assert list(ROWS) == ["flag", "count", "least", "length", "word", "row", "text", "pair"]
    assert rows(Some()) == rows(Some)
    length = Setting("length", 1.5, "A length", "m", minimum=0.5, maximum=9.0, mutable=True)
    assert ROWS["length"] == length
    assert (length.help, Setting("a", 1, "One. 0: none", "m").help) == (
        "A length (m).",
        "One (m). 0: none.",
    )


@dataclass(frozen=True)
class Grouped:
    """Settings of a group, and one outside it."""

    prefix = "group"
    word: str = setting("a", "A word")
    level: float = setting(1.0, "A level", name="water.level")


def test_names_of_a_group_have_its_prefix():
    assert [row.name for row in rows(Grouped)] == ["group.word", "water.level"]
    values = {"group.word": "b", "word": "c", "water.level": 2}
    assert instance(Grouped, values) == Grouped("b", 2.0)
    assert values_of(Grouped("b", 2.0)) == {"group.word": "b", "water.level": 2.0}
    tree = {"group": {"word": "b"}, "water": {"level": 2.0}}
    assert nested(values_of(Grouped("b", 2.0))) == tree and flat(tree) == values_of(Grouped("b", 2))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flag", "true or false"), ("count", "an integer from 0 to 8"), ("text", "text"),
        ("least", "an integer of at least 1"), ("length", "a number from 0.5 to 9"),
        ("word", "one of a, b"), ("row", "one of first, second"),
        ("pair", "2 numbers of at most 5"),
    ],
)  # fmt: skip
def test_the_expected_value_as_text(name, expected):
    assert ROWS[name].expected == expected


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("flag", True, True), ("count", 4, 4), ("length", 3, 3.0), ("word", "b", "b"),
        ("row", "second", "second"), ("text", "7", "7"), ("pair", [-2, 5], (-2.0, 5.0)),
        ("pair", array.array("d", [1, 2]), (1.0, 2.0)),
    ],
)  # fmt: skip
def test_values_in_the_declared_type(name, given, value):
    converted = ROWS[name].convert(given)
    assert converted == value and type(converted) is type(value)
    assert getattr(Some(**{name: given}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("flag", "True", True), ("flag", "false", False), ("count", "4", 4), ("length", "3", 3.0),
        ("length", "1e0", 1.0), ("text", "4", "4"), ("word", "b", "b"), ("pair", "0 2", (0.0, 2.0)),
        ("pair", "[-1.5, 2]", (-1.5, 2.0)), ("pair", "-1,2", (-1.0, 2.0)),
    ],
)  # fmt: skip
def test_texts_are_read_as_values(name, text, value):
    read = ROWS[name].read(text)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "got"),
    [
        ("flag", 1, "1"), ("flag", "true", "'true'"), ("count", 2.0, "2.0"),
        ("count", True, "True"), ("count", 10, "10"), ("count", -2, "-2"), ("count", None, "None"),
        ("count", {}, "{}"),
        ("length", math.nan, "nan"), ("length", math.inf, "inf"), ("length", "2", "'2'"),
        ("length", False, "False"), ("length", [1.0], r"\[1.0\]"), ("word", "c", "'c'"),
        ("word", 3, "3"), ("row", "third", "'third'"), ("text", 3, "3"), ("pair", [1], r"\[1\]"),
        ("pair", "01", "'01'"), ("pair", [0, math.nan], r"\[0, nan\]"), ("pair", None, "None"),
        ("pair", array.array("d", [9, 0]), r"\[9.0, 0.0\]"),
        ("count", "x" * 1000, f"'{'x' * 79}..."),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_name_expected_and_got(name, value, got):
    with pytest.raises(InputError, match=f"^{name}: expected {ROWS[name].expected}, got {got}$"):
        ROWS[name].convert(value)
    with pytest.raises(InputError, match=f"^{name}: expected"):
        Some(**{name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [("flag", "yes"), ("count", "4.0"), ("count", "x"), ("length", "2 m"), ("pair", "1 two")],
)
def test_wrong_texts_are_quoted_in_the_error(name, text):
    with pytest.raises(InputError, match=f"^{name}: expected {ROWS[name].expected}, got {text!r}"):
        ROWS[name].read(text)


def test_a_row_s_own_check_comes_last_and_is_named():
    with pytest.raises(InputError, match=r"^count: expected an even number, got 3$"):
        Some(count=3)
    with pytest.raises(InputError, match=r"^--count: expected an even number, got 3$"):
        at("--count", ROWS["count"]).convert(3)


def test_settings_are_built_from_flat_values():
    values = {"count": 6, "length": 2, "nobody": 1}
    assert instance(Some, values, other=7) == Some(count=6, length=2.0, other=7)
    with pytest.raises(InputError, match=r"^count: expected"):
        instance(Some, {"count": 9})


def test_settings_of_several_classes_may_share_a_setting():
    @dataclass(frozen=True)
    class Like:
        word: str = setting("a", "A word", choices=("a", "b"))
        more: int = setting(1, "More")

    @dataclass(frozen=True)
    class Unlike:
        word: str = setting("b", "Another word", choices=("a", "b"))

    assert [row.name for row in rows(Some, Like, Some)] == [*ROWS, "more"]
    with pytest.raises(ValueError, match="word is declared differently"):
        rows(Some, Unlike)


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
        ("not-here:plan", "planner: not-here:plan: cannot be loaded .*No module named 'not-here'"),
        ("mine:wrong", "planner: mine:wrong: .*expected a PlannerEntry .*, got int"),
    ],
)
def test_invalid_rows_are_refused(mine, name, words):
    with pytest.raises(InputError, match=words):
        MissionSettings(planner=name)
