"""Types of errors, texts in messages, and warnings at a limited rate.

Every message says what, where and what was expected.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

WARNING_PERIOD_S = 10.0  # wall time between two warnings for the same reason
MAX_LINES, MAX_LINE = 60, 400  # lines, and characters of a line: enough for a traceback


def shown(text: str, limit: int = 60) -> str:
    """External text for a log line: printable, without line breaks, cut at ``limit`` characters."""
    plain = repr(text[: limit + 1])[1:-1]
    return plain if len(plain) <= limit else plain[:limit] + "..."


def pasted(word: str, folder: Path) -> str:
    """The command ``poam WORD FOLDER`` as a shell takes it, from any working directory."""
    return f"poam {word} {quote(str(folder.absolute()))}"


def quantity(number: int, noun: str) -> str:
    """A number with its noun: 1 ping, 2 pings."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class PoamError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(PoamError, ValueError):
    """An argument, a file or a parameter is wrong: one line and exit status 2 on a command line."""


class Question(InputError):
    """Values of a file may mean several things, or cannot be right.

    Attributes:
        text: what is asked.
        answers: options of the command that decide, by when they are right.
    """

    def __init__(self, text: str, answers: Mapping[str, str]) -> None:
        words = "; ".join(f"{when}: {options}" for when, options in answers.items())
        super().__init__(f"{text}. {words[:1].upper()}{words[1:]}" if answers else text)
        self.text, self.answers = text, answers


class TerrainError(InputError):
    """A terrain cannot be found, read or placed."""


class CholeskyError(PoamError, ArithmeticError):
    """A matrix stayed indefinite up to the largest jitter the policy allows."""


@contextmanager
def requires_extra(what: str, package: str, extra: str = "geo") -> Iterator[None]:
    """Import an optional package in this context; raises an ``InputError`` if it is missing.

    Args:
        what: the feature that needs the package, as users know it.
        package: name of the package.
        extra: the extra of this package that installs it.
    """
    try:
        yield
    except ImportError:
        raise InputError(needs_extra(what, package, extra)) from None


def needs_extra(what: str, package: str, extra: str) -> str:
    """The error text for a missing optional package; arguments as for ``requires_extra``.
    All messages and pages use this form."""
    return f"{what} needs {package} (pip install 'poam_ros[{extra}]')"


class LogThrottle:
    """Counts by reason, and logs a warning for each at most once per ``WARNING_PERIOD_S``.

    A logger's own throttle works by line of code, so that one reason would suppress the others. The
    next warning tells how many were suppressed.

    Args:
        warn: called with a text.
        clock: a steady clock, in s.
    """

    def __init__(
        self, warn: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._warn, self._clock = warn, clock
        self._logged: dict[str, tuple[float, int]] = {}  # time and count of the last warning

    def add(self, reason: str, text: str) -> None:
        """Count one for a reason, and log the text if its period is over."""
        self.counts[reason] += 1
        self.remind(reason, text)

    def remind(self, reason: str, text: str) -> None:
        """Log the text if its period is over; for a state that lasts, which has no count."""
        count, now = self.counts[reason], self._clock()
        when, logged = self._logged.get(reason, (-math.inf, 0))
        if now - when >= WARNING_PERIOD_S:
            self._logged[reason] = now, count
            more = count - logged - 1
            lines = [line[:MAX_LINE] for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
            self._warn("\n".join(lines) + (f" (and {more} more like it)" if more > 0 else ""))
