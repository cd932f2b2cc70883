"""A run's folder as values: its settings, its map and its samples, each read once."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..core.files import verify
from ..core.maps import ElevationMap
from ..core.reading import read_yaml
from ..core.settings import flat
from . import folder as files
from .held_out import OTHER_SURVEY

if TYPE_CHECKING:
    import xarray

log = logging.getLogger(__name__)

#: The settings of a run, in its folder.
CONFIG = "config.yaml"


@dataclass(frozen=True)
class Run:
    """A run's or mission's folder. What it holds is read when it is first asked for, and kept.

    Attributes:
        folder: of the run.
        settings: the contents of its config.yaml; empty if it has none.
        saved: the folder of a map saved during the mission, if that is shown.
    """

    folder: Path
    settings: Mapping[str, Any]
    saved: Path | None = None

    @classmethod
    def open(cls, folder: str | os.PathLike[str], live: bool = False) -> Run:
        """The run in a folder.

        ``live``: with the map that was written last, among those saved during the mission.

        Raises:
            InputError: there is no such folder, or its config.yaml is no YAML, damaged or of
                another layout.
        """
        path = Path(folder)
        files.check_run(path)
        saved = files.newest_map(path) if live else path
        if saved == path:
            return cls(path, read_settings(path))
        return cls(path, read_settings(path) or read_settings(saved), saved)

    @classmethod
    def of(cls, run: Run | str | os.PathLike[str]) -> Run:
        """The run itself, or the one in a folder. Raises as ``open``."""
        return run if isinstance(run, Run) else cls.open(run)

    @property
    def home(self) -> Path:
        """The folder of map and samples."""
        return self.saved or self.folder

    @cached_property
    def drawn(self) -> ElevationMap:
        """The map as the model drew it: that of a mission has values everywhere, for planners.

        Raises:
            InputError: map.npz is missing or damaged.
        """
        return files.read_map(self.home / files.MAP)

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        """The columns of samples.csv, each [N]: at least x and y, in m.

        Raises:
            InputError: samples.csv is missing or damaged, or lacks a column.
        """
        return files.read_table(self.home / "samples.csv", ("x", "y"))

    @cached_property
    def mapped(self) -> dict[str, np.ndarray]:
        """As ``samples``, without those that came after the map was drawn."""
        count = self.drawn.samples or None
        return {name: values[:count] for name, values in self.samples.items()}

    @cached_property
    def xy(self) -> np.ndarray:
        """Places of the samples in the map [N, 2], in m."""
        return np.column_stack((self.mapped["x"], self.mapped["y"]))

    @cached_property
    def map(self) -> ElevationMap:
        """The map; NaN where the samples say nothing about the bottom.

        Raises:
            InputError: a file is missing or damaged.
        """
        drawn, pings = self.drawn, self.mapped
        # `poam map` decided itself what its map shows.
        if "shown" in self.settings or "z" not in pings:
            return drawn
        return drawn.only(drawn.known(self.xy, pings["z"]))

    @cached_property
    def outline(self) -> tuple[np.ndarray, ...]:
        """Rings [K, 2] of the polygons where the map ends, islands too, in m; empty without.

        Raises:
            InputError: outline.csv is damaged.
        """
        if not (path := self.folder / files.OUTLINE).exists():
            return ()
        table = files.read_table(path, files.OUTLINE_COLUMNS)
        ends = np.flatnonzero((np.diff(table["polygon"]) != 0) | (np.diff(table["ring"]) != 0)) + 1
        return tuple(np.split(np.column_stack((table["x"], table["y"])), ends))

    @property
    def simulated(self) -> bool:
        """Whether its pings are simulated."""
        return bool(self.settings.get("simulated"))

    @property
    def title(self) -> str:
        """The title given to `poam map`, or else one with the folder's name, without the map- of a
        folder that was named after its log."""
        default = f"Bathymetry of {self.folder.resolve().name.removeprefix('map-')}"
        return str(self.settings.get("title") or default)

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """``origin`` and ``heading`` (degrees), ``water_level`` and ``contour_interval`` (m), as
        far as the settings have them.

        Those of a mapped log are top-level keys. Of nodes, the mapper has the level, and the
        planner the origin; in a map saved by the mapper alone, this has both.
        """
        own = flat({key: value for key, value in self.settings.items() if key != "nodes"})
        planner, mapper = (own | self.node(name) for name in ("planner", "mapper"))
        interval = own.get("contour_interval")
        lengths = {"water_level": mapper.get("water.level"), "contour_interval": interval}
        recorded: dict[str, Any] = {name: _number(value) for name, value in lengths.items()}
        recorded = {name: value for name, value in recorded.items() if value is not None}
        place = planner if planner.get("origin") else mapper
        origin = place.get("origin")
        numbers = [_number(value) for value in origin] if isinstance(origin, list) else []
        # 0, 0 is the planner's default: not given.
        if len(numbers) == 2 and None not in numbers and any(numbers):
            recorded["origin"] = tuple(numbers)
            recorded["heading"] = _number(place.get("heading")) or 0.0
        return recorded

    def check_origin(self, origin: Sequence[float] | None) -> None:
        """Warn if a user's origin (degrees; None: not given) moves the map from where it was."""
        if origin and any(origin) and (own := self.recorded.get("origin", origin)) != tuple(origin):
            text = "%s: its origin is %g %g; --origin %g %g places the map elsewhere"
            log.warning(text, self.folder, *own, *origin)

    @property
    def shared_once(self) -> dict[str, Any]:
        """The settings; if all nodes of a mission have the same, these are there once."""
        config, nodes = dict(self.settings), _mapping(self.settings.get("nodes"))
        if len(nodes) > 1 and all(own == next(iter(nodes.values())) for own in nodes.values()):
            config["nodes"] = {" and ".join(nodes): next(iter(nodes.values()))}
        return config

    @property
    def water_level(self) -> float:
        """Height of the water surface above the map's datum, in m; 0 if unknown."""
        return float(self.recorded.get("water_level", 0.0))

    def node(self, name: str) -> dict[str, Any]:
        """The parameters of a node of a mission, by nested name; empty if it has none."""
        return flat(_mapping(_mapping(self.settings.get("nodes")).get(name)))

    def to_xarray(self) -> xarray.Dataset:
        """The map as a Dataset over y and x (m): mean (m), variance (m^2) and the model's fields.

        Raises:
            InputError: xarray is not installed, or a file is missing or damaged.
        """
        try:
            import xarray
        except ImportError:
            raise InputError("to_xarray needs xarray (pip install xarray)") from None
        drawn = self.map
        layers = {"mean": drawn.mean, "variance": drawn.variance, **drawn.fields}
        units = {"mean": "m", "variance": "m2", "lengthscale": "m", OTHER_SURVEY: "m"}
        return xarray.Dataset(
            {
                name: (("y", "x"), np.asarray(values), {"units": units.get(name, "1")})
                for name, values in layers.items()
            },
            {"x": ("x", drawn.grid.x, {"units": "m"}), "y": ("y", drawn.grid.y, {"units": "m"})},
            {"title": self.title, "samples": drawn.samples},
        )


def read_settings(folder: Path) -> dict[str, Any]:
    """The contents of a run's config.yaml; empty if it has none.

    Raises:
        InputError: config.yaml is there, but is no YAML, damaged, or of another layout.
    """
    path = folder / CONFIG
    try:
        verify(path)
        settings = _mapping(read_yaml(path))
    except FileNotFoundError:
        return {}
    except (OSError, InputError) as error:
        raise InputError(f"{path}: expected YAML ({error})") from None
    known = files.LAYOUT
    if (layout := settings.pop("layout", known)) != known:
        raise InputError(f"{path}: expected layout {known}, got {layout!r}, of another version")
    return settings


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None
