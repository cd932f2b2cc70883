"""What was told of a survey, into the log of its folder: a transaction at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from ..survey.logged import Doubts, Step
from ..survey.mission_folder import MissionFolder
from .log_entries import Entry, Forget, Mark, Placed, Refused, Reset, Taken


class LogDisk:
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

    def write(self, entries: deque[Entry], doubts: Doubts | None) -> tuple[Doubts | None, int]:
        """Write the first entries, those that go into one transaction, and remove them; the doubts
        with the last.

        Returns:
            What is left of the doubts, and how many pings were written.
        """
        first = entries[0] if entries else None
        if isinstance(first, Reset):
            self.folder.reset(first.stamp_ns)
            self._steps, self.gap = 0, first.torn
        elif isinstance(first, Forget):
            self.folder.log.forget(first.steps)
            self._steps = first.steps
        else:
            rows = list(takewhile(lambda entry: not isinstance(entry, (Reset, Forget)), entries))
            last = len(rows) == len(entries)
            written = self.write_rows(rows, doubts if last else None)
            for _ in rows:
                entries.popleft()
            return None if last else doubts, written
        entries.popleft()
        return doubts, 0

    def write_rows(self, rows: Sequence[Entry], doubts: Doubts | None) -> int:
        """Write pings and steps in one transaction; returns how many pings, refused ones apart."""
        taken = [row for row in rows if isinstance(row, Taken)]
        placed = [row.samples for row in rows if isinstance(row, Placed)]
        steps = [row for row in rows if isinstance(row, Step)]
        refused = [each for row in rows if isinstance(row, Refused) for each in row.rows]
        pings = sum(len(t.samples) for t in taken)
        if self.gap:  # a log with a hole in it would be worth nothing
            self.lost += pings + len(steps)
        elif taken or placed or steps or doubts or refused:
            accepted = [t.samples for t in taken]
            self.folder.log.append(accepted, steps, self._steps, placed, doubts, refused)
        for row in rows:
            if isinstance(row, Taken):
                row.counts = True
            elif isinstance(row, Step):
                self._steps += not self.gap
            elif isinstance(row, Mark):
                if not self.gap:
                    row.folder, row.steps = self.folder.current, self._steps
                row.reached.set()
        return pings + sum(map(len, placed))
