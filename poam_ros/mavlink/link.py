"""The link to an autopilot: messages in, targets and heartbeats out; reopened after a failure."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import re
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError, requires_extra
from ..core.reading import read_whole
from ..core.settings import Settings, setting

GUIDED = "GUIDED"
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
#: MAV_STATE: ArduPilot reports a failsafe as CRITICAL or EMERGENCY; the others are a shutdown.
FAILSAFE = {5: "CRITICAL", 6: "EMERGENCY", 7: "POWEROFF", 8: "FLIGHT_TERMINATION"}

COMPONENT = 191  # MAV_COMP_ID_ONBOARD_COMPUTER
AUTOPILOT_COMPONENT = 1
NO_AUTOPILOT = 8  # MAV_AUTOPILOT_INVALID: of ground stations, cameras and gimbals
#: Type of our own heartbeat, MAV_TYPE_ONBOARD_CONTROLLER, and its state, MAV_STATE_ACTIVE.
OWN_TYPE, ACTIVE = 18, 4
#: SET_POSITION_TARGET: heights above home, and a mask that ignores all but the position.
RELATIVE_ALTITUDE, POSITION_ONLY = 6, 0b110111111000
SET_MESSAGE_INTERVAL = 511
ARDUPILOT = 3  # MAV_AUTOPILOT
ROVER = 10  # MAV_TYPE
BOATS = (ROVER, 11)  # MAV_TYPE of ArduPilot's Rover
#: Messages that only Rover has. Other vehicles answer a request with an error on every ground
#: station.
OF_BOATS = (11038, 87)
#: Messages that we request, by number, with the rate in Hz.
STREAMS = {
    33: 10.0,  # GLOBAL_POSITION_INT
    30: 10.0,  # ATTITUDE
    132: 10.0,  # DISTANCE_SENSOR
    11038: 10.0,  # WATER_DEPTH
    24: 2.0,  # GPS_RAW_INT
    87: 2.0,  # POSITION_TARGET_GLOBAL_INT
    193: 1.0,  # EKF_STATUS_REPORT
}
HEARTBEAT_PERIOD_S = 1.0
NOT_READ = "unreadable or wrongly signed"
#: Time until streams that are too slow are requested again, and between two attempts to open the
#: link, in s.
STREAM_PERIOD_S, REOPEN_PERIOD_S = 10.0, 2.0
ENOUGH = 0.4  # share of the requested messages: ArduPilot may send them at 1 Hz unasked
SILENT_S = 10.0  # time without a byte until a serial or TCP link is reopened
CHUNK = 4096  # bytes read at a time
RECEIVE_BUFFER = 2**22  # bytes, or as many as the system allows; its default overflows in 6 s
#: Maximum number of reads per poll: more than such a buffer holds of the smallest packets.
MAX_READS = 2**14
DEGREE = 1e7  # of latitude or longitude, as an integer in a message
#: What each kind of address looks like.
SOCKET = re.compile(r"(udp|udpin|udpout|tcp|tcpin):([^:\s]+):(\d{1,5})")
SERIAL = re.compile(r"(/dev/[^:\s]+|COM\d+)(?::(\d+))?")
LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+|localhost")
BAUD = 57600  # ArduPilot's default for telemetry


def _url(text: str) -> None:
    found = SOCKET.fullmatch(text)
    if not (SERIAL.fullmatch(text) or (found and 0 < int(found[3]) < 65536)):
        raise InputError(
            "expected udpin:HOST:PORT, udpout:HOST:PORT, tcp:HOST:PORT, tcpin:HOST:PORT or "
            f"/dev/NAME:BAUD, got {text[:60]!r}"
        )


@dataclass(frozen=True)
class LinkSettings(Settings):
    """The link to the autopilot."""

    prefix = "mavlink"

    url: str = setting(
        "udpin:127.0.0.1:14550", "Address of the autopilot: udpin:HOST:PORT, udpout:HOST:PORT, "
        "tcp:HOST:PORT, tcpin:HOST:PORT or /dev/NAME:BAUD", check=_url,
    )  # fmt: skip
    system: int = setting(
        0, "System id of the vehicle. 0: that of the first autopilot received", "", 0, 255
    )
    key_file: str = setting(
        "", "File with the passphrase of a signed link. Empty: the link is not signed"
    )
    timeout: float = setting(
        5.0, "Count the link as lost after this long without a heartbeat", "s", 2.0, 600.0
    )
    surface: bool = setting(
        True, "Take z as the water surface: the vehicle floats. Otherwise z is the autopilot's "
        "altitude above home",
    )  # fmt: skip
    sonar: int = setting(
        -1, "Number of the sonar whose ranges are mapped. -1: any, as long as all that look down "
        "agree; while they differ, no ping is taken", minimum=-1, maximum=255,
    )  # fmt: skip
    max_accuracy: float = setting(
        3.0, "Take the frame's origin from the first fix that is at least this accurate "
        "horizontally", "m", 0.01, 1000.0,
    )  # fmt: skip

    @property
    def warning(self) -> str:
        """What is dangerous about the link, as text; empty: nothing."""
        found = SOCKET.fullmatch(self.url)
        if found is None or LOOPBACK.fullmatch(found[2]) or self.key_file:
            return ""
        return (
            f"{self.url} is open to everybody on its network, who may drive the boat: sign the "
            "link (mavlink.key_file), or let a router on this machine forward it to 127.0.0.1"
        )

    @property
    def key(self) -> bytes | None:
        """The key of a signed link [32 bytes]: the SHA-256 of the passphrase, as in ground
        stations; None: not signed.

        Raises:
            InputError: the file cannot be read, or is empty.
        """
        if not self.key_file:
            return None
        path = Path(self.key_file).expanduser()
        try:
            passphrase = read_whole(path).strip()
        except (OSError, InputError) as error:
            why = getattr(error, "strerror", error)
            raise InputError(f"mavlink.key_file: cannot read {path} ({why})") from None
        if not passphrase:
            raise InputError(f"mavlink.key_file: expected a passphrase in {path}, got nothing")
        return hashlib.sha256(passphrase).digest()


@dataclass(frozen=True)
class Status:
    """The content of a heartbeat: name of the mode, whether the vehicle is armed, and the name of
    the system's state if it is a failsafe; otherwise empty."""

    mode: str
    armed: bool
    failsafe: str = ""

    @property
    def refusal(self) -> str:
        """Why the mission must not move the vehicle, as text; empty: it may."""
        if self.failsafe:
            return f"the autopilot reports a failsafe ({self.failsafe})"
        if not self.armed:
            return "the vehicle is disarmed"
        return "" if self.mode == GUIDED else f"the mode is {self.mode}, not {GUIDED}"


@contextmanager
def library() -> Iterator[Any]:
    """The module ``mavutil`` of pymavlink, with MAVLink 2; it prints nothing in this context.

    Raises:
        InputError: it is not installed.
    """
    os.environ.setdefault("MAVLINK20", "1")
    with requires_extra("a link to an autopilot", "pymavlink", "mavlink"):
        from pymavlink import mavutil
    with contextlib.redirect_stdout(io.StringIO()):
        if mavutil.mavlink.WIRE_PROTOCOL_VERSION != "2.0":  # it was loaded before with version 1
            mavutil.set_dialect("ardupilotmega")
        yield mavutil


class Link:
    """The messages from and to one vehicle.

    Others on the link (ground stations, other vehicles, cameras) are ignored.

    Args:
        settings: address, system id and key.

    Attributes:
        system: id of the vehicle; 0 before its first heartbeat.
        vehicle_type: MAV_TYPE of its heartbeat.
        heard_s: steady time of its last heartbeat, in s; None before the first.
        left_out: messages that were not used, by reason.
        failing: why the link cannot be opened, as text; empty: it is open.
        flooded: whether messages come so fast that the last poll could not read all of them.

    Raises:
        InputError: a library is missing, or the key cannot be read.
    """

    def __init__(self, settings: LinkSettings) -> None:
        self.settings, self._key = settings, settings.key
        self.system, self.vehicle_type = settings.system, 0
        self.heard_s: float | None = None
        self.left_out: Counter[str] = Counter()
        self.failing, self.flooded = "", False
        self._connection: Any = None
        self._opened_s = self._beat_s = self._asked_s = self._data_s = -math.inf
        self._is_udp = settings.url.startswith("udp")
        self._sequence: int | None = None
        self._received = self._lost = 0
        self._streams: Counter[str] = Counter()  # messages of each kind since we last asked
        with library() as mavutil:
            self._mavutil = mavutil

    @property
    def lost_share(self) -> float:
        """Share of the vehicle's messages that were lost, by their sequence numbers."""
        return self._lost / max(1, self._received + self._lost)

    def poll(self, now_s: float) -> list[Any]:
        """All messages of the vehicle that have arrived; also sends what is due.

        ``now_s``: steady time in s.
        """
        if self._connection is None and not self._open(now_s):
            return []
        found = list[Any]()
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # the library prints its errors
                self._drain(found, now_s)
                self._send_regular(now_s)
        except (OSError, EOFError, ValueError, self._mavutil.mavlink.MAVError) as error:
            self._close(str(error) or type(error).__name__)
            return found
        if not self._is_udp and now_s - self._data_s > SILENT_S:  # the library hides a closed link
            self._close(f"nothing received for {SILENT_S:.0f} s")
        return found

    def wait(self, timeout_s: float) -> None:
        """Wait for the next message for at most this time in s."""
        fds = [] if self._connection is None else [self._connection.fd]
        try:
            select.select(fds, [], [], timeout_s)
        except (OSError, ValueError, TypeError):  # it was closed
            time.sleep(timeout_s)

    def status(self, heartbeat: Any) -> Status:
        """The content of a heartbeat."""
        mode = self._mavutil.mode_string_v10(heartbeat)
        failsafe = FAILSAFE.get(heartbeat.system_status, "")
        return Status(mode, bool(heartbeat.base_mode & ARMED), failsafe)

    def send_target(self, latitude: float, longitude: float, altitude: float) -> None:
        """Send a target in degrees, and in m above home."""
        place = round(latitude * DEGREE), round(longitude * DEGREE), altitude
        head = self._boot_ms, self.system, AUTOPILOT_COMPONENT, RELATIVE_ALTITUDE, POSITION_ONLY
        rest = (0.0,) * 8  # speeds, accelerations, yaw: masked
        self._send("set_position_target_global_int", *head, *place, *rest)

    def request_parameter(self, name: str) -> None:
        """Request a parameter; the answer is a PARAM_VALUE."""
        self._send("param_request_read", self.system, AUTOPILOT_COMPONENT, name.encode(), -1)

    def close(self) -> None:
        """Close the link."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, now_s: float) -> bool:
        if now_s - self._opened_s < REOPEN_PERIOD_S:
            return False
        self._opened_s = now_s
        url, baud = self.settings.url, BAUD
        if serial := SERIAL.fullmatch(url):
            url, baud = serial[1], int(serial[2] or BAUD)
            with requires_extra(f"mavlink.url {url}", "pyserial", "mavlink"):
                import serial as _  # noqa: F401
        try:
            self._require_free(url)
            with library() as mavutil:
                own = {"source_system": self.system or 1, "source_component": COMPONENT}
                made = mavutil.mavlink_connection(url, baud=baud, retries=1, **own)
        except (OSError, ValueError) as error:
            self.failing = f"{self.settings.url}: {error}"
            return False
        if self._key is not None:
            made.setup_signing(self._key, True, lambda *_: False)
            _forget_refused(made.mav)
        if self._is_udp:
            made.port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self._connection, self.failing, self._sequence = made, "", None
        self._data_s = now_s
        return True

    @staticmethod
    def _require_free(url: str) -> None:
        """Raise an OSError if another program listens at this address. The library would share it,
        and only one of the two would receive anything."""
        found = SOCKET.fullmatch(url)
        if found is not None and found[1] in ("udp", "udpin"):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((found[2], int(found[3])))

    def _close(self, why: str) -> None:
        with contextlib.suppress(Exception):  # an unplugged port may raise anything
            self._connection.close()
        self._connection, self.failing = None, f"{self.settings.url}: {why}"

    def _drain(self, found: list[Any], now_s: float) -> None:
        """Append everything that has arrived, as a heartbeat may be at the end of a long queue. The
        number of reads is bounded, so that a flood of packets does not keep it busy for ever."""
        link, self.flooded = self._connection, True
        for _ in range(MAX_READS):
            if not (data := link.recv(CHUNK)):
                self.flooded = False
                break
            self._data_s = now_s
            messages = link.mav.parse_buffer(data) or ()
            found.extend(each for each in messages if self._is_ours(each, now_s))

    def _is_ours(self, message: Any, now_s: float) -> bool:
        """Whether a message is of the vehicle; others are counted, and so are lost ones, by gaps in
        the sequence numbers: late ones are not lost."""
        kind = message.get_type()
        if kind == "BAD_DATA":
            self.left_out[NOT_READ] += 1
            return False
        system, beat = message.get_srcSystem(), kind == "HEARTBEAT"
        ours = message.get_srcComponent() == AUTOPILOT_COMPONENT and self.system in (0, system)
        if not ours or (beat and message.autopilot == NO_AUTOPILOT):
            self.left_out["of others"] += 1
            return False
        if self.heard_s is None and not beat:
            self.left_out["before the first heartbeat"] += 1
            return False
        if beat:
            if self.heard_s is None:
                self._connection.mav.srcSystem = system  # we are a component of the vehicle
            self.system, self.vehicle_type, self.heard_s = system, message.type, now_s
        sequence = message.get_seq()
        if self._sequence is not None:
            missing = (sequence - self._sequence - 1) % 256
            self._lost += missing if missing < 128 else 0
        self._sequence = sequence
        self._received += 1
        self._streams[kind] += 1
        return True

    def _send_regular(self, now_s: float) -> None:
        if now_s - self._beat_s >= HEARTBEAT_PERIOD_S:
            self._beat_s = now_s
            self._send("heartbeat", OWN_TYPE, NO_AUTOPILOT, 0, 0, ACTIVE)
        if self.heard_s is not None and now_s - self._asked_s >= STREAM_PERIOD_S:
            since_s, self._asked_s = min(now_s - self._asked_s, STREAM_PERIOD_S), now_s
            names = self._mavutil.mavlink.mavlink_map
            for number, rate in STREAMS.items():
                if number in OF_BOATS and self.vehicle_type not in BOATS:
                    continue
                if self._streams[names[number].msgname] < ENOUGH * rate * since_s:
                    self._command(SET_MESSAGE_INTERVAL, number, 1e6 / rate)
            self._streams.clear()

    def _command(self, number: int, *values: float) -> None:
        to = self.system, AUTOPILOT_COMPONENT, number, 0
        self._send("command_long", *to, *values, *(0.0,) * (7 - len(values)))

    def _send(self, name: str, *values: Any) -> None:
        if self._connection is None:
            return
        try:
            getattr(self._connection.mav, f"{name}_send")(*values)
        except OSError as error:
            self._close(str(error))

    @property
    def _boot_ms(self) -> int:
        """ms since the link was opened, for the fields with our time since boot."""
        return max(0, round((self._beat_s - self._opened_s) * 1e3)) % 2**32


def _forget_refused(speaker: Any) -> None:
    """Make pymavlink forget the timestamps of wrongly signed messages. Otherwise a stranger could
    silence the vehicle with a timestamp in the future."""
    signing, check = speaker.signing, speaker.check_signature

    def checked(*message: Any) -> bool:
        known = dict(signing.stream_timestamps)
        good = check(*message)
        if not good:
            signing.stream_timestamps = known
        return good

    speaker.check_signature = checked
