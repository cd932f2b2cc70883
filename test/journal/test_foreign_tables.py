"""Tables that other programs may have written: what a mission's settings say is checked first."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.reader import read_mission
from poam_ros.journal.tables import create_tables

SETTINGS = {"method": "nngp", "workspace": [0.0, 10.0, 0.0, 10.0], "seed": 0}


def write_tables(folder, settings, mapper=None, pings=0):
    """Tables as another program may write them, without a journal beside them."""
    with closing(sqlite3.connect(folder / "pings.sqlite")) as db:
        create_tables(db)
        db.execute("INSERT INTO chain VALUES (1, '')")
        for name, values in (("settings", settings), ("mapper", mapper or {})):
            text = values if isinstance(values, str) else json.dumps(values)
            db.execute("INSERT INTO mission VALUES (?, ?)", (name, text))
        for i in range(pings):
            row = i, i, i / pings, i / pings, -5.0 - i % 7
            db.execute("INSERT INTO pings (number, stamp_ns, x, y, z) VALUES (?, ?, ?, ?, ?)", row)
        db.commit()
    return folder / "pings.sqlite"


@pytest.mark.parametrize(
    ("settings", "mapper", "words"),
    [
        ("x", {}, "expected the settings of a mission"),
        ("[" * 200_000, {}, "nested too deep"),
        ([], {}, "no values in settings"),
        ({"method": "nngp"}, {}, "got no workspace"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path, capsys, settings, mapper, words):
    path = write_tables(tmp_path, settings, mapper)
    with pytest.raises(InputError, match=words):
        read_mission(tmp_path)
    if not isinstance(settings, dict):
        with pytest.raises(InputError, match=words):
            JournalDatabase(path, {})
    assert main(["map", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_mission_asks_for_no_larger_map_than_is_allowed(tmp_path, capsys):
    write_tables(tmp_path, SETTINGS, {"resolution": 1e-6}, pings=100)
    assert main(["map", str(tmp_path), "--output", str(tmp_path / "map")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "a map with its resolution of 1e-06 m takes" in said
