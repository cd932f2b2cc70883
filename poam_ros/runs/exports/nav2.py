"""A map that Nav2's map server loads: where the water is surely deep enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from ...errors import InputError, shown
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
