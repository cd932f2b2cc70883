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

from ..screening.crossings import Estimates, crossing_weights, find_crossings, solve
from ..screening.lines import Motion
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
        found = fit.estimate(fit.corrected(soundings, total, moves), total, moves)
        if found is None:
            return Calibration(remarks=("too few crossings of lines to calibrate",))
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
    source = {**soundings.source, KEY: found.sentences()}
    levels = found.levels(settings.level_error)
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
    effects, off = calibration.effects, calibration.positions
    values = np.array([effects.get(of, (0.0,))[0] for of in fit.kinds])
    lines = np.array([effects.get(("line", name), (0.0,))[0] for name in divisions.line.names])
    moves = fit.moved([
        -np.array([off.get((kind, name), (np.zeros(2),))[0] for name in part.names])
        for kind, part in fit.parts.items()
    ])  # fmt: skip
    return fit.corrected(soundings, values, moves, lines[divisions.line.code])


class _Fit:
    """The effects of a survey, named by (kind, name) in ``kinds``: with several ``days`` their
    levels, then their scales; the distance along the direction of travel; and with times the
    latency. Levels are those at the depth ``depth`` (m), and distances those at the ``speed``
    (m/s): crossings know these well, also where scales and a latency can hardly be
    distinguished."""

    def __init__(self, soundings: Soundings, divisions: Divisions, water_level: float) -> None:
        self.line, self.day, recording = divisions
        self.parts = {"line": self.line}
        if 1 < len(recording.names) <= len(self.line.names) / 2:
            self.parts["recording"] = recording
        depth = soundings.depth
        self.surface = soundings.z + depth if depth is not None else np.full(
            len(soundings), water_level
        )  # fmt: skip
        self.depth = float(np.median(self.surface - soundings.z))
        self.motion = Motion(soundings.xy, self.line.code, soundings.stamp_ns)
        known = np.isfinite(self.motion.speed)
        self.timed = bool(known.mean() > 0.5)
        self.speed = float(np.median(self.motion.speed[known])) if self.timed else 0.0
        self.days = len(self.day.names) if len(self.day.names) > 1 else 0
        self.kinds = [(kind, name) for kind in DAILY for name in self.day.names[: self.days]]
        self.kinds += [(kind, "") for kind in ("along", "latency")[: 1 + self.timed]]
        self.ratios: list[float] | None = None

    def corrected(
        self, soundings: Soundings, values: np.ndarray, moves: np.ndarray,
        up: np.ndarray | float = 0.0,
    ) -> Soundings:  # fmt: skip
        """The soundings corrected by effects of these values [P], moved [N, 2], and lowered by
        ``up`` [N]."""
        daily, (along, *latency) = values[: 2 * self.days], values[2 * self.days :]
        level, scale = daily.reshape(2, -1) if self.days else np.zeros((2, 1))
        off, scale = (level + scale * self.depth)[self.day.code] + up, scale[self.day.code]
        depth = (self.surface - soundings.z + off) / (1 + scale)
        z = np.where((off == 0) & (scale == 0), soundings.z, self.surface - depth)
        ahead = along - sum(latency) * self._faster
        xy = soundings.xy + ahead[:, None] * self.motion.heading + moves
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
        use = np.arange(len(met.row))
        if len(use) > MAX_CROSSINGS:
            use = np.sort(np.random.default_rng(0).permutation(use)[:MAX_CROSSINGS])
        slope = np.column_stack([
            self.motion.slopes(soundings.xy, soundings.z, depth, rows[use], met.xy[use])
            for rows in (met.row, met.other)
        ])  # fmt: skip
        lines = self.line.code[np.column_stack((met.row, met.other))]
        known = np.isfinite(slope).all(1) & (lines[use, 0] != lines[use, 1])
        if known.sum() < LEAST:
            return None
        use, slope = use[known], slope[known]
        ends, lines = np.column_stack((met.row, met.other))[use], lines[use]
        # By an effect of 1, soundings change by so much; a difference by that of its first end
        # less that of its other.
        on_day = (self.day.code[ends][..., None] == np.arange(self.days)).astype(float)
        own = [on_day, on_day * (self.depth - depth[ends])[..., None], slope[..., None]]
        if self.timed:
            own.append((-self._faster[ends] * slope)[..., None])
        design = np.subtract(*np.moveaxis(np.concatenate(own, axis=2), 1, 0))
        # The bottom's gradient, from its slopes along both lines.
        along = np.linalg.pinv(self.motion.heading[ends], rcond=0.3)
        gradient = (along @ slope[..., None])[..., 0]
        move = moves[ends]  # variances are of the whole errors, corrected or not
        difference = met.difference[use] + (gradient * (move[:, 0] - move[:, 1])).sum(1)
        weight = crossing_weights(met.xy[use], lines, met.block)
        parts = [(part.code[ends], len(part.names)) for part in self.parts.values()]
        prior = np.array([PRIOR[kind] ** 2 for kind, _ in self.kinds])
        found, self.ratios = solve(
            difference + design @ total, design, prior, lines, len(self.line.names), parts,
            gradient, weight, self.ratios,
        )  # fmt: skip
        return found

    def described(self, found: Estimates) -> Calibration:
        """The estimates, those of days relative to the reference, and what cannot be known."""
        days, reference, change = self.days, self._reference(found), np.eye(len(self.kinds))
        for first in (0, days) if days else ():
            change[first : first + days, first + reference] -= 1
        if self.timed:  # an antenna's offset is the distance at rest
            change[2 * days, 2 * days + 1] = self.speed
        std = np.sqrt(np.diag(change @ found.covariance @ change.T))
        base = self.day.names[reference] if days else ""
        value = (change @ found.value).tolist()
        effects = {
            (kind, name): Effect(v, s)
            for (kind, name), v, s in zip(self.kinds, value, std.tolist(), strict=True)
            if not (kind in DAILY and name == base)
        }
        known = np.flatnonzero(found.counts > 0)
        size = np.bincount(self.line.code, minlength=len(found.counts))
        constants = found.constants - _common(found.constants[known], size[known])
        effects |= {
            ("line", self.line.names[i]): Effect(float(constants[i]), float(found.std[i]))
            for i in known.tolist()
            if abs(constants[i]) > LEAST_CONSTANT
        }
        remarks = tuple(self._remarks(found, effects, base))
        spread = Spread(
            sum(found.position_variances), found.line_variance,
            *(self._variance_of_days(found, kind) for kind in DAILY),
        )  # fmt: skip
        # Corrected days are all off as the median day is, and corrected positions as the mean of
        # them is, which crossings cannot show.
        level = np.pi / 2 * spread.level / days + std[:days] ** 2 if days else np.zeros(1)
        left = {"day": np.column_stack((np.zeros_like(level), level))}
        for kind, moves, most in zip(
            self.parts, found.moves, found.position_variances, strict=True
        ):
            known = np.full(len(moves.value), most)
            if found.positions_off:
                known = np.trace(moves.covariance, axis1=1, axis2=2) / 2 + most / len(known)
            left[kind] = np.column_stack((np.minimum(most, known), np.zeros(len(known))))
        return Calibration(
            effects, dict(self._positions(found)), remarks, base, self.depth, spread, left
        )

    def _remarks(
        self, found: Estimates, effects: Mapping[tuple[str, str], Effect], base: str
    ) -> Iterator[str]:
        """What cannot be known: of an antenna's offset and a latency more than both together; of
        several lines that are off to one side; of days more than relative to one."""
        i = 2 * self.days
        both = Effect(found.value[i], found.covariance[i, i] ** 0.5)
        if not self.timed:
            yield "without times, a latency cannot be told from an antenna's offset"
        elif both.sure and not any(effects[kind, ""].sure for kind in ("along", "latency")):
            yield (
                f"at {self.speed:.1f} m/s depths belong ahead by {both.value:+.2f} m: an antenna's "
                f"offset, or a latency of {-both.value / self.speed:+.2f} s"
            )
        size = dict(zip(self.line.names, np.bincount(self.line.code), strict=False))
        off = [(of[1], each.value) for of, each in effects.items() if of[0] == "line" and each.sure]
        for side, word in ((-1, "lower"), (1, "higher")):
            far = {name: value for name, value in off if side * value > 0}
            if len(far) > 1:
                share = 100 * sum(size[name] for name in far) / len(self.line.code)
                yield (
                    f"{len(far)} lines with {share:.0f} % of the soundings are {word} than most, "
                    f"by {abs(float(np.median([*far.values()]))):.2f} m (median): corrected to the "
                    "level of most. Crossings cannot tell which lines are right"
                )
        if base:
            yield (
                f"levels and scales are relative to {base}; levels are those at a depth of "
                f"{self.depth:.1f} m"
            )

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

    def _reference(self, found: Estimates) -> int:
        """The day with the median error of all days, weighted by their soundings. It is sound if
        the days with half of the soundings are, or if errors go both ways."""
        order = np.argsort(found.value[: max(self.days, 1)], kind="stable")
        total = np.cumsum(np.bincount(self.day.code, minlength=len(order))[order])
        return int(order[np.searchsorted(total, total[-1] / 2)])

    def _positions(self, found: Estimates) -> Iterator[tuple[tuple[str, str], PositionError]]:
        """The errors of positions, where their variance is not 0."""
        for (kind, part), moves in zip(self.parts.items(), found.moves, strict=True):
            if found.positions_off and np.hypot(*moves.value.T).max() >= LEAST_MOVE:
                for name, value, covariance in zip(part.names, *moves, strict=True):
                    if value.any():
                        yield (kind, name), PositionError(-value, covariance)


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
