"""Logs in which positions and depths come at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core.errors import InputError, shown

#: Bytes of memory that a position, a depth or a kind of message takes.
ROW_BYTES = 200
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9


def nothing_found(
    path: Path, missing: Mapping[str, Sequence[str]], heard: Counter[str], refused: Counter[str]
) -> InputError:
    """The error for a log without positions or depths.

    Args:
        path: of the log.
        missing: the kinds of messages that have them, the preferred first.
        heard: how many messages the log has, by kind.
        refused: how many are left out, by reason; an empty reason does not count.
    """
    wanted = " and ".join(f"{what} ({' or '.join(kinds)})" for what, kinds in missing.items())
    there = ", ".join(f"{n} {shown(kind, 20)}" for kind, n in heard.most_common(12))
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items() if reason)
    return InputError(
        f"{path}: expected {wanted}, got none; the file has {there or 'no message'}"
        + (f" (left out: {reasons})" if reasons else "")
    )
