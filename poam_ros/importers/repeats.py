"""Soundings that a record has twice: copies, parts, other exports of a day, logs joined twice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import quantity
from ..mapping.exclusions import DATES
from ..mapping.soundings import Soundings

log = logging.getLogger(__name__)

#: The reason of the soundings that this rule leaves out.
REPEATED = "repeated"
#: Places this near (m) at the same time are the same: six decimals of a degree are 0.1 m.
SAME_PLACE = 0.3
#: Resolution of times, in ns: in a file of whole seconds, and in others.
WHOLE, FINE = SECOND, SECOND // 1000
#: Fewer soundings than this are no repetition: two pings may follow each other where a file ends.
FEWEST = 10
#: Without times: the share of a file that stands in another one, in the same order.
SHARE = 0.5
#: A file whose times go back by more than this (ns) may repeat itself; in more parts it is sorted
#: by something else.
BACK, PARTS = 10 * SECOND, 20
#: Larger differences of depths (m) are reported.
OTHER_DEPTH = 0.1


def without_repeats(soundings: Soundings, files: Sequence[Path]) -> Soundings:
    """The soundings of one or more ``files``, each once: those of a later file, or of a later part
    of a file whose times begin anew, that an earlier one has at the same time and place are left
    out, with a warning. A line that is driven again has other times.

    Where times or their dates are unknown, a file repeats another one if half of it stands there,
    place and depth to the millimetre, in the same order.
    """
    stamps = soundings.stamp_ns
    dated = stamps is not None and len(stamps) > 0 and bool((stamps > DATES).all())
    first = [first for _, first in soundings.files] or [0]
    begins = np.searchsorted(soundings.row, first)
    every = [
        np.arange(begin, end)
        for begin, end in zip(begins, [*begins[1:], len(soundings)], strict=True)
    ]
    names, parts = list[str](), list[np.ndarray]()
    for path, these in zip(files, every, strict=True):
        own = _parts(stamps, these) if stamps is not None and dated else [these]
        parts += own
        names += len(own) * [path.name]
    if len(parts) < 2:
        return soundings
    left, out = [], np.zeros(len(soundings), dtype=bool)
    for later, these in enumerate(parts):
        for earlier, others in enumerate(parts[:later]):
            rest = these[~out[these]]
            if not (len(rest) and len(others)):
                continue
            found, match = (_same_times if dated else _same_rows)(soundings, rest, others)
            if len(found) < min(FEWEST, len(rest)):
                continue
            off = float(np.abs(soundings.z[found] - soundings.z[match]).max())
            where = names[earlier] if names[later] != names[earlier] else "an earlier part of it"
            log.warning(
                "%s: %s of %d also in %s at the same %s: left out%s",
                names[later], quantity(len(found), "sounding"), len(these), where,
                "time and place" if dated else "place and depth, in the same order",
                f" (depths differ by up to {off:.2g} m: give the right file first)"
                if off > OTHER_DEPTH else "",
            )  # fmt: skip
            mask = np.zeros(len(soundings), dtype=bool)
            mask[found] = True
            out |= mask
            left.append(soundings.left(mask, REPEATED, f"also in {where}"))
    return soundings.without(*left)


def _parts(stamps: np.ndarray, these: np.ndarray) -> list[np.ndarray]:
    """The parts of a file between which its times go back; indices."""
    back = np.flatnonzero(np.diff(stamps[these]) < -BACK) + 1
    return np.split(these, back) if len(back) < PARTS else [these]


def _same_times(
    soundings: Soundings, these: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which of ``these`` have the time and place of another one, and of which; indices."""
    from scipy.spatial import cKDTree

    stamps = soundings.stamp_ns
    assert stamps is not None
    step = max(FINE if (stamps[each] % WHOLE).any() else WHOLE for each in (these, others))
    begin, end = stamps[others].min() - step, stamps[others].max() + step
    these = these[(stamps[these] >= begin) & (stamps[these] <= end)]
    if not len(these):
        return these, these

    def at(index: np.ndarray) -> np.ndarray:
        return np.column_stack((
            (stamps[index] - begin) / step, soundings.xy[index] / SAME_PLACE
        ))  # fmt: skip

    near, match = cKDTree(at(others)).query(at(these), p=np.inf, distance_upper_bound=1 - 1e-6)
    found = np.isfinite(near)
    return these[found], others[match[found]]


def _same_rows(
    soundings: Soundings, these: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of ``these`` with place and depth of one of the others, and which, if they stand there
    in the same order; indices."""
    keys = np.round(1000 * soundings.xyz).astype(np.int64)
    number = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    first = np.full(number.max() + 1, -1)
    first[number[others][::-1]] = others[::-1]
    match = first[number[these]]
    found = match >= 0
    once = found & (np.bincount(number[others], minlength=len(first))[number[these]] == 1)
    offset = these[once] - match[once]
    common = np.unique(offset, return_counts=True)[1].max(initial=0)
    if common < max(1, SHARE * once.sum()) or found.sum() < SHARE * len(these):
        return these[:0], these[:0]
    return these[found], match[found]
