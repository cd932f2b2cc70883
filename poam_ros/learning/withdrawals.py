"""Which accepted pings enter the model: the verdicts by crossing lines, applied."""

from __future__ import annotations

import numpy as np

from ..core.samples import Samples
from ..journal.interface import WITHDRAW, JournalStep


class Withdrawals:
    """The pings that are withdrawn, and those that were reinstated and are not in the model yet.

    Attributes:
        withdrawn: accepted pings that crossing lines show to be false echoes.
        multiple: 2 or 3 if a withdrawn ping is a double or triple echo, else 0 [n].
    """

    def __init__(self) -> None:
        self.withdrawn = self._reinstated = Samples.empty()
        self.multiple = np.empty(0, dtype=np.int64)

    def apply(self, step: JournalStep, pings: Samples, model: Samples) -> None:
        """Withdraw or reinstate the pings of a step; ``model``: the pings in the model."""
        others = ~np.isin(self.withdrawn.number, pings.number)
        self.withdrawn, self.multiple = self.withdrawn[others], self.multiple[others]
        self._reinstated = without(self._reinstated, pings.number)
        if step.kind == WITHDRAW:
            self.withdrawn = Samples.joined([self.withdrawn, pings])
            self.multiple = np.r_[self.multiple, np.full(len(pings), step.steps)]
        else:
            missing = without(pings, model.number)
            self._reinstated = Samples.joined([self._reinstated, missing])

    def to_learn(self, batch: Samples) -> Samples:
        """What enters the model with a batch: reinstated pings, then those not withdrawn."""
        if not (len(self.withdrawn) or len(self._reinstated)):
            return batch
        others = np.concatenate((self.withdrawn.number, self._reinstated.number))
        return Samples.joined([self._reinstated, without(batch, others)])

    def learned(self) -> None:
        """The reinstated pings are in the model."""
        self._reinstated = Samples.empty()


def without(pings: Samples, numbers: np.ndarray) -> Samples:
    """The pings that have none of the numbers."""
    return pings[~np.isin(pings.number, numbers)]
