"""A mapper's front end that is fed from a log, whatever its format."""

from __future__ import annotations

from ..core.clock import Moment
from ..core.samples import Samples
from ..frontend.batching import SampleQueue, TimedBatches
from ..frontend.front_end import OVERLOAD, FrontEnd
from ..frontend.odometry import OdometryRefused, VehicleState
from ..frontend.ranges import RawPing
from ..frontend.refused_pings import RefusedPing, RefusedPings
from ..frontend.settings import FrontEndSettings

#: A ping, a position, a mission's state, a water level.
Event = RawPing | VehicleState | OdometryRefused | str | float


class Replay:
    """Feeds a front end with what a log has, in its order.

    Attributes:
        batches: of accepted pings, closed as by a mapper with default settings that keeps up.
    """

    def __init__(self, settings: FrontEndSettings) -> None:
        self.front_end, self._queue = FrontEnd(settings), SampleQueue(TimedBatches())
        self.batches: list[Samples] = []
        self._now, self._refused = Moment(0, 0.0), list[RefusedPing]()

    def handle(self, event: Event, now: Moment) -> None:
        """Take what came."""
        queue, last = self._queue, None  # the last pings of a mission
        self._now = now
        if isinstance(event, RawPing):
            self.front_end.ping(event, now, OVERLOAD if queue.full else "")
        elif isinstance(event, str):
            last = self.front_end.mission(event, now)
        elif isinstance(event, float):
            self.front_end.water_level(event, now)
        else:
            self.front_end.odometry(event, now)
        queue.add(self.front_end.take(now) if last is None else last, now.ros_ns)
        begun = bool(self.batches) or self.front_end.pilot.over(len(queue))
        if (last is not None and len(queue)) or (begun and queue.batch_due(now.ros_ns)):
            self.batches.append(queue.take())
        self._refused += self.front_end.ledger.take_refused()

    def ended(self, wait: float) -> tuple[Samples, RefusedPings]:
        """All accepted and all refused pings, after those at the end have waited for odometry this
        long, in s."""
        later = Moment(self._now.ros_ns, self._now.steady_s + wait)
        self._queue.add(self.front_end.take(later), later.ros_ns)
        self.batches.append(self._queue.take())
        self._refused += self.front_end.ledger.take_refused()
        return Samples.joined(self.batches), RefusedPings.of(self._refused)
