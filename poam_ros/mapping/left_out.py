"""Soundings that are left out of a map, and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..frontend.refused_pings import RefusedPings


class Excluded(NamedTuple):
    """What a person left out: the conditions as text, the option or file that says so, who, when
    and why, and how many soundings."""

    which: str
    source: str
    who: str
    when: str
    why: str
    number: int


class LeftOut(NamedTuple):
    """M soundings that are left out of the map for one reason.

    Attributes:
        reason: as in the ledger.
        row: in the log [M]; -1 without one.
        stamp_ns: times of measurement [M], in ns; 0 where unknown.
        xyz: places and elevations [M, 3], in m; NaN where unknown.
        depth: below the water surface [M], in m; NaN where unknown.
        line: names of the survey lines [M]; empty where unknown.
        why: details of the reason; who, when: as a person wrote them.
    """

    reason: str
    row: np.ndarray
    stamp_ns: np.ndarray
    xyz: np.ndarray
    depth: np.ndarray
    line: np.ndarray
    why: str = ""
    who: str = ""
    when: str = ""

    @classmethod
    def of(cls, pings: RefusedPings) -> tuple[LeftOut, ...]:
        """Pings that a front end refused, by reason."""
        every = (pings[pings.reason == reason] for reason in dict.fromkeys(pings.reason.tolist()))
        return tuple(
            cls(str(each.reason[0]), np.full(len(each), -1), each.stamp_ns, each.xyz,
                np.full(len(each), np.nan), np.full(len(each), "", dtype=object))
            for each in every
        )  # fmt: skip
