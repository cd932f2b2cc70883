"""A boat of our own and a mission on it, over loopback and in simulated time."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
from contextlib import suppress

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.settings import rows
from poam_ros.mavlink.drive import Drive
from poam_ros.mavlink.frame import PlaceSettings
from poam_ros.mavlink.link import DEGREE, Link, LinkSettings
from poam_ros.mavlink.simulated_boat import SimulatedBoat
from poam_ros.ros.parameters import MAPPER, PLANNER
from poam_ros.simulation.simulator import SonarSettings
from poam_ros.simulation.terrain import load_terrain

BEGUN_NS = 1_700_000_000 * SECOND
TABLES = MAPPER, PLANNER, rows(PlaceSettings)
DEFAULTS = {row.name: row.default for table in TABLES for row in table}


#: Above those that the system gives out by itself, and apart from those of other runs on this
#: machine: nobody takes one between the look and its use.
PORTS = itertools.cycle(range(50)), 61_000 + 50 * (int(os.environ.get("ROS_DOMAIN_ID", 0)) % 90)


def free_port() -> int:
    """A port of UDP that nobody listens on."""
    numbers, first = PORTS
    for _ in range(50):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found, suppress(OSError):
            found.bind(("127.0.0.1", port := first + next(numbers)))
            return port
    raise AssertionError("every port is in use")


def polygons(path, frame, **kinds):
    """A GeoJSON file with rectangles (xmin, xmax, ymin, ymax) in degrees, by kind."""
    features = []
    for kind, (xmin, xmax, ymin, ymax) in kinds.items():
        corners = ((xmin, ymin), (xmax, ymin), (xmax, ymax), (xmin, ymax), (xmin, ymin))
        ring = [frame.to_degrees(corner)[::-1] for corner in corners]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"kind": kind}, "geometry": geometry})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return str(path)


class Boat(SimulatedBoat):
    """Notes what is requested, ``intervals``; ``ranges``: kind of its sonar's messages, whose other
    kinds are sent only with an echo."""

    def __init__(self, terrain, port, ranges="DISTANCE_SENSOR", **more):
        super().__init__(terrain, port, **more)
        self.intervals, self._ranges = [], ranges

    def _obey(self, message):
        if message.get_type() == "COMMAND_LONG":
            self.intervals.append(round(message.param1))
        super()._obey(message)

    def _send_range(self, distance):
        measured = min(distance, self._parameters["RNGFND1_MAX_CM"] / 100)
        if self._ranges == "DISTANCE_SENSOR":
            super()._send_range(distance)
        elif math.isfinite(distance) and self._ranges == "WATER_DEPTH":
            place = self.frame.to_degrees(self.position + self.ekf_offset)
            lat, lon = (round(each * DEGREE) for each in place)
            self._send("water_depth", self._ms, 0, 1, lat, lon, 406.0, 0, 0, 0, measured, 12.0)
        elif math.isfinite(distance):
            self._send("rangefinder", measured, 0.0)


class Voyage:
    """Each step is 0.1 s of the boat's time, and one of the drive's.

    ``values``: settings by name; ``boat``: arguments of the simulated boat; ``begun_s``: steady
    time at the beginning.
    """

    def __init__(self, values=None, boat=None, begun_s=100.0) -> None:
        port, self.begun_s = free_port(), begun_s
        settings = {
            "workspace": (-10.0, 10.0, -10.0, 10.0), "pilot": "diagonal", "resolution": 2.0,
            "method": "toy", "planner": "random", "screening.enabled": False,
            "mavlink.url": f"udpin:127.0.0.1:{port}", **(values or {}),
        }  # fmt: skip
        self.values = {**DEFAULTS, **settings}
        self.said: list[str] = []
        self.closed = False
        terrain = load_terrain("lake")
        self.boat = Boat(terrain, port, **{"sonar": SonarSettings(noise_std=0.05), **(boat or {})})
        self.begin()

    def begin(self) -> None:
        """Listen from now on."""
        fields = {name: self.values[name] for name in self.values if name.startswith("mavlink.")}
        own = {name.partition(".")[2]: value for name, value in fields.items()}
        self.drive = Drive(self.values, Link(LinkSettings(**own)), self.said.append, False)
        self.deliver()

    def deliver(self) -> None:
        self.drive.step(self.now)

    def end(self) -> None:
        self.drive.close(self.now)

    @property
    def vehicle(self):
        return self.drive.vehicle

    @property
    def session(self):
        return self.drive.session

    @property
    def guidance(self):
        return self.drive.guidance

    def command(self, word: str) -> str:
        """What a person asks for; returns the answer."""
        self.drive.command(word)
        said = len(self.said)
        self.deliver()
        return next(text for text in self.said[said:] if text.startswith(f"{word}: "))

    @property
    def now(self) -> Moment:
        seconds = self.begun_s + self.boat.time_s
        return Moment(BEGUN_NS + round(seconds * SECOND), seconds)

    @property
    def mission(self):
        return self.guidance.mission

    @property
    def state(self) -> str:
        return "" if self.guidance is None else self.mission.state

    def run(self, seconds: float) -> Voyage:
        """Go on for so long."""
        for _ in range(round(seconds * 10)):
            self.step()
        return self

    def step(self) -> None:
        self.boat.step()
        self.deliver()

    def until(self, condition, seconds: float = 600.0) -> Voyage:
        """Go on until a condition holds."""
        for _ in range(round(seconds * 10)):
            if condition():
                return self
            self.step()
        raise AssertionError(
            f"not within {seconds} s: {self.state}; {self.said[-5:]}; "
            f"{self.guidance and self.mission.reason}"
        )

    def skip(self, seconds: float) -> None:
        """Let both clocks go on by so long, with a look at the link every 2 s."""
        for _ in range(round(seconds / 2)):
            for _ in range(20):
                self.boat.step()
            self.deliver()

    def settled(self) -> None:
        """Every range that the boat has sent is known."""
        sent, known = self.balance()
        assert sent == known, (sent, known)

    def start(self) -> Voyage:
        """In GUIDED and armed, started by a person, on the way to the first goal."""
        self.boat.mode, self.boat.armed = "GUIDED", True
        self.until(lambda: self.state == "waiting", 20)
        self.until(lambda: not self.command("start").startswith("start: refused"), 5)
        return self.until(lambda: len(self.boat.targets) > 0, 20)

    def explore(self) -> Voyage:
        """Started, and over with the pilot survey."""
        return self.start().until(lambda: self.state == "exploring", 400)

    def resume(self) -> None:
        self.drive.command("resume")
        self.step()

    def heartbeat(self) -> Voyage:
        """Go on until the boat has sent its next heartbeat, which the drive has not read yet."""
        due = self.boat._next["HEARTBEAT"]
        self.boat.step()
        while self.boat._next["HEARTBEAT"] == due:
            self.deliver()
            self.boat.step()
        return self

    def sent_within(self, seconds: float) -> int:
        """Targets that are sent within so long, from the next look at the link on."""
        before = self.vehicle.sent
        self.deliver()
        self.run(seconds)
        return self.vehicle.sent - before

    @property
    def before_frame(self) -> int:
        """Ranges that came before anybody could take them."""
        return self.drive.before_frame

    def balance(self) -> tuple[int, int]:
        """Ranges that the boat has sent, and those that the mission knows of."""
        counts = self.session.ledger.counts()
        ignored = sum(self.vehicle.telemetry.left_out.values())
        known = counts["received"] + self.before_frame + ignored
        assert counts["received"] == sum(counts.values()) - counts["received"]
        return self.boat.pings, known

    def close(self) -> None:
        self.closed = True
        self.end()
        self.boat.close()
