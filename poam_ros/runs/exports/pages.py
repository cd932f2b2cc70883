"""For people: a picture, and one page with it and the numbers that is complete in its file."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import numpy as np

from ...planning.tvu import LEVELS, ORDERS, shares
from ..figures import blank_figure
from .chart import Chart
from .needs import needing

_STYLE = (
    "body{font-family:sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}"
    "img{width:100%}table{border-collapse:collapse;margin:1em 0}"
    "td,th{border-bottom:1px solid #ccc;padding:.3em .8em;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}"
)


def picture(chart: Chart, name: str) -> dict[str, bytes]:
    """A PNG of the map, its uncertainty, its pings and where it is good enough."""
    with needing(name, "matplotlib"):
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
    bar.set_ticks(range(len(LEVELS) + 1), labels=["none", "2", "1a, 1b", "Special", "Exclusive"])
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
    """An HTML file with the picture and the numbers in it: nothing is fetched, nothing runs."""
    (png,) = picture(chart, name).values()
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    title = escape(chart.provenance["title"])
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>",
        f'<img alt="map, uncertainty, pings, TVU" src="{source}">',
        "<h2>Numbers</h2>", _rows(numbers(chart)),
        "<h2>How it was made</h2>", _rows(dict(chart.provenance)), "</body></html>\n",
    ]  # fmt: skip
    return {name: "\n".join(parts).encode()}


def numbers(chart: Chart) -> dict[str, str]:
    """What a map comes to, in words, by name."""
    known = np.isfinite(chart.elevation)
    height, half = chart.height[known], chart.uncertainty[known]
    rows, columns = chart.grid.shape
    observed = float((chart.density[known] > 0).mean())
    found = {
        "cells": f"{columns} x {rows}, {chart.cell[0]:g} x {chart.cell[1]:g} m",
        chart.height_name: f"{height.min():.2f} to {height.max():.2f} m",
        "uncertainty (95 %)": f"median {np.median(half):.2f} m, largest {half.max():.2f} m",
        "cells with a ping": f"{observed:.1%}; the others are interpolated",
    }
    for order, share in shares(chart.depth, chart.deviation, list(ORDERS)).items():
        if np.isfinite(share):
            found[f"TVU within {order}"] = f"{share:.1%} of the cells under water"
    return found


def _rows(words: dict[str, str]) -> str:
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in words.items())
    return f"<table>{''.join(cells)}</table>"
