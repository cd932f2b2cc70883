"""Where and how a mission is kept."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import check, setting


@dataclass(frozen=True)
class KeepingSettings:
    """Where and how a mission is kept.

    Raises:
        InputError: a value is outside its range.
    """

    mission_dir: str = setting(
        "",
        "Folder that the mission is kept in, and goes on from after a restart; empty: nothing is",
    )
    checkpoint_period: float = setting(
        30.0,
        "Least time between two checkpoints of the model, from which a restart goes on",
        "s",
        minimum=0.1,
        maximum=86400.0,
    )

    def __post_init__(self) -> None:
        check(self)
