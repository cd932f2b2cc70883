"""What README and docs/*.md tell people to type: the programs themselves take it."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module

import pytest
import yaml
from pages import PAGES, ROOT, blocks, commands, inline, tables

from poam_ros.app.cli import COMMANDS
from poam_ros.app.command import Parser
from poam_ros.core.errors import InputError
from poam_ros.core.settings import Setting, flat
from poam_ros.research.sweeps.configuration import read_sweep
from poam_ros.ros.common.parameters import TABLES

#: What a command of the pages may begin with, besides ours.
FOREIGN = {
    ".", "apt", "cd", "docker", "git", "make", "mypy", "pip", "python", "python3", "ros2", "rosdep",
    "sudo",
}  # fmt: skip


@cache
def parser(command: str) -> Parser:
    made = Parser(prog=f"poam {command}")
    import_module(f"poam_ros.app.commands.{command}").add_arguments(made)
    return made


def parse(words: list[str], where: object) -> None:
    """Have the real parser read a command of ours."""
    assert words[1] in COMMANDS or words[1].startswith("--"), f"{where}: {' '.join(words)}"
    if words[1] in COMMANDS and "--help" not in words:
        try:
            parser(words[1]).parse_args(words[2:])
        except SystemExit:
            pytest.fail(f"{where}: {' '.join(words)}")


def test_every_command_is_known():
    known = FOREIGN | {"poam"}
    wrong = [
        f"{block}: {' '.join(words)}"
        for block in blocks("sh", "console")
        for words in block.commands
        if words[0] not in known
    ]
    assert not wrong


def test_poam_takes_every_command_of_the_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()  # a parameter file of the reader's
    assert len(list(commands("poam"))) > 20
    for block, words in commands("poam"):
        # The commands of extend.md need the package of that page: test/app/test_extension.py.
        if not str(block).startswith("extend.md"):
            parse(words, block)


def test_options_that_the_prose_names_are_there():
    """`poam run --kernel` in a sentence: the option exists, whatever else is missing."""
    for page in PAGES:
        for code in inline(page):
            found = re.match(r"poam (\w+)\b", code)
            if found and found[1] in COMMANDS:
                known = parser(found[1])._option_string_actions
                options = re.findall(r"(?<!\S)--[a-z][\w.-]*", code)
                assert set(options) <= {*known, "--help"}, f"{page.name}: {code}"
                settings = re.findall(r"--set ([a-z][\w.]*)=", code)
                assert set(settings) <= parser(found[1]).settings.keys(), f"{page.name}: {code}"


def test_make_and_pip_know_what_the_pages_ask_for():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block, words in commands("make"):
        goals = {word for word in words[1:] if "=" not in word}
        assert goals <= targets, f"{block}: {' '.join(words)}"
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    extras = set(re.findall(r'^        "(\w+)": ', setup, re.MULTILINE))
    assert "geo" in extras
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for names in re.findall(r"(?:poam_ros|'\.|\"\.)\[([\w,]+)\]", text):
            assert set(names.split(",")) <= extras, f"{page.name}: [{names}]"


@cache
def launch_rows(name: str) -> dict[str, Setting]:
    """The arguments that a launch file declares, by name, from the tables it gives to
    ``LaunchArguments``. Needs no launch tools of ROS 2."""
    tree = ast.parse((ROOT / "launch" / name).read_text(encoding="utf-8"))
    (function,) = (n for n in tree.body if getattr(n, "name", "") == "generate_launch_description")
    scope: dict = {}
    for part in [*tree.body, *function.body]:
        value = getattr(part, "value", None)
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "LaunchArguments":
            table = compile(ast.Expression(value.args[0]), name, "eval")
            return {row.name: row for row in eval(table, scope)}
        tools = re.match(r"launch|poam_ros\.app\.launching", getattr(part, "module", None) or "")
        if isinstance(part, ast.Import | ast.ImportFrom | ast.Assign) and not tools:
            exec(compile(ast.Module([part], []), name, "exec"), scope)
    raise AssertionError(f"{name}: no LaunchArguments(...)")


def services() -> dict[str, set[str]]:
    """Services of each node, by the table of interfaces, which a test of its own holds true."""
    table = next(t for t in tables(ROOT / "docs" / "interfaces.md") if t and "node" in t[0])
    return {
        re.findall(r"`(\w+)`", row["node"])[0]: set(
            re.findall(r"`(~/\w+)`", row["services (`std_srvs/Trigger`)"])
        )
        for row in table
    }


def test_ros2_takes_every_command_of_the_pages():
    checks = {
        "launch": _check_launch,
        "run": _check_run,
        "param": _check_param,
        "service": _check_service,
    }
    seen = 0
    for block, words in commands("ros2"):
        if words[1] in checks:
            checks[words[1]](words[2:], f"{block}: {' '.join(words)}")
            seen += 1
    assert seen > 10


def _check_launch(words: list[str], where: str) -> None:
    if words[0] != "poam_ros":
        return
    known = launch_rows(words[1])
    for word in words[2:]:
        if word not in ("--show-args", "..."):
            name, given, value = word.partition(":=")
            assert given and name in known, f"{where}: {name}"
            known[name].read(value)


def _check_run(words: list[str], where: str) -> None:
    assert words[0] == "poam_ros" and words[1] in {*TABLES, "poam"}, where
    for name, _, value in (word.partition(":=") for word in words if ":=" in word):
        if f"-p {name}" in where:
            _value(words[1], name, yaml.safe_load(value), where)


def _check_param(words: list[str], where: str) -> None:
    verb, node, name = words[0], words[1].rpartition("/")[2], words[2]
    row = _value(node, name, yaml.safe_load(words[3]) if verb == "set" else None, where)
    assert verb != "set" or row.mutable, f"{where}: not at run time"


def _check_service(words: list[str], where: str) -> None:
    node, _, name = words[1].lstrip("/").rpartition("/")
    assert words[0] == "call" and words[2] == "std_srvs/srv/Trigger", where
    assert f"~/{name}" in services()[node], where


def _value(node: str, name: str, value: object, where: str) -> Setting:
    found = {row.name: row for row in TABLES[node]}
    assert name in found, f"{where}: {node} has no parameter {name}"
    if value is not None:
        try:
            found[name].convert(value)
        except InputError as error:
            pytest.fail(f"{where}: {error}")
    return found[name]


def test_yaml_of_the_pages_is_taken(tmp_path):
    """Parameter files: each name and value is the node's. Sweeps: the sweep reader takes them."""
    seen = 0
    for block in blocks("yaml"):
        content = yaml.safe_load(block.text)
        if "environments" in content:
            (tmp_path / "sweep.yaml").write_text(block.text, encoding="utf-8")
            read_sweep(tmp_path / "sweep.yaml")
            seen += 1
        for node, body in content.items():
            given = body.get("ros__parameters") or {} if "/" in node else {}
            for name, value in flat(given).items():
                _value(node.rpartition("/")[2], name, value, str(block))
                seen += 1
    assert seen > 10
