"""Maps saved during a mission, each in a folder of its own that exists only if complete."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.files import lock, rename_folder, write_checksums
from ..core.geodesy import map_heading, map_origin
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..core.settings import Settings
from .folder import write_config, write_map, write_samples


@dataclass(frozen=True)
class PlaceSettings(Settings):
    """Where saved maps lie on the Earth, for exports.

    Raises:
        InputError: a value is wrong.
    """

    origin: tuple[float, ...] = map_origin()
    heading: float = map_heading()


#: In the folder of the results: the folder of saved maps and its lock. In that: unfinished maps.
SAVED, LOCK, UNFINISHED = "saved", ".saved.lock", ".begun"
MAP = "map.npz"


def save(
    folder: Path, drawn: ElevationMap, samples: Samples, config: Mapping[str, Any]
) -> tuple[Path, list[str]]:
    """Write a map and its pings to the next ``saved/map-...``.

    Concurrent saves into the same folder, in this process or another, wait.

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
    home.mkdir(exist_ok=True)
    with _unfinished_folder(home) as unfinished:
        place = unfinished / _next_name(home, drawn.samples)
        place.mkdir(parents=True)
        pings = samples[: drawn.samples]
        write_samples(place / "samples.csv", pings.xy, pings.z)
        write_map(place / MAP, drawn)
        write_config(place / "config.yaml", {"version": __version__, **config})
        names = sorted(path.name for path in place.iterdir())
        write_checksums(place, names)
        final = home / place.name
        rename_folder(place, final)
    return final, names


def newest_map(folder: Path) -> Path:
    """The folder of the map that was written last: ``folder`` itself, or one in its ``saved``."""
    homes = [folder, *(folder / SAVED).glob("map-*")]
    written = {home: path.stat().st_mtime_ns for home in homes if (path := home / MAP).is_file()}
    return max(written, key=lambda home: written[home], default=folder)


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
    number = max((int(name[1]) for name in taken if name), default=0) + 1
    return f"map-{number:03d}-{samples}-samples"
