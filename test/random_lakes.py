"""Lakes and surveys of many kinds drawn at random, with false echoes, and what screening refuses.

``python test/random_lakes.py FIRST LAST`` prints a line for each seed, and the sums.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poam_ros.mapping.soundings import find_lines
from poam_ros.screening.crossings import find_crossings


@dataclass(frozen=True)
class Survey:
    """Places [N, 2] and true elevations [N] in m; measured ones [N]; the multiple that each is
    [N], 0 if it is another false echo; and what kind of survey it is."""

    xy: np.ndarray
    truth: np.ndarray
    z: np.ndarray
    multiple: np.ndarray
    kind: str


def random_survey(seed: int) -> Survey:
    """A survey of a random lake; the same seed, the same survey."""
    rng = np.random.default_rng([seed, 20])
    depth = float(np.exp(rng.uniform(np.log(1.5), np.log(60))))  # the deepest, about
    width = float(np.exp(rng.uniform(np.log(20), np.log(150)))) * depth**0.7 + 80
    size = np.array([width, width * rng.uniform(0.4, 1.0)])
    step = float(np.exp(rng.uniform(np.log(0.08), np.log(0.6)))) * max(depth, 3.0)
    sparse = rng.uniform() < 0.1
    if sparse:
        step = min(rng.uniform(2, 8) * depth, width / 20)
    bottom = _bottom(rng, size, depth)
    track, plan = _track(rng, size, step)
    truth = np.minimum(bottom(track), -0.25)
    floating = bottom(track) < -0.25  # a boat stays off the land
    track, truth = track[floating], truth[floating]
    noise = rng.uniform(0.005, 0.08) + rng.uniform(0.001, 0.012) * np.abs(truth)
    z = np.minimum(truth + noise * rng.normal(size=len(truth)), -0.1)
    multiple = np.ones(len(z), dtype=np.int64)
    faults = [name for name in ("line", "parts", "isolated", "fish", "zeros", "noise", "shallow")
              if rng.uniform() < (0.45 if name in ("line", "parts") else 0.25)]  # fmt: skip
    for name in faults:
        _plant(rng, name, track, truth, z, multiple)
    text = f"{depth:5.1f} m deep, {size[0]:5.0f} x {size[1]:4.0f} m, step {step:5.1f} m, {plan}"
    return Survey(track, truth, z, multiple, f"{text}: {', '.join(faults) or 'clean'}")


def _bottom(
    rng: np.random.Generator, size: np.ndarray, depth: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Elevations by place: waves of all lengths, banks, islands, terraces."""
    count = 160
    scale = np.exp(rng.uniform(np.log(max(2.0, 0.8 * depth)), np.log(0.6 * size[0]), count))
    k = rng.normal(size=(count, 2))
    k *= np.pi / (np.hypot(*k.T) * scale)[:, None]
    amplitude, phase = scale ** rng.uniform(0.8, 1.6), rng.uniform(0, 2 * np.pi, count)
    bank = rng.uniform(0.5, 8) * depth  # from the shore to the depth
    relief, terrace = rng.uniform(0.1, 0.4), rng.uniform() < 0.25
    islands = [
        (rng.uniform(0.2, 0.8, 2) * size, rng.uniform(0.05, 0.15) * size[0])
        for _ in range(rng.integers(0, 4))
    ]

    def bottom(p: np.ndarray) -> np.ndarray:
        f = (amplitude * np.cos(p @ k.T + phase)).sum(1) / np.sqrt((amplitude**2).sum() / 2)
        d = depth * (0.6 + relief * f)
        if terrace:
            rise = depth / 5
            d = rise * (np.round(d / rise) + 0.15 * np.sin(d / rise * 2 * np.pi))
        shore = np.minimum(p.min(1), (size - p).min(1)) / bank
        for centre, radius in islands:
            shore = np.minimum(shore, (np.hypot(*(p - centre).T) - radius) / bank)
        return -d * np.clip(shore, -0.1, 1)

    return bottom


def _track(rng: np.random.Generator, size: np.ndarray, step: float) -> tuple[np.ndarray, str]:
    """Places along the track [N, 2]: lines to and fro, some across; or a boat that wanders."""
    plan = rng.choice(["parallel", "crossed", "crossed", "wandering"])
    limit = 9000
    if plan == "wandering":
        count = int(rng.integers(1500, 5000))
        course, at, places = rng.uniform(0, 2 * np.pi), size / 2, []
        for _ in range(count):
            course += rng.normal() * 0.08
            ahead = at + step * np.array([np.cos(course), np.sin(course)])
            if (ahead < 0).any() or (ahead > size).any():
                course = np.arctan2(*(size / 2 - at)[::-1]) + rng.normal() * 0.6
                ahead = at + step * np.array([np.cos(course), np.sin(course)])
            at = np.clip(ahead, 0, size)
            places.append(at)
        return np.array(places), str(plan)
    apart = max(size[0] / rng.integers(8, 30), 2 * step, size.prod() / step / limit)
    parts = []
    for i, x in enumerate(np.arange(apart / 3, size[0], apart)):
        y = np.arange(0, size[1], step)[:: 1 - 2 * (i % 2)]
        parts.append(np.column_stack((x + 0.1 * apart * np.sin(y / size[1] * 9 + i), y)))
    if plan == "crossed":
        for i, y in enumerate(np.linspace(0.1, 0.9, rng.integers(2, 9)) * size[1]):
            x = np.arange(0, size[0], step)[:: 1 - 2 * (i % 2)]
            parts.append(np.column_stack((x, y + 0.05 * apart * np.sin(x / size[0] * 9))))
    if rng.uniform() < 0.5:  # the turns between lines were recorded, too
        joined = [parts[0]]
        for part in parts[1:]:
            way = part[0] - joined[-1][-1]
            share = np.linspace(0, 1, max(2, int(np.hypot(*way) / step)))[1:-1, None]
            joined += [joined[-1][-1] + share * way, part]
        parts = joined
    return np.concatenate(parts), str(plan)


def _plant(
    rng: np.random.Generator, name: str, xy: np.ndarray, truth: np.ndarray,
    z: np.ndarray, multiple: np.ndarray,
) -> None:  # fmt: skip
    """Write false echoes of a kind into ``z`` and ``multiple``."""
    lines = find_lines(xy)
    names, counts = np.unique(lines, return_counts=True)
    long = names[counts >= np.median(counts)]

    def part(share: float) -> np.ndarray:
        rows = np.flatnonzero(lines == rng.choice(long))
        length = max(4, int(share * len(rows)))
        begin = rng.integers(0, max(1, len(rows) - length + 1))
        return rows[begin : begin + length]

    def false(rows: np.ndarray, values: np.ndarray, kind: int = 0) -> None:
        z[rows], multiple[rows] = values, kind

    def twice(rows: np.ndarray) -> None:
        false(rows, 2 * truth[rows] * (1 + 0.01 * rng.normal(size=len(rows))), 2)

    if name == "line":
        twice(part(1.0))
    elif name == "parts":
        for _ in range(rng.integers(2, 7)):
            twice(part(rng.uniform(0.15, 0.5)))
    elif name == "isolated":
        rows = np.flatnonzero(rng.uniform(size=len(z)) < rng.uniform(0.005, 0.06))
        false(rows, truth[rows] * rng.uniform(1.5, 3, len(rows)))
    elif name == "fish":
        for _ in range(5):
            rows = part(rng.uniform(0.02, 0.08))
            rows = rows[rng.uniform(size=len(rows)) < 0.7]
            false(rows, truth[rows] * rng.uniform(0.25, 0.75, len(rows)))
    elif name == "zeros":
        false(part(rng.uniform(0.05, 0.6)), 0.0)
        rows = np.flatnonzero(rng.uniform(size=len(z)) < 0.01)
        false(rows, 0.0)
    elif name == "noise":
        rows = part(rng.uniform(0.2, 1.0))
        false(rows, truth[rows] * rng.uniform(1, 3.5, len(rows)))
    elif name == "shallow":
        for _ in range(3):
            rows = part(rng.uniform(0.05, 0.2))
            false(rows, -0.5 + 0.02 * rng.normal(size=len(rows)))
    clear = (multiple == 0) & (np.abs(z / truth - 1) < 0.25)  # no error worth the name
    multiple[clear] = -1


def refused(survey: Survey) -> np.ndarray:
    """The factor that screening finds for each sounding [N]."""
    found = find_crossings(survey.xy, survey.z, find_lines(survey.xy), -survey.z)
    return found.multiple


def counts(survey: Survey, found: np.ndarray) -> np.ndarray:
    """True soundings refused, and all; double echoes refused, and all; others refused, and all."""
    out = found != 1
    kinds = survey.multiple == 1, survey.multiple == 2, survey.multiple == 0
    return np.array([each for kind in kinds for each in ((out & kind).sum(), kind.sum())])


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    total = np.zeros(6, dtype=np.int64)
    for seed in range(first, last):
        survey = random_survey(seed)
        own = counts(survey, refused(survey))
        total += own
        said = " ".join(f"{a:5d}/{b:<5d}" for a, b in own.reshape(3, 2))
        print(f"{seed:4d} {len(survey.z):5d} {said} {survey.kind}", flush=True)
    print("true refused {}/{}, double {}/{}, others {}/{}".format(*total))
