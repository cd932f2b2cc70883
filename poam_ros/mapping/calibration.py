"""Constant errors of a survey, estimated from the crossings of its lines.

At a crossing, two lines should have the same depth. Systematic differences come from the water
level or draught (a constant of a day, boat or line), from the sound speed of a day (in proportion
to the depth), or from where a depth was measured: a latency (in proportion to the speed), or a
distance between sounder and antenna along the direction of travel, or positions of a line or a
recording that are off. All are estimated together, by one linear mixed model with robust weights:
each has a prior (``PRIOR``; those of lines and positions as found), so that an effect of which
crossings say little stays near 0, and two that they cannot distinguish share the correction.
Crossings cannot show an error that all lines share: the reference is the day with the median error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..screening.crossings import crossing_weights, find_crossings
from ..screening.lines import Motion, gradients
from ..screening.mixed_model import Estimates, solve
from .crossed import Crossed, Divisions, cross
from .soundings import SoundingMapSettings, Soundings
from .survey_errors import Calibration, Effect, PositionError, Spread, SurveyErrors

#: Key in ``Soundings.source`` and in a run's config.yaml, of the sentences.
KEY = "calibration"
#: The same of the errors of level that are known (``Calibration.levels``).
LEVELS = "calibrated_levels"
#: Rounds of fitting and correcting with each estimate of variances; minimum number of crossings.
ROUNDS, LEAST = 3, 12
#: Standard deviations of the effects before any crossing is seen: level (m), scale (of the depth),
#: distance along the direction of travel (m), latency (s).
PRIOR = {"level": 0.3, "scale": 0.02, "along": 2.0, "latency": 1.0}
DAILY = ("level", "scale")
#: A smaller constant of a line is not named, in m; positions that are all off by less are kept.
LEAST_CONSTANT, LEAST_MOVE = 0.02, 0.1
MAX_CROSSINGS = 4000


def calibrate(
    soundings: Soundings, divisions: Divisions, water_level: float, rounds: int = 2 * ROUNDS
) -> Calibration:
    """Estimate the constant errors of soundings from the crossings of their lines.

    Args:
        soundings: of a survey, without multiples.
        divisions: of these.
        water_level: elevation of the water surface for soundings without a level of their own, in
            m.
        rounds: of fitting and correcting.
    """
    fit = _Fit(soundings, divisions, water_level)
    total, moves = np.zeros(len(fit.kinds)), np.zeros_like(soundings.xy)
    for step in range(rounds):
        if step == ROUNDS:  # where positions are off, differences were large
            fit.ratios = None
        corrected = fit.corrected(soundings, total, moves=moves)
        found = fit.estimate(corrected, total, moves)
        if found is None:
            return Calibration((), ("too few crossings of lines to calibrate",))
        total, moves = found.value, fit.moved([each.value for each in found.moves])
    assert found is not None  # one round at least
    return fit.described(found)


def calibrated(
    soundings: Soundings, settings: SoundingMapSettings
) -> tuple[Soundings, Calibration]:
    """The soundings without the errors that their crossings show, and these errors."""
    crossed = cross(soundings, settings)
    kept = np.flatnonzero(~crossed.refused)
    divisions, level = Divisions.of(soundings, crossed.line), settings.water_level
    found = calibrate(soundings[kept], divisions.at(kept), level)
    corrected = correct(soundings, found, divisions, level)
    if soundings.pings is not None:  # of a vehicle
        up = corrected.z - soundings.z
        taken = soundings.pings
        taken = replace(taken, xy=corrected.xy, z=corrected.z, range=taken.range - up)
        corrected = replace(corrected, pings=taken, steps=None)
    source = {**soundings.source, KEY: found.sentences}
    levels = found.known_levels(settings.level_error)
    if len(levels) > 1:
        source[LEVELS] = levels
    errors = SurveyErrors.of(found, corrected, divisions, corrected=True)
    return replace(corrected, source=source, errors=errors), found


def known_errors(
    soundings: Soundings, crossed: Crossed, settings: SoundingMapSettings
) -> SurveyErrors | None:
    """The errors that the crossings of a table's soundings show; None for other records, and where
    too few lines cross. Of calibrated soundings those that are left."""
    if soundings.errors is not None or not soundings.is_table:
        return soundings.errors
    kept = np.flatnonzero(~crossed.refused)
    divisions = Divisions.of(soundings, crossed.line).at(kept)
    found = calibrate(soundings[kept], divisions, settings.water_level, rounds=1)
    if found.spread == Spread():
        return None
    return SurveyErrors.of(found, soundings[kept], divisions, corrected=False)


def correct(
    soundings: Soundings, calibration: Calibration, divisions: Divisions, water_level: float
) -> Soundings:
    """The soundings without the known errors."""
    fit = _Fit(soundings, divisions, water_level)
    fit.depth, fit.speed = calibration.depth, 0.0
    values = np.array([calibration.value(*kind) for kind in fit.kinds])
    constants = np.array([calibration.value("line", name) for name in divisions.line.names])
    off = {(each.kind, each.name): (-each.x, -each.y) for each in calibration.positions}
    moves = fit.moved([
        np.array([off.get((kind, name), (0.0, 0.0)) for name in part.names])
        for kind, part in fit.parts.items()
    ])  # fmt: skip
    return fit.corrected(soundings, values, constants, moves)


class _Fit:
    """The effects of a survey, named by (kind, name) in ``kinds``. Levels of days are those at the
    depth ``depth`` (m), and distances along the direction of travel those at the ``speed`` (m/s):
    crossings know these well, also where scales and a latency can hardly be distinguished."""

    def __init__(self, soundings: Soundings, divisions: Divisions, water_level: float) -> None:
        line, day, recording = divisions
        self.line, self.day = line, day
        self.parts = {"line": line}
        if 1 < len(recording.names) <= len(line.names) / 2:
            self.parts["recording"] = recording
        depth = soundings.depth
        self.surface = soundings.z + depth if depth is not None else np.full(
            len(soundings), water_level
        )  # fmt: skip
        self.depth = float(np.median(self.surface - soundings.z))
        self.motion = Motion(soundings.xy, line.code, soundings.stamp_ns)
        known = np.isfinite(self.motion.speed)
        self.timed = bool(known.mean() > 0.5)
        self.speed = float(np.median(self.motion.speed[known])) if self.timed else 0.0
        self.kinds = [(kind, name) for kind in DAILY for name in day.names if len(day.names) > 1]
        self.kinds += [(kind, "") for kind in ("along", "latency")[: 1 + self.timed]]
        self.ratios: list[float] | None = None

    def corrected(
        self, soundings: Soundings, values: np.ndarray, constants: np.ndarray | None = None,
        moves: np.ndarray | None = None,
    ) -> Soundings:  # fmt: skip
        """The soundings corrected by effects of these values [P] and constants of lines [L], and
        moved [N, 2]."""
        level, scale = np.zeros((2, len(self.day.names)))
        ahead = np.zeros(len(soundings))
        for (kind, name), value in zip(self.kinds, values.tolist(), strict=True):
            if kind == "along":
                ahead += value
            elif kind == "latency":
                ahead -= value * self._faster
            else:
                (level if kind == "level" else scale)[self.day.names.index(name)] = value
        off = (level + scale * self.depth)[self.day.code]
        if constants is not None:
            off = off + constants[self.line.code]
        depth = (self.surface - soundings.z + off) / (1 + scale[self.day.code])
        z = np.where((off == 0) & (scale[self.day.code] == 0), soundings.z, self.surface - depth)
        xy = soundings.xy + ahead[:, None] * self.motion.heading
        if moves is not None:
            xy = xy + moves
        return replace(
            soundings, xy=xy, z=z, depth=None if soundings.depth is None else self.surface - z
        )

    @property
    def _faster(self) -> np.ndarray:
        """By how much faster than ``speed`` the vehicle was at each sounding [N], in m/s."""
        return np.nan_to_num(self.motion.speed - self.speed)

    def moved(self, moves: Sequence[np.ndarray]) -> np.ndarray:
        """By how much each sounding is moved [N, 2], if the parts of each division are."""
        parts = zip(moves, self.parts.values(), strict=True)
        return np.sum([move[part.code] for move, part in parts], axis=0)

    def estimate(
        self, soundings: Soundings, total: np.ndarray, moves: np.ndarray
    ) -> Estimates | None:
        """Estimates from the crossings of soundings that are corrected by ``total`` [P] and moved
        [N, 2] already; None if these are too few."""
        depth = self.surface - soundings.z
        met = find_crossings(soundings.xy, soundings.z, self.line.code, depth, screened=False)
        ends = np.column_stack((met.row, met.other))
        some = np.arange(len(ends))
        if len(some) > MAX_CROSSINGS:
            some = np.sort(np.random.default_rng(0).permutation(len(ends))[:MAX_CROSSINGS])
        ends, difference, where = ends[some], met.difference[some], met.xy[some]
        slope = np.column_stack([
            self.motion.slopes(soundings.xy, soundings.z, depth, rows, where) for rows in ends.T
        ])  # fmt: skip
        lines = self.line.code[ends]
        use = np.isfinite(slope).all(1) & (lines[:, 0] != lines[:, 1])
        if use.sum() < LEAST:
            return None
        ends, lines, difference, slope = ends[use], lines[use], difference[use], slope[use]
        columns = [self._column(kind, name, ends, depth, slope) for kind, name in self.kinds]
        design = np.array(columns).reshape(len(columns), len(ends)).T
        gradient = gradients(self.motion.heading[ends], slope)
        move = moves[ends]  # variances are of the whole errors, corrected or not
        difference = difference + (gradient * (move[:, 0] - move[:, 1])).sum(1) + design @ total
        weight = crossing_weights(where[use], lines, met.block)
        parts = [(part.code[ends], len(part.names)) for part in self.parts.values()]
        prior = np.array([PRIOR[kind] ** 2 for kind, _ in self.kinds])
        found, self.ratios = solve(
            difference, design, prior, lines, len(self.line.names), parts, gradient, weight,
            self.ratios,
        )  # fmt: skip
        return found

    def _column(
        self, kind: str, name: str, ends: np.ndarray, depth: np.ndarray, slope: np.ndarray
    ) -> np.ndarray:
        """The change of each difference by an effect of 1."""
        if kind in DAILY:
            own = (self.day.code[ends] == self.day.names.index(name)).astype(float)
            if kind == "scale":
                own = own * (self.depth - depth[ends])
        else:
            own = slope if kind == "along" else -self._faster[ends] * slope
        return own[:, 0] - own[:, 1]

    def described(self, found: Estimates) -> Calibration:
        """The estimates, those of days relative to the reference, and what cannot be known."""
        reference = self._reference(found)
        kinds, change = self._relative(reference)
        value, covariance = change @ found.value, change @ found.covariance @ change.T
        std = np.sqrt(np.diag(covariance))
        effects = [Effect.of(*of, *each) for of, *each in zip(kinds, value, std, strict=True)]
        size = np.bincount(self.line.code, minlength=len(self.line.names))
        known = found.counts > 0
        constants = np.zeros(len(size))
        if known.any():
            constants[known] = found.constants[known] - _common(found.constants[known], size[known])
        off = np.flatnonzero(known & (np.abs(constants) > LEAST_CONSTANT))
        lines = [Effect.of("line", self.line.names[i], constants[i], found.std[i]) for i in off]
        remarks = self._of_speed(found, effects)
        for side in (-1, 1):
            far = [
                i for i, each in zip(off, lines, strict=True) if each.sure and side * each.value > 0
            ]
            if len(far) > 1:
                middle, share = float(np.median(constants[far])), 100 * size[far].sum() / size.sum()
                remarks.append(
                    f"{len(far)} lines with {share:.0f} % of the soundings are "
                    f"{'lower' if side < 0 else 'higher'} than most, by {abs(middle):.2f} m "
                    "(median): corrected to the level of most. Crossings cannot tell which lines "
                    "are right"
                )
        levels: dict[str, tuple[float, float]] = {}
        if len(self.day.names) > 1:
            name = self.day.names[reference]
            remarks.append(
                f"levels and scales are relative to {name}; levels are those at a depth of "
                f"{self.depth:.1f} m"
            )
            levels = {name: (0.0, 0.0)} | {
                day: (float(v), float(s))
                for (kind, day), v, s in zip(kinds, value, std, strict=True) if kind == "level"
            }  # fmt: skip
        spread = Spread(
            sum(found.position_variances), found.line_variance,
            *(self._variance_of_days(found, kind) for kind in DAILY),
        )  # fmt: skip
        return Calibration(
            (*effects, *lines), tuple(remarks), tuple(self._positions(found)), levels, self.depth,
            spread, self._left(levels, spread, found),
        )  # fmt: skip

    def _of_speed(self, found: Estimates, effects: Sequence[Effect]) -> list[str]:
        """What crossings know of an antenna's offset and a latency together, if of neither."""
        if not self.timed:
            return ["without times, a latency cannot be told from an antenna's offset"]
        i = self.kinds.index(("along", ""))
        both = Effect.of("along", "", found.value[i], np.sqrt(found.covariance[i, i]))
        if not both.sure or any(e.sure for e in effects if e.kind in ("along", "latency")):
            return []
        return [
            f"at {self.speed:.1f} m/s depths belong ahead by {both.value:+.2f} m: an antenna's "
            f"offset, or a latency of {-both.value / self.speed:+.2f} s"
        ]

    def _variance_of_days(self, found: Estimates, kind: str) -> float:
        """The variance of the days' errors of this kind. Estimates are nearer to 0 than the errors
        by the factor prior / (prior + variance by which crossings know them), and vary by the
        latter: both are undone, the factor up to one half."""
        mine = [i for i, (each, _) in enumerate(self.kinds) if each == kind]
        if not mine:
            return 0.0
        known, prior = found.covariance[np.ix_(mine, mine)], PRIOR[kind] ** 2
        spread = (np.trace(known) - known.mean() * len(mine)) / (len(mine) - 1)
        factor = prior / (prior - min(spread, prior / 2))
        variance = found.value[mine].var(ddof=1) * factor**2 - (factor - 1) * prior
        return max(float(variance), 0.0)

    def _left(
        self, levels: Mapping[str, tuple[float, float]], spread: Spread, found: Estimates
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """See ``Calibration.left``. Corrected days are all off as the median day is, and corrected
        positions as the mean of them is, which crossings cannot show."""
        frame = np.pi / 2 * spread.level / max(len(levels), 1)
        left = {("day", name): (0.0, frame + std**2) for name, (_, std) in levels.items()}
        parts = zip(self.parts.items(), found.moves, found.position_variances, strict=True)
        for (kind, part), moves, most in parts:
            each = np.full(len(part.names), most)
            if found.positions_off:
                known = np.trace(moves.covariance, axis1=1, axis2=2) / 2
                each = np.minimum(each, known + most / len(each))
            left |= {
                (kind, name): (float(v), 0.0) for name, v in zip(part.names, each, strict=True)
            }
        return left

    def _reference(self, found: Estimates) -> int:
        """The day with the median error of all days, weighted by their soundings. It is sound if
        the days with half of the soundings are, or if errors go both ways."""
        count = len(self.day.names)
        if count == 1:
            return 0
        order = np.argsort(found.value[:count], kind="stable")
        total = np.cumsum(np.bincount(self.day.code, minlength=count)[order])
        return int(order[np.searchsorted(total, total[-1] / 2)])

    def _relative(self, reference: int) -> tuple[list[tuple[str, str]], np.ndarray]:
        """The effects without those of the reference day, and by which matrix [K, P] their values
        come from those of all: the days' relative to the reference, the distance along the
        direction of travel at rest, which is an antenna's offset."""
        base, change = self.day.names[reference], np.eye(len(self.kinds))
        for i, (kind, _) in enumerate(self.kinds):
            if kind in DAILY:
                change[i, self.kinds.index((kind, base))] -= 1
            elif kind == "along" and self.timed:
                change[i, self.kinds.index(("latency", ""))] += self.speed
        own = [i for i, (kind, name) in enumerate(self.kinds) if kind not in DAILY or name != base]
        return [self.kinds[i] for i in own], change[own]

    def _positions(self, found: Estimates) -> Iterator[PositionError]:
        """The errors of positions, where their variance is not 0."""
        for (kind, part), moves in zip(self.parts.items(), found.moves, strict=True):
            if found.positions_off and np.hypot(*moves.value.T).max() >= LEAST_MOVE:
                off = (-moves.value).tolist()
                for name, (x, y), covariance in zip(part.names, off, moves.covariance, strict=True):
                    if x or y:
                        yield PositionError(kind, name, x, y, covariance)


def _common(constants: np.ndarray, size: np.ndarray) -> float:
    """What lines with half of the soundings have in common: the mean of the constants [L] in the
    shortest interval with half of them, by the number of soundings [L] (Rousseeuw 1984)."""
    order = np.argsort(constants, kind="stable")
    constants, size = constants[order], size[order]
    total = np.cumsum(size)
    last = np.searchsorted(total, total - size + total[-1] / 2)
    first = np.flatnonzero(last < len(total))
    k = int(first[np.argmin(constants[last[first]] - constants[first])])
    part = slice(k, int(last[k]) + 1)
    return float(np.average(constants[part], weights=size[part]))
