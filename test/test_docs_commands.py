"""What README and docs/*.md tell people to type: the programs themselves take it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import pytest
import yaml
from pages import blocks, commands

from poam_ros.app import graph
from poam_ros.app.cli import COMMANDS
from poam_ros.app.command import Parser
from poam_ros.core.errors import InputError
from poam_ros.core.settings import Setting, flat
from poam_ros.research.configuration import read_sweep
from poam_ros.ros.parameters import NODES


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


def test_poam_takes_every_command_of_the_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()  # a parameter file of the reader's
    assert len(list(commands("poam"))) > 20
    for block, words in commands("poam"):
        # The commands of extend.md need the package of that page: test/app/test_extension.py.
        if not str(block).startswith("extend.md"):
            parse(words, block)


#: The arguments of launch files; those of view.launch.py are in the file.
LAUNCH = {
    "robot.launch.py": {row.name: row for row in graph.ROBOT_ARGUMENTS},
    "sim.launch.py": {name: graph.SIM_ROWS[name] for name in graph.FORWARDED}
    | {row.name: row for row in graph.OWN},
}


def test_ros2_takes_every_command_of_the_pages():
    checks = {"launch": _check_launch, "run": _check_run, "param": _check_param}
    seen = 0
    for block, words in commands("ros2"):
        if words[1] in checks:
            checks[words[1]](words[2:], f"{block}: {' '.join(words)}")
            seen += 1
    assert seen > 10


def _check_launch(words: list[str], where: str) -> None:
    if words[0] != "poam_ros" or words[1] not in LAUNCH:
        return
    known = LAUNCH[words[1]]
    for word in words[2:]:
        if word not in ("--show-args", "..."):
            name, given, value = word.partition(":=")
            assert given and name in known, f"{where}: {name}"
            known[name].read(value)


def _check_run(words: list[str], where: str) -> None:
    if words[0] == "tf2_ros":
        return
    assert words[0] == "poam_ros" and words[1] in {*NODES, "poam"}, where
    for name, _, value in (word.partition(":=") for word in words if ":=" in word):
        if f"-p {name}" in where:
            _value(words[1], name, yaml.safe_load(value), where)


def _check_param(words: list[str], where: str) -> None:
    verb, node, name = words[0], words[1].rpartition("/")[2], words[2]
    row = _value(node, name, yaml.safe_load(words[3]) if verb == "set" else None, where)
    assert verb != "set" or row.mutable, f"{where}: not at run time"


def _value(node: str, name: str, value: object, where: str) -> Setting:
    found = {row.name: row for row in NODES[node]}
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
