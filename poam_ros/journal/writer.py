"""The thread that brings a survey to the disk, beside the callbacks and the model's thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from ..core.clock import Moment
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .checkpoint import write_checkpoint
from .contents import TRAIN, JournalStep, ScreeningState
from .folder import MissionFolder

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper


@dataclass
class CheckpointMark:
    """A place in the record; ``steps``: how many the log of ``folder`` holds there."""

    steady_s: float
    reached: threading.Event = field(default_factory=threading.Event)
    folder: Path | None = None
    steps: int = 0


class ResetEntry(NamedTuple):
    """What comes after it belongs into a new folder; ``ended_early``: but some of that was given up."""

    stamp_ns: int
    ended_early: bool = False


class TruncateEntry(NamedTuple):
    """Only so many steps of the log are what happened."""

    steps: int


class RefusedEntry(NamedTuple):
    """Pings that were refused; a bounded number of them."""

    rows: list[RefusedPing]


class PlacedEntry(NamedTuple):
    """Pings that wait to be judged."""

    samples: Samples


@dataclass
class AcceptedEntry:
    """Pings that were accepted; ``stored``: whether they may be returned."""

    samples: Samples
    stored: bool = False


Entry = (
    AcceptedEntry
    | PlacedEntry
    | RefusedEntry
    | JournalStep
    | CheckpointMark
    | ResetEntry
    | TruncateEntry
)


class EntryWriter:
    """Writes entries, on one thread.

    Args:
        folder: of the mission.
        steps: how many its log holds.

    Attributes:
        folder: as given.
        ended_early: whether some of what the log should hold was given up: it ends then.
        lost: pings and steps that are not kept, and never will be.
    """

    def __init__(self, folder: MissionFolder, steps: int) -> None:
        self.folder, self._steps = folder, steps
        self.ended_early, self.lost = False, 0

    def write(
        self, entries: deque[Entry], screening_state: ScreeningState | None
    ) -> tuple[ScreeningState | None, int]:
        """Write the first entries, those that go into one transaction, and remove them; the screening_state
        with the last.

        Returns:
            What is left of the screening_state, and how many pings were written.
        """
        first = entries[0] if entries else None
        if isinstance(first, ResetEntry):
            self.folder.reset(first.stamp_ns)
            self._steps, self.ended_early = 0, first.ended_early
        elif isinstance(first, TruncateEntry):
            self.folder.truncate_steps(first.steps)
            self._steps = first.steps
        else:
            rows = list(
                takewhile(lambda entry: not isinstance(entry, (ResetEntry, TruncateEntry)), entries)
            )
            last = len(rows) == len(entries)
            written = self.write_rows(rows, screening_state if last else None)
            for _ in rows:
                entries.popleft()
            return None if last else screening_state, written
        entries.popleft()
        return screening_state, 0

    def write_rows(self, rows: Sequence[Entry], screening_state: ScreeningState | None) -> int:
        """Write pings and steps in one transaction; returns how many pings, refused ones apart."""
        taken = [row for row in rows if isinstance(row, AcceptedEntry)]
        placed = [row.samples for row in rows if isinstance(row, PlacedEntry)]
        steps = [row for row in rows if isinstance(row, JournalStep)]
        refused = [each for row in rows if isinstance(row, RefusedEntry) for each in row.rows]
        pings = sum(len(t.samples) for t in taken)
        if self.ended_early:  # a log with a hole in it would be worth nothing
            self.lost += pings + len(steps)
        elif taken or placed or steps or screening_state or refused:
            accepted = [t.samples for t in taken]
            self.folder.log.append(accepted, steps, self._steps, placed, screening_state, refused)
        for row in rows:
            if isinstance(row, AcceptedEntry):
                row.stored = True
            elif isinstance(row, JournalStep):
                self._steps += not self.ended_early
            elif isinstance(row, CheckpointMark):
                if not self.ended_early:
                    row.folder, row.steps = self.folder.current, self._steps
                row.reached.set()
                self.folder.log.bring_home()
        return pings + sum(map(len, placed))


COMMIT_INTERVAL_S = 0.1  # what comes within it is one transaction
RETRY_S = 5.0  # after a failure of the disk
CHECKPOINT_WAIT_S = 5.0  # of the model for the disk, once a checkpoint
MAX_CHECKPOINT_SHARE = 0.05  # of the time, at most, goes into checkpoints
MAX_QUEUED_PINGS = 10_000  # pings that wait for the disk before more are refused
MAX_QUEUED_ON_FAILURE = (
    100_000  # pings and steps that wait while the disk fails, before they are given up
)
GAVE_UP = "the disk failed for too long: the log ended then, and begins again with a reset"


class JournalWriter:
    """Keeps a survey in a mission's folder: see ``survey.journal.Keeping``.

    While the disk fails, pings count without it; what should be there is tried again.

    Args:
        folder: this owns it.
        steps: how many its log holds.
        period: s between two checkpoints, at least.
    """

    def __init__(self, folder: MissionFolder, steps: int, period: float) -> None:
        self.failing = ""
        self._disk, self._period = EntryWriter(folder, steps), period
        self._changed = threading.Condition()
        self._queue: list[Entry] = []
        self._doubts: ScreeningState | None = None  # newer than what the thread knows of
        self._refused: deque[RefusedPing] = deque(maxlen=MAX_QUEUED_PINGS)  # likewise
        self._unstored: deque[AcceptedEntry] = deque()
        self._unstored_count = 0  # pings of these
        self._unwritten = 0  # pings in the queue, or on the way to the disk
        self._closing = self._hurried = self._was_reset = False
        self._next_checkpoint = -float("inf")
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def unstored_count(self) -> int:
        """Pings that were taken and not returned yet."""
        return self._unstored_count

    @property
    def folder(self) -> Path:
        """See ``Journal``."""
        return self._disk.folder.current

    @property
    def lost(self) -> int:
        """See ``Journal``."""
        return self._disk.lost

    @property
    def full(self) -> bool:
        """Whether the disk does not come after the pings."""
        return self._unwritten >= MAX_QUEUED_PINGS and not self.failing

    def append_unscreened(self, placed: Samples) -> None:
        """Write down that these wait to be judged."""
        with self._changed:
            self._queue.append(PlacedEntry(placed))
            self._unwritten += len(placed)
            self._changed.notify_all()

    def append(
        self,
        samples: Samples,
        screening_state: ScreeningState | None = None,
        refused: Sequence[RefusedPing] = (),
    ) -> Samples:
        """Take accepted samples; returns those that are on the disk by now, in order."""
        with self._changed:
            self._refused.extend(refused)  # they wait for company: see ``_run``
            if len(samples):
                taken = AcceptedEntry(samples)
                self._queue.append(taken)
                self._unstored.append(taken)
                self._unstored_count += len(samples)
                self._unwritten += len(samples)
            self._doubts = screening_state or self._doubts
            if self._news:
                self._changed.notify_all()
            kept = []
            while self._unstored and self._unstored[0].stored:
                kept.append(self._unstored.popleft().samples)
            self._unstored_count -= sum(map(len, kept))
        return Samples.joined(kept)

    def unstored(self) -> Samples:
        """Those that are not."""
        with self._changed:
            return Samples.joined([taken.samples for taken in self._unstored])

    def append_step(self, step: JournalStep) -> None:
        """Write what the model did; slices of training that are alike are one row."""
        with self._changed:
            last = self._queue[-1] if self._queue else None
            if (
                step.kind == TRAIN
                and isinstance(last, JournalStep)
                and replace(last, times=step.times) == step
            ):
                self._queue[-1] = replace(last, times=last.times + step.times)
            else:
                self._queue.append(step)
            self._changed.notify_all()

    def reset(self, stamp_ns: int) -> None:
        """Go on in a new folder; what waits is written into the old one, and not returned."""
        with self._changed:
            self._queue += [*self._pop_refused(), ResetEntry(stamp_ns)]
            self._doubts = ScreeningState()
            self._unstored.clear()
            self._unstored_count, self._was_reset = 0, True
            self._changed.notify_all()

    def truncate(self, steps: int) -> None:
        """Only so many steps of the log could be repeated: the others are taken out of it."""
        with self._changed:
            self._queue += (
                [] if self._was_reset else [TruncateEntry(steps)]
            )  # a new log has none of them
            self._changed.notify_all()

    def checkpoint_due(self, now: Moment) -> CheckpointMark | None:
        """The place that the record has come to; None while no checkpoint is due."""
        if self.failing or now.steady_s < self._next_checkpoint:
            return None
        mark = CheckpointMark(now.steady_s)
        with self._changed:
            self._queue.append(mark)
            self._hurried = True
            self._changed.notify_all()
        return mark

    def checkpoint(self, mark: CheckpointMark, mapper: BathymetricMapper) -> str:
        """Keep the model's state once all before the mark is in the log; else in words why not."""
        if not mark.reached.wait(CHECKPOINT_WAIT_S) or mark.folder is None:
            return self.failing or "the disk is slow: no checkpoint"
        start = perf_counter()
        try:
            write_checkpoint(mark.folder, mapper, mark.steps)
        except OSError as error:
            return f"no checkpoint in {mark.folder} ({error.strerror})"
        finally:
            rest = max(self._period, (perf_counter() - start) / MAX_CHECKPOINT_SHARE)
            self._next_checkpoint = mark.steady_s + rest
        return ""

    def close(self, timeout: float = 10.0) -> bool:
        """Write what is left, and leave the folder; whether that was done in time (s)."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        done = not self._thread.is_alive()
        if done:
            self._disk.folder.close()
        return done and not self.failing

    def _run(self) -> None:
        entries: deque[Entry] = deque()
        screening_state: ScreeningState | None = None  # left by all of these
        retry_at = 0.0
        while not (
            self._closing and (self.failing or not (entries or screening_state or self._left))
        ):
            with self._changed:
                # Refused pings alone are worth no commit of their own, but now and then.
                self._changed.wait_for(lambda: self._news or self._closing, RETRY_S)
                self._changed.wait_for(lambda: self._hurried or self._closing, COMMIT_INTERVAL_S)
                entries.extend([*self._queue, *self._pop_refused()])
                self._queue.clear()
                screening_state, self._doubts = self._doubts or screening_state, None
                self._hurried = False
            if self.failing and not self._closing and time.monotonic() < retry_at:
                self._handle_disk_failure(entries)
                continue
            try:
                while entries or screening_state:
                    screening_state, written = self._disk.write(entries, screening_state)
                    self._account(written)
                self.failing = GAVE_UP if self._disk.ended_early else ""
            except Exception as error:  # whatever it is, pings go on to count
                self.failing = f"{self.folder}: {error}"
                retry_at = time.monotonic() + RETRY_S
                self._handle_disk_failure(entries)

    @property
    def _news(self) -> bool:
        return bool(self._queue) or self._doubts is not None

    @property
    def _left(self) -> bool:
        return self._news or bool(self._refused)

    def _pop_refused(self) -> list[Entry]:
        """Refused pings so far, to go before what comes."""
        rows = list(self._refused)
        self._refused.clear()
        return [RefusedEntry(rows)] if rows else []

    def _account(self, written: int) -> None:
        with self._changed:
            self._unwritten -= written

    def _handle_disk_failure(self, entries: deque[Entry]) -> None:
        """The disk fails: pings count all the same, and what waits for it is bounded."""
        for left in [
            entry for entry in entries if isinstance(entry, (CheckpointMark, RefusedEntry))
        ]:
            entries.remove(left)
            if isinstance(left, CheckpointMark):
                left.reached.set()
        for entry in entries:
            if isinstance(entry, AcceptedEntry):
                entry.stored = True
        if self._unwritten + len(entries) > MAX_QUEUED_ON_FAILURE:
            self._disk.ended_early = True
            if resets := [entry for entry in entries if isinstance(entry, ResetEntry)]:
                ended_early = resets[-1].ended_early or entries[-1] is not resets[-1]
                rows = [
                    entry for entry in entries if not isinstance(entry, (ResetEntry, TruncateEntry))
                ]
                self._account(self._disk.write_rows(rows, None))
                entries.clear()
                entries += [*resets[:-1], resets[-1]._replace(ended_early=ended_early)]
