"""Faults planted in records, and what screening makes of them: errors of held-out sound soundings.

``python test/planted.py RECORD [CASE ...]``, with a CSV file of soundings or a lake of ``LAKES``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from poam_ros.importers.mapping import learn, validate
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.importers.soundings import MAP_DEFAULTS, SoundingMapSettings, Soundings, find_lines
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.held_out import split_off
from poam_ros.screening.screen import ScreeningSettings

#: Kinds of simulated lakes.
LAKES = ("smooth", "rough", "terraces", "shoals")
FAULTS = (
    "none", "line2", "line3", "lines2", "half2", "parts2", "parts3", "mixed", "shallow", "noise",
    "zeros", "offset", "metre", "wander", "level", "isolated5", "isolated20", "isolated40", "fish",
    "weed", "cliff", "wall", "wreck", "pit",
)  # fmt: skip
#: Length in m, and height relative to the depth, of bottom that only one line crosses.
FEATURES = {
    "cliff": (40, 80, -0.65), "wall": (8, 12, 0.5), "wreck": (20, 40, 0.4), "pit": (20, 40, -0.6),
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
    days = np.zeros(0)
    options = ReadOptions(by="line", start=1e-9, columns={})
    found = read_soundings(path, options)
    found = found[np.arange(0, len(found), step)]
    assert found.stamp_ns is not None
    days = found.stamp_ns // 86_400_000_000_000
    return Record(found.xy, found.z, find_lines(found.xy), days)


def simulated(kind: str, seed: int = 1) -> Record:
    """A lake of 600 m x 500 m with 16 lines north and 5 east; positions off by 1 m for each line,
    noise of 0.05 m and 0.5 %."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(np.log(12), np.log(250), 220))
    k = rng.normal(size=(220, 2))
    k /= np.hypot(*k.T)[:, None] * size[:, None]
    amplitude = size ** (0.75 if kind == "rough" else 1.5 if kind == "smooth" else 1.0)
    phase = rng.uniform(0, 2 * np.pi, 220)

    def bottom(p: np.ndarray) -> np.ndarray:
        f = (amplitude * np.cos(p @ k.T * np.pi + phase)).sum(1) / np.sqrt((amplitude**2).sum() / 2)
        x, y = p.T
        shore = np.clip(np.minimum.reduce([x, 600 - x, y, 500 - y]) / 60, 0.08, 1)
        d = 13 + 4 * f
        if kind == "terraces":
            d = 4.5 * np.round(d / 4.5 + 0.1) + 0.1 * (d - 13)
        return -np.maximum(d * shore * (0.35 if kind == "shoals" else 1.0), 0.6)

    parts = []
    for i, x in enumerate(np.linspace(15, 585, 16)):
        y = np.arange(8, 492, 1.4)
        parts.append(np.column_stack((x + 4 * np.sin(y / 60 + i), y[:: 1 - 2 * (i % 2)])))
    for i, y in enumerate(np.linspace(30, 470, 5)):
        x = np.arange(8, 592, 1.4)
        parts.append(np.column_stack((x[:: 1 - 2 * (i % 2)], y + 4 * np.sin(x / 60 + i))))
    line = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    z = np.concatenate([bottom(p + rng.normal(0, 1.0, 2)) for p in parts])
    z += rng.normal(size=len(z)) * (0.05 - 0.005 * z)
    return Record(np.concatenate(parts), np.minimum(z, -0.2), line, line // 6)


def plant(r: Record, name: str, seed: int = 5) -> Case:
    """A record with a fault or a feature: one of ``FAULTS``."""
    rng = np.random.default_rng(seed)
    z, truth = r.z.copy(), r.z.copy()
    sound, feature = np.ones(len(z), dtype=bool), np.zeros(len(z), dtype=bool)

    def rows(line: int) -> np.ndarray:
        return np.flatnonzero(r.line == line)

    def lines(count: int) -> list[np.ndarray]:
        """Rows of lines of the longer ones."""
        names, counts = np.unique(r.line, return_counts=True)
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
        for line in np.unique(r.line)[::2]:
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
    elif name in FEATURES:
        low, high, height = FEATURES[name]
        for part in alone(5, low, high):
            shape = height * rng.uniform(0.85, 1.15) * np.ones(len(part))
            if name == "wreck":
                shape *= 1 + 0.25 * np.sin(np.linspace(0, 9, len(part)))
            z[part] = truth[part] = np.minimum(r.z[part] * (1 - shape), -0.3)
            feature[part] = True
    elif name != "none":
        raise SystemExit(f"{name}: expected one of {', '.join(FAULTS)}")
    return Case(np.minimum(z, 0.0), sound, truth, feature)


def measure(r: Record, cases: list[str], held_seeds: list[int]) -> None:
    """Print errors (MAE in m) of held-out sound soundings: without the fault, with it, with it and
    screening; and how many soundings were accepted or lost."""
    model = ModelSettings.of({**MAP_DEFAULTS, "nngp.first_steps": 150, "nngp.hidden": 8})
    screened = SoundingMapSettings(model=model, stretches=0, batch_size=300)
    plain = replace(screened, screening=ScreeningSettings(enabled=False))
    print(f"{len(r.z)} soundings, {len(np.unique(r.line))} lines")
    print(f"{'case':<11}{'sound':>8}{'fault':>8}{'screen':>8}{'cost %':>8}{'change %':>9}"
        f"{'false in':>12}{'lost %':>8}{'feature %':>10}")  # fmt: skip
    group = np.unique(r.line, return_inverse=True)[1]
    clean: dict[int, np.ndarray] = {}
    costs = []
    for name in cases:
        case, sums, counts = plant(r, name), np.zeros((0, 3)), np.zeros(5)
        for seed in held_seeds:
            held = split_off(group, 0.2, seed)
            kept = np.flatnonzero(~held)
            test = np.flatnonzero(held & case.sound & ~case.feature)

            def errors(
                z: np.ndarray, settings: SoundingMapSettings
            ) -> tuple[np.ndarray, np.ndarray]:
                soundings = Soundings(np.arange(len(z)), r.xy, z, np.arange(len(z)))
                mapper, refused = learn(soundings[kept], soundings.workspace(), settings)  # noqa: B023
                found = validate(mapper, replace(soundings, z=r.z)[np.flatnonzero(held)])  # noqa: B023
                return np.abs(found.mean - found.z), refused.number

            if case.feature.any() or seed not in clean:
                whole = errors(case.truth, plain)[0]
                if not case.feature.any():
                    clean[seed] = whole
            else:
                whole = clean[seed]
            faulty = whole if case.sound.all() else errors(case.z, plain)[0]
            judged, refused = errors(case.z, screened)
            use = np.isin(np.flatnonzero(held), test)
            sums = np.vstack((sums, np.column_stack((whole, faulty, judged))[use]))
            out = np.zeros(len(r.z), dtype=bool)
            out[refused] = True
            bad, good = ~case.sound[kept], case.sound[kept]
            counts += (
                (bad & ~out[kept]).sum(), bad.sum(), (good & out[kept]).sum(), good.sum(),
                (case.feature & out)[kept].sum(),
            )  # fmt: skip
        sound, fault, screen = sums.mean(0)
        costs.append(screen / sound - 1)
        share = 100 * counts[4] / max(1, case.feature.sum())
        print(f"{name:<11}{sound:8.3f}{fault:8.3f}{screen:8.3f}{100 * costs[-1]:8.1f}"
            f"{100 * (screen / fault - 1):9.1f}{counts[0]:6.0f}/{counts[1]:<5.0f}"
            f"{100 * counts[2] / counts[3]:8.2f}{share:10.1f}", flush=True)  # fmt: skip
    print(f"median cost {100 * np.median(costs):.1f} %")


if __name__ == "__main__":
    log, *names = sys.argv[1:]
    found = simulated(log) if log in LAKES else recorded(Path(log), 4)
    measure(found, names or list(FAULTS), [0])
