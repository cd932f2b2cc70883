"""How files are read, as the user says, and questions about what nothing says.

An answer is printed only if the file becomes a map with it (``readers``), and names only columns
that can be what it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, shown
from .cells import UNITS
from .columns import MEANINGS

if TYPE_CHECKING:
    from .levels import WaterLevels

Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read, as the user says.

    Attributes:
        columns: names of columns by what they mean (``columns.MEANINGS``), where they are other
            ones.
        by: the column whose values are the soundings' groups. Where there is none of the name
            ``line`` they have no groups: ``Soundings.grouped_by_line`` finds lines in the track.
        water_level: elevation of the water's surface, from which depths are counted, in m.
        levels: the same over time; goes before ``water_level``.
        draught: depth of the sonar, which is added to depths, in m.
        sound_scale: true metres per recorded metre of depth, which corrects for sound speed.
        start, stop: as of ``Soundings.between``, in s.
        units: of depths and elevations, and after a comma of x and y, keys of ``UNITS``; empty: as
            the file says, else m.
        crs: of x and y, as pyproj takes it (EPSG:25833); empty: as the file says, else metres of
            no known place.
        settings: of a recording's front end and topics, and of a mission, by name; ``mission``: the
            ``RecordedMission`` if its journal was read already.
        labels: columns whose values are kept, besides that of lines: ``Soundings.labels``.
        times: read the times even if nothing here needs them.
        near: latitude and longitude that the survey is near to, as the user or its first file says;
            None: unknown.
        trusted: whether the user is sure of what columns and values mean, so that nothing is asked.
        keel: depth of the keel, which is added to depths that count from it, in m.
        min_confidence: of a table's readings, in the unit of its column; None: half of a
            percentage, and any flag that is not 0.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    water_level: float = 0.0
    levels: WaterLevels | None = None
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

    def __post_init__(self) -> None:
        if unknown := [*{*self.columns} - {*MEANINGS}]:
            raise InputError(f"--columns: expected meanings {', '.join(MEANINGS)}, got "
                             f"'{shown(unknown[0])}'")  # fmt: skip
        if not {*self.unit_of} <= {"", *UNITS}:
            raise InputError(f"--units: expected one of {', '.join(UNITS)} (and after a comma that "
                             f"of x and y), got '{self.units}'")  # fmt: skip

    @property
    def unit_of(self) -> tuple[str, str]:
        """The units of depths, and of x and y; empty: as the file says."""
        return self.units.partition(",")[0], self.units.partition(",")[2]

    @property
    def timed(self) -> bool:
        """Whether a sounding without a time is left out."""
        return bool(self.start or self.stop or self.times or self.levels or "time" in self.columns)

    def answered(self, fields: Mapping[str, Any]) -> ReadOptions:
        """The same with other fields; ``columns`` are added to those given."""
        columns = {**self.columns, **fields.get("columns", {})}
        return replace(self, **{**fields, "columns": columns})

    @property
    def words(self) -> str:
        """The words of a command line that say what a file means."""
        columns = " ".join(quote(f"{meaning}={name}") for meaning, name in self.columns.items())
        words = [f"--columns {columns}"] if columns else []
        words += [f"--{name} {quote(value)}" for name in ("units", "crs")
                  if (value := getattr(self, name))]  # fmt: skip
        words += ["--near {:.4f} {:.4f}".format(*self.near)] if self.near else []
        return " ".join(words + ["--trust-columns"] * self.trusted)


class Unclear(InputError):
    """A question, before its answers were tried.

    Attributes:
        text: without the answers.
        answers: fields of ``ReadOptions``, by when they are right, the likeliest first.
        guess: whether the only answer that gives possible soundings is taken without asking.
        most: number of answers that are shown.
    """

    def __init__(
        self, text: str, answers: Answers | None = None, guess: bool = False, most: int = 9
    ) -> None:
        super().__init__(text)
        self.text, self.answers, self.guess, self.most = text, answers or {}, guess, most


def read_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names by meaning from words such as ``x=EASTING`` or ``x=E,y=N,z=H``.

    Raises:
        InputError: a word is not such a pair.
    """
    parts = [part for word in words for part in re.split(r",(?=\w+=|$)", word) if part]
    pairs = [part.partition("=") for part in parts]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(
                "--columns: expected MEANING=NAME, as in latitude=LAT longitude=LON depth=D, "
                f"got '{shown(meaning + equals + name)}'"
            )
    return {meaning: name for meaning, _, name in pairs}
