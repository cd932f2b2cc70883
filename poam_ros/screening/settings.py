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

    prefix = "screening"

    enabled: bool = setting(
        False, "Hold pings that contradict track and map until others confirm them"
    )
    echo_ratio: float = setting(
        1.35, "Hold a ping whose range is this many times the expected one, or its inverse",
        minimum=1.01, maximum=10.0,
    )  # fmt: skip
    echo_deviations: float = setting(
        2.0, "Accept a ping within this many standard deviations of the map",
        minimum=0.1, maximum=100.0,
    )  # fmt: skip
    confirm_pings: int = setting(
        8, "Accept held pings as ground when this many in a row are smooth", "", 2, 10_000
    )
    confirm_radius: float = setting(
        5.0, "Accept held pings when one of another pass lies this near", "m", 0.0, 1e5
    )
    held_pings: int = setting(
        1000, "Hold at most this many pings. Beyond that, refuse the oldest", "", 0, 100_000
    )

    def __post_init__(self) -> None:
        check(self)
