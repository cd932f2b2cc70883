"""The folder of a sweep: sweep.yaml, finished runs, failures, and runs.csv, the index of the runs.

A run's folder appears under its name only when it is complete, so every such folder is a finished
run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from ... import __version__
from ...core.errors import InputError, PoamError
from ...core.files import atomic_write, lock, rename_folder
from ...core.reading import read_yaml
from ...outputs.folder import RUN_COLUMNS, make_folder, read_records, write_config, write_table
from ...simulation.world.terrain import Terrain
from .configuration import LISTS, Run, SweepSettings, digest


@dataclass(frozen=True)
class TaskResult:
    """The result of a run: the files of its folder, or the traceback of its failure.

    ``wall_s``: wall time, in s. ``samples``: number of pings at its end.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: int = 0
    wall_s: float = 0.0
    failure: str = ""


class SweepFolder:
    """The folder of a sweep, for one writer at a time.

    Args:
        folder: created if it does not exist.
        settings: of the sweep. They may add runs to those of an earlier sweep in this folder, but
            not change any.
        terrains: by environment.

    Raises:
        InputError: if the folder cannot be written, or has broken runs or runs with other settings.
        PoamError: if a file in it cannot be written.
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
                shutil.rmtree(left)  # of an interrupted run
            self._write_index()

    @property
    def finished(self) -> dict[str, dict[str, str]]:
        """The row of runs.csv of every finished run, by its folder."""
        return dict(self._rows)

    def add(self, run: Run, result: TaskResult) -> None:
        """Store a finished run.

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
            try:
                for name, content in result.files.items():
                    (beside / name).write_bytes(content)
                write_table(beside / "run.csv", RUN_COLUMNS, [values])
                row = _read_row(beside / "run.csv")
                rename_folder(beside, place)
            finally:  # a full disk needs its space
                shutil.rmtree(beside, ignore_errors=True)
            self._failure(run).unlink(missing_ok=True)
            self._rows[run.folder] = row
            self._write_index()

    def fail(self, run: Run, traceback: str) -> Path:
        """Store the traceback of a failed run; returns its file.

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
    """Lock the folder of a sweep against a second writer.

    Raises:
        InputError: if it cannot be written, or another process is writing in it.
    """
    try:
        held = lock(make_folder(folder) / ".lock")
    except BlockingIOError:
        raise InputError(f"output: another benchmark is writing to {folder}") from None
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
            f"{path}: expected one row, with a number as wall_s; delete its folder "
            f"to repeat the run"
        ) from None
    return row


def _rank(values: Sequence[Any], value: Any) -> int:
    return values.index(value) if value in values else len(values)


#: Layout of a sweep's folder, in its sweep.yaml.
LAYOUT = 2
#: Keys of the lists that a later sweep in the folder may add to.
VARIED = ("methods", *LISTS)


def describe(settings: SweepSettings, terrains: Mapping[str, Terrain]) -> dict[str, Any]:
    """The resolved sweep, as plain values for sweep.yaml."""
    environments = {}
    for name, terrain in terrains.items():
        given = settings.environments[name]
        environments[name] = {
            "terrain": given.terrain,
            "source": terrain.source,
            "elevation_range": list(given.elevation_range) if given.elevation_range else None,
            "preparation": given.preparation,
            "elevation": [terrain.lowest, terrain.highest],
            "shape": list(terrain.elevation.shape),
            "sha256": digest(terrain),
        }
    shared = settings.resolved.items()
    return {
        "layout": LAYOUT,
        "version": __version__,
        "environments": environments,
        **{name: list(getattr(settings, name)) for name in VARIED},
        "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in shared},
    }


def merged(path: Path, sweep: dict[str, Any]) -> dict[str, Any]:
    """The sweep, with the runs of an earlier one in its folder that has the same settings.

    Raises:
        InputError: it has others, or cannot be read.
    """
    if not path.exists():
        if (path.parent / "runs").exists():
            raise InputError(f"{path.parent}: there is no sweep.yaml beside runs/")
        return sweep
    old = read_metadata(path)
    before, now = dict(old["settings"]), dict(sweep["settings"])
    for name in sweep["environments"].keys() & old["environments"].keys():  # by their digests
        for each, own in ((old, before), (sweep, now)):
            own[f"environments.{name}"] = each["environments"][name]["sha256"]
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise InputError(
                f"{path}: {name}: the runs in this folder have {before.get(name)!r}, the "
                f"configuration {now.get(name)!r}; give another folder"
            )
    lists = {n: [*old[n], *(value for value in sweep[n] if value not in old[n])] for n in VARIED}
    return {**sweep, "environments": {**old["environments"], **sweep["environments"]}, **lists}


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the sweep.yaml of a sweep's folder.

    Raises:
        InputError: if it cannot be read, or the folder has another layout.
    """
    try:
        found = read_yaml(path)
    except (OSError, InputError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    layout = found.get("layout") if isinstance(found, dict) else None
    if layout != LAYOUT:
        raise InputError(f"{path}: expected layout {LAYOUT}, got {layout!r}; give another folder")
    return dict(found)
