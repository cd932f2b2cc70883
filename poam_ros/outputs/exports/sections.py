"""Cross sections of a map: the values along lines, as a table and a figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, shown
from ...core.geodesy import WGS84, GeoReference, transformed
from ...core.reading import parse_json
from ...core.vectors import MALFORMED, geojson_layer
from ..figures import blank_figure, plain
from .chart import Chart

#: Maximum number of rows of a section's table, and places along a cell.
ROWS, PER_CELL = 100_000, 2


def read_section_lines(words: Sequence[str], place: GeoReference | None) -> list[np.ndarray]:
    """Lines, each corners [K, 2] in the chart's coordinates.

    Args:
        words: the numbers x y x y ..., in m, as texts; or one GeoJSON file of lines, in degrees if
            the chart has a place on the Earth and else in m.
        place: of the chart.

    Raises:
        InputError: these are no lines.
    """
    texts = [part for text in words for part in text.split(",") if part]
    try:
        numbers = np.array(texts, dtype=float)
    except ValueError:
        return _of_file(Path(words[0]), place) if len(words) == 1 else _refuse(" ".join(words))
    if len(numbers) < 4 or len(numbers) % 2 or not np.isfinite(numbers).all():
        _refuse(" ".join(words))
    return [numbers.reshape(-1, 2)]


def _refuse(got: str) -> Any:
    raise InputError(f"section: expected X Y X Y ... (m) or a GeoJSON file of lines, got {got}")


def _of_file(path: Path, place: GeoReference | None) -> list[np.ndarray]:
    try:
        lines = [line for line, _ in geojson_layer(parse_json(path)).places]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except MALFORMED as error:
        text = shown(str(error), 200)
        raise InputError(f"{path}: expected GeoJSON of lines ({text})") from None
    if not lines or any(len(line) < 2 or not np.isfinite(line).all() for line in lines):
        raise InputError(f"{path}: expected lines of two corners or more, got none")
    if place is None:
        return lines
    return [transformed(WGS84, place.system(), line) for line in lines]


def sections(chart: Chart, name: str, lines: Sequence[np.ndarray]) -> dict[str, bytes]:
    """A CSV table of the values along lines, and a figure beside it if matplotlib is installed.

    Columns: section (from 1), distance along it, x, y, elevation or depth, low, high (95 %), all
    in m, and longitude, latitude if the map has a georeference. Places without a value are left
    out.

    Raises:
        InputError: no line meets a value of the map, or the lines are too long.
    """
    columns = ["section", "distance", "x", "y", chart.height_name, "low", "high"]
    along = [_along(chart, line) for line in lines]
    tables = [rows[np.isfinite(rows[:, 3])] for rows in along]
    if not sum(map(len, tables)):
        raise InputError("section: no line crosses a part of the map with values")
    numbered = [
        np.column_stack((np.full(len(rows), number), rows))
        for number, rows in enumerate(tables, start=1)
    ]
    table = np.concatenate(numbered)
    formats = ["%d"] + ["%.4f"] * 6
    if chart.place is not None:
        columns += ["longitude", "latitude"]
        formats += ["%.9f"] * 2
        table = np.column_stack((table, chart.place.degrees(table[:, 2:4])))
    line_format = ",".join(formats) + "\n"
    text = ",".join(columns) + "\n" + "".join(line_format % tuple(row) for row in table)
    figure = {} if (drawn := _drawn(chart, along)) is None else {f"{Path(name).stem}.png": drawn}
    return {**figure, name: text.encode()}


def _along(chart: Chart, line: np.ndarray) -> np.ndarray:
    """Distance, x, y, value and ends of its 95 % interval along a line, in m [R, 6]."""
    lengths = np.concatenate(([0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()))
    count = PER_CELL * lengths[-1] / min(chart.cell)
    if not 0 < count <= ROWS:
        raise InputError(
            f"section: expected a length of at most {ROWS / PER_CELL * min(chart.cell):g} m, "
            f"got {lengths[-1]:g}"
        )
    distance = np.unique(np.append(np.linspace(0, lengths[-1], int(count) + 2), lengths))
    xy = np.column_stack([np.interp(distance, lengths, axis) for axis in line.T])
    value, half = (chart.grid.interpolate(v, xy) for v in (chart.height, chart.uncertainty))
    value[~chart.grid.borders.contains(xy)] = np.nan
    return np.column_stack((distance, xy, value, value - half, value + half))


def _drawn(chart: Chart, tables: Sequence[np.ndarray]) -> bytes | None:
    """A panel for each section, as PNG; None without matplotlib."""
    try:
        figure = blank_figure((10, 1.0 + 3.0 * len(tables)))
    except ImportError:
        return None
    axes = figure.subplots(len(tables), 1, squeeze=False)[:, 0]
    for number, (axis, rows) in enumerate(zip(axes, tables, strict=True), start=1):
        axis.fill_between(rows[:, 0], rows[:, 4], rows[:, 5], alpha=0.3, label="95 % interval")
        axis.plot(rows[:, 0], rows[:, 3])
        axis.set_title(plain(f"{chart.provenance['title']}: section {number}"))
        axis.set_ylabel(f"{chart.height_name} (m)")
        axis.grid(alpha=0.3)
        if chart.settings.depth:
            axis.invert_yaxis()
    axes[0].legend()
    axes[-1].set_xlabel("distance (m)")
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()
