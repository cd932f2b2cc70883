"""What a mission's log holds, as values: what the model did, and what is not accepted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.maps import UpdateReport
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPings

#: What may become of pings: learned, or given up; or the model trained without new ones.
UPDATE, DROP, TRAIN = "update", "drop", "train"


@dataclass(frozen=True)
class JournalStep:
    """Something that the model did.

    Attributes:
        kind: one of the above.
        first, last: numbers of the first and last ping of the batch; -1 of a training.
        steps: training steps taken.
        times: how often, one after the other.
        stamp_ns: when the batch closed.
    """

    kind: str
    first: int = -1
    last: int = -1
    steps: int = 0
    times: int = 1
    stamp_ns: int = 0

    @classmethod
    def of(cls, batch: Samples, report: UpdateReport | None, stamp_ns: int) -> JournalStep:
        """What became of a batch; without a report it was given up."""
        first, last = (int(number) for number in batch.number[[0, -1]])
        if report is None:
            return cls(DROP, first, last, stamp_ns=stamp_ns)
        return cls(UPDATE, first, last, report.steps, stamp_ns=stamp_ns)


@dataclass(frozen=True)
class ScreeningState:
    """What a judgement leaves to the next one; pings are numbered here as they were placed.

    Attributes:
        screened: the first so many placed pings were judged.
        held: those of them that are in doubt.
        screener: what else the screen remembers, as text (``remembering``); empty where nothing.
    """

    screened: int = 0
    held: Samples = field(default_factory=Samples.empty)
    screener: str = ""


@dataclass(frozen=True)
class JournalContents:
    """What a log holds. Steps are counted from 1: so many are done after the last of them.
    ``unscreened``: pings that wait to be judged, numbered as in ``screening_state``; ``refused``: the newest of
    each reason."""

    samples: Samples
    steps: tuple[JournalStep, ...]
    screening_state: ScreeningState = field(default_factory=ScreeningState)
    unscreened: Samples = field(default_factory=Samples.empty)
    refused: RefusedPings = field(default_factory=RefusedPings.none)
