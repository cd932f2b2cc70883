"""Maps saved during a mission, each in a folder of its own that exists only if complete."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.errors import InputError
from ..core.files import lock, rename_folder, write_checksums
from ..core.geodesy import map_heading, map_origin
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..core.settings import Settings, setting
from .exports.chart import ExportSettings
from .exports.formats import FORMATS, export
from .folder import write_config, write_map, write_samples

_NAMES = [ending[1:] for ending in FORMATS]


def _formats(text: str) -> list[str]:
    """The file endings in a text such as ``tif, nc``.

    Raises:
        InputError: one is no format.
    """
    names = text.replace(",", " ").split()
    wrong = [name for name in names if name not in _NAMES]
    if wrong:
        raise InputError(f"expected names of {', '.join(_NAMES)}, got {', '.join(wrong)[:80]!r}")
    return [f".{name}" for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class SaveSettings(Settings):
    """What ``~/save_map`` writes besides map.npz, samples.csv and config.yaml.

    Raises:
        InputError: a value is wrong.
    """

    formats: str = setting(
        "tif, nc", f"Formats of the map that ~/save_map writes: any of {', '.join(_NAMES)}",
        check=_formats, name="save.formats",
    )  # fmt: skip
    origin: tuple[float, ...] = map_origin()
    heading: float = map_heading()
    vertical_datum: int = setting(
        0, "EPSG code of the vertical datum of saved maps. 0: not given", "", 0, 10**6,
        name="save.vertical_datum",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vertical_datum and not self.placed:
            raise InputError("save.vertical_datum: expected an origin as well, got 0, 0")

    @property
    def placed(self) -> bool:
        """Whether an origin is given."""
        return any(self.origin)

    @property
    def endings(self) -> list[str]:
        """Endings of the files, as in ``FORMATS``."""
        return _formats(self.formats)

    def of(self, ending: str, water_level: float) -> dict[str, Any]:
        """Fields of ``ExportSettings`` for a format; water level in m."""
        given: dict[str, Any] = {"water_level": water_level}
        row = FORMATS[ending]
        if self.placed and row.origin != "refused":
            given |= {"origin": self.origin, "heading": self.heading}
        if self.vertical_datum and row.origin != "refused":
            given["vertical_datum"] = self.vertical_datum
        return given


#: In the folder of the results: the folder of saved maps and its lock. In that: unfinished maps.
SAVED, LOCK, UNFINISHED = "saved", ".saved.lock", ".begun"


def save(
    folder: Path,
    settings: SaveSettings,
    drawn: ElevationMap,
    samples: Samples,
    water_level: float,
    config: Mapping[str, Any],
) -> tuple[Path, list[str], list[str]]:
    """Write a map, its pings and the requested formats to the next ``saved/map-...``.

    If a format cannot be written, the others still are. Concurrent saves into the same folder,
    in this process or another, wait.

    Args:
        folder: of the results.
        settings: which formats, and where the map lies.
        drawn: the map.
        samples: at least those in the map.
        water_level: above the datum, in m.
        config: everything resolved, for config.yaml.

    Returns:
        The folder, the names of its files, and a text for each format that was not written.

    Raises:
        OSError: the folder cannot be written; nothing of it remains.
    """
    home = folder / SAVED
    home.mkdir(exist_ok=True)
    with _unfinished_folder(home) as unfinished:
        place = unfinished / _next_name(home, drawn.samples)
        place.mkdir(parents=True)
        pings = samples[: drawn.samples]
        write_samples(place / "samples.csv", pings.xy, pings.z)
        write_map(place / "map.npz", drawn)
        write_config(place / "config.yaml", {"version": __version__, **config})
        failed = [
            f"map{ending} ({fault})"
            for ending in settings.endings
            if (fault := _export(place, ending, settings.of(ending, water_level)))
        ]
        names = sorted(path.name for path in place.iterdir())
        write_checksums(place, names)
        final = home / place.name
        rename_folder(place, final)
    return final, names, failed


@contextmanager
def _unfinished_folder(home: Path) -> Iterator[Path]:
    """The folder for unfinished maps, empty at first and removed at the end.

    The lock makes this the only writer, so old contents are a dead process's. It ends with its
    process.
    """
    unfinished = home / UNFINISHED
    with lock(home.parent / LOCK, wait=True):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            yield unfinished
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _next_name(home: Path, samples: int) -> str:
    """The number comes first, so that names sort by time."""
    taken = [re.match(r"map-(\d+)-", path.name) for path in home.iterdir()]
    number = max((int(found[1]) for found in taken if found), default=0) + 1
    return f"map-{number:03d}-{samples}-samples"


def _export(place: Path, ending: str, given: Mapping[str, Any]) -> str:
    """Write a format beside the run's files; returns the reason if that fails, else ""."""
    try:
        export(place, place / f"map{ending}", ExportSettings(**given))
    except InputError as error:
        return str(error).replace(f"{place}{os.sep}", "")
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:  # of any library; the other formats are still written
        return f"{type(error).__name__}: {error}"
    return ""
