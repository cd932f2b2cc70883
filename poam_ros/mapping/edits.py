"""Changes the ``edits.csv`` of a run of `poam map`, for the page of `poam view`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import GeoReference
from ..core.settings import flat
from ..outputs.folder import LEFT_OUT, read_records, read_table, write_table
from ..outputs.run import CONFIG, read_settings
from .exclusions import (
    DEGREES,
    EDITS,
    FILE,
    LINES_OF,
    POLYGON,
    ROW,
    TRACK,
    WORDS,
    Exclusion,
    file_names,
    read_edits,
    within,
)  # fmt: skip
from .soundings import LINE


class Edits:
    """The ``edits.csv`` of a run of `poam map`, which can be changed.

    Args:
        folder: of the run.

    Attributes:
        path: of the ``edits.csv``: beside the log, or in the run's folder if the log is gone.
        command: the shell command for the next run.

    Raises:
        InputError: its ``config.yaml`` does not name the log.
    """

    def __init__(self, folder: Path) -> None:
        config = flat(read_settings(folder))
        source = config.get("log")
        if not isinstance(source, str):
            raise InputError(f"{folder / CONFIG}: expected the log of `poam map`, got none")
        log = Path(source)
        self.path = ((log if log.is_dir() else log.parent) if log.exists() else folder) / EDITS
        self.command = _of_map(str(config.get("command", "")))
        self._folder, self._name = folder, log.name
        self._place = GeoReference.given(config.get("origin"), config.get("heading"))
        self._lines_found = config.get(LINES_OF) == TRACK

    def rows(self) -> list[Exclusion]:
        """The exclusions in the file. Raises as ``read_edits``."""
        return read_edits(self.path)

    def leave_out(self, column: str, value: str, who: str, why: str) -> None:
        """Add a row for each file with such soundings: those of a line, or in a polygon in m of the
        map. The rows hold for these files, whichever others they are mapped with.

        Raises:
            InputError: as ``read_edits``, or a file of the run is damaged.
            OSError: the file cannot be written.
        """
        when = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        who, why = (" ".join(text.split()) for text in (who, why))
        made = [Exclusion(which, "", who, when, why) for which in self._conditions(column, value)]
        self._write([*self.rows(), *made])

    def _conditions(self, column: str, value: str) -> Iterator[tuple[tuple[str, str], ...]]:
        file, row, line, xy = self._soundings()
        if column == POLYGON:
            corners = np.array(value.split(), dtype=float).reshape(-1, 2)
            these = within(corners, xy)
            if self._place is not None:
                degrees = self._place.degrees(self._place.to_projected(corners))[:, ::-1]
                column, value = DEGREES, " ".join(f"{each:.8f}" for each in degrees.ravel())
        else:
            these = line == value
        for name in dict.fromkeys(file[these].tolist()) or [self._name]:
            own = row[these & (file == name)]
            if column == LINE and self._lines_found and len(own) and (own >= 0).all():
                # Its number depends on the other files.
                yield (ROW, f"{own.min()}-{own.max()}"), (FILE, name)
            else:
                yield (column, value), (FILE, name)

    def _soundings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """File, row (-1: unknown), line and place [N, 2] of all soundings of the run, also of those
        that are not in the map."""
        table = read_table(self._folder / "samples.csv", ("x", "y"))
        count = len(table["x"])
        unknown = np.full(count, self._name)
        file = [unknown if FILE not in table else table[FILE].astype(str)]
        row = [table.get(ROW, np.full(count, -1.0))]
        line = [table.get(LINE, np.full(count, ""))]
        xy = [np.column_stack((table["x"], table["y"]))]
        if (path := self._folder / LEFT_OUT).is_file():
            every = read_records(path, (FILE, ROW, LINE, "x", "y"))
            others = [each for each in every if each[ROW] and each["x"]]
            file.append(np.array([each[FILE] for each in others], dtype=str))
            row.append(np.array([float(each[ROW]) for each in others]))
            line.append(np.array([each[LINE] for each in others], dtype=str))
            places = [[float(each["x"]), float(each["y"])] for each in others]
            xy.append(np.array(places).reshape(-1, 2))
        paths = np.concatenate(file)
        if FILE in table:
            known, code = np.unique(paths, return_inverse=True)
            names = np.array(file_names(known.tolist()))[code.reshape(-1)]
        else:
            names = np.full(len(paths), self._name)
        return (
            names, np.concatenate(row).astype(np.int64), np.concatenate(line), np.concatenate(xy),
        )  # fmt: skip

    def take_back(self, row: Exclusion) -> None:
        """Remove a row, if it is still there. Raises as ``leave_out``."""
        self._write([each for each in self.rows() if each != row])

    def _write(self, rows: list[Exclusion]) -> None:
        columns = list(dict.fromkeys(column for each in rows for column, _ in each.which))
        cells = [
            [each.who, each.when, each.why, *(dict(each.which).get(name, "") for name in columns)]
            for each in rows
        ]
        write_table(self.path, [*WORDS, *columns], cells)


def _of_map(command: str) -> str:
    """A recorded command, safe to paste: it is always one of `poam map`, whatever the file says."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return shlex.join(words) if words[:2] == ["poam", "map"] else "poam map"
