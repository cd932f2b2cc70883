"""What pauses a mission that nobody looks at: silence, bad positions, the fence. No rclpy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ..core.settings import check, setting
from ..frontend.events import EXPLORING, GEOFENCE, PAUSED, WATCHDOG
from ..planning.areas import NavigableArea
from .mission import Mission

ODOMETRY, SONAR, MAP = "odometry", "sonar", "map"
LONGEST_S = 2.0  # that one look may add: what came while this process stood still was not heard
CALM_S = 3.0  # without a fault until the mission goes on


@dataclass(frozen=True)
class WatchSettings:
    """When a mission is paused by itself; times in the slower of wall time and ROS time.

    Raises:
        InputError: a value is outside its range.
    """

    odometry_patience: float = setting(
        5.0, "Silence of odometry that pauses the mission; 0: none", "s", 0.0, 1e5, mutable=True
    )
    sonar_patience: float = setting(
        30.0, "Silence of the sonar that pauses the mission; 0: none", "s", 0.0, 1e5, mutable=True
    )
    map_patience: float = setting(
        120.0, "Age of the map that pauses an exploration; 0: none", "s", 0.0, 1e5, mutable=True
    )
    max_position_std: float = setting(
        0.0,
        "Standard deviation of the position, by its odometry, that pauses the mission; 0: none",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    geofence_margin: float = setting(
        10.0,
        "Outside the workspace by more than this the mission is paused, once the vehicle has been "
        "inside",
        "m",
        minimum=0.0,
        maximum=1e6,
        mutable=True,
    )
    watchdog_resumes: bool = setting(
        True,
        "A mission goes on by itself when what paused it is over; never after the fence",
        mutable=True,
    )

    def __post_init__(self) -> None:
        check(self)


class Watchdog:
    """Pauses a mission, and lets it go on.

    Silence is counted in looks: each adds the time since the one before, by the clock that ran
    slower, and never more than ``LONGEST_S``. So neither a simulation that stands, nor one that is
    quick, nor a clock that is set, nor a process that was held up looks like silence; on a vehicle
    it is plain time.

    Args:
        settings: may be replaced at any time.
        areas: the fence.
    """

    def __init__(self, settings: WatchSettings, areas: NavigableArea) -> None:
        self.settings = settings
        self._areas = areas
        self._heard: set[str] = set()  # sources, since the look before
        self._silent: dict[str, float] = defaultdict(float)  # s, by source
        self._std = 0.0  # m, of the position
        self._calm = 0.0  # s without a fault
        self._armed = False  # the vehicle has been inside the fence
        self._looked: tuple[float, float] | None = None
        self._watched = False  # the mission was active at the look before

    def heard(self, source: str) -> None:
        """Something came from ``odometry``, the ``sonar`` or about the ``map``."""
        self._heard.add(source)

    def located(self, mission: Mission, std: float) -> None:
        """Odometry came, and the mission has its position; ``std``: of it in m, 0 for unknown."""
        self.heard(ODOMETRY)
        self._std = std
        assert mission.position is not None
        outside = self._areas.outside(mission.position)
        if outside == 0.0:
            self._armed = True
        elif self._armed and mission.active and outside > self.settings.geofence_margin:
            self._armed = False  # whoever resumes it may drive it back
            text = f"the vehicle is {outside:.1f} m outside the workspace"
            mission.pause(text, GEOFENCE)

    def look(self, mission: Mission, wall_s: float, ros_s: float) -> None:
        """Pause a mission for what is wrong by now, or let it go on; called about every second."""
        elapsed, heard = self._elapsed(wall_s, ros_s), self._heard
        self._heard = set()
        ours = mission.state == PAUSED and mission.paused_by == WATCHDOG
        if mission.active and not self._watched:
            self._silent.clear()  # a new patience
        self._watched = mission.active
        if not (mission.active or ours):
            return
        expected = (ODOMETRY, SONAR, MAP) if mission.state == EXPLORING else (ODOMETRY, SONAR)
        for source in expected:
            self._silent[source] += elapsed
        for source in heard:
            self._silent[source] = 0.0
        fault = self.fault()
        if mission.active and fault is not None:
            mission.pause(fault, WATCHDOG)
            self._watched = False
        self._calm = 0.0 if fault is not None else self._calm + elapsed
        if ours and self.settings.watchdog_resumes and self._calm >= CALM_S:
            mission.resume(f"it is over: {mission.reason}")

    def fault(self) -> str | None:
        """What is wrong, in words; None: nothing."""
        s = self.settings
        for source, patience, what in (
            (ODOMETRY, s.odometry_patience, "no odometry"),
            (SONAR, s.sonar_patience, "no ping"),
            (MAP, s.map_patience, "no new map"),
        ):
            if patience and self._silent[source] > patience:
                return f"{what} for {patience:g} s"
        if s.max_position_std and not self._std <= s.max_position_std:
            return f"a position known to {self._std:.3g} m, not {s.max_position_std:g} m"
        return None

    def _elapsed(self, wall_s: float, ros_s: float) -> float:
        before, self._looked = self._looked or (wall_s, ros_s), (wall_s, ros_s)
        slower = min(wall_s - before[0], ros_s - before[1])
        return min(max(slower, 0.0), LONGEST_S)
