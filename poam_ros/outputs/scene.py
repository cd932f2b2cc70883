"""What a page shows at one moment, and the folder that it is read from, again while that grows."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..core.errors import InputError, quantity
from ..core.files import read_json
from ..frontend.events import PAUSED
from ..frontend.refused_pings import MAX_PER_REASON, RefusedPings
from ..journal.folder import DATABASE, PLANNER
from ..journal.tables import read_only
from ..mission.mission import Status
from .chart import Chart, ExportSettings, read_chart
from .crossings import FILE as CROSSINGS
from .figures import CURVES
from .folder import LEFT_OUT, MAP, SAVED, check_run, read_table
from .run import REFUSED, Run, read_unmapped

#: Severity of a notice.
GOOD, NOTE, BAD = "good", "note", "bad"

#: Places of a finished map's track on a page, and of its refused pings, at most: of more, every
#: Nth.
MAX_PLACES = 20_000
#: Steps of a track so many times longer than usual are no track.
JUMP = 10.0
#: Files that are read, and read again when they change.
FILES = (
    MAP, SAVED, "samples.csv", "epochs.csv", "config.yaml", REFUSED, LEFT_OUT, CROSSINGS, DATABASE,
)  # fmt: skip
#: The database's write-ahead log, and how often it is checked, in s.
AHEAD, AHEAD_S = f"{DATABASE}-wal", 5.0
#: Columns of epochs.csv that are wall times.
SECONDS, TIMES = {"update_s": "update", "predict_s": "prediction"}, "Time"
#: Where folders are looked for if none is named.
HOMES = Path("runs"), Path("missions")
Versions = tuple[tuple[int, int, int] | None, ...]


#: No places [0, 2].
NOWHERE = np.empty((0, 2))


@dataclass(frozen=True)
class Notice:
    """A message on the page: text, advice and severity."""

    text: str
    advice: str = ""
    mark: str = GOOD


@dataclass(frozen=True)
class Curves:
    """Values over samples [N]; NaN where unknown.

    Attributes:
        samples: [N], ascending.
        tabs: metrics by their titles, each in a tab of its own; and in ``TIMES`` wall times in s,
            by what took them.
    """

    samples: np.ndarray = field(default_factory=lambda: np.empty(0))
    tabs: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A survey at one moment. Places are [N, 2] in m, as the map's.

    Attributes:
        title: of the page.
        chart: the map; None while there is none.
        waiting: text shown while there is no map.
        samples: accepted pings so far, among them some that are not in the map yet.
        pings: accepted pings with known places.
        line: names of the survey lines of the pings [N]; empty where unknown.
        refused: pings that were refused; of a mission the newest of each reason.
        remarks: messages on the page.
    """

    title: str
    chart: Chart | None = None
    waiting: str = ""
    samples: int = 0
    pings: np.ndarray = field(default_factory=lambda: NOWHERE)
    line: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=str))
    refused: RefusedPings = field(default_factory=RefusedPings.none)
    curves: Curves = field(default_factory=Curves)
    remarks: tuple[Notice, ...] = ()

    @property
    def somewhere(self) -> bool:
        """Whether there is a map, or pings."""
        return self.chart is not None or len(self.pings) > 0


def scene_of(chart: Chart, curves: Curves = Curves(), pings: np.ndarray = NOWHERE) -> Scene:
    """The scene of a map; ``pings``: places [N, 2] of more pings than it has, as the mission goes
    on."""
    track, line, others = chart.track, chart.line, chart.unmapped.refused
    if len(pings) > len(track):
        track, line = pings, np.empty(0, dtype=str)
    some = slice(None, None, max(1, -(-len(track) // MAX_PLACES)))
    return Scene(
        chart.provenance["title"], chart, samples=len(track), pings=track[some], line=line[some],
        refused=others, curves=curves, remarks=refused(others),
    )  # fmt: skip


def thinned_refused_pings(refused: RefusedPings) -> RefusedPings:
    """The refused pings that a page draws: those with places, of many every Nth."""
    placed = refused.placed
    return placed[np.arange(0, len(placed), max(1, -(-len(placed) // MAX_PLACES)))]


def track_with_breaks(track: np.ndarray) -> np.ndarray:
    """A track [N, 2] with a place of NaN in each step that is ``JUMP`` times the usual one: there
    it goes on from one line, or day, to the next."""
    steps = np.hypot(*np.diff(track, axis=0).T)
    moved = steps[steps > 0]
    usual = np.median(moved) if len(moved) else np.inf
    return np.insert(track, np.flatnonzero(steps > JUMP * usual) + 1, np.nan, axis=0)


def refused(pings: RefusedPings) -> tuple[Notice, ...]:
    """How many pings were refused, and which of them are drawn; empty without any."""
    counts = pings.counts
    if not counts:
        return ()
    reasons = ", ".join(f"{counts[reason]:,} {reason}" for reason in sorted(counts))
    drawn, total = len(thinned_refused_pings(pings)), sum(counts.values())
    details = f"{drawn:,} of them are drawn at their places"
    if len(pings) < total and max(counts.values()) > MAX_PER_REASON:
        details += f"; only the newest {MAX_PER_REASON:,} of each reason are known"
    return (Notice(f"{total:,} pings refused: {reasons}", details, NOTE),)


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
        shown = {k: v for k, v in chart.provenance.items() if k not in ("title", "export_time")}
        pings = _pings(folder) if run.saved else NOWHERE
        if len(pings) and chart.place is not None:
            pings = chart.place.to_projected(pings)
        return replace(scene_of(chart, curves, pings), chart=replace(chart, provenance=shown))

    def _without_map(self, run: Run, curves: Curves) -> Scene:
        pings, text = _pings(self._folder), f"no {MAP} in {self._folder} yet"
        if len(pings):
            text += f"; {quantity(len(pings), 'ping')} so far"
        others = read_unmapped(self._folder, live=True)
        return Scene(
            run.title, waiting=f"waiting for the first map: {text}", samples=len(pings),
            pings=pings, refused=others.refused, curves=curves, remarks=refused(others.refused),
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
    return NOWHERE


def _curves(path: Path) -> Curves:
    """The curves of an epochs.csv; empty if it is missing or broken."""
    try:
        rows = read_table(path, ("samples",))
    except InputError:
        return Curves()
    seconds = {title: rows[name] for name, title in SECONDS.items() if name in rows}
    tabs = {t: {t: rows[k]} for k, t in CURVES.items() if k in rows and k not in SECONDS}
    return Curves(rows["samples"], {**tabs, **({TIMES: seconds} if seconds else {})})
