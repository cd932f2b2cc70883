"""The page of a run's or mission's folder, complete or still being written."""

from __future__ import annotations

import math
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...core.errors import InputError, quantity
from ...core.files import read_json
from ...frontend.events import PAUSED
from ...journal.folder import DATABASE, PLANNER
from ...journal.tables import read_only
from ...mission.states import Status
from ..crossings import FILE as CROSSINGS
from ..exports.chart import ExportSettings, read_chart
from ..figures import CURVES
from ..folder import MAP, SAVED, check_run, read_table
from ..results import FILE, read_unmapped
from ..run import Run
from .scene import BAD, GOOD, NOTE, Curves, Notice, Scene, scene_of
from .texts import refused

#: Files that are read, and read again when they change.
FILES = (
    MAP, SAVED, "samples.csv", "epochs.csv", "config.yaml", FILE, CROSSINGS, DATABASE,
)  # fmt: skip
#: The database's write-ahead log, and how often it is checked, in s.
AHEAD, AHEAD_S = f"{DATABASE}-wal", 5.0
#: Columns of epochs.csv that are wall times.
SECONDS = {"update_s": "update", "predict_s": "prediction"}
#: Where folders are looked for if none is named.
HOMES = Path("runs"), Path("missions")
Versions = tuple[tuple[int, int, int] | None, ...]


class FolderView:
    """A folder that is read again whenever it changes.

    Args:
        folder: of a run or mission.
        settings: how its map is shown.

    Raises:
        InputError: there is no such folder.
    """

    def __init__(self, folder: Path, settings: ExportSettings) -> None:
        check_run(folder)
        self._folder, self._settings = folder, settings
        self._versions: Versions = ()
        self._ahead: tuple[int, int, int] | None = None  # of the write-ahead log
        self._ahead_at = -math.inf  # time of the last check, in s of a steady clock
        self._scene = Scene("")
        self._told: tuple[Notice, ...] = ()  # of the mission

    def scene(self) -> Scene:
        """The present scene; the same object while the files are unchanged."""
        versions = tuple(_version(self._folder / name) for name in FILES)
        told = _mission(self._folder)
        if self._grown() or versions != self._versions:
            self._versions, self._told = versions, ()
            self._scene = self._look(self._scene)
        if told != self._told:
            others = tuple(each for each in self._scene.remarks if each not in self._told)
            self._scene, self._told = replace(self._scene, remarks=(*told, *others)), told
        return self._scene

    def _grown(self) -> bool:
        """Whether a mapper has written to its journal."""
        now = time.monotonic()
        if now - self._ahead_at < AHEAD_S:
            return False
        before, ahead = self._ahead, _version(self._folder / AHEAD)
        # Reading a journal that has no writer leaves an empty one.
        self._ahead, self._ahead_at = ahead if ahead and ahead[2] else None, now
        return self._ahead != before

    def _look(self, before: Scene) -> Scene:
        folder = self._folder
        curves = _curves(folder / "epochs.csv")
        try:
            run = Run.open(folder, live=True)
            if not (run.home / MAP).exists():
                return self._without_map(run, curves)
            chart = read_chart(run, self._settings, live=before.chart is not None)
        except InputError as error:
            # A file is broken or being replaced: keep showing the previous map.
            remark = Notice(str(error), "the page reads the file again when it changes", BAD)
            title = before.title or Run(folder, {}).title
            return replace(before, title=title, waiting=str(error), remarks=(remark,))
        provenance = {
            k: v for k, v in chart.provenance.items() if k not in ("title", "export_time")
        }
        pings = _pings(folder) if run.saved else np.empty((0, 2))
        if len(pings) and chart.place is not None:
            pings = chart.place.to_projected(pings)
        scene = scene_of(chart, curves, refused(chart.unmapped.refused), pings)
        return replace(scene, chart=replace(chart, provenance=provenance))

    def _without_map(self, run: Run, curves: Curves) -> Scene:
        pings, text = _pings(self._folder), f"no {MAP} in {self._folder} yet"
        if len(pings):
            text += f"; {quantity(len(pings), 'ping')} so far"
        others = read_unmapped(self._folder, live=True)
        return Scene(
            run.title, waiting=f"waiting for the first map: {text}", samples=len(pings),
            pings=pings, track=pings, refused=others.refused, curves=curves,
            remarks=refused(others.refused),
        )  # fmt: skip


def _mission(folder: Path) -> tuple[Notice, ...]:
    """What the mission in a folder does, and why."""
    with suppress(InputError, KeyError, TypeError, ValueError):
        if values := read_json(folder / PLANNER, "a mission"):
            status = Status.of(values["status"])
            mark = NOTE if status.state == PAUSED else GOOD
            return (Notice(f"the mission is {status.state}", status.text, mark),)
    return ()


def newest() -> Path:
    """The folder in ``HOMES`` whose files were written last.

    Raises:
        InputError: there is none.
    """
    written = [
        (version[0], path.parent)
        for home in HOMES for name in FILES for path in home.glob(f"*/{name}")
        if (version := _version(path)) is not None
    ]  # fmt: skip
    if not written:
        homes = " or ".join(f"{home}/" for home in HOMES)
        raise InputError(f"RUN: expected the folder of a run or mission; there is none in {homes}")
    return max(written)[1]


def _version(path: Path) -> tuple[int, int, int] | None:
    """A value that changes when a file is written; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _pings(folder: Path) -> np.ndarray:
    """Places of the pings of a mission under way [N, 2], from the journal or samples.csv."""
    with suppress(sqlite3.Error, OSError), closing(read_only(folder / DATABASE)) as journal:
        rows = journal.execute("SELECT x, y FROM pings ORDER BY number").fetchall()
        return np.array(rows, dtype=float).reshape(-1, 2)
    with suppress(InputError):
        samples = read_table(folder / "samples.csv", ("x", "y"))
        return np.column_stack((samples["x"], samples["y"]))
    return np.empty((0, 2))


def _curves(path: Path) -> Curves:
    """The curves of an epochs.csv; empty if it is missing or broken."""
    try:
        rows = read_table(path, ("samples",))
    except InputError:
        return Curves()
    seconds = {title: rows[name] for name, title in SECONDS.items() if name in rows}
    titles = {k: title for k, title in CURVES.items() if k in rows and k not in SECONDS}
    return Curves(rows["samples"], {title: rows[k] for k, title in titles.items()}, seconds)
