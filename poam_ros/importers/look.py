"""One look at the soundings of any file, as they will be mapped: what cannot be is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core.clock import SECOND
from ..core.geodesy import hemispheres, in_area_of_use
from .cells import UNITS
from .options import Answers, Unclear

if TYPE_CHECKING:
    from .raw import RawSoundings

#: Fewer soundings than this say nothing about a survey.
FEWEST = 20
#: A survey has a place for each 100 soundings; at least and at most so many are asked for.
FEWEST_PLACES = (5, 20)
#: Eastings of UTM and its kind stay below this (m); the least and the largest northings that are
#: no easting in feet beside an easting; the Earth's radius.
EASTING, NORTHINGS, EARTH = 1e6, (3e6, 1e7), 6_378_137.0
#: Rows that show how well the place tells a value; those that are apart, as a share of them.
ROWS, SAME_TIME = 400, 0.05
#: Where a person may be sure of what is unlikely.
SURE: dict[str, Mapping[str, Any]] = {"if all of this is right": {"trusted": True}}

#: What is unlikely, and answers.
Doubts = Iterator[tuple[str, Answers]]


def look(
    where: str, xy: np.ndarray, depth: np.ndarray, raw: RawSoundings | None = None,
    flat: np.ndarray | None = None, unit: str = "",
) -> None:  # fmt: skip
    """Raise an ``Unclear`` if soundings cannot be those of one survey.

    Args:
        where: start of the message.
        xy: places in m [N, 2], of any origin.
        depth: below the water's surface, in m [N].
        raw: the ``kept`` of these are they, as the file has them. None: they come from a vehicle's
            front end, whose missions may be as short as the water is deep.
        flat: x and y in the file [N, 2]; None: it has degrees.
        unit: of depths, if an option or the file says it.
    """
    if len(depth) < FEWEST:
        return
    columns, degrees = ({}, None) if raw is None else (raw.columns, raw.place[raw.kept])
    degrees = degrees if flat is None else None
    doubts = [_of_places(xy, degrees), _of_depths(depth, columns)]
    if raw is not None:
        first = [] if flat is None else [_of_metres(flat, raw)]
        stamps = None if raw.stamp_ns is None else raw.stamp_ns[raw.kept]
        last = _of_slopes(xy, np.abs(depth), unit), _of_speeds(xy, stamps, degrees, columns)
        doubts = [*first, *doubts, *last]
    for text, answers in chain.from_iterable(doubts):
        raise Unclear(f"{where}: {text}", answers)


def _of_metres(place: np.ndarray, raw: RawSoundings) -> Doubts:
    """Whether x and y are degrees, swapped, in feet, or neither of UTM nor of a small system of
    their own. A place must be on Earth, and in the area that its system is for."""
    crs, columns = raw.crs, raw.columns
    around, (x, y) = np.abs(place).max(0), np.median(place, axis=0)
    turned = swapped(columns, "if x is a northing and y an easting")
    most = around.max()
    degrees = {
        **swapped(columns, "if x is the longitude", ("longitude", "latitude")),
        **swapped(columns, "if x is the latitude", ("latitude", "longitude")),
    }
    small = most <= 180 and around.min() <= 90 and np.ptp(np.abs(place), axis=0).max() < 3
    if small and np.abs(place - np.round(place, 3)).max() > 1e-9:  # more than millimetres
        yield "x and y look like degrees, not metres", degrees | SURE
    if most > np.pi * EARTH:  # of Mercator
        yield f"x and y reach {most:.3g} m, farther than any place on the Earth", degrees
    if crs:
        if in_area_of_use(crs, np.array((y, x))) and not in_area_of_use(crs, np.array((x, y))):
            text = f"x and y lie outside the area of {crs}, and inside it if they are swapped"
            yield text, turned | SURE
    # Of Mercator alone are western ones beside such northings.
    elif most >= 1e5 and (x > EASTING or (x < 0 and abs(y) > 1.3e6)):
        answers = turned if EASTING / 10 < y < EASTING and NORTHINGS[0] < x < NORTHINGS[1] else {}
        # Nobody calls those of Mercator eastings; feet of a state's system would lie in Africa.
        if "x" in columns.get("x", "").lower() and not (x > 0 and 0 < y < 4e6):
            north, east = np.degrees((np.arctan(np.sinh(y / EARTH)), x / EARTH))
            when = "if they are of Web Mercator" + place_words(north, east)
            answers = answers | {when: {"crs": "EPSG:3857"}}
        yield (
            f"x and y of {x:.0f}, {y:.0f} are not those of UTM. In another system, or in feet: "
            "--crs EPSG:N; in metres of none: --trust-columns", answers,
        )  # fmt: skip
    if raw.unit == "ft" and not (crs or raw.source.get("place_units", "m")):
        yield (
            "depths are in feet, and nothing says whether x and y are (their system may: --crs "
            "EPSG:N)",
            {f"if they are in {u}": {"units": f"ft,{u}"} for u in ("ft", "m")} | SURE,
        )


def _of_places(xy: np.ndarray, degrees: np.ndarray | None) -> Doubts:
    """Whether places are where nobody sounds, in two groups, without an area, or rounded."""
    sides = np.ptp(xy, axis=0)
    extent = f"{sides[0]:.3g} x {sides[1]:.3g} m"
    middle = None if degrees is None else np.median(degrees, axis=0)
    if middle is not None and (np.abs(middle) < np.radians((90, 180))).all():
        text = f"the soundings lie in the open sea{place_words(*middle)}: no fix, or radians"
        yield text, {}
    for axis in xy.T:
        gap, beyond = _widest_gap(axis)
        if gap > max(20_000.0, 10.0 * (np.ptp(axis) - gap)):
            groups = sorted((beyond, ~beyond), key=np.count_nonzero, reverse=True)
            middles = [np.median(degrees[g], 0).tolist() for g in groups if degrees is not None]
            near = {f"if those at {north:.2f}, {east:.2f} are right": {"near": (north, east)}
                    for north, east in middles}  # fmt: skip
            text = f"the soundings lie in two groups of places, {gap / 1000:.0f} km apart"
            yield text, near | SURE
    if not sides.all():
        yield f"the soundings lie on {extent}, without an area", {}
    if (count := len(np.unique(xy, axis=0))) < np.clip(len(xy) / 100, *FEWEST_PLACES):
        yield f"{len(xy)} soundings lie at {count} places, which may be rounded", {}
    if degrees is None:
        return
    for digits in range(4):
        rounded = np.abs(degrees - degrees.round(digits)).max(0) < 1e-9
        # To 100 m is too much on 20 km, and beside degrees of more decimals.
        short = sides.max() < 20_000 * 10.0 ** (3 - digits)
        if rounded.any() and (short or not rounded.all()):
            yield f"places are rounded to {10.0**-digits:g} degrees on {extent}", SURE


def _of_depths(depth: np.ndarray, columns: Mapping[str, str]) -> Doubts:
    """Whether depths lie above the water, are all the same, or in part in another unit."""
    if (above := float((depth < 0).mean())) > 0.5:
        name = columns.get("z", columns.get("depth", ""))
        # Depths begin near a shore.
        asked = "z" in columns and bool(-depth.max() < 3.0 * np.ptp(depth))
        its = f"column {name}, as an elevation, has" if "z" in columns else "the file has"
        yield (
            f"{its} {100 * above:.0f} % of the soundings above the water, up to "
            f"{-depth.min():g} m. For ground above a datum, give --water-level, the elevation "
            "of the water",
            {"if it is a depth": {"columns": {"depth": name}}} | SURE if asked else SURE,
        )
    same = np.unique(depth, return_counts=True)[1].max() > 0.95 * len(depth)
    if same or np.ptp(depth) < 0.03:  # as of a latitude
        yield f"nearly all soundings have the same depth, {np.median(depth):g} m", {}
    # Medians of seven, as single false echoes would fill the gap.
    logs = np.pad(np.log(np.maximum(np.abs(depth), 0.01)), 3, "reflect")
    gap, deep = _widest_gap(np.median(sliding_window_view(logs, 7), axis=1))
    # No bottom leaves out depths of a factor of five; a sounder that loses it returns.
    turns = 2 + np.flatnonzero(np.diff(deep))
    if gap > np.log(5) and 0.05 < deep.mean() < 0.95 and len(turns) < 4:
        text = f"depths change by a factor as of another unit from sounding {turns[0]} on"
        yield text, SURE


def _of_slopes(xy: np.ndarray, size: np.ndarray, unit: str) -> Doubts:
    """Whether depths do not go with the extent: in another unit, or another column."""
    sides = np.ptp(xy, axis=0)
    # Compared at a distance along the track, so that noise and repeated positions do not count.
    steps = np.hypot(*np.diff(xy, axis=0).T)
    lag = int(np.clip(np.ceil(sides.max() / 50 / max(np.median(steps), 1e-9)), 1, len(xy) // 2))
    apart = np.hypot(*(xy[lag:] - xy[:-lag]).T)
    slope = float(np.median(np.abs(size[lag:] - size[:-lag]) / np.maximum(apart, 1e-9)))
    # A boat at its berth, whose receiver errs by less than 50 m, shows no slopes, and a stated unit
    # is believed. Few bottoms are steeper than 45 degrees for half of the way.
    deep, at_rest = float(np.median(size)), sides.max() < 50
    if (at_rest and unit) or (slope <= 1.0 and deep <= sides.max()):
        return
    # Those of another unit, by which slopes become those of most bottoms.
    units = [] if unit or at_rest else ["ft", "cm", "mm", "dm", "m"]
    units.sort(key=lambda unit: abs(np.log(max(slope, 1e-9) * UNITS[unit] / 0.03)))
    yield (
        f"depths of {deep:.3g} m (median) on {sides[0]:.3g} x {sides[1]:.3g} m, with slopes of "
        f"{100 * slope:.0f} %",
        {f"if they are in {each}": {"units": each} for each in units} | SURE,
    )


def _of_speeds(
    xy: np.ndarray, stamps: np.ndarray | None, degrees: np.ndarray | None,
    columns: Mapping[str, str],
) -> Doubts:  # fmt: skip
    """Whether the vehicle moves as no boat does, for half of the time; or, of a steady speed,
    slower to the east and west than to the north and south by just the factor of exchanged
    latitudes and longitudes. Without times its soundings are taken for evenly spaced in time."""
    times = 1 + np.arange(len(xy)) if stamps is None else stamps
    at = np.flatnonzero(np.diff(times, prepend=0) > 0)  # those with times above 0 that go on
    steps, since = np.abs(np.diff(xy[at], axis=0)), np.diff(times[at])
    steps, since = steps[since > 0], since[since > 0]
    speed = np.hypot(*steps.T) * SECOND / since
    # No boat that sounds goes at 40 m/s.
    if stamps is not None and len(speed) >= FEWEST and (fast := float(np.median(speed))) > 40:
        text = f"the soundings move at {fast:.0f} m/s: places or times may be in another unit"
        yield text, SURE
    if degrees is None or not columns:
        return
    latitude, longitude = np.median(degrees, axis=0)
    factor = float(np.cos(np.radians(latitude)) * np.cos(np.radians(longitude)))
    if max(abs(latitude), abs(longitude)) > 90 or factor > 0.75:  # a factor near 1 shows nothing
        return
    going = [speed[(steps[:, i] > 5 * steps[:, 1 - i]) & (speed > 0)] for i in (0, 1)]
    if min(map(len, going)) < max(FEWEST, len(steps) / 50):
        return
    (a, east, b), (c, north, d) = (np.quantile(each, (0.25, 0.5, 0.75)) for each in going)
    # Steady is what differs by less than a quarter between its quartiles.
    if b < 1.25 * a and d < 1.25 * c and abs(np.log(east / north / factor)) < 0.1:
        yield (
            f"the vehicle goes {north / east:.2g} times as fast to the north and south as to "
            "the east and west, as where latitude and longitude are exchanged",
            swapped(columns) | SURE,
        )


def place_words(north: float, east: float) -> str:
    """A place in degrees, as a bracket behind a name."""
    side, way = hemispheres(north, east)
    return f" (at {abs(north):.2f} {side}, {abs(east):.2f} {way})"


def swapped(
    columns: Mapping[str, str], when: str = "if they are swapped", meanings: Sequence[str] = ()
) -> dict[str, Mapping[str, Any]]:
    """The answer that the two columns of places mean the other, or these; none without columns."""
    own = [meaning for meaning in ("x", "y", "latitude", "longitude") if meaning in columns]
    chosen = {m: columns[each] for m, each in zip(meanings or own[::-1], own, strict=False)}
    return {when: {"columns": chosen}} if len(chosen) == 2 else {}


def _widest_gap(axis: np.ndarray) -> tuple[float, np.ndarray]:
    """The widest gap between values [N], at least two, and which are beyond it [N], boolean."""
    order = np.sort(axis)
    at = int(np.diff(order).argmax())
    return float(order[at + 1] - order[at]), axis > order[at]


def untold(place: np.ndarray, values: np.ndarray) -> float:
    """How badly a place tells a value, from 0 to about 1: what values at nearly the same place, but
    apart in the record, differ by, over what any two do. A depth is a function of the place; the
    altitude of a receiver, a speed and a number of satellites are functions of time.

    Args:
        place: [N, 2] in the order of the record, in any one unit; not finite or 0, 0: unknown.
        values: [N]; only their order counts.
    """
    known = np.isfinite(place).all(1) & np.isfinite(values) & (place != 0).any(1)
    chosen = np.flatnonzero(known)[:: max(1, int(known.sum()) // ROWS)]
    rank = np.unique(values[chosen], return_inverse=True)[1].astype(float)
    at = np.arange(len(chosen))
    between = np.abs(at - at[:, None]) > SAME_TIME * len(at)
    differ = np.abs(rank - rank[:, None])
    usual = float(differ[between].mean()) if between.any() else 0.0
    if not usual:
        return 1.0
    x, y = place[chosen].T
    away = np.where(between, np.hypot(x - x[:, None], y - y[:, None]), np.inf)
    nearest, least = away.argmin(1), away.min(1)
    close = least <= np.median(least)
    return float(differ[at, nearest][close].mean()) / usual


def stray(xy: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Which few of these places [N, 2] in m stretch the map, boolean [N]: those that lie farther
    from all others than these reach; and how far, in m. None: there are none."""
    for axis in xy.T if len(xy) >= FEWEST else ():
        gap, beyond = _widest_gap(axis)
        few = beyond if beyond.mean() < 0.5 else ~beyond
        if 0 < few.mean() < 0.05 and gap > np.ptp(xy[~few], axis=0).max():
            return few, gap
    return None
