"""The tables of parameters as files: config/*.yaml and docs/parameters.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.settings import Setting, Value
from .parameters import NODES, VIEWERS, robot_tables

TABLES = NODES | VIEWERS


def generated_files() -> dict[str, str]:
    """The text of what is written from the tables, by path."""
    return {
        "docs/parameters.md": "# Parameters\n"
        + "".join(f"\n## {node}\n\n{render_markdown(table)}" for node, table in TABLES.items()),
        "config/sim.yaml": render_yaml(TABLES, "Defaults of a simulated mission."),
        "config/robot.yaml": render_yaml(
            robot_tables() | VIEWERS,
            "Defaults of a mission on a vehicle; its workspace has none and belongs in both nodes.",
            left_out=("workspace",),
        ),
    }


def render_yaml(
    nodes: Mapping[str, Sequence[Setting]], title: str, left_out: Sequence[str] = ()
) -> str:
    """A ROS parameter file with every default; `/**/` lets it serve a node in any namespace.

    What is ``left_out`` is there as a comment.
    """
    lines = [
        f"# {title}",
        "# Rendered from poam_ros/ros/common/parameters.py; a test keeps them equal.",
    ]
    for node, table in nodes.items():
        lines += ["", f"/**/{node}:", "  ros__parameters:"]
        for row in table:
            unit = f" [{row.unit}]" if row.unit else ""
            lines.append(f"    # {row.description}{unit} ({row.expected})")
            comment = "# " if row.name in left_out else ""
            lines.append(f"    {comment}{row.name}: {_yaml(row.default)}")
    return "\n".join(lines) + "\n"


def render_markdown(table: Sequence[Setting]) -> str:
    """The table for the docs."""
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
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 reads 1e-06 as text: a float needs its point.
        mantissa, exponent, power = text.partition("e")
        return text if "." in mantissa else mantissa + ".0" + exponent + power
    return f'"{value}"' if isinstance(value, str) else str(value)
