"""How files are read, as the user says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class Levels(Protocol):
    """A water level over time, as of ``levels.WaterLevels``."""

    def at(self, stamp_ns: np.ndarray) -> np.ndarray:
        """The level at times [N] in ns, in m; NaN where it is unknown."""
        ...

    @property
    def description(self) -> str:
        """Readings and range, as text."""
        ...


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read, as the user says.

    Attributes:
        columns: names of columns by what they mean (``columns.MEANINGS``), where they are other
            ones.
        by: the column whose values are the soundings' groups, such as lines; where there is none
            of the name ``line`` they are found in the track.
        water_level: elevation of the water's surface, from which depths are counted, in m.
        levels: the same over time; goes before ``water_level``.
        draught: depth of the sonar, which is added to depths, in m.
        sound_scale: true metres per recorded metre of depth, which corrects for sound speed.
        start, stop: as of ``Soundings.between``, in s.
        units: of depths and elevations, a key of ``UNITS``; empty: as the file says, else m.
        crs: of x and y, as pyproj takes it (EPSG:25833); empty: as the file says, else metres of
            no known place.
        settings: of a recording's front end and topics, and of a mission, by name.
        labels: columns whose values are kept, besides that of lines: ``Soundings.labels``.
        times: read the times even if nothing here needs them.
        near: latitude and longitude of the survey's other files; None: unknown.
        trusted: whether the user is sure of what columns and values mean, so that nothing is asked.
        keel: depth of the keel, which is added to depths that count from it, in m.
        min_confidence: of a table's readings, in the unit of its column; None: half of a
            percentage, and any flag that is not 0.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    water_level: float = 0.0
    levels: Levels | None = None
    draught: float = 0.0
    sound_scale: float = 1.0
    start: float = 0.0
    stop: float = 0.0
    units: str = ""
    crs: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    times: bool = False
    near: tuple[float, float] | None = None
    trusted: bool = False
    keel: float = 0.0
    min_confidence: float | None = None

    @property
    def timed(self) -> bool:
        """Whether a sounding without a time is left out."""
        return bool(self.start or self.stop or self.times or self.levels or "time" in self.columns)
