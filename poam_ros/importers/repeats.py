"""Soundings that a record has twice: copies, parts, other exports of a day, logs joined twice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import quantity
from ..mapping.left_out import DATES
from ..mapping.soundings import Soundings

log = logging.getLogger(__name__)

#: The reason of the soundings that this rule leaves out.
REPEATED = "repeated"
#: Places this near (m) at the same time are the same: six decimals of a degree are 0.1 m.
SAME_PLACE = 0.3
#: Fewer soundings than this are no repetition: two pings may follow each other where a file ends.
FEWEST = 10
#: A file whose times go back by more than this (ns) may repeat itself; in more parts it is sorted
#: by something else.
BACK, PARTS = 10 * SECOND, 20
#: Larger differences of depths (m) are reported.
OTHER_DEPTH = 0.1


def without_repeats(soundings: Soundings, files: Sequence[Path]) -> Soundings:
    """The soundings of one or more ``files``, each once: those of a later file, or of a later part
    of a file whose times begin anew, that an earlier one has at the same time and place are left
    out, with a warning. A line that is driven again has other times.

    Where times or their dates are unknown, a file is left out that is the same as another one.
    """
    stamps = soundings.stamp_ns
    dated = stamps is not None and len(stamps) > 0 and bool((stamps > DATES).all())
    begins = np.searchsorted(soundings.row, [first for _, first in soundings.files[1:]])
    names, parts = list[str](), list[np.ndarray]()
    for path, these in zip(files, np.split(np.arange(len(soundings)), begins), strict=True):
        own = _parts(stamps, these) if stamps is not None and dated else [these]
        parts += own
        names += len(own) * [path.name]
    left, out = [], np.zeros(len(soundings), dtype=bool)
    for later, these in enumerate(parts):
        for earlier, others in enumerate(parts[:later]):
            rest = these[~out[these]]
            pairs = (_same_times if dated else _same_rows)(soundings, rest, others)
            if len(pairs) < min(FEWEST, len(rest)) or not len(pairs):
                continue
            found, match = np.array(pairs).T
            mask = np.zeros(len(soundings), dtype=bool)
            mask[found] = True
            off = float(np.abs(soundings.z[found] - soundings.z[match]).max())
            where = names[earlier] if names[later] != names[earlier] else "an earlier part of it"
            log.warning(
                "%s: %s of %d also in %s at the same %s: left out%s",
                names[later], quantity(int(mask.sum()), "sounding"), len(these), where,
                "time and place" if dated else "places, with the same depths",
                f" (depths differ by up to {off:.2g} m: give the right file first)"
                if off > OTHER_DEPTH else "",
            )  # fmt: skip
            out |= mask
            left.append(soundings.left(mask, REPEATED, f"also in {where}"))
    return soundings.without(*left) if left else soundings


def _parts(stamps: np.ndarray, these: np.ndarray) -> list[np.ndarray]:
    """The parts of a file between which its times go back; indices."""
    back = np.flatnonzero(np.diff(stamps[these]) < -BACK) + 1
    return np.split(these, back) if len(back) < PARTS else [these]


def _same_times(
    soundings: Soundings, these: np.ndarray, others: np.ndarray
) -> list[tuple[int, int]]:
    """Pairs of indices with the same time, in ms, or in s where a file has whole seconds, and the
    same place."""
    from scipy.spatial import cKDTree

    stamps = soundings.stamp_ns
    assert stamps is not None
    whole = any(not (stamps[each] % SECOND).any() for each in (these, others))
    keys = stamps // SECOND if whole else np.round(stamps / 1e6)
    points = np.column_stack((keys, soundings.xy))
    reach = 1.000001 * SAME_PLACE
    near, match = cKDTree(points[others]).query(points[these], p=np.inf, distance_upper_bound=reach)
    known = np.isfinite(near)
    return list(zip(these[known], others[match[known]], strict=True))


def _same_rows(
    soundings: Soundings, these: np.ndarray, others: np.ndarray
) -> list[tuple[int, int]]:
    """All pairs of indices in order, if place and depth of all are the same to the millimetre."""
    first, second = (np.round(1000 * soundings.xyz[each]) for each in (these, others))
    return list(zip(these, others, strict=True)) if np.array_equal(first, second) else []
