"""The verdicts on accepted pings, and on positions, before each batch of the model."""

from __future__ import annotations

import numpy as np

from ..core.samples import Samples
from ..frontend.events import LoopEvent, Message, PositionsShifted, Problem
from ..journal.tables import DROP, REINSTATE, UPDATE, WITHDRAW, JournalStep
from ..screening import ScreeningSettings
from ..screening.judge import (
    NEWEST,
    Judge,
    LineVerdict,
    PingBlocks,
    ShiftWatch,
    line_verdicts,
)
from ..screening.lines import JUMP, LEAST_STEP, STRIDE
from .recovery import Recovery
from .updater import ModelUpdater

#: Pings after a jump, in a row, at which a model that cannot forget learns them.
CONFIRMED = 64


class BatchVerdicts:
    """Withdraws and reinstates pings, and finds shifts of positions, before each batch is learned.

    Args:
        updater: of the model, which follows the verdicts.
        settings: of the screening.

    Attributes:
        settings: as given.
        watch: the crossings so far, and the last shift of positions.
        withdrawn_lines: the newest withdrawn lines. They are found when verdicts change, and may be
            read on any thread.
    """

    def __init__(self, updater: ModelUpdater, settings: ScreeningSettings) -> None:
        self._updater, self.settings = updater, settings
        self.clear()

    def clear(self) -> None:
        """Forget all pings."""
        self._blocks = PingBlocks()
        self._judge = Judge(self._blocks)
        self.watch = ShiftWatch(self._blocks, self.settings.position_std)
        self.withdrawn_lines: list[LineVerdict] = []

    def recover(self, recovery: Recovery) -> None:
        """Continue after the pings that were in batches before a restart."""
        begin, steps = 0, recovery.steps
        if not (self.settings.enabled or any(step.kind == WITHDRAW for step in steps)):
            return
        self._blocks.add(recovery.data[: max((step.last + 1 for step in steps), default=0)])
        for step in steps:
            if step.kind in (UPDATE, DROP):
                begin = step.last + 1
                continue
            rows = np.arange(step.first, step.last + 1)
            multiple = 1 if step.kind == REINSTATE else step.steps
            self._judge.follow(rows, np.full(len(rows), multiple), begin)
        self.watch.decide(self._updater.withdrawals.withdrawn.number)
        self._find_withdrawn_lines()

    def _find_withdrawn_lines(self) -> None:
        withdrawn = self._updater.withdrawals.withdrawn
        order = np.argsort(withdrawn.number, kind="stable")
        multiple = self._updater.withdrawals.multiple[order]
        self.withdrawn_lines = self._lines(withdrawn[order], multiple)[: -NEWEST - 1 : -1]

    def _lines(self, pings: Samples, multiple: np.ndarray) -> list[LineVerdict]:
        data = self._blocks.data
        stride = STRIDE * float(np.ptp(data.xy, axis=0).max()) if len(data) else 0.0
        return line_verdicts(pings, multiple, stride)

    def decide(self, batch: Samples, stamp_ns: int) -> tuple[list[JournalStep], list[LoopEvent]]:
        """Withdraw and reinstate pings near a batch, and those of the batch; look for a shift.

        Returns:
            The steps taken, and what changed or was found in words, or what failed.
        """
        steps, events = list[JournalStep](), list[LoopEvent]()
        if not self.settings.enabled:
            return steps, events
        updater, blocks = self._updater, self._blocks
        known = int(blocks.data.number[-1]) if len(blocks.data) else -1  # some in an earlier try
        blocks.add(batch[np.flatnonzero(batch.number > known)])
        try:
            rows, multiple = self._judge.judge(len(batch))
            pings = blocks.data[rows]
            cuts = np.flatnonzero((np.diff(pings.number) != 1) | (np.diff(multiple) != 0)) + 1
            changes = []  # a step for each run of successive numbers with one verdict
            for part in np.split(np.arange(len(rows)), cuts) if len(rows) else ():
                first, last = pings.number[part[[0, -1]]].tolist()
                what = int(multiple[part[0]])
                kind, what = (REINSTATE, 0) if what == 1 else (WITHDRAW, what)
                changes.append((JournalStep(kind, first, last, what, stamp_ns), pings[part]))
            text = self._said(pings, multiple)  # by the pings in the model before
            updater.change(changes)
            self._judge.follow(rows, multiple, len(blocks.data) - len(batch))
            steps += [step for step, _ in changes]
            if text:
                events.append(Problem(Message("crossings", text), error=False))
            shift = self.watch.decide(updater.withdrawals.withdrawn.number)
            if shift is not None:
                events.append(PositionsShifted(shift.sentence))
            if steps:
                self._find_withdrawn_lines()
        except Exception as error:
            events.append(updater.failed(error, "no more pings are withdrawn or reinstated"))
        return steps, events

    def unconfirmed(self, batch: Samples) -> int:
        """The pings at the end of a batch, after a jump, that a model that cannot forget shall not
        learn yet: more pings will show what they are."""
        if not self.settings.enabled or self._updater.mapper.forgets:
            return 0
        rows = np.flatnonzero(~np.isin(batch.number, self._updater.withdrawals.withdrawn.number))
        rows = rows[np.isfinite(batch.range[rows])]
        ranges = batch.range[rows]
        low = np.minimum(ranges[1:], ranges[:-1])
        jumps = rows[1:][np.abs(np.diff(ranges)) > JUMP * low + LEAST_STEP]
        later = len(batch) - int(jumps[-1]) if len(jumps) else 0
        return later if later < CONFIRMED else 0

    def _said(self, pings: Samples, multiple: np.ndarray) -> str:
        """Changes of whole lines in words; says so if the model cannot follow them."""
        mapper, texts = self._updater.mapper, []
        for verdict in self._lines(pings, multiple):
            inside = int(np.isin(verdict.pings.number, mapper.data.number).sum())
            stay = inside and not mapper.forgets and verdict.multiple != 1
            more = f" ({inside} stay in the map: this model cannot forget pings)" if stay else ""
            texts.append(verdict.sentence + more)
        return "; ".join(texts)
