"""When a map is good enough: how much of it within a TVU, and how near to pings. No rclpy."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..planning.tvu import ORDERS
from ..settings import check, setting
from .gate_settings import MAX_LEVEL


def _order(name: str) -> None:
    if name and name not in ORDERS:
        raise InputError(f"expected one of {', '.join(ORDERS)}, or nothing, got {name[:40]!r}")


@dataclass(frozen=True)
class TargetSettings:
    """When a map is good enough. docs/good-enough.md explains.

    Raises:
        InputError: a value is outside its range.
    """

    target_tvu: str = setting(
        "",
        "The mission is done when target_share of the workspace is within the total vertical "
        "uncertainty of this S-44 order (exclusive, special, 1a, 1b, 2); empty: no such end",
        mutable=True,
        check=_order,
    )
    target_share: float = setting(
        0.95,
        "The share of it that is to be within; of the places under water that may be entered",
        minimum=0.001,
        maximum=1.0,
        mutable=True,
    )
    target_distance: float = setting(
        0.0,
        "No place is to be farther from a ping than this, and the mission closes the gaps before "
        "its end; 0, with target_depths 0: no such guarantee",
        "m",
        minimum=0.0,
        maximum=1e5,
        mutable=True,
    )
    target_depths: float = setting(
        0.0,
        "Where this many times the depth is more than target_distance, that counts "
        "(max(3 d, 25 m): 3 and 25)",
        minimum=0.0,
        maximum=100.0,
        mutable=True,
    )
    water_level: float = setting(
        0.0,
        "Height of the water's surface above the map's datum, by which depths are reckoned, until "
        "one comes on the topic water_level",
        "m",
        minimum=-MAX_LEVEL,
        maximum=MAX_LEVEL,
        mutable=True,
    )

    def __post_init__(self) -> None:
        check(self)

    @property
    def guarantees(self) -> bool:
        """Whether places may only be so far from a ping."""
        return self.target_distance > 0 or self.target_depths > 0

    @property
    def by_depth(self) -> bool:
        """Whether what is asked for depends on the depth."""
        return bool(self.target_tvu) or self.target_depths > 0

    @property
    def on(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.target_tvu) or self.guarantees

    @property
    def rule(self) -> str:
        """How far from a ping a place may be, in words."""
        near, depths = f"{self.target_distance:g} m", f"{self.target_depths:g} x the depth"
        if not self.target_depths:
            return near
        return f"max({depths}, {near})" if self.target_distance else depths
