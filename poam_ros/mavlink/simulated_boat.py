"""A simulated boat that speaks MAVLink as ArduPilot's Rover does, for tests and for practice.

It is the simulator's vehicle and sonar over a terrain, with what surprises users of ArduPilot:
targets count only in GUIDED, and are kept for ever; the pilot, a failsafe or another ground station
may take over at any time; the EKF may restart at another place; times count from boot; a sonar
without an echo reports its upper limit.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.geodesy import GeoReference
from ..simulation.simulator import Simulation, SonarSettings
from ..simulation.terrain import Terrain
from ..simulation.vehicle import Pose
from .link import (
    ARDUPILOT,
    ARMED,
    AUTOPILOT_COMPONENT,
    DEGREE,
    ROVER,
    SET_MESSAGE_INTERVAL,
    library,
)
from .telemetry import DOWN, RANGES

SYSTEM = 1
#: Rover's modes by their number.
MODES = {"MANUAL": 0, "HOLD": 4, "LOITER": 5, "AUTO": 10, "RTL": 11, "GUIDED": 15}
CUSTOM_MODE = 1  # flag of base_mode
ACTIVE, CRITICAL = 4, 5  # MAV_STATE
GOOD_EKF = 1 + 2 + 4 + 8 + 16 + 32  # attitude, velocities and positions are known
#: Where the boat is launched, and its time since boot then.
HOME, BOOT_MS = (47.3, 8.55), 60_000
#: Time between two messages of a kind once they are requested, in s; before that, 1 s. Messages of
#: the sonar follow its own rate.
PERIODS = {
    "HEARTBEAT": 1.0, "ATTITUDE": 0.1, "GLOBAL_POSITION_INT": 0.2, "GPS_RAW_INT": 0.5,
    "EKF_STATUS_REPORT": 1.0, "POSITION_TARGET_GLOBAL_INT": 0.5,
}  # fmt: skip
#: Within WP_RADIUS, ArduPilot's boat reports the place where it can stop as its target; in m.
STOPPING_DISTANCE = 0.5
PARAMETERS = {
    "WP_RADIUS": 1.0, "WP_SPEED": 1.0, "RNGFND1_ORIENT": 25.0, "RNGFND1_MIN_CM": 30.0,
    "RNGFND1_MAX_CM": 10_000.0, "FENCE_ENABLE": 1.0, "FENCE_TYPE": 7.0, "FENCE_RADIUS": 300.0,
    "FENCE_ACTION": 1.0, "FS_GCS_ENABLE": 1.0,
}  # fmt: skip


class SimulatedBoat:
    """A boat on a UDP link.

    Args:
        terrain: below the boat.
        port: port on this machine that the boat sends to.
        home: latitude and longitude of the terrain's (0, 0).
        sonar: settings of the sonar.
        key: of a signed link [32 bytes]; None: not signed.
        seed: of noise and faults.
        system: the boat's system id.
        speed: of the boat, in m/s.

    Attributes:
        mode, armed, failsafe: as reported in heartbeats; may be set.
        muted: kinds of messages that are not sent.
        cut: whether the link is cut in both directions.
        loss: share of messages that are lost in either direction.
        ekf_flags: of EKF_STATUS_REPORT.
        delay_s: delay of all messages but heartbeats.
        ekf_offset: error of the EKF, east and north [2], in m.
        targets: received in GUIDED, each with its time in s.
        refused: number of targets received in another mode or while disarmed.
        pings: number of messages with ranges that were sent.
    """

    def __init__(
        self,
        terrain: Terrain,
        port: int,
        home: tuple[float, float] = HOME,
        sonar: SonarSettings | None = None,
        key: bytes | None = None,
        seed: int = 0,
        system: int = SYSTEM,
        speed: float = 1.0,
    ) -> None:
        begin = Pose(0.0, 0.0, 0.0)
        self.simulation = Simulation(terrain, start=begin, sonar=sonar, max_speed=speed, seed=seed)
        self._parameters = {**PARAMETERS, "WP_SPEED": speed}
        self.frame = GeoReference(*home)
        self._address, self._boot_ms = ("127.0.0.1", port), BOOT_MS
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        with library() as mavutil:
            self._mavlink = mavutil.mavlink
        self._out, self._system = self._speaker(system, AUTOPILOT_COMPONENT), system
        self._draws = np.random.default_rng(seed)
        if key is not None:
            self._out.signing.secret_key, self._out.signing.sign_outgoing = key, True
            # In units of 10 us since 2015; a link refuses messages that are a minute old.
            self._out.signing.timestamp = round((time.time() - 1_420_070_400) * 1e5)
        self.mode, self.armed, self.failsafe = "MANUAL", False, False
        self.muted: set[str] = set()
        self.ekf_flags = GOOD_EKF
        self.loss, self.cut, self.delay_s, self.ekf_offset = 0.0, False, 0.0, np.zeros(2)
        self.targets: list[tuple[float, tuple[float, float]]] = []
        self.refused = self.pings = 0
        self._target: tuple[float, float] | None = None  # degrees, as received
        self._stop: tuple[float, float] | None = None  # degrees, after arrival
        self._next, self._periods = dict.fromkeys(PERIODS, 0.0), dict.fromkeys(PERIODS, 1.0)
        self._queue: deque[tuple[float, bytes, str]] = deque()
        self._flown = self.mode

    @property
    def time_s(self) -> float:
        """Time since the simulation began, in s."""
        return self.simulation.time_ns / SECOND

    @property
    def position(self) -> np.ndarray:
        """True position [2], in m from home."""
        pose = self.simulation.pose
        return np.array([pose.x, pose.y])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def say(self, text: str) -> None:
        """Send a STATUSTEXT."""
        self._send("statustext", 4, text.encode())

    def fail(self, text: str = "GCS Failsafe") -> None:
        """A failsafe: HOLD, and the state CRITICAL."""
        self.say(text)
        self.mode, self.failsafe = "HOLD", True

    def jump_ekf(self, east: float, north: float) -> None:
        """The EKF restarts, with an origin that is off by these distances in m."""
        self.ekf_offset = self.ekf_offset + (east, north)

    def reboot(self) -> None:
        """The autopilot restarts: disarmed, and its time begins at 0."""
        self._boot_ms = -round(self.time_s * 1e3)
        self.mode, self.armed, self.failsafe = "HOLD", False, False

    def command_from_elsewhere(self, x: float, y: float) -> None:
        """Another ground station sends a target in GUIDED, in m from home."""
        self._go(self.frame.to_degrees((x, y)))

    def recover(self) -> None:
        """GUIDED, armed, and a working link; the EKF's origin stays where it is."""
        self.mode, self.armed, self.failsafe = "GUIDED", True, False
        self.ekf_flags, self.cut, self.loss, self.delay_s = GOOD_EKF, False, 0.0, 0.0
        self.muted.clear()

    def step(self) -> None:
        """A control period of 0.1 s: receive, drive, and send what is due."""
        self._receive()
        self._follow_mode()
        step = self.simulation.step()
        now = self.time_s
        while self._queue and (self._queue[0][0] <= now or not self.delay_s):
            self._transmit(*self._queue.popleft()[1:])
        for ping in step.pings:
            self._send_range(ping.range)
        for kind, period in self._periods.items():
            if now >= self._next[kind] - 1e-6:
                self._next[kind] += period * max(1, math.ceil((now - self._next[kind]) / period))
                if fields := self._fields(kind, step):
                    self._send(kind.lower(), *fields)

    def _follow_mode(self) -> None:
        """Stop at a change of mode, or when disarmed."""
        if self.mode != self._flown or not self.armed:
            self._flown = self.mode
            if self._target is not None:
                self._target = None
                self.simulation.set_goal(None)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                data = self._socket.recv(4096)
                if self._is_lost():
                    continue
                for message in self._out.parse_buffer(data) or ():
                    if getattr(message, "target_system", self._system) == self._system:
                        self._obey(message)

    def _obey(self, message: Any) -> None:
        kind = message.get_type()
        if kind == "PARAM_REQUEST_READ":
            name = message.param_id.rstrip("\0")
            if name in self._parameters:
                found = self._parameters[name], 9, len(self._parameters), 0
                self._send("param_value", name.encode(), *found)
        elif kind == "COMMAND_LONG" and message.command == SET_MESSAGE_INTERVAL:
            number, period = round(message.param1), message.param2 / 1e6
            kind = self._mavlink.mavlink_map[number].msgname
            if kind in PERIODS:
                self._periods[kind] = max(period, PERIODS[kind])
        elif kind == "SET_POSITION_TARGET_GLOBAL_INT":
            if self.mode != "GUIDED" or not self.armed:
                self.refused += 1
                return
            place = message.lat_int / DEGREE, message.lon_int / DEGREE
            self.targets.append((self.time_s, place))
            self._go(place)

    def _go(self, place: tuple[float, float]) -> None:
        self._target, self._stop = place, None
        # The EKF is wrong about its place: it steers to the target less its error.
        self.simulation.set_goal(np.array(self.frame.metres(*place)) - self.ekf_offset)

    def _speaker(self, system: int, component: int) -> Any:
        made = self._mavlink.MAVLink(None, srcSystem=system, srcComponent=component)
        made.robust_parsing = True
        return made

    @property
    def _ms(self) -> int:
        return max(0, round(self.time_s * 1e3) + self._boot_ms) % 2**32

    def _send(self, kind: str, *fields: Any) -> None:
        """Send a message unless its kind is muted; queue it if messages are delayed."""
        if kind.upper() in self.muted:
            return
        data = getattr(self._out, f"{kind}_encode")(*fields).pack(self._out)
        self._out.seq = (self._out.seq + 1) % 256
        if self.delay_s and kind != "heartbeat":
            self._queue.append((self.time_s + self.delay_s, data, kind))
        else:
            self._transmit(data, kind)

    def _is_lost(self) -> bool:
        return self.cut or bool(self.loss and self._draws.uniform() < self.loss)

    def _transmit(self, data: bytes, kind: str = "") -> None:
        if not self._is_lost():
            self.pings += kind.upper() in RANGES
            with contextlib.suppress(OSError):  # nobody listens yet
                self._socket.sendto(data, self._address)

    def _fields(self, kind: str, step: Any) -> tuple[Any, ...]:
        """Of a message of a kind of ``PERIODS``, empty while there is none; ``step``: of the
        simulation."""
        here, ms = self.position + self.ekf_offset, self._ms
        place, yaw = _integers(self.frame.to_degrees(here)), step.pose.yaw
        if kind == "HEARTBEAT":
            flags = CUSTOM_MODE | (ARMED if self.armed else 0)
            state = CRITICAL if self.failsafe else ACTIVE
            return ROVER, ARDUPILOT, flags, MODES[self.mode], state
        if kind == "ATTITUDE":
            north = math.remainder(math.pi / 2 - yaw, 2 * math.pi)
            return ms, 0.0, 0.0, north, 0.0, 0.0, -step.turn_rate
        if kind == "GLOBAL_POSITION_INT":
            speeds = (round(100 * step.speed * part) for part in (math.sin(yaw), math.cos(yaw)))
            heading = round(math.degrees(math.pi / 2 - yaw) * 100) % 36000
            # Heights in mm; the one above home wanders.
            return ms, *place, 406_000, 150, *speeds, 0, heading
        if kind == "GPS_RAW_INT":
            return (ms * 1000, 3, *place, 406_000, 80, 120, 100, 0, 14, 406_000, 600, 900, 100, 0)
        if kind == "EKF_STATUS_REPORT":
            return self.ekf_flags, 0.1, 0.1, 0.1, 0.1, 0.0
        if self._target is None:
            return ()
        away = math.dist(here, self.frame.metres(*self._target))  # POSITION_TARGET_GLOBAL_INT
        if self._stop is None and away < self._parameters["WP_RADIUS"]:
            ahead = STOPPING_DISTANCE * np.array([math.cos(yaw), math.sin(yaw)])
            self._stop = self.frame.to_degrees(here + ahead)
        return ms, 6, 0xDF8, *_integers(self._stop or self._target), *(0.0,) * 9

    def _send_range(self, distance: float) -> None:
        low, limit = (round(self._parameters[f"RNGFND1_{end}_CM"]) for end in ("MIN", "MAX"))
        measured = round(min(distance * 100, limit)) if math.isfinite(distance) else limit
        self._send("distance_sensor", self._ms, low, limit, measured, 2, 0, DOWN, 0)


def _integers(place: tuple[float, float]) -> list[int]:
    """Latitude and longitude in 1e-7 degrees."""
    return [round(number * DEGREE) for number in place]


def _setting(name: str, value: Any) -> Callable[[SimulatedBoat], None]:
    return lambda boat: setattr(boat, name, value)


#: Events that people may cause, by the word that they type.
EVENTS: dict[str, Callable[[SimulatedBoat], object]] = {
    "guided": SimulatedBoat.recover,
    "manual": _setting("mode", "MANUAL"),
    "disarm": _setting("armed", False),
    "failsafe": SimulatedBoat.fail,
    "reboot": SimulatedBoat.reboot,
    "ekf-jump": lambda boat: boat.jump_ekf(5.0, 0.0),
    "ekf-lost": _setting("ekf_flags", 0),
    "other-station": lambda boat: boat.command_from_elsewhere(5.0, 5.0),
    "no-sonar": lambda boat: boat.muted.add("DISTANCE_SENSOR"),
    "cut": _setting("cut", True),
    "lossy": _setting("loss", 0.5),
    "late": _setting("delay_s", 3.0),
}
