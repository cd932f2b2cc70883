"""Missions without ROS: positions, maps and counts in; goals and mission state out."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError
from ..core.geometry import Extent, is_place
from ..core.maps import ElevationMap
from ..core.settings import instance
from ..frontend.events import PAUSED
from ..frontend.odometry import JUMP, MOVED, JumpDetector, VehicleState
from ..frontend.ranges import RawPing
from ..mission.chooser import WaypointChooser
from ..mission.mission import Mission
from ..mission.store import MissionStore, MissionStoreSettings
from ..mission.target import MapTarget, TargetSettings
from ..mission.watchdog import MAP, SONAR, Watchdog, WatchdogSettings
from ..planning.areas import AreaSettings
from ..planning.clearance import ClearanceSettings
from ..planning.pilots import PILOTS
from ..planning.planners import PLANNERS

log = logging.getLogger(__name__)


class Guidance:
    """A mission with its watchdog, map target, planner and store, as the planner node has them.

    Args:
        values: the planner's settings by name.

    Attributes:
        mission: the mission; a stored one is restored. ``target``: its map target.
        found: what was restored, as text; empty: nothing.

    Raises:
        InputError: a value is wrong, or the mission folder cannot be used.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values, workspace = values, Extent.of(values["workspace"])
        areas = instance(AreaSettings, values).open(workspace)
        # Separate random generators for pilot survey and waypoints.
        pilot, draws = map(np.random.default_rng, np.random.SeedSequence(values["seed"]).spawn(2))
        self.mission = Mission(
            PILOTS[values["pilot"]](workspace, pilot),
            workspace,
            areas=areas,
            clearance=instance(ClearanceSettings, values),
            arrival={n: values[n] for n in ("goal_radius", "capture_radius", "max_speed")},
            max_samples=values["max_samples"],
            max_duration=values["max_duration"],
            autostart=False,
            on_done=values["on_done"],
        )
        self.watchdog = Watchdog(instance(WatchdogSettings, values), areas)
        self._options = instance(PLANNERS[values["planner"]].options, values)
        # Only a person, or the caller, resumes a mission on an autopilot.
        stored = instance(MissionStoreSettings, {**values, "autoresume": False})
        self._store = MissionStore(stored, draws)
        try:
            self.found = self._store.restore(self.mission)
        except BaseException:
            self._store.close()
            raise
        if self.mission.state == PAUSED:  # by a watchdog, perhaps, which would resume it
            self.mission.pause("the process was restarted")
        self.target = MapTarget(instance(TargetSettings, values), self.mission.state)
        self._chooser = WaypointChooser(self.mission, self.target, values["planner"], draws)
        self._jumps = JumpDetector()
        self._map: ElevationMap | None = None
        self.z = self._yaw = self._limit_s = 0.0

    def locate(self, state: VehicleState, now: Moment) -> float:
        """Take a state of the vehicle; returns the length of a jump that lasts, in m, or 0."""
        position, settings = np.array(state.position[:2]), self.watchdog.settings
        if not is_place(position):
            return 0.0
        fault = self._jumps.check(state, self._values["max_speed"], settings.max_jump)
        if fault == JUMP:
            return 0.0
        if fault == MOVED:
            self.watchdog.position_jumped(self.mission, position, self._jumps.distance)
        self.z, self._yaw, self._limit_s = state.position[2], state.yaw, now.limit_s
        mission, goals = self.mission, self.mission.goals
        if mission.update_position(position, now.limit_s, state.stamp_ns / SECOND) == "timeout":
            count = goals.results["timeout"]
            log.warning("a goal was given up, as it was not reached in time (%d so far)", count)
        x, y, _ = state.known_variance
        std = 0.0 if math.isnan(x + y) else math.sqrt(max(x, y))
        self.watchdog.position_received(mission, std)
        return self._jumps.distance if fault == MOVED else 0.0

    def ping(self, ping: RawPing) -> None:
        """A ping has come."""
        self.watchdog.received(SONAR)
        self.mission.sounded(ping)

    def draw(self, drawn: ElevationMap, now: Moment) -> None:
        """Take a new map."""
        self._map, self._limit_s = drawn, now.limit_s
        self.mission.learn(drawn)
        self.watchdog.received(MAP)
        self.target.assess(self.mission, drawn, now.limit_s)
        self.mission.set_planner(self._next_waypoints)

    def count(self, samples: int) -> None:
        """Set the number of accepted pings."""
        if samples < self.mission.budget.samples:
            self._map = None
            self.target.forget()
            self.mission.set_planner(None)
        if self.mission.state == PAUSED:  # otherwise only a map shows that the mapper works
            self.watchdog.received(MAP)
        self.mission.count_samples(samples)

    def tick(self, now: Moment) -> None:
        """Let limits and watchdogs act; call about every second."""
        self._limit_s = now.limit_s
        self.mission.tick(now.limit_s)
        self.target.tick(self.mission, now.limit_s)
        self.watchdog.check(self.mission, now.steady_s, now.limit_s)

    def give_up_return(self) -> None:
        """Give up the way home: somebody else controls the vehicle."""
        if self.mission.returning:
            self.mission.discard_goals()

    def save(self, now: Moment) -> str:
        """Write what has changed; returns why it cannot be written, or ""."""
        self.target.update_reason(self.mission)
        self._store.save(self.mission, now.steady_s)
        return self._store.failing

    def close(self) -> None:
        """Release the mission folder."""
        self._store.close()

    def _next_waypoints(self, position: np.ndarray) -> np.ndarray | None:
        try:
            speed = self._values["max_speed"]
            return self._chooser.path(self._map, self._limit_s, self._yaw, speed, self._options)
        except InputError as error:
            log.warning("no waypoint from this map: %s", error)
            return None
