"""Constant errors that the crossings of a map's lines show, although nobody asked for them."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ..planning.tvu import CONFIDENCE_95
from .calibration import LEAST_CONSTANT, calibrate
from .crossed import Crossed
from .divisions import Divisions
from .effects import Calibration, positions_sentence
from .soundings import Soundings

#: How sure an effect must be, in standard deviations, if it is the only one of its kind; the same
#: of a day; and the most lines, as the time of an estimate grows with their cube.
SURE, SURE_DAY, MOST_LINES = 3.0, 2.25, 100


def suspected(soundings: Soundings, crossed: Crossed, water_level: float) -> list[str]:
    """What ``calibration.calibrated`` would probably correct, in words, the surest first.

    It must be surer than the correction itself asks for: of many effects, a few exclude 0 by
    chance. Of a survey of many lines, for which the estimates take long, only offsets of days,
    files and boats.

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
        (max(each.sure for each in errors) * CONFIDENCE_95 / SURE, positions_sentence(errors))
        for errors in calibration.position_errors
    ]
    found += _of_days(calibration)
    lines = _limit(SURE, len(divisions.line.names))
    for each in calibration.effects:
        if each.applied and each.kind not in ("level", "scale"):
            sure = CONFIDENCE_95 * abs(each.value) / (each.high - each.value)
            found.append((sure / (lines if each.kind == "line" else SURE), each.estimate))
    return [sentence for sure, sentence in sorted(found, reverse=True) if sure >= 1]


def _of_days(calibration: Calibration) -> list[tuple[float, str]]:
    """Levels and scales that would be corrected, and how sure they are together, in units of the
    limit: each alone may be large where they nearly cancel."""
    found = []
    limit = _limit(SURE_DAY, len(calibration.levels) - 1)
    for name, (off, std) in calibration.best_known.items():
        if abs(off) >= max(LEAST_CONSTANT, limit * std):
            found += [
                (abs(off) / std / limit, each.estimate)
                for each in calibration.effects
                if each.applied and each.name == name and each.kind in ("level", "scale")
            ]
    return found


def _limit(sure: float, count: int) -> float:
    """How sure the surest of ``count`` effects must be, in standard deviations, to be as rare as a
    single one that is ``sure``."""
    return float(norm.isf(norm.sf(sure) / max(count, 1)))
