"""How placed soundings become a map. Imports no torch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from ..gp.models import ModelSettings
from ..samples import Samples
from ..settings import check, setting
from ..survey.screening import ScreeningSettings

log = logging.getLogger(__name__)

#: Soundings of a batch, and how many batches a long record is cut into.
SMALL, MOST = 60, 1000


@dataclass(frozen=True)
class SoundingMapSettings:
    """How soundings become a map.

    Raises:
        InputError: a value is wrong.
    """

    seed: int = setting(0, "Same seed, same map and same folds", minimum=0, maximum=2**31 - 1)
    first_batch: int = setting(
        600, "Soundings of the first batch, which fixes the scales", minimum=5, maximum=1_000_000
    )
    batch_size: int = setting(
        0, "Soundings of every further batch; 0: 60, or a thousandth of them all where that is "
        "more", minimum=0, maximum=1_000_000,
    )  # fmt: skip
    water_level: float = setting(
        0.0, "Elevation of the water's surface, from which ranges are counted", "m", -1e4, 1e4
    )
    model: ModelSettings = field(default_factory=lambda: ModelSettings(method="nngp"))
    screening: ScreeningSettings = field(default_factory=lambda: ScreeningSettings(screening=True))

    def __post_init__(self) -> None:
        check(self)

    def batches(self, count: int) -> list[slice]:
        """The batches of so many soundings, in order."""
        size = self.batch_size or max(SMALL, count // MOST)
        ends = [*range(self.first_batch, count, size), count]
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def screened(self, samples: Samples, say: bool = True) -> SoundingMapSettings:
        """Without screening where ranges are not known: of soundings above the water."""
        dry = int((samples.range <= 0).sum())
        if not (self.screening.screening and dry):
            return self
        if say:
            log.warning(
                "no screening: %d of %d soundings are not below the water's surface, at %g m "
                "(water_level)", dry, len(samples), self.water_level,
            )  # fmt: skip
        return replace(self, screening=replace(self.screening, screening=False))
