"""Constant errors that the crossings of a map's lines show, although nobody asked for them."""

from __future__ import annotations

import numpy as np

from .calibration import calibrate, units
from .crossed import Crossed
from .soundings import Soundings

#: How sure an effect must be, in halves of its interval (3 standard deviations); the most lines, as
#: the time of an estimate grows with their cube.
SURE, MOST_LINES = 1.53, 100


def suspected(soundings: Soundings, crossed: Crossed, water_level: float) -> list[str]:
    """What ``calibration.calibrated`` would probably correct, in words, the surest first.

    Only effects of ``SURE`` times half their interval: of many, a few exclude 0 by chance. Of a
    survey of many lines, for which the estimates take long, only offsets of days, files and boats.

    Args:
        soundings: of a survey.
        crossed: what their crossings show.
        water_level: as of ``calibration.calibrate``.
    """
    if len(crossed.line.names) > MOST_LINES:
        return [f"an offset of {kind} {bias.name}" for kind, bias in crossed.offsets(lines=False)]
    kept = np.flatnonzero(~crossed.refused)
    taken, day = soundings[kept], units(soundings).at(kept)
    found = [
        (abs(each.value) / (each.high - each.value), each)
        for each in calibrate(taken, crossed.line.at(kept), day, water_level).effects
        if each.applied
    ]
    found.sort(key=lambda pair: -pair[0])
    return [each.estimate for sure, each in found if sure >= SURE]
