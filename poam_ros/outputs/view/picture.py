"""The map of a page: an image for each layer, and the hillshade. Needs bokeh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..exports.chart import Chart
from . import texts
from .layers import NOTHING, PageLayer, layers, scaled_hillshade, shade, thinned
from .overlays import MapOverlays
from .scene import Scene

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
KEYS = ("height", "uncertainty", "lengthscale", "tvu", "density")


class MapPicture:
    """A figure with buttons for its layers. The buttons work in the browser, with no server.

    Attributes:
        figure, buttons, shading: Bokeh's models.
        cells: the data source of all layers: one row, a column for each.
        marks: a data source for each of ``overlays.MARKS``.
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
            values[key] = np.nan_to_num(values[key], nan=-1.0 if key in COUNTS else NOTHING)
        if "tvu" in values:  # where there is no map, as on an island, nothing is known to be dry
            values["tvu"] = np.where(np.isfinite(chart.elevation), values["tvu"], -2.0)
        columns: dict[str, Any] = dict.fromkeys(KEYS, nothing) | {
            key: [np.ascontiguousarray(layer, dtype=np.float32)] for key, layer in values.items()
        }
        columns["shade"] = [shade(scaled_hillshade(chart.elevation, chart.cell))]
        degrees = texts.degrees_within(chart)
        columns |= {"x": [low.xmin], "y": [low.ymin], "degrees": [degrees]}
        columns |= {"width": [float(low.size[0])], "height_m": [float(low.size[1])]}
        for layer in offered:
            self._colour(layer)
        self._offer(offered, chart, degrees)
        self.cells.data = columns

    def _offer(self, offered: list[PageLayer], chart: Chart, degrees: str) -> None:
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

    def _colour(self, layer: PageLayer) -> None:
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
