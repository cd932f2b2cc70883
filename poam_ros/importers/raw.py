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
from ..mapping.soundings import LINE, Labels, Soundings
from .cells import UNITS
from .faults import (
    FAR_M,
    FAR_TIMES,
    FROZEN,
    POSITION_JUMP,
    frozen,
    impossible,
    impossible_positions,
    no_readings,
    seconds_of,
    without_repeats,
)  # fmt: skip
from .look import FEWEST, look, swapped
from .options import ReadOptions, Unclear


@dataclass(frozen=True)
class RawSoundings:
    """N soundings as a file has them, in its order. What a reader returns.

    Attributes:
        place: latitude and longitude on WGS 84 in degrees, where ``degrees``; else x (east) and y
            (north) in m [N, 2].
        height: depth below the water's surface, positive down, where ``down``; else elevation
            above the datum, positive up [N], in ``unit``.
        degrees, down: see there.
        unit: of the heights, a key of ``UNITS``; ``unit_said``: the file says so.
        crs: of x and y, as pyproj takes it; empty: metres of no known place.
        place_unit: of x and y, before they became metres; empty: the file does not say.
        stamp_ns: times of measurement [N], in ns since 1970 (UTC), or since whatever the file
            counts from; 0 where one is unknown, None where it has none.
        row: the number of each in the file, from 0, rising [N]; None: 0 to N - 1.
        labels: values of further columns, by the column.
        understood: columns or messages, units and times, as text.
        layout: of the file, in some words.
        refused: how many other rows or messages of the file are no soundings, by reason.
        reason: why each is left out [N], text; empty: it is not. None: none is.
        columns: of a table, by their meanings.
        source: for the record, as plain values.
        fixed: whether places are interpolated between positions that were judged themselves.
        level: elevation of the water's surface, of each [N] or of all, in m; NaN: unknown. None: as
            the options say.
    """

    place: np.ndarray
    height: np.ndarray
    degrees: bool = True
    down: bool = True
    unit: str = "m"
    unit_said: bool = field(default=False, kw_only=True)
    crs: str = ""
    place_unit: str = "m"
    stamp_ns: np.ndarray | None = None
    row: Any = None
    labels: Mapping[str, Labels] = field(default_factory=dict)
    understood: str = ""
    layout: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    reason: Any = None
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)
    source: Mapping[str, Any] = field(default_factory=dict)
    fixed: bool = False
    level: np.ndarray | None = None

    def __post_init__(self) -> None:
        count = len(self.height)
        if self.row is None:
            object.__setattr__(self, "row", np.arange(count))
        if self.reason is None:
            object.__setattr__(self, "reason", np.full(count, "", dtype=object))
        labels = (column.code for column in self.labels.values())
        every = (self.stamp_ns, self.row, self.reason, *labels)
        rows = [each for each in every if each is not None]
        if self.place.shape != (count, 2) or {len(each) for each in rows} - {count}:
            raise InputError(
                f"soundings: expected places [N, 2], and heights, times and rows [N], got "
                f"{[each.shape for each in (self.place, self.height, *rows)]}"
            )
        if self.unit not in UNITS:
            raise InputError(f"units: expected one of {', '.join(UNITS)}, got '{self.unit}'")

    @property
    def kept(self) -> np.ndarray:
        """The indices of those that are not left out [K]."""
        return np.flatnonzero(self.reason == "")

    @property
    def lost(self) -> Counter[str]:
        """How many rows or messages are no soundings, by reason."""
        return self.refused + Counter(self.reason[self.reason != ""].tolist())

    def without(self, wrong: Mapping[str, np.ndarray]) -> RawSoundings:
        """Leave out some of the ``kept``, by reason: boolean [K]; the first of several reasons
        counts."""
        reason, kept = self.reason.copy(), self.kept
        for name, every in wrong.items():
            these = kept[every]
            reason[these[reason[these] == ""]] = name
        return replace(self, reason=reason)

    def metres(self, crs: str = "") -> np.ndarray:
        """Rough places of the ``kept`` in m, of any origin [K, 2]; ``crs`` goes before its own."""
        code, place = "" if self.degrees else crs or self.crs, self.place[self.kept]
        return rough_metres(_degrees(place, code)) if self.degrees or code else place

    def checked(self, path: Path, options: ReadOptions) -> RawSoundings:
        """Those that are readings, and the level of the water at their times.

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
        if options.draught and not self.down:
            raise InputError(
                f"{path}: --draught: applies to depths only, got elevations ({self.understood})"
            )
        found, at = self, self.kept
        found = found.without(impossible(self.place[at], self.height[at], self.degrees, self.unit))
        if len(at := found.kept):
            found = found.without(
                no_readings(self.place[at], self.height[at], self.degrees, options.near)
            )
        if self.stamp_ns is not None and not self.fixed:
            seconds = seconds_of(self.stamp_ns[found.kept])
            jumps = impossible_positions(str(path), seconds, found.metres(options.crs))
            found = found.without({POSITION_JUMP: jumps})
        if not len(at := found.kept):
            lost = found.lost
            reasons = ", ".join(f"{n} {reason}" for reason, n in lost.items()) or "no rows"
            if lost["impossible_place"]:
                reasons += f", such as {self.place[0].tolist()}"
            raise InputError(f"{path}: expected soundings, got none ({reasons}): {self.understood}")
        found._check_near(path, options)
        found = found.without(
            {FROZEN: frozen(str(path), found.metres(options.crs), self.height[at])}
        )
        if not options.trusted:
            found._look(str(path), options)
        return found if options.levels is None else found._levelled(path, options)

    def _check_near(self, path: Path, options: ReadOptions) -> None:
        code = "" if self.degrees else options.crs or self.crs
        if options.near and (self.degrees or code):
            middle = np.median(_degrees(self.place[self.kept], code), axis=0)
            away, turned = (
                float(np.hypot(*np.diff(rough_metres(np.array((options.near, there))), axis=0)[0]))
                for there in (middle, middle[::-1])
            )
            if away > FAR_TIMES * FAR_M:
                raise Unclear(
                    f"{path}: expected the water at {options.near[0]:.2f}, {options.near[1]:.2f} "
                    f"(--near, or the first file), got one {away / 1000:.0f} km away",
                    swapped(self.columns) if turned < FAR_TIMES * FAR_M else [],
                )

    def _look(self, where: str, options: ReadOptions) -> None:
        """Raise an ``Unclear`` if these cannot be the soundings of one survey (``look``)."""
        at, lost = self.kept, self.lost
        odd = sum(lost[reason] for reason in ("impossible_place", "wild_elevation"))
        if odd > max(FEWEST, len(at)):
            raise Unclear(f"{where}: {odd} of {odd + len(at)} rows have places or depths that "
                          "cannot be: expected degrees and m, or units in the header")  # fmt: skip
        level = 0.0 if options.levels is not None else options.water_level
        look(
            where, self.metres(options.crs), level - self.elevation(level, options)[at],
            columns=self.columns, place=self.place[at],
            stamp_ns=None if self.stamp_ns is None else self.stamp_ns[at],
            crs="degrees" if self.degrees else options.crs or self.crs,
            units=options.units or self.unit * self.unit_said,
            in_feet=self.unit == "ft" and not (self.degrees or self.place_unit or options.crs),
        )  # fmt: skip

    def _levelled(self, path: Path, options: ReadOptions) -> RawSoundings:
        """Those at whose times the level of the water is known."""
        assert options.levels is not None
        if not self.down:
            raise InputError(
                f"{path}: --water-level: a level over time applies to depths only, got elevations "
                f"({self.understood})"
            )
        if self.stamp_ns is None:
            raise InputError(f"{path}: --water-level: expected times, got none ({self.understood})")
        at, level = self.kept, np.full(len(self.height), np.nan)
        level[at] = options.levels.at(self.stamp_ns[at])
        known = np.isfinite(level[at])
        if not known.any():
            raise InputError(
                f"{path}: expected soundings at the times of --water-level, got none "
                f"({options.levels.description})"
            )
        return replace(self.without({"no_water_level": ~known}), level=level)

    def elevation(self, level: np.ndarray | float, options: ReadOptions) -> np.ndarray:
        """Elevations [N], in m, if the water's surface is at ``level``."""
        unit = UNITS[self.unit]
        metres = self.height if unit == 1 else unit * self.height
        if not self.down and options.sound_scale == 1:
            return metres  # to the last bit
        under = metres if self.down else level - metres
        return level - options.draught - options.sound_scale * under


def place(checked: Mapping[Path, RawSoundings], options: ReadOptions) -> Soundings:
    """Soundings of one or more files as one record, in m, in the order of the files.

    Raises:
        InputError: a file does not go with the others.
    """
    raws = list(checked.values())
    places, projection = _in_metres(checked, options)
    z, depth, begins = [], [], [0]
    for raw in raws:
        level: np.ndarray | float = options.water_level
        if raw.level is not None:
            level = np.where(np.isfinite(raw.level), raw.level, level)
        elevation = raw.elevation(level, options)
        depth.append(level - elevation)
        z.append(elevation if raw.level is None else
                 np.where(np.isfinite(raw.level), elevation, np.nan))  # fmt: skip
        begins.append(begins[-1] + int(raw.row[-1]) + 1)
    row = np.concatenate([begin + raw.row for begin, raw in zip(begins, raws, strict=False)])
    labels, group = _labels(raws), Labels(row, ())
    if all(options.by in raw.labels for raw in raws):
        group = labels[str(options.by)]
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
    every = Soundings(
        row, np.concatenate(places), np.concatenate(z), *group,
        refused=sum((raw.refused for raw in raws), Counter[str]()), source=source,
        projection=projection,
        stamp_ns=np.concatenate(stamps) if len(stamps) == len(raws) else None,
        depth=None if options.levels is None else np.concatenate(depth), labels=labels,
        files=tuple(zip(map(str, checked), begins, strict=False)) if len(raws) > 1 else (),
    )  # fmt: skip
    reason = np.concatenate([raw.reason for raw in raws])
    names = filter(None, dict.fromkeys(reason.tolist()))
    found = every.without(*(every.left(reason == name, name) for name in names))
    found = without_repeats(found, tuple(checked)).between(options.start, options.stop)
    return found.grouped_by_line() if options.by == LINE and not found.names else found


def _in_metres(
    checked: Mapping[Path, RawSoundings], options: ReadOptions
) -> tuple[list[np.ndarray], LocalProjection | None]:
    """The places of each file in m [N, 2], and the projection; None: they are in m in the files.

    Raises:
        InputError: only some files are in degrees, or places do not fit a coordinate system, or the
            other files.
    """
    raws = list(checked.values())
    crs = ["" if raw.degrees else options.crs or raw.crs for raw in raws]
    geographic = [raw.degrees or bool(code) for raw, code in zip(raws, crs, strict=True)]
    if len(set(geographic)) > 1:
        metres = next(p for p, known in zip(checked, geographic, strict=True) if not known)
        raise InputError(
            f"{metres}: expected places in degrees as in the other files, got metres in an "
            "unknown coordinate system (give --crs EPSG:CODE)"
        )
    places = [np.where(np.abs(raw.place) <= MAX_COORDINATE, raw.place, np.nan) for raw in raws]
    if not geographic[0]:
        return places, None
    degrees = [_degrees(each, code) for each, code in zip(places, crs, strict=True)]
    own = [each[raw.kept] for each, raw in zip(degrees, raws, strict=True)]
    for each, raw, code in zip(own, raws, crs, strict=True):
        if not (np.isfinite(each).all() and (np.abs(each) <= (90, 360)).all()):
            raise InputError(
                f"--crs: expected eastings and northings in {code}, got places such as "
                f"{raw.place[raw.kept[0]].tolist()}"
            )
    projection = LocalProjection.about(*np.concatenate(own).T)
    return [projection.metres(*each.T) for each in degrees], projection


def _labels(raws: Sequence[RawSoundings]) -> dict[str, Labels]:
    """Columns of one or more of the files; in the others their values are empty. Values of the same
    text in several files are one."""
    found = {}
    for column in sorted({name for raw in raws for name in raw.labels}):
        none = [Labels(np.zeros(len(raw.height), dtype=np.int64), ("",)) for raw in raws]
        parts = [raw.labels.get(column, each) for raw, each in zip(raws, none, strict=True)]
        names = tuple(sorted({name for _, own in parts for name in own}))
        rank = {name: i for i, name in enumerate(names)}
        codes = [np.array([rank[n] for n in own], dtype=np.int64)[code] for code, own in parts]
        found[column] = Labels(np.concatenate(codes), names)
    return found


def _degrees(place: np.ndarray, crs: str) -> np.ndarray:
    """Latitude and longitude [N, 2] of places in a coordinate system; of none: as they are."""
    if not crs:
        return place
    return transformed(coordinate_system("--crs", crs), WGS84, place)[:, ::-1]
