"""One look at the soundings of any file, as they will be mapped: what cannot be is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core.clock import SECOND
from ..core.geodesy import hemispheres, in_area_of_use
from .cells import UNITS
from .options import Answer, Unclear

if TYPE_CHECKING:
    from .raw import RawSoundings

#: Fewer soundings than this say nothing about a survey.
FEWEST = 20
#: Within these degrees of 0 N, 0 E lies nothing but the sea.
NOWHERE = np.radians((90.0, 180.0))
#: A gap between two groups of places, at least so long (m) and so many times the rest.
APART, TIMES = 20_000.0, 10.0
#: Degrees of so many decimals are rounded to 100 m, too much beside degrees of more decimals, and
#: for a survey shorter than this (m); of one decimal less, for one ten times as long.
DECIMALS, SHORT = 3, 20_000.0
#: Different places that a survey has at least, one for so many soundings.
FEWEST_PLACES, OFTEN_THERE = (5, 20), 100
#: No bottom: this share of soundings of one depth, or depths that differ by less than this (m), as
#: a latitude does.
ALIKE, LEVEL = 0.95, 0.03
#: Eastings of UTM and its kind stay below the first of these, those of Mercator below the second;
#: beside northings above the third there are western ones of Mercator alone (m). What is more than
#: the first of the northings, and less than the second, is no easting in feet beside an easting.
EASTING, MERCATOR, WEST, NORTHINGS = 1e6, 2.004e7, 1.3e6, (3e6, 1e7)
#: Northings in feet, of a system of a state, stay below this; the Earth's radius (m).
IN_FEET, EARTH = 4e6, 6_378_137.0
#: Depths of which a part is in another unit change by its factor, within this much of its
#: logarithm, or a tenth, or by so much as no bottom does, and by nothing else above ``DOUBLE``, in
#: the median of so many.
SAME_FACTOR, NEVER, DOUBLE, SMOOTHED = 0.2, 50.0, 2.0, 7
#: The least depth that counts for it (m), the least share of soundings in another unit, and the
#: longest way on which they change, in usual ones.
LEAST, PART, CLOSE = 0.01, 0.05, 20.0
#: Median slope above which depths may be in another unit; that of most bottoms.
STEEPEST, USUAL = 1.0, 0.03
#: Speed of no boat that sounds (m/s).
FASTEST = 40.0
#: Depths begin at so many times their spread, near a shore.
SHALLOW = 3.0
#: A boat at its berth moves, and its receiver errs, by no more than this (m): it shows no slopes,
#: and a stated unit is believed.
AT_REST = 50.0
#: Rows that show how well the place tells a value; those that are apart, as a share of them.
ROWS, SAME_TIME = 400, 0.05
#: Less than this share of the soundings at another place is a mistake.
STRAY = 0.05
#: A speed of this spread (quartiles) is steady; a factor less than this shows, within this much of
#: its logarithm.
STEADY, DISTINCT, NEARLY = 1.25, 0.75, 0.1
UNITS_ASKED = ("ft", "cm", "mm", "dm", "m")


class Doubt(NamedTuple):
    """What is unlikely, with answers; ``possible``: whether a person may be sure of it."""

    text: str
    answers: Sequence[Answer] = ()
    possible: bool = True


def look(
    where: str, xy: np.ndarray, depth: np.ndarray, raw: RawSoundings | None = None, unit: str = ""
) -> None:  # fmt: skip
    """Raise an ``Unclear`` if soundings cannot be those of one survey.

    Args:
        where: start of the message.
        xy: places in m [N, 2], of any origin.
        depth: below the water's surface, in m [N].
        raw: the ``kept`` of these are they, as the file has them. None: they come from a vehicle's
            front end, whose missions may be as short as the water is deep.
        unit: of depths, if an option or the file says it.
    """
    if len(depth) < FEWEST:
        return
    for doubt in _doubts(xy, depth, raw, unit):
        right = [Answer("if all of this is right", {"trusted": True})]
        raise Unclear(f"{where}: {doubt.text}", [*doubt.answers, *right * doubt.possible])


def _doubts(
    xy: np.ndarray, depth: np.ndarray, raw: RawSoundings | None, unit: str
) -> Iterator[Doubt]:
    if raw is None:
        yield from _of_places(xy, None)
        yield from _of_depths(xy, depth, {})
        return
    columns, kept, degrees = raw.columns, raw.kept, None
    if raw.x_y is None and raw.degrees:
        degrees = raw.place[kept]
    else:
        place = raw.place if raw.x_y is None else raw.x_y
        yield from _of_metres(place[kept], raw.crs, columns)
    if raw.unit == "ft" and not (raw.degrees or raw.place_unit):
        yield Doubt(
            "depths are in feet, and nothing says whether x and y are (their system may: --crs "
            "EPSG:N)",
            [Answer(f"if they are in {each}", {"units": f"ft,{each}"}) for each in ("ft", "m")],
        )
    yield from _of_places(xy, degrees)
    yield from _of_depths(xy, depth, columns)
    yield from _of_slopes(xy, np.abs(depth), unit)
    if raw.stamp_ns is not None:
        yield from _of_speed(xy, raw.stamp_ns[kept])
    if degrees is not None and columns:
        stamps = 1 + np.arange(len(xy)) if raw.stamp_ns is None else raw.stamp_ns[kept]
        yield from _exchanged(xy, degrees, stamps, columns)


def _of_metres(place: np.ndarray, crs: str, columns: Mapping[str, str]) -> Iterator[Doubt]:
    """Whether x and y are degrees, or of Mercator's projection, or swapped."""
    around, (x, y) = np.abs(place).max(0), np.median(place, axis=0)
    most = around.max()
    degrees = [
        *swapped(columns, "if x is the longitude", ("longitude", "latitude")),
        *swapped(columns, "if x is the latitude", ("latitude", "longitude")),
    ]
    small = most <= 180 and around.min() <= 90 and np.ptp(np.abs(place), axis=0).max() < 3
    if small and np.abs(place - np.round(place, 3)).max() > 1e-9:  # more than millimetres
        yield Doubt("x and y look like degrees, not metres", degrees)
    if most > MERCATOR:
        text = f"x and y reach {most:.3g} m, farther than any place on the Earth"
        yield Doubt(text, degrees, False)
    if crs:
        if in_area_of_use(crs, np.array((y, x))) and not in_area_of_use(crs, np.array((x, y))):
            text = f"x and y lie outside the area of {crs}, and inside it if they are swapped"
            yield Doubt(text, swapped(columns))
        return
    if most < 1e5 or not (x > EASTING or (x < 0 and abs(y) > WEST)):
        return
    text = (
        f"x and y of {x:.0f}, {y:.0f} are not those of UTM. In another system, or in feet: "
        "--crs EPSG:N; in metres of none: --trust-columns"
    )
    if "x" not in columns.get("x", "").lower():  # nobody calls Mercator's an easting
        yield Doubt(text, possible=False)
    turned = bool(EASTING / 10 < y < EASTING and NORTHINGS[0] < x < NORTHINGS[1])
    answers = swapped(columns, "if x is a northing and y an easting") * turned
    # As Mercator's, those in feet would lie in Africa.
    if not (x > 0 and 0 < y < IN_FEET):
        north, east = np.degrees((np.arctan(np.sinh(y / EARTH)), x / EARTH))
        when = "if they are of Web Mercator" + place_words(north, east)
        answers.append(Answer(when, {"crs": "EPSG:3857"}))
    yield Doubt(text, answers, False)


def _of_places(xy: np.ndarray, degrees: np.ndarray | None) -> Iterator[Doubt]:
    """Whether places are where nobody sounds, in two groups, without an area, or rounded."""
    sides = np.ptp(xy, axis=0)
    if degrees is not None and (np.abs(middle := np.median(degrees, axis=0)) < NOWHERE).all():
        text = f"the soundings lie in the open sea{place_words(*middle)}: no fix, or radians"
        yield Doubt(text, possible=False)
    yield from _groups(xy, degrees)
    if not sides.all():
        text = f"the soundings lie on {sides[0]:.3g} x {sides[1]:.3g} m, without an area"
        yield Doubt(text, possible=False)
    if (count := len(np.unique(xy, axis=0))) < np.clip(len(xy) / OFTEN_THERE, *FEWEST_PLACES):
        text = f"{len(xy)} soundings lie at {count} places, which may be rounded"
        yield Doubt(text, possible=False)
    if degrees is None:
        return
    for digits in range(DECIMALS + 1):
        rounded = np.abs(degrees - degrees.round(digits)).max(0) < 1e-9
        short = sides.max() < SHORT * 10.0 ** (DECIMALS - digits)
        if rounded.any() and (short or not rounded.all()):
            text = f"places are rounded to {10.0**-digits:g} degrees"
            yield Doubt(f"{text} on {sides[0]:.3g} x {sides[1]:.3g} m")


def _of_depths(xy: np.ndarray, depth: np.ndarray, columns: Mapping[str, str]) -> Iterator[Doubt]:
    """Whether depths lie above the water, or are all the same, or in another unit in part."""
    if (above := float((depth < 0).mean())) > 0.5:
        name = columns.get("z", columns.get("depth", ""))
        asked = "z" in columns and bool(-depth.max() < SHALLOW * np.ptp(depth))
        its = f"column {name}, as an elevation, has" if "z" in columns else "the file has"
        yield Doubt(
            f"{its} {100 * above:.0f} % of the soundings above the water, up to "
            f"{-depth.min():g} m. For ground above a datum, give --water-level, the elevation "
            "of the water", [Answer("if it is a depth", {"columns": {"depth": name}})] * asked,
        )  # fmt: skip
    values, counts = np.unique(depth, return_counts=True)
    if counts.max() > ALIKE * len(depth) or np.ptp(depth) < LEVEL:
        text = f"nearly all soundings have the same depth, {values[counts.argmax()]:g} m"
        yield Doubt(text, possible=False)
    if (turn := _of_two_units(np.abs(depth), np.hypot(*np.diff(xy, axis=0).T))) is not None:
        yield Doubt(f"depths change as from m to {turn[1]}, or back, from about sounding {turn[0]} "
                    "on: part of them may be in another unit")  # fmt: skip


def _of_slopes(xy: np.ndarray, size: np.ndarray, unit: str) -> Iterator[Doubt]:
    """Whether depths do not go with the extent: in another unit, or another column."""
    sides = np.ptp(xy, axis=0)
    # Compared at a distance along the track, so that noise and repeated positions do not count.
    steps = np.hypot(*np.diff(xy, axis=0).T)
    lag = int(np.clip(np.ceil(sides.max() / 50 / max(np.median(steps), 1e-9)), 1, len(xy) // 2))
    apart = np.hypot(*(xy[lag:] - xy[:-lag]).T)
    slope = float(np.median(np.abs(size[lag:] - size[:-lag]) / np.maximum(apart, 1e-9)))
    deep, at_rest = float(np.median(size)), sides.max() < AT_REST
    if (at_rest and unit) or (slope <= STEEPEST and deep <= sides.max()):
        return
    # Those of another unit, by which slopes become usual.
    away = {unit: abs(np.log(max(slope, 1e-9) * UNITS[unit] / USUAL)) for unit in UNITS_ASKED}
    units = () if unit or at_rest else sorted(away, key=lambda unit: away[unit])
    yield Doubt(
        f"depths of {deep:.3g} m (median) on {sides[0]:.3g} x {sides[1]:.3g} m, with slopes of "
        f"{100 * slope:.0f} %",
        [Answer(f"if they are in {each}", {"units": each}) for each in units],
    )


def _steps(xy: np.ndarray, stamps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps [K, 2] between soundings with times above 0 that go on, and their times [K]."""
    at = np.flatnonzero(np.diff(stamps, prepend=0) > 0)
    steps, since = np.diff(xy[at], axis=0), np.diff(stamps[at])
    return steps[since > 0], since[since > 0]


def _of_speed(xy: np.ndarray, stamps: np.ndarray) -> Iterator[Doubt]:
    """Whether the vehicle moves as no boat does, for half of the time."""
    steps, since = _steps(xy, stamps)
    speed = np.hypot(*steps.T) * SECOND / since
    if len(speed) >= FEWEST and (fast := float(np.median(speed))) > FASTEST:
        text = f"the soundings move at {fast:.0f} m/s: places or times may be in another unit"
        yield Doubt(text)


def _exchanged(
    xy: np.ndarray, place: np.ndarray, stamps: np.ndarray, columns: Mapping[str, str]
) -> Iterator[Doubt]:
    """Whether a vehicle of a steady speed is slower to the east and west than to the north and
    south by just the factor of exchanged latitudes and longitudes. Without times its soundings
    are taken for evenly spaced in time."""
    latitude, longitude = np.median(place, axis=0)
    factor = float(np.cos(np.radians(latitude)) * np.cos(np.radians(longitude)))
    if max(abs(latitude), abs(longitude)) > 90 or factor > DISTINCT:
        return
    steps, since = _steps(xy, stamps)
    steps, speed = np.abs(steps), np.hypot(*steps.T) / since
    going = [speed[(steps[:, i] > 5 * steps[:, 1 - i]) & (speed > 0)] for i in (0, 1)]
    if min(map(len, going)) < max(FEWEST, len(steps) / 50):
        return
    (a, east, b), (c, north, d) = (np.quantile(each, (0.25, 0.5, 0.75)) for each in going)
    if b < STEADY * a and d < STEADY * c and abs(np.log(east / north / factor)) < NEARLY:
        yield Doubt(
            f"the vehicle goes {north / east:.2g} times as fast to the north and south as to "
            "the east and west, as where latitude and longitude are exchanged",
            swapped(columns),
        )


def place_words(north: float, east: float) -> str:
    """A place in degrees, as a bracket behind a name."""
    side, way = hemispheres(north, east)
    return f" (at {abs(north):.2f} {side}, {abs(east):.2f} {way})"


def swapped(
    columns: Mapping[str, str], when: str = "if they are swapped", meanings: Sequence[str] = ()
) -> list[Answer]:
    """The answer that the two columns of places mean the other, or these; none without columns."""
    own = [meaning for meaning in ("x", "y", "latitude", "longitude") if meaning in columns]
    chosen = {m: columns[each] for m, each in zip(meanings or own[::-1], own, strict=False)}
    return [Answer(when, {"columns": chosen})] if len(chosen) == 2 else []


def _groups(xy: np.ndarray, degrees: np.ndarray | None) -> Iterator[Doubt]:
    """Whether places lie in two groups, with the answers which is right, the larger first."""

    def near(side: np.ndarray) -> list[Answer]:
        groups = sorted((side, ~side), key=np.count_nonzero, reverse=True)
        middles = [np.median(degrees[g], axis=0).tolist() for g in groups if degrees is not None]
        return [
            Answer(f"if those at {north:.2f}, {east:.2f} are right", {"near": (north, east)})
            for north, east in middles
        ]

    for axis in xy.T:
        gap, beyond = _widest_gap(axis)
        if gap > max(APART, TIMES * (np.ptp(axis) - gap)):
            text = f"the soundings lie in two groups of places, {gap / 1000:.0f} km apart"
            yield Doubt(text, near(beyond))


def _widest_gap(axis: np.ndarray) -> tuple[float, np.ndarray]:
    """The widest gap between values [N], at least two, and which are beyond it [N], boolean."""
    order = np.sort(axis)
    at = int(np.diff(order).argmax())
    return float(order[at + 1] - order[at]), axis > order[at]


def _of_two_units(size: np.ndarray, along: np.ndarray) -> tuple[int, str] | None:
    """The sounding from which on depths of these sizes [N] are in another unit, and this or the one
    before; None: there is none. They change by the factor of a unit alone, on short ways along the
    track [N - 1], and stay so."""
    logs = np.pad(np.log(np.maximum(size, LEAST)), SMOOTHED // 2, "edge")
    logs = np.median(sliding_window_view(logs, SMOOTHED), axis=1)
    steps = np.abs(np.diff(logs))
    turns = np.flatnonzero(steps > np.log(DOUBLE))
    other = np.searchsorted(turns, np.arange(len(logs))) % 2 == 1
    if (
        not PART < other.mean() < 1 - PART
        or np.diff(turns, prepend=-1, append=len(steps)).min() < FEWEST
        or along[turns].max() > CLOSE * np.median(along[along > 0])
        or abs(np.median(logs[other]) - np.median(logs[~other])) < np.log(DOUBLE)
    ):
        return None
    for unit, size_m in UNITS.items():
        factor = abs(np.log(size_m))
        near = np.abs(steps[turns] - factor).max() < max(SAME_FACTOR, factor / 10)
        if factor > np.log(DOUBLE) and near:
            return int(turns[0]) + 1, unit
    never = steps[turns].min() > np.log(NEVER)
    return (int(turns[0]) + 1, "a much smaller unit") if never else None


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
        if 0 < few.mean() < STRAY and gap > np.ptp(xy[~few], axis=0).max():
            return few, gap
    return None
