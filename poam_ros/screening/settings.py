"""Settings of the screen for false echoes."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.settings import check, setting


@dataclass(frozen=True)
class ScreeningSettings:
    """Which pings are doubted, and what confirms them.

    Raises:
        InputError: a value is outside its range.
    """

    screening: bool = setting(
        False, "Pings that contradict track and map are held until others confirm them"
    )
    echo_ratio: float = setting(
        1.35,
        "A ping is doubted whose range is this many times the expected one, or as small a part",
        minimum=1.01,
        maximum=10.0,
    )
    echo_deviations: float = setting(
        2.0,
        "Deviations from the map within which it vouches for a ping",
        minimum=0.1,
        maximum=100.0,
    )
    confirm_pings: int = setting(8, "Smooth doubted pings in a row that are ground", "", 2, 10_000)
    confirm_radius: float = setting(
        5.0, "Held pings of another pass this near confirm each other", "m", 0.0, 1e5
    )
    held_pings: int = setting(
        1000, "Pings held at most; beyond that the oldest are refused", "", 0, 100_000
    )

    def __post_init__(self) -> None:
        check(self)
