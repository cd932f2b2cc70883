"""Faults planted in missions, and what screening makes of them: SMSE of the map at the end.

``python test/planted_missions.py FIRST LAST [FAULT ...]`` prints a line for each seed and fault.
Each screened mission is also continued from its files at three quarters, and replayed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from kept import SMALL, Kept

from poam_ros.core.clock import SECOND
from poam_ros.importers.journals import read_journal
from poam_ros.importers.raw import ReadOptions
from poam_ros.journal.folder import read_mission
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.models.mapper import BathymetricMapper

FAULTS = ("none", "leg2", "isolated5", "isolated20", "fish", "shallow", "stuck", "offset")
NORTH = 6  # legs north and south; then four across
TILE, COLUMNS = 56.0, 4  # m: side of a lake of such legs; that many lakes are side by side


def track(rng: np.random.Generator, tiles: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places 0.6 m apart [N, 2], in m, the leg of each [N]; -1: a turn; and its tile [N]."""
    ends: list[np.ndarray] = []
    for tile in range(tiles):
        at = TILE * np.array(divmod(tile, COLUMNS)[::-1])
        for i, x in enumerate(np.linspace(-24, 24, NORTH) + rng.uniform(-1.5, 1.5, NORTH)):
            ends += [at + end for end in [(x, -25), (x, 25)][:: 1 - 2 * (i % 2)]]
        for i, y in enumerate((-16, -4, 7, 18)):
            ends += [at + end for end in [(26, y), (-26, y)][:: 1 - 2 * (i % 2)]]
    places, legs, of = [], [], []
    for number, (a, b) in enumerate(pairwise(ends)):
        count = max(1, round(np.hypot(*(b - a)) / 0.6))
        places.append(a + (b - a) * np.arange(count)[:, None] / count)
        tile, end = divmod(number, len(ends) // tiles)
        legs += [-1 if end % 2 else end // 2] * count
        of += [tile] * count
    return np.concatenate(places), np.array(legs), np.array(of)


def depth(xy: np.ndarray, phase: np.ndarray) -> np.ndarray:
    x, y = xy.T
    waves = 1.6 * np.cos(y / 7 + phase[1]) + 0.6 * np.sin((x + 2 * y) / 4 + phase[2])
    return 8 + 2 * np.sin(x / 9 + phase[0]) + waves


def plant(
    true: np.ndarray, leg: np.ndarray, fault: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ranges with a fault [N], in m, and which are sound [N]."""
    ranges, sound = true.copy(), np.ones(len(true), dtype=bool)

    def false(rows: np.ndarray, values: np.ndarray) -> None:
        ranges[rows], sound[rows] = values, False

    def part(number: int, length: int) -> np.ndarray:
        rows = np.flatnonzero(leg == number)
        begin = rng.integers(len(rows) - length - 5)
        return rows[begin : begin + length]

    order = rng.permutation(NORTH)
    rows = np.flatnonzero(leg == order[0])
    if fault == "leg2":
        false(rows, 2 * true[rows] * (1 + 0.01 * rng.normal(size=len(rows))))
    elif fault.startswith("isolated"):
        rows = np.flatnonzero(rng.uniform(size=len(true)) < int(fault[8:]) / 100)
        false(rows, true[rows] * rng.uniform(1.5, 3, len(rows)))
    elif fault == "fish":
        for number in order[:4]:
            hit = part(number, 20)
            hit = hit[rng.uniform(size=20) < 0.8]
            false(hit, true[hit] * rng.uniform(0.25, 0.75, len(hit)))
    elif fault == "shallow":
        for number in order[:2]:
            false(part(number, 30), 1.2 + 0.03 * rng.normal(size=30))
    elif fault == "stuck":
        for number in order[:4]:
            hit = part(number, 20)
            false(hit, np.full(20, ranges[hit[0] - 1]))
    elif fault == "offset":
        false(rows, true[rows] + 0.5)
    elif fault != "none":
        raise SystemExit(f"{fault}: expected one of {', '.join(FAULTS)}")
    return ranges, sound


class Planted(Kept):
    """A mission over lakes with a fault each; legs across begin after the pilot survey.

    ``pings``: after which it is done; None: all.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        fault: str,
        screened: bool,
        pings: int | None = None,
        tiles: int = 1,
        **changed: float,
    ) -> None:
        rng = np.random.default_rng([seed, 3])
        self.xy, leg, of = track(rng, tiles)
        self.pings, self.folder = pings or len(self.xy), folder
        self.phase = rng.uniform(0, 6, 3)
        true = depth(self.xy, self.phase) + 0.05 * rng.normal(size=len(self.xy))
        parts = [plant(true[of == tile], leg[of == tile], fault, rng) for tile in range(tiles)]
        ranges, self.sound = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.ranges = ranges.astype(np.float32)  # as messages have them
        side = TILE * (min(tiles, COLUMNS) - 1), TILE * ((tiles - 1) // COLUMNS)
        self.changed = {
            "screening.enabled": screened, "pilot_samples": int((leg == NORTH).argmax()),
            "nngp.first_steps": 60, "workspace": [-30.0, 30.0 + side[0], -30.0, 30.0 + side[1]],
            "resolution": SMALL["resolution"] * (60 + max(side)) / 60, **changed,
        }  # fmt: skip
        super().__init__(folder, **self.changed)

    LIMITS = 0.1, 100.0

    def reading(self) -> tuple[tuple[float, float, float], float]:
        x, y = self.xy[self.stamp - 1].tolist()
        return (x, y, 0.0), float(self.ranges[self.stamp - 1])

    def finish(self) -> Planted:
        self.until(self.pings)
        self.session.mission("done", self.now)
        self.turn()
        return self

    @property
    def mapped(self) -> np.ndarray:
        """Stamps of the pings in the map, in order."""
        return np.sort(self.session.mapper.data.stamp_ns)

    @property
    def smse(self) -> float:
        return self.smse_of(self.session.mapper)

    def smse_of(self, mapper: BathymetricMapper) -> float:
        axis = np.linspace(-24, 24, 25)
        at = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
        true = -depth(at, self.phase)
        return float(((mapper.predict(at).mean - true) ** 2).mean() / true.var())

    def replayed(self, folder: Path) -> BathymetricMapper:
        """The model that `poam map` makes of a folder of this mission."""
        mapper = self.session.mapper
        seed = read_mission(folder).settings["seed"]
        settings = SoundingMapSettings(seed=seed, model=mapper.settings)
        pings = read_journal(folder, ReadOptions())
        again, *_ = learn(pings, mapper.workspace, settings)
        return again


def measure(root: Path, seed: int, fault: str) -> str:
    """What screening makes of a fault, in words."""
    raw = Planted(root / "raw", seed, fault, False).finish()
    raw.close()
    screened = Planted(root / "screened", seed, fault, True)
    screened.until(3 * screened.pings // 4)
    screened.settle()
    screened.written()
    shutil.copytree(root / "screened", root / "image", ignore=shutil.ignore_patterns(".*"))
    stamp = screened.stamp
    screened.finish()
    again = Planted(root / "image", seed, fault, True)
    again.stamp = stamp
    again.turn()
    again.finish()
    resumed = np.array_equal(again.mapped, screened.mapped)
    again.close()
    screened.close()
    replayed = screened.replayed(root / "screened")
    replays = np.array_equal(np.sort(replayed.data.stamp_ns), screened.mapped)
    sound = screened.sound
    used = sound[screened.mapped * 10 // SECOND - 1]
    return (
        f"SMSE {raw.smse:.4f}, screened {screened.smse:.4f}; false in the map "
        f"{(~used).sum()}/{(~sound).sum()}, true lost {sound.sum() - used.sum()}/{sound.sum()}; "
        f"resumed {'alike' if resumed else 'NOT ALIKE'}, replayed "
        f"{'alike' if replays else 'NOT ALIKE'}"
    )


if __name__ == "__main__":
    first, last, *names = sys.argv[1:]
    for seed in range(int(first), int(last)):
        for name in names or FAULTS:
            with tempfile.TemporaryDirectory() as folder:
                print(f"{seed} {name:<11}{measure(Path(folder), seed, name)}", flush=True)
