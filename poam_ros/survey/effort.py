"""How much a survey trains: in an update, and between two."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from ..maps import Enough
from ..settings import check, setting


@dataclass(frozen=True)
class Effort:
    """How much is trained. Nothing here decides whether data go into the map: they always do.

    Raises:
        InputError: a value is outside its range.
    """

    update_budget: float = setting(
        0.0,
        "Wall time from which an update takes no further training step; 0: no such end",
        "s",
        minimum=0.0,
        maximum=3600.0,
        mutable=True,
    )
    training_duty: float = setting(
        0.0,
        "Share of the wall time between updates that training goes on in; 0: none",
        minimum=0.0,
        maximum=1.0,
        mutable=True,
    )

    def __post_init__(self) -> None:
        check(self)

    def enough(self) -> Enough | None:
        """For an update that begins now; None where it has no end but its own."""
        if not self.update_budget:
            return None
        end = perf_counter() + self.update_budget
        return lambda taken: perf_counter() >= end


#: An update's training ends by its own number of steps, and there is none between two.
NO_EFFORT = Effort()
