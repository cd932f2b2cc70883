"""Logs in which positions and depths come at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from .raw import RawSoundings, ReadOptions
from .receivers import KEEL, SENTENCES, NmeaLog, receiver, sounder
from .track import Track

#: Bytes of memory that a position, a depth or a kind of message takes.
ROW_BYTES = 200
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9
#: How late depths are taken to be after a position, in s, if that is reported: where a logger
#: writes both at once, it is a latency, which ``--calibrate`` finds.
LATE = 0.2


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


def placed(path: Path, log: NmeaLog, options: ReadOptions, dated: bool = True) -> RawSoundings:
    """The depths of one sounder at the positions of one receiver, interpolated by the numbers of
    sentences.

    Args:
        path: of the log.
        log: its positions and depths.
        options: ``columns`` name receiver and sounder, where those with the most are not meant.
        dated: whether its times count from 1970.

    Raises:
        InputError: receivers or sounders contradict each other, or an option does not apply.
    """
    fixes, receivers = receiver(path, log, options.columns.get("latitude", ""))
    chosen, sonars = sounder(path, log, fixes, options.columns.get("depth", ""))
    fixed = np.array(fixes)
    depths = _without_doubled(log, fixed, chosen.depths)
    torn_ones = [each for key in sonars for each in log.torn.get(key, [])]
    at = np.append(depths[:, 0], [number for number, _ in torn_ones])
    depth = np.append(
        depths[:, 1] + np.maximum(depths[:, 2], 0.0) + _keel(path, chosen.origin, options),
        np.full(len(torn_ones), np.nan),
    )
    reason = np.array([""] * len(depths) + [why for _, why in torn_ones])
    order = np.argsort(at, kind="stable")
    at, depth, reason = at[order], depth[order], reason[order]
    track = Track.of(str(path), fixed[:, 1], fixed[:, 2:], at=fixed[:, 0])
    time = track.times(at)
    timed = (time >= 0) & (time < LAST)
    found = RawSoundings(
        track.places(at), depth,
        stamp_ns=np.round(np.where(timed, time, 0) * SECOND).astype(np.int64), fixed=True,
        understood=f"positions {receivers}, depths {_names(sonars)} "
        f"(m{_begin(chosen.origin, options)}), "
        f"time UTC{'' if dated else ' of day without a date'}{_late(fixed, at, time)}",
        layout=quantity(sum(log.heard.values()), "message"), refused=+log.refused,
    )  # fmt: skip
    why = {str(each): reason == each for each in dict.fromkeys(reason.tolist()) if each}
    return found.without({**why, **track.refused(at), "no_time": ~timed})


def _names(keys: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} of {talker}" for talker, kind in keys)


def _late(fixed: np.ndarray, at: np.ndarray, time: np.ndarray) -> str:
    """How late depths stand after a position, as text; ``fixed``: positions [K, 4]."""
    number, seconds = fixed[:, :2].T
    if (number == seconds).all():
        return ""
    last = np.maximum(np.searchsorted(number, at) - 1, 0)
    after = (time - seconds[last])[np.append(np.diff(seconds), 0.0)[last] > 0]
    after = after[np.isfinite(after)]
    late = float(np.median(after)) if len(after) else 0.0
    return f", {late:.2g} s after a position by their lines" if late >= LATE else ""


def _keel(path: Path, origin: str, options: ReadOptions) -> float:
    """The depth of the keel if depths count from it, in m.

    Raises:
        InputError: --keel or --draught is given, and depths count from elsewhere.
    """
    for option, value, wrong in (
        ("keel", options.keel, origin != KEEL),
        ("draught", options.draught, origin == KEEL),
    ):
        if value and wrong:
            raise InputError(
                f"{path}: --{option}: does not apply, as depths count from the "
                f"{origin or 'surface'}"
            )
    return options.keel


def _begin(origin: str, options: ReadOptions) -> str:
    """Where depths count from, as text; empty: from the surface."""
    option, value = ("keel", options.keel) if origin == KEEL else ("draught", options.draught)
    added = f"{value:g} m of {option} added" if value else f"--{option} adds its depth"
    return f" below the {origin}; {added}" if origin else ""


def _without_doubled(log: NmeaLog, fixed: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Depths [N, 3] of a log that has every sentence twice, without the second of each; those of
    other logs as they are. ``fixed``: positions, each once [K, 4]."""
    most = max(log.heard[kind] for kind in SENTENCES)
    if most < 2 * 0.9 * len(fixed):
        return depths
    epoch = np.searchsorted(fixed[:, 0], depths[:, 0])
    _, first = np.unique(np.column_stack((epoch, depths[:, 1:])), axis=0, return_index=True)
    log.refused["repeated"] += len(depths) - len(first)
    return depths[np.sort(first)]
