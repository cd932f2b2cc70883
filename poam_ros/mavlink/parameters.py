"""The autopilot's parameters that matter to a mission: read and checked, never set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from ..core.geometry import Extent
from .telemetry import DOWN

#: Speeds of ArduPilot's Rover and Sub, with their units in m/s; the first that is not 0 counts.
SPEEDS = {"WP_SPEED": 1.0, "CRUISE_SPEED": 1.0, "WPNAV_SPEED": 0.01}
#: Their parameters; those with _CM are of versions before 4.6.
WANTED = (
    *SPEEDS, "WP_RADIUS", "RNGFND1_ORIENT", "RNGFND1_MIN", "RNGFND1_MAX", "RNGFND1_MIN_CM",
    "RNGFND1_MAX_CM", "FENCE_ENABLE", "FENCE_TYPE", "FENCE_RADIUS", "FENCE_ACTION",
    "FS_GCS_ENABLE",
)  # fmt: skip
TRIES, PERIOD_S = 3, 2.0  # requests of each parameter, and the time between them
CIRCLE = 2  # a bit of FENCE_TYPE
SINGLE = 1 + 1e-6  # a parameter is a float of 32 bits
#: Share by which max_speed may differ from the vehicle's speed.
SPEED_TOLERANCE = 0.3


class ParameterReader:
    """Asks for the parameters in ``WANTED``, a few at a time, and collects the answers.

    Attributes:
        values: of the parameters that the autopilot has answered, by name.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self._tries = dict.fromkeys(WANTED, 0)
        self._asked_s = -math.inf

    @property
    def done(self) -> bool:
        """Whether every parameter was answered, or requested ``TRIES`` times."""
        return not self._missing

    @property
    def _missing(self) -> list[str]:
        return [n for n in WANTED if n not in self.values and self._tries[n] < TRIES]

    def due(self, now_s: float) -> list[str]:
        """Names to request at a steady time in s."""
        if now_s - self._asked_s < PERIOD_S:
            return []
        self._asked_s, names = now_s, self._missing
        for name in names:
            self._tries[name] += 1
        return names

    def answer(self, message: Any) -> None:
        """Handle a PARAM_VALUE."""
        name = message.param_id
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        text = text.rstrip("\0")
        if text in self._tries and math.isfinite(message.param_value):
            self.values[text] = float(message.param_value)

    @property
    def range_limits(self) -> tuple[float, float]:
        """Shortest and longest range of the rangefinder in m; 0 and infinity where unknown."""
        return _range_limits(self.values)


def _range_limits(found: Mapping[str, float]) -> tuple[float, float]:
    low = found.get("RNGFND1_MIN", found.get("RNGFND1_MIN_CM", 0.0) / 100)
    high = found.get("RNGFND1_MAX", found.get("RNGFND1_MAX_CM", 0.0) / 100)
    return low, high or math.inf


def advice(
    found: Mapping[str, float], values: Mapping[str, Any], workspace: Extent, home: Any
) -> Iterator[str]:
    """Texts on parameters that do not suit the mission, one for each.

    Args:
        found: the autopilot's parameters, by name; missing ones are not checked.
        values: of our nodes' parameters ``goal_radius``, ``capture_radius``, ``max_speed``,
            ``sonar.min_range``, ``sonar.max_range``, by name.
        workspace: the rectangle to be mapped.
        home: the vehicle's position [2] in m, taken as the autopilot's home.
    """
    radius = found.get("WP_RADIUS", 0.0)
    if radius > (reached := max(values["goal_radius"], values["capture_radius"])):
        yield (
            f"WP_RADIUS is {radius:g} m: the boat may stop short of a goal, which counts as "
            f"reached within {reached:g} m; set capture_radius to at least {radius:g}"
        )
    name, wanted = next((n for n in SPEEDS if found.get(n)), ""), values["max_speed"]
    speed = found.get(name, 0.0) * SPEEDS.get(name, 1.0)
    if name and abs(speed - wanted) > SPEED_TOLERANCE * wanted:
        yield f"{name} is {speed:g} m/s, and max_speed {wanted:g} m/s: set max_speed to match"
    if (facing := found.get("RNGFND1_ORIENT", DOWN)) != DOWN:
        yield f"RNGFND1_ORIENT is {facing:g}: expected {DOWN}, a sonar that looks down"
    low, high = _range_limits(found)
    least, most = values["sonar.min_range"], values["sonar.max_range"]
    if low > SINGLE * least > 0:
        yield (
            f"RNGFND1_MIN is {low:g} m, and sonar.min_range {least:g} m: shorter ranges than "
            f"{low:g} m are refused as too close"
        )
    if SINGLE * high < most:
        yield (
            f"RNGFND1_MAX is {high:g} m, and sonar.max_range {most:g} m: deeper water than "
            f"{high:g} m counts as no echo"
        )
    if (fence := found.get("FENCE_ENABLE")) == 0:
        yield "FENCE_ENABLE is 0: there is only the mission's own geofence"
    elif fence and found.get("FENCE_ACTION") == 0:
        yield "FENCE_ACTION is 0: the autopilot only reports a breach of its fence"
    if fence != 0 and int(found.get("FENCE_TYPE", 0)) & CIRCLE and home is not None:
        corners = product((workspace.xmin, workspace.xmax), (workspace.ymin, workspace.ymax))
        far, radius = max(math.dist(home, each) for each in corners), found.get("FENCE_RADIUS", 1e9)
        if radius < far:
            yield (
                f"FENCE_RADIUS is {radius:g} m, and the workspace reaches {far:.0f} m from here: "
                "the fence will end the mission"
            )
    if found.get("FS_GCS_ENABLE") == 0:
        yield "FS_GCS_ENABLE is 0: the boat does not react when its ground station is lost"
