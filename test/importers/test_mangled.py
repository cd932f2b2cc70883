"""A table as 200 people would have mangled it: the right map, or a question; never a wrong map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

COUNT, QUICK, ALL = 200, 24, 200
UNITS = {"m": 1.0, "ft": 0.3048, "cm": 0.01, "fathom": 1.8288, "mm": 0.001}
SEPARATORS = (",", ";", "\t", "|", " ", ", ", "  ")
#: Names as people write them; those of depths with {unit} say theirs.
LATITUDES = ("latitude", "Lat", "LATITUDE", "lat_dd", "GPS_Lat", "Latitude (deg)", "Breite")
LONGITUDES = ("longitude", "Lon", "LONG", "lng", "GPS_Lon", "Longitude (deg)", "Laenge")
DEPTHS = ("depth", "Depth", "DEPTH", "Tiefe", "sounding", "Depth ({unit})", "depth_{unit}")


#: Faults of a whole file that its values cannot show: a mirrored survey is somewhere else on the
#: Earth, and 3 m in feet are 10 m. `poam map` says where it is and how deep, and in which unit.
UNDECIDABLE = ("hemisphere", "swapped names", "wrong unit", "mirrored at 360")


@dataclass
class Mangled:
    """A text, the depths that it means in m, and its places; what is wrong with it, in words."""

    text: str
    latitude: np.ndarray
    longitude: np.ndarray
    depth: np.ndarray
    what: str


def mangle(seed: int) -> Mangled:
    """A lake's track, written in one of many wrong or odd ways."""
    rng = np.random.default_rng(seed)
    t = np.arange(COUNT)
    centre = rng.choice([53.1, -33.4, 12.7, -2.3, 61.2]), rng.choice([8.6, -70.6, 151.2, -0.9])
    latitude = centre[0] + 2e-5 * t + 3e-4 * np.sin(t / 17)
    longitude = centre[1] + 3e-4 * np.cos(t / 23)
    depth = rng.choice([2.0, 8.0, 40.0]) * (1 + 0.4 * np.sin(t / 29))
    unit = str(rng.choice(list(UNITS)))
    separator = str(rng.choice(SEPARATORS))
    names = [str(rng.choice(n)) for n in (LATITUDES, LONGITUDES, DEPTHS)]
    said = "{unit}" in names[2]
    names[2] = names[2].format(unit=unit)
    if separator.strip() == "":
        names = [name.replace(" ", "_") for name in names]
    if not said:
        unit = "m"
    mangled = depth / UNITS[unit]
    columns = [latitude.copy(), longitude.copy(), mangled.copy()]
    what = [f"{separator!r} {unit} {names}"]
    fault = rng.choice(
        ["none", "swapped names", "swapped values", "minus depth", "wrong unit", "hemisphere",
         "hemispheres in part", "comma", "no header", "as x y", "as z", "letters", "sentinels",
         "outlier", "short rows", "repeated header", "order", "quotes", "utf16",
         "units in part", "mirrored at 360", "minutes", "integers", "unit beside", "thousands",
         "long minus", "sides beside", "sep"]
    )  # fmt: skip
    what.append(str(fault))
    order, header = [0, 1, 2], True
    if fault == "swapped names":  # of latitude and longitude, values as they were
        names[0], names[1] = names[1], names[0]
    elif fault == "swapped values":
        columns[0], columns[2] = columns[2], columns[0]
    elif fault == "minus depth":
        columns[2] = -columns[2]
    elif fault == "wrong unit" and not said:
        columns[2] = depth / UNITS[str(rng.choice(["cm", "mm", "ft"]))]
    elif fault == "hemisphere":
        columns[int(rng.integers(2))] *= -1
    elif fault == "mirrored at 360":
        columns[1] = 360 - columns[1]
    elif fault == "minutes":
        for i in (0, 1):
            whole = np.trunc(columns[i])
            columns[i] = 100 * whole + 60 * (columns[i] - whole)
    elif fault == "integers":
        columns[:2] = [1e7 * column for column in columns[:2]]
    elif fault == "units in part":
        columns[2][COUNT // 2 :] *= rng.choice([100.0, 0.01, 1000.0])
    elif fault == "hemispheres in part":
        columns[int(rng.integers(2))][rng.random(COUNT) < 0.3] *= -1
    elif fault == "no header":
        header = False
    elif fault == "as x y":
        names[0], names[1] = "y", "x"
    elif fault == "as z":
        names[2] = "z"
    elif fault == "sentinels":
        bad = rng.choice(COUNT, 12, replace=False)
        columns[2][bad] = rng.choice([0.0, -1.0, 999.0, 9999.0])
    elif fault == "outlier":
        columns[int(rng.integers(2))][rng.integers(COUNT)] *= -1
    elif fault == "order":
        order = [int(i) for i in rng.permutation(3)]
    digits = [6, 6, 3]
    texts = [[f"{v:.{d}f}" for v in column] for column, d in zip(columns, digits, strict=True)]
    if fault == "integers":
        texts[:2] = [[f"{v:.0f}" for v in column] for column in columns[:2]]
    if fault == "unit beside":
        texts[2] = [f"{cell}{unit}" for cell in texts[2]]
    if fault == "thousands" and "," not in separator:
        texts[2] = [f"{v:,.3f}" for v in columns[2]]
    if fault == "long minus":
        texts = [[cell.replace("-", "\u2212") for cell in column] for column in texts]
    if fault == "sides beside":
        for i, sides in enumerate(("NS", "EW")):
            texts[i] = [f"{abs(v):.6f}{separator}{sides[int(v < 0)]}" for v in columns[i]]
            names[i] += f"{separator}side{i}"
    if fault == "letters":
        for i, sides in enumerate(("NS", "EW")):
            texts[i] = [f"{abs(v):.6f}{sides[int(v < 0)]}" for v in columns[i]]
    if fault == "comma" and separator.strip() != ",":
        texts = [[cell.replace(".", ",") for cell in column] for column in texts]
    if fault == "quotes":
        texts = [[f'"{cell}"' for cell in column] for column in texts]
    rows = [separator.join(texts[i][k] for i in order) for k in range(COUNT)]
    if fault == "short rows":
        rows[5], rows[50] = rows[5][:9], ""
    head = [separator.join(names[i] for i in order)]
    if fault == "sep" and header:
        head.insert(0, f"sep={separator}")
    if fault == "repeated header":
        rows.insert(100, head[-1])
    text = "\n".join([*(head if header else []), *rows]) + "\n"
    return Mangled(text, latitude, longitude, depth, f"{seed}: {', '.join(what)}")


def check(mangled: Mangled, path) -> str:
    """Read it; where it is accepted it must mean the truth. Returns what became of it."""
    encoding = "utf-16" if mangled.what.endswith("utf16") else "utf-8"
    path.write_bytes(mangled.text.encode(encoding))
    try:
        found = read_soundings(path, ReadOptions())
    except InputError as error:
        assert str(path) in str(error) and "\n" not in str(error), mangled.what
        return "question"
    assert len(found) > 0.9 * COUNT, f"{mangled.what}: {found.refused}"
    row = found.row
    if "repeated header" in mangled.what or "short rows" in mangled.what:
        blank = 50 if "short rows" in mangled.what else COUNT
        row = row - (row > 100) if "repeated" in mangled.what else row + (row >= blank)
    assert found.projection is not None, f"{mangled.what}: taken for metres"
    true = found.projection.metres(mangled.latitude[row], mangled.longitude[row])
    right = np.abs(true - found.xy).max() < 1.0
    right &= np.abs(-found.z - mangled.depth[row]).max() < 0.02
    if not right and mangled.what.endswith(UNDECIDABLE):
        return "as it says"
    assert right, mangled.what
    return "map"


def outcomes(seeds, path) -> dict[str, int]:
    """How many became a map, a question, or the map that the file says although it is not true."""
    counts = dict.fromkeys(("map", "question", "as it says"), 0)
    for seed in seeds:
        counts[check(mangle(seed), path)] += 1
    return counts


def test_no_mangled_table_becomes_a_wrong_map(tmp_path):
    counts = outcomes(range(QUICK), tmp_path / "log.csv")
    assert counts["map"] > QUICK / 3 and counts["question"] > 3
    assert counts["as it says"] <= 0.15 * QUICK


@pytest.mark.soak
def test_none_of_two_hundred_mangled_tables_becomes_a_wrong_map(tmp_path):
    counts = outcomes(range(ALL), tmp_path / "log.csv")
    print(counts)
    assert counts["as it says"] <= 0.06 * ALL
