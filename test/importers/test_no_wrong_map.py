"""Tables that are damaged in every way: the right map, or a question; never a wrong map.

Each is a record as a program writes it, with one to three changes that a person, a spreadsheet or a
logger may make. Where a file is accepted, its soundings must be where the truth says. A change
that no value can show (a mirrored survey lies elsewhere on the Earth; metres of another number are
metres) is accepted as it says; `poam map` prints place and depths for a person to check.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from one_lake import options_of

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.readers import read_soundings

COUNT, QUICK, ALL = 240, (*range(40), 61194, 160116), range(2000)
#: Share of the soundings at their places: between lost positions no turn of the boat is known.
NEAR = 0.85
#: Changes that leave a possible survey: of a whole column, or by a factor as between two depths.
AS_IT_SAYS = {"mirrored", "scaled depth", "names swapped", "feet in part"}


@dataclass
class Record:
    """Columns of texts by name, with the truth; ``row``: the number of each in the truth."""

    columns: dict[str, list[str]]
    truth: np.ndarray  # latitude, longitude, depth
    row: np.ndarray
    separator: str = ","
    header: bool = True
    changes: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [self.separator.join(cells) for cells in zip(*self.columns.values(), strict=True)]
        return "\n".join([self.separator.join(self.columns)] * self.header + lines) + "\n"

    def rename(self, **names: str) -> None:
        self.columns = {names.get(name, name): cells for name, cells in self.columns.items()}

    def take(self, index: np.ndarray) -> None:
        self.row = self.row[index]
        self.columns = {n: [c[i] for i in index] for n, c in self.columns.items()}

    def each(self, names, function, where=None) -> None:
        """Change the cells of columns, or those of some rows."""
        where = np.ones(len(self.row), bool) if where is None else where
        for name in names:
            cells = zip(self.columns[name], where, strict=True)
            self.columns[name] = [function(cell) if its else cell for cell, its in cells]


def record(rng: np.random.Generator) -> Record:
    """A boustrophedon over a lake, in one of four layouts."""
    t = np.arange(COUNT)
    lane, along = np.divmod(t, 40)
    x, y = np.where(lane % 2, 39 - along, along) * 3.0, lane * 12.0
    at = rng.choice([53.1, -33.4, 12.7, 61.2]), rng.choice([8.6, -70.6, 151.2])
    latitude = at[0] + y / 111_320
    longitude = at[1] + x / (111_320 * np.cos(np.radians(at[0])))
    depth = 5 + 2 * np.sin(x / 40) + np.cos(y / 20) + 0.02 * rng.normal(size=COUNT)
    clock = [f"2025-06-14 08:{s // 60:02d}:{s % 60:02d}" for s in t.tolist()]
    places = {"lat": [f"{v:.7f}" for v in latitude], "lon": [f"{v:.7f}" for v in longitude]}
    metres = [f"{v:.2f}" for v in depth]
    layouts = (
        {**places, "depth": metres},
        {"time": clock, "longitude": places["lon"], "latitude": places["lat"],
         "Depth (m)": metres, "temp": [f"{14 + 0.1 * (i % 5):.1f}" for i in t]},
        {"Date": [c[:10] for c in clock], "Time": [c[11:] for c in clock],
         "depth_ft": [f"{v / 0.3048:.2f}" for v in depth], **places, "sats": ["9"] * COUNT},
        {"id": [str(i) for i in t], **places, "DEPTH": metres,
         "speed": [f"{1 + i % 3 / 10}" for i in t],
         "heading": [str(90 + 180 * int(n % 2)) for n in lane], "time": clock},
    )  # fmt: skip
    columns = dict(layouts[int(rng.integers(len(layouts)))])
    return Record(columns, np.column_stack((latitude, longitude, depth)), t)


def number(function):
    """A function of numbers as one of cells; other cells stay."""

    def changed(cell):
        try:
            return f"{function(float(cell)):.12g}"
        except ValueError:
            return cell

    return changed


def change(found: Record, rng: np.random.Generator) -> None:
    """One change, at random."""
    names, rows = [*found.columns], np.arange(len(found.row))
    depth = [name for name in names if name.lower().startswith(("depth", "bottom"))][:1]
    place = [n for n in names if n.lower().startswith(("lat", "lon", "northw", "eastw"))]
    if not depth or len(place) < 2:
        return
    some, one = rng.random(len(rows)) < rng.choice([0.05, 0.4]), [str(rng.choice(place))]
    empty, digits = str(rng.choice(["", "NA", "null", "--.--"])), int(rng.integers(0, 3))
    pick, columns, each = (lambda *each: str(rng.choice(each))), found.columns, found.each
    unit, integer = float(rng.choice([3.2808, 100, 1000])), float(rng.choice([1e6, 1e7]))
    part, half = float(rng.choice([100.0, 1000.0, 0.01])), rows < len(rows) // 2
    new = [each for each in zip((*place, *depth), ("northwards", "eastwards", "bottom"),
                                strict=False) if rng.random() < 0.5]  # fmt: skip

    def swap(a, b):
        columns[a], columns[b] = columns[b], columns[a]

    kinds = {
        "none": lambda: None,
        "separator": lambda: setattr(found, "separator", pick(";", "\t", "|")),
        "comma": lambda: found.separator == ";" and each(names, lambda c: c.replace(".", ",")),
        "no header": lambda: setattr(found, "header", False),
        "unknown names": lambda: found.rename(**dict(new)),
        "names swapped": lambda: swap(*place),
        "values swapped": lambda: swap(one[0], depth[0]),
        "shuffled columns": lambda: setattr(
            found, "columns", {n: columns[n] for n in rng.permutation(names).tolist()}
        ),
        "blanks": lambda: each(place, lambda c: empty, some),
        "zeros": lambda: each(place, lambda c: "0.0", some),
        "late start": lambda: each(place, lambda c: "", rows < 25),
        "mirrored": lambda: each(one, number(lambda v: -v)),
        "mirrored in part": lambda: each(one, number(lambda v: -v), some),
        "minus depth": lambda: each(depth, number(lambda v: -v)),
        "scaled depth": lambda: each(depth, number(lambda v: v * unit)),
        "scaled in part": lambda: each(depth, number(lambda v: v * part), half),
        "feet in part": lambda: each(depth, number(lambda v: v / 0.3048), half),
        "lost rows": lambda: found.take(rows[~some]),
        "doubled rows": lambda: found.take(np.repeat(rows, 2)),
        "torn row": lambda: each(names[-1:], lambda c: c[:1], rows == rows[-1]),
        "rounded": lambda: each(one, number(lambda v: round(v, digits))),
        "extra column": lambda: setattr(found, "columns", {"remark": [""] * len(rows), **columns}),
        "constant": lambda: each([pick(*place, *depth)], lambda c: "1.0"),
        "garbage": lambda: each([pick(*names)], lambda c: "?!", some),
        "degrees and minutes": lambda: each(
            place, number(lambda v: np.copysign(100 * int(abs(v)) + 60 * (abs(v) % 1), v))
        ),
        "as x y": lambda: found.rename(**dict(zip(place, ("y", "x"), strict=True))),
        "integers": lambda: each(place, number(lambda v: round(v * integer))),
        "trailing separator": lambda: columns.update({"": [""] * len(rows)}),
        "no depths": lambda: columns.pop(depth[0]),
        "spikes": lambda: each(depth, lambda c: "999", rng.random(len(rows)) < 0.03),
    }
    kind = str(rng.choice([*kinds]))
    kinds[kind]()
    found.changes.append(kind)


def is_right(soundings, changed: Record) -> bool:
    """Whether soundings lie where they were measured, nine tenths of them or more."""
    row = changed.row[soundings.row]
    latitude, longitude, depth = changed.truth[row].T
    if soundings.projection is None:
        return False
    off = np.hypot(*(soundings.projection.local_metres(latitude, longitude) - soundings.xy).T)
    return bool(((off < 3.5) & (np.abs(-soundings.z - depth) < 0.1)).mean() > NEAR)


def outcome(seed: int, path) -> str:
    rng = np.random.default_rng(seed)
    changed = record(rng)
    for _ in range(int(rng.integers(1, 4))):
        change(changed, rng)
    path.write_text(changed.text())
    try:
        found = read_soundings(path)
    except Question as asked:
        for when, words in asked.answers.items():  # each was tried
            read_soundings(path, options_of(words))
            if "if those at" in when:
                said, given = (re.findall(r"-?\d+\.\d+", text)[-2:] for text in (when, words))
                off = np.subtract([*map(float, said)], [*map(float, given)])
                assert np.abs(off).max() < 0.01, f"{seed}: {when}: {words}"
        return "question"
    except InputError as error:
        assert str(path) in str(error) and "\n" not in str(error), f"{seed}: {changed.changes}"
        return "error"
    if is_right(found, changed):
        return "map"
    feet = "depth_ft" in changed.columns and not changed.header  # the unit went with the header
    if feet or AS_IT_SAYS & {*changed.changes}:
        return "as it says"
    return f"WRONG {seed}: {changed.changes}"


@pytest.mark.parametrize("seeds", [QUICK, pytest.param(ALL, marks=pytest.mark.soak)], ids=len)
def test_no_changed_table_becomes_a_wrong_map(seeds, tmp_path):
    found = Counter(outcome(seed, tmp_path / "log.csv") for seed in seeds)
    print(found)
    assert not [kind for kind in found if kind.startswith("WRONG")], found
    assert found["map"] > len(seeds) / 4 and found["question"] > 3
