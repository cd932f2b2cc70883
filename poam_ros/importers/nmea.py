"""NMEA 0183 as loggers write it, as a table: a row for each sentence with a position or a depth."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError, quantity, requires_extra
from ..core.geodesy import rough_metres
from ..core.reading import MemoryMeter, read_whole
from .cells import UNITS
from .columns import Table
from .options import ReadOptions, Unclear
from .raw import RawSoundings, nothing_found
from .tables import soundings
from .track import DAY, over_midnight

#: Kinds of sentences with positions and with depths; ZDA has a date, as has RMC.
POSITIONS, DEPTHS = ("GGA", "GNS", "RMC", "GLL"), ("DBS", "DPT", "DBT", "DBK")
WANTED = frozenset((*POSITIONS, "ZDA", *DEPTHS))
#: A receiver's quality or mode: no position, dead reckoning, typed in by hand.
NO_FIX = {0, 6, 7, "0", "6", "7", "N", "E", "M", ""}
#: Talkers of one receiver of several satellite systems, which may change with what it receives.
SATELLITES = ("GN", "GP", "GL", "GA", "GB", "BD", "GQ", "GI")
#: Positions at one time that are farther apart (m) are of two receivers, if a larger share is.
APART, OFTEN = 20.0, 0.05
#: Bytes of memory that a sentence takes.
ROW_BYTES = 300
EPOCH = date(1970, 1, 1).toordinal()
#: A sentence, wherever it stands, and its checksum, which a torn one lacks, or all of a file.
_SENTENCE = re.compile(rb"\$([A-Z][A-Z0-9][A-Z]{3},[ -#%-)+-~]*)(?:\*([0-9A-Fa-f]{2}))?")


class Fix(NamedTuple):
    """A position: number and name of its sentence, time of day (s) and date (days since 1970; NaN:
    unknown), latitude and longitude. A date alone has no place (NaN)."""

    number: int
    name: str
    clock: float
    day: float
    latitude: float
    longitude: float


def is_nmea(path: Path, head: bytes) -> bool:
    """Whether most of a file's first lines have an NMEA sentence, or some of these are whole."""
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    if sum(bool(_SENTENCE.search(line)) for line in lines) > len(lines) / 2:
        return True
    return sum(name[2:] in WANTED and _is_whole(text) for name, text in _sentences(head)) >= 3


def read_nmea(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a log of NMEA 0183 sentences: GGA, GNS, RMC, GLL, ZDA; DBS, DPT, DBT, DBK of any talker.

    Only sentences with a right checksum are read, wherever they stand in the file; and those
    without one, which is optional, of a talker and kind that never has it. A depth has no
    time of its own: time and position are interpolated by its place among the sentences between the
    positions before and after. Positive offsets of DPT are added.

    Raises:
        InputError: the file cannot be read, pynmeagps is not installed, there are no positions or
            depths, or receivers or sounders contradict each other.
    """
    heard, refused = Counter[str](), Counter[str]()
    every, depths, bare = _read(path, heard, refused)
    placed = [fix for fix in every if np.isfinite(fix.latitude)]
    timed = any(np.isfinite(fix.clock) for fix in placed)
    if not placed or not depths:
        wanted = {"positions": (POSITIONS, placed), "depths": (DEPTHS, depths)}
        raise nothing_found(path, wanted, heard, refused)
    columns = dict(options.columns)
    fixes = _one_receiver(path, placed, columns.pop("latitude", ""), refused)
    receivers = ", ".join(dict.fromkeys(fix.name for fix in fixes))
    times, dated = _times(every)
    names = Counter(name for _, name, _ in depths)
    if named := columns.get("depth", ""):
        same = [n for n in names if named.upper() in (n.upper(), n[:5], n[2:5])]
        if not same:
            each = " or ".join(f"depth={name}" for name in names)
            raise InputError(f"{path}: --columns: expected {each}, got depth={named}")
        columns["depth"] = max(same, key=lambda name: names[name])
    rows = {number: {name: repr(depth)} for number, name, depth in depths}
    for n, _, _, _, latitude, longitude in fixes:
        rows[n] = {"latitude": repr(latitude), "longitude": repr(longitude)}
        rows[n] |= {"time": f"{times[n]:.3f}"} if timed else {}
    kind = (
        f"{quantity(sum(heard.values()), 'sentence')} of NMEA 0183"
        + f" (without checksums: {', '.join(bare)})" * bool(bare)
        + f", positions {receivers}, {'times UTC' if timed else 'no times'}"
        + " of day without a date" * (timed and not dated)
    )
    table = Table.of_rows([row for _, row in sorted(rows.items())], kind, str(path))
    raw = soundings(path, replace(options, columns=columns), table, refused=refused)
    chosen = raw.columns["depth"]
    others = sum(name[:2] != chosen[:2] for _, name, _ in depths)
    offset = sum(name != chosen and name[:5] == chosen[:5] for _, name, _ in depths)
    left = Counter(other_sonar=others, no_offset=offset)
    return replace(raw, refused=+(raw.refused + left))


def _sentences(data: bytes) -> Iterator[tuple[str, re.Match[bytes]]]:
    """The name of each sentence, talker and kind, and the sentence."""
    for found in _SENTENCE.finditer(data):
        yield found[1][:5].decode(), found


def _is_whole(sentence: re.Match[bytes]) -> bool:
    return bool(sentence[2]) and reduce(operator.xor, sentence[1]) == int(sentence[2], 16)


def _read(
    path: Path, heard: Counter[str], refused: Counter[str]
) -> tuple[list[Fix], list[tuple[int, str, float]], list[str]]:
    """The positions and dates of a file; the depths (m) with number and name, 0 where the sounder
    lost the bottom; and the names that never have a checksum. Counts the sentences by kind, and
    those left out by reason."""
    with requires_extra(f"{path}: NMEA 0183", "pynmeagps", "nmea"):
        from pynmeagps import VALNONE, NMEAReader
    try:
        data = read_whole(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    fixes, depths, memory = list[Fix](), [], MemoryMeter(f"{path}: its content")
    names = {name: b"" for name, _ in _sentences(data) if name[2:] in WANTED}
    names |= {name: sentence[2] for name, sentence in _sentences(data) if sentence[2]}
    bare = [name for name, total in names.items() if not total]
    # A merged log has each sentence several times, as often as a position; equal depths may be two.
    said, kept, copies, clock = Counter[bytes](), Counter[bytes](), 1, np.nan  # at one time
    for number, (name, sentence) in enumerate(_sentences(data)):
        kind, text = name[2:], sentence[1]
        heard[kind] += 1
        if kind not in WANTED:
            continue
        memory.add(ROW_BYTES)
        if name not in bare and not _is_whole(sentence):
            refused["bad_checksum"] += 1
            continue
        try:
            if kind in DEPTHS:
                if kept[text] * copies > said[text]:
                    refused["repeated"] += 1
                else:
                    depths.append((number, *_depth(name, text.decode().split(",")[1:])))
                    kept[text] += 1
            elif fix := _fix(number, name, NMEAReader.parse(b"$%b*00" % text, validate=VALNONE)):
                fixes.append(fix)
                if fix.clock != clock:
                    said, kept, clock = Counter[bytes](), Counter[bytes](), fix.clock
                copies = said[text] + 1
            else:
                refused["no_fix"] += kind in POSITIONS
            said[text] += 1
        except Exception:  # of the library, and what malformed fields make it raise
            refused["bad_sentence"] += 1
    return fixes, depths, bare


def _fix(number: int, name: str, message: Any) -> Fix | None:
    """The position or date of a parsed sentence; None without one."""
    kind, clock, day = name[2:], np.nan, np.nan
    time: Any = getattr(message, "time", "")
    if time != "":
        clock = time.hour * 3600 + time.minute * 60 + time.second + time.microsecond / 1e6
    elif kind != "GLL":
        return None
    if kind == "ZDA":
        if "" in (message.day, message.month, message.year):
            return None
        day = date(message.year, message.month, message.day).toordinal() - EPOCH
        return Fix(number, name, clock, day, np.nan, np.nan)
    sure = message.quality if kind == "GGA" else getattr(message, "posMode", "A") or "A"
    modes = {*sure} if kind == "GNS" else {sure}  # of each satellite system
    known = modes - NO_FIX and getattr(message, "status", "A") == "A"
    if not known or "" in (message.lat, message.lon):
        return None
    latitude, longitude = float(message.lat), float(message.lon)
    sided = message.NS in ("N", "S") and message.EW in ("E", "W")
    if abs(latitude) > 90 or abs(longitude) > 180 or not sided:
        raise ValueError
    if kind == "RMC" and message.date != "":
        day = message.date.toordinal() - EPOCH
    return Fix(number, name, clock, day, latitude, longitude)


def _depth(name: str, fields: list[str]) -> tuple[str, float]:
    """The name of a sentence, which of DPT says whether it has an offset to the surface, and its
    depth with that, in m: of the others in metres, or else in feet or fathoms, each with its
    letter; 0 without one."""
    if name.endswith("DPT"):
        offset = max(0.0, float(fields[1])) if len(fields) > 1 and fields[1] else 0.0
        depth = float(fields[0] or 0)
        return f"{name} surface" if offset else name, (depth + offset) * (depth > 0)
    for at, letter, unit in ((2, "M", "m"), (0, "f", "ft"), (4, "F", "fathom")):
        value, written = (*fields[at : at + 2], "", "")[:2]
        if value:
            if written != letter:
                raise ValueError
            return name, max(0.0, UNITS[unit] * float(value))
    return name, 0.0


def _one_receiver(path: Path, fixes: list[Fix], wanted: str, refused: Counter[str]) -> list[Fix]:
    """The positions of one receiver, each time once, in the order of the file: those of the talker
    with the most, or of several satellite systems; others are counted. ``wanted``: a talker, a kind
    of sentence, or both joined."""
    if wanted:
        there = dict.fromkeys(fix.name for fix in fixes)
        fixes = [fix for fix in fixes if wanted.upper() in (fix.name, fix.name[:2], fix.name[2:])]
        if not fixes:
            each = " or ".join(f"latitude={name}" for name in there)
            raise InputError(f"{path}: --columns: expected {each}, got latitude={wanted}")
    pairs = [(one, other) for one, other in pairwise(fixes) if one.clock == other.clock]
    places = rough_metres(np.array([fix[-2:] for pair in pairs for fix in pair]).reshape(-1, 2))
    apart = np.hypot(*(places[::2] - places[1::2]).T)
    far = np.flatnonzero(apart > APART)
    if len(far) > OFTEN * len(pairs):
        both = {fix.name for i in far for fix in pairs[i]}
        letters = 2 if len({name[:2] for name in both}) > 1 else 5  # of talkers, or of sentences
        counts = Counter(fix.name[:letters] for fix in fixes)
        names = [n for n, _ in counts.most_common() if n in {name[:letters] for name in both}]
        each = ", ".join(f"{name} ({counts[name]:,} fixes)" for name in names)
        raise Unclear(
            f"{path}: positions are {np.median(apart[far]):.0f} m apart at the same times: {each}",
            {f"if {name} is the boat's": {"columns": {"latitude": name}}
             for name in names if len(names) > 1},
        )  # fmt: skip
    by_talker = ["GN" if fix.name[:2] in SATELLITES and not wanted else fix.name[:2]
                  for fix in fixes]  # fmt: skip
    most = Counter(by_talker).most_common(1)[0][0]
    own = [fix for fix, by in zip(fixes, by_talker, strict=True) if wanted or by == most]
    refused["other_receiver"] += len(fixes) - len(own)
    return own[:1] + [fix for before, fix in pairwise(own) if fix.clock != before.clock]


def _times(fixes: list[Fix]) -> tuple[dict[int, float], bool]:
    """The time of each position by its number, in s since 1970, and whether there was a date;
    without any, days count from 0. Each day is that of the date before it, or else behind it."""
    clock, day = np.array([(fix.clock, fix.day) for fix in fixes]).T
    going = over_midnight(clock)
    known = np.flatnonzero(np.isfinite(day))
    if len(known):
        offset = DAY * day[known] + clock[known] - going[known]
        # At midnight a receiver's date may be a second behind its clock.
        around = np.column_stack((np.roll(offset, 1), offset, np.roll(offset, -1)))
        offset[1:-1] = np.median(around, axis=1)[1:-1]
        last = np.searchsorted(known, np.arange(len(day)), side="right") - 1
        going = going + offset[np.maximum(last, 0)]
    numbers = (fix.number for fix in fixes)
    return dict(zip(numbers, going.tolist(), strict=True)), bool(len(known))
