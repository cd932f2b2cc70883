"""The map of a page: an image for each layer, the hillshade, and what is drawn over them. Needs
bokeh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..chart import Chart
from ..layers import KEYS, Layer, layers, scaled_hillshade, shade, thinned
from ..vectors import levels_of
from . import texts
from .scene import Scene, thinned_refused_pings

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
#: Label of a tick of a colour bar whose values are the negative ones.
_DOWNWARD = "return String(Number((-tick).toPrecision(6)))"
#: Layers of integers, in which values below the lowest colour are shown as a word.
COUNTS = {"tvu", "density"}


class MapPicture:
    """A figure with buttons for its layers. The buttons work in the browser, with no server.

    Attributes:
        figure, buttons, shading: Bokeh's models.
        cells: the data source of all layers: one row, a column for each.
        marks: a data source for each of ``MARKS``.
    """

    def __init__(self) -> None:
        from bokeh.models import (
            CheckboxGroup,
            ColumnDataSource,
            CustomJS,
            HoverTool,
            RadioButtonGroup,
            ScaleBar,
        )
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
        self.cells = ColumnDataSource(columns, name="cells")
        self._images = {key: self._image(key) for key in KEYS}
        self._bars = {key: self._bar(image) for key, image in self._images.items()}
        lit = self.figure.image_rgba("shade", "x", "y", "width", "height_m", source=self.cells)
        self.figure.add_layout(
            ScaleBar(range=self.figure.x_range, unit="m", location="top_left",
                bar_length=0.2, background_fill_alpha=0, border_line_color=None, padding=0),
            "below",  # inside, it would hide the map
        )  # fmt: skip
        self._hover = HoverTool(
            renderers=list(self._images.values()), formatters=_formatters(), tooltips=None
        )
        self.figure.add_tools(self._hover)
        self._marks = MapOverlays(self.figure)
        self.marks = self._marks.sources
        self.buttons = RadioButtonGroup(labels=[], active=None, name="layers",
            stylesheets=[".bk-btn-group{flex-wrap:wrap}"])  # fmt: skip
        self.shading = CheckboxGroup(labels=["hillshade"], active=[0], width=100, align="center")
        parts = {"images": self._images, "bars": self._bars, "buttons": self.buttons,
            "shading": self.shading, "lit": lit}  # fmt: skip
        select = CustomJS(args=parts, code=_SELECT)
        for chosen in (self.buttons, self.shading):
            chosen.js_on_change("active", select)
        tips = {"figure": self.figure, "cell": self._hover, "tips": self._marks.tips}
        marks = {name: self._marks.drawn[name] for name in self._marks.tips}
        self.figure.js_on_event("tap", CustomJS(args=tips | {"marks": marks}, code=_TAP))
        attach = CustomJS(args={"figure": self.figure, "tip": self._hover}, code=_ATTACH)
        self.figure.js_on_change("inner_width", attach)
        self._chart: Chart | None = None
        self._thinned: Chart | None = None

    def show(self, scene: Scene) -> None:
        """Show a scene; unchanged data are not sent again."""
        if scene.chart is not self._chart:
            self._chart, self._thinned = scene.chart, scene.chart and thinned(scene.chart)
            if self._thinned is None:
                self._clear()
            else:
                self._show_map(self._thinned)
        self._marks.show(replace(scene, chart=self._thinned))

    def on_selection(self, area: Callable[[np.ndarray], None], line: Callable[[str], None]) -> None:
        """Offer tools that select: ``area`` gets the corners [K, 2] of a box or a lasso, ``line``
        the name of the line of a sounding that is tapped."""
        from bokeh.events import SelectionGeometry, Tap
        from bokeh.models import BoxSelectTool, LassoSelectTool, TapTool

        mark, source = self._marks.drawn["pings"], self.marks["pings"]
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
        self.marks["pings"].selected.indices = []

    def _clear(self) -> None:
        self.cells.data = {name: [] for name in self.cells.data}
        self._choose([], [])

    def _show_map(self, chart: Chart) -> None:
        offered, low = layers(chart), chart.grid.borders
        values = {layer.key: layer.values for layer in offered} | {"sigma": chart.deviation}
        nothing = [np.full((2, 2), np.nan, dtype=np.float32)]
        for key in values:
            values[key] = np.nan_to_num(values[key], nan=-1.0 if key in COUNTS else texts.NOTHING)
        if "tvu" in values:  # where there is no map, as on an island, nothing is known to be dry
            values["tvu"] = np.where(np.isfinite(chart.elevation), values["tvu"], -2.0)
        columns: dict[str, Any] = dict.fromkeys(KEYS, nothing) | {
            key: [np.ascontiguousarray(layer, dtype=np.float32)] for key, layer in values.items()
        }
        columns["shade"] = [shade(scaled_hillshade(chart.elevation, chart.grid.cell_size))]
        degrees = texts.degrees_within(chart)
        columns |= {"x": [low.xmin], "y": [low.ymin], "degrees": [degrees]}
        columns |= {"width": [float(low.size[0])], "height_m": [float(low.size[1])]}
        for layer in offered:
            self._colour(layer)
        self._offer(offered, chart, degrees)
        self.cells.data = columns

    def _offer(self, offered: list[Layer], chart: Chart, degrees: str) -> None:
        """A button for each layer; the chosen one stays chosen if it still exists."""
        keys, labels = [layer.key for layer in offered], [layer.title for layer in offered]
        axes = ("east (m)", "north (m)") if chart.place is not None else ("x (m)", "y (m)")
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = axes
        tooltips = texts.hover(keys, chart.height_name, bool(degrees))
        if tooltips != self._hover.tooltips:
            self._hover.tooltips = tooltips
        if (keys, labels) != (self.buttons.tags, self.buttons.labels):
            self._choose(keys, labels)

    def _choose(self, keys: list[str], labels: list[str]) -> None:
        active = self.buttons.active
        before = self.buttons.tags[active] if active is not None else "height"
        chosen = before if before in keys else keys[0] if keys else None
        self.buttons.update(tags=keys, labels=labels)
        self.buttons.active = keys.index(chosen) if chosen else None
        for key in KEYS:
            self._images[key].visible = self._bars[key].visible = key == chosen

    def _colour(self, layer: Layer) -> None:
        from bokeh.models import CustomJSTickFormatter, FixedTicker, LinearColorMapper

        mapper, bar = self._images[layer.key].glyph.color_mapper, self._bars[layer.key]
        if mapper.palette != list(layer.colours):
            mapper.palette = list(layer.colours)
            if layer.labels:
                bar.ticker = FixedTicker(ticks=list(range(len(layer.labels))))
                bar.major_label_overrides = dict(enumerate(layer.labels))
        # As the values are sent: lower ones are transparent.
        mapper.update(low=float(np.float32(layer.low)), high=layer.high)
        if layer.downward:
            bar.color_mapper = LinearColorMapper(
                palette=mapper.palette[::-1], low=-mapper.high, high=-mapper.low
            )
            bar.formatter = CustomJSTickFormatter(code=_DOWNWARD)

    def _image(self, key: str) -> Any:
        from bokeh.models import LinearColorMapper

        clear = "rgba(0, 0, 0, 0)"
        mapper = LinearColorMapper(palette=["#ffffff", "#000000"], low=0, high=1, nan_color=clear,
            low_color=clear)  # fmt: skip
        return self.figure.image(
            key, "x", "y", "width", "height_m", source=self.cells, color_mapper=mapper,
            visible=False,
        )  # fmt: skip

    def _bar(self, image: Any) -> Any:
        from bokeh.models import ColorBar

        bar = ColorBar(color_mapper=image.glyph.color_mapper, visible=False, width=14,
            border_line_color=None, background_fill_color=None, padding=8)  # fmt: skip
        self.figure.add_layout(bar, "right")
        return bar


def _formatters() -> dict[str, Any]:
    from bokeh.models import CustomJSHover

    return {name: CustomJSHover(code=code) for name, code in texts.TOOLTIP_FORMATS.items()}


#: Overlays by name: fields of a scene, and how they are drawn.
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "contours": ("line", {"line_color": "#16283c", "line_alpha": 0.7, "line_width": 0.7}),
    "track": ("line", {"line_color": "#0d1b2a", "line_alpha": 0.45, "line_width": 1}),
    "pings": ("scatter", {"size": 2.5, "fill_color": "#0d1b2a", "fill_alpha": 0.5,
        "line_color": None}),
    "support": ("scatter", {"size": 4, "color": "#ffffff", "line_color": "#8a4b00",
        "marker": "diamond"}),
    "crossings": ("scatter", {"size": 6, "line_color": "#16283c", "fill_color": "#ffd23f",
        "line_width": 0.6, "marker": "square"}),
    "refused": ("scatter", {"size": 8, "line_color": "#c8372d", "line_width": 1.8, "marker": "x"}),
}  # fmt: skip
#: Names in the legend.
NAMES = {
    "contours": "contours", "track": "track", "crossings": "crossings", "pings": "pings",
    "support": "support points", "refused": "pings refused",
}  # fmt: skip
#: Columns besides x and y.
MORE = {
    "pings": ("line",),
    "crossings": ("lines", "difference", "depths"),
    "refused": ("reason", "height", "time"),
}
#: Not places of a scene that are drawn as they are.
OTHERS = ("support", "contours", *MORE)
#: Of more pings, dots are smaller and the track is fainter; of more refused ones, crosses.
FEW, FEW_REFUSED = 2000, 100
#: px; the smallest dot and cross.
SMALLEST = {"pings": 1.0, "refused": 4.0}
#: Hidden until chosen in the legend.
HIDDEN = ("support", "crossings")
#: May be far from the map: excluded from the initial view, unless there is nothing else.
OFTEN_FAR = ("refused",)


class MapOverlays:
    """Drawn on a figure, after its images.

    Attributes:
        sources: a data source for each of ``MARKS``.
        items, drawn: of the legend, and renderers, likewise.
        tips: tools that tell of the mark under the pointer, by name.
    """

    def __init__(self, figure: Any) -> None:
        from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem

        self.sources = {
            name: ColumnDataSource({key: [] for key in ("x", "y", *MORE.get(name, ()))})
            for name in MARKS
        }
        self.items = {}
        drawn: dict[str, Any] = {}
        self.drawn = drawn
        for name, (way, style) in MARKS.items():
            mark = getattr(figure, way)("x", "y", source=self.sources[name], **style)
            mark.visible = name not in HIDDEN
            drawn[name] = mark
            self.items[name] = LegendItem(label=NAMES[name], renderers=[mark], visible=False)
        far = [drawn[name] for name in OFTEN_FAR]
        self._sides, self._all = (figure.x_range, figure.y_range), list(figure.renderers)
        self._near = [mark for mark in self._all if mark not in far]
        # Below or above the pointer: the cell's tooltip is beside it.
        tips = (
            ("refused", texts.REFUSED_HOVER, "refused pings"),
            ("crossings", texts.CROSSING_HOVER, "crossings"),
        )
        few = {"limit": 3} if "limit" in HoverTool.properties() else {}  # at one place; Bokeh 3.8
        self.tips = {
            name: HoverTool(renderers=[drawn[name]], tooltips=words, attachment="vertical",
                description=description, **few)
            for name, words, description in tips
        }  # fmt: skip
        figure.add_tools(*self.tips.values())
        legend = Legend(items=list(self.items.values()), orientation="horizontal",
            click_policy="hide", border_line_color=None, background_fill_alpha=0,
            inactive_fill_color="#ffffff", location="left", margin=0, ncols=3)  # fmt: skip
        figure.add_layout(legend, "below")

    def show(self, scene: Scene) -> None:
        """Show the overlays of a scene; unchanged data are not sent again."""
        renderers = self._near if scene.somewhere else self._all
        for side in self._sides:
            if side.renderers != renderers:
                side.renderers = renderers
        places_by_name = {name: getattr(scene, name) for name in MARKS if name not in OTHERS}
        if scene.chart is not None:
            places_by_name["support"] = scene.chart.support
            self._show("contours", _contours(scene.chart))
            self._show("crossings", texts.crossings(scene.chart.crossings))
        for name, places in places_by_name.items():
            self._show(name, {"x": places[:, 0], "y": places[:, 1]})
        line = scene.line if len(scene.line) == len(scene.pings) else [""] * len(scene.pings)
        self._show("pings", {"x": scene.pings[:, 0], "y": scene.pings[:, 1], "line": line})
        many = self._shrink("pings", len(scene.pings), FEW)
        self.drawn["pings"].glyph.fill_alpha = max(0.25, many * MARKS["pings"][1]["fill_alpha"])
        self.drawn["track"].glyph.line_alpha = many * MARKS["track"][1]["line_alpha"]
        refused = thinned_refused_pings(scene.refused)
        self._shrink("refused", len(refused), FEW_REFUSED)
        x, y, _ = refused.xyz.T
        height, time = texts.heights(refused, scene.chart), texts.times(refused)
        columns = {"reason": refused.reason, "height": height, "time": time}
        self._show("refused", {"x": x, "y": y, **columns})

    def _shrink(self, name: str, count: int, few: int) -> float:
        """Make many marks smaller, as they would hide the map; returns by how much they should."""
        share = min(1.0, (few / max(1, count)) ** 0.5)
        self.drawn[name].glyph.size = max(SMALLEST[name], share * MARKS[name][1]["size"])
        return share

    def _show(self, name: str, data: dict[str, Any]) -> None:
        source = self.sources[name]
        if not all(_same(source.data[key], data[key]) for key in data):
            source.data = data
            self.items[name].visible = len(data["x"]) > 0


def _same(one: Any, other: Any) -> bool:
    """Whether two columns are the same, places of NaN included."""
    one, other = np.asarray(one), np.asarray(other)
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


def _contours(chart: Chart) -> dict[str, np.ndarray]:
    """Contours at round levels as one line, with NaN between them."""
    from contourpy import LineType, contour_generator

    grid, height = chart.grid, np.ma.masked_invalid(chart.height)
    lines = [np.empty((0, 2))]
    if height.count():
        generator: Any = contour_generator(grid.x, grid.y, height, line_type=LineType.Separate)
        heights, interval = height.compressed(), chart.settings.contour_interval
        for level in levels_of(heights, interval):
            lines += [np.vstack((line, [np.nan, np.nan])) for line in generator.lines(level)]
    x, y = np.concatenate(lines).T
    return {"x": x, "y": y}
