"""What `poam doctor` finds: one line each, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that was looked at.

    Attributes:
        what: was found, in words.
        todo: what to do about it; empty where all is well.
        problem: whether the survey suffers from it; else it is worth knowing.
    """

    what: str
    todo: str = ""
    problem: bool = False

    def __str__(self) -> str:
        mark = "PROBLEM" if self.problem else "note" if self.todo else "ok"
        return f"{mark:8}{self.what}" + (f": {self.todo}" if self.todo else "")


def problem(what: str, todo: str) -> Finding:
    """Something that the survey suffers from."""
    return Finding(what, todo, problem=True)
