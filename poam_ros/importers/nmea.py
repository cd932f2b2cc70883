"""NMEA 0183 as loggers write it, as a table: a row for each sentence with a position or a depth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError, quantity, requires_extra, shown
from ..core.geodesy import rough_metres
from ..core.reading import MemoryMeter
from .cells import UNITS
from .options import Answer, ReadOptions, Unclear
from .raw import RawSoundings
from .tables import of_rows
from .track import DAY, over_midnight

#: Kinds of sentences with positions, with dates and with depths.
POSITIONS, DATES, DEPTHS = ("GGA", "RMC", "GLL"), ("RMC", "ZDA"), ("DBS", "DPT", "DBT", "DBK")
WANTED = frozenset((*POSITIONS, *DATES, *DEPTHS))
#: A receiver's quality or mode: no position, dead reckoning, typed in by hand.
NO_FIX = {0, 6, 7, "0", "6", "7", "N", "E", "M", ""}
#: Talkers of one receiver of several satellite systems, which may change with what it receives.
SATELLITES = ("GN", "GP", "GL", "GA", "GB", "BD", "GQ", "GI")
#: Positions at one time that are farther apart (m) are of two receivers, if a larger share is.
APART, OFTEN = 20.0, 0.05
#: Bytes of memory that a sentence takes; of a file that are read at a time; of a sentence.
ROW_BYTES, CHUNK, LONGEST = 300, 1 << 20, 4096
#: A sentence with its checksum, wherever it stands; and one that may lack it.
_WHOLE = re.compile(rb"\$([A-Z][A-Z0-9][A-Z]{3},[ -)+-~]*)\*([0-9A-Fa-f]{2})")
_BEGIN = re.compile(rb"\$[A-Z][A-Z0-9]([A-Z]{3}),")


class Fix(NamedTuple):
    """A position: number of its sentence, talker and kind, time of day (s), latitude, longitude."""

    number: int
    name: str
    clock: float
    latitude: float
    longitude: float


class _Log:
    """What the sentences of a file say: positions; dates with number and time of day; depths (m)
    with number and name, 0 where the sounder lost the bottom; how many there are by kind, and are
    left out by reason."""

    def __init__(self) -> None:
        self.fixes: list[Fix] = []
        self.dates: list[tuple[int, float, float]] = []
        self.depths: list[tuple[int, str, float]] = []
        self.heard, self.refused = Counter[str](), Counter[str]()


def is_nmea(path: Path, head: bytes) -> bool:
    """Whether most of a file's first lines have an NMEA sentence, or some of these are whole."""
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    if sum(bool(_BEGIN.search(line)) for line in lines) > len(lines) / 2:
        return True
    return sum(kind in WANTED for _, kind, text in _whole(head) if text) >= 3


def read_nmea(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a log of NMEA 0183 sentences: GGA, RMC, GLL, ZDA; DBS, DPT, DBT, DBK of any talker.

    Only sentences with a right checksum are read, wherever they stand in the file. A depth has no
    time of its own: time and position are interpolated by its place among the sentences between the
    positions before and after. Positive offsets of DPT are added.

    Raises:
        InputError: the file cannot be read, pynmeagps is not installed, there are no positions or
            depths, or receivers or sounders contradict each other.
    """
    log = _read(path)
    if not log.fixes or not log.depths:
        wanted = {"positions": (POSITIONS, log.fixes), "depths": (DEPTHS, log.depths)}
        missing = {what: kinds for what, (kinds, found) in wanted.items() if not found}
        raise nothing_found(path, missing, log.heard, log.refused)
    columns = dict(options.columns)
    fixes, receivers = _one_receiver(path, log, columns.pop("latitude", ""))
    seconds, dated = _seconds(fixes, log.dates)
    names = list(dict.fromkeys(name for _, name, _ in log.depths))
    if named := columns.get("depth", ""):
        same = [n for n in names if named.upper() in (n, n[2:], *n.split(" "))]
        if not same:
            each = " or ".join(f"depth={name}" for name in names)
            raise InputError(f"{path}: --columns: expected {each}, got depth={named}")
        columns["depth"] = same[0]
    blank = [""] * len(names)
    rows = [(fix.number, [f"{time:.3f}", repr(fix.latitude), repr(fix.longitude), *blank])
            for fix, time in zip(fixes, seconds.tolist(), strict=True)]  # fmt: skip
    rows += [(number, ["", "", "", *(repr(depth) if name == own else "" for own in names)])
             for number, name, depth in _once(log, fixes)]  # fmt: skip
    rows.sort(key=lambda row: row[0])
    kind = (
        f"{quantity(sum(log.heard.values()), 'sentence')} of NMEA 0183, positions {receivers}, "
        f"times UTC{'' if dated else ' of day without a date'}"
    )
    found = of_rows(
        path, replace(options, columns=columns), ("time", "latitude", "longitude", *names),
        [row for _, row in rows], kind, refused=log.refused,
    )  # fmt: skip
    talker = found.columns["depth"][:2]
    others = sum(name[:2] != talker for _, name, _ in log.depths)
    return replace(found, refused=+(found.refused + Counter(other_sonar=others)))


def nothing_found(
    path: Path, missing: Mapping[str, Sequence[str]], heard: Counter[str], refused: Counter[str]
) -> InputError:
    """The error for a log without positions or depths.

    Args:
        path: of the log.
        missing: the kinds of messages that have them, the preferred first.
        heard: how many messages the log has, by kind.
        refused: how many are left out, by reason.
    """
    wanted = " and ".join(f"{what} ({' or '.join(kinds)})" for what, kinds in missing.items())
    there = ", ".join(f"{n} {shown(kind, 20)}" for kind, n in heard.most_common(12))
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items())
    return InputError(
        f"{path}: expected {wanted}, got none; the file has {there or 'no message'}"
        + (f" (left out: {reasons})" if reasons else "")
    )


def _whole(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Talker and kind of each sentence, and its text with a right checksum; without one, empty."""
    done = 0
    for found in _WHOLE.finditer(data):
        yield from _without_sum(data[done : found.start()])
        done = found.end()
        total = 0
        for each in found[1]:
            total ^= each
        name = found[1][:5].decode()
        yield name[:2], name[2:], found[0] if total == int(found[2], 16) else b""
    yield from _without_sum(data[done:])


def _without_sum(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    for found in _BEGIN.finditer(data):
        yield "", found[1].decode(), b""


def _sentences(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Those of a file, which is read a part at a time."""
    rest = b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                data = rest + chunk
                cut = data.rfind(b"$")
                cut = cut if cut >= 0 and len(data) - cut < LONGEST else len(data)
                yield from _whole(data[:cut])
                rest = data[cut:]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    yield from _whole(rest)


def _read(path: Path) -> _Log:
    with requires_extra(f"{path}: NMEA 0183", "pynmeagps", "nmea"):
        from pynmeagps import NMEAReader
    log, memory = _Log(), MemoryMeter(f"{path}: its content")
    offsets = list[tuple[bool, int, str, float]]()
    for number, (talker, kind, text) in enumerate(_sentences(path)):
        log.heard[kind] += 1
        if kind not in WANTED:
            continue
        memory.add(ROW_BYTES)
        if not text:
            log.refused["bad_checksum"] += 1
            continue
        try:
            if kind == "DPT":
                offsets.append(_dpt(number, talker, text.decode()[1:-3].split(",")[1:]))
            elif kind in DEPTHS:
                depth = _with_unit(text.decode()[1:-3].split(",")[1:])
                log.depths.append((number, talker + kind, depth))
            else:
                _take(log, number, talker + kind, NMEAReader.parse(text))
        except Exception:  # of the library, and what malformed fields make it raise
            log.refused["bad_sentence"] += 1
    most = 2 * sum(given for given, *_ in offsets) > len(offsets)
    for given, number, name, depth in offsets:
        if most and not given:  # it counts from elsewhere
            log.refused["no_offset"] += 1
        else:
            log.depths.append((number, f"{name} surface" if most else name, depth))
    return log


def _take(log: _Log, number: int, name: str, message: Any) -> None:
    """A position, or a date."""
    kind, clock = name[2:], _clock(message.time)
    if kind == "ZDA":
        if clock is not None and "" not in (message.day, message.month, message.year):
            day = date(message.year, message.month, message.day)
            log.dates.append((number, clock, _days(day)))
        return
    sure = message.quality if kind == "GGA" else getattr(message, "posMode", "A") or "A"
    known = sure not in NO_FIX and (kind == "GGA" or message.status == "A")
    if not known or clock is None or "" in (message.lat, message.lon):
        log.refused["no_fix"] += 1
        return
    if kind == "RMC" and message.date != "":
        log.dates.append((number, clock, _days(message.date)))
    latitude, longitude = float(message.lat), float(message.lon)
    sided = message.NS in ("N", "S") and message.EW in ("E", "W")
    if abs(latitude) > 90 or abs(longitude) > 180 or not sided:
        raise ValueError
    log.fixes.append(Fix(number, name, clock, latitude, longitude))


def _clock(time: Any) -> float | None:
    if time == "":
        return None
    return float(time.hour * 3600 + time.minute * 60 + time.second + time.microsecond / 1e6)


def _days(day: date) -> float:
    return (day - date(1970, 1, 1)).days * DAY


def _dpt(number: int, talker: str, fields: list[str]) -> tuple[bool, int, str, float]:
    """Whether a DPT has an offset to the surface, and its depth with that, in m."""
    offset = float(fields[1]) if len(fields) > 1 and fields[1] else 0.0
    depth = float(fields[0] or 0)
    return offset > 0, number, f"{talker}DPT", max(depth + max(offset, 0.0), 0.0) * (depth > 0)


def _with_unit(fields: list[str]) -> float:
    """Depth in m of DBT, DBS, DBK: metres, or else feet or fathoms, each with its letter; 0 without
    one."""
    for at, letter, unit in ((2, "M", "m"), (0, "f", "ft"), (4, "F", "fathom")):
        value, written = (*fields[at : at + 2], "", "")[:2]
        if value:
            if written != letter:
                raise ValueError
            return max(0.0, UNITS[unit] * float(value))
    return 0.0


def _one_receiver(path: Path, log: _Log, wanted: str) -> tuple[list[Fix], str]:
    """The positions of one receiver, each time once, in the order of the file; and which these are.

    It is the talker with the most, or those of several satellite systems; others are counted.

    Raises:
        InputError: positions at the same times are at different places, or ``wanted`` is not there.
    """
    names = Counter(fix.name for fix in log.fixes)
    if wanted and not any(wanted.upper() in (name, name[2:]) for name in names):
        each = " or ".join(f"latitude={name}" for name in names)
        raise InputError(f"{path}: --columns: expected {each}, got latitude={wanted}")
    talkers = Counter("GN" if fix.name[:2] in SATELLITES else fix.name[:2] for fix in log.fixes)
    most = talkers.most_common(1)[0][0]
    own = SATELLITES if most == "GN" else (most,)
    pairs, fixes, last = list[tuple[Fix, Fix]](), list[Fix](), None
    for fix in log.fixes:
        if wanted and wanted.upper() not in (fix.name, fix.name[2:]):
            continue
        if last is not None and last.clock == fix.clock:
            pairs.append((last, fix))
        last = fix
        if fix.name[:2] not in own and not wanted:
            log.refused["other_receiver"] += 1
        elif not fixes or fixes[-1].clock != fix.clock:
            fixes.append(fix)
    if pairs:
        _check_same(path, pairs)
    return fixes, ", ".join(dict.fromkeys(fix.name for fix in fixes))


def _check_same(path: Path, pairs: list[tuple[Fix, Fix]]) -> None:
    """Raise an ``Unclear`` where positions at the same time [K] are at different places."""
    places = rough_metres(np.array([fix[3:] for pair in pairs for fix in pair]))
    apart = np.hypot(*(places[::2] - places[1::2]).T)
    far = apart > APART
    if far.mean() <= OFTEN:
        return
    names = sorted({fix.name for pair, its in zip(pairs, far, strict=True) if its for fix in pair})
    answers = [Answer(f"if {n} is the boat's", {"columns": {"latitude": n}}) for n in names]
    raise Unclear(
        f"{path}: expected one receiver, got positions {np.median(apart[far]):.0f} m apart at the "
        f"same time by {' and '.join(names)}", answers if len(names) > 1 else (),
    )  # fmt: skip


def _seconds(fixes: list[Fix], dates: list[tuple[int, float, float]]) -> tuple[np.ndarray, bool]:
    """Times of positions [N], in s since 1970, and whether there was a date; without any, days
    count from 0. Each day is that of the date before it, or else behind it."""
    events = [(fix.number, fix.clock, np.nan) for fix in fixes] + dates
    order = sorted(range(len(events)), key=lambda i: events[i][0])
    clock, day = np.array([events[i][1:] for i in order]).T
    going = over_midnight(clock)
    known = np.flatnonzero(np.isfinite(day))
    if len(known):
        offset = day[known] + clock[known] - going[known]
        # At midnight a receiver's date may be a second behind its clock.
        around = np.column_stack((np.roll(offset, 1), offset, np.roll(offset, -1)))
        offset[1:-1] = np.median(around, axis=1)[1:-1]
        last = np.searchsorted(known, np.arange(len(day)), side="right") - 1
        going = going + offset[np.maximum(last, 0)]
    return going[np.argsort(order, kind="stable")][: len(fixes)], bool(len(known))


def _once(log: _Log, fixes: list[Fix]) -> list[tuple[int, str, float]]:
    """The depths, of a log that has every sentence twice without the second of each."""
    kinds = Counter(fix.name[2:] for fix in log.fixes)
    if max(kinds.values()) < 1.8 * len(fixes):
        return log.depths
    epoch = np.searchsorted([fix.number for fix in fixes], [n for n, *_ in log.depths])
    first = {(e, *rest): number for e, (number, *rest) in
             reversed(list(zip(epoch.tolist(), log.depths, strict=True)))}  # fmt: skip
    kept = {*first.values()}
    log.refused["repeated"] += len(log.depths) - len(kept)
    return [each for each in log.depths if each[0] in kept]
