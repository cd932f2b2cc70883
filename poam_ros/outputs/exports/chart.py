"""A run's map ready for export: north up, with its layers and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...core.errors import InputError, pasted
from ...core.geodesy import LOCAL, GeoReference, VerticalDatum, map_heading, vertical_datum
from ...core.geometry import Extent, Grid
from ...core.maps import ElevationMap
from ...core.settings import Settings, setting
from ...frontend.settings import water_level_setting
from ...planning.tvu import CONFIDENCE_95, strictest
from ..crossings import FILE as CROSSINGS
from ..crossings import CrossingTable
from ..folder import OUTLINE, OUTLINE_COLUMNS, read_table, without_folders
from ..held_out import OTHER_SURVEY
from ..results import UnmappedPings, read_unmapped
from ..run import Run

#: Units of contours, in m.
UNITS = {"m": 1.0, "ft": 0.3048, "fathom": 1.8288}
#: The note on a map whose pings are simulated.
SIMULATED = "yes: a simulated vehicle made the soundings, over no real bottom"
#: ns; later stamps count from 1970, earlier ones from the start of the run.
_THIS_CENTURY = 10**18
#: Rows of a rotated map that are interpolated at a time.
_ROWS = 128


@dataclass(frozen=True)
class ExportSettings(Settings):
    """How a map is exported.

    Attributes:
        origin: latitude and longitude of the map's (0, 0), in degrees.
        utm: use the origin's UTM zone, not the local projection around the origin.
        crs: use this projected system (``EPSG:N``), not the local projection; empty: none.
        vertical_datum: EPSG code of the map's vertical datum.
        depth: export depths below the water level, positive down, instead of elevations.
        units: of contours and of the interval between them, a key of ``UNITS``.

    Raises:
        InputError: if a value is out of its range.
    """

    origin: tuple[float, float] | None = None
    heading: float = map_heading()
    utm: bool = False
    crs: str = ""
    vertical_datum: int | None = None
    depth: bool = False
    units: str = "m"
    water_level: float = water_level_setting()
    clearance: float = setting(
        0.0, "Mark cells of a Nav2 map as free where the water is deeper than this at 95 %", "m",
        minimum=0.0, maximum=1e5,
    )  # fmt: skip

    contour_interval: float = setting(
        0.0, "Interval between contours. 0: a round value that gives about 12 contours", "m",
        minimum=0.0, maximum=1e5,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units not in UNITS:
            raise InputError(f"units: expected one of {', '.join(UNITS)}, got '{self.units}'")
        if self.origin is None and (self.heading or self.utm or self.crs):
            raise InputError("heading, utm and crs: expected an origin as well (--origin LAT LON)")
        if self.utm and self.crs:
            raise InputError(f"crs: expected it without utm, got {self.crs}")
        place = self.place
        if place and place.crs and np.isnan(place.to_projected(np.zeros((1, 2)))).any():
            raise InputError(f"crs: the origin is outside {place.crs}")

    @property
    def place(self) -> GeoReference | None:
        """The georeference; None without an origin."""
        crs = "UTM" if self.utm else self.crs
        return None if self.origin is None else GeoReference(*self.origin, self.heading, crs)


@dataclass(frozen=True)
class Chart:
    """A map to export; NaN outside the cells of a rotated map.

    Attributes:
        grid: centres of the cells, x east and y north with a georeference, else the map's own.
        elevation: positive up from the vertical datum [rows, columns], in m; row 0 is south.
        deviation: standard deviation of the elevation, with noise [rows, columns], in m.
        density: pings per cell [rows, columns]; 0: the cell is interpolated.
        track: the pings [N, 2], in the grid's coordinates.
        settings: how it is exported.
        datum: of the elevations or depths; None if not given.
        provenance: texts by name.
        lengthscale: [rows, columns], in m; NaN where the model has none.
        support: inducing inputs [M, 2], in the grid's coordinates.
        unmapped: pings that are not in the map, in the grid's coordinates.
        crossings: of survey lines, in the grid's coordinates.
        line: names of the survey lines of the track [N]; empty where unknown.
        other_survey: standard deviation of what another survey measures [rows, columns], in m;
            None: as ``deviation``, as the survey shows no errors of its own.
        outline: rings [K, 2] of the polygons where the map ends, islands too, in the grid's
            coordinates; empty without an outline.
    """

    grid: Grid
    elevation: np.ndarray
    deviation: np.ndarray
    density: np.ndarray
    track: np.ndarray
    settings: ExportSettings
    datum: VerticalDatum | None
    provenance: Mapping[str, str]
    lengthscale: np.ndarray
    support: np.ndarray
    unmapped: UnmappedPings = field(default_factory=UnmappedPings)
    crossings: CrossingTable = field(default_factory=CrossingTable.none)
    line: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=str))
    outline: tuple[np.ndarray, ...] = ()
    other_survey: np.ndarray | None = None

    @property
    def place(self) -> GeoReference | None:
        return self.settings.place

    @cached_property
    def lines(self) -> list[tuple[str, np.ndarray]]:
        """Name and soundings [N, 2] of each survey line, in the order of the track; none if
        unknown."""
        if len(self.line) != len(self.track):
            return []
        names, first, own = np.unique(self.line, return_index=True, return_inverse=True)
        ends = np.cumsum(np.bincount(own))[:-1]
        pieces = np.split(self.track[np.argsort(own, kind="stable")], ends)
        return [(str(names[i]), pieces[i]) for i in np.argsort(first) if names[i]]

    @property
    def depth(self) -> np.ndarray:
        """Depth below the water level [rows, columns], in m, positive down."""
        return self.settings.water_level - self.elevation

    @property
    def uncertainty(self) -> np.ndarray:
        """Half the width of the 95 % interval on the map's own frame [rows, columns], in m."""
        return CONFIDENCE_95 * self.deviation

    @property
    def uncertainty_other_survey(self) -> np.ndarray:
        """The same of what another survey measures."""
        other = self.other_survey
        return self.uncertainty if other is None else CONFIDENCE_95 * other

    @property
    def tvu(self) -> np.ndarray:
        """Number of ``planning.tvu.LEVELS`` that a cell is within; NaN for dry cells."""
        return strictest(self.depth, self.deviation)

    @property
    def height_name(self) -> str:
        """Name of ``height``."""
        return "depth" if self.settings.depth else "elevation"

    @property
    def height(self) -> np.ndarray:
        """Elevation or depth [rows, columns], in m, as requested."""
        return self.depth if self.settings.depth else self.elevation

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of a cell, in m."""
        return self.grid.cell_size

    @property
    def crs_wkt(self) -> str:
        """The coordinate system as well-known text; compound with a vertical datum."""
        if self.place is None:
            return LOCAL
        system = self.place.system()
        wkt = system.to_wkt("WKT1_GDAL")
        if self.datum is None:
            return wkt
        return f'COMPD_CS["{system.name} + {self.datum.name}",{wkt},{self.datum.wkt}]'


def read_chart(run: Run | Path, settings: ExportSettings, live: bool = False) -> Chart:
    """The map of a run, ready for export.

    Args:
        run: the run, or its folder.
        settings: how it is exported.
        live: see ``read_unmapped``.

    Raises:
        InputError: if a file is missing or broken, or the vertical datum does not fit.
    """
    run = Run.of(run)
    folder, drawn, track = run.folder, run.map, run.xy
    code = settings.vertical_datum
    datum = None if code is None else vertical_datum(code, settings.depth)
    if settings.depth and datum and settings.water_level and not datum.is_water:
        raise InputError(
            f"vertical_datum: depths below a water level of {settings.water_level:g} m are not "
            f"depths below EPSG:{code} ({datum.name}); expected --water-level 0, or EPSG:5831"
        )
    place = settings.place
    deviation, other = np.sqrt(drawn.variance), drawn.fields.get(OTHER_SURVEY)
    own = (drawn.mean, deviation, drawn.lengthscale, deviation if other is None else other)
    grid, (mean, deviation, lengthscale, further) = _north_up(drawn.grid, own, place)
    support = drawn.support
    if place is not None:
        track, support = place.to_projected(track), place.to_projected(support)
    density = np.where(np.isfinite(mean), grid.counted(track), np.nan)
    texts = _provenance(run, settings, datum)
    others = read_unmapped(folder, live).to_projected(place)
    crossings = CrossingTable.read(folder / CROSSINGS).to_projected(place)
    if missing := _missing(drawn, others):  # killed, after a map that an earlier life had left
        texts["missing"] = f"{missing}; the map of the whole journal: {pasted('map', folder)}"
    return Chart(
        grid=grid,
        elevation=mean,
        deviation=deviation,
        density=density,
        track=track,
        settings=settings,
        datum=datum,
        provenance=texts,
        lengthscale=lengthscale,
        support=support,
        unmapped=others,
        crossings=crossings,
        line=run.mapped.get("line", np.empty(0, dtype=str)),
        outline=_outline(folder, place),
        other_survey=None if other is None else further,
    )


def _outline(folder: Path, place: GeoReference | None) -> tuple[np.ndarray, ...]:
    """The rings of a run's outline.csv, if it has one."""
    if not (folder / OUTLINE).exists():
        return ()
    table = read_table(folder / OUTLINE, OUTLINE_COLUMNS)
    corners = np.column_stack((table["x"], table["y"]))
    corners = corners if place is None else place.to_projected(corners)
    changes = np.diff(table["polygon"]).astype(bool) | np.diff(table["ring"]).astype(bool)
    return tuple(np.split(corners, np.flatnonzero(changes) + 1))


def _missing(drawn: ElevationMap, others: UnmappedPings) -> str:
    """What the journal has that the map lacks, as text."""
    if others.logged > drawn.samples > 0:
        return f"{others.logged - drawn.samples} of the journal's {others.logged} pings"
    return ""


def _north_up(
    own_grid: Grid, values: Sequence[np.ndarray], place: GeoReference | None
) -> tuple[Grid, Sequence[np.ndarray]]:
    """Grid and values; if the map is rotated, interpolated to cells of the same size."""
    if place is None or place.north_up:
        return own_grid, values
    borders = own_grid.borders
    size = float(min(np.diff(own_grid.x[:2])[0], np.diff(own_grid.y[:2])[0]))
    xs = np.linspace(borders.xmin, borders.xmax, 101)
    ys = np.linspace(borders.ymin, borders.ymax, 101)
    sides = [np.column_stack((xs, np.full(101, y))) for y in (borders.ymin, borders.ymax)]
    sides += [np.column_stack((np.full(101, x), ys)) for x in (borders.xmin, borders.xmax)]
    outline = place.to_projected(np.concatenate(sides))
    (west, south), (east, north) = outline.min(0), outline.max(0)
    grid = Grid.cells(Extent(west, east, south, north), size)
    layers = [np.full(grid.shape, np.nan) for _ in values]
    for begin in range(0, grid.shape[0], _ROWS):
        part = Grid(grid.x, grid.y[begin : begin + _ROWS])
        own = place.to_map(part.points)
        inside = borders.contains(own, slack=1e-6 * size)
        for layer, own_layer in zip(layers, values, strict=True):
            turned = np.where(inside, own_grid.interpolate(own_layer, own), np.nan)
            layer[begin : begin + _ROWS] = turned.reshape(part.shape)
    return grid, layers


def _provenance(run: Run, settings: ExportSettings, datum: Any) -> dict[str, str]:
    """Version, settings, samples, datum and time, as texts."""
    place, config, drawn = settings.place, run.shared_once, run.drawn
    level = f"{round(settings.water_level, 3):g} m"
    texts = {
        "title": run.title,
        **({"remarks": str(config["remarks"])} if config.get("remarks") else {}),
        "software": f"poam_ros {__version__}",
        "samples": str(len(run.xy)),
        **({"map_time": clock_time(drawn.stamp_ns)} if drawn.stamp_ns else {}),
        "export_time": _utc(datetime.now(timezone.utc).timestamp()),
        "vertical_datum": f"EPSG:{datum.code} {datum.name}"
        if datum is not None
        else f"not named: the height that the water level of {level} counts from"
        if settings.water_level
        else "not given: that of the soundings",
        "water_level": f"{level} above the datum",
        "origin": "not given: coordinates of the map frame"
        if place is None
        else f"{place.latitude:.12g} {place.longitude:.12g} (WGS 84), heading {place.heading:g}",
        "uncertainty": "predictive, of a Gaussian process, noise included; 95 %: 1.96 sigma; "
        "not an estimate from repeated soundings",
        "density": "pings per cell; cells with 0 are interpolated",
        "settings": json.dumps(without_folders(config) or None, default=str),
    }
    if run.simulated:
        texts["title"] = f"SIMULATED: {texts['title']}"
        texts["simulated"] = SIMULATED
        if drawn.stamp_ns:
            texts["map_time"] += " (simulated time)"
    return texts


def clock_time(stamp_ns: int) -> str:
    """A stamp as text: UTC, or seconds of a clock that started with the run."""
    seconds = stamp_ns / 1e9
    return _utc(seconds) if stamp_ns > _THIS_CENTURY else f"{seconds:.3f} s of the run's clock"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
