"""The settings of what is drawn for viewers. No rclpy."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import check, setting


@dataclass(frozen=True)
class DrapeSettings:
    """How maps are draped.

    Raises:
        InputError: a value is outside its range.
    """

    exaggeration: float = setting(
        1.0, "Elevations are drawn this many times as large", minimum=0.01, maximum=1000.0,
        mutable=True,
    )  # fmt: skip
    water_level: float = setting(
        0.0, "Level of the water: the TVU's depths count from it, and an exaggeration leaves it "
        "where it is", "m", minimum=-1e5, maximum=1e5, mutable=True,
    )  # fmt: skip
    most_cells: int = setting(
        40_000, "Of larger maps, rows and columns are left out until about this many cells are "
        "left", minimum=100, maximum=4_000_000, mutable=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check(self)
