"""A run's folder: CSV, npz and YAML that others can read, each written beside and renamed."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import yaml

from ..errors import InputError
from ..geometry import Extent, Grid
from ..mapping import MapSnapshot
from .metrics import Metrics

#: Columns of epochs.csv, one row per decision epoch.
EPOCH_COLUMNS = (
    "samples", "time_s", "smse", "msll", "rmse", "mae", "nlpd", "update_s", "predict_s",
)  # fmt: skip


@dataclass(frozen=True)
class EpochRecord:
    """One decision epoch: mission time in s, wall times of update and prediction in s."""

    samples: int
    time_s: float
    metrics: Metrics
    update_s: float
    predict_s: float

    def row(self) -> tuple[Any, ...]:
        """The values of ``EPOCH_COLUMNS``."""
        values = {**asdict(self), **asdict(self.metrics)}
        return tuple(values[name] for name in EPOCH_COLUMNS)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it takes its name only when it is complete."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def make_folder(path: Path) -> Path:
    """Make the folder of a run, or take one that is there.

    Raises:
        InputError: if it cannot be made or written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with _replacing(path / "probe"):
            pass
        (path / "probe").unlink()
    except OSError as error:
        raise InputError(f"output: cannot write to {path} ({error.strerror})") from None
    return path


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a CSV file with a header."""
    with _replacing(path) as file:
        lines = [",".join(columns), *(",".join(_cell(value) for value in row) for row in rows)]
        file.write(("\n".join(lines) + "\n").encode())


def _cell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def read_table(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file of numbers.

    Raises:
        InputError: if the file is missing, empty or not numbers.
    """
    try:
        with path.open(newline="") as file:
            header, *rows = list(csv.reader(file))
        values = np.array(rows, dtype=float).reshape(len(rows), len(header))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a table of numbers with a header ({error})") from None
    return {name: values[:, i] for i, name in enumerate(header)}


def write_samples(path: Path, xy: np.ndarray, z: np.ndarray) -> None:
    """Write the pings, x, y, z in m, in order; exact to the last bit of a double."""
    rows = [[repr(float(v)) for v in row] for row in np.column_stack((xy, z))]
    write_table(path, ("x", "y", "z"), rows)


def write_map(path: Path, snapshot: MapSnapshot) -> None:
    """Write a map: arrays x, y, mean, variance, lengthscale [rows, columns], inducing_points."""
    with _replacing(path) as file:
        np.savez_compressed(
            file,
            x=snapshot.grid.x,
            y=snapshot.grid.y,
            mean=snapshot.mean,
            variance=snapshot.variance,
            lengthscale=snapshot.lengthscale,
            inducing_points=snapshot.inducing_points,
            samples=snapshot.samples,
        )


def read_map(path: Path) -> MapSnapshot:
    """Read what ``write_map`` wrote.

    Raises:
        InputError: if the file is missing or holds something else.
    """
    try:
        with np.load(path) as data:
            return MapSnapshot(
                Grid(data["x"], data["y"]),
                data["mean"],
                data["variance"],
                data["lengthscale"],
                data["inducing_points"],
                int(data["samples"]),
            )
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise InputError(f"{path}: expected a map.npz of this package ({error})") from None


def write_truth(path: Path, elevation: np.ndarray, extent: Extent) -> None:
    """Write the ground truth for the figures: elevation [rows, columns], row 0 south."""
    with _replacing(path) as file:
        np.savez_compressed(file, elevation=elevation, extent=np.array(extent.bounds))


def read_truth(path: Path) -> tuple[np.ndarray, Extent]:
    """Read what ``write_truth`` wrote.

    Raises:
        InputError: if the file is missing or holds something else.
    """
    try:
        with np.load(path) as data:
            return data["elevation"], Extent.of(data["extent"])
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise InputError(f"{path}: expected a truth.npz of this package ({error})") from None


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write everything resolved, as YAML."""
    with _replacing(path) as file:
        file.write(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True).encode())
