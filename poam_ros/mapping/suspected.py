"""Constant errors that the crossings of a map's lines show, although nobody asked for them."""

from __future__ import annotations

import numpy as np

from .calibration import calibrate
from .crossed import Crossed
from .divisions import Divisions
from .effects import positions_sentence
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
    divisions = Divisions.of(soundings, crossed.line).at(kept)
    calibration = calibrate(soundings[kept], divisions, water_level)
    found = [
        (abs(each.value) / (each.high - each.value), each.estimate)
        for each in calibration.effects
        if each.applied
    ]
    found += [
        (max(each.sure for each in errors), positions_sentence(errors))
        for errors in calibration.position_errors
    ]
    return [sentence for sure, sentence in sorted(found, reverse=True) if sure >= SURE]
