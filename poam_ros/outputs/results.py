"""The mapper's results: samples, map, and pings not in the map (refused or withdrawn)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError
from ..core.files import write_checksums
from ..core.geodesy import GeoReference
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..frontend.events import LoopEvent, Message, MissionFinished, Problem
from ..frontend.refused_pings import WITHDRAWN, RefusedPing, RefusedPings
from ..journal.folder import DATABASE, is_journal, read_mission
from ..journal.interface import DROP, JournalStep, withdrawn_after
from ..journal.tables import UPDATES, read_only, read_refused
from . import folder as files

if TYPE_CHECKING:
    from ..learning.session import SurveySession

#: File of refused pings of a run without a journal, and its columns; unknown cells are empty.
FILE, COLUMNS = "refused.csv", RefusedPing._fields
#: m; maximum distance from the origin, east or north, of a place that is projected.
MAX_DISTANCE = 5e6


@dataclass(frozen=True)
class UnmappedPings:
    """The newest of the ``refused`` by reason; how many pings the journal has in use (``logged``),
    0 without a journal; stamps of the journal's first and last ping in ns (``span_ns``), if any."""

    refused: RefusedPings = field(default_factory=RefusedPings.none)
    logged: int = 0
    span_ns: tuple[int, int] | None = None

    def to_projected(self, place: GeoReference | None) -> UnmappedPings:
        """The same in projected coordinates, if the map has a georeference."""
        if place is None:
            return self
        xyz = self.refused.xyz.copy()
        if place.crs:  # odometry may be far outside any projection
            xyz[~(np.abs(xyz[:, :2]) <= MAX_DISTANCE).all(axis=1), :2] = np.nan
        xyz[:, :2] = place.to_projected(xyz[:, :2])
        return replace(self, refused=replace(self.refused, xyz=xyz))


def write_refused(folder: Path, refused: RefusedPings) -> None:
    """Write refused.csv: ``reason, number, stamp_ns, x, y, z``, the newest of each reason."""
    rows = (
        [*row[:2], row.stamp_ns or "", *map(files.millimetres, row[3:])] for row in refused.rows
    )
    files.write_table(folder / FILE, COLUMNS, rows)


def read_unmapped(folder: Path, live: bool = False) -> UnmappedPings:
    """Read the journal, or else refused.csv or left_out.csv; empty if there is none of them.

    Args:
        folder: of a run or mission.
        live: read the tables alone, and of a damaged journal nothing: quick enough to be repeated.

    Raises:
        InputError: a table is broken, or something of the journal is lost.
    """
    if not live and is_journal(folder):
        logged = read_mission(folder / DATABASE).logged
        pings = logged.samples
        out = pings[np.fromiter(withdrawn_after(logged.steps), np.int64)]
        left_out = logged.refused.more(WITHDRAWN, out.stamp_ns, out.xyz)
        stamps = pings.stamp_ns
        span_ns = (int(stamps.min()), int(stamps.max())) if len(pings) else None
        return UnmappedPings(left_out, _count(len(pings), logged.steps), span_ns)
    refused, count, span_ns = None, 0, None
    with suppress(sqlite3.Error, OSError), closing(read_only(folder / DATABASE)) as log:
        query = "SELECT count(*), min(stamp_ns), max(stamp_ns) FROM pings"
        pings, *ends = log.execute(query).fetchone()
        span_ns = (ends[0], ends[1]) if pings else None
        count = _count(pings, [JournalStep(*row[1:]) for row in log.execute(UPDATES)])
        refused = read_refused(log)
    written = [path for name in (FILE, files.LEFT_OUT) if (path := folder / name).exists()]
    if refused is None:
        refused = _read_refused(written[0]) if written else RefusedPings.none()
    return UnmappedPings(refused, count, span_ns)


def _count(pings: int, steps: Sequence[JournalStep]) -> int:
    """Accepted pings, neither dropped nor withdrawn."""
    left_out = set(withdrawn_after(steps))
    for step in steps:
        if step.kind == DROP:
            left_out.update(range(step.first, step.last + 1))
    return pings - len(left_out)


def _read_refused(path: Path) -> RefusedPings:
    """The pings of refused.csv; or of a log's left_out.csv, without those that are held out."""
    numbered = path.name == FILE
    rows = files.read_records(path, COLUMNS if numbered else ("reason", "time", "x", "y", "z"))
    counts: Counter[str] = Counter()
    pings = []
    try:
        for row in rows:
            reason = row["reason"]
            number, stamp_ns = counts[reason], _stamp_ns(row.get("time", ""))
            if numbered:
                number, stamp_ns = int(row["number"]), int(row["stamp_ns"] or 0)
            counts[reason] += 1
            if reason != files.HELD_OUT:
                xyz = (float(row[k] or "nan") for k in "xyz")
                pings.append(RefusedPing(reason, number, stamp_ns, *xyz))
        return RefusedPings.of(pings)
    except (ValueError, OverflowError) as error:
        expected = "numbers in all columns but reason" if numbered else "times and numbers in m"
        raise InputError(f"{path}: expected {expected} ({error})") from None


def _stamp_ns(time: str) -> int:
    """A time of left_out.csv: UTC, s since the log's beginning, or empty (0)."""
    if time.endswith("Z"):
        return int(np.datetime64(time[:-1], "ns").astype(np.int64))
    return round(float(time or 0) * SECOND)


class ResultFolder:
    """The mapper's part of a run's folder: samples.csv, refused.csv and map.npz.

    Args:
        path: of the folder; empty: nothing is written.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.folder = files.make_folder(Path(path).expanduser()) if path else None

    def write(
        self, latest: ElevationMap | None, samples: Samples, refused: RefusedPings
    ) -> list[str]:
        """Write the results; returns the names of the files of samples and map.

        Raises:
            OSError: they cannot be written.
        """
        if self.folder is None:
            return []
        names = ["samples.csv"]
        write_refused(self.folder, refused)
        files.write_samples(self.folder / "samples.csv", samples.xy, samples.z)
        if latest is not None:
            names.append("map.npz")
            files.write_map(self.folder / "map.npz", latest)
        write_checksums(self.folder, [FILE, *names])
        return names

    def write_partial(
        self, latest: ElevationMap | None, samples: Samples, refused: RefusedPings
    ) -> list[str]:
        """As ``write``, for an interrupted mission: a pilot survey alone does not replace the
        results of an earlier run."""
        if self.folder is None or not len(samples):
            return []
        earlier = (self.folder / "map.npz").exists()
        return [] if latest is None and earlier else self.write(latest, samples, refused)


class SessionResults(ResultFolder):
    """The results of a survey session, in the folder ``output``, or else its mission folder.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, session: SurveySession, output: str) -> None:
        super().__init__(output or str(session.journal.folder or ""))
        self._session, self._failed = session, False

    def finish(self, finished: MissionFinished) -> str:
        """Write the results of a finished mission; returns the names of the files, as text.

        Raises:
            OSError: they cannot be written.
        """
        self._failed = True  # until they are written: the disk may be full
        names = self.write(finished.map, finished.samples, self._session.refused_and_withdrawn)
        self._failed = False
        return self._text(names)

    def write_interrupted(
        self, now: Moment, busy: bool, take: Callable[[LoopEvent], object]
    ) -> str:
        """Write what an interrupted mission has, or one whose results could not be written;
        returns what was written, as text.

        Args:
            now: the present time.
            busy: whether the model's thread still works.
            take: called with what the model loop does at the end.

        Raises:
            OSError: the results cannot be written.
        """
        session = self._session
        if session.status.finished and not self._failed:
            return ""
        for outcome in () if busy else session.wrap_up(now):
            take(outcome)
        drawn = session.map
        if busy and session.journal.folder is not None:
            drawn, text = None, "its map is not written, but poam map makes it from the journal"
            take(Problem(Message("busy", f"the model is still busy: {text}"), error=False))
        return self._text(
            self.write_partial(drawn, session.all_samples(), session.refused_and_withdrawn)
        )

    def _text(self, names: list[str]) -> str:
        return f"wrote {' and '.join(names)} in {self.folder}" if names else ""
