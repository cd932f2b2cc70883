"""What the parameters of a vehicle's nodes are, where the nodes have something else."""

from __future__ import annotations

from dataclasses import replace

from ..settings import Setting, Value
from .parameters import NODES

#: What a vehicle's launch file and parameter file give, where it is not what the nodes have: the
#: more accurate model and planner, and no false echoes. The nodes' own defaults are the paper's.
ON_ROBOT: dict[str, Value] = {
    "method": "nngp",
    "planner": "path-entropy",
    "training_duty": 0.05,
    "screening": True,
}


def robot_tables() -> dict[str, tuple[Setting, ...]]:
    """The tables of a vehicle's nodes with its defaults."""
    return {
        node: tuple(
            replace(row, default=ON_ROBOT[row.name]) if row.name in ON_ROBOT else row
            for row in NODES[node]
        )
        for node in ("mapper", "planner")
    }
