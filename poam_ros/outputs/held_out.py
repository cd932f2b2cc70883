"""Soundings that are kept out of a map, and what the map says of them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.files import replacing
from ..planning.tvu import CONFIDENCE_95
from .folder import write_table

COLUMNS = ("row", "x", "y", "z", "mean", "std", "fold")


@dataclass(frozen=True)
class HeldOut:
    """Held-out soundings [N] and what maps without them predict there.

    Attributes:
        row: data rows in the log, from 0.
        xy: places [N, 2], in m.
        z: elevations, in m.
        mean, std: of the prediction, with noise, in m.
        fold: which map it was that did not have the sounding.
        naive: log loss of each by the mean and variance of what its map had learned.
    """

    row: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    fold: np.ndarray
    naive: np.ndarray

    @classmethod
    def joined(cls, parts: list[HeldOut]) -> HeldOut:
        """All of them, by row."""
        names = ("row", "xy", "z", "mean", "std", "fold", "naive")
        arrays = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
        order = np.argsort(arrays[0], kind="stable")
        return cls(*(array[order] for array in arrays))


@dataclass(frozen=True)
class ValidationScores:
    """Errors in m over ``count`` held-out soundings; coverage95: the share of them within the
    prediction's 95 % interval; nlpd: mean log loss; msll: that less the naive one."""

    count: int
    rmse: float
    mae: float
    msll: float
    nlpd: float
    coverage95: float


def log_loss(z: np.ndarray, mean: np.ndarray | float, variance: np.ndarray | float) -> np.ndarray:
    """- log N(z; mean, variance), [N]."""
    return 0.5 * np.log(2 * np.pi * variance) + 0.5 * (z - mean) ** 2 / variance


def score(held: HeldOut) -> ValidationScores:
    """All scores, pooled over the folds."""
    error = held.mean - held.z
    loss = log_loss(held.z, held.mean, held.std**2)
    return ValidationScores(
        count=len(error),
        rmse=math.sqrt(np.mean(error**2)),
        mae=float(np.abs(error).mean()),
        msll=float((loss - held.naive).mean()),
        nlpd=float(loss.mean()),
        coverage95=float((np.abs(error) <= CONFIDENCE_95 * held.std).mean()),
    )


def write_validation(
    folder: Path, held: HeldOut, files: tuple[tuple[str, int], ...] = ()
) -> ValidationScores:
    """Write validation.json and held_out.csv; returns the scores.

    Args:
        folder: of the run.
        held: the soundings; rows of several files count on from file to file.
        files: path and first row of each, where there are several: held_out.csv then has a column
            ``file`` before ``row``, which counts from 0 in each.
    """
    scores = score(held)
    row, names = held.row, []
    if files:
        begins = np.array([first for _, first in files])
        index = np.searchsorted(begins, row, side="right") - 1
        row, names = row - begins[index], [[files[i][0] for i in index.tolist()]]
    table = zip(
        *names, row.tolist(), *held.xy.T.tolist(), held.z.tolist(), held.mean.tolist(),
        held.std.tolist(), held.fold.tolist(), strict=True,
    )  # fmt: skip
    write_table(folder / "held_out.csv", ("file", *COLUMNS) if files else COLUMNS, table)
    with replacing(folder / "validation.json") as file:
        file.write((json.dumps(asdict(scores), indent=2) + "\n").encode())
    return scores


def split_folds(group: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each sounding [N]: groups [N] are shuffled, and dealt out in turn.

    Raises:
        InputError: fewer than two folds, or fewer groups than folds.
    """
    codes, index = np.unique(group, return_inverse=True)
    if not 2 <= folds <= len(codes):
        raise InputError(f"folds: expected 2 to {len(codes)} (as many as groups), got {folds}")
    fold = np.empty(len(codes), dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(len(codes))] = np.arange(len(codes)) % folds
    return fold[index]


def split_off(group: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which soundings are held out [N]: shuffled groups [N], until they are the fraction or more.

    Raises:
        InputError: the fraction is not between 0 and 1, or would take every group.
    """
    if not 0 < fraction < 1:
        raise InputError(f"hold-out: expected a fraction between 0 and 1, got {fraction:g}")
    _, index, counts = np.unique(group, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(counts))
    enough = int(np.searchsorted(np.cumsum(counts[order]), fraction * len(group) - 1e-9)) + 1
    if enough >= len(counts):
        raise InputError(
            f"hold-out: {fraction:g} of the soundings takes all {len(counts)} groups; "
            "expected a smaller fraction or smaller groups"
        )
    return np.isin(index, order[:enough])
