"""What is drawn over the map of a page, each with a name under it that switches it. Needs bokeh."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import words
from .scene import Scene

#: Marks by name: how they are drawn, and what of a scene they show.
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "track": ("line", {"line_color": "#0d1b2a", "line_alpha": 0.45, "line_width": 1}),
    "pings": ("scatter", {"size": 2.5, "color": "#0d1b2a", "alpha": 0.5}),
    "support": ("scatter", {"size": 4, "color": "#ffffff", "line_color": "#8a4b00",
        "marker": "diamond"}),
    "refused": ("scatter", {"size": 8, "line_color": "#c8372d", "line_width": 1.8, "marker": "x"}),
    "held": ("scatter", {"size": 8, "fill_alpha": 0, "line_color": "#c8372d", "line_width": 1.6}),
    "plan": ("line", {"line_color": "#d6006c", "line_dash": [6, 4], "line_width": 2}),
    "goal": ("scatter", {"size": 15, "color": "#d6006c", "line_color": "#ffffff",
        "marker": "star"}),
    "vehicle": ("scatter", {"size": 15, "color": "#ffd23f", "line_color": "#0d1b2a",
        "marker": "triangle", "angle": "heading"}),
}  # fmt: skip
#: In the legend.
NAMES = {
    "track": "track", "pings": "pings", "support": "support points", "held": "pings held",
    "refused": "pings refused", "plan": "plan", "goal": "goal", "vehicle": "vehicle",
}  # fmt: skip
#: Columns besides x and y.
MORE = {"vehicle": ("heading",), "refused": ("reason", "height", "time")}
#: Not shown before somebody asks for it.
HIDDEN = ("support",)
#: May be far from the map, on the way to it: what is shown at first does not reach so far, unless
#: there is nothing else.
OFTEN_FAR = ("refused",)


class Marks:
    """Drawn on a figure, after its images.

    Attributes:
        sources: a data source for each of ``MARKS``.
        items: of the legend, likewise.
    """

    def __init__(self, figure: Any) -> None:
        from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem

        self.sources = {
            name: ColumnDataSource({key: [] for key in ("x", "y", *MORE.get(name, ()))})
            for name in MARKS
        }
        self.items, drawn = {}, {}
        for name, (way, style) in MARKS.items():
            mark = getattr(figure, way)("x", "y", source=self.sources[name], **style)
            mark.visible = name not in HIDDEN
            drawn[name] = mark
            self.items[name] = LegendItem(label=NAMES[name], renderers=[mark], visible=False)
        far = [drawn[name] for name in OFTEN_FAR]
        self._sides, self._all = (figure.x_range, figure.y_range), list(figure.renderers)
        self._near = [mark for mark in self._all if mark not in far]
        # Below or above the pointer: what is said of the cell is beside it.
        tip = HoverTool(renderers=[drawn["refused"]], tooltips=words.REFUSED_HOVER,
            attachment="vertical", description="refused pings")  # fmt: skip
        figure.add_tools(tip)
        legend = Legend(items=list(self.items.values()), orientation="horizontal",
            click_policy="hide", border_line_color=None, background_fill_alpha=0,
            inactive_fill_color="#ffffff", location="left", margin=0)  # fmt: skip
        figure.add_layout(legend, "below")

    def show(self, scene: Scene) -> None:
        """Show those of a scene; what has not changed is not sent again."""
        begun = self._near if scene.somewhere else self._all
        for side in self._sides:
            if side.renderers != begun:
                side.renderers = begun
        found = {name: getattr(scene, name) for name in MARKS if name not in ("support", *MORE)}
        if scene.chart is not None:
            found["support"] = scene.chart.support
        for name, places in found.items():
            self._show(name, {"x": places[:, 0], "y": places[:, 1]})
        if scene.vehicle is not None:
            x, y, heading = scene.vehicle
            # The triangle points up where a heading of 0 points east.
            self._show("vehicle", {"x": [x], "y": [y], "heading": [heading - np.pi / 2]})
        refused = scene.refused.placed
        x, y, _ = refused.xyz.T
        height, time = words.heights(refused, scene.chart), words.times(refused)
        said = {"reason": refused.reason, "height": height, "time": time}
        self._show("refused", {"x": x, "y": y, **said})

    def _show(self, name: str, data: dict[str, Any]) -> None:
        source = self.sources[name]
        if not all(np.array_equal(source.data[key], data[key]) for key in data):
            source.data = data
            self.items[name].visible = len(data["x"]) > 0
