"""One lake, sounded on lines to and fro, as texts of tables; and whether it is what was read."""

from __future__ import annotations

import shlex
import struct
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poam_ros.core.geodesy import transformed
from poam_ros.importers.options import ReadOptions, read_mapping

COUNT, FOOT = 300, 0.3048
T = np.arange(COUNT)
LANE, ALONG = np.divmod(T, 50)
X, Y = np.where(LANE % 2, 49 - ALONG, ALONG) * 2.0, LANE * 10.0 + 0.3 * np.sin(T)
LATITUDE, LONGITUDE = 47.25 + Y / 111_320, -122.4 + X / (111_320 * np.cos(np.radians(47.25)))
LON_LAT = np.column_stack((LONGITUDE, LATITUDE))
DEPTH = 6 + 2 * np.sin(X / 30) + np.cos(Y / 25)
BEGIN = datetime(2024, 7, 23, 15, 0, tzinfo=timezone.utc)
WHEN = [BEGIN + timedelta(seconds=i) for i in range(COUNT)]


def texts(values: Any, form: str = ".7f") -> list[str]:
    return [format(value, form) for value in values]


def places(crs: str) -> np.ndarray:
    """Eastings and northings [2, N]."""
    return transformed("EPSG:4326", crs, LON_LAT).T


LAT, LON, (EAST, NORTH) = texts(LATITUDE), texts(LONGITUDE), places("EPSG:32610")


def table(header: str, *columns: Any, separator: str = ",", end: str = "\n") -> str:
    """Of columns of texts, or of numbers with two decimals (integers without), or of one text."""
    every = (
        [each] * COUNT if isinstance(each, str)
        else [v if isinstance(v, str) else str(v) if isinstance(v, int) else f"{v:.2f}"
              for v in (each.tolist() if isinstance(each, np.ndarray) else each)]
        for each in columns
    )  # fmt: skip
    rows = map(separator.join, zip(*every, strict=True))
    return (header and header + "\n") + "".join(row + end for row in rows)


def options_of(words: str) -> ReadOptions:
    """What the words of an answer say."""
    said: dict[str, list[str]] = {}
    for word in shlex.split(words):
        if word.startswith("--"):
            values = said.setdefault(word[2:], [])
        else:
            values.append(word)
    near = [*map(float, said.get("near", ()))]
    return ReadOptions(
        read_mapping(said.get("columns", ())), trusted="trust-columns" in said,
        near=(near[0], near[1]) if near else None,
        **{name: "".join(said.get(name, ())) for name in ("units", "crs")},
    )  # fmt: skip


def check(found: Any, depth: np.ndarray = DEPTH, apart: float = 0.25) -> None:
    """Soundings are where and as deep as those of the lake, nine tenths within ``apart`` (m)."""
    true = np.column_stack((EAST, NORTH))
    if found.projection is not None:
        true = found.projection.local_metres(LATITUDE, LONGITUDE)
    off = found.xy - true[found.row]
    middle = np.median(off, axis=0)
    away = np.hypot(*(off - middle).T)
    assert np.quantile(away, 0.9) < apart and away.max() < 40 * apart  # at a turn
    assert np.abs(middle).max() < 4 * apart or found.projection is None
    low = np.abs(-found.z - depth[found.row])
    assert np.median(low) < 0.03 and low.max() < 0.06


def write_points(path: Path, crs: str, lon_lat: np.ndarray, **attributes: Any) -> Path:
    """A file of points with attributes, of the kind that its ending says."""
    raw = pytest.importorskip("pyogrio").raw
    shapes = [struct.pack("<BIdd", 1, 1, *each) for each in transformed("EPSG:4326", crs, lon_lat)]
    columns = [np.asarray(values, object if isinstance(values[0], str) else float)
               for values in attributes.values()]  # fmt: skip
    raw.write(
        path, np.array(shapes, object), columns, [*attributes], geometry_type="Point", crs=crs
    )
    return path
