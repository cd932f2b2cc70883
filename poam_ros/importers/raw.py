"""Soundings as a file has them, and how they become soundings of the map. What readers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import (
    WGS84,
    LocalProjection,
    coordinate_system,
    rough_metres,
    transformed,
)  # fmt: skip
from ..core.geometry import MAX_COORDINATE
from ..frontend.refused_pings import RefusedPings
from ..mapping.left_out import LeftOut
from ..mapping.soundings import LINE, Labels, Soundings, line_names
from .cells import UNITS
from .frozen import FROZEN, frozen
from .jumps import POSITION_JUMP, impossible_positions, seconds_of
from .look import FEWEST, look
from .no_readings import FAR_M, FAR_TIMES, impossible, no_readings
from .options import ReadOptions, Unclear
from .repeats import without_repeats


@dataclass(frozen=True)
class RawSoundings:
    """N soundings as a file has them, in its order. What a reader returns.

    Attributes:
        place: latitude and longitude on WGS 84 in degrees, where ``degrees``; else x (east) and y
            (north) in m [N, 2].
        height: depth below the water's surface, positive down, where ``down``; else elevation
            above the datum, positive up [N], in ``unit``.
        degrees, down: see there.
        unit: of the heights, a key of ``UNITS``.
        crs: of x and y, as pyproj takes it; empty: metres of no known place.
        stamp_ns: times of measurement [N], in ns since 1970 (UTC), or since whatever the file
            counts from; 0 where one is unknown, None where it has none.
        row: the number of each in the file, from 0, rising [N]; None: 0 to N - 1.
        labels: values of further columns, by the column.
        understood: columns or messages, units and times, as text.
        layout: of the file, in some words.
        refused: how many rows or messages are no soundings, by reason.
        left_out: those of them that are soundings, with place and height as above for ``xyz``.
        columns: of a table, by their meanings.
        source: for the record, as plain values.
        fixed: whether places are interpolated between positions that were judged themselves.
    """

    place: np.ndarray
    height: np.ndarray
    degrees: bool = True
    down: bool = True
    unit: str = "m"
    crs: str = ""
    stamp_ns: np.ndarray | None = None
    row: np.ndarray | None = None
    labels: Mapping[str, Labels] = field(default_factory=dict)
    understood: str = ""
    layout: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    left_out: tuple[LeftOut, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)
    source: Mapping[str, Any] = field(default_factory=dict)
    fixed: bool = False

    def __post_init__(self) -> None:
        count = len(self.height)
        if self.row is None:
            object.__setattr__(self, "row", np.arange(count))
        labels = (column.code for column in self.labels.values())
        every = (self.stamp_ns, self.row, *labels)
        rows = [each for each in every if each is not None]
        if self.place.shape != (count, 2) or {len(each) for each in rows} - {count}:
            raise InputError(
                f"soundings: expected places [N, 2], and heights, times and rows [N], got "
                f"{[each.shape for each in (self.place, self.height, *rows)]}"
            )
        if self.unit not in UNITS:
            raise InputError(f"units: expected one of {', '.join(UNITS)}, got '{self.unit}'")

    def __len__(self) -> int:
        return len(self.height)

    def __getitem__(self, index: np.ndarray) -> RawSoundings:
        names = ("place", "height", "stamp_ns", "row")
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        labels = {name: column.at(index) for name, column in self.labels.items()}
        return replace(self, **{name: value[index] for name, value in known.items()}, labels=labels)

    def without(self, wrong: Mapping[str, np.ndarray]) -> RawSoundings:
        """Refuse soundings, by reason: boolean [N]; the first of several reasons counts."""
        refused, parts, kept = self.refused.copy(), [], np.ones(len(self), bool)
        for reason, every in wrong.items():
            these = every & kept
            refused[reason] += int(these.sum())
            parts.append(self._left(np.flatnonzero(these), reason))
            kept &= ~these
        left_out = (*self.left_out, *(part for part in parts if len(part.row)))
        return replace(self[np.flatnonzero(kept)], refused=+refused, left_out=left_out)

    def _left(self, index: np.ndarray, reason: str) -> LeftOut:
        count = len(index)
        stamps = np.zeros(count, np.int64) if self.stamp_ns is None else self.stamp_ns[index]
        line = line_names(self.labels, index)
        assert self.row is not None
        found = np.column_stack((self.place[index], self.height[index]))
        return LeftOut(reason, self.row[index], stamps, found, np.full(count, np.nan), line)

    def jumps(self, where: str, crs: str = "") -> np.ndarray:
        """Which are at positions that the vehicle cannot have reached [N], boolean; ``where``
        begins warnings, ``crs`` goes before its own. None without times."""
        if self.fixed or self.stamp_ns is None:
            return np.zeros(len(self), dtype=bool)
        return impossible_positions(where, seconds_of(self.stamp_ns), self.metres(crs))

    def metres(self, crs: str = "") -> np.ndarray:
        """Rough places in m, of any origin [N, 2]; ``crs`` goes before its own."""
        code = "" if self.degrees else crs or self.crs
        return rough_metres(_degrees(self.place, code)) if self.degrees or code else self.place

    def looked_at(self, where: str, options: ReadOptions) -> None:
        """Raise an ``Unclear`` if these cannot be the soundings of one survey (``look``)."""
        odd = sum(self.refused[reason] for reason in ("impossible_place", "wild_elevation"))
        if odd > max(FEWEST, len(self)):
            raise Unclear(f"{where}: {odd} of {odd + len(self)} rows have places or depths that "
                          "cannot be: expected degrees and m, or units in the header")  # fmt: skip
        level = 0.0 if options.levels is not None else options.water_level
        look(
            where, self.metres(options.crs), level - _elevation(self.height, level, self, options),
            columns=self.columns, place=self.place, stamp_ns=self.stamp_ns,
            crs="degrees" if self.degrees else options.crs or self.crs, units=options.units,
        )  # fmt: skip

    def _check_near(self, path: Path, options: ReadOptions) -> None:
        code = "" if self.degrees else options.crs or self.crs
        if options.near and (self.degrees or code):
            middle = np.median(_degrees(self.place, code), axis=0)
            both = rough_metres(np.array((options.near, middle)))
            if (away := float(np.hypot(*np.diff(both, axis=0)[0]))) > FAR_TIMES * FAR_M:
                raise InputError(
                    f"{path}: expected the water at {options.near[0]:.2f}, {options.near[1]:.2f} "
                    f"(--near, or the first file), got one {away / 1000:.0f} km away"
                )

    def checked(self, path: Path, options: ReadOptions) -> Checked:
        """Those that are readings, and the elevation of the water's surface [N] or of all, in m.

        Raises:
            Unclear: they cannot be the soundings of one survey.
            InputError: none is left, or --water-level or --by asks for what the file has not.
        """
        if options.by not in (None, LINE, *self.labels):
            raise InputError(f"{path}: --by: expected {LINE}, as the file has no columns")
        if options.crs and self.degrees:
            raise InputError(
                f"{path}: --crs: expected x and y with it, got degrees ({self.understood})"
            )
        kept = self.without(impossible(self.place, self.height, self.degrees, self.unit))
        if len(kept):
            kept = kept.without(no_readings(kept.place, kept.height, kept.degrees, options.near))
        kept = kept.without({POSITION_JUMP: kept.jumps(str(path), options.crs)})
        if not len(kept):
            reasons = ", ".join(f"{n} {reason}" for reason, n in kept.refused.items()) or "no rows"
            if kept.refused["impossible_place"]:
                reasons += f", such as {self.place[0].tolist()}"
            raise InputError(f"{path}: expected soundings, got none ({reasons}): {self.understood}")
        if options.draught and not kept.down:
            raise InputError(
                f"{path}: --draught: applies to depths only, got elevations ({kept.understood})"
            )
        kept._check_near(path, options)
        kept = kept.without({FROZEN: frozen(str(path), kept.metres(options.crs), kept.height)})
        if not options.trusted:
            kept.looked_at(str(path), options)
        if options.levels is None:
            return kept, options.water_level
        if not kept.down:
            raise InputError(
                f"{path}: --water-level: a level over time applies to depths only, got elevations "
                f"({kept.understood})"
            )
        if kept.stamp_ns is None:
            raise InputError(f"{path}: --water-level: expected times, got none ({kept.understood})")
        level = options.levels.at(kept.stamp_ns)
        known = np.isfinite(level)
        if not known.any():
            raise InputError(
                f"{path}: expected soundings at the times of --water-level, got none "
                f"({options.levels.description})"
            )
        return kept.without({"no_water_level": ~known}), level[known]


#: Soundings that are readings, and the elevation of the water's surface: of each [N], or of all.
Checked = tuple[RawSoundings, "np.ndarray | float"]


def place(checked: Mapping[Path, Checked], options: ReadOptions) -> Soundings:
    """Soundings of one or more files as one record, in m, in the order of the files.

    Raises:
        InputError: a file does not go with the others.
    """
    raws = [raw for raw, _ in checked.values()]
    crs = ["" if raw.degrees else options.crs or raw.crs for raw in raws]
    places, projection = _in_metres(tuple(checked), raws, crs)
    z, depth, refused = [], [], Counter[str]()
    for raw, level in checked.values():
        z.append(_elevation(raw.height, level, raw, options))
        depth.append(level - z[-1])
        refused += raw.refused
    row, begins = _rows(raws)
    left_out = tuple(
        _placed(part, raw, code, begin, projection, options)
        for raw, code, begin in zip(raws, crs, begins, strict=True)
        for part in raw.left_out
    )
    pings = RefusedPings.none()
    for part in left_out:
        pings = pings.more(part.reason, part.stamp_ns, part.xyz)
    group, names = Labels(row, ())
    if all(options.by in raw.labels for raw in raws):
        group, names = _joined([raw.labels[str(options.by)] for raw in raws])
    stamps = [raw.stamp_ns for raw in raws if raw.stamp_ns is not None]
    described = [
        {**raw.source, "understood": raw.understood, "written": raw.layout} for raw in raws
    ]
    source: dict[str, Any] = described[0]
    if len(raws) > 1:
        source = {
            "files": [
                {"file": str(path), **each} for path, each in zip(checked, described, strict=True)
            ]
        }
    if projection is not None:
        source |= projection.georeference
    if options.draught:
        source["draught"] = options.draught
    if options.levels is not None:
        source["gauge"] = options.levels.description
    found = Soundings(
        row, np.concatenate(places), np.concatenate(z), group, names, refused, pings, source,
        projection, np.concatenate(stamps) if len(stamps) == len(raws) else None,
        depth=None if options.levels is None else np.concatenate(depth),
        files=tuple(zip(map(str, checked), begins, strict=True)) if len(raws) > 1 else (),
        labels=_labels(raws), left_out=left_out,
    )  # fmt: skip
    found = without_repeats(found, tuple(checked)).between(options.start, options.stop)
    return found.grouped_by_line() if options.by == LINE and not names else found


def _in_metres(
    files: Sequence[Path], raws: Sequence[RawSoundings], crs: Sequence[str]
) -> tuple[list[np.ndarray], LocalProjection | None]:
    """The places of each file in m [N, 2], and the projection; None: they are in m in the files.

    Raises:
        InputError: only some files are in degrees, or places do not fit a coordinate system, or the
            other files.
    """
    geographic = [raw.degrees or bool(code) for raw, code in zip(raws, crs, strict=True)]
    if len(set(geographic)) > 1:
        metres = next(p for p, known in zip(files, geographic, strict=True) if not known)
        raise InputError(
            f"{metres}: expected places in degrees as in the other files, got metres in an "
            "unknown coordinate system (give --crs EPSG:CODE)"
        )
    if not geographic[0]:
        return [raw.place for raw in raws], None
    degrees = [_degrees(raw.place, code) for raw, code in zip(raws, crs, strict=True)]
    for each, raw, code in zip(degrees, raws, crs, strict=True):
        if not (np.isfinite(each).all() and (np.abs(each) <= (90, 360)).all()):
            raise InputError(
                f"--crs: expected eastings and northings in {code}, got places such as "
                f"{raw.place[0].tolist()}"
            )
    projection = LocalProjection.about(*np.concatenate(degrees).T)
    return [projection.metres(*each.T) for each in degrees], projection


def _placed(
    part: LeftOut, raw: RawSoundings, crs: str, begin: int, projection: LocalProjection | None,
    options: ReadOptions,
) -> LeftOut:  # fmt: skip
    """What is left out of a file, in m, numbered from its first row."""
    xy = np.where(np.abs(part.xyz[:, :2]) <= MAX_COORDINATE, part.xyz[:, :2], np.nan)
    if projection is not None:
        xy = projection.metres(*_degrees(xy, crs).T)
    z = _elevation(part.xyz[:, 2], options.water_level, raw, options)
    depth = options.water_level - z
    if options.levels is not None:  # whose level at these times may be unknown
        z = np.full(len(z), np.nan)
    return part._replace(row=part.row + begin, xyz=np.column_stack((xy, z)), depth=depth)


def _rows(raws: Sequence[RawSoundings]) -> tuple[np.ndarray, list[int]]:
    """Numbers of all rows, those of each file after those of the one before; and their begins."""
    begins, rows = [0], []
    for raw in raws:
        assert raw.row is not None
        rows.append(begins[-1] + raw.row)
        last = max(int(each[-1]) for each in (raw.row, *(part.row for part in raw.left_out)))
        begins.append(begins[-1] + last + 1)
    return np.concatenate(rows), begins[:-1]


def _joined(parts: Sequence[Labels]) -> Labels:
    """Values of the same text in several files are one."""
    names = tuple(sorted({name for _, own in parts for name in own}))
    rank = {name: i for i, name in enumerate(names)}
    codes = [np.array([rank[name] for name in own], dtype=np.int64)[code] for code, own in parts]
    return Labels(np.concatenate(codes), names)


def _labels(raws: Sequence[RawSoundings]) -> dict[str, Labels]:
    """Columns of one or more of the files; in the others their values are empty."""
    columns = sorted({name for raw in raws for name in raw.labels})
    return {
        name: _joined([
            raw.labels.get(name, Labels(np.zeros(len(raw), dtype=np.int64), ("",))) for raw in raws
        ])
        for name in columns
    }  # fmt: skip


def _degrees(place: np.ndarray, crs: str) -> np.ndarray:
    """Latitude and longitude [N, 2] of places in a coordinate system; of none: as they are."""
    if not crs:
        return place
    return transformed(coordinate_system("--crs", crs), WGS84, place)[:, ::-1]


def _elevation(
    height: np.ndarray, level: np.ndarray | float, raw: RawSoundings, options: ReadOptions
) -> np.ndarray:
    """Of elevations or depths as a file has them [N], in m."""
    unit = UNITS[raw.unit]
    metres = height if unit == 1 else unit * height
    if not raw.down and options.sound_scale == 1:
        return metres  # to the last bit
    under = metres if raw.down else level - metres
    return level - options.draught - options.sound_scale * under
