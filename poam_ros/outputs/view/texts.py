"""Texts of the page and their HTML. Text from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from ...core.errors import InputError, quantity
from ...frontend.refused_pings import RefusedPings
from ...planning.tvu import LEVEL_NAMES, ORDERS, order_name, shares
from ..chart import Chart, clock_time
from ..crossings import CrossingTable
from ..html import table
from ..layers import stride
from .scene import BAD, GOOD, NOTE, Notice, Scene

#: Of a cell without a value: Bokeh calls NaN "NaN", whatever a tooltip's formatter says.
NOTHING = -(2.0**100)
#: Font of the page. System fonts only: nothing is fetched.
FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
#: Style of the parts made here; each is in a shadow DOM of its own.
STYLE = (
    f":host{{{FONT};color:#1c2733;font-size:14px;line-height:1.45}}"
    "h1{font-size:20px;margin:0;font-weight:650;overflow-wrap:anywhere}"
    "h2{font-size:12px;letter-spacing:.06em;text-transform:uppercase;color:#5b6b7b;"
    "margin:0 0 6px;font-weight:650}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:3px 0;border-bottom:1px solid #e7ecf0;"
    "overflow-wrap:anywhere;font-weight:400}"
    "th{color:#5b6b7b;padding-right:12px;width:38%}"
    "ul{list-style:none;margin:0;padding:0}li{padding:3px 0 3px 18px;position:relative;"
    "overflow-wrap:anywhere}"
    "li::before{content:'';position:absolute;left:2px;top:9px;width:8px;height:8px;"
    "border-radius:50%;background:#2f9e62}"
    "li.note::before{background:#c9a227}li.bad::before{background:#c8372d}"
    "small{color:#5b6b7b;font-size:13px}"
    ".head{display:flex;align-items:baseline;gap:12px;flex-wrap:wrap}"
    ".wait{display:flex;height:100%;align-items:center;justify-content:center;text-align:center;"
    "font-size:17px;color:#44525f;padding:0 2em}"
    "details{margin-top:4px}summary{cursor:pointer;color:#5b6b7b}"
)


def numbers(chart: Chart) -> dict[str, str]:
    """Numbers of a map, as text by name."""
    mapped = np.isfinite(chart.elevation)
    height, half = chart.height[mapped], chart.uncertainty[mapped]
    rows, columns = chart.grid.shape
    words = {
        "cells": f"{columns} x {rows}, {chart.grid.cell_size[0]:g} x {chart.grid.cell_size[1]:g} m"
    }
    if (step := stride(chart.grid.shape)) > 1:
        words["shown"] = f"1 of {step} rows and columns"
    if not len(height):
        return words | {chart.height_name: "no cell has a value"}
    words |= {
        chart.height_name: f"{height.min():.2f} to {height.max():.2f} m",
        "uncertainty (95 %)": f"median {np.median(half):.2f} m, largest {half.max():.2f} m",
    }
    if chart.other_survey is not None:
        other = chart.uncertainty_other_survey[mapped]
        words["as another survey would measure it (95 %)"] = f"median {np.median(other):.2f} m"
    if np.isfinite(chart.density).any():
        observed = float((chart.density[mapped] > 0).mean())
        words["cells with a ping"] = f"{100 * observed:.1f} %; the others are interpolated"
    return words | tvu_shares(chart)


def tvu_shares(chart: Chart) -> dict[str, str]:
    """How much of a map is within the TVU of each order, as text by name."""
    wet = shares(chart.depth, chart.deviation, list(ORDERS))
    parts = [f"{order_name(k)} {100 * wet[k]:.1f} %" for k in wet if np.isfinite(wet[k])]
    if not parts:
        level = chart.settings.water_level
        return {"TVU": f"no cell is below a water level of {level:g} m"}
    return {"within the TVU of": f"{', '.join(parts)} (of the cells under water)"}


def head(scene: Scene) -> str:
    """The title and the number of pings."""
    parts, details = [f"<h1>{escape(scene.title)}</h1>"], []
    made = None if scene.chart is None else scene.chart.provenance.get("samples")
    if made:
        details.append(f"map of {quantity(int(made), 'ping')}")
    if scene.samples and str(scene.samples) != made:
        details.append(f"{quantity(scene.samples, 'ping')} so far")
    parts.append(f"<small>{escape(' · '.join(details))}</small>")
    return f'<div class="head">{"".join(parts)}</div>'


def waiting(scene: Scene) -> str:
    """The text shown while there is no map."""
    return f'<div class="wait">{escape(scene.waiting)}</div>'


def remarks(notices: Iterable[Notice]) -> str:
    """The messages, most severe first; empty without any."""
    worst_first = sorted(notices, key=lambda remark: (BAD, NOTE, GOOD).index(remark.mark))
    return f"<h2>Status</h2>{listed}" if (listed := items(worst_first)) else ""


def items(notices: Iterable[Notice]) -> str:
    """The messages in this order as a list; empty without any."""
    lines = "".join(
        f'<li class="{remark.mark}">{escape(remark.text)}'
        + (f"<br><small>{escape(remark.advice)}</small>" if remark.advice else "")
        + "</li>"
        for remark in notices
    )
    return f"<ul>{lines}</ul>" if lines else ""


def map_numbers(chart: Chart) -> str:
    """The numbers of a map."""
    return f"<h2>The map</h2>{table(numbers(chart))}"


def provenance(chart: Chart) -> str:
    """Provenance of a map in a collapsed section; empty if unknown."""
    values = {key: text for key, text in chart.provenance.items() if key != "samples"}
    if not values:
        return ""
    return f"<h2>Provenance</h2><details><summary>show</summary>{table(values)}</details>"


def hover(layers: Iterable[str], height: str, placed: bool = False) -> str:
    """The tooltip of the cell under the pointer.

    Args:
        layers: keys of the layers of the map.
        height: name of the height.
        placed: whether the place in degrees is known.
    """
    rows = {
        "height": (height, "<b>@height{custom}</b>@sigma{custom}"),
        "uncertainty": ("95 %", "@uncertainty{custom}"),
        "lengthscale": ("lengthscale", "@lengthscale{custom}"),
        "tvu": ("TVU within", "@tvu{custom}"),
        "density": ("pings", "@density{custom}"),
    }
    degrees = [("lat, lon", "@degrees{custom}")] if placed else []
    lines = [("x, y", "$x{0.0}, $y{0.0} m"), *degrees, *(rows[key] for key in layers)]
    cells = "".join(
        f'<tr><td style="color:#5b6b7b;padding-right:10px">{escape(name)}</td><td>{text}</td></tr>'
        for name, text in lines
    )
    return f'<table class="cell" style="{FONT};font-size:13px">{cells}</table>'


#: The tooltip of the refused ping under the pointer.
REFUSED_HOVER = (
    f'<table class="ping" style="{FONT};font-size:13px">'
    "<tr><td><b>refused: @reason</b></td></tr><tr><td>@height</td></tr>"
    "<tr><td>@time</td></tr><tr><td>@x{0.0}, @y{0.0} m</td></tr></table>"
)


#: The tooltip of the crossing under the pointer.
CROSSING_HOVER = (
    f'<table class="ping" style="{FONT};font-size:13px">'
    "<tr><td><b>@lines</b></td></tr><tr><td>difference @difference m</td></tr>"
    "<tr><td>depths @depths m</td></tr></table>"
)


def crossings(table: CrossingTable) -> dict[str, Any]:
    """The crossings of survey lines, as columns."""
    x, y = table.xy.T
    return {
        "x": x,
        "y": y,
        "lines": [f"{own} across {other}" for own, other in table.lines.tolist()],
        "difference": [f"{value:+.2f}" for value in table.difference.tolist()],
        "depths": [f"{own:.2f}, {other:.2f}" for own, other in table.depth.tolist()],
    }


def degrees_within(chart: Chart) -> str:
    """Places of a map in degrees, for ``TOOLTIP_FORMATS``: the map's lower left corner, width and
    height in m, and latitude and longitude at 3 x 3 places, from south to north; empty if
    unknown."""
    if chart.place is None:
        return ""
    low, high = np.reshape(chart.grid.borders.bounds, (2, 2)).T
    y, x = np.meshgrid(*(np.linspace(low[i], high[i], 3) for i in (1, 0)), indexing="ij")
    try:
        degrees = chart.place.degrees(np.column_stack((x.ravel(), y.ravel())))[:, ::-1]
    except InputError:  # pyproj is not installed
        return ""
    return " ".join(map(repr, [*low.tolist(), *(high - low).tolist(), *degrees.ravel().tolist()]))


def heights(pings: RefusedPings, chart: Chart | None) -> list[str]:
    """The elevation of each ping, or its depth if the chart shows depths."""
    name, z = "elevation", pings.xyz[:, 2]
    if chart is not None and chart.settings.depth:
        name, z = chart.height_name, chart.settings.water_level - z
    return [f"no {name}" if value != value else f"{name} {value:.2f} m" for value in z.tolist()]


def times(pings: RefusedPings) -> list[str]:
    """The time at which each ping was measured."""
    return [clock_time(stamp_ns) if stamp_ns else "" for stamp_ns in pings.stamp_ns.tolist()]


#: Values that are shown as words, as JavaScript of ``value``.
TOOLTIP_FORMATS = {
    "@degrees": """
        const numbers = value.split(' ').map(Number)
        const [x, y, width, height] = numbers.splice(0, 4)
        // Quadratic between the places.
        const three = t => [2 * (t - 0.5) * (t - 1), 4 * t * (1 - t), 2 * t * (t - 0.5)]
        const across = three((special_vars.x - x) / width)
        const up = three((special_vars.y - y) / height)
        const sum = k => up.reduce((all, part, i) => all + part * across.reduce(
            (row, share, j) => row + share * numbers[6 * i + 2 * j + k], 0), 0)
        return `${sum(0).toFixed(6)}, ${sum(1).toFixed(6)}`""",
    "@height": f"return value <= {NOTHING} ? 'none' : value.toFixed(2)",
    "@sigma": "return value < 0 ? '' : ` ± ${value.toFixed(2)} m (1 σ)`",
    "@uncertainty": "return value < 0 ? 'none' : `± ${value.toFixed(2)} m`",
    "@lengthscale": "return value < 0 ? 'none' : `${value.toFixed(2)} m`",
    "@tvu": f"return value >= 0 ? {list(LEVEL_NAMES)!r}[value] : value > -2 ? 'dry' : 'none'",
    "@density": "return value > 0 ? String(value) : value < 0 ? 'none' : 'none: interpolated'",
}
