"""For people: a picture, and a page to look into that is complete in its file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ...core.errors import requires_extra
from ...planning.tvu import LEVEL_NAMES
from ..figures import blank_figure
from ..view.page import standalone
from ..view.scene import scene_of
from ..view.texts import refused
from .chart import Chart


def picture(chart: Chart, name: str) -> dict[str, bytes]:
    """A PNG of the map, its uncertainty, its pings and where it is good enough."""
    with requires_extra(name, "matplotlib"):
        import matplotlib  # noqa: F401
    figure = blank_figure((12, 10))
    figure.suptitle(chart.provenance["title"].replace("$", r"\$"))
    relief = {"cmap": "viridis_r" if chart.settings.depth else "viridis"}
    counts = np.where(chart.density > 0, chart.density, np.nan)
    panels: tuple[tuple[np.ndarray, str, dict[str, Any]], ...] = (
        (chart.height, f"{chart.height_name} (m)", relief),
        (chart.uncertainty, "uncertainty, 95 % (m)", {"cmap": "magma"}),
        (counts, "density (pings per cell); white: interpolated", {"cmap": "cividis"}),
        (chart.tvu, "TVU within (S-44 ed. 6)", {"cmap": "RdYlGn", "vmin": -0.5, "vmax": 4.5}),
    )
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for axis, (values, title, style) in zip(axes.flat, panels, strict=True):
        image = axis.imshow(values, origin="lower", extent=chart.grid.borders.bounds, **style)
        axis.set_title(title)
        bar = figure.colorbar(image, ax=axis, shrink=0.85)
    bar.set_ticks(range(len(LEVEL_NAMES)), labels=LEVEL_NAMES)
    axes[0, 0].plot(*chart.track.T, ".", color="black", markersize=1, alpha=0.3)
    north = chart.place is not None
    for axis in axes[1]:
        axis.set_xlabel("east (m)" if north else "x (m)")
    for axis in axes[:, 0]:
        axis.set_ylabel("north (m)" if north else "y (m)")
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110, metadata=dict(chart.provenance))
    return {name: content.getvalue()}


def page(chart: Chart, name: str) -> dict[str, bytes]:
    """An HTML file to look into: layers, values under the pointer, numbers; nothing is fetched."""
    with requires_extra(name, "bokeh", "view"):
        import bokeh  # noqa: F401
    scene = scene_of(chart, remarks=refused(chart.unmapped.refused))
    return {name: standalone(scene).encode()}
