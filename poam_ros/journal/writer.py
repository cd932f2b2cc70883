"""The journal as the model loop uses it: one that writes nothing, and one that writes on its own
thread, beside the callbacks and the model's thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.clock import Moment
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .folder import MissionFolder, write_checkpoint
from .tables import JournalStep

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper


class Journal:
    """Writes what shall survive the process, and only ``checkpoint`` waits for the disk.

    This one writes nothing: accepted pings count at once.

    Attributes:
        failing: why nothing can be written at present, as text; empty: it can.
        lost: pings and steps that were not written and never will be.
        unstored_count: accepted pings that were appended and not returned yet.
    """

    failing, lost, unstored_count = "", 0, 0

    @property
    def full(self) -> bool:
        """Whether no more pings should be taken, because the disk is too slow."""
        return False

    @property
    def folder(self) -> Path | None:
        """Where the mission is written now; None: nowhere."""
        return None

    def append(self, samples: Samples, refused: Sequence[RefusedPing] = ()) -> Samples:
        """Append accepted and refused pings; returns the accepted ones stored so far, in order."""
        return samples

    def unstored(self) -> Samples:
        """Accepted pings that were appended and not returned yet."""
        return Samples.empty()

    def append_steps(self, steps: Sequence[JournalStep]) -> None:
        """Append what the model did, all or nothing."""

    def reset(self, stamp_ns: int) -> None:
        """Start another mission; pings that were not returned yet never will be."""

    def checkpoint_due(self, now: Moment) -> Any:
        """A mark at which the model's state should be written; None: not now."""
        return None

    def checkpoint(self, mark: Any, mapper: BathymetricMapper) -> str:
        """Write the state of a model that is at the mark; if it fails, returns why, as text."""
        return ""


@dataclass
class CheckpointMark:
    """A position in the journal of ``folder``, after ``steps`` steps."""

    steady_s: float
    reached: threading.Event = field(default_factory=threading.Event)
    folder: Path | None = None
    steps: int = 0

    def reach(self, folder: Path | None, steps: int = 0) -> None:
        """All entries before it are written; ``folder`` None: they are not, and never will be."""
        self.folder, self.steps = folder, steps
        self.reached.set()


class ChangeEntry(NamedTuple):
    """A change of the folder between other entries; ``steps``: in its journal after it."""

    do: Callable[[], None]
    steps: int


@dataclass
class AcceptedEntry:
    """Accepted pings; ``stored``: whether they may be returned."""

    samples: Samples
    stored: bool = False


#: Refused pings are lists; their number is bounded.
Entry = AcceptedEntry | list[RefusedPing] | JournalStep | CheckpointMark | ChangeEntry
COMMIT_INTERVAL_S = 0.1  # entries within it share a transaction
RETRY_S = 5.0  # after a failure of the disk
CHECKPOINT_WAIT_S = 5.0  # longest wait of the model for the disk, once a checkpoint
MAX_CHECKPOINT_SHARE = 0.05  # of the time spent writing checkpoints
MAX_QUEUED_PINGS = 10_000  # waiting for the disk; beyond that pings are refused
MAX_QUEUED_ON_FAILURE = 100_000  # entries with pings and steps; beyond that the journal ends
GAVE_UP = "the disk failed for too long: the journal ended then; a new one begins with a restart"


class JournalWriter(Journal):
    """Writes the journal of a mission folder: see ``Journal``.

    While the disk fails, pings count without being stored; writing is retried. A journal with a gap
    would be useless: after too many, nothing more is written.

    Args:
        folder: of the mission; closed by this object.
        steps: in its journal.
        period: shortest time between two checkpoints, s.
    """

    def __init__(self, folder: MissionFolder, steps: int, period: float) -> None:
        self._folder, self._steps, self._period = folder, steps, period
        self._changed = threading.Condition()
        self._queue: list[Entry] = []
        # Not yet taken by the thread, like the queue.
        self._refused: deque[RefusedPing] = deque(maxlen=MAX_QUEUED_PINGS)
        self._unstored: deque[AcceptedEntry] = deque()
        self._unwritten = 0  # pings in the queue or being written
        self._closing = self._hurried = self._was_reset = False
        self._next_checkpoint = -float("inf")
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """See ``Journal``."""
        return self._folder.current

    @property
    def full(self) -> bool:
        """Whether the disk is too slow for the pings."""
        return self._unwritten >= MAX_QUEUED_PINGS and not self.failing

    def append(self, samples: Samples, refused: Sequence[RefusedPing] = ()) -> Samples:
        """Queue accepted and refused pings; returns the accepted ones stored so far, in order."""
        with self._changed:
            self._refused.extend(refused)  # written with other entries: see ``_run``
            if len(samples):
                taken = AcceptedEntry(samples)
                self._queue.append(taken)
                self._unstored.append(taken)
                self.unstored_count += len(samples)
                self._unwritten += len(samples)
            if self._queue:
                self._changed.notify_all()
            stored = []
            while self._unstored and self._unstored[0].stored:
                stored.append(self._unstored.popleft().samples)
            self.unstored_count -= sum(map(len, stored))
        return Samples.joined(stored)

    def unstored(self) -> Samples:
        """Accepted pings that were not returned yet."""
        with self._changed:
            return Samples.joined([taken.samples for taken in self._unstored])

    def append_steps(self, steps: Sequence[JournalStep]) -> None:
        """Queue what the model did."""
        self._add(*steps)

    def reset(self, stamp_ns: int) -> None:
        """Continue in a new folder; queued entries go to the old one, and are not returned."""
        with self._changed:
            self._add(*self._pop_refused(), ChangeEntry(lambda: self._folder.reset(stamp_ns), 0))
            self._unstored.clear()
            self.unstored_count, self._was_reset = 0, True

    def truncate(self, steps: int) -> None:
        """Drop all steps after the first ``steps``, which could not be repeated."""
        if not self._was_reset:  # a new journal has none of them
            self._add(ChangeEntry(lambda: self._folder.truncate_steps(steps), steps))

    def checkpoint_due(self, now: Moment) -> CheckpointMark | None:
        """A mark at the end of the journal; None: no checkpoint is due."""
        if self.failing or now.steady_s < self._next_checkpoint:
            return None
        mark, self._hurried = CheckpointMark(now.steady_s), True
        self._add(mark)
        return mark

    def checkpoint(self, mark: CheckpointMark, mapper: BathymetricMapper) -> str:
        """Write the model's state once all entries before the mark are; else returns why not."""
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

    def close(self, timeout: float = 10.0) -> str:
        """Write what is left and release the folder; what is missing after ``timeout`` s, if so."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        done = not self._thread.is_alive()
        if done:
            self._folder.close()
        if done and not self.failing:
            return ""
        missing = f"{self._unwritten + self.lost} of the mission's pings and model steps"
        return f"the journal lacks {missing}: {self.failing or 'the disk is slow'}"

    def _add(self, *entries: Entry) -> None:
        with self._changed:
            self._queue.extend(entries)
            self._changed.notify_all()

    def _run(self) -> None:
        entries: deque[Entry] = deque()
        retry_at = 0.0
        left = lambda: entries or self._queue or self._refused  # noqa: E731
        while not (self._closing and (self.failing or not left())):
            with self._changed:
                # Refused pings alone are committed every ``RETRY_S`` only.
                self._changed.wait_for(lambda: self._queue or self._closing, RETRY_S)
                self._changed.wait_for(lambda: self._hurried or self._closing, COMMIT_INTERVAL_S)
                entries.extend([*self._queue, *self._pop_refused()])
                self._queue.clear()
                self._hurried = False
            waits = time.monotonic() < retry_at and not self._closing
            if self.failing and (waits or self.failing == GAVE_UP):
                self._release(entries)
                continue
            try:
                while entries:
                    self._write(entries)
                self.failing = ""
            except Exception as error:  # whatever it is, pings must continue to count
                reason = getattr(error, "strerror", None) or error
                self.failing = f"cannot write to {self.folder} ({reason})"
                retry_at = time.monotonic() + RETRY_S
                self._release(entries)

    def _pop_refused(self) -> list[Entry]:
        """The refused pings so far, as an entry before the following ones."""
        rows = list(self._refused)
        self._refused.clear()
        return [rows] if rows else []

    def _write(self, entries: deque[Entry]) -> None:
        """Write and remove the first entries that fit into one transaction."""
        first = entries[0]
        if isinstance(first, ChangeEntry):
            first.do()
            self._steps = first.steps
            entries.popleft()
            return
        rows = list(takewhile(lambda e: not isinstance(e, ChangeEntry), entries))
        pings = [row.samples for row in rows if isinstance(row, AcceptedEntry)]
        steps = [row for row in rows if isinstance(row, JournalStep)]
        refused = [each for row in rows if isinstance(row, list) for each in row]
        if pings or steps or refused:
            self._folder.journal.append(pings, steps, self._steps, refused)
        self._steps += len(steps)
        for row in rows:
            entries.popleft()
            if isinstance(row, AcceptedEntry):
                row.stored = True
            elif isinstance(row, CheckpointMark):
                row.reach(self._folder.current, self._steps)
                self._folder.journal.flush_tables()
        with self._changed:
            self._unwritten -= sum(map(len, pings))

    def _release(self, entries: deque[Entry]) -> None:
        """While the disk fails, let pings count, and bound the number of waiting entries."""
        for left in list(entries):
            if isinstance(left, (CheckpointMark, list)):
                entries.remove(left)
            if isinstance(left, CheckpointMark):
                left.reach(None)
            elif isinstance(left, AcceptedEntry):
                left.stored = True
        if self._unwritten + len(entries) > MAX_QUEUED_ON_FAILURE:
            self.failing = GAVE_UP
        if self.failing == GAVE_UP:
            pings = sum(len(e.samples) for e in entries if isinstance(e, AcceptedEntry))
            self.lost += pings + sum(isinstance(e, JournalStep) for e in entries)
            entries.clear()
            with self._changed:
                self._unwritten -= pings
