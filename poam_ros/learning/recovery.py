"""Recovery after a restart: the model is brought to where the journal ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..core.errors import InputError, quantity
from ..core.samples import Samples
from ..frontend.events import LoopEvent, Problem
from ..journal.database import set_aside
from ..journal.folder import CHECKPOINT, Checkpoint, read_checkpoint
from ..journal.tables import DROP, REINSTATE, UPDATE, WITHDRAW, JournalContents, withdrawn_after
from .updater import ModelUpdater, Withdrawals, without


class Recovery:
    """Repeats the steps of the journal, from the checkpoint on if there is a usable one.

    Args:
        folder: of the checkpoint; None: no checkpoint.
        logged: the contents of the journal.
        truncate: called with the number of steps that could be repeated if the next one could not:
            the journal's other steps did not happen to this model.
        after_reset: whether the mission was reset before.
        damage: what was damaged in the journal, to be logged.

    Attributes:
        data: all accepted pings of the journal.
        unlearned: those that are in no step and go into the next batch.
        withdrawn: number of accepted pings that are withdrawn at the end.
        refused: see ``JournalContents``.
    """

    def __init__(
        self,
        folder: Path | None,
        logged: JournalContents,
        truncate: Callable[[int], object],
        after_reset: bool = False,
        damage: Sequence[str] = (),
    ) -> None:
        self._folder, self._truncate, self._damage = folder, truncate, damage
        self.data, self.steps, self.after_reset = logged.samples, logged.steps, after_reset
        self.refused, self.withdrawn = logged.refused, len(withdrawn_after(logged.steps))
        self.unlearned = self._after(len(self.steps))

    @property
    def in_use(self) -> Samples:
        """The accepted pings that are not withdrawn."""
        return without(self.data, np.fromiter(withdrawn_after(self.steps), np.int64))

    def __len__(self) -> int:
        """Number of pings and steps: 0 if there is nothing to recover."""
        return len(self.data) + len(self.steps)

    def run(self, updater: ModelUpdater, now_ns: int) -> Iterator[LoopEvent]:
        """Repeat the steps on a new updater, and draw the map."""
        for text in self._damage:
            yield Problem("log", text, error=False)
        try:
            done = self._restored(updater)
        except InputError as error:
            done = 0
            updater.reset()
            if self._folder is not None:
                with suppress(OSError):  # before the next checkpoint replaces it
                    set_aside(self._folder, [self._folder / CHECKPOINT])
            text = f"{error}; the whole journal is repeated"
            yield Problem("checkpoint", text, error=False)
        for number, step in enumerate(self.steps[done:], start=done):
            try:
                outcome = updater.repeat(step, self.data[step.first : step.last + 1])
            except Exception as error:  # whatever it is, no ping is lost
                self.unlearned = self._after(number)
                text = f"step {number + 1} of {len(self.steps)} of the journal cannot be repeated"
                again = f"{quantity(len(self.unlearned), 'ping')} must enter the model again"
                failure = updater.failed(error, f"{text}: {again}")
                self._truncate(number)
                yield failure
                break
            if outcome is not None:
                yield outcome
        stamps = [step.stamp_ns for step in self.steps if step.kind == UPDATE]
        yield from updater.draw(stamps[-1] if stamps else now_ns)

    def _restored(self, updater: ModelUpdater) -> int:
        """Restore the checkpoint, if there is one; returns the number of steps in it."""
        checkpoint = None if self._folder is None else read_checkpoint(self._folder)
        if checkpoint is None:
            return 0
        inside, withdrawals = self._in_model(checkpoint, updater.mapper.forgets)
        updater.recover(checkpoint, inside, withdrawals, self.steps[: checkpoint.steps])
        return checkpoint.steps

    def _in_model(self, checkpoint: Checkpoint, forgets: bool) -> tuple[Samples, Withdrawals]:
        """The pings in the model at a checkpoint, and those that are withdrawn then."""
        steps, parts, found = self.steps[: checkpoint.steps], [Samples.empty()], Withdrawals()
        for step in steps:
            pings = self.data[step.first : step.last + 1]
            if step.kind == UPDATE:
                parts.append(found.to_learn(pings))
                found.learned()
            elif step.kind in (WITHDRAW, REINSTATE):
                parts = [Samples.joined(parts)]
                found.apply(step, pings, parts[0])
                if step.kind == WITHDRAW and forgets:
                    parts = [without(parts[0], pings.number)]
        samples = Samples.joined(parts)
        if len(steps) != checkpoint.steps or len(samples) != checkpoint.pings:
            raise InputError("checkpoint: it does not match the journal")
        return samples, found

    def _after(self, number: int) -> Samples:
        """The pings that are in none of the first ``number`` steps."""
        taken = [step.last for step in self.steps[:number] if step.kind in (UPDATE, DROP)]
        return self.data[max(taken, default=-1) + 1 :]
