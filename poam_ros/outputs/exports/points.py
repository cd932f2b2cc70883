"""Points and surfaces: a CSV table for whoever reads XYZ, and a PLY mesh."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from ...core.errors import InputError, shown
from .chart import Chart

#: Grey values of a trinary map, as the map saver of Nav2 writes them.
FREE, OCCUPIED = 254, 0


def nav2(chart: Chart, name: str) -> dict[str, bytes]:
    """YAML and a PGM: occupied where the ground may, at 95 %, be nearer to the water's level than
    the clearance; in the map's own frame. Far from the pings that is so of itself.

    Raises:
        InputError: if the cells are not square.
    """
    width, height = chart.cell
    if not np.isclose(width, height, rtol=1e-6):
        raise InputError(f"{name}: expected square cells, got {width:g} x {height:g} m")
    surely = chart.depth - chart.uncertainty  # the shallowest that it may be
    grey = np.where(surely > chart.settings.clearance, FREE, OCCUPIED)
    rows, columns = chart.grid.shape
    words = [f"# {key}: {shown(text, 10_000)}" for key, text in chart.provenance.items()]
    image = Path(name).with_suffix(".pgm").name
    head = "\n".join(["P5", *words, f"{columns} {rows}", "255\n"]).encode()
    borders = chart.grid.borders
    settings = {
        "image": image, "mode": "trinary", "resolution": width,
        "origin": [float(borders.xmin), float(borders.ymin), 0.0],
        "negate": 0, "occupied_thresh": 0.65, "free_thresh": 0.25,
    }  # fmt: skip
    text = "\n".join(words) + "\n" + yaml.safe_dump(settings, sort_keys=False)
    return {image: head + grey[::-1].astype(np.uint8).tobytes(), name: text.encode()}


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
