"""Questions where the values of a table contradict the names of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import in_area_of_use, is_in_feet, rough_metres
from .cells import UNITS
from .columns import PLACES, Columns, as_option

#: A survey longer than this (m) and this many times longer than wide may have swapped columns.
LONG_M, NARROW = 50_000.0, 300.0
#: More than any easting or northing on the Earth, in m.
EARTH = 1e8
#: Different places that a survey of 20 soundings has at least.
FEWEST_PLACES = 5
#: So many times deeper than the next is no sounding; nothing below so many m counts.
PARTED, LEAST = 5.0, 0.1
#: A change of unit is looked for among so many soundings before and after a step by more than this
#: (of the logarithm), where there are at most so many such steps.
AROUND, GREAT_STEP, FEW_STEPS = 3, 0.8, 3
#: Median slope above which depths may be in another unit.
STEEPEST = 1.0
#: Correlation of elevations with depths above which they are not of the same bottom.
OPPOSITE = -0.8


def check_heights(columns: Columns, both: np.ndarray, where: str) -> None:
    """Raise an ``InputError`` where elevations and depths [N, 2] of one table are not of the same
    bottom: the elevations may be the antenna's or the water's. NaN where unknown."""
    both = both[np.isfinite(both).all(1)]
    if len(both) < 3:
        return
    level = not np.ptp(both, axis=0).all()
    if level or np.corrcoef(both.T)[0, 1] > OPPOSITE:
        name, beside = columns.height, columns.depth_beside
        raise InputError(
            f"{where}: column {name} does not fall where column {beside} rises. If {name} is the "
            f"antenna's or the water's: --columns {as_option(depth=beside)}; if it is the "
            f"bottom's: --columns {as_option(z=name)}{_altitude_too(columns)}"
        )


def check_unit(where: str, crs: str, column: str, unit: str) -> bool:
    """Whether a coordinate system counts feet; empty: none.

    Raises:
        InputError: it does, and nothing says what the depths are in (``unit`` is empty).
    """
    in_feet = bool(crs) and is_in_feet("--crs", crs)
    if in_feet and not unit:
        raise InputError(
            f"{where}: {crs} is in feet, and column {column} does not say its unit. "
            "If it is in feet, too: --units ft; if not: --units m"
        )
    return in_feet


def question(
    columns: Columns,
    place: np.ndarray,
    height: np.ndarray,
    decimals: Sequence[int],
    crs: str = "",
) -> str:
    """How values contradict the names of the columns, with the option that decides; empty if they
    do not.

    Args:
        columns: as understood.
        place: values of the table [N, 2].
        height: values of the table [N], finite.
        decimals: usual number of digits after the decimal mark in the three columns.
        crs: of x and y, as pyproj takes it; empty: none.
    """
    if len(height) < 20:
        return ""
    asked = (
        _of_metres(columns, place, decimals, crs)
        or _of_degrees(columns, place)
        or _of_units(columns, place, height)
        or _of_signs(columns, height)
        or _of_rounding(columns, place)
        or _of_depths(columns, height)
        or _of_shape(columns, place, height)
    )
    return asked + _altitude_too(columns) if asked else ""


def _altitude_too(columns: Columns) -> str:
    """What an answer that names depths or elevations needs besides, so that altitudes count."""
    if not columns.altitude:
        return ""
    word = as_option(altitude=columns.altitude)
    return f" (and {word}, if that is a vehicle's above the ground)"


def _of_metres(columns: Columns, place: np.ndarray, decimals: Sequence[int], crs: str) -> str:
    """Whether places in metres look like degrees, or like x and y swapped."""
    if columns.degrees or {"x", "y"} & set(columns.given):
        return ""
    first, second, _ = columns.names
    around = np.abs(place).max(0)
    small = (around <= 180).all() and around.min() <= 90 and np.ptp(place, axis=0).max() < 3
    if small and min(decimals[:2]) >= 4:
        return (
            f"columns {first}, {second} look like degrees, not metres. If so: --columns "
            f"{as_option(longitude=first, latitude=second)} (or the other way round); if they are "
            f"metres: --columns {columns.place_option}"
        )
    if around.max() > EARTH:
        return (
            f"columns {first}, {second} reach {around.max():.3g} m, farther than any place "
            f"on the Earth. If they are degrees times 10,000,000: --columns "
            f"{as_option(longitude=first, latitude=second)} (or the other way round)"
        )
    if crs:
        middle = np.median(place, axis=0)
        if in_area_of_use(crs, middle[::-1]) and not in_area_of_use(crs, middle):
            return (
                f"columns {first}, {second} lie outside the area that {crs} is for, and inside it "
                f"if they are swapped. If so: --columns {as_option(x=second, y=first)}; if not: "
                f"--columns {columns.place_option}"
            )
    return ""


def _of_degrees(columns: Columns, place: np.ndarray) -> str:
    """Whether places in degrees are in two groups, or on two sides of the Earth."""
    if not columns.degrees or {"latitude", "longitude"} & set(columns.given):
        return ""
    first, second, _ = columns.names
    north = np.sort(np.abs(place[:, 0]))  # of either side: those are asked about below
    steps = np.diff(north)
    gap = int(steps.argmax())
    if steps[gap] > max(1.0, 10 * (np.ptp(north) - steps[gap])):
        return (
            f"column {first} has two groups of places, up to {north[gap]:g} and from "
            f"{north[gap + 1]:g} on: part of the rows may have {first} and {second} swapped. "
            f"Correct these; if all are right: --columns {columns.place_option}"
        )
    for values, column in zip(place.T, (first, second), strict=True):
        size = np.abs(values)
        mirrored = size.min() > 5 * np.ptp(size) or ((values > 1).any() and (values < -1).any())
        if mirrored and values.min() < 0 < values.max() and size.max() < 179:
            return (
                f"column {column} has both signs ({values.min():g} to {values.max():g}): "
                "places on two sides of the Earth. Remove the rows that are wrong; if all are "
                f"right: --columns {columns.place_option}"
            )
    return ""


def _of_units(columns: Columns, place: np.ndarray, height: np.ndarray) -> str:
    """Whether part of the elevations or depths may be in another unit."""
    if {"z", "depth"} & set(columns.given):
        return ""
    name = columns.names[2]
    option = f"--columns {columns.height_option}"
    if parted := _parted(np.abs(height) * UNITS[columns.unit]):
        return (
            f"column {name} has two groups of values, up to {parted[0]:g} m and from "
            f"{parted[1]:g} m on: part of the rows may be in another unit. Correct these; if all "
            f"are right: {option}"
        )
    changes = _unit_changes(place, np.abs(height))
    if changes is None:
        return ""
    return f"column {name} {_jump(height, changes)}. Correct these; if all are right: {option}"


def question_of_depths(units: str, place: np.ndarray, height: np.ndarray) -> str:
    """Whether part of a log's depths [N], in m, may be in feet, as where a sounder was set to
    another unit; empty if not, or where the user gave ``units``. ``place``: [N, 2]."""
    changes = None if units else _unit_changes(place, height) or _alternates(height)
    if changes is None:
        return ""
    return (
        f"the depth {_jump(height, changes)}. Leave out the wrong ones; if all are right: --units m"
    )


def _alternates(size: np.ndarray) -> int | None:
    """The first sounding in another unit where depths [N] jump from m to feet and back more than
    ``FEW_STEPS`` times, and jump by little else; None where they do not."""
    if len(size) < 20 or not (size > 0).all():
        return None
    step = np.diff(np.log(size))
    great = np.abs(step) > GREAT_STEP
    as_feet = great & (np.abs(np.abs(step) + np.log(UNITS["ft"])) < 0.15)
    often = min((step[as_feet] > 0).sum(), (step[as_feet] < 0).sum()) > FEW_STEPS
    return int(as_feet.argmax()) + 1 if often and as_feet.sum() > 0.8 * great.sum() else None


def _jump(height: np.ndarray, at: int) -> str:
    """A step by the factor of feet to metres, in words."""
    ratio = height[at] / height[at - 1]
    return (
        f"jumps from {height[at - 1]:g} to {height[at]:g} (sounding {at}), "
        f"{max(ratio, 1 / ratio):.3g} times, as from feet to m: part of the rows may be in another "
        "unit"
    )


def _of_signs(columns: Columns, height: np.ndarray) -> str:
    """Whether elevations may be depths, or depths elevations."""
    name = columns.names[2]
    if not columns.down and "z" not in columns.given and (height > 0).mean() > 0.95:
        return (
            f"column {name} is positive throughout ({height.min():g} to {height.max():g}). If it "
            f"is a depth: --columns {as_option(depth=name)}; if it is ground above the datum: "
            f"--columns {as_option(z=name)} and --water-level, the elevation of the water (in "
            "feet: also --units ft)"
        )
    if columns.down and "depth" not in columns.given and (height < 0).mean() > 0.95:
        return (
            f"column {name} is negative throughout ({height.min():g} to {height.max():g}). If it "
            f"is an elevation: --columns {as_option(z=name)}; if it is a depth with a minus: "
            f"--columns {as_option(depth=name)}"
        )
    return ""


def _of_rounding(columns: Columns, place: np.ndarray) -> str:
    """Whether places may be rounded."""
    count = len(np.unique(place, axis=0))
    if count >= FEWEST_PLACES or set(columns.given) & set(sum(PLACES, ())):
        return ""
    first, second, _ = columns.names
    return (
        f"columns {first}, {second} have {count} different places for {len(place)} soundings: "
        f"they may be rounded. If they are right: --columns {columns.place_option}"
    )


def _of_depths(columns: Columns, height: np.ndarray) -> str:
    """Whether depths are deeper than any sea."""
    deepest = float(np.median(np.abs(height)) * UNITS[columns.unit])
    if deepest <= 12_000:
        return ""
    return (
        f"column {columns.names[2]} has depths of {deepest:g} m, deeper than any sea. Give its "
        "unit: --units cm, or another of m, ft, fathom, mm"
    )


def _parted(size: np.ndarray) -> tuple[float, float] | None:
    """The ends of a gap between small and large depths [N], in m, that no bottom has; None where
    there is none."""
    ordered = np.sort(size)
    few = max(1, len(ordered) // 20)
    ratio = ordered[few:-few] / np.maximum(ordered[few - 1 : -few - 1], LEAST)
    gap = int(ratio.argmax()) + few
    if ratio.max() < PARTED:
        return None
    return float(ordered[gap - 1]), float(ordered[gap])


def _unit_changes(place: np.ndarray, size: np.ndarray) -> int | None:
    """The sounding from which on depths [N] may be in m, not in feet, or the other way round: the
    one great step of a record otherwise without. None where there is none, or several."""
    if len(size) < 20 or not (size > 0).all():
        return None
    step = np.diff(np.log(size))
    great = np.flatnonzero(np.abs(step) > GREAT_STEP) + 1
    if not 1 <= len(great) <= FEW_STEPS:
        return None
    apart = np.hypot(*np.diff(place, axis=0).T)
    for at in great.tolist():
        before, after = size[max(0, at - AROUND) : at], size[at : at + AROUND]
        if min(len(before), len(after)) < AROUND or apart[at - 1] > 5 * np.median(apart):
            continue
        ratios = np.array([np.median(after) / np.median(before), size[at] / size[at - 1]])
        if (np.abs(np.abs(np.log(ratios)) + np.log(UNITS["ft"])) < (0.2, 0.15)).all():
            return at
    return None


def _of_shape(columns: Columns, place: np.ndarray, height: np.ndarray) -> str:
    """A question if the survey's shape suggests swapped columns or depths in another unit; else
    empty. Arguments as in ``question``."""
    first, second, name = columns.names
    xy = rough_metres(place) if columns.degrees else place
    sides = np.ptp(xy, axis=0)
    size = np.abs(height) * UNITS[columns.unit]
    swapped = sides.max() > LONG_M and sides.max() > NARROW * sides.min()
    if not set(columns.given) & set(sum(PLACES, ())) and swapped and np.ptp(size) < size.max() / 20:
        return (
            f"the soundings lie on {sides[0] / 1000:.3g} x {sides[1] / 1000:.3g} km, all of nearly "
            f"the same height ({height.min():g} to {height.max():g}): columns {first}, {second}, "
            f"{name} may be swapped. Name them, as in --columns {columns.place_option} "
            f"{as_option(depth=name)}"
        )
    if columns.unit != "m" or set(columns.given) & {"z", "depth"} or sides.max() == 0:
        return ""
    # Compared at a distance along the track, so that noise and repeated positions do not count.
    steps = np.hypot(*np.diff(xy, axis=0).T)
    lag = int(np.clip(np.ceil(sides.max() / 50 / max(np.median(steps), 1e-9)), 1, len(xy) // 2))
    apart = np.hypot(*(xy[lag:] - xy[:-lag]).T)
    slope = float(np.median(np.abs(size[lag:] - size[:-lag]) / np.maximum(apart, 1e-9)))
    deep = float(np.median(size))
    if columns.down and (slope > STEEPEST or deep > sides.max()):
        return (
            f"column {name} has depths of {deep:g} m (median) on {sides[0]:.0f} x {sides[1]:.0f} "
            f"m, with slopes of {100 * slope:.0f} %. If they are in another unit: --units cm, or "
            f"another of {', '.join(UNITS)}; if they are in m: --columns {columns.height_option}"
        )
    return ""
