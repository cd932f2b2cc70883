"""What crossing lines say of accepted pings and positions, before each batch of the model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.samples import Samples
from ..frontend.events import LoopEvent, Message, PositionsShifted, Problem
from ..journal.interface import REINSTATE, SHIFT, WITHDRAW, JournalStep, withdrawn_after
from ..screening.blocks import PingBlocks
from ..screening.lines import STRIDE
from ..screening.screen import ScreeningSettings
from ..screening.shift import ShiftWatch
from ..screening.verdicts import LineVerdict, LineVerdicts, withdrawn_lines
from .recovery import Recovery
from .updater import ModelUpdater


class BatchVerdicts:
    """Withdraws and reinstates pings, and finds shifts of positions, before each batch is learned.

    Args:
        updater: of the model, which follows the verdicts.
        settings: of the screening.

    Attributes:
        watch: the crossings so far, and the last shift of positions.
        withdrawn_lines: the newest withdrawn lines, by their crossings so far. They are found when
            these change, and may be read on any thread.
    """

    def __init__(self, updater: ModelUpdater, settings: ScreeningSettings) -> None:
        self._updater, self._settings = updater, settings
        self._enabled = settings.enabled and settings.crossings
        self.clear()

    def clear(self) -> None:
        """Forget all pings."""
        self._blocks = PingBlocks()
        self._verdicts = LineVerdicts(self._blocks)
        self.watch = ShiftWatch(self._blocks, self._settings.position_std)
        self.withdrawn_lines: list[LineVerdict] = []
        self._known = 0  # first pings of the next batch that were in an earlier try

    def recover(self, recovery: Recovery) -> None:
        """Continue after the pings that were in batches before a restart."""
        known, steps = len(recovery.data) - len(recovery.unlearned), recovery.steps
        shifts = [
            (step.first, step.last, np.fromiter(withdrawn_after(steps[:i]), np.int64))
            for i, step in enumerate(steps)
            if step.kind == SHIFT and step.last < known
        ]
        if self._enabled or shifts or len(self._updater.withdrawals.withdrawn):
            self._blocks.add(recovery.data[:known])
            self.watch.recover(shifts)
            self._find_withdrawn_lines()

    def _find_withdrawn_lines(self) -> None:
        of, data = self._updater.withdrawals, self._blocks.data
        stride = STRIDE * float(np.ptp(data.xy, axis=0).max()) if len(data) else 0.0
        self.withdrawn_lines = withdrawn_lines(
            of.withdrawn, of.multiple, self.watch.crossings, stride
        )

    def learned(self) -> None:
        """The batch is not tried again."""
        self._known = 0

    def decide(self, batch: Samples, stamp_ns: int) -> tuple[list[JournalStep], list[LoopEvent]]:
        """Withdraw and reinstate pings near a batch, and those of the batch; look for a shift.

        Returns:
            The steps taken, and what changed or was found in words, or what failed.
        """
        if not self._enabled:
            return [], []
        updater = self._updater
        steps: list[JournalStep] = []
        events: list[LoopEvent] = []
        fresh, self._known = batch[self._known :], len(batch)
        self._blocks.add(fresh)
        crossings, compared = len(self.watch.crossings), self._verdicts.compared
        try:
            verdicts = self._verdicts.decide(len(fresh), updater.withdrawals.withdrawn.number)
            updater.compared = self._verdicts.compared > compared
            text = "; ".join(map(self._sentence, verdicts))  # by the pings in the model before
            changes = [each for verdict in verdicts for each in _changes(verdict, stamp_ns)]
            updater.change(changes)
            if changes:
                events.append(Problem(Message("crossings", text), error=False))
                steps += [step for step, _ in changes]
            shift = self.watch.decide(updater.withdrawals.withdrawn.number)
            if shift is not None:
                steps.append(JournalStep(SHIFT, shift.first, shift.last, stamp_ns=stamp_ns))
                events.append(PositionsShifted(shift.sentence))
            if steps or len(self.watch.crossings) > crossings:
                self._find_withdrawn_lines()
        except Exception as error:
            events.append(updater.failed(error, "no more pings are withdrawn or reinstated"))
        return steps, events

    def _sentence(self, verdict: LineVerdict) -> str:
        """A verdict in words; says so if the model cannot follow it."""
        mapper, numbers = self._updater.mapper, verdict.pings.number
        inside = int(np.isin(numbers, mapper.data.number).sum())
        if mapper.forgets or verdict.multiple == 1 or not inside:
            return verdict.sentence
        return f"{verdict.sentence} ({inside} stay in the map: this model cannot forget pings)"


def _changes(verdict: LineVerdict, stamp_ns: int) -> Iterator[tuple[JournalStep, Samples]]:
    """The steps of a verdict with their pings, one for each run of successive numbers."""
    pings = verdict.pings[np.argsort(verdict.pings.number)]
    kind, what = (REINSTATE, 0) if verdict.multiple == 1 else (WITHDRAW, verdict.multiple)
    for rows in np.split(np.arange(len(pings)), np.flatnonzero(np.diff(pings.number) != 1) + 1):
        first, last = pings.number[rows[[0, -1]]].tolist()
        yield JournalStep(kind, first, last, what, stamp_ns=stamp_ns), pings[rows]
