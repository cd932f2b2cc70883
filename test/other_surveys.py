"""Another survey of made lakes, each of whose recordings and days has errors of its own: how often
the interval of another survey holds what it measures, and how wide that is beside one by the true
errors.

``python test/other_surveys.py [LAKES [FIRST_SEED]]``: lakes of each case.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
from planted import lake

from poam_ros.mapping.calibration import calibrated, known_errors
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.sounding_map import learn, validate
from poam_ros.mapping.soundings import LINE, Labels, SoundingMapSettings, Soundings

#: Bottom; standard deviations of positions of recordings and levels of days, in m; recordings.
CASES = (
    ("smooth", 0, 0, 4), ("smooth", 3, 0.05, 4), ("rough", 1, 0.3, 8), ("rough", 9, 0, 4),
    ("terraces", 3, 0.3, 16), ("smooth", 9, 0.3, 8), ("terraces", 0, 0.05, 2),
    ("rough", 3, 0.05, 2), ("rough", 0, 0, 16), ("smooth", 0, 0.05, 8), ("rough", 0, 0.3, 4),
    ("terraces", 0, 0.3, 16), ("terraces", 1, 0, 8), ("smooth", 1, 0, 2), ("rough", 1, 0.05, 16),
    ("smooth", 1, 0.05, 4), ("terraces", 1, 0.3, 2), ("smooth", 3, 0, 16), ("terraces", 3, 0, 4),
    ("rough", 3, 0.3, 2), ("terraces", 9, 0, 8), ("rough", 9, 0.05, 16), ("terraces", 9, 0.05, 4),
    ("smooth", 9, 0.3, 2),
)  # fmt: skip
SETTINGS, DAY, BEGIN = SoundingMapSettings(), 86_400e9, 1_699_920_000e9


def noisy(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Elevations as they are measured."""
    return np.minimum(z + rng.normal(size=len(z)) * (0.05 - 0.005 * z), -0.2)


def surveys(
    kind: str, position: float, level: float, recordings: int, seed: int
) -> tuple[Soundings, Soundings]:
    """14 lines and 5 across in recordings of up to four days; and 40 short lines of other
    surveys, each with errors of its own."""
    rng = np.random.default_rng(seed)
    bottom, parts = lake(kind, rng), []
    for i, x in enumerate(np.linspace(15, 585, 14)):
        y = np.arange(8, 492, 2.8)[:: 1 - 2 * (i % 2)]
        parts.append(np.column_stack((x + 4 * np.sin(y / 60 + i), y)))
    for i, y in enumerate(np.linspace(30, 470, 5)):
        x = np.arange(8, 592, 2.8)[:: 1 - 2 * (i % 2)]
        parts.append(np.column_stack((x, y + 4 * np.sin(x / 60 + i))))
    days = min(recordings, 4)
    of = rng.permutation(np.arange(len(parts)) % recordings)  # so that recordings cross
    move, up = rng.normal(0, position, (recordings, 2)), rng.normal(0, level, days)
    begin = BEGIN + DAY * (of % days) + 2e13 * (of // days)
    order = np.lexsort((of, begin))
    for one, other in pairwise(order):  # lines of a recording follow each other by 20 s
        if of[one] == of[other]:
            begin[other] = begin[one] + 2e9 * len(parts[one]) + 20e9
    stamp = np.concatenate([begin[j] + 2e9 * np.arange(len(parts[j])) for j in order])
    z = [noisy(bottom(parts[j] + move[of[j]]) + up[of[j] % days], rng) for j in order]
    line = np.repeat(np.arange(len(order)), [len(each) for each in z])
    row = np.arange(len(line))
    names = Labels(line, tuple(f"L{i}" for i in range(len(order))))
    survey = Soundings(
        row, np.concatenate([parts[j] for j in order]), np.concatenate(z), row,
        stamp_ns=stamp.astype(np.int64), labels={LINE: names},
    )  # fmt: skip
    at, held = [], []
    for _ in range(40):
        angle, middle = rng.uniform(0, np.pi), rng.uniform((45, 45), (555, 455))
        p = middle + np.linspace(-30, 30, 12)[:, None] * (np.cos(angle), np.sin(angle))
        held.append(noisy(bottom(p + rng.normal(0, position, 2)) + rng.normal(0, level), rng))
        at.append(p)
    xy, row = np.concatenate(at), np.arange(12 * len(at))
    return survey, Soundings(row, xy, np.concatenate(held), row)


def main(count: int = 10, first: int = 50_000) -> None:
    """Print coverages with standard errors, and mean widths, of both intervals."""
    for number, case in enumerate(CASES):
        for name in ("as recorded", "calibrated"):
            found = []
            for seed in range(first + 100 * number, first + 100 * number + count):
                survey, other = surveys(*case, seed)
                if name == "calibrated":
                    survey, _ = calibrated(survey, SETTINGS)
                crossed = cross(survey, SETTINGS)
                mapper, *_ = learn(survey, survey.workspace(), SETTINGS, crossed=crossed)
                held = validate(mapper, other, 0, known_errors(survey, crossed, SETTINGS))
                off, both = np.abs(held.z - held.mean), (held.std, held.std_other_survey)
                inside = [float((off <= 1.96 * std).mean()) for std in both]
                found.append([*inside, *(3.92 * float(std.mean()) for std in both)])
            mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / len(found) ** 0.5
            print(
                *case, f"{name}: own frame {mean[0]:.3f}, another survey {mean[1]:.3f} +- "
                f"{error[1]:.3f}; widths {mean[2]:.2f}, {mean[3]:.2f} m", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
