"""The reader of NMEA 0183: positions, dates and depths of sentences as loggers write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from ..core.errors import InputError, requires_extra
from ..core.reading import MemoryMeter
from .cells import UNITS
from .logs import ROW_BYTES, nothing_found, placed
from .raw import RawSoundings, ReadOptions
from .receivers import DATES, SENTENCES, SOUNDERS, Fix, NmeaLog, date_fixes
from .track import DAY

WANTED = frozenset((*SENTENCES, *SOUNDERS, *DATES))
#: A receiver's quality or mode: no position, dead reckoning, typed in by hand.
NO_FIX = {0, 6, 7, "0", "6", "7", "N", "E", "M", ""}
CHUNK = 1 << 20
LONGEST = 4096  # of a sentence, with what stands behind it
#: A sentence behind its $; its begin; and what is left of one that lost its $.
_SENTENCE = re.compile(rb"([A-Z][A-Z0-9])([A-Z]{3}),([ -)+-~]*)\*([0-9A-Fa-f]{2})")
_BEGIN = re.compile(rb"([A-Z][A-Z0-9])([A-Z]{3}),")
_TORN = re.compile(rb"(?:GGA|RMC|GLL|DBS|DPT|DBT|DBK),")
_LINE = re.compile(rb"[\r\n]")
_NUMBER = re.compile(r"[+-]?\d*\.?\d+|\d+\.")


def whole_sentences(data: bytes) -> Iterator[tuple[str, str, bytes | None]]:
    """Talker and kind of each sentence, and its text with a right checksum; without one None, and
    an empty kind where its $ was lost."""
    for piece in data.split(b"$")[1:]:
        found, begin = _SENTENCE.match(piece), _BEGIN.match(piece)
        end = found.end() if found else begin.end() if begin else 0
        if begin:
            text = None
            if found and _checksum(piece[: found.start(4) - 1]) == int(found[4], 16):
                text = b"$" + found[0]
            elif found is None and b"*" not in _LINE.split(piece, maxsplit=1)[0]:
                text = b""
            yield begin[1].decode(), begin[2].decode(), text
        for _ in _TORN.finditer(piece, end):
            yield "", "", None


def _checksum(text: bytes) -> int:
    found = 0
    for each in text:
        found ^= each
    return found


def is_nmea(path: Path, head: bytes) -> bool:
    """Whether most of a file's first lines begin an NMEA sentence, or some such are whole."""
    head = head.replace(b"\0", b"")
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    if sum(b"$" in line and bool(_begins(line)) for line in lines) > len(lines) / 2:
        return True
    whole = (kind for _, kind, text in whole_sentences(head) if text)
    return sum(kind in WANTED for kind in whole) >= 3


def _begins(line: bytes) -> re.Match[bytes] | None:
    return next((m for piece in line.split(b"$")[1:] if (m := _BEGIN.match(piece))), None)


def read_nmea(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a log of NMEA 0183 sentences: GGA, RMC, GLL, ZDA; DBS, DPT, DBT, DBK of any talker.

    Only sentences with a right checksum are read, wherever they stand in the file. A depth has no
    time of its own: time and position are interpolated by its place among the sentences between the
    positions before and after. Positive offsets of DPT are added.

    Raises:
        InputError: the file cannot be read, pynmeagps is not installed, there are no positions or
            depths, or receivers or sounders contradict each other.
    """
    if options.units not in ("", "m"):
        raise InputError(f"{path}: --units: expected m, as of NMEA 0183, got {options.units}")
    log = _read(path)
    if not log.fixes or not log.depths:
        every = ("positions", SENTENCES, log.fixes), ("depths", SOUNDERS, log.depths)
        missing = {what: kinds for what, kinds, found in every if not found}
        torn = Counter(why for each in log.torn.values() for _, why in each)
        raise nothing_found(path, missing, log.heard, log.refused + torn)
    return placed(path, log, options, dated=date_fixes(log))


def _read(path: Path) -> NmeaLog:
    with requires_extra(f"{path}: NMEA 0183", "pynmeagps", "nmea"):
        from pynmeagps import NMEAReader
    log, memory, number = NmeaLog(), MemoryMeter(f"{path}: its content"), 0
    for talker, kind, text in _sentences(path):
        number += 1
        if kind in WANTED or (kind and kind not in log.heard):
            memory.add(ROW_BYTES)
        if kind:
            log.heard[kind] += 1
        if not text:
            if kind in WANTED or not kind:
                why = "bad_checksum" if text is None else "no_checksum"
                _leave_out(log, number, talker, kind, why)
            continue
        if kind not in WANTED:
            continue
        try:
            if kind in SOUNDERS:
                _take_depth(log, number, (talker, kind), text.decode()[1:-3].split(",")[1:])
            else:
                _take(log, number, talker, kind, NMEAReader.parse(text))
        except Exception:  # of the library, and what malformed fields make it raise
            _leave_out(log, number, talker, kind, "bad_sentence")
    return log


def _leave_out(log: NmeaLog, number: int, talker: str, kind: str, why: str) -> None:
    if kind in SOUNDERS:
        log.torn.setdefault((talker, kind), []).append((number, why))
    else:
        log.refused[why] += 1


def _sentences(path: Path) -> Iterator[tuple[str, str, bytes | None]]:
    """Those of a file, which is read a part at a time; of a text in UTF-16, too."""
    rest = b"$"  # what stands before the first $ is no sentence, but may be one without its $
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                data = rest + chunk.replace(b"\0", b"")
                cut = data.rfind(b"$")
                cut = cut if len(data) - cut < LONGEST else len(data)
                yield from whole_sentences(data[:cut])
                rest = data[cut:] or b"$"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    yield from whole_sentences(rest)


def _take_depth(log: NmeaLog, number: int, key: tuple[str, str], fields: Sequence[str]) -> None:
    depth, offset = _dpt(fields) if key[1] == "DPT" else (_with_unit(fields), 0.0)
    if depth is None or depth <= 0:  # what sounders write that have lost the bottom
        _leave_out(log, number, *key, "no_reading")
    else:
        log.depths.setdefault(key, []).append((number, depth, offset))


def _take(log: NmeaLog, number: int, talker: str, kind: str, message: Any) -> None:
    clock = _clock(message)
    if kind == "ZDA":
        if clock is not None and "" not in (message.day, message.month, message.year):
            day = date(message.year, message.month, message.day)
            log.dates.setdefault(kind, []).append((number, clock, _days(day)))
        return
    sure = message.quality if kind == "GGA" else getattr(message, "posMode", "A") or "A"
    known = sure not in NO_FIX and (kind == "GGA" or message.status == "A")
    if not known or clock is None or "" in (message.lat, message.lon):
        log.refused["no_fix"] += 1
        return
    if kind == "RMC" and message.date != "":
        log.dates.setdefault(kind, []).append((number, clock, _days(message.date)))
    latitude, longitude = float(message.lat), float(message.lon)
    sided = message.NS in ("N", "S") and message.EW in ("E", "W")
    if abs(latitude) > 90 or abs(longitude) > 180 or not sided:
        raise ValueError
    log.fixes.setdefault((talker, kind), []).append(Fix(number, clock, latitude, longitude))


def _clock(message: Any) -> float | None:
    clock = message.time
    if clock == "":
        return None
    return float(clock.hour * 3600 + clock.minute * 60 + clock.second + clock.microsecond / 1e6)


def _days(day: date) -> float:
    return (day - date(1970, 1, 1)).days * DAY


def _dpt(fields: Sequence[str]) -> tuple[float | None, float]:
    """Depth below the transducer and offset, in m."""
    if not fields[0]:
        return None, 0.0
    return _value(fields[0]), _value(fields[1]) if len(fields) > 1 and fields[1] else 0.0


def _with_unit(fields: Sequence[str]) -> float | None:
    """Depth in m of DBT, DBS, DBK: feet, metres, fathoms, each with its letter; None without one.

    Raises:
        ValueError: a letter is another one, or they contradict each other.
    """
    found = []
    for place, (letters, unit) in enumerate((("fF", "ft"), ("M", "m"), ("F", "fathom"))):
        pair = fields[2 * place : 2 * place + 2]
        if len(pair) == 2 and pair[0]:
            if not pair[1] or pair[1] not in letters:
                raise ValueError
            found.append((unit != "m", UNITS[unit] * _value(pair[0])))
    found.sort()
    for _, other in found[1:]:
        if abs(other - found[0][1]) > 0.3 + 0.05 * abs(found[0][1]):
            raise ValueError
    return found[0][1] if found else None


def _value(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError
    return float(text)
