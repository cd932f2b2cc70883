"""False echoes, crossings of lines, shifts of positions. Here the settings: loaded by whatever has
options, so without SciPy."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.settings import Settings, setting


@dataclass(frozen=True)
class ScreeningSettings(Settings):
    """Whether false echoes are looked for, and shifts of positions."""

    prefix = "screening"

    enabled: bool = setting(
        False, "Leave pings out of the map that the track and other passes show to be false echoes"
    )
    position_std: float = setting(
        0.35, "Standard deviation of positions over a survey. Differences at crossings that it "
        "explains are no shift of the origin. Raise it for fixes that wander more. 0: never look "
        "for a shift",
        "m", 0.0, 100.0,
    )  # fmt: skip
