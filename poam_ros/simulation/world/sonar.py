"""The settings of a simulated sonar and of its faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ...core.settings import check, setting

if TYPE_CHECKING:
    from .terrain import Terrain

FAULTS = ("dropout", "outlier", "nan", "inf", "false_echo")
#: Of a number that is not negative: what suits the terrain.
OWN = -1.0


def _share(of_pings: str) -> Any:
    return setting(0.0, f"Share of the pings that {of_pings}", minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class SonarSettings:
    """The sonar and its faults; NaN and infinities as in REP-117.

    Raises:
        InputError: if a value is out of its range.
    """

    prefix = "sonar"

    rate: float = setting(
        3.0, "Rate of the sonar", "Hz", minimum=0.01, maximum=1000.0, name="sonar_rate"
    )
    noise_std: float = setting(
        OWN, "Standard deviation of a range. -1: what suits the terrain, 1 m, over lake 0.1 m", "m",
        minimum=OWN, maximum=1e3,
    )  # fmt: skip
    clearance: float = setting(
        OWN, "Height of the sonar above the highest ground. -1: what suits the terrain, 5 m, over "
        "lake 2.5 m, which is 0.5 m under water", "m", minimum=OWN, maximum=1e5,
    )  # fmt: skip
    min_range: float = setting(0.1, "Shortest valid range", "m", minimum=0.0, maximum=1e5)
    max_range: float = setting(
        0.0, "Longest valid range. 0: enough for the deepest ground", "m", minimum=0.0, maximum=1e6
    )
    # Also of the stamp: a sonar that stamps late, which the mapper corrects by an offset.
    latency: float = setting(
        0.0, "Stamp and deliver pings this late", "s", minimum=0.0, maximum=60.0
    )
    dropout: float = _share("are never delivered")
    outlier: float = _share("lie beyond max_range")
    nan: float = _share("are NaN (erroneous)")
    inf: float = _share("are +Inf or -Inf (no return, too close)")
    false_echo: float = _share("are 1.5 to 3 times as long as they should be")

    def __post_init__(self) -> None:
        check(self)
        for name, least in (("noise_std", 0.0), ("clearance", 0.01)):
            value = getattr(self, name)
            if value != OWN and value < least:
                raise InputError(f"{name}: expected at least {least:g}, or -1, got {value:g}")
        if self.max_range and not self.min_range < self.max_range:
            raise InputError(
                f"max_range: expected more than min_range = {self.min_range}, or 0, "
                f"got {self.max_range}"
            )
        total = sum(getattr(self, name) for name in FAULTS)
        if total > 1 + 1e-12:
            raise InputError(f"{', '.join(FAULTS)}: expected a sum of at most 1, got {total}")

    def over(self, terrain: Terrain) -> SonarSettings:
        """These settings with values for what they leave to a terrain.

        The terrain needs ``highest``, ``lowest`` and ``sonar_defaults``.
        """
        own = terrain.sonar_defaults
        noise_std = own.noise_std if self.noise_std == OWN else self.noise_std
        clearance = own.clearance if self.clearance == OWN else self.clearance
        # Ten standard deviations: no correct ping of the deepest bottom counts as an outlier.
        deepest = clearance + float(terrain.highest) - float(terrain.lowest)
        enough = max(deepest, self.min_range) + 1.0 + 10.0 * noise_std
        longest = self.max_range or enough
        return replace(self, noise_std=noise_std, clearance=clearance, max_range=longest)
