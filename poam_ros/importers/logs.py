"""Logs in which positions and depths come at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..core.errors import InputError, shown

#: Bytes of memory that a position, a depth or a kind of message takes.
ROW_BYTES = 200
#: Depths between positions farther apart than this are refused, in s.
GAP = 10.0
DAY = 86_400.0
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


def interpolated(seconds: np.ndarray, fixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions at times.

    Args:
        seconds: the times [N], in s.
        fixes: time (s), latitude and longitude (degrees) of known positions [K, 3].

    Returns:
        Latitude and longitude [N, 2], NaN before the first position and after the last one; and
        whether the positions around each are at most ``GAP`` s apart [N], boolean.
    """
    order = np.argsort(fixes[:, 0], kind="stable")
    times, first = np.unique(fixes[order, 0], return_index=True)
    latitude, longitude = fixes[order][first, 1:].T
    longitude = np.unwrap(longitude, period=360.0)
    place = np.column_stack([np.interp(seconds, times, each) for each in (latitude, longitude)])
    place[:, 1] = (place[:, 1] + 180.0) % 360.0 - 180.0
    place[(seconds < times[0]) | (seconds > times[-1])] = np.nan
    after = np.clip(np.searchsorted(times, seconds), 1, max(1, len(times) - 1))
    if len(times) == 1:
        return place, np.ones(len(seconds), dtype=bool)
    return place, (times[after] - times[after - 1] <= GAP) | np.isin(seconds, times)
