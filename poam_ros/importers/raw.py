"""Soundings as a file has them, and how they become soundings of the map. What readers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, shown
from ..core.geodesy import WGS84, GeoReference, coordinate_system, rough_metres, transformed
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
from .look import FEWEST, Survey, swapped
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
        every = self.stamp_ns, self.row, self.reason, *(code for code, _ in self.labels.values())
        shapes = [each.shape for each in (self.place, self.height, *every) if each is not None]
        if shapes[0] != (count, 2) or {*shapes[1:]} != {(count,)}:
            raise InputError(
                f"soundings: expected places [N, 2], and heights, times and rows [N], got {shapes}"
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

    def on_earth(self, crs: str = "") -> np.ndarray | None:
        """Latitude and longitude of all [N, 2]; None: x and y are of no known place. ``crs`` goes
        before the file's own."""
        if self.degrees or not (code := crs or self.crs):
            return self.place if self.degrees else None
        return transformed(coordinate_system("--crs", code), WGS84, self.place)[:, ::-1]

    def metres(self, crs: str = "") -> np.ndarray:
        """Rough places of the ``kept`` in m, of any origin [K, 2]."""
        degrees = self.on_earth(crs)
        return self.place[self.kept] if degrees is None else rough_metres(degrees[self.kept])

    def checked(self, path: Path, options: ReadOptions) -> RawSoundings:
        """Those that are readings, and the level of the water at their times.

        Raises:
            Unclear: they cannot be the soundings of one survey.
            InputError: none is left, or an option asks for what the file has not.
        """
        if options.by not in (None, LINE, *self.labels):
            raise InputError(f"{path}: --by: expected {LINE}, as the file has no columns")
        gauge, up = options.levels is not None, "applies to depths only, got elevations"
        for option, useless, why in (
            ("crs", options.crs and self.degrees, "expected x and y with it, got degrees"),
            ("draught", options.draught and not self.down, up),
            ("water-level", gauge and not self.down, f"a level over time {up}"),
            ("water-level", gauge and self.stamp_ns is None, "expected times, got none"),
        ):
            if useless:
                raise InputError(f"{path}: --{option}: {why} ({self.understood})")
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
            reasons = ", ".join(f"{n} {reason}" for reason, n in found.lost.items()) or "no rows"
            if found.lost["impossible_place"]:
                reasons += f", such as {self.place[0].tolist()}"
            raise InputError(f"{path}: expected soundings, got none ({reasons}): {self.understood}")
        found._check_near(path, options)
        found = found.without(
            {FROZEN: frozen(str(path), found.metres(options.crs), self.height[at])}
        )
        if not options.trusted:
            found._look(str(path), options)
        if options.levels is None or self.stamp_ns is None:
            return found
        at, level = found.kept, np.full(len(self.height), np.nan)
        level[at] = options.levels.at(self.stamp_ns[at])
        known = np.isfinite(level[at])
        if not known.any():
            raise InputError(
                f"{path}: expected soundings at the times of --water-level, got none "
                f"({options.levels.description})"
            )
        return replace(found.without({"no_water_level": ~known}), level=level)

    def _check_near(self, path: Path, options: ReadOptions) -> None:
        degrees = self.on_earth(options.crs)
        if options.near is None or degrees is None:
            return
        middle = np.median(degrees[self.kept], axis=0)
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
        at, wild = self.kept, self.height[self.reason == "wild_elevation"]
        if len(np.unique(wild)) == 1:  # of NMEA 2000, for one: a value that stands for no reading
            wild = wild[:0]
        odd = self.lost["impossible_place"] + len(wild)
        if odd > max(FEWEST, len(at)):
            raise Unclear(f"{where}: {odd} of {odd + len(at)} rows have places or depths that "
                          "cannot be: expected degrees and m, or units in the header")  # fmt: skip
        level = 0.0 if options.levels is not None else options.water_level
        Survey(
            self.metres(options.crs), level - self.elevation(level, options)[at],
            columns=self.columns, place=self.place[at],
            stamp_ns=None if self.stamp_ns is None else self.stamp_ns[at],
            crs="degrees" if self.degrees else options.crs or self.crs,
            units=options.unit_of[0] or self.unit * self.unit_said,
            in_feet=self.unit == "ft" and not (self.degrees or self.place_unit or options.crs),
        ).look(where)  # fmt: skip

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
    raws, several = list(checked.values()), len(checked) > 1
    places, projection = _in_metres(checked, options)
    # A file's rows follow those of the file before it.
    begins = np.append(0, np.cumsum([int(raw.row[-1]) + 1 for raw in raws])).tolist()
    row = np.concatenate([begin + raw.row for begin, raw in zip(begins, raws, strict=False)])
    depths, elevations = [], []
    for raw in raws:
        level = np.full(len(raw.height), options.water_level) if raw.level is None else raw.level
        elevation = raw.elevation(level, options)
        depths.append(level - elevation)
        elevations.append(elevation)
    labels, group = _labels(raws), Labels(row, ())
    if all(options.by in raw.labels for raw in raws):
        group = labels[str(options.by)]
    source: dict[str, Any] = {
        "files": [
            {"file": str(path), **raw.source, "understood": raw.understood, "written": raw.layout}
            for path, raw in checked.items()
        ]
    }
    if not several:
        (source,) = source["files"]
        del source["file"]
    if projection is not None:
        origin = [projection.latitude, projection.longitude]
        source |= {"origin": origin, "heading": 0.0, "crs": projection.local_crs}
    if options.draught:
        source["draught"] = options.draught
    if options.levels is not None:
        source["gauge"] = options.levels.description
    stamps = [raw.stamp_ns for raw in raws if raw.stamp_ns is not None]
    every = Soundings(
        row, np.concatenate(places), np.concatenate(elevations), *group,
        refused=sum((raw.refused for raw in raws), Counter[str]()), source=source,
        projection=projection,
        stamp_ns=np.concatenate(stamps) if len(stamps) == len(raws) else None,
        depth=None if options.levels is None else np.concatenate(depths), labels=labels,
        files=tuple(zip(map(str, checked), begins, strict=False)) if several else (),
    )  # fmt: skip
    reason = np.concatenate([raw.reason for raw in raws])
    names = filter(None, dict.fromkeys(reason.tolist()))
    found = every.without(*(every.left(reason == name, name) for name in names))
    found = without_repeats(found, tuple(checked)).between(options.start, options.stop)
    return found.grouped_by_line() if options.by == LINE and not found.names else found


def _in_metres(
    checked: Mapping[Path, RawSoundings], options: ReadOptions
) -> tuple[list[np.ndarray], GeoReference | None]:
    """The places of each file in m [N, 2], and the projection; None: they are in m in the files."""
    raws = list(checked.values())
    degrees = [raw.on_earth(options.crs) for raw in raws]
    known = [each for each in degrees if each is not None]
    if not known:
        return [np.where(np.abs(raw.place) <= MAX_COORDINATE, raw.place, np.nan)
                for raw in raws], None  # fmt: skip
    if len(known) < len(raws):
        metres = next(p for p, each in zip(checked, degrees, strict=True) if each is None)
        raise InputError(
            f"{metres}: expected places in degrees as in the other files, got metres in an "
            "unknown coordinate system (give --crs EPSG:CODE)"
        )
    for each, raw in zip(known, raws, strict=True):
        if not (np.abs(each[raw.kept]) <= (90, 360)).all():  # infinite, or not a number
            raise InputError(
                f"--crs: expected eastings and northings in {options.crs or raw.crs}, got places "
                f"such as {raw.place[raw.kept[0]].tolist()}"
            )
    own = np.concatenate([each[raw.kept] for each, raw in zip(known, raws, strict=True)])
    projection = GeoReference.about(*own.T)
    return [projection.local_metres(*each.T) for each in known], projection


def _labels(raws: Sequence[RawSoundings]) -> dict[str, Labels]:
    """Columns of one or more of the files; in the others their values are empty. Values of the same
    text in several files are one."""
    found = {}
    for column in sorted({name for raw in raws for name in raw.labels}):
        texts = [
            np.array(own.names, dtype=object)[own.code] if (own := raw.labels.get(column))
            else np.full(len(raw.height), "", dtype=object)
            for raw in raws
        ]  # fmt: skip
        names, codes = np.unique(np.concatenate(texts), return_inverse=True)
        found[column] = Labels(codes, tuple(names.tolist()))
    return found


def nothing_found(
    path: Path, wanted: Mapping[str, tuple[Sequence[str], Any]], heard: Counter[str],
    refused: Counter[str],
) -> InputError:  # fmt: skip
    """The error for a log without positions or depths: of each of the two, by its name, the kinds
    of messages that have it, and what was found; how many messages the log has, by kind, and how
    many are left out, by reason."""
    missing = " and ".join(f"{what} ({' or '.join(kinds)})"
                           for what, (kinds, found) in wanted.items() if not found)  # fmt: skip
    there = ", ".join(f"{n} {shown(kind, 20)}" for kind, n in heard.most_common(12))
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items())
    return InputError(
        f"{path}: expected {missing}, got none; the file has {there or 'no message'}"
        + (f" (left out: {reasons})" if reasons else "")
    )
