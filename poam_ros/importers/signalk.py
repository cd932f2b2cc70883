"""Logs with a row per value, as tables: deltas of Signal K, a line of JSON each, and the CSV of
InfluxDB."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ..core.errors import InputError
from ..core.reading import LONGEST_LINE, MemoryMeter
from .columns import Names
from .options import ReadOptions
from .raw import RawSoundings
from .tables import of_rows

#: Bytes of memory that a value takes.
VALUE_BYTES = 300

#: Source, name, time and value.
Value = tuple[str, str, str, Any]


def is_signalk(path: Path, head: bytes) -> bool:
    """Whether a file has deltas of Signal K, or is a table of InfluxDB with a row per value."""
    deltas = head.lstrip(b" \r\n[").startswith(b"{") and b'"updates"' in head and b'"path"' in head
    return deltas or all(name in head for name in (b"_time", b"_value", b"_field"))


def read_signalk(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths at positions of the source that has the most, interpolated to their times.

    Raises:
        InputError: the file cannot be read, has no positions or no depths, or sources contradict
            each other.
    """
    refused, heard = Counter[str](), Counter[str]()
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            begin = file.read(4000)
            file.seek(0)
            read = _deltas if begin.lstrip(" \r\n[").startswith("{") else _rows
            header, rows = _pivoted(path, read(file, refused), heard, refused)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    there = ", ".join(f"{count} {name[:40]}" for name, count in heard.most_common(12))
    kind = f"a row per value: {there or 'none'}"
    return of_rows(path, options, header, rows, kind, refused=refused)


def _pivoted(
    path: Path, values: Iterable[Value], heard: Counter[str], refused: Counter[str]
) -> tuple[tuple[str, ...], list[list[str]]]:
    """A row for each time, with a column for each name and source of places and depths."""
    memory, table = MemoryMeter(f"{path}: its content"), dict[str, dict[tuple[str, str], str]]()
    sources: dict[str, Counter[str]] = {}
    for source, name, time, value in values:
        parts = {name: value}
        if isinstance(value, dict):  # a position
            parts = {f"{name}.{part}": each for part, each in value.items()}
        for full, each in parts.items():
            heard[full] += 1
            found = Names.of((full,), {}, "").found
            if not any(found[meaning] for meaning in ("latitude", "longitude", "depth")):
                continue
            memory.add(VALUE_BYTES)
            sources.setdefault(full, Counter())[source] += 1
            table.setdefault(time, {})[full, source] = "" if each is None else str(each)
    columns = dict[tuple[str, str], str]()
    for name, every in sources.items():
        (most, _), *others = every.most_common()
        columns[name, most] = name
        if Names.of((name,), {}, "").found["depth"]:
            columns |= {(name, source): f"{name} ({source})" for source, _ in others}
        else:
            refused["other_receiver"] += sum(count for _, count in others)
    rows = [[time, *(row.get(key, "") for key in columns)] for time, row in sorted(table.items())]
    return ("time", *columns.values()), rows


def _deltas(file: TextIO, refused: Counter[str]) -> Iterator[Value]:
    """The values of deltas, a line each."""
    while line := file.readline(LONGEST_LINE):
        try:
            for update in json.loads(line.strip(" \r\n,[]"))["updates"]:
                source = str(update.get("$source") or update.get("source", {}).get("label", ""))
                for each in update.get("values", ()):
                    yield source, str(each["path"]), str(update["timestamp"]), each["value"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            refused["bad_message"] += bool(line.strip(" \r\n,[]"))


def _rows(file: TextIO, refused: Counter[str]) -> Iterator[Value]:
    """The values of InfluxDB's table: a row each, with the name of a field; headers anywhere."""
    header: list[str] = []
    for row in csv.reader(file):
        if not row or row[0].startswith("#"):
            continue
        if "_time" in row and "_value" in row:
            header = row
            continue
        if len(row) != len(header):
            refused["bad_message"] += 1
            continue
        cells = dict(zip(header, row, strict=True))
        name, field, value = cells.get("_measurement", ""), cells.get("_field", ""), cells["_value"]
        if value.startswith("{"):
            try:
                value, field = json.loads(value), "value"
            except ValueError:
                refused["bad_message"] += 1
                continue
        full = name if field in ("", "value") else f"{name}.{field}"
        yield cells.get("source", cells.get("$source", "")), full, cells["_time"], value
