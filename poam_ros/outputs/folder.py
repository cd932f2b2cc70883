"""A run's folder: CSV, npz and YAML files that other programs can read, each complete or absent."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import yaml

from .. import __version__
from ..core.errors import InputError
from ..core.files import UNREADABLE, atomic_write, rename_folder, verify, write_checksums
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..core.reading import TEXT_FACTOR, lines, read_arrays, refuse_larger
from ..core.samples import Samples

#: Columns of a sweep's runs.csv, one row per finished run, which is also in its folder's run.csv.
RUN_COLUMNS = (
    "environment", "method", "kernel", "pilot", "planner", "seed", "samples", "wall_s", "folder",
)  # fmt: skip
#: A map's outline, a row per corner; rings of a polygon: its border, then its islands.
OUTLINE, OUTLINE_COLUMNS = "outline.csv", ("polygon", "ring", "x", "y")
#: A log's soundings that are not in its map; see ``mapping.soundings``.
LEFT_OUT = "left_out.csv"
#: The reason there of soundings that validate the map.
HELD_OUT = "held_out"
#: The map in a folder, and the folder in it for maps saved during the mission.
MAP, SAVED = "map.npz", "saved"
#: Rows of a table that are written at a time.
ROWS = 10_000
#: Where NumPy says that a table is wrong, and that a row has more or fewer values than the header.
AT_ROW = re.compile(r"at row (\d+)(, column \d+)?")
UNEXPECTED = re.compile(r"the dtype passed requires (\d+) columns but (\d+) were found")
#: Columns of text in tables of numbers; ``verdict``: of crossings.csv in older folders.
TEXTS = ("day", "file", "line", "other", "other_day", "verdict")
#: Beginnings of a cell that a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: Characters for which a cell is quoted.
TO_QUOTE = re.compile('[,"\n\r]')
#: Version of the files of a run; config.yaml has it, and others are refused.
LAYOUT = 1
#: Settings that are paths.
PATHS = frozenset(("log", "file", "prior"))


class EpochRecord(NamedTuple):
    """One decision epoch, a row of epochs.csv: mission time in s; metrics of the map (smse: mean
    squared error over the variance of the truth; msll: mean log loss minus that of N(mean, variance
    of the training targets); rmse and mae in m; nlpd: mean log loss); wall times of update and
    prediction in s."""

    samples: int
    time_s: float
    smse: float
    msll: float
    rmse: float
    mae: float
    nlpd: float
    update_s: float
    predict_s: float


EPOCH_COLUMNS = EpochRecord._fields


def make_folder(path: Path) -> Path:
    """Make the folder of a run, unless it exists.

    Raises:
        InputError: if it cannot be made or written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / ".probe").touch()
        (path / ".probe").unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"output: cannot write to {path} ({error.strerror})") from None
    return path


def check_run(folder: Path) -> None:
    """Raise an ``InputError`` unless there is such a folder of a run or mission."""
    if not folder.is_dir():
        raise InputError(f"RUN: expected the folder of a run or mission, got {folder}")


def version_of(path: Path) -> tuple[int, int, int] | None:
    """A value that changes when a file is written; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file with a header, row by row; texts that look like formulas are quoted."""
    with atomic_write(path) as file:
        for row in chain([columns], rows):
            file.write((",".join(map(_cell, row)) + "\n").encode())


def millimetres(value: float) -> str:
    """A length in m to the millimetre, without a sign before zero; empty if unknown."""
    return "" if np.isnan(value) else f"{round(value, 3) + 0.0:.3f}"


def _cell(value: Any) -> str:
    if isinstance(value, float):  # nine digits; of an easting in m more, and no -0
        return f"{value:.3f}" if 1e6 <= abs(value) < 1e12 else f"{value + 0.0:.9g}"
    text = str(value)
    if isinstance(value, str) and text.startswith(FORMULA) and not _is_number(text):
        text = f"'{text}"
    if TO_QUOTE.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def unquoted(text: str) -> str:
    """A cell's text as it was before ``write_table`` quoted what looks like a formula."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_table(path: Path, columns: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The columns of a CSV file of numbers; those named in ``columns`` must be there. Columns
    of ``TEXTS`` are text [N].

    Raises:
        InputError: if the file is missing, empty or not numbers, or lacks a column.
    """
    with _opened(path, columns, "a table of numbers with a header", 2) as (header, rows):
        kinds = [str if name in TEXTS else float for name in header]
        fields = [(str(i), object if kind is str else kind) for i, kind in enumerate(kinds)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # without a row
                table = np.loadtxt(
                    rows, fields, delimiter=",", quotechar='"', comments=None, ndmin=1
                )
        except ValueError as error:
            told = UNEXPECTED.sub(r"expected \1 values, got \2", str(error).partition("; use")[0])
            raise ValueError(AT_ROW.sub(_row_of_file, told.rstrip("."))) from None
    return {name: table[str(i)].astype(kinds[i]) for i, name in enumerate(header)}


def _row_of_file(found: re.Match[str]) -> str:
    """Where NumPy found a mistake: it counts rows of data, for a cell from 0 and else from 1."""
    row, cell = found.groups("")
    return f"in row {int(row) + 1 + bool(cell)}{cell}"


def read_records(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file, as text, with at least the given columns.

    Raises:
        InputError: if the file is missing or broken, or lacks a column.
    """
    records, expected = [], f"a table with columns {','.join(columns)}"
    with _opened(path, columns, expected, TEXT_FACTOR) as (header, rows):
        for number, row in enumerate(csv.reader(rows), start=2):
            if len(row) != len(header):
                raise ValueError(f"expected {len(header)} values in row {number}, got {len(row)}")
            records.append(dict(zip(header, row, strict=True)))
    return records


@contextmanager
def _opened(
    path: Path, columns: Sequence[str], expected: str, factor: int
) -> Iterator[tuple[list[str], Iterator[str]]]:
    """The header of a CSV file, which has these columns, and the lines after it.

    ``factor``: bytes of memory that are used for each of the file.
    """
    with _refusing(path, expected), path.open(newline="") as file:
        refuse_larger("its content", path.stat().st_size, factor)
        rows = lines(file)
        header = next(csv.reader(rows), [])
        if missing := [name for name in columns if name not in header]:
            raise ValueError(f"missing: {', '.join(missing)}; an older format?")
        yield header, rows


@contextmanager
def _refusing(path: Path, expected: str) -> Iterator[None]:
    """Raise an ``InputError`` if a file is not what was written, or does not hold what is
    expected."""
    try:
        verify(path)
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected the folder of a run or mission") from None
    except (*UNREADABLE, csv.Error) as error:
        raise InputError(f"{path}: expected {expected} ({error})") from None


def write_samples(
    path: Path,
    xy: np.ndarray,
    z: np.ndarray,
    line: np.ndarray | None = None,
    **others: np.ndarray,
) -> None:
    """Write the pings, x, y, z in m, in order, to the millimetre.

    ``line``: the names of their survey lines [N], written as ``line``; None: not known. ``others``:
    further columns [N], by name.
    """
    labels = {**({} if line is None else {"line": line}), **others}

    def rows() -> Iterator[list[Any]]:
        for begin in range(0, len(z), ROWS):
            part = slice(begin, begin + ROWS)
            places = np.round(np.column_stack((xy[part], z[part])), 3) + 0.0  # no -0.0
            columns = (column[part].tolist() for column in labels.values())
            yield from (
                [*map(repr, place), *more]
                for place, *more in zip(places.tolist(), *columns, strict=True)
            )

    write_table(path, ("x", "y", "z", *labels), rows())


def write_map(path: Path, drawn: ElevationMap) -> None:
    """Write a map: arrays x, y, mean, variance, every field [rows, columns], inducing_points."""
    arrays: dict[str, Any] = {
        **drawn.fields, "x": drawn.grid.x, "y": drawn.grid.y, "mean": drawn.mean,
        "variance": drawn.variance, "lengthscale": drawn.lengthscale,
        "inducing_points": drawn.support, "samples": drawn.samples, "stamp_ns": drawn.stamp_ns,
    }  # fmt: skip
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)


def read_map(path: Path) -> ElevationMap:
    """Read what ``write_map`` wrote.

    Raises:
        InputError: if the file is missing or holds something else.
    """
    with _refusing(path, "a map.npz of this package"):
        arrays = read_arrays(path)
        names = ("x", "y", "mean", "variance", "inducing_points", "samples")
        x, y, mean, variance, support, samples = (arrays.pop(name) for name in names)
        stamp_ns = int(arrays.pop("stamp_ns", 0))
        if np.isnan(arrays["lengthscale"]).all():  # of a model that has none
            del arrays["lengthscale"]
        grid, support, count = Grid.of_file(x, y), np.asarray(support, dtype=float), int(samples)
        shapes = {np.asarray(v, dtype=float).shape for v in (mean, variance, *arrays.values())}
        if shapes != {grid.shape} or support.ndim != 2 or support.shape[1] != 2:
            raise ValueError("layers of other shapes than the grid's")
    return ElevationMap(grid, mean, variance, arrays, support, count, stamp_ns)


def save(
    folder: Path, drawn: ElevationMap, samples: Samples, config: Mapping[str, Any]
) -> tuple[Path, list[str]]:
    """Write a map and its pings to the next ``saved/map-...``.

    Args:
        folder: of the results.
        drawn: the map.
        samples: at least those in the map.
        config: everything resolved, for config.yaml.

    Returns:
        The folder, and the names of its files.

    Raises:
        OSError: the folder cannot be written; nothing of it remains.
    """
    home = folder / SAVED
    taken = [re.match(r"map-(\d+)-", path.name) for path in home.glob("map-*")]
    number = max((int(name[1]) for name in taken if name), default=0) + 1
    final = home / f"map-{number:03d}-{drawn.samples}-samples"  # names sort by time
    unfinished = home / f".{final.name}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    try:
        unfinished.mkdir(parents=True)
        pings = samples[: drawn.samples]
        write_samples(unfinished / "samples.csv", pings.xy, pings.z)
        write_map(unfinished / MAP, drawn)
        write_config(unfinished / "config.yaml", {"version": __version__, **config})
        names = sorted(path.name for path in unfinished.iterdir())
        write_checksums(unfinished, names)
        rename_folder(unfinished, final)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return final, names


def newest_map(folder: Path) -> Path:
    """The folder of the map that was written last: ``folder`` itself, or one in its ``saved``."""
    homes = [folder, *(folder / SAVED).glob("map-*")]
    written = {home: path.stat().st_mtime_ns for home in homes if (path := home / MAP).is_file()}
    return max(written, key=lambda home: written[home], default=folder)


def write_truth(path: Path, elevation: np.ndarray, extent: Extent) -> None:
    """Write the ground truth for the figures: elevation [rows, columns], row 0 south."""
    with atomic_write(path) as file:
        np.savez_compressed(file, elevation=elevation, extent=np.array(extent.bounds))


def read_truth(path: Path) -> tuple[Grid, np.ndarray]:
    """What ``write_truth`` wrote, and the grid of its cells.

    Raises:
        InputError: if the file is missing or holds something else.
    """
    with _refusing(path, "a truth.npz of this package"):
        data = read_arrays(path)
        elevation = data["elevation"]
        return Grid.dividing(Extent.of(data["extent"].tolist()), elevation.shape), elevation


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Write a resolved configuration as YAML, with the layout of the folder's files."""
    config = {"layout": LAYOUT, **config}
    with atomic_write(path) as file:
        file.write(yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode())


def without_folders(value: Any) -> Any:
    """Settings with the names of files in place of their paths: a client needs no more."""
    if isinstance(value, list):
        return [without_folders(own) for own in value]
    if not isinstance(value, Mapping):
        return value
    shortened = {key: without_folders(own) for key, own in value.items()}
    for key in PATHS & shortened.keys():
        if isinstance(path := shortened[key], str) and PurePath(path).is_absolute():
            shortened[key] = PurePath(path).name
    if isinstance(command := value.get("command"), str):
        with suppress(ValueError):  # quotes that do not match
            shortened["command"] = shlex.join(map(_name_alone, shlex.split(command)))
    return shortened


def _name_alone(word: str) -> str:
    """A word of a command: of a path, also after =, the name."""
    option, equals, path = word.rpartition("=")
    return f"{option}{equals}{PurePath(path).name}" if PurePath(path).is_absolute() else word
