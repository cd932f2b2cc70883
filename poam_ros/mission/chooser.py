"""Chooses the next waypoints, for the planner node and for lock-step missions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.maps import ElevationMap
from ..planning.planners import PLANNERS
from ..planning.situation import GridView, MapView
from .mission import Mission
from .target import GAPS, MapTarget


class WaypointChooser:
    """Chooses the next coverage gap if the map target requires it, else asks the planner.

    Args:
        mission: that waypoints are chosen for.
        target: of its map.
        planner: name in ``PLANNERS``.
        draws: random generator of the planner.
    """

    def __init__(
        self, mission: Mission, target: MapTarget, planner: str, draws: np.random.Generator
    ) -> None:
        self._mission, self._target, self._draws = mission, target, draws
        self._planner = PLANNERS[planner]

    def path(
        self,
        drawn: ElevationMap | None,
        now_s: float,
        yaw: float,
        speed: float,
        options: Any,
        view: MapView | None = None,
    ) -> tuple[np.ndarray, str]:
        """The next waypoints [K, 2], and their purpose, as ``Mission.drive`` takes them.

        Args:
            drawn: the latest map; None only if a view is given.
            now_s: the mission's time.
            yaw: heading in rad.
            speed: the vehicle's top speed in m/s.
            options: the planner's own.
            view: for the planner; None: the map, with the places visited since.

        Raises:
            InputError: the map allows no choice.
        """
        mission = self._mission
        if drawn is not None:
            gap = self._target.next_goal(mission, drawn, now_s)
            if gap is not None:
                return gap, GAPS
        if view is None:
            assert drawn is not None
            view = GridView(drawn, *mission.track.split_at(drawn.stamp_ns / SECOND))
        situation = mission.situation(yaw, speed)
        return self._planner.path(view, situation, options, self._draws), ""
