"""One look at the soundings of any file, as they will be mapped: what cannot be is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..core.geodesy import hemispheres, in_area_of_use, rough_metres
from .cells import UNITS
from .options import Answer, Unclear

#: Fewer soundings than this say nothing about a survey.
FEWEST = 20
#: Different places that a survey has at least, one for so many soundings.
FEWEST_PLACES, OFTEN_THERE = (5, 20), 100
#: Within these degrees of 0 N, 0 E lies nothing but the sea; a survey is not longer than this (m).
NOWHERE, LONGEST = np.radians((90.0, 180.0)), 1_500_000.0
#: A gap between two groups of places, at least so long (m) and so many times the rest.
APART, TIMES = 20_000.0, 10.0
#: Steps longer than this (m), and so many times the usual, are leaps; a record has not as many.
LEAP, LEAPS, OFTEN = 1000.0, 100.0, 0.02
#: One direction is rounded to more than this (m), and so many times the other. No bottom: this
#: share of soundings of one depth, or depths that differ by less than this (m), as a latitude does.
ROUNDED, COARSER, ALIKE, LEVEL = 200.0, 20.0, 0.95, 0.03
#: Eastings of UTM and its kind stay below this; Mercator's reach so far (m). What is more than the
#: first of the northings, and less than the second, is no easting in feet beside such an easting.
EASTING, MERCATOR, EARTH, NORTHINGS = 1e6, 2.004e7, 6_378_137.0, (3e6, 1e7)
#: Northings in feet, of a system of a state, stay below this.
IN_FEET = 4e6
#: So many steps show whether a factor is one: its logarithm varies less than this.
FEW_STEPS, ONE = 8, 0.2
#: Depths that change from feet to metres do so by that factor within this much of its logarithm, by
#: more than another one, and at so many usual distances.
SAME_FACTOR, DOUBLE, CLOSE = 0.2, 2.0, 5.0
#: So many times deeper than the next is no sounding; nothing below so many m counts.
PARTED, LEAST = 5.0, 0.1
#: Median slope above which depths may be in another unit; speed of no boat that sounds (m/s).
STEEPEST, FASTEST = 1.0, 40.0
#: The slope of most bottoms; depths begin at so many times their spread, near a shore.
USUAL, SHALLOW = 0.03, 3.0
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


@dataclass(frozen=True)
class Survey:
    """Soundings as they will be mapped.

    Attributes:
        xy: places in m [N, 2], of any origin.
        depth: below the water's surface, in m [N].
        columns: of a table, by their meanings.
        place: as the file has them [N, 2]: latitude, longitude, or x, y.
        crs: of x and y; ``degrees`` for latitude and longitude; empty: unknown.
        units: of depths, if an option or the file says it.
        in_feet: whether depths are in feet, and nothing says what x and y are in.
        stamp_ns: times [N] in ns; 0: unknown. None: the file has none.
        vehicle: whether they come from a vehicle's front end, in m, whose missions may be as short
            as the water is deep.
    """

    xy: np.ndarray
    depth: np.ndarray
    columns: Mapping[str, str] = field(default_factory=dict)
    place: np.ndarray | None = None
    crs: str = ""
    units: str = ""
    in_feet: bool = False
    stamp_ns: np.ndarray | None = None
    vehicle: bool = False

    def look(self, where: str) -> None:
        """Raise an ``Unclear`` if these cannot be the soundings of one survey; ``where`` begins
        its message."""
        if len(self.depth) < FEWEST:
            return
        for doubt in self._doubts():
            right = [Answer("if all of this is right", {"trusted": True})]
            raise Unclear(f"{where}: {doubt.text}", [*doubt.answers, *right * doubt.possible])

    def _doubts(self) -> Iterator[Doubt]:
        at_rest = bool(self.units) and np.ptp(self.xy, axis=0).max() < AT_REST
        if self.place is not None and self.crs != "degrees":
            yield from self._of_metres(self.place)
        if self.in_feet:
            yield Doubt(
                "depths are in feet, and nothing says whether x and y are (their system may: --crs "
                "EPSG:N)",
                [Answer(f"if they are in {unit}", {"units": f"ft,{unit}"}) for unit in ("ft", "m")],
            )
        yield from self._of_places()
        yield from self._of_depths(at_rest)
        if not (self.vehicle or at_rest):
            yield from self._of_slopes()
        if self.stamp_ns is not None:
            yield from self._of_speed(self.stamp_ns)
        if self.place is not None and self.crs == "degrees" and self.columns:
            yield from self._exchanged(self.place)

    def _of_metres(self, place: np.ndarray) -> Iterator[Doubt]:
        """Whether x and y are degrees, or of Mercator's projection, or swapped."""
        around, (x, y) = np.abs(place).max(0), np.median(place, axis=0)
        columns, crs = self.columns, self.crs
        degrees = [
            *_swap(columns, "longitude", "latitude", when="if x is the longitude"),
            *_swap(columns, "latitude", "longitude", when="if x is the latitude"),
        ]
        small = around.max() <= 180 and around.min() <= 90
        if small and np.ptp(np.abs(place), axis=0).max() < 3:
            if np.abs(place - np.round(place, 3)).max() > 1e-9:  # more than millimetres
                yield Doubt("x and y look like degrees, not metres", degrees)
        elif (most := around.max()) > MERCATOR:
            text = f"x and y reach {most:.3g} m, farther than any place on the Earth"
            yield Doubt(text, degrees, False)
        if crs:
            if in_area_of_use(crs, np.array((y, x))) and not in_area_of_use(crs, np.array((x, y))):
                text = f"x and y lie outside the area of {crs}, and inside it if they are swapped"
                yield Doubt(text, _swap(columns, "y", "x", when="if they are swapped"))
            return
        if around.max() < 1e5 or not (x > EASTING or (x < 0 and np.cosh(y / EARTH) > 1.02)):
            return
        text = (
            f"x and y of {x:.0f}, {y:.0f} are not those of UTM. In another system, or in feet: "
            "--crs EPSG:N; in metres of none: --trust-columns"
        )
        if "x" not in columns.get("x", "").lower():  # nobody calls Mercator's an easting
            yield Doubt(text, possible=False)
        turned = bool(EASTING / 10 < y < EASTING and NORTHINGS[0] < x < NORTHINGS[1])
        answers = _swap(columns, "y", "x", when="if x is a northing and y an easting") * turned
        if not (x > 0 and 0 < y < IN_FEET):  # as Mercator's, those in feet would lie in Africa
            north, east = np.degrees((np.arctan(np.sinh(y / EARTH)), x / EARTH))
            when = "if they are of Web Mercator" + place_words(north, east)
            answers.append(Answer(when, {"crs": "EPSG:3857"}))
        yield Doubt(text, answers, False)

    def _of_places(self) -> Iterator[Doubt]:
        """Whether places are where nobody sounds, in two groups, or too few."""
        xy, sides = self.xy, np.ptp(self.xy, axis=0)
        degrees = self.place if self.crs == "degrees" else None
        if degrees is not None and (np.abs(middle := np.median(degrees, axis=0)) < NOWHERE).all():
            text = f"the soundings lie in the open sea{place_words(*middle)}: no fix, or radians"
            yield Doubt(text, possible=False)
        yield from _groups(xy, degrees)
        if sides.max() > LONGEST:
            yield Doubt(f"the soundings lie up to {sides.max() / 1000:.0f} km apart")
        steps = np.hypot(*np.diff(xy, axis=0).T)
        usual = float(np.median(steps[steps > 0])) if steps.any() else 0.0
        far = steps > max(LEAP, LEAPS * usual)
        if (share := far.mean()) > OFTEN:
            length = np.median(steps[far]) / 1000
            yield Doubt(f"places leap by {length:.0f} km in {100 * share:.0f} % of the steps")
        apart = [np.diff(np.unique(axis)) for axis in xy.T]  # of values next to each other
        fine, coarse = sorted(float(np.median(each)) if len(each) else 0.0 for each in apart)
        if coarse > max(ROUNDED, COARSER * fine):
            yield Doubt(f"places are rounded to {coarse:.0f} m in one direction")
        least = np.clip(len(xy) / OFTEN_THERE, *FEWEST_PLACES)
        if (count := len(np.unique(xy, axis=0))) < least:
            text = f"{len(xy)} soundings lie at {count} places, which may be rounded"
            yield Doubt(text, possible=False)
        if not sides.all():
            text = f"the soundings lie on {sides[0]:.3g} x {sides[1]:.3g} m, without an area"
            yield Doubt(text, possible=False)

    def _of_depths(self, at_rest: bool) -> Iterator[Doubt]:
        """Whether depths lie above the water, below any sea, or in two groups of sizes."""
        depth, columns = self.depth, self.columns
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
        size = np.sort(np.abs(depth))
        few = max(1, len(size) // 20)
        ratio = size[few:-few] / np.maximum(size[few - 1 : -few - 1], LEAST)
        at = int(ratio.argmax()) + few
        if not at_rest and ratio.max() >= PARTED and _of_one_factor(np.abs(depth), float(size[at])):
            yield Doubt(
                f"depths are in two groups, up to {size[at - 1]:g} m and from {size[at]:g} m on: "
                "part of them may be in another unit"
            )
        # From feet to metres or back, for many soundings, while nothing else changes so much.
        logs = np.log(np.maximum(np.abs(depth), LEAST))
        steps, along = np.abs(np.diff(logs)), np.hypot(*np.diff(self.xy, axis=0).T)
        turns = np.flatnonzero(steps > np.log(DOUBLE))
        other = np.searchsorted(turns, np.arange(len(logs))) % 2 == 1
        if (
            STRAY < other.mean() < 1 - STRAY
            and np.diff(turns, prepend=-1, append=len(steps)).min() >= FEWEST
            and np.abs(steps[turns] + np.log(UNITS["ft"])).max() < SAME_FACTOR
            and abs(np.median(logs[other]) - np.median(logs[~other])) > np.log(DOUBLE)
            and along[turns].max() <= CLOSE * np.median(along)
        ):  # fmt: skip
            yield Doubt(
                f"depths change {1 / UNITS['ft']:.2f} times from one sounding to the next (from "
                f"sounding {turns[0] + 1} on): part of them may be in feet"
            )

    def _in_units(self, slope: float) -> list[Answer]:
        """The answers of another unit, by which slopes become usual; ``slope``: the median in m."""
        away = {unit: abs(np.log(max(slope, 1e-9) * UNITS[unit] / USUAL)) for unit in UNITS_ASKED}
        short = np.ptp(self.xy, axis=0).max() < AT_REST
        units = () if self.units or short else sorted(away, key=lambda unit: away[unit])
        return [Answer(f"if they are in {unit}", {"units": unit}) for unit in units]

    def _of_slopes(self) -> Iterator[Doubt]:
        """Whether depths do not go with the extent: in another unit, or another column."""
        xy, sides, size = self.xy, np.ptp(self.xy, axis=0), np.abs(self.depth)
        # Compared at a distance along the track, so that noise and repeated positions do not count.
        steps = np.hypot(*np.diff(xy, axis=0).T)
        lag = int(np.clip(np.ceil(sides.max() / 50 / max(np.median(steps), 1e-9)), 1, len(xy) // 2))
        apart = np.hypot(*(xy[lag:] - xy[:-lag]).T)
        slope = float(np.median(np.abs(size[lag:] - size[:-lag]) / np.maximum(apart, 1e-9)))
        deep = float(np.median(size))
        if slope > STEEPEST or deep > sides.max():
            yield Doubt(
                f"depths of {deep:.3g} m (median) on {sides[0]:.3g} x {sides[1]:.3g} m, with "
                f"slopes of {100 * slope:.0f} %", self._in_units(slope),
            )  # fmt: skip

    def _of_speed(self, stamp_ns: np.ndarray) -> Iterator[Doubt]:
        """Whether the vehicle moves as no boat does, for half of the time."""
        known = np.flatnonzero((stamp_ns != 0) & np.isfinite(self.xy).all(1))
        first = known[np.diff(stamp_ns[known], prepend=0) != 0]
        first = first[:: max(1, len(first) // 500)]
        seconds = np.diff(stamp_ns[first]) / SECOND
        speeds = np.hypot(*np.diff(self.xy[first], axis=0).T)[seconds > 0] / seconds[seconds > 0]
        if len(speeds) >= FEWEST and (fast := float(np.median(speeds))) > FASTEST:
            yield Doubt(
                f"the soundings move at {fast:.0f} m/s: places or times may be in another unit"
            )

    def _exchanged(self, place: np.ndarray) -> Iterator[Doubt]:
        """Whether a vehicle of a steady speed is slower to the east and west than to the north and
        south by just the factor of exchanged latitudes and longitudes. Without times its soundings
        are taken for evenly spaced in time."""
        latitude, longitude = np.median(place, axis=0)
        factor = float(np.cos(np.radians(latitude)) * np.cos(np.radians(longitude)))
        if max(abs(latitude), abs(longitude)) > 90 or factor > DISTINCT:
            return
        stamps = np.arange(len(place)) if self.stamp_ns is None else self.stamp_ns
        at = np.flatnonzero(np.diff(stamps, prepend=-1) > 0)
        steps = np.abs(np.diff(self.xy[at], axis=0))
        speed = np.hypot(*steps.T) / np.diff(stamps[at])
        going = [speed[(steps[:, i] > 5 * steps[:, 1 - i]) & (speed > 0)] for i in (0, 1)]
        if min(map(len, going)) < max(FEWEST, len(steps) / 50):
            return
        (a, east, b), (c, north, d) = (np.quantile(each, (0.25, 0.5, 0.75)) for each in going)
        if b < STEADY * a and d < STEADY * c and abs(np.log(east / north / factor)) < NEARLY:
            yield Doubt(
                f"the vehicle goes {north / east:.2g} times as fast to the north and south as to "
                "the east and west, as where latitude and longitude are exchanged",
                swapped(self.columns),
            )


def place_words(north: float, east: float) -> str:
    """A place in degrees, as a bracket behind a name."""
    side, way = hemispheres(north, east)
    return f" (at {abs(north):.2f} {side}, {abs(east):.2f} {way})"


def swapped(columns: Mapping[str, str]) -> list[Answer]:
    """The answer that columns of latitude and longitude mean the other."""
    turned = "longitude", "latitude"
    return _swap(columns, *turned, when="if they are swapped") if turned[0] in columns else []


def _swap(columns: Mapping[str, str], *meanings: str, when: str) -> list[Answer]:
    """The answer that two columns of places mean these; none without columns."""
    names = [columns[m] for m in ("x", "y", "latitude", "longitude") if m in columns]
    chosen = dict(zip(meanings, names, strict=False))
    return [Answer(when, {"columns": chosen})] if len(chosen) == 2 else []


def one_group(where: str, degrees: np.ndarray) -> None:
    """Raise an ``Unclear`` if positions in degrees [N, 2] are in two groups, as with a wrong
    hemisphere, or with latitude and longitude exchanged, in part."""
    if len(degrees) >= FEWEST:
        for doubt in _groups(rough_metres(degrees), degrees):
            raise Unclear(f"{where}: {doubt.text}", doubt.answers)


def _groups(xy: np.ndarray, degrees: np.ndarray | None) -> Iterator[Doubt]:
    """Whether places lie in two groups, with the answers which is right, the larger first."""

    def near(side: np.ndarray) -> list[Answer]:
        groups = sorted((side, ~side), key=np.count_nonzero, reverse=True)
        middles = [np.median(degrees[g], axis=0).tolist() for g in groups if degrees is not None]
        return [
            Answer(f"if those at {north:.2f}, {east:.2f} are right", {"near": (north, east)})
            for north, east in middles
        ]

    if degrees is not None and np.abs(degrees).max() < 179:
        for axis in degrees.T:
            if (axis > 0).any() and (axis < 0).any() and np.abs(axis).min() > 1e-3:
                text = "the soundings lie on two sides of the equator, or of Greenwich"
                yield Doubt(text, near(axis > 0))
    for axis in xy.T:
        order = np.sort(axis)
        steps = np.diff(order)
        gap = float(steps.max())
        if gap > max(APART, TIMES * (np.ptp(axis) - gap)):
            text = f"the soundings lie in two groups of places, {gap / 1000:.0f} km apart"
            yield Doubt(text, near(axis > order[steps.argmax()]))


def _of_one_factor(size: np.ndarray, parted: float) -> bool:
    """Whether sizes [N] below ``parted`` may be those above it in another unit: one factor, that of
    a unit, lies between them wherever the record goes from one group to the other. A sounder that
    loses the bottom now and then goes by other factors."""
    over = np.flatnonzero(np.diff(size >= parted))
    steps = np.abs(np.diff(np.log(np.maximum(size, LEAST)))[over])
    if len(steps) < FEW_STEPS:
        return True
    low, usual, high = np.quantile(steps, (0.25, 0.5, 0.75))
    of_units = np.abs(np.log([*UNITS.values()]))
    return bool(high - low < ONE and np.abs(of_units - usual).min() < ONE)


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
    for axis in xy.T:
        order = np.sort(axis)
        steps = np.diff(order)
        gap = float(steps.max(initial=0))
        beyond = axis > order[steps.argmax()] if gap else np.zeros(len(axis), dtype=bool)
        few = beyond if beyond.mean() < 0.5 else ~beyond
        if len(xy) >= FEWEST and 0 < few.mean() < STRAY and gap > np.ptp(xy[~few], axis=0).max():
            return few, gap
    return None
