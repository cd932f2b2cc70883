"""Metrics and times over samples, each under a tab of its own. Needs bokeh."""

from __future__ import annotations

from typing import Any

import numpy as np

from .scene import Curves

TIMES = "Time"
COLOURS = ("#1f6f9f", "#d9822b")


class CurvePicture:
    """Tabs of small figures.

    Attributes:
        root: Bokeh's model.
        source: the data of all: ``samples``, and a column for each curve.
    """

    def __init__(self) -> None:
        from bokeh.models import ColumnDataSource, Tabs

        self.source = ColumnDataSource({"samples": []})
        self.root = Tabs(tabs=[], sizing_mode="stretch_width", name="curves", margin=0)
        self._shown: tuple[list[str], list[str]] = ([], [])

    def show(self, curves: Curves) -> None:
        """Show other curves, or more of the same."""
        names = list(curves.metrics), list(curves.seconds)
        columns = {"samples": curves.samples, **curves.metrics, **curves.seconds}
        self.source.data = {name: np.asarray(column, float) for name, column in columns.items()}
        if names != self._shown:
            self._shown = names
            metrics, seconds = names
            tabs = [self._tab(name, [name]) for name in metrics]
            self.root.tabs = [*tabs, *([self._tab(TIMES, seconds)] if seconds else [])]

    def _tab(self, title: str, names: list[str]) -> Any:
        from bokeh.models import HoverTool, TabPanel
        from bokeh.plotting import figure

        drawn = figure(height=190, sizing_mode="stretch_width", tools="", toolbar_location=None,
            x_axis_label="pings", y_axis_label="s" if title == TIMES else None)  # fmt: skip
        for name, colour in zip(names, COLOURS, strict=False):
            style = {"legend_label": name} if title == TIMES else {}
            drawn.line("samples", name, source=self.source, color=colour, width=1.8, **style)
            dots = drawn.scatter("samples", name, source=self.source, color=colour, size=4, **style)
            said = [("pings", "@samples{0}"), (name, f"@{{{name}}}{{0.000}}")]
            drawn.add_tools(HoverTool(renderers=[dots], tooltips=said, mode="vline"))
        drawn.grid.grid_line_color = "#e3e9ee"
        drawn.outline_line_color = None
        if title == TIMES:
            drawn.legend.update(location="top_left", background_fill_alpha=0.7,
                border_line_color=None)  # fmt: skip
        return TabPanel(title=title, child=drawn)
