"""Writes the tables of parameters into config/*.yaml and docs/parameters.md.

``make generate`` runs it; a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from poam_ros.core.settings import Setting, Value
from poam_ros.models.registry import option_rows
from poam_ros.planning.planners import planner_rows
from poam_ros.ros.common.parameters import INNER, NODES, TABLES, robot_tables

ROOT = Path(__file__).parents[1]
_SOURCE = "# Written by `make generate` from the tables of parameters; a test compares."


def generated_files() -> dict[str, str]:
    """The texts of the generated files, by path."""
    return {
        "docs/parameters.md": _INTRODUCTION
        + "".join(f"\n## {node}\n\n{render_node(node, table)}" for node, table in TABLES.items()),
        "config/sim.yaml": render_yaml(NODES, "Defaults of a simulated mission."),
        "config/robot.yaml": render_yaml(
            robot_tables(),
            "Defaults of a mission on a vehicle. The workspace has none: set it for both nodes.",
            left_out=("workspace",),
        ),
        "config/model.yaml": "\n".join(
            [
                "# All options of the models with their defaults. Give a changed copy to the",
                "# mapper (parameter `model`) or to a command (`--model`).",
                _SOURCE,
                *_lines(option_rows(), ""),
                "",
            ]
        ),
    }


_INTRODUCTION = """# Parameters

Written by `make generate`. A name with a dot belongs to a group. In a parameter file groups are
nested, `screening: {echo_ratio: 1.5}`; a node takes `-p screening.echo_ratio:=1.5`, and `poam`
takes `--set screening.echo_ratio=1.5`. Several numbers are one word, `--set origin='47.3 8.55'`.
Options of models and planners have a prefix of their own; a node has only those of the model or
planner in use. `config/model.yaml` has the models' defaults as a file for `model`.
"""


def render_node(node: str, table: Sequence[Setting]) -> str:
    """The Markdown tables of a node and of its models or planners."""
    text = render_markdown(table)
    for prefix, inner in groupby(INNER.get(node, ()), lambda row: row.name.partition(".")[0]):
        text += f"\n### {prefix}\n\n{render_markdown(list(inner))}"
    return text


def render_yaml(
    nodes: Mapping[str, Sequence[Setting]], title: str, left_out: Sequence[str] = ()
) -> str:
    """A ROS parameter file with every default, for nodes in any namespace (`/**/`).

    ``left_out``: names that are only comments.
    """
    lines = [f"# {title}", _SOURCE]
    for node, table in nodes.items():
        lines += ["", f"/**/{node}:", "  ros__parameters:", *_lines(table, "    ", left_out)]
        if node == "planner":
            lines += _lines(planner_rows(), "    ")
    return "\n".join(lines) + "\n"


def _lines(table: Sequence[Setting], indent: str, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Settings as YAML: first those without a group, then by group."""
    group = ""
    for row in sorted(table, key=lambda row: row.name.partition(".")[0] if "." in row.name else ""):
        prefix, _, own = row.name.rpartition(".")
        if prefix != group:
            yield f"{indent}{prefix}:"
            group = prefix
        deeper = indent + "  " * bool(prefix)
        yield f"{deeper}# {row.help} ({row.expected})"
        yield f"{deeper}{'# ' if row.name in left_out else ''}{own}: {_yaml(row.default)}"


def render_markdown(table: Sequence[Setting]) -> str:
    """A table in Markdown."""
    lines = [
        "| parameter | default | unit | expected | at run time | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for row in table:
        left = f"| `{row.name}` | `{_yaml(row.default)}` | {row.unit} | {row.expected} |"
        lines.append(f"{left} {'yes' if row.mutable else 'no'} | {row.description} |")
    return "\n".join(lines) + "\n"


def _yaml(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 reads 1e-06 as text: a float needs a point.
        mantissa, exponent, power = text.partition("e")
        return text if "." in mantissa else mantissa + ".0" + exponent + power
    return json.dumps(value)


def write() -> None:
    """Write the files into the checkout."""
    for path, text in generated_files().items():
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
