"""Writes the tables of parameters into docs/parameters.md.

``make generate`` runs it; a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from poam_ros.core.settings import Setting, Value
from poam_ros.ros.parameters import INNER, NODES

ROOT = Path(__file__).parents[1]


def generated_files() -> dict[str, str]:
    """The texts of the generated files, by path."""
    return {
        "docs/parameters.md": _INTRODUCTION
        + "".join(f"\n## {node}\n\n{render_node(node, table)}" for node, table in NODES.items()),
    }


_INTRODUCTION = """# Parameters

Written by `make generate`. A name with a dot belongs to a group. In a parameter file groups are
nested, `batch: {size: 30}`; a node takes `-p batch.size:=30`, and `poam` takes
`--set batch.size=30`, or the file by `--params-file`. Several numbers are one word,
`--set origin='47.3 8.55'`.
Options of models and planners have a prefix of their own; a node has only those of the model or
planner in use.
"""


def render_node(node: str, table: Sequence[Setting]) -> str:
    """The Markdown tables of a node and of its models or planners."""
    text = render_markdown(table)
    for prefix, inner in groupby(INNER.get(node, ()), lambda row: row.name.partition(".")[0]):
        text += f"\n### {prefix}\n\n{render_markdown(list(inner))}"
    return text


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
