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
from ..frontend.refused import RefusedPing
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
    """What comes after it belongs into a new folder; ``torn``: but some of that was given up."""

    stamp_ns: int
    torn: bool = False


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
    """Pings that were accepted; ``counts``: whether they may be returned."""

    samples: Samples
    counts: bool = False


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
        gap: whether some of what the log should hold was given up: it ends then.
        lost: pings and steps that are not kept, and never will be.
    """

    def __init__(self, folder: MissionFolder, steps: int) -> None:
        self.folder, self._steps = folder, steps
        self.gap, self.lost = False, 0

    def write(
        self, entries: deque[Entry], doubts: ScreeningState | None
    ) -> tuple[ScreeningState | None, int]:
        """Write the first entries, those that go into one transaction, and remove them; the doubts
        with the last.

        Returns:
            What is left of the doubts, and how many pings were written.
        """
        first = entries[0] if entries else None
        if isinstance(first, ResetEntry):
            self.folder.reset(first.stamp_ns)
            self._steps, self.gap = 0, first.torn
        elif isinstance(first, TruncateEntry):
            self.folder.forget(first.steps)
            self._steps = first.steps
        else:
            rows = list(
                takewhile(lambda entry: not isinstance(entry, (ResetEntry, TruncateEntry)), entries)
            )
            last = len(rows) == len(entries)
            written = self.write_rows(rows, doubts if last else None)
            for _ in rows:
                entries.popleft()
            return None if last else doubts, written
        entries.popleft()
        return doubts, 0

    def write_rows(self, rows: Sequence[Entry], doubts: ScreeningState | None) -> int:
        """Write pings and steps in one transaction; returns how many pings, refused ones apart."""
        taken = [row for row in rows if isinstance(row, AcceptedEntry)]
        placed = [row.samples for row in rows if isinstance(row, PlacedEntry)]
        steps = [row for row in rows if isinstance(row, JournalStep)]
        refused = [each for row in rows if isinstance(row, RefusedEntry) for each in row.rows]
        pings = sum(len(t.samples) for t in taken)
        if self.gap:  # a log with a hole in it would be worth nothing
            self.lost += pings + len(steps)
        elif taken or placed or steps or doubts or refused:
            accepted = [t.samples for t in taken]
            self.folder.log.append(accepted, steps, self._steps, placed, doubts, refused)
        for row in rows:
            if isinstance(row, AcceptedEntry):
                row.counts = True
            elif isinstance(row, JournalStep):
                self._steps += not self.gap
            elif isinstance(row, CheckpointMark):
                if not self.gap:
                    row.folder, row.steps = self.folder.current, self._steps
                row.reached.set()
                self.folder.log.bring_home()
        return pings + sum(map(len, placed))


GATHER_S = 0.1  # what comes within it is one transaction
RETRY_S = 5.0  # after a failure of the disk
WAIT_S = 5.0  # of the model for the disk, once a checkpoint
SHARE = 0.05  # of the time, at most, goes into checkpoints
LIMIT = 10_000  # pings that wait for the disk before more are refused
PATIENCE = 100_000  # pings and steps that wait while the disk fails, before they are given up
GAVE_UP = "the disk failed for too long: the log ended then, and begins again with a reset"


class JournalWriter:
    """Keeps a survey in a mission's folder: see ``survey.keeping.Keeping``.

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
        self._refused: deque[RefusedPing] = deque(maxlen=LIMIT)  # likewise
        self._unreturned: deque[AcceptedEntry] = deque()
        self._waiting = 0  # pings of these
        self._unwritten = 0  # pings in the queue, or on the way to the disk
        self._closing = self._hurried = self._anew = False
        self._next_checkpoint = -float("inf")
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Pings that were taken and not returned yet."""
        return self._waiting

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
        return self._unwritten >= LIMIT and not self.failing

    def wait(self, placed: Samples) -> None:
        """Write down that these wait to be judged."""
        with self._changed:
            self._queue.append(PlacedEntry(placed))
            self._unwritten += len(placed)
            self._changed.notify_all()

    def keep(
        self,
        samples: Samples,
        doubts: ScreeningState | None = None,
        refused: Sequence[RefusedPing] = (),
    ) -> Samples:
        """Take accepted samples; returns those that are on the disk by now, in order."""
        with self._changed:
            self._refused.extend(refused)  # they wait for company: see ``_run``
            if len(samples):
                taken = AcceptedEntry(samples)
                self._queue.append(taken)
                self._unreturned.append(taken)
                self._waiting += len(samples)
                self._unwritten += len(samples)
            self._doubts = doubts or self._doubts
            if self._news:
                self._changed.notify_all()
            kept = []
            while self._unreturned and self._unreturned[0].counts:
                kept.append(self._unreturned.popleft().samples)
            self._waiting -= sum(map(len, kept))
        return Samples.joined(kept)

    def rest(self) -> Samples:
        """Those that are not."""
        with self._changed:
            return Samples.joined([taken.samples for taken in self._unreturned])

    def record(self, step: JournalStep) -> None:
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
            self._queue += [*self._take_refused(), ResetEntry(stamp_ns)]
            self._doubts = ScreeningState()
            self._unreturned.clear()
            self._waiting, self._anew = 0, True
            self._changed.notify_all()

    def forget(self, steps: int) -> None:
        """Only so many steps of the log could be repeated: the others are taken out of it."""
        with self._changed:
            self._queue += (
                [] if self._anew else [TruncateEntry(steps)]
            )  # a new log has none of them
            self._changed.notify_all()

    def mark(self, now: Moment) -> CheckpointMark | None:
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
        if not mark.reached.wait(WAIT_S) or mark.folder is None:
            return self.failing or "the disk is slow: no checkpoint"
        start = perf_counter()
        try:
            write_checkpoint(mark.folder, mapper, mark.steps)
        except OSError as error:
            return f"no checkpoint in {mark.folder} ({error.strerror})"
        finally:
            rest = max(self._period, (perf_counter() - start) / SHARE)
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
        doubts: ScreeningState | None = None  # left by all of these
        retry_at = 0.0
        while not (self._closing and (self.failing or not (entries or doubts or self._left))):
            with self._changed:
                # Refused pings alone are worth no commit of their own, but now and then.
                self._changed.wait_for(lambda: self._news or self._closing, RETRY_S)
                self._changed.wait_for(lambda: self._hurried or self._closing, GATHER_S)
                entries.extend([*self._queue, *self._take_refused()])
                self._queue.clear()
                doubts, self._doubts = self._doubts or doubts, None
                self._hurried = False
            if self.failing and not self._closing and time.monotonic() < retry_at:
                self._go_without(entries)
                continue
            try:
                while entries or doubts:
                    doubts, written = self._disk.write(entries, doubts)
                    self._account(written)
                self.failing = GAVE_UP if self._disk.gap else ""
            except Exception as error:  # whatever it is, pings go on to count
                self.failing = f"{self.folder}: {error}"
                retry_at = time.monotonic() + RETRY_S
                self._go_without(entries)

    @property
    def _news(self) -> bool:
        return bool(self._queue) or self._doubts is not None

    @property
    def _left(self) -> bool:
        return self._news or bool(self._refused)

    def _take_refused(self) -> list[Entry]:
        """Refused pings so far, to go before what comes."""
        rows = list(self._refused)
        self._refused.clear()
        return [RefusedEntry(rows)] if rows else []

    def _account(self, written: int) -> None:
        with self._changed:
            self._unwritten -= written

    def _go_without(self, entries: deque[Entry]) -> None:
        """The disk fails: pings count all the same, and what waits for it is bounded."""
        for left in [
            entry for entry in entries if isinstance(entry, (CheckpointMark, RefusedEntry))
        ]:
            entries.remove(left)
            if isinstance(left, CheckpointMark):
                left.reached.set()
        for entry in entries:
            if isinstance(entry, AcceptedEntry):
                entry.counts = True
        if self._unwritten + len(entries) > PATIENCE:
            self._disk.gap = True
            if resets := [entry for entry in entries if isinstance(entry, ResetEntry)]:
                torn = resets[-1].torn or entries[-1] is not resets[-1]
                rows = [
                    entry for entry in entries if not isinstance(entry, (ResetEntry, TruncateEntry))
                ]
                self._account(self._disk.write_rows(rows, None))
                entries.clear()
                entries += [*resets[:-1], resets[-1]._replace(torn=torn)]
