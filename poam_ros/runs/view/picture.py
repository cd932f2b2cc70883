"""The map of a page: an image for each layer, the shade over them, and marks. Needs bokeh."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exports.chart import Chart
from . import words
from .layers import Layer, hillshade, layers, shade, stride, thin, thinned
from .marks import Marks
from .scene import Scene

_SELECT = """
for (const key in images) {
    const on = buttons.tags[buttons.active] == key
    images[key].visible = on
    bars[key].visible = on
}
// A shade over anything but heights would be read as a value of it.
const relief = buttons.tags[buttons.active] == "height"
shading.disabled = !relief
lit.visible = relief && shading.active.length > 0
"""
#: Layers of whole numbers, where a value below the lowest colour is a word.
COUNTS = {"tvu", "density"}
KEYS = ("height", "uncertainty", "lengthscale", "tvu", "density")


class MapPicture:
    """A figure with buttons for its layers. The buttons work in the browser, with no server.

    Attributes:
        figure, buttons, shading: Bokeh's models.
        cells: the data source of all layers: one row, a column for each.
        marks: a data source for each of ``marks.MARKS``.
    """

    def __init__(self) -> None:
        from bokeh.models import (
            CheckboxGroup,
            ColumnDataSource,
            CustomJS,
            HoverTool,
            RadioButtonGroup,
        )
        from bokeh.plotting import figure

        self.figure = figure(
            name="map", tools="pan,wheel_zoom,box_zoom,reset,save", active_scroll="wheel_zoom",
            match_aspect=True, sizing_mode="stretch_both", min_height=320, toolbar_location="above",
            x_axis_label="x (m)", y_axis_label="y (m)", background_fill_color="#f7f9fa",
        )  # fmt: skip
        self.figure.toolbar.logo = None
        self.figure.grid.grid_line_color = "#e3e9ee"
        place = ("x", "y", "width", "height_m")
        columns: dict[str, list[Any]] = {name: [] for name in (*place, *KEYS, "sigma", "shade")}
        self.cells = ColumnDataSource(columns, name="cells")
        self._images = {key: self._image(key) for key in KEYS}
        self._bars = {key: self._bar(image) for key, image in self._images.items()}
        lit = self.figure.image_rgba("shade", "x", "y", "width", "height_m", source=self.cells)
        self._hover = HoverTool(
            renderers=list(self._images.values()), formatters=_spelt(), tooltips=None
        )
        self.figure.add_tools(self._hover)
        self._marks = Marks(self.figure)
        self.marks = self._marks.sources
        self.buttons = RadioButtonGroup(labels=[], active=None, name="layers")
        self.shading = CheckboxGroup(labels=["hillshade"], active=[0], width=100, align="center")
        parts = {"images": self._images, "bars": self._bars, "buttons": self.buttons,
            "shading": self.shading, "lit": lit}  # fmt: skip
        select = CustomJS(args=parts, code=_SELECT)
        for chosen in (self.buttons, self.shading):
            chosen.js_on_change("active", select)
        self._chart: Chart | None = None

    def show(self, scene: Scene) -> None:
        """Show a scene; what has not changed is not sent again."""
        if scene.chart is not self._chart:
            self._chart = scene.chart
            if scene.chart is None:
                self._clear()
            else:
                self._show_map(scene.chart)
        self._marks.show(scene)

    def _clear(self) -> None:
        self.cells.data = {name: [] for name in self.cells.data}
        self._choose([], [])

    def _show_map(self, chart: Chart) -> None:
        found, step = layers(chart), stride(chart.grid.shape)
        low, (width, height) = thinned(chart.grid, step).borders, chart.cell
        values = {layer.key: layer.values for layer in found} | {"sigma": chart.deviation}
        nothing = [np.full((2, 2), np.nan, dtype=np.float32)]
        for key in COUNTS & values.keys():
            values[key] = np.nan_to_num(values[key], nan=-1.0)  # of NaN the browser says "NaN"
        columns: dict[str, Any] = dict.fromkeys(KEYS, nothing) | {
            key: [np.ascontiguousarray(thin(layer, step), dtype=np.float32)]
            for key, layer in values.items()
        }
        lit = hillshade(chart.elevation, (width, height))
        columns["shade"] = [np.ascontiguousarray(thin(shade(lit), step))]
        columns |= {"x": [low.xmin], "y": [low.ymin]}
        columns |= {"width": [float(low.size[0])], "height_m": [float(low.size[1])]}
        for layer in found:
            self._colour(layer)
        self._offer(found, chart)
        self.cells.data = columns

    def _offer(self, found: list[Layer], chart: Chart) -> None:
        """A button for each layer; the one that was chosen stays, as far as it is there."""
        keys, labels = [layer.key for layer in found], [layer.title for layer in found]
        axes = ("east (m)", "north (m)") if chart.place is not None else ("x (m)", "y (m)")
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = axes
        if (keys, labels) != (self.buttons.tags, self.buttons.labels):
            self._hover.tooltips = words.hover(keys, chart.height_name)
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
        from bokeh.models import FixedTicker

        mapper, bar = self._images[layer.key].glyph.color_mapper, self._bars[layer.key]
        if mapper.palette != list(layer.colours):
            mapper.palette = list(layer.colours)
            if layer.labels:
                bar.ticker = FixedTicker(ticks=list(range(len(layer.labels))))
                bar.major_label_overrides = dict(enumerate(layer.labels))
        mapper.update(low=layer.low, high=layer.high)

    def _image(self, key: str) -> Any:
        from bokeh.models import LinearColorMapper

        clear = "rgba(0, 0, 0, 0)"
        mapper = LinearColorMapper(palette=["#ffffff", "#000000"], low=0, high=1, nan_color=clear,
            low_color=clear if key in COUNTS else None)  # fmt: skip
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


def _spelt() -> dict[str, Any]:
    from bokeh.models import CustomJSHover

    return {name: CustomJSHover(code=code) for name, code in words.SPELT.items()}
