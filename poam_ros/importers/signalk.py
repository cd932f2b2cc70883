"""Logs of Signal K: its deltas, a line of JSON each, and what InfluxDB exports as CSV."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.reading import LONGEST_LINE, MemoryMeter
from .gpx import stamp_of
from .logs import ROW_BYTES, nothing_found, placed
from .raw import RawSoundings, ReadOptions
from .receivers import Fix, NmeaLog

#: The kinds of depths that Signal K has, in m, and that of other programs.
DEPTHS = ("belowSurface", "belowTransducer", "belowKeel", "depth")
POSITION = "position"
PLACES = {"lat": "lat", "latitude": "lat", "lon": "lon", "lng": "lon", "longitude": "lon"}

#: Source, path, time (s since 1970) and value.
Value = tuple[str, str, float, Any]


def is_signalk(path: Path, head: bytes) -> bool:
    """Whether a file has deltas of Signal K, or is a table of InfluxDB with a row per value."""
    deltas = head.lstrip(b" \r\n[").startswith(b"{") and b'"updates"' in head and b'"path"' in head
    return deltas or all(name in head for name in (b"_time", b"_value", b"_field"))


def read_signalk(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths (m) at positions that are interpolated to their times.

    Raises:
        InputError: the file cannot be read, has no positions or no depths, or sources contradict
            each other.
    """
    log, memory = NmeaLog(), MemoryMeter(f"{path}: its content")
    apart: dict[tuple[str, float], dict[str, float]] = defaultdict(dict)
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            begin = file.read(4000)
            file.seek(0)
            read = _deltas if begin.lstrip(" \r\n[").startswith("{") else _rows
            for source, name, seconds, value in read(file, log):
                kind = name.rpartition(".")[2]
                if kind in PLACES or kind in DEPTHS or kind == POSITION or not log.heard[name]:
                    memory.add(ROW_BYTES)
                log.heard[name] += 1
                if kind in PLACES:
                    apart[source, seconds][PLACES[kind]] = _number(value)
                elif kind == POSITION and isinstance(value, dict):
                    apart[source, seconds] = {PLACES[k]: _number(value[k]) for k in value
                                              if k in PLACES}  # fmt: skip
                elif kind in DEPTHS:
                    _take(log, (source, kind), seconds, _number(value))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for (source, seconds), place in apart.items():
        latitude, longitude = place.get("lat", math.nan), place.get("lon", math.nan)
        if abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0):
            fix = Fix(seconds, seconds, latitude, longitude)
            log.fixes.setdefault((source, POSITION), []).append(fix)
    if not log.fixes or not log.depths:
        every = ("positions", (POSITION,), log.fixes), ("depths", DEPTHS, log.depths)
        missing = {what: kinds for what, kinds, found in every if not found}
        raise nothing_found(path, missing, log.heard, log.refused)
    return placed(path, log, options)


def _take(log: NmeaLog, key: tuple[str, str], seconds: float, depth: float) -> None:
    if depth > 0:
        log.depths.setdefault(key, []).append((seconds, depth, 0.0))
    else:
        log.torn.setdefault(key, []).append((seconds, "no_reading"))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _deltas(file: TextIO, log: NmeaLog) -> Iterator[Value]:
    """The values of deltas, a line each."""
    while line := file.readline(LONGEST_LINE):
        try:
            for update in json.loads(line.strip(" \r\n,[]"))["updates"]:
                seconds = stamp_of(update["timestamp"]) / SECOND
                source = str(update.get("$source") or update.get("source", {}).get("label", ""))
                for each in update.get("values", ()):
                    yield source, str(each["path"]), seconds, each["value"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            log.refused["bad_message"] += bool(line.strip(" \r\n,[]"))


def _rows(file: TextIO, log: NmeaLog) -> Iterator[Value]:
    """The values of InfluxDB's table: a row each, with the name of a field; headers anywhere."""
    header: list[str] = []
    for row in csv.reader(file):
        if not row or row[0].startswith("#"):
            continue
        if "_time" in row and "_value" in row:
            header = row
            continue
        if len(row) != len(header):
            log.refused["bad_message"] += 1
            continue
        cells = dict(zip(header, row, strict=True))
        name, field = cells.get("_measurement", ""), cells.get("_field", "value")
        value: Any = cells["_value"]
        if value.startswith("{"):
            try:
                value, field = json.loads(value), "value"
            except ValueError:
                log.refused["bad_message"] += 1
                continue
        full = name if field == "value" else f"{name}.{field}"
        seconds = stamp_of(cells["_time"]) / SECOND
        yield cells.get("source", cells.get("$source", "")), full, seconds, value
