"""A vehicle with a single-beam sonar above a terrain, in lock-step: one control period per step.

Time is counted in integer ticks of the least common multiple of control rate and sonar rate, so
that a 3 Hz sonar beside a 10 Hz control pings at k/3 s exactly, without drift.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.settings import Settings, setting
from .vehicle import DubinsVehicle, Pose

if TYPE_CHECKING:
    from .terrain import Terrain

FAULTS = ("dropout", "outlier", "nan", "inf", "false_echo")
#: Value of a setting that cannot be negative: choose what suits the terrain.
OWN = -1.0


def _share(of_pings: str) -> Any:
    return setting(0.0, f"Share of the pings that {of_pings}", minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class SonarSettings(Settings):
    """The sonar and its faults; NaN and infinities as in REP-117.

    Raises:
        InputError: if a value is out of its range.
    """

    prefix = "sonar"

    rate: float = setting(
        3.0, "Rate of the sonar", "Hz", minimum=0.01, maximum=1000.0, name="sonar_rate"
    )
    noise_std: float = setting(
        OWN, "Standard deviation of a range. -1: suited to the terrain (1 m; lake: 0.1 m)", "m",
        minimum=OWN, maximum=1e3,
    )  # fmt: skip
    clearance: float = setting(
        OWN, "Height of the sonar above the highest point. -1: suited to the terrain (5 m; lake: "
        "2.5 m, which is 0.5 m under water)", "m", minimum=OWN, maximum=1e5,
    )  # fmt: skip
    min_range: float = setting(0.1, "Shortest valid range", "m", minimum=0.0, maximum=1e5)
    max_range: float = setting(
        0.0, "Longest valid range. 0: enough for the deepest point", "m", minimum=0.0, maximum=1e6
    )
    # Delays the stamp too, as a sonar that stamps late; the mapper corrects it by an offset.
    latency: float = setting(
        0.0, "Delay of stamps and delivery of pings", "s", minimum=0.0, maximum=60.0
    )
    dropout: float = _share("are never delivered")
    outlier: float = _share("lie beyond max_range")
    nan: float = _share("are NaN (erroneous)")
    inf: float = _share("are +Inf or -Inf (no return, too close)")
    false_echo: float = _share("have 1.5 to 3 times the true range")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("noise_std", 0.0), ("clearance", 0.01)):
            value = getattr(self, name)
            if value != OWN and value < least:
                raise InputError(f"{name}: expected at least {least:g}, or -1, got {value:g}")
        if self.max_range and not self.min_range < self.max_range:
            raise InputError(
                f"max_range: expected more than min_range = {self.min_range}, or 0, "
                f"got {self.max_range}"
            )
        total = sum(getattr(self, name) for name in FAULTS)
        if total > 1 + 1e-12:
            raise InputError(f"{', '.join(FAULTS)}: expected a sum of at most 1, got {total}")

    def over(self, terrain: Terrain) -> SonarSettings:
        """These settings, with values suited to a terrain where they are left open.

        The terrain needs ``highest``, ``lowest`` and ``sonar_defaults``.
        """
        noise_std, clearance = terrain.sonar_defaults
        noise_std = noise_std if self.noise_std == OWN else self.noise_std
        clearance = clearance if self.clearance == OWN else self.clearance
        # Ten standard deviations: no correct ping of the deepest bottom counts as an outlier.
        deepest = clearance + float(terrain.highest) - float(terrain.lowest)
        enough = max(deepest, self.min_range) + 1.0 + 10.0 * noise_std
        return replace(
            self, noise_std=noise_std, clearance=clearance, max_range=self.max_range or enough
        )


#: Maximum delay that a simulation catches up, in wall seconds.
MAX_DELAY_S = 0.5


class Pacer:
    """Number of control steps that are due by a steady clock.

    A machine that falls behind catches up at no more than twice the requested speed. Steps later
    than ``MAX_DELAY_S`` are dropped: simulated time slows down instead of jumping.

    Args:
        period: simulated time of a step, in seconds.
        speed: simulated seconds per wall second.
        tick: wall time between two calls of ``due``, in seconds.
    """

    def __init__(self, period: float, speed: float, *, tick: float = 0.01) -> None:
        self.period, self.speed, self._tick = period, speed, tick
        self._due_steps = 0.0
        self._last: float | None = None

    def due(self, now: float) -> int:
        """Steps to take at wall time ``now`` (s). The first call starts the count."""
        rate = self.speed / self.period
        self._due_steps += (now - (now if self._last is None else self._last)) * rate
        self._last = now
        burst = max(1, math.ceil(2 * self._tick * rate))
        # The tolerance keeps ten steps of 0.1 s at ten despite rounding.
        steps = min(int(self._due_steps + 1e-9), burst)
        self._due_steps -= steps
        self._due_steps = min(self._due_steps, max(1.0, MAX_DELAY_S * rate))
        return steps


@dataclass(frozen=True)
class SimulatedPing:
    """A ping of the simulated sonar, in ns and m.

    ``stamp_ns``: stamp of the message, and time of its delivery; x, y: true place of the
    measurement. ``range`` may be NaN, infinite or beyond the maximum.
    """

    stamp_ns: int
    x: float
    y: float
    range: float


@dataclass(frozen=True)
class SimulationStep:
    """The state at the end of a control period, and the pings delivered in it, in order.

    ``speed`` and ``direction`` (m/s, rad): of the motion over ground; in a current, the heading
    ``pose.yaw`` differs from the direction.
    """

    time_ns: int
    pose: Pose
    speed: float
    direction: float
    turn_rate: float
    pings: tuple[SimulatedPing, ...]


class Simulation:
    """The vehicle and its sonar above a terrain.

    The terrain needs ``elevation_at``, ``highest``, ``lowest`` and ``sonar_defaults``. Seed and
    goals determine everything. Noise and faults have separate generators, so that faults change
    neither the noise nor the trajectory.

    Attributes:
        settings: of the sonar, resolved for the terrain.
        sonar_z: elevation of the sonar, in m.
        vehicle: a new one after a reset.

    Raises:
        InputError: a rate, a limit, the seed or the start is wrong.
    """

    def __init__(
        self,
        terrain: Terrain,
        *,
        start: Pose,
        environment: Extent | None = None,
        sonar: SonarSettings | None = None,
        control_rate: float = 10.0,
        max_speed: float = 1.0,
        max_turn_rate: float = 1.5,
        current: Sequence[float] = (0.0, 0.0),
        seed: int = 0,
    ) -> None:
        if seed < 0:
            raise InputError(f"seed: expected an integer >= 0, got {seed}")
        sonar = (SonarSettings() if sonar is None else sonar).over(terrain)
        self.terrain, self.settings = terrain, sonar
        self.sonar_z = float(terrain.highest) + sonar.clearance
        control, ping = _rate("control_rate", control_rate), _rate("sonar rate", sonar.rate)
        self._tick_rate = _common(control, ping)
        self._control_ticks = int(self._tick_rate / control)
        self._ping_ticks = int(self._tick_rate / ping)
        self._latency_ns = round(sonar.latency * SECOND)
        self._seed, self._tick = seed, 0
        self._at_start = partial(
            DubinsVehicle, start, terrain.extent if environment is None else environment,
            max_speed=max_speed, max_turn_rate=max_turn_rate, current=current,
        )  # fmt: skip
        self.reset()

    def reset(self) -> None:
        """Start again: start pose, no goal, initial state of the generators and of the ping rate.

        Time continues, because a clock that jumps back breaks its readers. Undelivered pings are
        dropped. The steps that follow equal those of a new simulation, at later times.
        """
        self.vehicle = self._at_start()
        noise, faults = np.random.SeedSequence(self._seed).spawn(2)
        self._noise, self._faults = np.random.default_rng(noise), np.random.default_rng(faults)
        self._next_ping = self._tick + self._ping_ticks
        self._in_transit: deque[SimulatedPing] = deque()

    @property
    def time_ns(self) -> int:
        """Nanoseconds since this simulation was made."""
        return self._nanoseconds(self._tick)

    @property
    def pose(self) -> Pose:
        return self.vehicle.pose

    def set_goal(self, goal: Sequence[float] | np.ndarray | None) -> None:
        """See ``DubinsVehicle``."""
        self.vehicle.set_goal(goal)

    def step(self) -> SimulationStep:
        """Advance by one control period. A ping at its very end belongs to it."""
        begin, self._tick = self._tick, self._tick + self._control_ticks
        vehicle = self.vehicle
        pose_at = vehicle.advance(float(self._control_ticks / self._tick_rate))
        while self._next_ping <= self._tick:
            self._measure(pose_at(float((self._next_ping - begin) / self._tick_rate)))
            self._next_ping += self._ping_ticks
        time_ns, delivered = self.time_ns, []
        while self._in_transit and self._in_transit[0].stamp_ns <= time_ns:
            delivered.append(self._in_transit.popleft())
        return SimulationStep(
            time_ns, vehicle.pose, vehicle.speed, vehicle.direction, vehicle.turn_rate,
            tuple(delivered),
        )  # fmt: skip

    def _measure(self, pose: Pose) -> None:
        """Take the next ping at a pose, apply faults to it, and queue it for delivery."""
        elevation = float(self.terrain.elevation_at(np.array([[pose.x, pose.y]]))[0])
        noise = self.settings.noise_std * self._noise.standard_normal()
        measured = self._with_fault(self.sonar_z - elevation + noise)
        if measured is not None:
            stamp_ns = self._nanoseconds(self._next_ping) + self._latency_ns
            self._in_transit.append(SimulatedPing(stamp_ns, pose.x, pose.y, measured))

    def _with_fault(self, measured: float) -> float | None:
        """The range after faults; None for a dropped ping."""
        # Always two draws, so that the share of one fault does not change the others.
        which, how = self._faults.uniform(size=2)
        infinite = math.inf if how < 0.5 else -math.inf
        echo = measured * (1.5 + 1.5 * how)
        faulty = (None, self.settings.max_range * (1.1 + how), math.nan, infinite, echo)
        for name, value in zip(FAULTS, faulty, strict=True):
            which -= getattr(self.settings, name)
            if which < 0:
                return value
        return measured

    def _nanoseconds(self, tick: int) -> int:
        """The time of a tick, rounded once from the exact quotient."""
        return round(tick * SECOND / self._tick_rate)


def _rate(name: str, rate: float) -> Fraction:
    """A rate in Hz as a fraction of small integers (3.3333 is 10/3)."""
    if not 1e-3 <= rate <= 1e6:
        raise InputError(f"{name}: expected 0.001 to 1e6 Hz, got {rate}")
    return Fraction(float(rate)).limit_denominator(1000)


def _common(a: Fraction, b: Fraction) -> Fraction:
    """The lowest rate that is a multiple of both."""
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))
