"""False echoes: which placed pings are believed, which are held until others confirm them.

A false echo comes late (it went to and fro twice, or by a detour) or early (fish, bubbles): its
range is another than what the pings beside it measured, by a ratio. So are the first pings beyond
a cliff. They differ in what comes next: ground goes on smoothly, an echo jumps back or jitters.

The same pings and the same predictions are judged the same. Metres everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..samples import Samples
from .doubts import Memory, Predict, Trial
from .remembering import memory_of, text_of
from .screening_settings import ScreeningSettings

__all__ = ["FALSE_ECHO", "Judgement", "Screen", "ScreeningSettings"]

#: Why pings are refused that nothing confirms.
FALSE_ECHO = "false_echo"


@dataclass(frozen=True)
class Judgement:
    """What became of the pings: those believed, in the order of arrival, and those refused;
    ``held``: those that wait."""

    accepted: Samples
    refused: Samples
    held: Samples


class Screen:
    """Judges placed pings, batch after batch, and holds those that it doubts."""

    def __init__(self, settings: ScreeningSettings) -> None:
        self.settings = settings
        self.clear()

    @property
    def held(self) -> Samples:
        """What waits to be confirmed, in the order of arrival."""
        return self._memory.held

    def clear(self) -> None:
        """Forget the track and what is held."""
        self._memory = Memory()

    def remembered(self) -> str:
        """What it goes by beside what is held, as text."""
        return text_of(replace(self._memory, held=Samples.empty()))

    def recall(self, held: Samples, text: str) -> None:
        """Go on where another screen was, which held these pings and remembered this.

        Raises:
            InputError: the other's rules were not these.
        """
        self._memory = replace(memory_of(text), held=held)

    def judge(self, fresh: Samples, predict: Predict | None, final: bool = False) -> Judgement:
        """Judge new pings, and those held so far again.

        Args:
            fresh: placed pings with their ranges, in the order of arrival.
            predict: what the map expects; None where there is none yet. May raise; then nothing
                was judged.
            final: nothing comes after this: what nothing has confirmed is refused.
        """
        memory = self._memory
        trial = Trial(self.settings, memory, fresh, predict)
        trial.judge()
        trial.review(final)
        trial.leave()
        accepted, refused = (
            trial.pings[np.flatnonzero(heap)] for heap in (trial.believed, trial.refused)
        )
        return Judgement(accepted, refused, memory.held)
