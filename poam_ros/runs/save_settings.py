"""How a map is saved when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..settings import check, setting
from .exports.formats import FORMATS

_NAMES = [ending[1:] for ending in FORMATS]


def _formats(text: str) -> list[str]:
    """The endings of a text such as ``tif, nc``.

    Raises:
        InputError: one is none.
    """
    names = text.replace(",", " ").split()
    wrong = [name for name in names if name not in _NAMES]
    if wrong:
        raise InputError(f"expected names of {', '.join(_NAMES)}, got {', '.join(wrong)[:80]!r}")
    return [f".{name}" for name in dict.fromkeys(names)]


@dataclass(frozen=True)
class SaveSettings:
    """What ``~/save_map`` writes besides map.npz, samples.csv and config.yaml, and where that lies.

    Raises:
        InputError: a value is wrong.
    """

    save_formats: str = setting(
        "tif, nc",
        f"What ~/save_map writes of the map: any of {', '.join(_NAMES)}",
        check=_formats,
    )
    origin: tuple[float, ...] = setting(
        (0.0, 0.0),
        "Latitude and longitude of the map's origin, for saved maps; 0, 0: not said",
        "deg",
        minimum=-180.0,
        maximum=180.0,
    )
    heading: float = setting(
        0.0, "Direction of the map's y axis, clockwise from true north", "deg", -360.0, 360.0
    )
    vertical_datum: int = setting(
        0, "EPSG code of what the map's zero is, for saved maps; 0: not said", "", 0, 10**6
    )

    def __post_init__(self) -> None:
        check(self)
        if abs(self.origin[0]) > 90:
            raise InputError(f"origin: expected a latitude within 90 deg, got {self.origin[0]}")
        if self.vertical_datum and not self.placed:
            raise InputError("vertical_datum: expected an origin as well, got 0, 0")

    @property
    def placed(self) -> bool:
        """Whether it was said where the map lies."""
        return any(self.origin)

    @property
    def endings(self) -> list[str]:
        """Of the files, as ``FORMATS`` has them."""
        return _formats(self.save_formats)

    def of(self, ending: str, water_level: float) -> dict[str, Any]:
        """Fields of ``ExportSettings`` for a format, at a water level in m."""
        given: dict[str, Any] = {"water_level": water_level}
        row = FORMATS[ending]
        if self.placed and row.origin != "refused":
            given |= {"origin": self.origin, "heading": self.heading}
        if self.vertical_datum and row.origin != "refused":
            given["vertical_datum"] = self.vertical_datum
        return given
