"""The map of a page: an image for each layer, the hillshade, and what is drawn over them. Needs
bokeh."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..frontend.refused_pings import RefusedPings
from ..planning.tvu import LEVEL_NAMES
from .chart import KEYS, Chart, Layer, clock_time, layers, scaled_hillshade, shade, thinned
from .scene import Scene
from .vectors import levels_of

#: Maximum number of places of a track, and of refused pings; of more, every Nth is drawn.
MAX_PLACES = 20_000
#: Steps of a track so many times longer than usual are no track.
JUMP = 10.0
#: Of a cell without a value: Bokeh calls NaN "NaN", whatever a tooltip's formatter says.
NOTHING = -(2.0**100)
#: Layers of integers, in which values below the lowest colour are shown as a word.
COUNTS = {"tvu", "density"}
#: Font of the page. System fonts only: nothing is fetched.
FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
_SELECT = """
for (const key in images) {
    const on = buttons.tags[buttons.active] == key
    images[key].visible = on
    bars[key].visible = on
}
// Over anything but heights, a shade would be mistaken for a value.
const relief = buttons.tags[buttons.active] == "height"
shading.disabled = !relief
lit.visible = relief && shading.active.length > 0
"""
#: A tooltip beside the pointer would leave a narrow screen at its sides.
_ATTACH = """
const view = Bokeh.index.find_one(figure)
tip.attachment = window.innerWidth > 800 ? 'horizontal' : 'vertical'
for (const box of view?.tool_views.get(tip)?.ttmodels.values() ?? []) {
    box.attachment = tip.attachment
}
"""
#: A finger does not hover: a tap tells of the nearest mark within its reach, or else of the cell.
_TAP = """
const view = Bokeh.index.find_one(figure)
const {sx, sy} = cb_obj
let near = {reach: 15, tip: cell, sx, sy}
for (const [name, tip] of Object.entries(tips)) {
    const {x, y} = marks[name].data_source.data
    for (let i = 0; marks[name].visible && i < x.length; i++) {
        const [px, py] = [view.frame.x_scale.compute(x[i]), view.frame.y_scale.compute(y[i])]
        const reach = Math.hypot(px - sx, py - sy)
        if (reach < near.reach) {
            near = {reach, tip, sx: px, sy: py}
        }
    }
}
// After the finger has left, which removes them.
setTimeout(() => {
    for (const tip of [cell, ...Object.values(tips)]) {
        const tool = view.tool_views.get(tip)
        if (tip === near.tip) {
            tool._move({sx: near.sx, sy: near.sy})
        } else {
            tool._move_exit()
        }
    }
}, 50)
"""
_CLEAR = "rgba(0, 0, 0, 0)"
#: Label of a tick of a colour bar whose values are the negative ones.
_DOWNWARD = "return String(Number((-tick).toPrecision(6)))"
#: Values of the cell under the pointer, by layer: name, and how it is shown.
TIPS = {
    "uncertainty": ("95 %", "@uncertainty{custom}"),
    "lengthscale": ("lengthscale", "@lengthscale{custom}"),
    "tvu": ("TVU within", "@tvu{custom}"),
    "density": ("pings", "@density{custom}"),
}
#: Values that are shown as words, as JavaScript of ``value``.
TOOLTIP_FORMATS = {
    "@degrees": """
        const [x, y, width, height, ...factors] = value.split(' ').map(Number)
        const [u, v] = [(special_vars.x - x) / width, (special_vars.y - y) / height]
        const powers = [1, v, v * v, u, u * v, u * v * v, u * u, u * u * v, u * u * v * v]
        const sum = first => powers.reduce((all, one, i) => all + one * factors[first + i], 0)
        return `${sum(0).toFixed(6)}, ${sum(9).toFixed(6)}`""",
    "@height": f"return value <= {NOTHING} ? 'none' : value.toFixed(2)",
    "@sigma": "return value < 0 ? '' : ` ± ${value.toFixed(2)} m (1 σ)`",
    "@uncertainty": "return value < 0 ? 'none' : `± ${value.toFixed(2)} m`",
    "@lengthscale": "return value < 0 ? 'none' : `${value.toFixed(2)} m`",
    "@tvu": f"return value >= 0 ? {list(LEVEL_NAMES)!r}[value] : value > -2 ? 'dry' : 'none'",
    "@density": "return value > 0 ? String(value) : value < 0 ? 'none' : 'none: interpolated'",
}


class Mark(NamedTuple):
    """What is drawn over the map.

    Attributes:
        name: in the legend.
        way: Bokeh's method.
        style: its options.
        columns: besides x and y.
        tip: lines of the tooltip of the one under the pointer; none: it has none.
        hidden: until it is chosen in the legend.
        few: of more marks, each is smaller, down to ``smallest`` (px); 0: never.
        far: may be far from the map: excluded from the initial view, unless there is nothing else.
    """

    name: str
    way: str
    style: dict[str, Any]
    columns: tuple[str, ...] = ()
    tip: tuple[str, ...] = ()
    hidden: bool = False
    few: int = 0
    smallest: float = 0.0
    far: bool = False


#: In the order of drawing; a scene's columns are those of ``_columns``.
MARKS = {
    "contours": Mark("contours", "line",
        {"line_color": "#16283c", "line_alpha": 0.7, "line_width": 0.7}),
    "track": Mark("track", "line",
        {"line_color": "#0d1b2a", "line_alpha": 0.45, "line_width": 1}, few=2000),
    "pings": Mark("pings", "scatter",
        {"size": 2.5, "fill_color": "#0d1b2a", "fill_alpha": 0.5, "line_color": None}, ("line",),
        few=2000, smallest=1.0),
    "support": Mark("support points", "scatter",
        {"size": 4, "color": "#ffffff", "line_color": "#8a4b00", "marker": "diamond"}, hidden=True),
    "crossings": Mark("crossings", "scatter",
        {"size": 6, "line_color": "#16283c", "fill_color": "#ffd23f", "line_width": 0.6,
         "marker": "square"}, ("lines", "difference", "depths"),
        ("<b>@lines</b>", "difference @difference m", "depths @depths m"), hidden=True),
    "refused": Mark("pings refused", "scatter",
        {"size": 8, "line_color": "#c8372d", "line_width": 1.8, "marker": "x"},
        ("reason", "height", "time"),
        ("<b>refused: @reason</b>", "@height", "@time", "@x{0.0}, @y{0.0} m"), few=100,
        smallest=4.0, far=True),
}  # fmt: skip


class MapPicture:
    """A figure with buttons for its layers. The buttons work in the browser, with no server.

    Attributes:
        figure, buttons, shading: Bokeh's models.
        cells: the data source of all layers: one row, a column for each.
        drawn: a renderer for each of ``MARKS``, with its data source.
        chart: the map; None while there is none.
    """

    def __init__(self) -> None:
        from bokeh import models
        from bokeh.plotting import figure

        self.figure = figure(
            name="map", tools="pan,wheel_zoom,box_zoom,reset,save", active_scroll="wheel_zoom",
            match_aspect=True, sizing_mode="stretch_both", min_height=320, toolbar_location="above",
            x_axis_label="x (m)", y_axis_label="y (m)", background_fill_color="#f7f9fa",
        )  # fmt: skip
        self.figure.toolbar.logo = None
        self.figure.grid.grid_line_color = "#e3e9ee"
        place = ("x", "y", "width", "height_m", "degrees")
        columns: dict[str, list[Any]] = {name: [] for name in (*place, *KEYS, "sigma", "shade")}
        self.cells = models.ColumnDataSource(columns, name="cells")
        self._images: dict[str, Any] = {}
        self._bars: dict[str, Any] = {}
        for key in KEYS:
            mapper = models.LinearColorMapper(palette=["#ffffff", "#000000"], low=0, high=1,
                nan_color=_CLEAR, low_color=_CLEAR)  # fmt: skip
            self._images[key] = self.figure.image(
                key, *place[:4], source=self.cells, color_mapper=mapper, visible=False
            )
            self._bars[key] = models.ColorBar(color_mapper=mapper, visible=False, width=14,
                border_line_color=None, background_fill_color=None, padding=8)  # fmt: skip
            self.figure.add_layout(self._bars[key], "right")
        self._bars["density"].ticker = models.BasicTicker(min_interval=1)  # of counts
        lit = self.figure.image_rgba("shade", *place[:4], source=self.cells)
        self.figure.add_layout(
            models.ScaleBar(range=self.figure.x_range, unit="m", location="top_left",
                bar_length=0.2, background_fill_alpha=0, border_line_color=None, padding=0),
            "below",  # inside, it would hide the map
        )  # fmt: skip
        formatters = {
            name: models.CustomJSHover(code=code) for name, code in TOOLTIP_FORMATS.items()
        }
        self._hover = models.HoverTool(
            renderers=list(self._images.values()), formatters=formatters, tooltips=None
        )
        self.figure.add_tools(self._hover)
        tips = self._add_marks()
        self.buttons = models.RadioButtonGroup(labels=[], active=None, name="layers",
            stylesheets=[".bk-btn-group{flex-wrap:wrap}"])  # fmt: skip
        self.shading = models.CheckboxGroup(
            labels=["hillshade"], active=[0], width=100, align="center"
        )
        parts = {"images": self._images, "bars": self._bars, "buttons": self.buttons,
            "shading": self.shading, "lit": lit}  # fmt: skip
        select = models.CustomJS(args=parts, code=_SELECT)
        for chosen in (self.buttons, self.shading):
            chosen.js_on_change("active", select)
        told = {"figure": self.figure, "cell": self._hover, "tips": tips}
        marks = {name: self.drawn[name] for name in tips}
        self.figure.js_on_event("tap", models.CustomJS(args={**told, "marks": marks}, code=_TAP))
        attach = models.CustomJS(args={"figure": self.figure, "tip": self._hover}, code=_ATTACH)
        self.figure.js_on_change("inner_width", attach)
        self.chart: Chart | None = None
        self._thinned: Chart | None = None

    def _add_marks(self) -> dict[str, Any]:
        """Add the marks and their legend; returns the tools that tell of the mark under the
        pointer, by name."""
        from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem

        images, tips = list(self.figure.renderers), {}
        self.drawn, self._items = {}, {}
        few = {"limit": 3} if "limit" in HoverTool.properties() else {}  # at one place; Bokeh 3.8
        for key, mark in MARKS.items():
            source = ColumnDataSource({column: [] for column in ("x", "y", *mark.columns)})
            drawn = getattr(self.figure, mark.way)("x", "y", source=source, **mark.style)
            drawn.visible = not mark.hidden
            self.drawn[key] = drawn
            self._items[key] = LegendItem(label=mark.name, renderers=[drawn], visible=False)
            if mark.tip:  # below or above the pointer: the cell's tooltip is beside it
                words = "".join(f"<tr><td>{line}</td></tr>" for line in mark.tip)
                html = f'<table class="ping" style="{FONT};font-size:13px">{words}</table>'
                name = "refused pings" if key == "refused" else mark.name
                tips[key] = HoverTool(renderers=[drawn], tooltips=html, attachment="vertical",
                    description=name, **few)  # fmt: skip
        self.figure.add_tools(*tips.values())
        self._near = [*images, *(self.drawn[key] for key, mark in MARKS.items() if not mark.far)]
        legend = Legend(items=list(self._items.values()), orientation="horizontal",
            click_policy="hide", border_line_color=None, background_fill_alpha=0,
            inactive_fill_color="#ffffff", location="left", margin=0, ncols=3)  # fmt: skip
        self.figure.add_layout(legend, "below")
        return tips

    def show(self, scene: Scene) -> None:
        """Show a scene; unchanged data are not sent again."""
        if scene.chart is not self.chart:
            self.chart, self._thinned = scene.chart, scene.chart and thinned(scene.chart)
            if self._thinned is None:
                self.cells.data = {name: [] for name in self.cells.data}
                self._offer([])
            else:
                self._show_map(self._thinned)
        renderers = self._near if scene.somewhere else [*self._near, self.drawn["refused"]]
        self.figure.x_range.update(renderers=renderers)
        self.figure.y_range.update(renderers=renderers)
        for key, data in _columns(scene, self._thinned).items():
            drawn, mark, count = self.drawn[key], MARKS[key], len(data["x"])
            kept = drawn.data_source.data  # Bokeh sends whatever is set, also if it is the same
            if not all(_same(kept[name], data[name]) for name in data):
                drawn.data_source.data = data
            self._items[key].visible = count > 0
            # Many marks would hide the map: they are smaller and fainter.
            share = min(1.0, (mark.few / max(1, count)) ** 0.5) if mark.few else 1.0
            for name, least in (("size", mark.smallest), ("fill_alpha", 0.25), ("line_alpha", 0)):
                if name in mark.style:
                    setattr(drawn.glyph, name, max(least, share * mark.style[name]))

    def on_selection(self, area: Callable[[np.ndarray], None], line: Callable[[str], None]) -> None:
        """Offer tools that select: ``area`` gets the corners [K, 2] of a box or a lasso, ``line``
        the name of the line of a sounding that is tapped."""
        from bokeh.events import SelectionGeometry, Tap
        from bokeh.models import BoxSelectTool, LassoSelectTool, TapTool

        mark = self.drawn["pings"]
        source = mark.data_source
        mark.selection_glyph = mark.glyph.clone(
            size=4, fill_color="#c8372d", line_color="#c8372d", fill_alpha=1.0
        )
        mark.nonselection_glyph = mark.glyph
        self.figure.add_tools(
            BoxSelectTool(renderers=[mark]), LassoSelectTool(renderers=[mark], continuous=False),
            TapTool(renderers=[mark]),
        )  # fmt: skip

        def select(event: Any) -> None:
            shape = event.geometry
            if not event.final or shape["type"] == "point":
                return
            x, y = shape.get("x"), shape.get("y")
            if shape["type"] == "rect":
                (x0, x1), (y0, y1) = ((shape[f"{a}0"], shape[f"{a}1"]) for a in "xy")
                x, y = [x0, x1, x1, x0], [y0, y0, y1, y1]
            area(np.column_stack((x, y)))

        def tap(event: Any) -> None:
            names = np.asarray(source.data["line"])
            own = {names[i] for i in source.selected.indices}
            if len(own) == 1 and (name := str(own.pop())):
                source.selected.indices = np.flatnonzero(names == name).tolist()
                line(name)

        self.figure.on_event(SelectionGeometry, select)
        self.figure.on_event(Tap, tap)

    def clear_selection(self) -> None:
        """Nothing is selected any more."""
        self.drawn["pings"].data_source.selected.indices = []

    def _show_map(self, chart: Chart) -> None:
        offered, low = layers(chart), chart.grid.borders
        values = {layer.key: layer.values for layer in offered} | {"sigma": chart.deviation}
        for key in values:
            values[key] = np.nan_to_num(values[key], nan=-1.0 if key in COUNTS else NOTHING)
        if "tvu" in values:  # where there is no map, as on an island, nothing is known to be dry
            values["tvu"] = np.where(np.isfinite(chart.elevation), values["tvu"], -2.0)
        missing = dict.fromkeys(KEYS, np.full((2, 2), np.nan))
        columns: dict[str, Any] = {
            key: [np.ascontiguousarray(layer, dtype=np.float32)]
            for key, layer in (missing | values).items()
        }
        columns["shade"] = [shade(scaled_hillshade(chart.elevation, chart.grid.cell_size))]
        degrees = _degrees_within(chart)
        columns |= {"x": [low.xmin], "y": [low.ymin], "degrees": [degrees]}
        columns |= {"width": [float(low.size[0])], "height_m": [float(low.size[1])]}
        for layer in offered:
            self._colour(layer)
        axes = ("east (m)", "north (m)") if chart.place is not None else ("x (m)", "y (m)")
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = axes
        rows = [("x, y", "$x{0.0}, $y{0.0} m")]
        rows += [("lat, lon", "@degrees{custom}")] if degrees else []
        rows += [(chart.height_name, "<b>@height{custom}</b>@sigma{custom}")]
        rows += [TIPS[layer.key] for layer in offered if layer.key in TIPS]
        tooltips = "".join(
            f'<tr><td style="color:#5b6b7b;padding-right:10px">{escape(name)}</td><td>{text}</td>'
            "</tr>"
            for name, text in rows
        )
        table = f'<table class="cell" style="{FONT};font-size:13px">{tooltips}</table>'
        self._hover.tooltips = table
        self._offer(offered)
        self.cells.data = columns

    def _offer(self, offered: list[Layer]) -> None:
        """A button for each layer; the chosen one stays chosen if it still exists."""
        keys, active = [layer.key for layer in offered], self.buttons.active
        chosen = self.buttons.tags[active] if active is not None else "height"
        if chosen not in keys:
            chosen = keys[0] if keys else None
        self.buttons.update(tags=keys, labels=[layer.title for layer in offered])
        self.buttons.active = keys.index(chosen) if chosen else None
        for key in KEYS:
            self._images[key].visible = self._bars[key].visible = key == chosen

    def _colour(self, layer: Layer) -> None:
        from bokeh.models import CustomJSTickFormatter, FixedTicker, LinearColorMapper

        mapper, bar = self._images[layer.key].glyph.color_mapper, self._bars[layer.key]
        # As the values are sent: lower ones are transparent.
        low = float(np.float32(layer.low))
        mapper.update(palette=list(layer.colours), low=low, high=layer.high)
        if layer.labels and not bar.major_label_overrides:
            bar.ticker = FixedTicker(ticks=list(range(len(layer.labels))))
            bar.major_label_overrides = dict(enumerate(layer.labels))
        if layer.downward:
            bar.color_mapper = LinearColorMapper(
                palette=mapper.palette[::-1], low=-mapper.high, high=-mapper.low
            )
            bar.formatter = CustomJSTickFormatter(code=_DOWNWARD)


def _same(one: Any, other: Any) -> bool:
    """Whether two columns are the same, places of NaN included."""
    one, other = np.asarray(one), np.asarray(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def drawn_refused_pings(refused: RefusedPings) -> RefusedPings:
    """Those with places; of many every Nth."""
    placed = refused.placed
    return placed[np.arange(len(placed))[_every_nth(len(placed))]]


def _every_nth(count: int) -> slice:
    return slice(None, None, max(1, -(-count // MAX_PLACES)))


def _with_breaks(track: np.ndarray) -> np.ndarray:
    """A track [N, 2] with a place of NaN in each step that is ``JUMP`` times the usual one: there
    it goes on from one line, or day, to the next."""
    steps = np.hypot(*np.diff(track, axis=0).T)
    moved = steps[steps > 0]
    usual = np.median(moved) if len(moved) else np.inf
    return np.insert(track, np.flatnonzero(steps > JUMP * usual) + 1, np.nan, axis=0)


def _columns(scene: Scene, chart: Chart | None) -> dict[str, dict[str, Any]]:
    """The columns of ``MARKS``, over a map that may be thinned."""
    some = _every_nth(len(scene.pings))
    pings = scene.pings[some]
    line: Any = scene.line[some] if len(scene.line) else [""] * len(pings)
    refused, track = drawn_refused_pings(scene.refused), _with_breaks(pings)
    x, y, z = refused.xyz.T
    height, z = ("elevation", z) if chart is None else (chart.height_name, chart.height_of(z))
    columns: dict[str, dict[str, Any]] = {
        "track": {"x": track[:, 0], "y": track[:, 1]},
        "pings": {"x": pings[:, 0], "y": pings[:, 1], "line": line},
        "refused": {
            "x": x, "y": y, "reason": refused.reason,
            "height": [f"{height} {own:.2f} m" if own == own else f"no {height}" for own in z],
            "time": [clock_time(ns) if ns else "" for ns in refused.stamp_ns.tolist()],
        },
    }  # fmt: skip
    if chart is None:
        return columns
    table, lines = chart.crossings, _contours(chart)
    return {
        **columns,
        "contours": {"x": lines[:, 0], "y": lines[:, 1]},
        "support": {"x": chart.support[:, 0], "y": chart.support[:, 1]},
        "crossings": {
            "x": table.xy[:, 0], "y": table.xy[:, 1],
            "lines": [f"{own} across {other}" for own, other in table.lines.tolist()],
            "difference": [f"{value:+.2f}" for value in table.difference.tolist()],
            "depths": [f"{own:.2f}, {other:.2f}" for own, other in table.depth.tolist()],
        },
    }  # fmt: skip


def _contours(chart: Chart) -> np.ndarray:
    """Contours at round levels as one line [K, 2], with NaN between them."""
    from contourpy import LineType, contour_generator

    grid, height = chart.grid, np.ma.masked_invalid(chart.height)
    lines = [np.empty((0, 2))]
    if height.count():
        generator: Any = contour_generator(grid.x, grid.y, height, line_type=LineType.Separate)
        for level in levels_of(height.compressed(), chart.settings.contour_interval):
            lines += [np.vstack((line, [np.nan, np.nan])) for line in generator.lines(level)]
    return np.concatenate(lines)


def _degrees_within(chart: Chart) -> str:
    """Places of a map in degrees, for ``TOOLTIP_FORMATS``: the map's lower left corner, width and
    height in m, and the factors of a polynomial of degree 2 in each direction for latitude and
    longitude; empty if unknown."""
    if chart.place is None:
        return ""
    parts = np.stack(np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]), axis=-1).reshape(-1, 2)
    borders = chart.grid.borders
    try:
        degrees = chart.place.degrees(borders.lower + parts * borders.size)[:, ::-1]
    except InputError:  # pyproj is not installed
        return ""
    powers = [u**i * v**j for u, v in parts for i in range(3) for j in range(3)]
    factors = np.linalg.solve(np.reshape(powers, (9, 9)), degrees)
    return " ".join(map(repr, np.concatenate((borders.lower, borders.size, *factors.T)).tolist()))
