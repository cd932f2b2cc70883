"""Faults planted in records, and what screening makes of them: errors of held-out sound soundings.

``python test/planted.py RECORD [CASE ...]``, with a CSV file of soundings or a lake of ``LAKES``
(``rough:2``: of another seed).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.soundings import SoundingMapSettings, Soundings, find_lines
from poam_ros.outputs.held_out import split_off

#: Kinds of simulated lakes.
LAKES = ("smooth", "rough", "terraces", "shoals", "river")
FAULTS = (
    "none", "line2", "line3", "lines2", "half2", "parts2", "parts3", "mixed", "shallow", "noise",
    "zeros", "offset", "metre", "wander", "level", "isolated5", "isolated20", "isolated40", "fish",
    "weed", "cliff", "wall", "wreck", "pit",
    "crossed2", "zeroruns", "stuck", "swapped", "gaps", "alternate", "feet", "ringing", "bursts",
    "deep",
)  # fmt: skip
#: Length in m, and height relative to the depth, of bottom that only one line crosses.
FEATURES = {
    "cliff": (40, 80, -0.65), "wall": (8, 12, 0.5), "wreck": (20, 40, 0.4), "pit": (20, 40, -0.6),
    "deep": (60, 120, -2.0),
}  # fmt: skip


@dataclass(frozen=True)
class Record:
    """Places [N, 2] and elevations [N] in m; line and day of each [N]."""

    xy: np.ndarray
    z: np.ndarray
    line: np.ndarray
    day: np.ndarray


@dataclass(frozen=True)
class Case:
    """Elevations with a fault [N], in m; which soundings are sound [N]; what they would be without
    the fault [N]; and which are of a planted feature of the bottom [N]."""

    z: np.ndarray
    sound: np.ndarray
    truth: np.ndarray
    feature: np.ndarray


def recorded(path: Path, step: int) -> Record:
    """Every ``step``-th sounding of a file."""
    found = read_soundings(path, ReadOptions(times=True))
    found = found[np.arange(0, len(found), step)]
    assert found.stamp_ns is not None
    days = found.stamp_ns // 86_400_000_000_000
    return Record(found.xy, found.z, find_lines(found.xy), days)


def lake(kind: str, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """The bottom of a lake of 600 m x 500 m: elevations [N] at places [N, 2], in m."""
    size = np.exp(rng.uniform(np.log(12), np.log(250), 220))
    k = rng.normal(size=(220, 2))
    k /= np.hypot(*k.T)[:, None] * size[:, None]
    amplitude = size ** (0.75 if kind == "rough" else 1.5 if kind == "smooth" else 1.0)
    phase = rng.uniform(0, 2 * np.pi, 220)

    def bottom(p: np.ndarray) -> np.ndarray:
        f = (amplitude * np.cos(p @ k.T * np.pi + phase)).sum(1) / np.sqrt((amplitude**2).sum() / 2)
        x, y = p.T
        if kind == "river":  # its banks fall by 1 m per metre
            away = np.abs(y - 250 - 60 * np.sin(x / 95))
            return -np.clip(np.minimum(46 - away, 6 + 1.5 * f + 2 * np.cos(x / 60)), 0.4, None)
        shore = np.clip(np.minimum.reduce([x, 600 - x, y, 500 - y]) / 60, 0.08, 1)
        d = 13 + 4 * f
        if kind == "terraces":
            d = 4.5 * np.round(d / 4.5 + 0.1) + 0.1 * (d - 13)
        return -np.maximum(d * shore * (0.35 if kind == "shoals" else 1.0), 0.6)

    return bottom


def simulated(kind: str, seed: int = 1, off: float = 1.0) -> Record:
    """A lake of 600 m x 500 m with 16 lines north and 5 east; positions off by
    ``off`` m for each line, noise of 0.05 m and 0.5 %."""
    rng = np.random.default_rng(seed)
    bottom = lake(kind, rng)
    parts = []
    for i, x in enumerate(np.linspace(15, 585, 16)):
        y = np.arange(8, 492, 1.4)
        parts.append(np.column_stack((x + 4 * np.sin(y / 60 + i), y[:: 1 - 2 * (i % 2)])))
    for i, y in enumerate(np.linspace(30, 470, 5)):
        x = np.arange(8, 592, 1.4)
        parts.append(np.column_stack((x[:: 1 - 2 * (i % 2)], y + 4 * np.sin(x / 60 + i))))
    if kind == "river":
        parts = []
        for i, x in enumerate(np.linspace(15, 585, 30)):
            y = np.linspace(-45, 45, 65)[:: 1 - 2 * (i % 2)] + 60 * np.sin(x / 95) + 250
            parts.append(np.column_stack((x + 2 * np.sin(y / 9), y)))
        for i, away in enumerate((-38, -20, 0, 20, 38)):
            x = np.arange(8, 592, 1.4)[:: 1 - 2 * (i % 2)]
            parts.append(np.column_stack((x, 250 + away + 60 * np.sin(x / 95))))
    line = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    z = np.concatenate([bottom(p + rng.normal(0, off, 2)) for p in parts])
    z += rng.normal(size=len(z)) * (0.05 - 0.005 * z)
    return Record(np.concatenate(parts), np.minimum(z, -0.2), line, line // 6)


def plant(r: Record, name: str, among: np.ndarray, seed: int = 5) -> Case:
    """A record with a fault or a feature: one of ``FAULTS``; single lines and parts of them are
    chosen from those of the soundings ``among`` [N], boolean."""
    rng = np.random.default_rng(seed)
    z, truth = r.z.copy(), r.z.copy()
    sound, feature = np.ones(len(z), dtype=bool), np.zeros(len(z), dtype=bool)

    def rows(line: int) -> np.ndarray:
        return np.flatnonzero(r.line == line)

    def lines(count: int) -> list[np.ndarray]:
        """Rows of lines of the longer ones."""
        names, counts = np.unique(r.line[among], return_counts=True)
        names = names[counts >= np.quantile(np.repeat(counts, counts), 0.4)]
        return [rows(line) for line in rng.permutation(names)[:count]]

    def parts(count: int, low: float, high: float) -> list[np.ndarray]:
        """Parts of so many m, each of one line."""
        found: list[np.ndarray] = []
        while len(found) < count:
            own = lines(1)[0]
            along = np.r_[0, np.cumsum(np.hypot(*np.diff(r.xy[own], axis=0).T))]
            length = rng.uniform(low, high)
            begin = rng.uniform(0.1, 0.9) * max(along[-1] - length, 0)
            part = own[(along >= begin) & (along <= begin + length)]
            if len(part) > 3:
                found.append(part)
        return found

    def alone(count: int, low: float, high: float) -> list[np.ndarray]:
        """Parts that no other line comes near."""
        found: list[np.ndarray] = []
        for _ in range(2000):
            part = parts(1, low, high)[0]
            other = r.line != r.line[part[0]]
            if cKDTree(r.xy[other]).query(r.xy[part])[0].min() > 6.0:
                found.append(part)
            if len(found) == count:
                break
        return found

    def false(these: np.ndarray, elevation: np.ndarray) -> None:
        z[these], sound[these] = elevation, False

    def multiply(these: np.ndarray, factor: int) -> None:
        false(these, factor * r.z[these] * (1 + 0.01 * rng.normal(size=len(these))))

    def isolated(share: float) -> None:
        these = np.flatnonzero(rng.uniform(size=len(z)) < share)
        false(these, r.z[these] * rng.uniform(1.5, 3, len(these)))

    if name in ("line2", "line3", "lines2"):
        for these in lines(4 if name == "lines2" else 1):
            multiply(these, 3 if name == "line3" else 2)
    elif name == "half2":
        for these in lines(3):
            multiply(these[len(these) // 2 :], 2)
    elif name in ("parts2", "parts3", "mixed"):
        for part in parts(12, 30, 150):
            multiply(part, 3 if name == "parts3" else 2)
        if name == "mixed":
            multiply(lines(1)[0], 2)
            isolated(0.1)
    elif name == "shallow":
        for part in parts(8, 30, 100):
            false(part, -1.2 + 0.05 * rng.normal(size=len(part)))
    elif name == "noise":
        for these in lines(2):
            false(these, r.z[these] * rng.uniform(1, 3.5, len(these)))
    elif name == "zeros":
        false(these := np.flatnonzero(rng.uniform(size=len(z)) < 0.03), np.zeros(len(these)))
        for part in parts(6, 10, 60):
            false(part, np.zeros(len(part)))
    elif name == "offset":
        for these in lines(6):
            false(these, r.z[these] + rng.choice([-0.3, 0.3]))
    elif name == "metre":
        for line in rng.permutation(np.unique(r.line[among]))[::2]:
            false(rows(line), r.z[rows(line)] - 1.0)
    elif name == "wander":
        for these in lines(5):
            walk = np.cumsum(rng.normal(size=len(these)))
            false(these, r.z[these] + 0.7 * walk / np.abs(walk).max())
    elif name == "level":
        days, counts = np.unique(r.day, return_counts=True)
        these = np.flatnonzero(r.day == days[np.argsort(counts)[len(days) // 2 - 1]])
        false(these, r.z[these] - 0.5)
    elif name.startswith("isolated"):
        isolated(int(name[8:]) / 100)
    elif name == "fish":
        for part in parts(8, 15, 50):
            hit = part[rng.uniform(size=len(part)) < 0.8]
            false(hit, r.z[hit] * rng.uniform(0.25, 0.75, len(hit)))
    elif name == "weed":
        for centre in r.xy[rng.integers(len(z), size=4)]:
            near = (np.hypot(*(r.xy - centre).T) < 30) & (rng.uniform(size=len(z)) < 0.7)
            these = np.flatnonzero(near)
            false(these, r.z[these] * (1 - rng.uniform(0, 0.5, len(these))))
    elif name == "crossed2":  # the line that the most others come near

        def met(line: int) -> int:
            return len(np.unique(r.line[cKDTree(r.xy[rows(line)]).query(r.xy)[0] < 3.0]))

        multiply(rows(max(np.unique(r.line[among]), key=met)), 2)
    elif name == "zeroruns":
        for part in [*parts(10, 50, 200), *lines(1)]:
            false(part, np.zeros(len(part)))
    elif name == "stuck":
        for part in parts(10, 20, 150):
            false(part, np.full(len(part), r.z[part[0]]))
    elif name == "swapped":  # another channel, such as a temperature
        days, counts = np.unique(r.day, return_counts=True)
        these = np.flatnonzero(r.day == days[np.argsort(counts)[len(days) // 2 - 1]])
        false(these, -11 + 0.5 * np.sin(np.arange(len(these)) / 300))
    elif name == "gaps":
        for part in parts(8, 20, 100):
            multiply(part, 2)
        for part in parts(40, 10, 60):
            false(part, np.full(len(part), np.nan))
    elif name == "alternate":
        for part in parts(8, 50, 150):
            multiply(part[::2], 2)
    elif name == "feet":
        these = lines(1)[0]
        false(these, r.z[these] / 0.3048)
    elif name == "ringing":
        these = np.flatnonzero(rng.uniform(size=len(z)) < 0.3)
        false(these, -0.6 + 0.03 * rng.normal(size=len(these)))
    elif name == "bursts":
        for begin in rng.integers(len(z) - 8, size=len(z) // 40):
            multiply(np.arange(begin, begin + rng.integers(3, 9)), int(rng.integers(2, 4)))
    elif name in FEATURES:
        low, high, height = FEATURES[name]
        for part in alone(5, low, high):
            shape = height * rng.uniform(0.85, 1.15) * np.ones(len(part))
            if name == "wreck":
                shape *= 1 + 0.25 * np.sin(np.linspace(0, 9, len(part)))
            if name == "deep":  # by steep slopes
                shape *= np.clip(3 * (1 - np.abs(np.linspace(-1, 1, len(part)))), 0, 1)
            z[part] = truth[part] = np.minimum(r.z[part] * (1 - shape), -0.3)
            feature[part] = True
    elif name != "none":
        raise SystemExit(f"{name}: expected one of {', '.join(FAULTS)}")
    return Case(np.minimum(z, 0.0), sound, truth, feature)


class BlockMap:
    """Kriging of block medians of each line, with an exponential covariance whose scales are fitted
    to a record without faults: the same map for all cases of a record."""

    def __init__(self, r: Record) -> None:
        self.block = float(np.sqrt(np.prod(np.ptp(r.xy, axis=0))) / 80)
        xy, z = self._medians(r.xy, r.z, r.line)
        some = np.random.default_rng(0).permutation(len(z))[:600]
        away, y = cdist(xy[some], xy[some]), z[some] - z.mean()
        least = np.inf
        for length in np.geomspace(2 * self.block, 60 * self.block, 8).tolist():
            for noise in (0.001, 0.003, 0.01, 0.03, 0.1):
                factor = np.linalg.cholesky(np.exp(-away / length) + noise * np.eye(len(y)))
                u = np.linalg.solve(factor, y)
                loss = 0.5 * len(y) * np.log(u @ u / len(y)) + np.log(np.diag(factor)).sum()
                if loss < least:
                    least, self.length, self.noise = loss, length, noise

    def _medians(
        self, xy: np.ndarray, z: np.ndarray, line: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        cells = np.column_stack((np.floor(xy / self.block).astype(int), line))
        _, index = np.unique(cells, axis=0, return_inverse=True)
        count = np.bincount(index)
        begin = np.r_[0, np.cumsum(count)[:-1]]
        ordered = z[np.lexsort((z, index))]
        middle = (ordered[begin + (count - 1) // 2] + ordered[begin + count // 2]) / 2
        return np.column_stack([np.bincount(index, c) / count for c in xy.T]), middle

    def errors(self, r: Record, z: np.ndarray, use: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Absolute errors, in m, of soundings ``at`` predicted from those to ``use`` of elevations
        z [N]."""
        xy, z = self._medians(r.xy[use], z[use], r.line[use])
        middle = np.median(z)
        k = np.exp(-cdist(xy, xy) / self.length) + self.noise * np.eye(len(z))
        found = np.exp(-cdist(r.xy[at], xy) / self.length) @ np.linalg.solve(k, z - middle)
        return np.abs(found + middle - r.z[at])


def refused(r: Record, z: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Which of the soundings ``kept`` are refused [N], boolean."""
    whole = Soundings(np.arange(len(z)), r.xy, z, r.line, tuple(map(str, np.unique(r.line))))
    found = np.zeros(len(z), dtype=bool)
    found[kept] = cross(whole[kept], SoundingMapSettings()).refused
    return found


def measure(r: Record, cases: list[str]) -> None:
    """Print mean absolute errors, in m, of held-out sound soundings: without the fault; with it;
    with it and screened. Of the screening: cost, and the least, without the fault's soundings;
    change; soundings of the fault accepted; and of sound soundings and of the feature, refused."""
    line = np.unique(r.line, return_inverse=True)[1]
    r = replace(r, line=line)
    block_map = BlockMap(r)
    held = split_off(line, 0.25, 0)
    kept = np.flatnonzero(~held)
    print(f"{len(r.z)} soundings, {line.max() + 1} lines", flush=True)
    print(f"{'case':<11}{'sound':>8}{'fault':>8}{'screen':>8}{'cost %':>8}"
        f"{'least %':>8}{'change %':>9}{'accepted':>12}{'lost %':>8}{'feature %':>10}",
        flush=True)  # fmt: skip
    costs = []
    for name in cases:
        case = plant(r, name, ~held)
        test = np.flatnonzero(held & case.sound & ~case.feature)
        there = kept[np.isfinite(case.z[kept])]
        out = refused(r, case.z, there)
        runs = (case.truth, kept), (case.z, there), (case.z, there[~out[there]])
        runs += ((case.z, there[case.sound[there]]),)  # without the fault's soundings
        sound, fault, screen, without = (
            float(block_map.errors(r, z, use, test).mean()) for z, use in runs
        )
        bad, good = ~case.sound[there], case.sound[there]
        accepted, lost = (bad & ~out[there]).sum(), (good & out[there]).sum() / good.sum()
        share = (case.feature & out)[kept].sum() / max(1, case.feature[kept].sum())
        cost, change = 100 * (screen / sound - 1), 100 * (screen / fault - 1)
        costs.append(cost)
        print(f"{name:<11}{sound:8.3f}{fault:8.3f}{screen:8.3f}{cost:8.1f}"
            f"{100 * (without / sound - 1):8.1f}{change:9.1f}{accepted:6d}/{bad.sum():<5d}"
            f"{100 * lost:8.2f}{100 * share:10.1f}",
            flush=True)  # fmt: skip
    print(f"median cost {np.median(costs):.1f} %")


if __name__ == "__main__":
    log, *names = sys.argv[1:]
    kind, _, number = log.partition(":")
    found = simulated(kind, int(number or 1)) if kind in LAKES else recorded(Path(log), 2)
    measure(found, names or list(FAULTS))
