"""A mission on an ArduPilot vehicle in one process: link, front end, model loop and mission."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from .. import __version__
from ..core.clock import Moment
from ..core.errors import InputError, LogThrottle
from ..core.geodesy import GeoReference
from ..core.geometry import Extent
from ..core.settings import instance, nested
from ..frontend import events
from ..frontend.events import DONE, PAUSED, RETURNING, WAITING, mapped_state
from ..frontend.odometry import VehicleState, largest_std
from ..frontend.pings import RawPing
from ..frontend.refused_pings import Lately
from ..journal.folder import plain
from ..learning.create import open_mission, recovery_message
from ..learning.session import ModelThread, SurveySession
from ..mission.guidance import Guidance
from ..mission.states import DISPLACED, INPUT, RESTART
from ..outputs.folder import write_config
from ..outputs.run import SessionResults, read_settings
from .frame import recorded_frame, workspace_of
from .link import Link, LinkSettings
from .vehicle import Vehicle

log = logging.getLogger(__name__)

TICK_PERIOD_S = 1.0
NODES = ("mapper", "planner")  # whose settings config.yaml has
RESUMES = "watchdog.resume_after_restart"
COMMANDS = ("start", "pause", "resume", "stop", "quit")


class Drive:
    """Feeds a session and a mission from a link, and sends the mission's goals as targets.

    ``step`` does everything; call it often, from one thread. The frame is created and the mission
    opened at the first good fix, or at once if ``origin`` is given.

    Args:
        values: settings of mapper, planner and places in degrees by name; for the workspace see
            ``workspace_of``.
        link: to the autopilot.
        say: called with each line for people.
        threaded: whether the model has its own thread; otherwise ``step`` waits for it.
        simulated: whether the vehicle is simulated; recorded in config.yaml.

    Attributes:
        vehicle: on the link. ``telemetry``: of it.
        session, guidance: None before the frame is known.
        newest_ping: None before the first one in the frame.
        before_frame: number of ranges before the frame was known.
        batches: number of batches in the model.
        finished: whether the mission is over with its results written, or a person has quit.
        closed: whether ``close`` was called; the vehicle is no longer driven.
        incomplete: whether something of the mission could not be written.

    Raises:
        InputError: a value is wrong, or the mission folder belongs to another mission.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        link: Link,
        say: Callable[[str], None],
        threaded: bool = True,
        simulated: bool = False,
    ) -> None:
        self.values, self.link, self._say, self._threaded = dict(values), link, say, threaded
        self._simulated = simulated
        settings = instance(LinkSettings, values)
        self._max_accuracy = settings.max_accuracy
        self.vehicle = Vehicle(link, values["goal_period"])
        self.telemetry = self.vehicle.telemetry
        self.session: SurveySession | None = None
        self.guidance: Guidance | None = None
        self.newest_ping: RawPing | None = None
        self.before_frame = self.batches = 0
        self._warnings, self._lately = LogThrottle(log.warning), Lately()
        self.finished = self.closed = self.incomplete = self._over = self._started = False
        self._outcomes: SimpleQueue[events.LoopEvent] = SimpleQueue()
        self._commands: SimpleQueue[str] = SimpleQueue()
        self._thread: ModelThread | None = None
        self._leave: Callable[[], str] = str
        self._now = Moment(0, 0.0)
        self._starts_unasked = values["autostart"] or values[RESUMES]
        self._shown: tuple[str, str] | None = None
        self._ticked_s = -math.inf
        self._boots, self.disk_problem, self._advised = 0, "", False
        GeoReference(0.0, 0.0).metres(0.0, 0.0)  # raises an error without pyproj, not on the water
        self._frame = recorded_frame(values["mission_dir"])
        if given := GeoReference.given(values["origin"], values["heading"]):
            self._frame = self._frame or given
            if self._frame != given:
                raise InputError(
                    f"origin: the mission in {values['mission_dir']} has {self._frame.values}: "
                    f"expected the same or none, got {given.values}"
                )

    def command(self, word: str) -> None:
        """Queue one of ``COMMANDS``; may be called from any thread."""
        self._commands.put(word)

    @property
    def origin_fault(self) -> str:
        """Why there is no frame yet, as text; empty: there is one, or the next step creates it."""
        if self._frame is not None:
            return ""
        if self.link.heard_s is None:
            return self.vehicle.control(False)
        return self.telemetry.origin_fault(self._max_accuracy)

    def step(self, now: Moment) -> None:
        """Read the link, and do everything that is due.

        Heartbeats are handled first, and targets are sent before anything that takes time. So no
        target is sent once a heartbeat of a take-over has arrived.
        """
        messages = self._listen(now)
        if self.guidance is not None:
            self.vehicle.steer(self.guidance.mission, self.guidance.goal_z, now.steady_s)
        for message in messages:
            self._take(message, now)
        if self._frame is None and not self.origin_fault:
            assert self.telemetry.position is not None
            self._frame = GeoReference(*self.telemetry.position, self.values["heading"])
        if self.session is None and self._frame is not None:
            self._open(self._frame)
        while not self._commands.empty():
            self._obey(self._commands.get(), now)
        self._run(now)

    def close(self, now: Moment) -> None:
        """Let the vehicle hold station if the mission drives it, and write the results."""
        self.closed = True
        self._listen(now)
        guidance, session, stalled = self.guidance, self.session, self.vehicle.stalled
        if guidance is not None and guidance.mission.goal is not None and not stalled:
            assert guidance.mission.position is not None
            self.vehicle.hold(guidance.mission.position, guidance.z)
            self._say("the vehicle was sent to where it is, to hold station; nothing more is sent")
        if self._thread is not None:
            self._thread.stop()
        while not self._outcomes.empty():  # the results of a mission that is over
            self._learn(self._outcomes.get(), now)
        if session is not None and guidance is not None:
            busy = self._thread is not None and self._thread.alive
            learn = partial(self._learn, now=now)
            self._write(lambda: self._results.write_interrupted(now, busy, learn))
            guidance.close()
            if guidance.store.failing:
                self._say(f"warning: {guidance.store.failing}")
        if missing := self._leave():
            self._say(f"warning: {missing}")
        self.incomplete |= bool(missing or (guidance is not None and guidance.store.failing))
        self.link.close()

    def _open(self, frame: GeoReference) -> None:
        """Open session and mission in a frame."""
        self.telemetry.frame = frame
        values = self.values = {**self.values, **frame.values}
        values["workspace"] = workspace_of(values, frame).bounds
        # Only a person or ``_start_unasked`` makes the vehicle move.
        waiting = {**values, "autostart": False, RESUMES: False}
        guidance = Guidance(waiting, self._warnings.add)
        if guidance.mission.state == PAUSED:  # perhaps by a watchdog, which would resume it
            guidance.mission.pause("the process was restarted", RESTART)
        try:
            session, self._leave = open_mission(values)
        except BaseException:
            guidance.close()
            raise
        self.session, self.guidance = session, guidance
        guidance.mapped(self._lately.fault)
        session.front_end.warn = self._warnings.add
        self._results = SessionResults(session, values["output"])
        if (folder := self._results.folder) is not None:
            config: dict[str, Any] = {
                "version": __version__,
                "nodes": {n: nested(plain(values)) for n in NODES},
            }
            if self._simulated or read_settings(folder).get("simulated"):  # practice stays practice
                config["simulated"] = True
            write_config(folder / "config.yaml", config)
        heading = f", y axis {frame.heading:g} degrees from north" if frame.heading else ""
        x0, x1, y0, y1 = values["workspace"]
        self._say(
            f"origin of the map: {frame.latitude:.8f} {frame.longitude:.8f} (latitude "
            f"longitude){heading}; workspace: x {x0:.4g} to {x1:.4g} m, y {y0:.4g} to {y1:.4g} m"
        )
        over = guidance.mission.state == DONE
        again = (
            "this mission is over: s starts another one in the same map, q quits; for an empty map "
            "give another --mission-dir"
        )
        for found in (recovery_message(session), guidance.found, again if over else ""):
            if found:
                self._say(found)
        if self._threaded:
            self._thread = ModelThread(session, lambda: self._now, self._outcomes.put)
            self._thread.start()

    def _listen(self, now: Moment) -> list[Any]:
        """The messages that have arrived; those about who controls the vehicle are handled."""
        self._now = now
        messages, reason = self.vehicle.listen(now)
        self._withdraw(reason)
        return messages

    def _withdraw(self, reason: str) -> None:
        """Handle a take-over for this reason; empty: there is none."""
        if not reason:
            return
        self._starts_unasked = False
        if self.guidance is not None:
            self.guidance.autopilot.take_over(self.guidance.mission, reason)
        self._say(f"NO TARGETS ARE SENT ANY MORE: {reason}. Resume when the vehicle is free again")

    def _take(self, message: Any, now: Moment) -> None:
        """Handle positions and ranges."""
        telemetry, session, guidance = self.telemetry, self.session, self.guidance
        found = telemetry.events(message, now.ros_ns)
        if telemetry.clock.boots != self._boots:
            self._boots = telemetry.clock.boots
            self._withdraw(self.vehicle.lose("the autopilot has started again"))
            if session is not None:
                session.front_end.clock_set_back()
        if session is None or guidance is None:
            self.before_frame += sum(isinstance(event, RawPing) for event in found)
            return
        for event in found:
            if isinstance(event, RawPing):
                session.ping(event, now)
                self.newest_ping = event
                guidance.ping(event)
                continue
            session.odometry(event, now)
            if isinstance(event, VehicleState) and not telemetry.delayed:
                std = largest_std(event.variance[0], 0.0, event.variance[1])
                guidance.locate(event, std, now)
        if telemetry.displaced:
            guidance.mission.pause(telemetry.displaced, DISPLACED)
            telemetry.displaced = ""

    def _obey(self, word: str, now: Moment) -> None:
        """Do what a person asks for."""
        if word == "quit":
            self.finished = True
            return
        if self.guidance is None:
            self._say(f"{word}: refused, as the map has no origin yet: {self.origin_fault}")
            return
        mission = self.guidance.mission
        drives = mission.state in {"start": (WAITING, DONE), "resume": (PAUSED,)}.get(word, ())
        unmapped = self.guidance.unmapped if word == "start" else ""
        if drives and (refusal := self._refusal or unmapped):
            self._say(f"{word}: refused, as {refusal}")
            return
        self._starts_unasked &= drives
        if drives:
            self._started, self._over = True, False
            self.vehicle.grant(mission.station)
        _, answer = self.guidance.command(word, now.unadjusted_s)
        self._say(f"{word}: {answer}")

    def _run(self, now: Moment) -> None:
        """Let the model and the mission do what is due."""
        session, guidance = self.session, self.guidance
        if session is None or guidance is None:
            return
        mission = guidance.mission
        self._start_unasked(now)
        session.tick(now)
        if not self._threaded:
            while session.due(now):
                for outcome in session.work(now):
                    self._learn(outcome, now)
        while not self._outcomes.empty():
            self._learn(self._outcomes.get(), now)
        if session.samples != mission.budget.samples:
            guidance.count(session.samples)
        if now.steady_s - self._ticked_s >= TICK_PERIOD_S:
            self._ticked_s = now.steady_s
            self._lately.take(session.front_end, Counter(), now.steady_s)
            guidance.mapped(self._lately.fault)
            guidance.tick(now)
            if mission.status.recovers and self.telemetry.fault not in mission.reason:
                mission.pause(f"{mission.reason}: {self.telemetry.fault}", INPUT)
            self._advise(mission.position)
        self._announce(now)
        self.finished |= self._over and mission.state == DONE and self.vehicle.idle(mission)

    def _start_unasked(self, now: Moment) -> None:
        """Start or resume once without a person, if ``autostart`` or ``RESUMES`` is set."""
        assert self.guidance is not None
        mission = self.guidance.mission
        mapped = mission.ready or mission.state == PAUSED
        if self._starts_unasked and mapped and not self._refusal:
            self._starts_unasked = False
            unasked = {WAITING: ("start", "autostart"), PAUSED: ("resume", RESUMES)}
            word, setting = unasked.get(mission.state, ("", ""))
            if word and self.values[setting]:
                self._obey(word, now)

    @property
    def _refusal(self) -> str:
        """Why the vehicle cannot be driven at present, as text; empty: it can."""
        assert self.guidance is not None
        unplaced = "no position yet" if self.guidance.mission.position is None else ""
        return self.telemetry.fault or unplaced or self.vehicle.refusal

    def _announce(self, now: Moment) -> None:
        """Tell the session and people the mission's state."""
        assert self.session is not None and self.guidance is not None
        mission = self.guidance.mission
        state = mapped_state(mission.state, self.guidance.taken_over)
        if mission.status.ended[0] and state == PAUSED:  # on the way home nothing is mapped
            state = RETURNING
        if state != self.session.pilot.state:
            self.session.mission(state, now)
            if self._thread is not None:
                self._thread.wake()
        self.guidance.save(now.steady_s)
        failing = self.guidance.store.failing or self.session.journal.failing or ""
        if failing != self.disk_problem:
            self.disk_problem = failing
            self._say(f"warning: {failing}" if failing else "the disk can be written again")
        if (mission.state, mission.reason) != self._shown:
            self._shown = mission.state, mission.reason
            waits = ", waiting for the first map" if mission.needs_goal else ""
            pending = self.session.ledger.pending
            more = f", {pending} pending" if pending and not mission.budget.taken else ""
            self._say(f"{mission.state} at {mission.budget}{more}: {mission.reason}{waits}")

    def _advise(self, position: np.ndarray | None) -> None:
        """Say once which of the autopilot's parameters do not suit the mission."""
        if self._advised or self.telemetry.parameters.missing or position is None:
            return
        self._advised = True
        workspace = Extent.of(self.values["workspace"])
        found = list(self.telemetry.parameters.advice(self.values, workspace, position))
        for text in found:
            self._say(f"check: {text}")
        if not self.telemetry.parameters.values:
            self._say("check: the autopilot does not answer, so its parameters are not checked")
        elif not found:
            self._say("checked: the autopilot's parameters suit the mission")

    def _learn(self, outcome: events.LoopEvent, now: Moment) -> None:
        """Handle an event of the model loop."""
        assert self.session is not None and self.guidance is not None
        match outcome:
            case events.MapDrawn():
                self.guidance.draw(outcome.map, now)
            case events.BatchLearned():
                self.batches += 1
            case events.PositionsShifted(text):
                self.guidance.shift(text)
            case events.Problem(reason, text, _):
                self._warnings.add(reason, text)
            case events.MissionFinished():
                self._over = self._started  # otherwise it was over before a restart
                if outcome.map is None:
                    self._say("the mission is done without a map: too few pings")
                    return
                self._write(lambda: self._results.finish(outcome))

    def _write(self, write: Callable[[], str]) -> None:
        """Write results. A full disk does not end the process: there may be space at the end."""
        try:
            text = write()
        except OSError as error:
            self._say(f"warning: cannot write to {self._results.folder} ({error.strerror})")
            self.incomplete = True
            return
        self.incomplete = False
        if text:
            self._say(text)
