"""What can go wrong, by type. Every message says what, where and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def shown(text: str, limit: int = 60) -> str:
    """Text from outside, for a line of a log: in ASCII, on one line, and no longer than that."""
    plain = ascii(text[:limit])[1:-1]
    return plain if len(plain) <= limit and len(text) <= limit else plain[:limit] + "..."


class PoamError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(PoamError, ValueError):
    """An argument, a file or a parameter is wrong: one line and exit status 2 on a command line."""


class TerrainError(InputError):
    """A terrain cannot be found, read or placed."""


class CholeskyError(PoamError, ArithmeticError):
    """A matrix stayed indefinite up to the largest jitter the policy allows."""


@contextmanager
def requires_extra(what: str, package: str, extra: str = "geo") -> Iterator[None]:
    """Import something optional within; an ``InputError`` says what it takes.

    Args:
        what: what needs it, as the user asked for it.
        package: what is missing if the import fails.
        extra: of this package, which brings it.
    """
    try:
        yield
    except ImportError:
        raise InputError(f"{what} needs {package} (pip install 'poam_ros[{extra}]')") from None
