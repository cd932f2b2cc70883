"""The folder of a sweep: sweep.yaml, finished runs, failures, and runs.csv, the index of the runs.

A run's folder appears under its name only when it is complete: a folder that is there is a run that
is finished.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from ...core.errors import InputError, PoamError
from ...core.files import atomic_write, lock, rename_folder
from ...outputs.folder import (
    RUN_COLUMNS,
    make_folder,
    read_records,
    write_config,
    write_table,
)
from ...simulation.world.terrain import Terrain
from .configuration import Run, SweepSettings
from .metadata import describe, merged
from .tasks import TaskResult


class SweepFolder:
    """The folder of a sweep, for one writer at a time.

    Args:
        folder: made if it is not there.
        settings: of the sweep. They may add runs to those of an earlier sweep in this folder, but
            not change any.
        terrains: by environment.

    Raises:
        InputError: if the folder cannot be written, or holds runs made with other settings or
            broken ones.
        PoamError: if something in it cannot be written.
    """

    def __init__(
        self, folder: Path, settings: SweepSettings, terrains: Mapping[str, Terrain]
    ) -> None:
        self.folder = make_folder(folder)
        sweep = merged(folder / "sweep.yaml", describe(settings, terrains))
        self._order = {
            name: [str(value) for value in sweep[f"{name}s"]]
            for name in ("environment", "pilot", "planner", "method", "seed")
        }
        self._rows = {
            path.relative_to(folder).as_posix(): _read_row(path / "run.csv")
            for path in folder.glob("runs/*/*/*/seed-*")
        }
        with _writing(folder):
            write_config(folder / "sweep.yaml", sweep)
            for left in folder.glob("runs/*/*/*/.seed-*"):
                shutil.rmtree(left)  # half-written when it was interrupted
            self._write_index()

    @property
    def finished(self) -> dict[str, dict[str, str]]:
        """The row of runs.csv of every finished run, by its folder."""
        return dict(self._rows)

    def add(self, run: Run, result: TaskResult) -> None:
        """Keep a finished run.

        Raises:
            PoamError: if it cannot be written.
        """
        mission = run.mission
        values = (
            run.environment, run.method, mission.model.values.get("sparse.kernel", ""),
            mission.pilot, mission.planner, mission.seed, result.samples, result.wall_s,
            run.folder,
        )  # fmt: skip
        place = self.folder / run.folder
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        with _writing(place):
            beside.mkdir(parents=True)
            for name, content in result.files.items():
                (beside / name).write_bytes(content)
            write_table(beside / "run.csv", RUN_COLUMNS, [values])
            row = _read_row(beside / "run.csv")
            rename_folder(beside, place)
            self._failure(run).unlink(missing_ok=True)
            self._rows[run.folder] = row
            self._write_index()

    def fail(self, run: Run, traceback: str) -> Path:
        """Keep the traceback of a run that failed; returns its file.

        Raises:
            PoamError: if it cannot be written.
        """
        path = self._failure(run)
        with _writing(path):
            path.parent.mkdir(exist_ok=True)
            with atomic_write(path) as file:
                file.write(traceback.encode())
        return path

    def _failure(self, run: Run) -> Path:
        return self.folder / "failures" / f"{'-'.join(run.folder.split('/')[1:])}.txt"

    def _write_index(self) -> None:
        """Write runs.csv, in the order of the configuration."""

        def place(row: Mapping[str, str]) -> list[int]:
            return [_rank(values, row[name]) for name, values in self._order.items()]

        rows = sorted(self._rows.values(), key=place)
        values = [tuple(row[name] for name in RUN_COLUMNS) for row in rows]
        write_table(self.folder / "runs.csv", RUN_COLUMNS, values)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of a sweep against a second writer.

    Raises:
        InputError: if it cannot be written, or another process is writing in it.
    """
    try:
        held = lock(make_folder(folder) / ".lock")
    except BlockingIOError:
        raise InputError(f"output: another benchmark is at work in {folder}") from None
    with held:
        yield


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PoamError(
            f"{path}: cannot be written ({error.strerror or error}); the finished runs are kept"
        ) from None


def _read_row(path: Path) -> dict[str, str]:
    """The row of runs.csv that a finished run's folder has in its run.csv."""
    rows = read_records(path, RUN_COLUMNS)
    try:
        (row,) = rows
        if not isfinite(float(row["wall_s"])):
            raise ValueError
    except ValueError:
        raise InputError(
            f"{path}: expected one row, with a number as wall_s; without the folder that it is in, "
            f"the run is done again"
        ) from None
    return row


def _rank(values: Sequence[Any], value: Any) -> int:
    return values.index(value) if value in values else len(values)
