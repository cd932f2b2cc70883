"""Lakes with true objects on the bottom, crossed by lines with errors of position, and how many of
their soundings screening refuses: ``python test/objects.py FIRST LAST``."""

from __future__ import annotations

import sys

import numpy as np
from random_lakes import Survey, refused

#: Longest and shortest sides of each kind along its axes, in m: (least, most) of both.
KINDS = {
    "wreck": ((15, 50), (3, 10)), "pinnacle": ((3, 12), (3, 12)),
    "wall": ((20, 80), (1, 4)), "platform": ((20, 60), (15, 60)),
}  # fmt: skip


def lake_with_objects(seed: int) -> Survey:
    """A survey without false echoes; the same seed, the same survey."""
    rng = np.random.default_rng([seed, 99])
    depth = float(np.exp(rng.uniform(np.log(4), np.log(30))))
    off, step = float(rng.choice([0.3, 1.0, 3.0])), rng.uniform(0.08, 0.3) * depth
    scale = np.exp(rng.uniform(np.log(12), np.log(250), 150))
    k = rng.normal(size=(150, 2))
    k /= np.hypot(*k.T)[:, None] * scale[:, None]
    amplitude, phase = scale ** rng.uniform(0.8, 1.5), rng.uniform(0, 2 * np.pi, 150)
    relief = rng.uniform(0.05, 0.3)
    size = np.array([rng.uniform(250, 600), rng.uniform(200, 400)])
    apart = max(rng.uniform(0.5, 3) * depth, size[0] / 60)
    north, east = (
        np.arange(8, size[0] - 8, apart),
        np.linspace(20, size[1] - 20, rng.integers(2, 8)),
    )
    objects = []
    for _ in range(rng.integers(2, 9)):
        kind = str(rng.choice(list(KINDS)))
        at = rng.uniform([15, 15], size - 15)
        if rng.uniform() < 0.6:
            at[0] = rng.choice(north)
        if rng.uniform() < 0.4:
            at[1] = rng.choice(east)
        half = np.array([rng.uniform(*side) for side in KINDS[kind]]) / 2
        objects.append((kind, at, rng.uniform(0, np.pi), half, rng.uniform(0.35, 0.9)))

    def bottom(p: np.ndarray) -> np.ndarray:
        f = (amplitude * np.cos(p @ k.T * np.pi + phase)).sum(1) / np.sqrt((amplitude**2).sum() / 2)
        shore = np.minimum(p.min(1), (size - p).min(1)) / (2 * depth)
        found = depth * (0.7 + relief * f) * np.clip(shore, 0.08, 1)
        for kind, at, angle, half, height in objects:
            along = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            share = np.abs((p - at) @ along) / half
            inside = (share < 1).all(1).astype(float)
            if kind == "pinnacle":
                inside = np.clip(1.5 - 1.5 * np.hypot(*share.T), 0, 1)
            found = np.minimum(found, found * (1 - height * inside))
        return -np.maximum(found, 0.4)

    y, x = np.arange(6, size[1] - 6, step), np.arange(6, size[0] - 6, step)
    lines = [
        np.column_stack((at + min(3, apart / 4) * np.sin(y / 60 + i), y))
        for i, at in enumerate(north)
    ]
    lines += [np.column_stack((x, at + 2 * np.sin(x / 60 + i))) for i, at in enumerate(east)]
    lines = [line[:: 1 - 2 * (i % 2)] for i, line in enumerate(lines)]
    truth = np.concatenate([bottom(line + rng.normal(0, off, 2)) for line in lines])
    z = np.minimum(truth + rng.normal(size=len(truth)) * (0.03 - 0.005 * truth), -0.2)
    kind = f"{depth:.0f} m deep, positions off by {off} m: {', '.join(o[0] for o in objects)}"
    return Survey(np.concatenate(lines), truth, z, np.ones(len(z), dtype=np.int64), kind)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    lost = count = 0
    for seed in range(first, last):
        survey = lake_with_objects(seed)
        own = int((refused(survey) != 1).sum())
        lost, count = lost + own, count + len(survey.z)
        print(f"{seed:4d} {own:5d}/{len(survey.z):<6d} {survey.kind}", flush=True)
    print(f"refused {lost} of {count}: {100 * lost / count:.2f} %")
