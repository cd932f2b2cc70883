"""Soundings as a file has them, and how they become soundings of the map. What readers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geodesy import WGS84, GeoReference, coordinate_system, rough_metres, transformed
from ..mapping.soundings import LINE, Labels, Soundings
from .cells import UNITS
from .faults import (
    FAR_M,
    FAR_TIMES,
    FROZEN,
    POSITION_JUMP,
    far_away,
    frozen,
    impossible,
    impossible_positions,
    no_position,
    no_readings,
    without_repeats,
)
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
        unit: of the heights, a key of ``UNITS``; empty: m, as the file does not say it.
        crs: of x and y, as pyproj takes it; empty: metres of no known place.
        stamp_ns: times of measurement [N], in ns since 1970 (UTC), or since whatever the file
            counts from; 0 where one is unknown, None where it has none.
        row: the number of each in the file, from 0, rising [N]; None: 0 to N - 1.
        labels: values of further columns, by the column.
        understood: columns or messages, units and times, as text.
        layout: of the file, in some words.
        refused: how many other rows or messages of the file are no soundings, by reason.
        reason: why each is left out [N], text; empty: it is not. None: none is.
        source: for the record, as plain values; of a table ``columns``: names by their meanings;
            ``place_units``: of x and y, before they became metres; empty: the file does not say.
        level: elevation of the water's surface, of each [N] or of all, in m; NaN: unknown. None: as
            the options say.
    """

    place: np.ndarray
    height: np.ndarray
    degrees: bool = True
    down: bool = True
    unit: str = ""
    crs: str = ""
    stamp_ns: np.ndarray | None = None
    row: Any = None
    labels: Mapping[str, Labels] = field(default_factory=dict)
    understood: str = ""
    layout: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    reason: Any = None
    source: Mapping[str, Any] = field(default_factory=dict)
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
        if self.unit not in ("", *UNITS):
            raise InputError(f"units: expected one of {', '.join(UNITS)}, got '{self.unit}'")

    @property
    def columns(self) -> Mapping[str, str]:
        """The names of a table's columns by their meanings."""
        return self.source.get("columns", {})

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

    @property
    def metres(self) -> np.ndarray:
        """Rough places of the ``kept`` in m, of any origin [K, 2]."""
        place = self.place[self.kept]
        return rough_metres(place) if self.degrees else place

    def checked(self, path: Path, options: ReadOptions) -> RawSoundings:
        """Those that are readings, and the level of the water at their times.

        Raises:
            Unclear: they cannot be the soundings of one survey.
            InputError: none is left, or an option asks for what the file has not.
        """
        if options.by not in (None, LINE, *self.labels):
            raise InputError(f"{path}: expected a column '{options.by}' (--by), got {self.layout}")
        gauge, up = options.levels is not None, "applies to depths only, got elevations"
        no_times = "expected a column of times (--columns time=NAME), got none"
        for option, useless, why in (
            ("crs", options.crs and self.degrees, "expected x and y with it, got degrees"),
            ("draught", options.draught and not self.down, up),
            ("keel", options.keel and not self.down, up),
            ("water-level", gauge and not self.down, f"a level over time {up}"),
            ("water-level", gauge and self.stamp_ns is None, no_times),
        ):
            if useless:
                raise InputError(f"{path}: --{option}: {why} ({self.understood})")
        where, found = str(path), self
        if not self.degrees and (crs := options.crs or self.crs):
            place = transformed(coordinate_system("--crs", crs), WGS84, self.place)[:, ::-1]
            found = replace(self, place=place, degrees=True, crs=crs)
        at, degrees = found.kept, found.degrees
        found = found.without(impossible(found.place[at], self.height[at], degrees, self.unit))
        if len(at := found.kept):
            place, wrong = found.place[at], no_readings(self.height[at])
            wrong["null_position"] = no_position(place, degrees)
            kept = ~np.any(list(wrong.values()), axis=0)
            wrong["far_away"] = far_away(place, kept, degrees, options.near)
            found = found.without(wrong)
        if self.stamp_ns is not None:
            stamps = self.stamp_ns[found.kept]
            since = (stamps - stamps.max(initial=0)) / SECOND
            seconds = np.where(stamps == 0, np.nan, since)
            jumps = impossible_positions(where, seconds, found.metres)
            found = found.without({POSITION_JUMP: jumps})
        if not len(at := found.kept):
            reasons = ", ".join(f"{n} {reason}" for reason, n in found.lost.items()) or "no rows"
            if found.lost["impossible_place"]:
                reasons += f", such as {self.place[0].tolist()}"
            raise InputError(f"{path}: expected soundings, got none ({reasons}): {self.understood}")
        if degrees and options.near is not None:
            middle = np.median(found.place[at], axis=0)
            away, turned = (
                np.hypot(*np.diff(rough_metres(np.array((options.near, there))), axis=0)[0])
                for there in (middle, middle[::-1])
            )
            if away > FAR_TIMES * FAR_M:
                raise Unclear(
                    "{}: expected the water at {:.2f}, {:.2f} (--near, or the first file), got "
                    "one {:.0f} km away".format(where, *options.near, away / 1000),
                    swapped(self.columns) if turned < FAR_TIMES * FAR_M else {},
                )
        found = found.without({FROZEN: frozen(where, found.metres, self.height[at])})
        if not options.trusted:
            wild = self.height[found.reason == "wild_elevation"]
            # A single value stands for no reading, as of NMEA 2000.
            odd = found.lost["impossible_place"] + len(wild) * (len(np.unique(wild)) > 1)
            if odd > max(FEWEST, len(found.kept)):
                raise Unclear(
                    f"{where}: {odd} of {odd + len(found.kept)} rows have places or depths that "
                    "cannot be: expected degrees and m, or units in the header"
                )
            depth = found.heights(options)[0][found.kept]
            flat = None if self.degrees else self.place[found.kept]
            look(where, found.metres, depth, found, flat, options.unit_of[0] or self.unit)
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

    def heights(self, options: ReadOptions) -> tuple[np.ndarray, np.ndarray]:
        """Depths below the water's surface, and elevations [N], in m."""
        level: Any = options.water_level if self.level is None else self.level
        unit = UNITS[self.unit or "m"]
        metres = self.height if unit == 1 else unit * self.height
        if not self.down and options.sound_scale == 1:
            return level - metres, metres  # to the last bit
        under = metres if self.down else level - metres
        elevation = level - options.draught - options.sound_scale * under
        return level - elevation, elevation


def place(checked: Mapping[Path, RawSoundings], options: ReadOptions) -> Soundings:
    """Soundings of one or more files as one record, in m, in the order of the files.

    Raises:
        InputError: a file does not go with the others.
    """
    raws, several = list(checked.values()), len(checked) > 1
    places, projection = [raw.place for raw in raws], None
    for path, raw in checked.items() if any(raw.degrees for raw in raws) else ():
        if not raw.degrees:
            raise InputError(
                f"{path}: expected places in degrees as in the other files, got metres in an "
                "unknown coordinate system (give --crs EPSG:CODE)"
            )
    if raws[0].degrees:
        projection = GeoReference.about(*np.concatenate([raw.place[raw.kept] for raw in raws]).T)
        places = [projection.local_metres(*place.T) for place in places]
    # A file's rows follow those of the file before it.
    begins = np.append(0, np.cumsum([int(raw.row[-1]) + 1 for raw in raws])).tolist()
    row = np.concatenate([begin + raw.row for begin, raw in zip(begins, raws, strict=False)])
    depth, z = map(np.concatenate, zip(*(raw.heights(options) for raw in raws), strict=True))
    labels = _labels(raws)
    known = all(options.by in raw.labels for raw in raws)
    group = labels[str(options.by)] if known else Labels(row, ())
    own = [{**raw.source, "understood": raw.understood, "written": raw.layout} for raw in raws]
    source: dict[str, Any] = own[0]
    if several:
        pairs = zip(checked, own, strict=True)
        source = {"files": [{"file": str(path), **each} for path, each in pairs]}
    if projection is not None:
        origin = [projection.latitude, projection.longitude]
        source |= {"origin": origin, "heading": 0.0, "crs": projection.local_crs}
    if options.draught:
        source["draught"] = options.draught
    if options.levels is not None:
        source["gauge"] = options.levels.description
    stamps = [raw.stamp_ns for raw in raws if raw.stamp_ns is not None]
    every = Soundings(
        row, np.concatenate(places), z, *group,
        refused=sum((raw.refused for raw in raws), Counter[str]()), source=source,
        projection=projection,
        stamp_ns=np.concatenate(stamps) if len(stamps) == len(raws) else None,
        depth=None if options.levels is None else depth, labels=labels,
        files=tuple(zip(map(str, checked), begins, strict=False)) if several else (),
    )  # fmt: skip
    reason = np.concatenate([raw.reason for raw in raws])
    names = filter(None, dict.fromkeys(reason.tolist()))
    found = every.without(*(every.left(reason == name, name) for name in names))
    return without_repeats(found, tuple(checked)).between(options.start, options.stop)


def _labels(raws: Sequence[RawSoundings]) -> dict[str, Labels]:
    """Columns of one or more of the files; in the others their values are empty. Values of the same
    text in several files are one."""
    found = {}
    for column in sorted({name for raw in raws for name in raw.labels}):
        texts = [
            own.words if (own := raw.labels.get(column)) else np.full(len(raw.height), "", object)
            for raw in raws
        ]
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
