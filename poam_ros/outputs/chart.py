"""A run's map ready for export: north up, with its provenance; and its layers for people, the same
in figures and on pages: titles, colours and their limits, and the hillshade. NumPy only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from ..planning.tvu import CONFIDENCE_95, LEVEL_NAMES, strictest
from .crossings import FILE as CROSSINGS
from .crossings import CrossingTable
from .folder import without_folders
from .held_out import OTHER_SURVEY
from .run import Run, UnmappedPings, read_unmapped

#: Units of contours, in m.
UNITS = {"m": 1.0, "ft": 0.3048, "fathom": 1.8288}
#: The note on a map whose pings are simulated.
SIMULATED = "yes: a simulated vehicle made the soundings, over no real bottom"
#: ns; later stamps count from 1970, earlier ones from the start of the run.
_THIS_CENTURY = 10**18
#: Rows of a rotated map that are interpolated at a time.
_ROWS = 128
#: Maximum number of rows or columns on a page; of more, every Nth.
CELLS = 500
COLOURS = 256
#: Colours are interpolated between these. Heights: from deep water to sandy shallows.
RELIEF = ("#0a1f44", "#14507f", "#1f7f9d", "#4fb0a5", "#a5d3a0", "#e6e3a8", "#f7f3dc")
UNCERTAINTY = ("#f4f1ea", "#f3d9a4", "#eeb06a", "#dd7750", "#b03f54", "#6f2059", "#2e0f46")
SCALE = ("#f3f6f1", "#c4dfc6", "#84c0ad", "#4a97a0", "#2f6b8f", "#2a3f76", "#1f1a4d")
COUNT = ("#6da7d0", "#3f7fb5", "#235a93", "#0b2447")
GRADES = ("#c94f4f", "#eab35c", "#c9d46a", "#5fb36b", "#1d7a58")
#: Share of the uncertainties that the colours span: few large ones must not take up the scale.
SPANNED = 0.98
#: Slope that the typical slope is scaled to, so that a flat lake and a canyon both show relief.
SHOWN_SLOPE = math.tan(math.radians(35.0))
#: Opacity of the darkest and of the brightest shade, 0..1.
DARK, BRIGHT = 0.45, 0.3
#: Direction of the light, east, north, up: from the north-west at 45 degrees, as on printed maps.
LIGHT = (-0.5, 0.5, math.sqrt(0.5))
#: Hillshade of a flat bottom.
LEVEL = LIGHT[2]


@dataclass(frozen=True)
class ExportSettings(Settings):
    """How a map is exported.

    Attributes:
        origin: latitude and longitude of the map's (0, 0), in degrees.
        crs: use this projected system (``EPSG:N``), or the origin's UTM zone (``UTM``), not the
            local projection around the origin; empty: none.
        vertical_datum: EPSG code of the map's vertical datum.
        depth: export depths below the water level, positive down, instead of elevations.
        units: of contours and of the interval between them, a key of ``UNITS``.

    Raises:
        InputError: if a value is out of its range.
    """

    origin: tuple[float, float] | None = None
    heading: float = field_of(HEADING)
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
        if self.origin is None and (self.heading or self.crs):
            raise InputError("heading and crs: expected an origin as well (--origin LAT LON)")
        place = self.place
        if place and place.crs and np.isnan(place.to_projected(np.zeros((1, 2)))).any():
            raise InputError(f"crs: the origin is outside {place.crs}")

    @property
    def place(self) -> GeoReference | None:
        """The georeference; None without an origin."""
        if self.origin is None:
            return None
        return GeoReference(*self.origin, self.heading, self.crs)


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
    texts = {
        "title": f"SIMULATED: {run.title}" if run.simulated else run.title,
        "remarks": str(config.get("remarks") or ""),
        "software": f"poam_ros {__version__}",
        "samples": str(len(run.xy)),
        "map_time": clock_time(drawn.stamp_ns) + simulated if drawn.stamp_ns else "",
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
        "simulated": SIMULATED if run.simulated else "",
    }
    return {name: text for name, text in texts.items() if text}


def clock_time(stamp_ns: int) -> str:
    """A stamp as text: UTC, or seconds of a clock that started with the run."""
    seconds = stamp_ns / 1e9
    return _utc(seconds) if stamp_ns > _THIS_CENTURY else f"{seconds:.3f} s of the run's clock"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Layer:
    """An image of a map.

    Attributes:
        key: its name in the page's data.
        title: for people, with the unit.
        values: [rows, columns]; NaN where there is none.
        colours: as `#rrggbb`, from ``low`` to ``high``; lower values are transparent.
        labels: of the integers from 0; empty if values are numbers.
        downward: whether its colour bar has the largest value at the bottom.
    """

    key: str
    title: str
    values: np.ndarray
    colours: tuple[str, ...]
    low: float
    high: float
    labels: tuple[str, ...] = ()
    downward: bool = False

    @property
    def extend(self) -> str:
        """Which ends of its colour bar are pointed, as matplotlib calls it."""
        return "max" if np.nanmax(self.values, initial=self.high) > self.high else "neither"


#: Keys of the layers, in the order of their buttons.
KEYS = ("height", "uncertainty", "lengthscale", "tvu", "density")


def layer_of(chart: Chart, key: str) -> Layer:
    """A layer of a map; ``key``: one of ``KEYS``, which are attributes of a chart."""
    depth, values = chart.settings.depth, getattr(chart, key)
    title, anchors = {
        "height": (f"{chart.height_name.capitalize()} (m)", RELIEF[:: -1 if depth else 1]),
        "uncertainty": ("Uncertainty, 95 % (m)", UNCERTAINTY),
        "lengthscale": ("Lengthscale (m)", SCALE),
        "tvu": ("TVU within", GRADES),
        "density": ("Pings per cell", COUNT),
    }[key]
    if key == "tvu":
        return Layer(key, title, values, anchors, -0.5, len(anchors) - 0.5, LEVEL_NAMES)
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low = float(finite.min())
    high = float(np.quantile(finite, SPANNED) if key == "uncertainty" else finite.max())
    if key == "density":  # without a ping it is transparent; half a ping on either side of a count
        low, high = 0.5, high + 0.5
    high = high if high > low else low + 1.0
    return Layer(key, title, values, mixed(anchors), low, high, downward=depth and key == "height")


def layers(chart: Chart) -> list[Layer]:
    """The layers of a map that have any value, in the order of ``KEYS``."""
    offered = (layer_of(chart, key) for key in KEYS)
    return [layer for layer in offered if np.isfinite(layer.values).any()]


def mixed(anchors: Sequence[str]) -> tuple[str, ...]:
    """``COLOURS`` colours, evenly spaced from the first anchor to the last."""
    rgb = np.array([list(bytes.fromhex(text[1:])) for text in anchors], dtype=float)
    at = np.linspace(0, len(anchors) - 1, COLOURS)
    parts = [np.interp(at, np.arange(len(anchors)), part).round().astype(int) for part in rgb.T]
    return tuple(f"#{r:02x}{g:02x}{b:02x}" for r, g, b in zip(*parts, strict=True))


def stride(shape: tuple[int, int]) -> int:
    """The N of "every Nth row and column is shown", for a map of this shape."""
    # At least three rows and columns, so that the shown cells have borders.
    return max(1, min(math.ceil(max(shape) / CELLS), (min(shape) - 1) // 2 or 1))


def thinned(chart: Chart) -> Chart:
    """Every ``stride``-th row and column of a map: what a page shows of it."""
    step = stride(chart.grid.shape)
    some = slice(step // 2, None, step)
    names = ("elevation", "deviation", "density", "lengthscale")
    shown = {name: getattr(chart, name)[some, some] for name in names}
    return replace(chart, grid=Grid(chart.grid.x[some], chart.grid.y[some]), **shown)


def typical_slope(elevation: np.ndarray, cell: tuple[float, float]) -> float:
    """Root mean square slope of elevations [rows, columns] in m, in m/m; ``cell``: width and
    height of a cell, in m."""
    north, east = np.gradient(elevation, cell[1], cell[0])
    return math.sqrt(float(np.nanmean(north**2 + east**2)))


def scaled_hillshade(
    elevation: np.ndarray, cell: tuple[float, float], typical: float | None = None
) -> np.ndarray:
    """Hillshade of a map [rows, columns], 0..1, by Lambert's law: n . l for the unit normal n and
    the direction of the light l.

    Args:
        elevation: positive up, row 0 south [rows, columns], in m; NaN stays NaN.
        cell: width and height of a cell, in m.
        typical: slope that is shown as ``SHOWN_SLOPE``; None: the map's own.
    """
    typical = typical_slope(elevation, cell) if typical is None else typical
    scale = SHOWN_SLOPE / typical if typical > 0 else 0.0
    north, east = (scale * slope for slope in np.gradient(elevation, cell[1], cell[0]))
    # n = (-dz/dx, -dz/dy, 1) / |...|
    lit = LIGHT[2] - LIGHT[0] * east - LIGHT[1] * north
    return np.clip(lit / np.sqrt(1 + east**2 + north**2), 0.0, 1.0)


def shade(lit: np.ndarray) -> np.ndarray:
    """A hillshade as an overlay [rows, columns], RGBA in uint32: black where darker than level
    ground, white where brighter, transparent where level or NaN."""
    dark = DARK * np.clip((LEVEL - lit) / LEVEL, 0, 1)
    bright = BRIGHT * np.clip((lit - LEVEL) / (1 - LEVEL), 0, 1)
    pixels = np.zeros((*lit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(bright > 0, 255, 0)[..., None]
    pixels[..., 3] = np.nan_to_num(255 * (dark + bright)).round()
    return pixels.view("<u4")[..., 0]
