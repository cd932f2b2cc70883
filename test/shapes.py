"""Polygons for tests of outlines."""

import numpy as np


def square(x, y, side):
    """A closed ring from its lower left corner."""
    ends = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    return np.array([(x + side * a, y + side * b) for a, b in ends], dtype=float)


#: 40 x 20 m, with an island of 10 x 10 m in its middle.
LAKE = [[square(0, 0, 20) * (2, 1), square(15, 5, 10)]]


def geojson(polygons):
    """A feature of each polygon, a list of rings."""
    features = [
        {
            "type": "Feature", "properties": {},
            "geometry": {"type": "Polygon", "coordinates": [np.asarray(r).tolist() for r in rings]},
        }
        for rings in polygons
    ]  # fmt: skip
    return {"type": "FeatureCollection", "features": features}
