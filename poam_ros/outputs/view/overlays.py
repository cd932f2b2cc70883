"""What is drawn on the map of a page: contours, track, pings, crossings. Needs bokeh."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exports.chart import Chart
from ..exports.contours import levels_of
from . import texts
from .scene import Scene, thinned_refused_pings

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
