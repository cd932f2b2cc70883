"""Held-out soundings, and predictions of maps made without them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.files import atomic_write
from ..core.reading import parse_json
from ..planning.tvu import CONFIDENCE_95
from .folder import write_table

#: The scores, in a run's folder.
FILE = "validation.json"
#: Name of the standard deviation of what another survey measures: in a map, and of held-out
#: soundings.
OTHER_SURVEY = "std_other_survey"
COLUMNS = ("row", "x", "y", "z", "mean", "std", "fold", "accepted", OTHER_SURVEY, "shown")


def log_loss(z: np.ndarray, mean: np.ndarray | float, variance: np.ndarray | float) -> np.ndarray:
    """- log N(z; mean, variance), [N]."""
    return 0.5 * np.log(2 * np.pi * variance) + 0.5 * (z - mean) ** 2 / variance


@dataclass(frozen=True)
class HeldOut:
    """Held-out soundings [N] and the predictions of maps made without them.

    Attributes:
        row: data rows in the log, from 0.
        xy: places [N, 2], in m.
        z: elevations, in m.
        mean, std: of the prediction, on the map's own frame and with noise, in m.
        std_other_survey: of what another survey measures, with errors of its own as large as those
            that this one shows at its crossings, in m; ``std`` where it shows none.
        fold: number of the map made without the sounding.
        naive: log loss of each under the mean and variance of its map's training targets.
        accepted: whether a map of all soundings takes it [N], boolean; screening leaves out others.
        shown: whether it lies in a cell that the map made without it shows [N], boolean.
    """

    row: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    std_other_survey: np.ndarray
    fold: np.ndarray
    naive: np.ndarray
    accepted: np.ndarray
    shown: np.ndarray

    def __getitem__(self, index: np.ndarray) -> HeldOut:
        return HeldOut(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def joined(cls, parts: list[HeldOut]) -> HeldOut:
        """All of them, by row."""
        names = (field.name for field in fields(cls))
        every = cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        return every[np.argsort(every.row, kind="stable")]


@dataclass(frozen=True)
class ValidationScores:
    """Errors in m over ``count`` held-out soundings; coverage95: the share of them within the
    prediction's 95 % interval on the map's own frame; nlpd: mean log loss; msll: that minus the
    naive one; coverage95_other_survey: the share within the interval of another survey."""

    count: int
    rmse: float
    mae: float
    msll: float
    nlpd: float
    coverage95: float
    coverage95_other_survey: float

    @property
    def covered(self) -> str:
        """Both coverages in words; one, where they are the same."""
        own, other = self.coverage95, self.coverage95_other_survey
        text = f"{100 * own:.1f} % within the 95 % interval"
        beside = f" on the map's frame, {100 * other:.1f} % within that of another survey"
        return text + beside * (own != other)


@dataclass(frozen=True)
class Validation:
    """Scores of the held-out soundings that the map accepts, or None where it accepts none; of
    all that were held out, with those that the screening leaves out; and of those of the accepted
    ones, or of all, that lie in cells that the map made without them shows, None where none does.
    """

    accepted: ValidationScores | None
    every: ValidationScores
    shown: ValidationScores | None

    @property
    def left_out(self) -> int:
        """How many of the held-out soundings the screening leaves out."""
        return self.every.count - (self.accepted.count if self.accepted else 0)

    def write(self, path: Path) -> None:
        """Write validation.json: scores of the accepted ones, of all under ``all``, and of those in
        cells that the map shows under ``shown``."""
        own, every, shown = (
            asdict(scores) if scores else {"count": 0}
            for scores in (self.accepted, self.every, self.shown)
        )
        text = json.dumps({**own, "all": every, "shown": shown}, indent=2) + "\n"
        with atomic_write(path) as file:
            file.write(text.encode())

    @classmethod
    def read(cls, path: Path) -> Validation | None:
        """From validation.json; None if there is no such file.

        Raises:
            InputError: the file is broken.
        """
        if not path.exists():
            return None
        try:
            content = parse_json(path)
            every = ValidationScores(**content.pop("all"))
            shown, own = (
                ValidationScores(**of) if of["count"] else None
                for of in (content.pop("shown"), content)
            )
            return cls(own, every, shown)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InputError(f"{path}: expected scores ({error})") from None

    @property
    def beside(self) -> str:
        """The scores with the soundings that the screening leaves out, in words."""
        every = self.every
        return (
            f"with the {self.left_out:,} that the screening leaves out of the map among them: mean "
            f"absolute error {every.mae:.2f} m, RMSE {every.rmse:.2f} m, {every.covered}"
        )

    @property
    def where(self) -> str:
        """How many of the accepted ones (or of all) lie in cells that the map shows, and their
        errors, in words."""
        shown, all_of = self.shown, (self.accepted or self.every).count
        if shown is None or shown.count == all_of:
            return f"{'all' if shown else 'none'} of them in cells that the map without them shows"
        return (
            f"{100 * shown.count / all_of:.1f} % of them in cells that the map without them shows: "
            f"there mean absolute error {shown.mae:.3g} m, RMSE {shown.rmse:.3g} m, {shown.covered}"
        )


def score(held: HeldOut) -> ValidationScores:
    """Scores of these soundings, whether accepted or not."""
    error = held.mean - held.z
    loss = log_loss(held.z, held.mean, held.std**2)
    half = CONFIDENCE_95 * np.stack((held.std, held.std_other_survey))
    own, other = (np.abs(error) <= half).mean(1).tolist()
    return ValidationScores(
        count=len(error),
        rmse=math.sqrt(np.mean(error**2)),
        mae=float(np.abs(error).mean()),
        msll=float((loss - held.naive).mean()),
        nlpd=float(loss.mean()),
        coverage95=own,
        coverage95_other_survey=other,
    )


def write_validation(
    folder: Path, held: HeldOut, files: tuple[tuple[str, int], ...] = ()
) -> Validation:
    """Write validation.json and held_out.csv; returns the scores.

    Args:
        folder: of the run.
        held: the soundings; rows of several files count on from file to file.
        files: path and first row of each, where there are several: held_out.csv then has a column
            ``file`` before ``row``, which counts from 0 in each.
    """
    row, names = held.row, []
    if files:
        begins = np.array([first for _, first in files])
        index = np.searchsorted(begins, row, side="right") - 1
        row, names = row - begins[index], [[files[i][0] for i in index.tolist()]]
    others = (getattr(held, name) for name in COLUMNS[3:])
    values = (each.astype(int) if each.dtype == bool else each for each in others)
    columns = [*names, row.tolist(), *held.xy.T.tolist(), *(each.tolist() for each in values)]
    header = ("file", *COLUMNS) if files else COLUMNS
    write_table(folder / "held_out.csv", header, zip(*columns, strict=True))
    accepted = held.accepted if held.accepted.any() else np.ones_like(held.accepted)
    own, shown = (
        score(held[np.flatnonzero(some)]) if some.any() else None
        for some in (held.accepted, accepted & held.shown)
    )
    scores = Validation(own, score(held), shown)  # pooled over the folds
    scores.write(folder / FILE)
    return scores


def split_folds(group: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each sounding [N]: groups [N] are shuffled and assigned to folds in turn.

    Raises:
        InputError: fewer than two folds, or fewer groups than folds.
    """
    codes, index = np.unique(group, return_inverse=True)
    if not 2 <= folds <= len(codes):
        raise InputError(f"--folds: expected 2 to {len(codes)} (as many as groups), got {folds}")
    fold = np.empty(len(codes), dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(len(codes))] = np.arange(len(codes)) % folds
    return fold[index]


def split_off(group: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which soundings are held out [N]: shuffled groups [N], until they are the fraction or more.

    Raises:
        InputError: the fraction is not between 0 and 1, or includes every group.
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
