"""Verdicts by crossing lines about accepted pings, before each batch is learned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.samples import Samples
from ..frontend.events import LoopEvent, Message, Problem
from ..journal.interface import REINSTATE, WITHDRAW, JournalStep
from ..screening.verdicts import LineVerdicts, Verdict
from .updater import ModelUpdater


class BatchVerdicts:
    """Withdraws and reinstates pings before each batch is learned.

    Args:
        updater: of the model, which follows the verdicts.
        enabled: whether to compare lines at all.
    """

    def __init__(self, updater: ModelUpdater, enabled: bool) -> None:
        self._updater, self._enabled, self._verdicts = updater, enabled, LineVerdicts()
        self._known = 0  # first pings of the next batch that were in an earlier try

    def clear(self) -> None:
        """Forget all pings."""
        self._verdicts.clear()
        self._known = 0

    def recover(self, pings: Samples) -> None:
        """Continue after these pings, which were in batches before a restart."""
        if self._enabled:
            self._verdicts.add(pings)

    def learned(self) -> None:
        """The batch is not tried again."""
        self._known = 0

    def decide(self, batch: Samples, stamp_ns: int) -> tuple[list[JournalStep], list[LoopEvent]]:
        """Withdraw and reinstate pings near a batch, and those of the batch.

        Returns:
            The steps taken, and what changed in words, or what failed.
        """
        if not self._enabled:
            return [], []
        updater, texts = self._updater, list[str]()
        steps: list[JournalStep] = []
        events: list[LoopEvent] = []
        fresh, self._known = batch[self._known :], len(batch)
        self._verdicts.add(fresh)
        try:
            for verdict in self._verdicts.decide(len(fresh), updater.withdrawals.withdrawn.number):
                text = self._sentence(verdict)
                for step, pings in _changes(verdict, stamp_ns):
                    updater.change(step, pings)
                    steps.append(step)
                texts.append(text)
        except Exception as error:
            events.append(updater.failed(error, "no more pings are withdrawn or reinstated"))
        if texts:
            events.append(Problem(Message("crossings", "; ".join(texts)), error=False))
        return steps, events

    def _sentence(self, verdict: Verdict) -> str:
        """A verdict in words; says so if the model cannot follow it."""
        mapper, numbers = self._updater.mapper, verdict.pings.number
        inside = int(np.isin(numbers, mapper.data.number).sum())
        if mapper.forgets or verdict.multiple == 1 or not inside:
            return verdict.sentence
        return f"{verdict.sentence} ({inside} stay in the map: this model cannot forget pings)"


def _changes(verdict: Verdict, stamp_ns: int) -> Iterator[tuple[JournalStep, Samples]]:
    """The steps of a verdict with their pings, one for each run of successive numbers."""
    pings = verdict.pings[np.argsort(verdict.pings.number)]
    kind = REINSTATE if verdict.multiple == 1 else WITHDRAW
    for rows in np.split(np.arange(len(pings)), np.flatnonzero(np.diff(pings.number) != 1) + 1):
        first, last = pings.number[rows[[0, -1]]].tolist()
        yield JournalStep(kind, first, last, stamp_ns=stamp_ns), pings[rows]
