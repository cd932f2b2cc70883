"""Soundings from a CSV file: placed already, in the order of the record, read in chunks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..geometry import FARTHEST, Extent
from ..samples import Samples
from ..survey.placing import MAX_ELEVATION
from .projection import LocalProjection
from .sounding_columns import Columns

#: Rows that are text at the same time.
CHUNK = 50_000
SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Soundings:
    """What a record holds.

    Attributes:
        row: the data row of each in the file, from 0 [N].
        xy: places [N, 2], in m.
        z: elevations [N], in m, positive up.
        group: the index of each one's group [N]; without ``names`` each is one of its own.
        names: of the groups, sorted.
        refused: rows that are no soundings, by reason.
        columns: what was read.
        projection: by which degrees became metres; None where they were metres.
        ranges: what the sonar measured [N], in m; None where only elevations are known.
    """

    row: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    group: np.ndarray
    names: tuple[str, ...]
    refused: Counter[str]
    columns: Columns
    projection: LocalProjection | None = None
    ranges: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: np.ndarray) -> Soundings:
        names = ("row", "xy", "z", "group", *(("ranges",) if self.ranges is not None else ()))
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def workspace(self, margin: float | None = None) -> Extent:
        """Their own box with a margin in m; None: a hundredth of the longer side, at least 1 m."""
        (xmin, ymin), (xmax, ymax) = self.xy.min(0), self.xy.max(0)
        side = max(xmax - xmin, ymax - ymin)
        room = max(1.0, side / 100) if margin is None else margin
        bounds = xmin - room, xmax + room, ymin - room, ymax + room
        return Extent(*map(float, bounds))

    def within(self, workspace: Extent) -> Soundings:
        """Those inside; the others are refused as ``outside_workspace``."""
        inside = workspace.contains(self.xy)
        outside = Counter(outside_workspace=int((~inside).sum()))
        return replace(self[np.flatnonzero(inside)], refused=+(self.refused + outside))

    def samples(self, water_level: float) -> Samples:
        """The same as samples, numbered by row; where ranges are not known they are those from the
        water's surface, in m."""
        bare, ranges = Samples.of(self.xy, self.z), self.ranges
        if ranges is None:
            ranges = water_level - self.z
        return Samples(self.row, bare.stamp_ns, bare.xy, bare.z, bare.noise_std, ranges)


@dataclass
class _Table:
    """What was read so far."""

    columns: Columns
    by: int | None
    places: tuple[int, int, int]
    codes: dict[str, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    rows: int = 0

    def add(self, chunk: list[list[str]]) -> None:
        """Numbers of the rows that have them."""
        width = 1 + max(*self.places, self.by or 0)
        short = [len(row) < width for row in chunk]
        cells = [[] if s else row for row, s in zip(chunk, short, strict=True)]
        values = _numbers([[row[i] for i in self.places] if row else ("", "", "") for row in cells])
        groups = np.zeros(len(chunk), dtype=np.int64)
        if self.by is not None:
            codes = self.codes
            names = (row[self.by].strip() if row else "" for row in cells)
            groups[:] = [codes.setdefault(name, len(codes)) for name in names]
        kept = self._judge(values)
        row = self.rows + np.flatnonzero(kept)
        self.parts.append((row, values[kept, :2], values[kept, 2], groups[kept]))
        self.rows += len(chunk)

    def _judge(self, values: np.ndarray) -> np.ndarray:
        """Which rows [N, 3] are soundings; the others are counted."""
        place, height = values[:, :2], values[:, 2]
        numbers = np.isfinite(values).all(1)
        limits = (90.0, 360.0) if self.columns.degrees else (FARTHEST, FARTHEST)
        somewhere = (np.abs(place) <= limits).all(1)
        sane = np.abs(height) <= MAX_ELEVATION
        self.refused["not_a_number"] += int((~numbers).sum())
        self.refused["impossible_place"] += int((numbers & ~somewhere).sum())
        self.refused["wild_elevation"] += int((numbers & somewhere & ~sane).sum())
        return numbers & somewhere & sane


def read_soundings(
    path: Path,
    columns: Mapping[str, str] | None = None,
    by: str | None = None,
    water_level: float = 0.0,
) -> Soundings:
    """Read a CSV file (separated by commas, semicolons or tabs) with a header.

    Args:
        path: of the file.
        columns: names of columns by what they mean (``MEANINGS``), where they are other ones.
        by: the column whose values are the soundings' groups, such as lines.
        water_level: elevation of the water's surface, from which depths are counted, in m.

    Raises:
        InputError: the file cannot be read, lacks a column, or has no soundings.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            table = _read(file, path, columns or {}, by)
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None
    refused = +table.refused
    if not any(len(part[0]) for part in table.parts):
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
        raise InputError(f"{path}: expected soundings, got none ({reasons})")
    row, place, height, group = (np.concatenate(parts) for parts in zip(*table.parts, strict=True))
    projection = None
    if table.columns.degrees:
        projection = LocalProjection.about(*place.T)
        place = projection.metres(*place.T)
    z = water_level - height if table.columns.down else height
    names = tuple(sorted(table.codes))
    if names:
        rank = {name: i for i, name in enumerate(names)}
        group = np.array([rank[name] for name in table.codes])[group]
    else:
        group = row
    return Soundings(row, place, z, group, names, refused, table.columns, projection)


def _read(file: io.TextIOBase, path: Path, given: Mapping[str, str], by: str | None) -> _Table:
    first = file.readline()
    separator = max(SEPARATORS, key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    columns = Columns.of(header, given, str(path))
    if by is not None and by not in header:
        raise InputError(f"{path}: expected a column '{by}' (--by), got {','.join(header)[:120]}")
    first_, second, height = (header.index(name) for name in columns.names)
    table = _Table(columns, None if by is None else header.index(by), (first_, second, height))
    for chunk in _chunks(csv.reader(file, delimiter=separator)):
        table.add(chunk)
    return table


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    filled = (row for row in rows if row)  # a blank line is no row
    while chunk := list(islice(filled, CHUNK)):
        yield chunk


def _numbers(cells: Sequence[Sequence[str]]) -> np.ndarray:
    """[N, 3]; NaN where a cell is no number."""
    try:
        return np.array(cells, dtype=float).reshape(len(cells), 3)
    except ValueError:
        return np.array([[_number(cell) for cell in row] for row in cells]).reshape(len(cells), 3)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan
