"""Reports as one HTML file that fits a phone, prints well and fetches nothing: parts of it; and the
numbers of a map as text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from ..core.files import atomic_write
from ..planning.tvu import ORDERS, order_name, shares
from .chart import Chart, stride

STYLE = """
@page{size:A4;margin:16mm}
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;
color:#1c2733;max-width:190mm;margin:0 auto;padding:8px;overflow-wrap:break-word}
h1{font-size:24px;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:16px;margin:22px 0 6px;break-after:avoid;border-bottom:1px solid #b9c5cf}
table{border-collapse:collapse;width:100%;break-inside:auto}
tr{break-inside:avoid}
th,td{text-align:left;vertical-align:top;padding:3px 8px 3px 0;border-bottom:1px solid #e7ecf0;
font-weight:400}
th{color:#44525f;width:36%}
table.wide th{width:auto}
td{overflow-wrap:anywhere}
table.wide td{overflow-wrap:normal}
table.wide .number{text-align:right;font-variant-numeric:tabular-nums}
table.wide small{display:block}
table.wide td:first-child,table.wide td:last-child{overflow-wrap:anywhere}
figure{margin:8px 0;break-inside:avoid}
img{display:block;width:100%;height:auto;object-fit:contain}
figcaption,small,p.note{color:#5b6b7b;font-size:12px}
p.note{break-after:avoid}
pre{font-size:10px;white-space:pre-wrap;overflow-wrap:anywhere}
@media(min-width:481px){table.wide .number{white-space:nowrap}
table.wide td:first-child:not(.number){min-width:10.5em}}
@media(max-width:480px){body{font-size:13px}table.wide{font-size:12px}
table.wide th,table.wide td{padding-right:5px}table.wide small{font-size:10.5px}}
@media print{body{font-size:13px;line-height:1.4}details{display:none}
img{max-height:75mm}img.large{max-height:130mm}}
"""
#: A cell's text, or a number and the interval below it.
Cell = str | tuple[str, str]
SIMULATED = (
    "<p><strong>SIMULATED. A simulated vehicle made the soundings, over no real bottom."
    "</strong></p>"
)


def write_page(path: Path, title: str, parts: Iterable[str]) -> Path:
    """Write parts of HTML as a page; returns its path. Raises OSError."""
    head = (
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
    )
    with atomic_write(path) as file:
        file.write((head + "\n".join(parts) + "</body></html>\n").encode())
    return path


def section(title: str, *parts: str) -> Iterable[str]:
    """A section with parts of HTML."""
    return f"<h2>{escape(title)}</h2>", *parts


def figure(content: bytes, caption: str, large: bool = False) -> str:
    """A PNG with its caption; two that are not ``large`` fit a printed page."""
    image = f"data:image/png;base64,{b64encode(content).decode()}"
    kind = " class=large" if large else ""
    return (
        f'<figure><img{kind} alt="{escape(caption, quote=True)}" src="{image}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def table(values: Mapping[str, str]) -> str:
    """Texts by name, as a table."""
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in values.items())
    return f"<table>{''.join(cells)}</table>"


def wide_table(
    heads: Sequence[Cell],
    rows: Iterable[Sequence[Cell]],
    right: Sequence[int],
    bold: int | None = None,
) -> str:
    """A table that fits a phone: intervals are below their numbers, not beside them.

    Args:
        heads: of the columns.
        rows: cells of each.
        right: columns that are aligned to the right.
        bold: row to be emphasized; None: none.
    """
    lines = []
    for index, row in enumerate((heads, *rows), start=-1):
        tag, parts = "th" if index < 0 else "td", []
        for column, cell in enumerate(row):
            text, below = (cell, "") if isinstance(cell, str) else cell
            kind = " class=number" if column in right else ""
            small = f"<small>{escape(below)}</small>" if below else ""
            parts.append(f"<{tag}{kind}>{escape(text)}{small}</{tag}>")
        style = ' style="font-weight:650"' if bold == index else ""
        lines.append(f"<tr{style}>{''.join(parts)}</tr>")
    # A printed table that continues on another page has its head there too.
    return f"<table class=wide><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>"


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
