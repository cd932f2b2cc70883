"""The journal as the model loop uses it: its contents as values, and one that writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.clock import Moment
from ..core.maps import UpdateReport
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing, RefusedPings

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: Kinds of steps: a batch was learned or dropped; accepted pings were withdrawn or reinstated.
UPDATE, DROP, WITHDRAW, REINSTATE = "update", "drop", "withdraw", "reinstate"


@dataclass(frozen=True)
class JournalStep:
    """Something that the model did.

    Attributes:
        kind: one of the above.
        first, last: numbers of the first and last ping of the batch, or of those withdrawn,
            reinstated.
        steps: training steps taken; of ``WITHDRAW`` what the pings are: 2 or 3 if double or triple
            echoes, 0 if other false echoes.
        stamp_ns: when the batch became due.
    """

    kind: str
    first: int
    last: int
    steps: int = 0
    stamp_ns: int = 0

    @classmethod
    def of(cls, batch: Samples, report: UpdateReport | None, stamp_ns: int) -> JournalStep:
        """The step of a batch; without a report the batch was dropped."""
        first, last = (int(number) for number in batch.number[[0, -1]])
        if report is None:
            return cls(DROP, first, last, stamp_ns=stamp_ns)
        return cls(UPDATE, first, last, report.steps, stamp_ns=stamp_ns)


def withdrawn_after(steps: Sequence[JournalStep]) -> dict[int, int]:
    """The pings that are withdrawn after these steps: numbers, in order, and what each is (see
    ``JournalStep.steps``)."""
    found: dict[int, int] = {}
    for step in steps:
        if step.kind == WITHDRAW:
            found |= dict.fromkeys(range(step.first, step.last + 1), step.steps)
        elif step.kind == REINSTATE:
            for number in range(step.first, step.last + 1):
                found.pop(number, None)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class JournalContents:
    """What a journal holds.

    Attributes:
        samples: the accepted pings.
        steps: what the model did; step numbers count from 1.
        refused: the newest refused pings of each reason.
    """

    samples: Samples
    steps: tuple[JournalStep, ...]
    refused: RefusedPings = field(default_factory=RefusedPings.none)


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
