"""A mission that goes on: the model is brought to where its log ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import InputError
from ..core.samples import Samples
from ..frontend.events import LoopEvent, Message, Problem
from ..journal.checkpoint import NAME, Checkpoint, read_checkpoint
from ..journal.contents import DROP, TRAIN, UPDATE, JournalContents, JournalStep
from ..journal.log import set_aside

if TYPE_CHECKING:
    from .updater import ModelUpdater


class Recovery:
    """Repeats what a log says, from the checkpoint on where there is one that can be used.

    Args:
        folder: of the checkpoint; None: there is none.
        logged: what the log holds.
        forget: called with a number of steps where the one after them could not be repeated: what
            the log says from there on did not happen to this model.
        after_reset: whether the mission goes on after a reset.
        notes: what was damaged of the log, to be said.

    Attributes:
        data: all pings of the log.
        unlearned: those that are in no step, and wait for the next batch.
        screening_state, waiting, refused: see ``JournalContents``.
    """

    def __init__(
        self,
        folder: Path | None,
        logged: JournalContents,
        forget: Callable[[int], object],
        after_reset: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        self._notes = notes
        self.data, self.steps, self.after_reset = logged.samples, logged.steps, after_reset
        self.screening_state, self.waiting = logged.screening_state, logged.unscreened
        self.refused = logged.refused
        self._folder, self._forget = folder, forget
        self.unlearned = self._after(len(self.steps))

    def __len__(self) -> int:
        """How many pings there are, and steps."""
        return len(self.data) + len(self.steps)

    def run(self, updater: ModelUpdater, now_ns: int) -> Iterator[LoopEvent]:
        """Repeat the steps, on a updater that has done nothing so far, and draw the map."""
        for text in self._notes:
            yield Problem(Message("log", text), error=False)
        yield from self._repeat(updater)
        stamps = [step.stamp_ns for step in self.steps if step.kind == UPDATE]
        yield from updater.draw(stamps[-1] if stamps else now_ns)

    def _repeat(self, updater: ModelUpdater) -> Iterator[LoopEvent]:
        done, trouble = self._begin(updater)
        if trouble is not None:
            yield Problem(
                Message("checkpoint", f"{trouble}; the whole log is repeated"), error=False
            )
        for number, step in enumerate(self.steps[done:], start=done):
            try:
                outcome = updater.repeat(step, self._batch(step))
            except Exception as error:  # whatever it is, no ping is lost
                self.unlearned = self._after(number)
                told = f"the log's step {number + 1} of {len(self.steps)} cannot be repeated"
                failure = updater.failed(
                    error, f"{told}: {len(self.unlearned)} pings are learned anew"
                )
                self._forget(number)
                yield failure
                return
            if outcome is not None:
                yield outcome

    def _begin(self, updater: ModelUpdater) -> tuple[int, str | None]:
        """Start from the checkpoint: the steps that are done then, and why it cannot be used."""
        try:
            checkpoint = None if self._folder is None else read_checkpoint(self._folder)
            if checkpoint is None:
                return 0, None
            updater.recover(checkpoint, self._in_model(checkpoint), self.steps[: checkpoint.steps])
            return checkpoint.steps, None
        except InputError as error:
            updater.reset()
            if self._folder is not None:
                with suppress(OSError):  # before the next one takes its name
                    set_aside(self._folder, [self._folder / NAME])
            return 0, str(error)

    def _in_model(self, checkpoint: Checkpoint) -> Samples:
        """The pings in a model after these steps.

        Raises:
            InputError: the checkpoint is not of this log.
        """
        steps = self.steps[: checkpoint.steps]
        samples = Samples.joined([self._batch(step) for step in steps if step.kind == UPDATE])
        if len(steps) != checkpoint.steps or len(samples) != checkpoint.pings:
            raise InputError("checkpoint: of another log than is here")
        return samples

    def _batch(self, step: JournalStep) -> Samples:
        """The pings of a step; none of a training."""
        return self.data[:0] if step.kind == TRAIN else self.data[step.first : step.last + 1]

    def _after(self, number: int) -> Samples:
        """The pings that are in none of so many steps."""
        taken = [step.last for step in self.steps[:number] if step.kind in (UPDATE, DROP)]
        return self.data[max(taken, default=-1) + 1 :]
