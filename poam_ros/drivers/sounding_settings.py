"""How placed soundings become a map. Imports no torch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np

from ..gp.models import ModelSettings
from ..samples import Samples
from ..settings import Value, check, setting
from ..survey.along_track import REACH
from ..survey.screening import ScreeningSettings

log = logging.getLogger(__name__)

#: What a map of soundings gives its model, where it is not what a vehicle's has: lines that lie far
#: apart are predicted from few soundings of many places, and there is time for them.
ON_MAP: dict[str, Value] = {
    "method": "nngp",
    "tail": 10.0,
    "neighbours": 32,
    "pool": 1000,
    "apart": 0.2,
    "anisotropy_penalty": 100.0,
    "shared_anisotropy": 0.1,
}

#: Soundings of the first batch, of another, and how many batches a long record is cut into.
FIRST, SMALL, MOST = 600, 60, 1000
#: Share of soundings beside the one before from which a record is taken for a track.
TRACK = 0.5


@dataclass(frozen=True)
class SoundingMapSettings:
    """How soundings become a map.

    Raises:
        InputError: a value is wrong.
    """

    seed: int = setting(0, "Same seed, same map and same folds", minimum=0, maximum=2**31 - 1)
    first_batch: int = setting(
        0, "Soundings of the first batch, which fixes the scales; 0: 600, or of a recording as the "
        "live mapper closed it", minimum=0, maximum=1_000_000,
    )  # fmt: skip
    batch_size: int = setting(
        0, "Soundings of every further batch; 0: 60, or a thousandth of them all where that is "
        "more, or of a recording as the live mapper closed them", minimum=0, maximum=1_000_000,
    )  # fmt: skip
    water_level: float = setting(
        0.0, "Elevation of the water's surface, from which ranges are counted", "m", -1e4, 1e4
    )
    stretches: int = setting(
        16, "Stretches of the record, each predicted from the others at the end, that say how far "
        "the map's intervals must be widened; 0: not at all", minimum=0, maximum=1000,
    )  # fmt: skip
    model: ModelSettings = field(default_factory=lambda: ModelSettings.of(ON_MAP))
    screening: ScreeningSettings = field(default_factory=lambda: ScreeningSettings(screening=True))

    def __post_init__(self) -> None:
        check(self)

    def batches(self, count: int) -> list[slice]:
        """The batches of so many soundings, in order."""
        size = self.batch_size or max(SMALL, count // MOST)
        ends = [*range(self.first_batch or FIRST, count, size), count]
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def screened(self, samples: Samples, say: bool = True) -> SoundingMapSettings:
        """Without screening where it cannot tell: soundings above the water, whose ranges are not
        known, or a record that is no track, in which there is nothing beside a sounding."""
        reason = _against_screening(samples, self.water_level)
        if not (self.screening.screening and reason):
            return self
        if say:
            log.warning("no screening: %s", reason)
        return replace(self, screening=replace(self.screening, screening=False))


def _against_screening(samples: Samples, water_level: float) -> str:
    """Why these cannot be screened; empty where they can."""
    dry = int((samples.range <= 0).sum())
    if dry:
        return (
            f"{dry} of {len(samples)} soundings are not below the water's surface at "
            f"{water_level:g} m (water_level)"
        )
    steps = np.hypot(*np.diff(samples.xy, axis=0).T)
    depths = np.minimum(samples.range[1:], samples.range[:-1])
    beside = float((steps <= np.maximum(REACH, depths / 2)).mean()) if len(steps) else 1.0
    if beside < TRACK:
        return f"only {100 * beside:.0f} % of the soundings lie beside the one before"
    return ""
