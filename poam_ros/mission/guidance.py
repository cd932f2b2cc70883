"""A mission with its watchdog, map target and planner: the loop of the planner node and of
``poam drive``. Positions, maps and counts in; goals and mission state out. The mission is stored as
JSON, written atomically: after a restart the vehicle does not move by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import InputError, pasted
from ..core.files import read_json, write_json
from ..core.geometry import Extent, is_place
from ..core.maps import ElevationMap
from ..core.settings import Settings, instance, setting
from ..frontend.events import PAUSED, RETURNING
from ..frontend.front_end import MAX_ABOVE
from ..frontend.odometry import JUMP, MOVED, JumpDetector, VehicleState
from ..frontend.pings import SURFACE, RawPing
from ..frontend.refused_pings import ADVICE, NO_PING, OUT_OF_REACH, OUTSIDE
from ..journal.database import set_aside
from ..journal.folder import PLANNER, lock_folder, mission_dir_setting
from ..planning.areas import AreaSettings, NavigableArea, in_metres, read_polygons
from ..planning.pilots import PILOTS
from ..planning.planners import PLANNERS, PlannerEntry
from ..planning.routes import ClearanceSettings
from .mission import Mission
from .states import DISPLACED, MAP, SONAR, TAKEN_OVER, Autopilot, Watchdog, WatchdogSettings
from .target import MapTarget, TargetSettings

#: Standard deviations of the map that are added to its bottom: 95 % lie within.
UNCERTAINTY = 1.96
#: Version of the files; others are not read.
SCHEMA = 1
MISSION, TRACK, LOCK = PLANNER, "track.json", "planner.lock"
TRACK_S = 5.0  # between two writes of the track, the larger file
COUNT_S = 1.0  # between two writes of which only what comes with pings is new
WITH_PINGS = {"samples": 0, "shallow": 0}
RETRY_S = 5.0  # after a failure of the disk


class Guidance:
    """Gives a mission what arrives, and lets watchdog, map target and planner act on it.

    Args:
        values: the planner's settings by name; see ``change``.
        warn: takes the reason and the text of a warning.
        ahead_s: of every ``Moment`` to come, unless a mission is restored; see ``ahead_s``.

    Attributes:
        mission: the mission; a stored one is restored. ``target``: its map target.
        autopilot: who controls the vehicle. ``store``: the mission on the disk.
        found: what was restored, as text; empty: nothing.
        ahead_s: of every ``Moment``: as given, or as before a restart of the planner.
        map: the latest map; None before the first.
        fault: why no ping is mapped, as the mapper says: a reason of refusal or ``NO_PING``; empty:
            pings are; None: it has not said.
        z, yaw: of the vehicle, in m and rad; the yaw is NaN before the first position.
            ``goal_z``: of the goal.

    Raises:
        InputError: a value is wrong, or the mission folder cannot be used.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        warn: Callable[[str, str], object],
        ahead_s: float | None = None,
    ) -> None:
        self._values, self._warn, workspace = values, warn, Extent.of(values["workspace"])
        areas = instance(AreaSettings, values).open(workspace)
        # Separate random generators for pilot survey and waypoints.
        pilot, draws = map(np.random.default_rng, np.random.SeedSequence(values["seed"]).spawn(2))
        goals, home = given_places(values)
        self.mission = Mission(
            PILOTS[values["pilot"]](workspace, pilot) if goals is None else goals,
            workspace,
            areas=areas,
            clearance=instance(ClearanceSettings, values),
            arrival=self._arrival,
            max_samples=values["max_samples"],
            max_duration=values["max_duration"],
            autostart=values["autostart"],
            on_done=values["on_done"],
            home=home,
            home_reserve=values["home_reserve"],
        )
        self._watchdog = Watchdog(instance(WatchdogSettings, values), areas)
        self.autopilot = Autopilot()
        self._jumps = JumpDetector()
        self._draws, self._planner = draws, chosen_planner(values)
        self.store = MissionStore(instance(MissionStoreSettings, values), draws, ahead_s)
        try:
            self.found = self.store.restore(self.mission)
        except BaseException:
            self.store.close()
            raise
        self.ahead_s = self.store.ahead_s
        self.fault: str | None = None
        self.target = MapTarget(instance(TargetSettings, values), self.mission)
        self.map: ElevationMap | None = None
        self.z, self.yaw, self._now_s = 0.0, math.nan, 0.0
        self._sailed_z: float | None = None  # of the vehicle when an operator let it go, in m
        self._goal_z: tuple[np.ndarray | None, float] = None, 0.0  # a goal, and its z in m
        self._assessed: NavigableArea | None = None  # the area that was looked at for narrows

    def change(self) -> None:
        """Apply new values."""
        values = self._values
        try:
            self._planner = chosen_planner(values)
        except InputError as error:
            self._warn("planner", f"{error}; the options before stay in use")
        self.mission.change(self._arrival, values["max_samples"], values["max_duration"])
        self._watchdog.settings = instance(WatchdogSettings, values)
        self.target.settings = instance(TargetSettings, values)

    def locate(self, state: VehicleState, std: float, now: Moment) -> str | None:
        """Take a state of the vehicle, whose position has this standard deviation in m; 0: unknown.

        Returns:
            ``JUMP``: it was ignored; ``MOVED``: the position jumped and stays there; None: neither.
        """
        position, mission, warn = np.array(state.position[:2]), self.mission, self._warn
        if not (is_place(position) and math.isfinite(state.position[2])):
            warn("odometry_not_finite", f"odometry: expected numbers, got {state.position}")
            return JUMP
        speed, limit = self._values["max_speed"], self._watchdog.settings.max_jump
        fault, far = self._jumps.check(state, speed, limit), f"{self._jumps.distance:.1f} m"
        if fault == JUMP:
            warn("odometry_jump", f"odometry: a position {far} from the last one is ignored")
            return fault
        if fault == MOVED:
            text = f"the position jumped by {far}, and stays there"
            warn("odometry_moved", text)
            mission.position = position  # without following goals or track
            self.mission.pause(text, DISPLACED)
        self.z, self.yaw, self._now_s = state.position[2], state.yaw, now.unadjusted_s
        if self._sailed_z is None:
            self._sailed_z = self.z
        if mission.update_position(position, self._now_s, state.stamp_ns / SECOND) == "timeout":
            count = mission.goals.results["timeout"]
            text = "a goal was given up, as it was not reached in time"
            warn("goal_timeout", f"{text} ({count} so far)")
        self._assess(position)
        self._choose()
        self._watchdog.position_received(mission, std)
        return fault

    def _assess(self, position: np.ndarray) -> None:
        """Warn of the share of the area that is out of reach, when the mission begins."""
        routes = self.mission.goals.routes
        if not self.mission.active or routes.areas is self._assessed:
            return
        self._assessed = routes.areas
        if text := routes.narrows(position):
            self._warn("out_of_reach", text)

    @property
    def goal_z(self) -> float:
        """z of the present goal, in m: the same whenever it is sent.

        By ``goals.altitude`` above the map's bottom, less its 95 % uncertainty, or else
        ``goals.depth`` below the surface; without either, as deep as when an operator last started
        or resumed the mission: to follow the present z would let a vehicle drift.
        """
        goal = self.mission.goal
        if goal is None:
            return self.z
        if goal is not self._goal_z[0]:
            self._goal_z = goal, self._z_of(goal)
        return self._goal_z[1]

    @property
    def _surface(self) -> float:
        """The water's surface in the odometry's z, in m."""
        own = self._values["odometry.vertical"] == SURFACE
        return 0.0 if own else self.target.present_level

    @property
    def _wrong_z(self) -> str:
        """Why goals would lie at a wrong depth; empty: they do not, as far as is known."""
        surface = self._surface
        dives = [name for name in ("goals.depth", "goals.altitude") if self._values[name]]
        if self.mission.position is None or not dives or self.z <= surface + MAX_ABOVE:
            return ""
        return (
            f"{dives[0]}: the vehicle's z is {self.z:.1f} m, above the water at {surface:.1f} m: "
            "with odometry.vertical datum set water.level, the surface's height in that z"
        )

    def _z_of(self, goal: np.ndarray) -> float:
        depth, altitude = self._values["goals.depth"], self._values["goals.altitude"]
        surface = self._surface
        below = self.target.present_level - surface  # what z is below a map's elevations
        if altitude and self.map is not None:
            grid, at = self.map.grid, goal[None]
            mean = float(grid.interpolate(self.map.mean, at)[0])
            std = math.sqrt(float(grid.interpolate(self.map.variance, at)[0]))
            if math.isfinite(mean + std):
                return min(surface, mean + UNCERTAINTY * std - below + altitude)
        if depth or altitude:  # without a map, no deeper than the surface
            return surface - depth
        return self.z if self._sailed_z is None else self._sailed_z

    def shift(self, text: str) -> None:
        """Positions may have shifted, as the text says."""
        self._warn("shift", text)
        if self._watchdog.settings.pause_on_shift:
            self.mission.pause(text, DISPLACED)

    def command(self, word: str, now_s: float) -> tuple[bool, str]:
        """Do what an operator asks for at a time in s: ``start``, ``stop``, ``pause`` or
        ``resume``; returns success and an answer."""
        mission, displaced = self.mission, DISPLACED in self.mission.causes
        if word == "start" and (wrong := self._wrong_z or self.unmapped):
            return False, wrong
        done, answer = mission.start(now_s) if word == "start" else getattr(mission, word)()
        if done and word == "start":
            self.target.forget()  # the gaps that the last mission gave up
        if done and word in ("start", "resume"):
            self.autopilot.agree()
            self._sailed_z = self.z if mission.position is not None else None
        if done and word == "resume" and displaced and self.map is not None:
            text = "positions were displaced: what is mapped from now on may not fit the map so far"
            self._warn("map_displaced", text)
        return done, answer

    @property
    def taken_over(self) -> str:
        """The state before somebody else took the vehicle, in which its pings are mapped; empty:
        nobody has, or nobody knows where it is."""
        status, causes = self.mission.status, self.mission.causes
        mapped = TAKEN_OVER in causes and DISPLACED not in causes
        return status.interrupted if mapped and status.interrupted != RETURNING else ""

    def mapped(self, fault: str) -> None:
        """Take from the mapper why it maps no ping; see ``fault``."""
        self.fault = fault
        self.mission.ready = not self.unmapped

    @property
    def fault_text(self) -> str:
        """Why no ping is mapped, as text, and what to do; empty: pings are, or nobody says."""
        if self.fault == NO_PING:
            return "no ping has come in the last 10 s: check the sonar, and its topic or messages"
        advice = ADVICE.get(self.fault or "") or "see the mapper's diagnostics"
        return f"every ping is refused as {self.fault}: {advice}" if self.fault else ""

    @property
    def unmapped(self) -> str:
        """Why a mission may not begin, as no ping would be mapped; empty: it may.

        A vehicle may drive into the workspace, and dive to where the sonar finds the bottom.
        """
        dives = self._values["goals.depth"] or self._values["goals.altitude"]
        passing = (OUTSIDE, *OUT_OF_REACH) if dives else (OUTSIDE,)
        return "" if self.fault in passing else self.fault_text

    def ping(self, ping: RawPing) -> None:
        """Take a ping."""
        self._watchdog.received(SONAR)
        self.mission.sounded(ping)

    def draw(self, drawn: ElevationMap, now: Moment) -> None:
        """Take a new map."""
        self.map, self._now_s = drawn, now.unadjusted_s
        self._watchdog.received(MAP)
        self.target.learn(drawn, self._now_s)
        self._choose()

    def count(self, samples: int) -> None:
        """Set the number of accepted pings."""
        if samples < self.mission.budget.samples:  # the mapper was reset: the map is gone
            self.map = None
            self.target.forget()
            self.mission.learn(None)
        if self.mission.state == PAUSED:  # otherwise only a map shows that the mapper works
            self._watchdog.received(MAP)
        self.mission.count_samples(samples)

    def tick(self, now: Moment) -> None:
        """Let limits and watchdogs act; call about every second."""
        self._now_s = now.unadjusted_s
        self.mission.tick(now.unadjusted_s)
        self.target.follow(self._now_s)
        self._watchdog.check(self.mission, now.steady_s, now.unadjusted_s)

    def save(self, steady_s: float) -> None:
        """Write what has changed, at a steady time in s."""
        self.store.save(self.mission, steady_s)

    def close(self) -> None:
        """Write what is not written yet, and release the mission folder."""
        self.save(math.inf)
        self.store.close()

    @property
    def _arrival(self) -> dict[str, Any]:
        """As ``GoalQueue.set_arrival`` takes them."""
        names = "goal_radius", "capture_radius", "max_speed", "current"
        return {name: self._values[name] for name in names}

    def _choose(self) -> None:
        """Give the mission waypoints from the latest map where it needs a goal; a map that allows
        none is warned of."""
        mission, values = self.mission, self._values
        if self.map is None or mission.position is None or not mission.needs_goal:
            return
        given = self.map, self._now_s, self.yaw, values["max_speed"]
        try:
            path = self.target.next_path(*given, *self._planner, self._draws)
        except InputError as error:
            mission.blocked = str(error)
            self._warn("map_unusable", f"no waypoint from this map: {error}")
            return
        mission.drive(*path)


def chosen_planner(values: Mapping[str, Any]) -> tuple[PlannerEntry, Any]:
    """The planner, and its options; ``values``: the planner's settings by name."""
    planner = PLANNERS[values["planner"]]
    return planner, instance(planner.options, values)


def given_places(values: Mapping[str, Any]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The waypoints of ``goals.metres``, ``.degrees`` and ``.file`` [K, 2], and home [2], in m;
    None where they are not given. ``values``: the planner's settings by name.

    Raises:
        InputError: they, or the file, are wrong, or not near the origin.
    """
    place, home = (values["origin"], values["heading"]), None
    found = read_polygons(values["goals.metres"])
    for places in read_polygons(values["goals.degrees"]):
        found.append(in_metres("goals.degrees", places, *place))
    if values["goals.file"]:
        goals, home = instance(AreaSettings, values).goals(values["goals.file"])
        found.append(goals)
    if any(values["home_degrees"]):
        home = in_metres("home_degrees", np.array([values["home_degrees"]]), *place)[0]
    return np.concatenate(found) if found else None, home


@dataclass(frozen=True)
class MissionStoreSettings(Settings):
    """Where the mission is stored, and whether it resumes by itself."""

    mission_dir: str = mission_dir_setting()
    resume_after_restart: bool = setting(
        False, "Resume at once after a restart during a mission, without waiting for ~/resume",
        name="watchdog.resume_after_restart",
    )  # fmt: skip


class MissionStore:
    """Saves and restores a mission in a folder, which may be the mapper's; without one: nothing.

    Args:
        settings: the folder, and whether a mission resumes by itself.
        draws: random generator of the planner, saved and restored with the mission.
        ahead_s: see ``Moment``; None: the time is simulated or recorded.

    Attributes:
        ahead_s: as given; ``restore`` sets it as it was, unless the machine was started again since
            then: the system clock may have been set.
        failing: why nothing can be written at present, as text; empty: it can.

    Raises:
        InputError: the folder cannot be written, or another planner uses it.
    """

    def __init__(
        self,
        settings: MissionStoreSettings,
        draws: np.random.Generator | None = None,
        ahead_s: float | None = None,
    ) -> None:
        self.failing, self._draws, self.ahead_s = "", draws, ahead_s
        self._resumes = settings.resume_after_restart
        self._written: dict[str, Any] = {}
        self._written_at = -math.inf
        self._track_at, self._track_length = -math.inf, 0.0
        self._retry_at = -math.inf
        self._folder = Path(settings.mission_dir).expanduser() if settings.mission_dir else None
        if self._folder is not None:
            self._lock = lock_folder(self._folder, LOCK, "planner")

    def close(self) -> None:
        """Release the folder."""
        if self._folder is not None:
            self._lock.close()

    def restore(self, mission: Mission) -> str:
        """Restore a new mission; returns what was restored, as text, or "".

        Raises:
            InputError: a file is unreadable, or of another workspace.
        """
        if self._folder is None:
            return ""
        if (values := _read(self._folder / MISSION)) is None:
            return ""
        try:
            if values["schema"] != SCHEMA:
                raise ValueError(f"layout {values['schema']} of another version, not {SCHEMA}")
            mission.restore(values, self._resumes)
            if self._draws is not None and values["draws"]:
                self._draws.bit_generator.state = values["draws"]
            boot, ahead = values.get("clock", ("", 0.0))
            if not math.isfinite(ahead):
                raise ValueError(f"clock {ahead}")
            if boot and boot == _boot() and self.ahead_s is not None:
                self.ahead_s = ahead
            track = _read(self._folder / TRACK)
            if track is not None:
                mission.track.restore(track["newest"], track["visited"], track["length"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            text = f"{self._folder}: expected a mission of this package ({error})"
            raise InputError(text) from None
        return f"recovering a mission: {mission.state} ({mission.reason})"

    def save(self, mission: Mission, steady_s: float) -> None:
        """Write what has changed: state and goals at once, the number of samples and shallow places
        every second, the track every few seconds. A disk that fails is tried every few seconds.
        ``steady_s`` is infinite at the end: all is tried."""
        if self._folder is None or steady_s < self._retry_at:
            return
        values = {"schema": SCHEMA, **mission.to_dict()}
        if self._draws is not None:
            values["draws"] = self._draws.bit_generator.state
        if self.ahead_s is not None:
            values["clock"] = [_boot(), self.ahead_s]
        counted = {**values, **WITH_PINGS} == {**self._written, **WITH_PINGS}
        due = steady_s >= self._written_at + (COUNT_S if counted else 0.0)
        try:
            if values != self._written and due:
                write_json(self._folder / MISSION, values)
                self._written, self._written_at = values, steady_s
            moved = mission.track.length != self._track_length
            if moved and steady_s - self._track_at >= TRACK_S:
                write_json(self._folder / TRACK, mission.track.to_dict())
                self._track_at, self._track_length = steady_s, mission.track.length
            self.failing, self._retry_at = "", -math.inf
        except OSError as error:
            self.failing = f"mission_dir: cannot write to {self._folder} ({error.strerror})"
            self._retry_at = steady_s + RETRY_S


def repair(folder: Path, pings: int) -> list[str]:
    """Set damaged files of a planner aside, and limit its count to ``pings``.

    Returns:
        What was done, as texts.

    Raises:
        InputError: another planner uses the folder, or it cannot be written.
    """
    store, done = MissionStore(MissionStoreSettings(str(folder))), []
    try:
        for path in (folder / MISSION, folder / TRACK):
            try:
                values = read_json(path, "a mission of this package")
            except InputError as error:
                done.append(f"{error}: set aside as {set_aside(folder, [path])}")
                path.unlink()
                continue
            if values is not None and values.get("samples", 0) > pings:
                done.append(f"{path.name} counted {values['samples']} pings: {pings} from now on")
                write_json(path, {**values, "samples": pings, "first": min(values["first"], pings)})
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        store.close()
    return done


@cache
def _boot() -> str:
    """The start of this machine that its steady clock counts from; empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read(path: Path) -> dict[str, Any] | None:
    """The values of a file; None: there is no file."""
    try:
        return read_json(path, "a mission of this package")
    except InputError as error:
        again = pasted("repair", path.parent)
        raise InputError(f"{error}; to start without it: {again}") from None
