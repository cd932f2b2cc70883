"""Settings of the link to an autopilot, and of a mission's places in degrees."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError
from ..core.reading import read_whole
from ..core.settings import Settings, setting

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
class PlaceSettings(Settings):
    """Places of the mission in degrees; all 0: not given."""

    workspace: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0, 0.0), "Rectangle to be mapped in degrees, instead of workspace: south, "
        "west, north, east", "deg", minimum=-180.0, maximum=180.0, name="workspace_degrees",
    )  # fmt: skip


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
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the link."""
        found = SOCKET.fullmatch(self.url)
        return found is None or LOOPBACK.fullmatch(found[2]) is not None

    @property
    def warning(self) -> str:
        """What is dangerous about the link, as text; empty: nothing."""
        if self.is_loopback or self.key_file:
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
