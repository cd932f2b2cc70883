"""The mission: its state, goals and budget, from positions, maps and sample counts. No ROS."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.maps import ElevationMap
from ..frontend.events import EXPLORING, HOLD, HOME, PAUSED, PILOT, RETURNING, WAITING
from ..frontend.pings import TOO_CLOSE, RawPing, refusal_reason
from ..planning.areas import NavigableArea
from ..planning.planners import Situation, no_extra
from ..planning.routes import ClearanceSettings, DeepRoutes, Routes
from . import states
from .itinerary import BACK, TIMEOUT, GoalQueue, VehicleTrack, WayHome
from .states import Budget, Status

LEAP_S = 5.0  # a larger step between the stamps of two positions means that their clock was set


class Mission:
    """A pilot survey, then exploration until the budget is exhausted, and perhaps the way home;
    can be paused in between, as ``states.TABLE`` says.

    Goals are queued: first the pilot survey's waypoints; whenever it ``needs_goal``, the path given
    to ``drive``. The mission begins with ``start``, or with the first position if it
    starts by itself. It is done after ``max_samples`` or ``max_duration``, pauses included,
    whatever its state. Between pilot survey and first map there is no goal: the vehicle holds
    station.

    Args:
        pilot: waypoints of the pilot survey, [K, 2] in m; K = 0: none.
        workspace: every goal is clipped to it.
        areas: where goals and legs may lie; None: anywhere in the workspace.
        clearance: how much water the vehicle needs; None: it does not matter.
        arrival: see ``GoalQueue.set_arrival``.
        max_samples: samples since the start, counted by the mapper; 0: no limit.
        max_duration: s; 0: no limit.
        autostart: whether it starts by itself, with the first position while it is ``ready``.
        on_done: ``hold`` station when it is over, or return ``home`` first.
        home: the place to return to [2], in m; None: where the mission began.
        home_reserve: with ``home``, be there this long before ``max_duration``, in s; 0: turn back
            when it has passed.

    Attributes:
        status: its state, and why.
        remark: what its map lacks, as text; part of the reason if the budget ended the mission.
        ready: whether a mission that starts by itself may begin.
        blocked: why no waypoint could be chosen at the last try, as text; empty: one was.
        station: where the vehicle holds station while paused, stopped or done [2]; a new array
            each time; None: no station yet.
        goals: the queue of goals. ``budget``: its limits.
        track: where the vehicle was, and when.
        deep: the routes that keep water under the transducer; None: it does not matter.
        way_home: when to turn back, and the current.

    Raises:
        InputError: the pilot survey is not a path, or the mission has no time before its way home.
    """

    def __init__(
        self,
        pilot: np.ndarray,
        workspace: Extent,
        *,
        areas: NavigableArea | None = None,
        clearance: ClearanceSettings | None = None,
        arrival: Mapping[str, Any] | None = None,
        max_samples: int = 0,
        max_duration: float = 0.0,
        autostart: bool = True,
        on_done: str = HOLD,
        home: np.ndarray | None = None,
        home_reserve: float = 0.0,
    ) -> None:
        self.workspace, self.on_done = workspace, on_done
        self.budget = Budget(max_samples, max_duration)
        self.position: np.ndarray | None = None
        self.home = self._stated_home = home
        self.station: np.ndarray | None = None
        self.track = VehicleTrack(workspace)
        areas = areas or NavigableArea(workspace)
        deep = clearance is not None and clearance.min_depth > 0
        self.deep = DeepRoutes(areas, clearance) if deep and clearance else None
        self.goals = GoalQueue(self.deep or Routes(areas), arrival)
        reserve = home_reserve if on_done == HOME else 0.0
        if 0 < max_duration <= reserve:
            raise InputError(
                f"home_reserve: expected less than max_duration ({max_duration:g} s), got "
                f"{reserve:g} s"
            )
        self.way_home = WayHome(self.goals, self.track, self.budget, reserve)
        self.blocked, self.remark, self.ready = "", "", True
        self._located: tuple[float, float] | None = None  # times of the last position: now, stamp
        self._leapt = 0.0  # s by which the clock of the stamps was set in all
        self._pilot = pilot
        self.goals.add(pilot)
        begun = PILOT, "started automatically"
        self.status = Status(*(begun if autostart else (WAITING, "not started yet")))

    @property
    def state(self) -> str:
        """One of ``STATES``, as published."""
        return self.status.state

    @property
    def reason(self) -> str:
        """Why it is in its state, as text."""
        lacks = self.remark and self.status.ended[0] == states.SPENT and self.state != PAUSED
        return f"{self.status.text}; {self.remark}" if lacks else self.status.text

    @property
    def causes(self) -> frozenset[str]:
        """Why it is paused; empty: it is not."""
        return frozenset(cause for cause, _ in self.status.causes)

    @property
    def goal(self) -> np.ndarray | None:
        """The goal [2]; None: hold station."""
        return self.goals.current if self.state in states.DRIVEN else None

    @property
    def plan(self) -> np.ndarray:
        """Position, goal and queued goals, [K, 2]; empty without a goal."""
        if self.goal is None or self.position is None:
            return np.empty((0, 2))
        return np.array([self.position, self.goal, *self.goals.ahead])

    @property
    def active(self) -> bool:
        """Whether it drives the vehicle, and is guarded: it has begun, and is not paused."""
        return self.state in states.DRIVEN and self.budget.start_time_s is not None

    @property
    def needs_goal(self) -> bool:
        """Whether it holds station because there is no map, or the map allows no goal."""
        return self.state == EXPLORING and self.goals.current is None and not self.goals.ahead

    def situation(self, yaw: float, speed: float) -> Situation:
        """The situation for a planner, with heading (rad) and top speed (m/s)."""
        assert self.position is not None
        now = self._located[0] if self._located and self.track.length else None
        return Situation(
            self.position,
            self.workspace,
            yaw,
            turning_radius=self.goals.turning_radius,
            distance_left=self.budget.distance_left(self.track.length, now, speed),
            extra=self.extra(now, speed),
            visited=self.track.visited(),
            routes=self.goals.routes,
        )

    def extra(self, now: float | None, speed: float) -> Callable[[np.ndarray], float]:
        """As ``Situation.extra``, at ``now`` (s) and a top speed in m/s."""
        if self.position is None or self.home is None or now is None:
            return no_extra
        return self.way_home.extra(self.position, self.home, now, speed)

    def update_position(
        self, position: np.ndarray, now: float, measured: float | None = None
    ) -> str | None:
        """Take the vehicle's position [2] at ``now`` (s); returns how a goal ended, or None.

        ``measured`` (s) is the position's stamp. A goal's time limit counts in stamps, from the
        first position after the goal was chosen, so positions that were delayed in a queue do not
        shorten it. If the clock of the stamps is set, ``now`` counts instead.
        """
        self.position = np.asarray(position, dtype=float)
        measured = now if measured is None else measured
        self.track.add(measured, self.position)
        before, self._located = self._located or (now, measured), (now, measured)
        if not 0.0 <= (step := measured - before[1]) <= LEAP_S:  # the stamps' clock was set
            self._leapt += step - (now - before[0])
        begun = self.budget.start_time_s is not None
        if self.state != WAITING and (begun or self.ready):
            if not begun:
                self.budget.start_time_s = now  # all samples count
            self.home = self.position.copy() if self.home is None else self.home
        self.tick(now)
        if self.state == PAUSED and self.station is None:
            self.hold_station()  # after a restart: the vehicle may still follow an earlier goal
        if not self.active:
            return None
        goals, leg = self.goals, self.goals.leg
        arrival = goals.update(self.position, measured - self._leapt)
        arrived = arrival not in (None, TIMEOUT) and not goals.ahead
        if self.state == RETURNING and arrived and leg is not None and leg.kind != BACK:
            self._take(HOME, "")
            self.hold_station()
        if goals.current is None and self.state in states.DRIVEN:
            self._next_goal(arrival == TIMEOUT)
        return arrival

    def tick(self, now: float) -> None:
        """End the mission if its duration is over at ``now`` (s), or needed for the way home."""
        budget = self.budget
        if budget.start_time_s is not None:
            self.end(budget.exhausted(now))
        surveys = self.state in (PILOT, EXPLORING)
        if surveys and self.way_home.due(self.position, self.home, now):
            self.end(f"the way home takes the rest of max_duration ({budget.max_duration:g} s)")

    def drive(self, path: np.ndarray, purpose: str = "") -> None:
        """Go to waypoints [K, 2], if it ``needs_goal``; see ``GoalQueue`` for the purpose."""
        if self.needs_goal and self.position is not None:
            self.goals.add(path, purpose)
            self.goals.next(self.position)
            self.blocked = "no route leads to any" if self.needs_goal else ""

    def learn(self, drawn: ElevationMap | None) -> None:
        """Take a new map; None: it is gone."""
        if drawn is None:
            self.goals.purpose = ""
        if self.deep is not None:
            self.deep.learn(drawn)

    def sounded(self, ping: RawPing) -> None:
        """Take a ping; the vehicle may have to turn back."""
        deep, goals = self.deep, self.goals
        if deep is None or self.position is None:
            return
        fault = refusal_reason(ping)
        if fault is not None and (fault != TOO_CLOSE or ping.range == 0):  # 0: no echo
            return
        deep.sounded(self.position, max(ping.range, 0.0))
        turning = goals.leg is not None and goals.leg.kind == BACK
        if self.goal is not None and not turning and deep.turns_back():
            places = self.track.newest[::-1, 1:]
            goals.turn_back(places[np.argmax(deep.deep_enough(places))])

    def count_samples(self, samples: int) -> None:
        """Set the number of pings that the mapper has accepted."""
        self.budget.count(samples)
        self.end(self.budget.exhausted())

    def start(self, now: float) -> tuple[bool, str]:
        """Start the pilot survey at ``now`` (s); returns success and an answer.

        Also after another mission; the mapper's samples so far do not count.
        """
        if not self._take(states.START, "started"):
            return False, f"the mission has already started: its state is {self.state}"
        self.budget.begin(now, self.track.length)
        began = None if self.position is None else self.position.copy()
        self.home = began if self._stated_home is None else self._stated_home
        self.station, self.blocked, self.remark = None, "", ""
        self.goals.clear()
        self.goals.add(self._pilot)
        return True, "started" if self.position is not None else "started; no odometry yet"

    def stop(self) -> tuple[bool, str]:
        """Hold station and wait for another ``start``; returns True and an answer."""
        previous = self.state
        self._take(states.STOP, "stopped")
        self.hold_station()
        self.goals.clear()
        return True, f"stopped while {previous}"

    def pause(self, reason: str = "requested", cause: str = states.OPERATOR) -> tuple[bool, str]:
        """Hold station until ``resume``, or until a passing cause has ended; returns success and an
        answer. Another cause is added to that of a pause."""
        before, event = self.status, states.PAUSE if cause == states.OPERATOR else states.FAULT
        if not self._take(event, reason, cause):
            already = " already" if self.state == PAUSED else ""
            return False, f"the mission is {self.state}{already}"
        if before.state == PAUSED:
            return True, "already paused; it does not resume automatically"
        self.hold_station()
        return True, f"paused while {before.state}"

    def resume(self, reason: str = "requested") -> tuple[bool, str]:
        """An operator lets it continue after a pause; returns success and an answer."""
        if not self._take(states.RESUME, f"resumed: {reason}"):
            return False, f"the mission is not paused: its state is {self.state}"
        self._go_on()
        return True, f"{self.state} again"

    def recover(self) -> None:
        """Continue if only causes that have ended paused it."""
        if self._take(states.RECOVERED, f"resumed: recovered from: {self.status.text}"):
            self._go_on()

    def end(self, why: str | None, event: str = states.SPENT) -> None:
        """End the mission for this reason (None: do nothing): hold station or return home.

        A paused vehicle stays where it is. ``event``: the budget is ``SPENT``, or the map's target
        ``MET``.
        """
        before = self.state
        if why is None or not self._take(event, why):
            return
        self.goals.clear()
        if self.state == RETURNING:
            self._go_on()
        elif before != PAUSED:
            self.hold_station()

    def _take(self, event: str, text: str, cause: str = states.OPERATOR) -> bool:
        """Take an event; False: it is refused, or nothing new."""
        home = self.on_done == HOME and self.home is not None
        before, self.status = self.status, self.status.after(event, text, cause, home)
        return self.status is not before

    def _go_on(self) -> None:
        """Drive on where the mission is, as it was or on the way home."""
        if self.state == RETURNING:
            assert self.home is not None
            self.goals.clear()
            place = self.goals.routes.berth(self.home)
            self.goals.clipped += int(not np.array_equal(place, self.home))
            self.goals.queue.append(place)
        self.goals.resume(self.position)

    def change(self, arrival: Mapping[str, Any], max_samples: int, max_duration: float) -> None:
        """Replace the settings of arrival and the limits of the budget."""
        self.goals.set_arrival(arrival)
        self.budget.max_samples, self.budget.max_duration = max_samples, max_duration
        self.count_samples(self.budget.samples)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``, without the track."""
        home = self.home
        return {
            "workspace": list(self.workspace.bounds),
            "status": json.loads(json.dumps(asdict(self.status))),  # tuples become lists
            **self.budget.to_dict(),
            "home": None if home is None else home.tolist(),
            "shallow": [] if self.deep is None else self.deep.guarded,
            **self.goals.to_dict(),
        }

    def restore(self, values: Mapping[str, Any], resume: bool) -> None:
        """Restore a new mission from the values of ``to_dict``. Unless ``resume``, it waits for an
        operator if it was under way, or paused by the watchdog.

        Raises:
            ValueError, KeyError, TypeError: the values are invalid or of another workspace.
        """
        if values["workspace"] != list(self.workspace.bounds):
            raise ValueError(f"workspace {values['workspace']}, not {list(self.workspace.bounds)}")
        self.status = Status.of(values["status"])
        self.budget.restore(values)
        self.goals.restore(values)
        if self.deep is not None:
            self.deep.guard(values.get("shallow", []))
        if self._stated_home is None and values["home"] is not None:
            self.home = np.array(values["home"], dtype=float)
        if self.state == RETURNING:
            self._go_on()
        if not resume and (self.state in states.DRIVEN or self.status.recovers):
            text = f"the planner was restarted while {self.state}"
            self._take(states.FAULT, text, states.RESTART)

    def diagnostics(self) -> dict[str, object]:
        """State, reason and counts, by their keys in diagnostics."""
        values: dict[str, object] = {"state": self.state, "reason": self.reason}
        values |= {"samples": self.budget.samples, **self.goals.counts()}
        if self.deep is not None:
            values["turned_back"] = self.deep.turned_back
        if self.way_home.current is not None:
            values["current"] = str(self.way_home.current)
        return values

    def hold_station(self) -> None:
        """Hold station at the current position."""
        self.station = None if self.position is None else self.position.copy()

    def _next_goal(self, late: bool) -> None:
        """Go to the next goal of the queue; after the last one, explore.

        ``late``: the last goal was given up, as it was not reached in time.
        """
        assert self.position is not None
        if self.state == RETURNING and not self.goals.ahead and not late:
            self._go_on()  # it had to turn back
        self.goals.next(self.position)
        if self.goals.current is not None:
            return
        if self.state == RETURNING:
            why = "home was not reached in time" if late else "no route leads home"
            self.pause(why, states.GUARD)
        else:
            self._take(states.SURVEYED, "the pilot survey is over")
