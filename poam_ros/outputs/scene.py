"""What a page shows at one moment, and the folder that it is read from, again while that grows."""

from __future__ import annotations

import math
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError, quantity
from ..core.files import read_json
from ..frontend.events import PAUSED
from ..frontend.refused_pings import RefusedPings
from ..journal.folder import DATABASE, PLANNER
from ..journal.tables import read_only
from ..mission.states import Status
from .chart import Chart, ExportSettings, read_chart
from .crossings import FILE as CROSSINGS
from .folder import LEFT_OUT, MAP, SAVED, check_run, read_table, version_of
from .run import REFUSED, Run, read_unmapped

#: Severity of a notice, the worst first.
BAD, NOTE, GOOD = "bad", "note", "good"
#: Files that are read, and read again when they change.
FILES = (
    MAP, SAVED, "samples.csv", "config.yaml", REFUSED, LEFT_OUT, CROSSINGS, DATABASE,
)  # fmt: skip
#: The database's write-ahead log, and how often it is checked, in s.
AHEAD, AHEAD_S = f"{DATABASE}-wal", 5.0
#: Where folders are looked for if none is named.
HOMES = Path("runs"), Path("missions")
#: No places [0, 2].
NOWHERE = np.empty((0, 2))


class Notice(NamedTuple):
    """A message on the page: text, advice and severity."""

    text: str
    advice: str = ""
    mark: str = GOOD


@dataclass(frozen=True)
class Scene:
    """A survey at one moment. Places are [N, 2] in m, as the map's.

    Attributes:
        title: of the page.
        chart: the map; None while there is none.
        waiting: text shown while there is no map.
        pings: accepted pings so far with known places, some of them not in the map yet.
        line: names of the survey lines of the pings [N]; empty where unknown.
        refused: pings that were refused; of a mission the newest of each reason.
        remarks: messages on the page.
    """

    title: str
    chart: Chart | None = None
    waiting: str = ""
    pings: np.ndarray = field(default_factory=lambda: NOWHERE)
    line: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=str))
    refused: RefusedPings = field(default_factory=RefusedPings.none)
    remarks: tuple[Notice, ...] = ()

    @property
    def somewhere(self) -> bool:
        """Whether there is a map, or pings."""
        return self.chart is not None or len(self.pings) > 0


def scene_of(chart: Chart) -> Scene:
    """The scene of a map, with its pings and with those that were refused."""
    return Scene(
        chart.provenance["title"], chart, pings=chart.track, line=chart.line,
        refused=chart.unmapped.refused,
    )  # fmt: skip


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
        self._versions: tuple[object, ...] = ()
        self._ahead: object = None
        self._ahead_at = -math.inf  # time of the last check, in s
        self._files = self._scene = Scene("")  # of the files alone, and with the mission's state
        self._state: tuple[Notice, ...] = ()

    def scene(self) -> Scene:
        """The present scene; the same object while the files are unchanged."""
        if (now := time.monotonic()) - self._ahead_at >= AHEAD_S:
            ahead, self._ahead_at = version_of(self._folder / AHEAD), now
            # Reading a journal that has no writer leaves an empty one.
            self._ahead = ahead if ahead and ahead[2] else None
        versions = (*(version_of(self._folder / name) for name in FILES), self._ahead)
        state = _state(self._folder)
        if (versions, state) != (self._versions, self._state):
            if versions != self._versions:
                self._files = self._look(self._files)
            self._versions, self._state = versions, state
            self._scene = replace(self._files, remarks=(*state, *self._files.remarks))
        return self._scene

    def _look(self, before: Scene) -> Scene:
        folder = self._folder
        try:
            run = Run.open(folder, live=True)
            if not (run.home / MAP).exists():
                pings, text = _pings(folder), f"waiting for the first map: no {MAP} in {folder} yet"
                if len(pings):
                    text += f"; {quantity(len(pings), 'ping')} so far"
                others = read_unmapped(folder, live=True).refused
                return Scene(run.title, None, text, pings, refused=others)
            chart = read_chart(run, self._settings, live=before.chart is not None)
        except InputError as error:
            # A file is broken or being replaced: keep showing the previous map.
            remark = Notice(str(error), "the page reads the file again when it changes", BAD)
            title = before.title or Run(folder, {}).title
            return replace(before, title=title, waiting=str(error), remarks=(remark,))
        scene = scene_of(chart)
        texts = {k: v for k, v in chart.provenance.items() if k not in ("title", "export_time")}
        scene = replace(scene, chart=replace(chart, provenance=texts))
        pings = _pings(folder) if run.saved else NOWHERE
        if len(pings) <= len(scene.pings):
            return scene
        # The mission goes on: there are more pings than in the map.
        pings = pings if chart.place is None else chart.place.to_projected(pings)
        return replace(scene, pings=pings, line=np.empty(0, dtype=str))


def _state(folder: Path) -> tuple[Notice, ...]:
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
        if (version := version_of(path)) is not None
    ]  # fmt: skip
    if not written:
        homes = " or ".join(f"{home}/" for home in HOMES)
        raise InputError(f"RUN: expected the folder of a run or mission; there is none in {homes}")
    return max(written)[1]


def _pings(folder: Path) -> np.ndarray:
    """Places of the pings of a mission under way [N, 2], from the journal or samples.csv."""
    with suppress(sqlite3.Error, OSError), closing(read_only(folder / DATABASE)) as journal:
        rows = journal.execute("SELECT x, y FROM pings ORDER BY number").fetchall()
        return np.array(rows, dtype=float).reshape(-1, 2)
    with suppress(InputError):
        samples = read_table(folder / "samples.csv", ("x", "y"))
        return np.column_stack((samples["x"], samples["y"]))
    return NOWHERE
