"""A run's folder as values: its settings, map and samples, each read once, and the pings that are
not in the map (refused or withdrawn); and the mapper's part of it as it is written."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError
from ..core.files import verify, write_checksums
from ..core.geodesy import GeoReference
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.reading import read_yaml
from ..core.samples import Samples
from ..core.settings import flat
from ..frontend.events import LoopEvent, MissionFinished, Problem
from ..frontend.refused_pings import WITHDRAWN, RefusedPing, RefusedPings
from ..journal.folder import DATABASE, is_journal, read_mission
from ..journal.tables import DROP, UPDATES, JournalStep, read_only, read_refused, withdrawn_after
from . import folder as files
from .held_out import OTHER_SURVEY

if TYPE_CHECKING:
    import xarray

    from ..learning.session import SurveySession

log = logging.getLogger(__name__)

#: The settings of a run, in its folder.
CONFIG = "config.yaml"
#: File of refused pings of a run without a journal, and its columns; unknown cells are empty.
REFUSED, REFUSED_COLUMNS = "refused.csv", RefusedPing._fields
#: m; maximum distance from the origin, east or north, of a place that is projected.
MAX_DISTANCE = 5e6


@dataclass(frozen=True)
class Run:
    """A run's or mission's folder. What it holds is read when it is first asked for, and kept.

    Attributes:
        folder: of the run.
        settings: the contents of its config.yaml; empty if it has none.
        saved: the folder of a map saved during the mission, if that is shown.
    """

    folder: Path
    settings: Mapping[str, Any]
    saved: Path | None = None

    @classmethod
    def open(cls, folder: str | os.PathLike[str], live: bool = False) -> Run:
        """The run in a folder.

        ``live``: with the map that was written last, among those saved during the mission.

        Raises:
            InputError: there is no such folder, or its config.yaml is no YAML, damaged or of
                another layout.
        """
        path = Path(folder)
        files.check_run(path)
        saved = files.newest_map(path) if live else path
        if saved == path:
            return cls(path, read_settings(path))
        return cls(path, read_settings(path) or read_settings(saved), saved)

    @classmethod
    def of(cls, run: Run | str | os.PathLike[str]) -> Run:
        """The run itself, or the one in a folder. Raises as ``open``."""
        return run if isinstance(run, Run) else cls.open(run)

    @property
    def home(self) -> Path:
        """The folder of map and samples."""
        return self.saved or self.folder

    @cached_property
    def drawn(self) -> ElevationMap:
        """The map as the model drew it: that of a mission has values everywhere, for planners.

        Raises:
            InputError: map.npz is missing or damaged.
        """
        return files.read_map(self.home / files.MAP)

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        """The columns of samples.csv, each [N]: at least x and y, in m.

        Raises:
            InputError: samples.csv is missing or damaged, or lacks a column.
        """
        return files.read_table(self.home / "samples.csv", ("x", "y"))

    @cached_property
    def mapped(self) -> dict[str, np.ndarray]:
        """As ``samples``, without those that came after the map was drawn."""
        count = self.drawn.samples or None
        return {name: values[:count] for name, values in self.samples.items()}

    @cached_property
    def xy(self) -> np.ndarray:
        """Places of the samples in the map [N, 2], in m."""
        return np.column_stack((self.mapped["x"], self.mapped["y"]))

    @cached_property
    def map(self) -> ElevationMap:
        """The map; NaN where the samples say nothing about the bottom.

        Raises:
            InputError: a file is missing or damaged.
        """
        drawn, pings = self.drawn, self.mapped
        # `poam map` decided itself what its map shows.
        if "shown" in self.settings or "z" not in pings:
            return drawn
        return drawn.only(drawn.known(self.xy, pings["z"]))

    @cached_property
    def epochs(self) -> dict[str, np.ndarray]:
        """The columns of epochs.csv, each [epochs]. Raises an InputError if it is missing or
        damaged."""
        return files.read_table(self.folder / "epochs.csv", files.EPOCH_COLUMNS)

    @cached_property
    def truth(self) -> tuple[Grid, np.ndarray]:
        """The true bottom of a simulated run, elevation [rows, columns] in m, and its grid. Raises
        an InputError if truth.npz is missing or damaged."""
        return files.read_truth(self.folder / "truth.npz")

    @cached_property
    def outline(self) -> tuple[np.ndarray, ...]:
        """Rings [K, 2] of the polygons where the map ends, islands too, in m; empty without.

        Raises:
            InputError: outline.csv is damaged.
        """
        if not (path := self.folder / files.OUTLINE).exists():
            return ()
        table = files.read_table(path, files.OUTLINE_COLUMNS)
        ends = np.flatnonzero((np.diff(table["polygon"]) != 0) | (np.diff(table["ring"]) != 0)) + 1
        return tuple(np.split(np.column_stack((table["x"], table["y"])), ends))

    @property
    def simulated(self) -> bool:
        """Whether its pings are simulated."""
        return bool(self.settings.get("simulated"))

    @property
    def title(self) -> str:
        """The title given to `poam map`, or else one with the folder's name, without the map- of a
        folder that was named after its log."""
        default = f"Bathymetry of {self.folder.resolve().name.removeprefix('map-')}"
        return str(self.settings.get("title") or default)

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """``origin`` and ``heading`` (degrees), ``water_level`` and ``contour_interval`` (m), as
        far as the settings have them.

        Those of a mapped log are top-level keys. Of nodes, the mapper has the level, and the
        planner the origin; in a map saved by the mapper alone, this has both.
        """
        own = flat({key: value for key, value in self.settings.items() if key != "nodes"})
        planner, mapper = (own | self.node(name) for name in ("planner", "mapper"))
        interval = own.get("contour_interval")
        lengths = {"water_level": mapper.get("water.level"), "contour_interval": interval}
        recorded: dict[str, Any] = {name: _number(value) for name, value in lengths.items()}
        recorded = {name: value for name, value in recorded.items() if value is not None}
        place = planner if planner.get("origin") else mapper
        origin = place.get("origin")
        numbers = [_number(value) for value in origin] if isinstance(origin, list) else []
        # 0, 0 is the planner's default: not given.
        if len(numbers) == 2 and None not in numbers and any(numbers):
            recorded["origin"] = tuple(numbers)
            recorded["heading"] = _number(place.get("heading")) or 0.0
        return recorded

    def check_origin(self, origin: Sequence[float] | None) -> None:
        """Warn if a user's origin (degrees; None: not given) moves the map from where it was."""
        if not origin or not any(origin):
            return
        own = self.recorded.get("origin", origin)
        if not np.allclose(own, origin, rtol=0.0, atol=1e-7):  # 1 cm
            text = "%s: its origin is %.10g %.10g; --origin %.10g %.10g places the map elsewhere"
            log.warning(text, self.folder, *own, *origin)

    @property
    def shared_once(self) -> dict[str, Any]:
        """The settings; if all nodes of a mission have the same, these are there once."""
        config, nodes = dict(self.settings), _mapping(self.settings.get("nodes"))
        if len(nodes) > 1 and all(own == next(iter(nodes.values())) for own in nodes.values()):
            config["nodes"] = {" and ".join(nodes): next(iter(nodes.values()))}
        return config

    @property
    def water_level(self) -> float:
        """Height of the water surface above the map's datum, in m; 0 if unknown."""
        return float(self.recorded.get("water_level", 0.0))

    def node(self, name: str) -> dict[str, Any]:
        """The parameters of a node of a mission, by nested name; empty if it has none."""
        return flat(_mapping(_mapping(self.settings.get("nodes")).get(name)))

    def to_xarray(self) -> xarray.Dataset:
        """The map as a Dataset over y and x (m): mean (m), variance (m^2) and the model's fields.

        Raises:
            InputError: xarray is not installed, or a file is missing or damaged.
        """
        try:
            import xarray
        except ImportError:
            raise InputError("to_xarray needs xarray (pip install xarray)") from None
        drawn = self.map
        layers = {"mean": drawn.mean, "variance": drawn.variance, **drawn.fields}
        units = {"mean": "m", "variance": "m2", "lengthscale": "m", OTHER_SURVEY: "m"}
        return xarray.Dataset(
            {
                name: (("y", "x"), np.asarray(values), {"units": units.get(name, "1")})
                for name, values in layers.items()
            },
            {"x": ("x", drawn.grid.x, {"units": "m"}), "y": ("y", drawn.grid.y, {"units": "m"})},
            {"title": self.title, "samples": drawn.samples},
        )


def read_settings(folder: Path) -> dict[str, Any]:
    """The contents of a run's config.yaml; empty if it has none.

    Raises:
        InputError: config.yaml is there, but is no YAML, damaged, or of another layout.
    """
    path = folder / CONFIG
    try:
        verify(path)
        settings = _mapping(read_yaml(path))
    except FileNotFoundError:
        return {}
    except (OSError, InputError) as error:
        raise InputError(f"{path}: expected YAML ({error})") from None
    known = files.LAYOUT
    if (layout := settings.pop("layout", known)) != known:
        raise InputError(f"{path}: expected layout {known}, got {layout!r}, of another version")
    return settings


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None


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
    files.write_table(folder / REFUSED, REFUSED_COLUMNS, rows)


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
    written = [path for name in (REFUSED, files.LEFT_OUT) if (path := folder / name).exists()]
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
    numbered = path.name == REFUSED
    columns = REFUSED_COLUMNS if numbered else ("reason", "time", "x", "y", "z")
    rows = files.read_records(path, columns)
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


def write_results(
    folder: Path, latest: ElevationMap | None, samples: Samples, refused: RefusedPings
) -> list[str]:
    """Write the mapper's part of a run's folder: refused.csv, samples.csv, and map.npz if there is
    a map; returns the names of the latter two.

    Raises:
        OSError: they cannot be written.
    """
    names = ["samples.csv"]
    write_refused(folder, refused)
    files.write_samples(folder / "samples.csv", samples.xy, samples.z)
    if latest is not None:
        names.append(files.MAP)
        files.write_map(folder / files.MAP, latest)
    write_checksums(folder, [REFUSED, *names])
    return names


class SessionResults:
    """The results of a survey session, in the folder ``output``, or else its mission folder.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, session: SurveySession, output: str) -> None:
        path = output or str(session.journal.folder or "")
        self.folder = files.make_folder(Path(path).expanduser()) if path else None
        self._session, self._failed = session, False

    def finish(self, finished: MissionFinished) -> str:
        """Write the results of a finished mission; returns the names of the files, as text.

        Raises:
            OSError: the results cannot be written.
        """
        self._failed = True  # until they are written: the disk may be full
        text = self._write(finished.map, finished.samples)
        self._failed = False
        return text

    def write_interrupted(
        self, now: Moment, busy: bool, take: Callable[[LoopEvent], object]
    ) -> str:
        """Write what an interrupted mission has, or one whose results could not be written; a pilot
        survey alone does not replace the results of an earlier run. Returns what was written, as
        text.

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
        drawn, samples = session.map, session.all_samples()
        if busy and session.journal.folder is not None:
            drawn, text = None, "its map is not written, but poam map makes it from the journal"
            take(Problem("busy", f"the model is still busy: {text}", error=False))
        earlier = self.folder is not None and (self.folder / files.MAP).exists()
        if not len(samples) or (drawn is None and earlier):
            return ""
        return self._write(drawn, samples)

    def _write(self, latest: ElevationMap | None, samples: Samples) -> str:
        if self.folder is None:
            return ""
        refused = self._session.refused_and_withdrawn
        names = write_results(self.folder, latest, samples, refused)
        return f"wrote {' and '.join(names)} in {self.folder}"
