"""The states of a mission, what may happen to it, and what each event leads to. No ROS.

``TABLE`` is all there is to know: docs/vehicle.md shows it, and every pair is tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..frontend.events import DONE, EXPLORING, PAUSED, PILOT, RETURNING, STATES, WAITING

#: Events: what operators ask for; then what happens on the way.
START, STOP, PAUSE, RESUME = "start", "stop", "pause", "resume"
FAULT, RECOVERED = "fault", "recovered"
SURVEYED, SPENT, MET, HOME = "surveyed", "spent", "met", "home"

#: Why a mission is paused. An operator asked for it, or the planner was restarted; an input that
#: it needs is missing; a guard stopped it (fence, no progress); somebody else drives the vehicle;
#: positions moved against the map.
OPERATOR, RESTART, INPUT, GUARD = "operator", "restart", "input", "guard"
TAKEN_OVER, DISPLACED = "taken over", "displaced"
#: The causes that end by themselves; after any other one only an operator resumes.
PASSING = frozenset({INPUT})

#: To the state that the pause interrupted; to returning, or to done if there is no way home to go.
INTERRUPTED, OVER = "what was interrupted", "returning or done"
#: The states, a paused one by what it interrupts.
PLACES = (
    WAITING, PILOT, EXPLORING, RETURNING,
    *(f"{PAUSED} while {state}" for state in (PILOT, EXPLORING, RETURNING)), DONE,
)  # fmt: skip
_AGAIN: Mapping[str, str] = {
    STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, RESUME: INTERRUPTED, RECOVERED: INTERRUPTED,
}  # fmt: skip
#: The state that an event leads to, by where the mission is; an event that is not listed is
#: refused, and changes nothing. A pause adds its cause where the mission is paused already.
TABLE: Mapping[str, Mapping[str, str]] = {
    WAITING: {START: PILOT, STOP: WAITING},
    PILOT: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, SURVEYED: EXPLORING, SPENT: OVER},
    EXPLORING: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, SPENT: OVER, MET: OVER},
    RETURNING: {STOP: WAITING, PAUSE: PAUSED, FAULT: PAUSED, HOME: DONE},
    f"{PAUSED} while {PILOT}": {**_AGAIN, SPENT: DONE},
    f"{PAUSED} while {EXPLORING}": {**_AGAIN, SPENT: DONE, MET: DONE},
    f"{PAUSED} while {RETURNING}": _AGAIN,
    DONE: {START: PILOT, STOP: WAITING},
}
#: The states in which the vehicle is driven, and guarded.
DRIVEN = (PILOT, EXPLORING, RETURNING)


@dataclass(frozen=True)
class Status:
    """The state of a mission, and why.

    Attributes:
        state: as published.
        reason: why, as text, unless it is paused.
        causes: of a pause, with a text each, oldest first.
        interrupted: the state that a pause interrupts.
        ended: the event that ended the mission, and its text; empty: it has not ended.
    """

    state: str
    reason: str
    causes: tuple[tuple[str, str], ...] = ()
    interrupted: str = PILOT
    ended: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Status:
        """A status from its fields as JSON.

        Raises:
            ValueError, KeyError, TypeError: the values are invalid.
        """
        causes = tuple((str(cause), str(text)) for cause, text in values["causes"])
        ended, text = values["ended"]
        found = cls(**{**values, "causes": causes, "ended": (str(ended), str(text))})
        if found.place not in TABLE or found.state not in STATES:
            raise ValueError(f"state {found.state!r}")
        return found

    @property
    def place(self) -> str:
        """Where the mission is: one of ``PLACES``."""
        return f"{PAUSED} while {self.interrupted}" if self.state == PAUSED else self.state

    @property
    def text(self) -> str:
        """Why it is in its state."""
        return "; ".join(text for _, text in self.causes) if self.state == PAUSED else self.reason

    @property
    def recovers(self) -> bool:
        """Whether it resumes when what it needs is there again."""
        return self.state == PAUSED and PASSING.issuperset(cause for cause, _ in self.causes)

    def after(self, event: str, text: str, cause: str = OPERATOR, home: bool = False) -> Status:
        """The status after an event; this one itself if the event is refused.

        Args:
            event: one of the table's.
            text: why.
            cause: of a pause.
            home: whether there is a way home to go.
        """
        to = TABLE[self.place].get(event)
        if to is None or (event == RECOVERED and not self.recovers):
            return self
        if to == PAUSED:
            return self._paused(cause, text)
        if event in (SPENT, MET):
            over = RETURNING if to == OVER and home else DONE
            return Status(over, text, ended=(event, text))
        if to == INTERRUPTED:
            return Status(self.interrupted, text, ended=self.ended)
        if event == HOME:
            return replace(self, state=to, reason=self.ended[1])
        return Status(to, text)

    def _paused(self, cause: str, text: str) -> Status:
        """A passing cause gives way to the next one, the others stay."""
        if self.state != PAUSED:
            return replace(self, state=PAUSED, causes=((cause, text),), interrupted=self.state)
        known = tuple(c for c in self.causes if c[0] != cause or cause not in PASSING)
        causes = known if (cause, text) in known else (*known, (cause, text))
        return self if causes == self.causes else replace(self, causes=causes)
