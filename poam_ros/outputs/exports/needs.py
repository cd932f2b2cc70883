"""What an extra brings, asked for where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...core.errors import InputError


@contextmanager
def needing(what: str, package: str, extra: str = "geo") -> Iterator[None]:
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
