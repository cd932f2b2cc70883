"""Points and surfaces: a CSV table for whoever reads XYZ, and a PLY mesh."""

from __future__ import annotations

import numpy as np
import yaml

from ...errors import shown
from .chart import Chart


def table(chart: Chart, name: str) -> dict[str, bytes]:
    """A CSV table, row by row from the lower left, and beside it its provenance as YAML.

    Columns: x, y, elevation or depth, uncertainty (95 %), sigma, all in m, density (pings per
    cell), and longitude, latitude where the map has a place.
    """
    layers = (chart.height, chart.uncertainty, chart.deviation, chart.density)
    columns = ["x", "y", chart.height_name, "uncertainty", "sigma", "density"]
    rows = np.column_stack((chart.grid.points, *(layer.ravel() for layer in layers)))
    rows = rows[np.isfinite(rows[:, 2])]
    formats = ["%.4f"] * 2 + ["%.4f"] * 3 + ["%d"]
    if chart.place is not None:
        columns += ["longitude", "latitude"]
        rows = np.column_stack((rows, chart.place.degrees(rows[:, :2])))
        formats += ["%.9f"] * 2
    line = ",".join(formats) + "\n"
    text = ",".join(columns) + "\n" + "".join(line % tuple(row) for row in rows)
    beside = yaml.safe_dump(dict(chart.provenance), sort_keys=False, allow_unicode=True)
    return {f"{name}.yaml": beside.encode(), name: text.encode()}


def surface(chart: Chart, name: str) -> dict[str, bytes]:
    """A binary PLY mesh: a vertex for every cell's centre, two triangles between every four."""
    known = np.isfinite(chart.elevation).ravel()
    kinds = [("x", "<f8"), ("y", "<f8"), ("z", "<f8")]
    kinds += [(key, "<f4") for key in ("uncertainty", "sigma", "density")]
    vertices = np.empty(known.sum(), dtype=kinds)
    layers = (chart.elevation, chart.uncertainty, chart.deviation, chart.density)
    values = (*chart.grid.points.T, *(layer.ravel() for layer in layers))
    for (key, _), column in zip(kinds, values, strict=True):
        vertices[key] = column[known]
    corners = _triangles(known.reshape(chart.grid.shape))
    faces = np.empty(len(corners), dtype=[("count", "u1"), ("corners", "<i4", (3,))])
    faces["count"], faces["corners"] = 3, corners
    spelt = {"<f8": "double", "<f4": "float"}
    header = [
        "ply", "format binary_little_endian 1.0",
        *(f"comment {key}: {shown(text, 10_000)}" for key, text in chart.provenance.items()),
        f"element vertex {len(vertices)}",
        *(f"property {spelt[kind]} {key}" for key, kind in kinds),
        f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header\n",
    ]  # fmt: skip
    return {name: "\n".join(header).encode() + vertices.tobytes() + faces.tobytes()}


def _triangles(known: np.ndarray) -> np.ndarray:
    """Triangles [F, 3] between cells that are known, counter-clockwise from above.

    Args:
        known: which cells [rows, columns] have a vertex; vertices count them row by row.
    """
    number = np.cumsum(known, dtype=np.int32).reshape(known.shape) - 1
    whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    low_left, low_right = number[:-1, :-1][whole], number[:-1, 1:][whole]
    up_left, up_right = number[1:, :-1][whole], number[1:, 1:][whole]
    lower = np.column_stack((low_left, low_right, up_right))
    upper = np.column_stack((low_left, up_right, up_left))
    return np.concatenate((lower, upper))
