"""Constant errors of a survey, estimated from the crossings of its lines.

At a crossing, two lines should have the same depth. Systematic differences come from the water
level or draught (a constant of a day, boat or line), from the sound speed of a day (in proportion
to the depth), or from where a depth was measured: a latency (in proportion to the speed), or a
distance between sounder and antenna along the direction of travel, or positions of a line or a
recording that are off. All are fitted together, by generalised least squares with robust weights
(Huber 1981, section 7.8). Constants of lines, and errors of positions, are random effects
(Henderson 1975); their variances maximise the restricted likelihood. Crossings cannot show an error
that all lines share: the reference is the day with the median error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..planning.tvu import CONFIDENCE_95
from ..screening.crossings import crossing_weights, find_crossings
from ..screening.lines import Motion, gradients
from ..screening.mixed_model import Estimates, solve
from .crossed import cross
from .divisions import Divisions
from .effects import Calibration, Effect, PositionError
from .soundings import SoundingMapSettings, Soundings

#: Key in ``Soundings.source`` and in a run's config.yaml, of the sentences.
KEY = "calibration"
#: The same of the errors of level that are known (``Calibration.levels``).
LEVELS = "calibrated_levels"
#: Rounds of fitting and correcting; minimum number of crossings for each effect.
ROUNDS, LEAST = 3, 6
#: Estimates whose errors are more correlated cannot be told apart.
ALIKE = 0.95
ALTERNATIVES = {"along": "latency", "scale": "level"}
WORDS = {"along": "an antenna's offset", "latency": "latency", "scale": "scale", "level": "level"}
#: A smaller constant of a line is not corrected, in m; nor are positions that are all off by less.
LEAST_CONSTANT, LEAST_MOVE = 0.02, 0.1
MAX_CROSSINGS = 4000


def calibrate(soundings: Soundings, divisions: Divisions, water_level: float) -> Calibration:
    """Estimate the constant errors of soundings from the crossings of their lines.

    Of two effects that cannot be told apart, one is left out. Then effects that may be 0 are left
    out one by one (a day's scale before its level), and the others are estimated without them.

    Args:
        soundings: of a survey, without multiples.
        divisions: of these.
        water_level: elevation of the water surface for soundings without a level of their own, in
            m.
    """
    fit = _Fit(soundings, divisions, water_level)
    fit = _Fit(soundings, divisions, water_level, fit.middle(soundings))
    left_out: list[Effect] = []
    moves = np.zeros_like(soundings.xy)
    while True:
        total = np.zeros(len(fit.kinds))
        corrected = fit.corrected(soundings, total, moves=moves)
        for step in range(ROUNDS if fit.ratios else 2 * ROUNDS):
            if step == ROUNDS:  # where positions are off, differences were large
                fit.ratios = None
            estimates = fit.estimate(corrected, moves)
            if estimates is None:
                return Calibration((), ("too few crossings of lines to calibrate",))
            found, moves = estimates, fit.moved([each.value for each in estimates.moves])
            total = total + found.value
            corrected = fit.corrected(soundings, total, moves=moves)
        if not (fit.drop_alike(found) or fit.drop_least(total, found, left_out)):
            return fit.described(total, found, left_out)


def calibrated(
    soundings: Soundings, settings: SoundingMapSettings
) -> tuple[Soundings, Calibration]:
    """The soundings without the errors that their crossings show, and these errors."""
    crossed = cross(soundings, settings)
    kept = np.flatnonzero(~crossed.refused)
    divisions, level = Divisions.of(soundings, crossed.line), settings.water_level
    found = calibrate(soundings[kept], divisions.at(kept), level)
    if not found.effects and len(divisions.day.names) > len(crossed.day.names):  # too many
        divisions = Divisions.of(soundings, crossed.line, crossed.day)
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
    return replace(corrected, source=source), found


def correct(
    soundings: Soundings, calibration: Calibration, divisions: Divisions, water_level: float
) -> Soundings:
    """The soundings without the known errors."""
    fit = _Fit(soundings, divisions, water_level)
    # With soundings that were left out of the estimate, another day may have the most.
    known = {(e.kind, e.name): e.value for e in calibration.effects if e.applied}
    fit.kinds = [(kind, name) for kind, name in known if kind != "line"]
    values = np.array([known[kind] for kind in fit.kinds])
    constants = np.array([calibration.value("line", name) for name in divisions.line.names])
    off = {(each.kind, each.name): (-each.x, -each.y) for each in calibration.positions}
    moves = fit.moved([
        np.array([off.get((kind, name), (0.0, 0.0)) for name in part.names])
        for kind, part in fit.parts.items()
    ])  # fmt: skip
    return fit.corrected(soundings, values, constants, moves)


class _Fit:
    """The effects of a survey, named by (kind, name) in ``kinds``. Those of days are relative to
    the day ``reference``; None: the day with the most soundings."""

    def __init__(
        self, soundings: Soundings, divisions: Divisions, water_level: float,
        reference: int | None = None,
    ) -> None:  # fmt: skip
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
        known = np.bincount(day.code, minlength=len(day.names))
        self.reference = int(known.argmax()) if reference is None else reference
        self.kinds = [
            (kind, name)
            for kind in ("level", "scale")
            for i, name in enumerate(day.names)
            if i != self.reference and known[i]
        ]
        self.timed = bool(np.isfinite(self.motion.speed).mean() > 0.5)
        self.kinds.append(("along", ""))
        if self.timed:
            self.kinds.append(("latency", ""))
        self.remarks: list[str] = []
        self.ratios: list[float] | None = None

    def middle(self, soundings: Soundings) -> int:
        """The day with the median error of all days, weighted by their soundings, at the median
        depth. It is sound if the days with half of the soundings are, or if errors go both ways."""
        if len(self.day.names) == 1:
            return self.reference
        found = self.estimate(soundings, np.zeros_like(soundings.xy))
        if found is None:
            return self.reference
        off = np.zeros(len(self.day.names))
        for (kind, name), value in zip(self.kinds, found.value.tolist(), strict=True):
            if kind in ("level", "scale"):
                off[self.day.names.index(name)] += value if kind == "level" else -value * self.depth
        order = np.argsort(off, kind="stable")
        total = np.cumsum(np.bincount(self.day.code, minlength=len(off))[order])
        return int(order[np.searchsorted(total, total[-1] / 2)])

    def corrected(
        self, soundings: Soundings, values: np.ndarray, constants: np.ndarray | None = None,
        moves: np.ndarray | None = None,
    ) -> Soundings:  # fmt: skip
        """The soundings corrected by effects of these values [P] and constants of lines [L], and
        moved [N, 2]."""
        level, scale = np.zeros(len(self.day.names)), np.zeros(len(self.day.names))
        ahead = np.zeros(len(soundings))
        for (kind, name), value in zip(self.kinds, values.tolist(), strict=True):
            if kind == "along":
                ahead += value
            elif kind == "latency":
                ahead -= value * np.nan_to_num(self.motion.speed)
            else:
                (level if kind == "level" else scale)[self.day.names.index(name)] = value
        off = level[self.day.code]
        if constants is not None:
            off = off + constants[self.line.code]
        depth = (self.surface - soundings.z + off) / (1 + scale[self.day.code])
        z = np.where(off + scale[self.day.code] == 0, soundings.z, self.surface - depth)
        xy = soundings.xy + ahead[:, None] * self.motion.heading
        if moves is not None:
            xy = xy + moves
        return replace(
            soundings, xy=xy, z=z, depth=None if soundings.depth is None else self.surface - z
        )

    def moved(self, moves: Sequence[np.ndarray]) -> np.ndarray:
        """By how much each sounding is moved [N, 2], if the parts of each division are."""
        parts = zip(moves, self.parts.values(), strict=True)
        return np.sum([move[part.code] for move, part in parts], axis=0)

    def estimate(self, soundings: Soundings, moves: np.ndarray) -> Estimates | None:
        """Estimates from the crossings of soundings as corrected so far, and moved [N, 2]; None if
        these are too few. Those of moves are of the whole, the others of what is left."""
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
        speed = np.nan_to_num(self.motion.speed[ends])
        use = np.isfinite(slope).all(1) & (self.line.code[ends[:, 0]] != self.line.code[ends[:, 1]])
        if use.sum() < LEAST * max(1, len(self.kinds)):
            return None
        ends, difference, slope, speed = ends[use], difference[use], slope[use], speed[use]
        columns = [
            self._column(kind, name, ends, depth[ends], slope, speed) for kind, name in self.kinds
        ]
        design = np.array(columns).reshape(len(columns), len(ends)).T
        gradient = gradients(self.motion.heading[ends], slope)
        lines = self.line.code[ends]
        move = moves[ends]  # its variance is of the whole
        difference = difference + (gradient * (move[:, 0] - move[:, 1])).sum(1)
        weight = crossing_weights(where[use], lines, met.block)
        parts = [(part.code[ends], len(part.names)) for part in self.parts.values()]
        found, self.ratios = solve(
            difference, design, lines, len(self.line.names), parts, gradient, weight, self.ratios
        )
        return found

    def _column(
        self, kind: str, name: str, ends: np.ndarray, depth: np.ndarray, slope: np.ndarray,
        speed: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """The change of each difference by an effect of 1."""
        if kind in ("along", "latency"):
            moved = slope if kind == "along" else -speed * slope
            return moved[:, 0] - moved[:, 1]
        own = (self.day.code[ends] == self.day.names.index(name)).astype(float)
        if kind == "scale":
            own = -own * depth
        return own[:, 0] - own[:, 1]

    def drop_alike(self, found: Estimates) -> bool:
        """Leave out one of two effects that cannot be told apart; whether there were two."""
        std = np.sqrt(np.diag(found.covariance))
        correlation = found.covariance / np.outer(std, std)
        for i, (kind, name) in enumerate(self.kinds):
            other = (ALTERNATIVES.get(kind, ""), name)
            if other in self.kinds and abs(correlation[i, self.kinds.index(other)]) > ALIKE:
                text = f"{WORDS[kind]} and {WORDS[other[0]]} cannot be told apart here"
                of = f" (of {name})" if name else ""
                self.remarks.append(f"{text}{of}: estimated as {WORDS[other[0]]}")
                del self.kinds[i]
                return True
        return False

    def drop_least(self, total: np.ndarray, found: Estimates, left_out: list[Effect]) -> bool:
        """Leave out the effect most likely to be 0, if its interval contains 0: scales first,
        levels last. A level stays as long as its day has a scale."""
        half = CONFIDENCE_95 * np.sqrt(np.diag(found.covariance))
        sure = np.abs(total) / half
        for kinds in (("scale",), ("along", "latency"), ("level",)):
            small = [
                i for i, (kind, name) in enumerate(self.kinds)
                if kind in kinds and sure[i] < 1
                and not (kind == "level" and ("scale", name) in self.kinds)
            ]  # fmt: skip
            if small:
                least = min(small, key=lambda i: sure[i])
                kind, name = self.kinds.pop(least)
                value, wide = float(total[least]), float(half[least])
                left_out.append(Effect(kind, name, value, value - wide, value + wide, False))
                return True
        return False

    def described(self, total: np.ndarray, found: Estimates, left_out: list[Effect]) -> Calibration:
        """The estimates, and what cannot be known."""
        half = CONFIDENCE_95 * np.sqrt(np.diag(found.covariance))
        effects = [
            Effect(kind, name, value, value - wide, value + wide, True)
            for (kind, name), value, wide in zip(
                self.kinds, total.tolist(), half.tolist(), strict=True
            )
        ] + left_out[::-1]
        size = np.bincount(self.line.code, minlength=len(self.line.names))
        known = found.counts > 0
        constants = np.where(known, found.constants, 0.0)
        if known.any():
            constants[known] -= _common(constants[known], size[known])
        wide = CONFIDENCE_95 * found.std
        off = np.flatnonzero(known & (np.abs(constants) > np.maximum(wide, LEAST_CONSTANT)))
        effects += [
            Effect("line", self.line.names[i], value, value - half, value + half, True)
            for i, value, half in zip(
                off.tolist(), constants[off].tolist(), wide[off].tolist(), strict=True
            )
        ]
        remarks = list(self.remarks)
        for each in left_out:
            if each.kind == "scale" and ("level", each.name) in self.kinds:
                remarks.append(
                    f"part of the level of {each.name} may be a scale within the interval above"
                )
        for side in (off[constants[off] < 0], off[constants[off] > 0]):
            if len(side) > 1:
                remarks.append(_group(constants[side], size[side], len(self.line.code)))
        if not self.timed:
            remarks.append("without times, a latency cannot be told from an antenna's offset")
        if len(self.day.names) > 1:
            remarks.append(f"levels and scales are relative to {self.day.names[self.reference]}")
        return Calibration(
            tuple(effects), tuple(remarks), tuple(self._positions(found)),
            self._levels(total, found, left_out),
        )  # fmt: skip

    def _levels(
        self, total: np.ndarray, found: Estimates, left_out: Sequence[Effect]
    ) -> dict[str, tuple[float, float]]:
        """The days' errors of level as of ``Calibration.levels``; at the median depth, if a day has
        a scale."""
        levels = {self.day.names[self.reference]: (0.0, 0.0)}
        for name in (name for kind, name in self.kinds if kind == "level"):
            levels[name] = self._day_error(name, self.depth, total, found)
        for each in left_out:
            if each.kind == "level":  # 0 was taken instead of the value
                std = (each.high - each.low) / (2 * CONFIDENCE_95)
                levels[each.name] = each.value, float(np.hypot(each.value, std))
        return levels

    def _day_error(
        self, name: str, depth: float, total: np.ndarray, found: Estimates
    ) -> tuple[float, float]:
        """A day's error by its level and scale together at a depth, and its standard deviation, in
        m."""
        change = np.array([
            {"level": 1.0, "scale": -depth}[kind] if of == name else 0.0 for kind, of in self.kinds
        ])  # fmt: skip
        return float(change @ total), float(np.sqrt(change @ found.covariance @ change))

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


def _group(constants: np.ndarray, size: np.ndarray, count: int) -> str:
    """A sentence on lines that are off to one side, by constants [L], each with ``size``
    soundings."""
    middle = float(np.median(constants))
    where = "lower" if middle < 0 else "higher"
    share = 100 * size.sum() / count
    return (
        f"{len(size)} lines with {share:.0f} % of the soundings are {where} than "
        f"most, by {abs(middle):.2f} m (median): corrected to the level of most. Crossings cannot "
        "tell which lines are right"
    )
