"""A run's map ready for export: north up, with its layers and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

import numpy as np

from .. import __version__
from ..core.errors import InputError, pasted
from ..core.geodesy import HEADING, LOCAL, GeoReference, VerticalDatum, vertical_datum
from ..core.geometry import Extent, Grid
from ..core.settings import Settings, field_of, setting
from ..frontend.pings import water_level_setting
from ..planning.tvu import CONFIDENCE_95, strictest
from .crossings import FILE as CROSSINGS
from .crossings import CrossingTable
from .folder import without_folders
from .held_out import OTHER_SURVEY
from .results import UnmappedPings, read_unmapped
from .run import Run

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
    heading: float = field_of(HEADING)
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
    unmapped: UnmappedPings
    crossings: CrossingTable
    line: np.ndarray
    other_survey: np.ndarray | None
    outline: tuple[np.ndarray, ...]

    @property
    def place(self) -> GeoReference | None:
        """Where the map lies on the Earth; None if that is unknown."""
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

    def height_of(self, elevation: np.ndarray) -> np.ndarray:
        """Elevations, in m, or the depths there, as requested."""
        return self.settings.water_level - elevation if self.settings.depth else elevation

    @property
    def height(self) -> np.ndarray:
        """Elevation or depth [rows, columns], in m, as requested."""
        return self.height_of(self.elevation)

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
    run, place, code = Run.of(run), settings.place, settings.vertical_datum
    folder, drawn = run.folder, run.map
    datum = None if code is None else vertical_datum(code, settings.depth)
    if settings.depth and datum and settings.water_level and not datum.is_water:
        raise InputError(
            f"vertical_datum: depths below a water level of {settings.water_level:g} m are not "
            f"depths below EPSG:{code} ({datum.name}); expected --water-level 0, or EPSG:5831"
        )
    values = [drawn.mean, np.sqrt(drawn.variance), drawn.lengthscale]
    values += [own for name, own in drawn.fields.items() if name == OTHER_SURVEY]
    grid, values = _north_up(drawn.grid, values, place)
    mean, deviation, lengthscale, *further = values
    track, support, *outline = (
        xy if place is None else place.to_projected(xy)
        for xy in (run.xy, drawn.support, *run.outline)
    )
    texts = _provenance(run, settings, datum)
    others = read_unmapped(folder, live).to_projected(place)
    if others.logged > drawn.samples > 0:  # killed, after a map that an earlier life had left
        texts["missing"] = (
            f"{others.logged - drawn.samples} of the journal's {others.logged} pings; the map of "
            f"the whole journal: {pasted('map', folder)}"
        )
    return Chart(
        grid, mean, deviation, density=np.where(np.isfinite(mean), grid.counted(track), np.nan),
        track=track, settings=settings, datum=datum, provenance=texts, lengthscale=lengthscale,
        support=support, unmapped=others, outline=tuple(outline),
        crossings=CrossingTable.read(folder / CROSSINGS).to_projected(place),
        line=run.mapped.get("line", np.empty(0, dtype=str)),
        other_survey=further[0] if further else None,
    )  # fmt: skip


def _north_up(
    own: Grid, values: Sequence[np.ndarray], place: GeoReference | None
) -> tuple[Grid, list[np.ndarray]]:
    """Grid and values; if the map is rotated, interpolated to cells of the same size."""
    if place is None or place.north_up:
        return own, list(values)
    size = float(min(np.diff(own.x[:2])[0], np.diff(own.y[:2])[0]))
    inside = place.to_projected(Grid.nodes(own.borders, 101, 101).points)
    (west, south), (east, north) = inside.min(0), inside.max(0)
    grid = Grid.cells(Extent(west, east, south, north), size)
    layers = np.full((len(values), *grid.shape), np.nan)
    for begin in range(0, grid.shape[0], _ROWS):
        part = Grid(grid.x, grid.y[begin : begin + _ROWS])
        places = place.to_map(part.points)
        known = own.borders.contains(places, slack=1e-6 * size)
        for layer, value in zip(layers, values, strict=True):
            turned = np.where(known, own.interpolate(value, places), np.nan)
            layer[begin : begin + _ROWS] = turned.reshape(part.shape)
    return grid, list(layers)


def _provenance(run: Run, settings: ExportSettings, datum: VerticalDatum | None) -> dict[str, str]:
    """Version, settings, samples, datum and time, as texts."""
    place, config, drawn = settings.place, run.shared_once, run.drawn
    level = f"{round(settings.water_level, 3):g} m"
    simulated = " (simulated time)" if run.simulated else ""
    if datum is not None:
        height = f"EPSG:{datum.code} {datum.name}"
    elif settings.water_level:
        height = f"not named: the height that the water level of {level} counts from"
    else:
        height = "not given: that of the soundings"
    return {
        "title": f"SIMULATED: {run.title}" if run.simulated else run.title,
        **({"remarks": str(config["remarks"])} if config.get("remarks") else {}),
        "software": f"poam_ros {__version__}",
        "samples": str(len(run.xy)),
        **({"map_time": clock_time(drawn.stamp_ns) + simulated} if drawn.stamp_ns else {}),
        "export_time": _utc(datetime.now(timezone.utc).timestamp()),
        "vertical_datum": height,
        "water_level": f"{level} above the datum",
        "origin": "not given: coordinates of the map frame"
        if place is None
        else f"{place.latitude:.12g} {place.longitude:.12g} (WGS 84), heading {place.heading:g}",
        "uncertainty": "predictive, of a Gaussian process, noise included; 95 %: 1.96 sigma; "
        "not an estimate from repeated soundings",
        "density": "pings per cell; cells with 0 are interpolated",
        "settings": json.dumps(without_folders(config) or None, default=str),
        **({"simulated": SIMULATED} if run.simulated else {}),
    }


def clock_time(stamp_ns: int) -> str:
    """A stamp as text: UTC, or seconds of a clock that started with the run."""
    seconds = stamp_ns / 1e9
    return _utc(seconds) if stamp_ns > _THIS_CENTURY else f"{seconds:.3f} s of the run's clock"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
