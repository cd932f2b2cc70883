"""The tables of parameters as files: config/*.yaml and docs/parameters.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..settings import Setting, Value
from .parameters import MAPPER, NODES, ON_A_ROBOT, PLANNER


def generated_files() -> dict[str, str]:
    """The text of what is written from the tables, by path."""
    return {
        "docs/parameters.md": "# Parameters\n"
        + "".join(f"\n## {node}\n\n{render_markdown(table)}" for node, table in NODES.items()),
        "config/sim.yaml": render_yaml(NODES, "Defaults of a simulated mission."),
        "config/robot.yaml": render_yaml(
            {"mapper": on_a_robot(MAPPER), "planner": PLANNER},
            "Defaults of a mission on a vehicle; its workspace belongs in both nodes.",
        ),
    }


def on_a_robot(table: Sequence[Setting]) -> list[Setting]:
    """A node's table with the defaults of robot.launch.py."""
    return [replace(row, default=ON_A_ROBOT.get(row.name, row.default)) for row in table]


def render_yaml(nodes: Mapping[str, Sequence[Setting]], title: str) -> str:
    """A ROS parameter file with every default; `/**/` lets it serve a node in any namespace."""
    lines = [f"# {title}", "# Rendered from poam_ros/ros/parameters.py; a test keeps them equal."]
    for node, table in nodes.items():
        lines += ["", f"/**/{node}:", "  ros__parameters:"]
        for row in table:
            unit = f" [{row.unit}]" if row.unit else ""
            lines.append(f"    # {row.description}{unit} ({row.expected})")
            lines.append(f"    {row.name}: {_yaml(row.default)}")
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
