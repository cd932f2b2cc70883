"""What a survey asks of whoever keeps it; and of nobody, where nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core.clock import Moment
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .contents import JournalStep, ScreeningState

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper


class Journal(Protocol):
    """Keeps what is to outlive the process. Its calls wait for no disk, but for ``checkpoint``.

    Attributes:
        failing: why nothing can be kept at present, in words; empty where it can.
        lost: pings and steps that are not kept, and never will be.
        waiting: pings that were taken and not returned yet.
        full: whether no more pings should be taken: the disk does not come after them.
        folder: that the mission is kept in now; None where it is not.
    """

    failing: str

    @property
    def lost(self) -> int: ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def unstored_count(self) -> int: ...

    @property
    def full(self) -> bool: ...

    def append_unscreened(self, placed: Samples) -> None:
        """These wait to be judged, numbered as they were placed."""

    def append(
        self,
        samples: Samples,
        screening_state: ScreeningState | None = None,
        refused: Sequence[RefusedPing] = (),
    ) -> Samples:
        """Take accepted samples; returns those that are kept by now, in order.

        ``screening_state``: what is left by the judgement that they were accepted by. It is kept with them,
        all or nothing; so are those who were refused.
        """

    def unstored(self) -> Samples:
        """Those that wait."""

    def append_step(self, step: JournalStep) -> None:
        """The model did something."""

    def reset(self, stamp_ns: int) -> None:
        """What comes from now on is another mission's; what waits will not be returned."""

    def checkpoint_due(self, now: Moment) -> Any:
        """A place in the record where the model's state should be kept; None: not now."""

    def checkpoint(self, mark: Any, mapper: BathymetricMapper) -> str:
        """Keep the state of a model that stands at a mark; in words why, where it cannot be."""


class NoJournal:
    """Keeps nothing, so that everything counts at once."""

    failing, lost, unstored_count, full, folder = "", 0, 0, False, None

    def append_unscreened(self, placed: Samples) -> None:
        """Nothing to do."""

    def append(
        self,
        samples: Samples,
        screening_state: ScreeningState | None = None,
        refused: Sequence[RefusedPing] = (),
    ) -> Samples:
        """Take them, and give them back."""
        return samples

    def unstored(self) -> Samples:
        """Nothing waits."""
        return Samples.empty()

    def append_step(self, step: JournalStep) -> None:
        """Nothing to do."""

    def reset(self, stamp_ns: int) -> None:
        """Nothing to do."""

    def checkpoint_due(self, now: Moment) -> None:
        """Never."""

    def checkpoint(self, mark: Any, mapper: BathymetricMapper) -> str:
        """Never called."""
        return ""
