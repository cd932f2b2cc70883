"""The queue of samples that wait for the model, and the rules that decide when a batch is due."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from ..core.clock import SECOND
from ..core.maps import StopCondition
from ..core.samples import Samples
from ..core.settings import Settings, setting


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How long the model trains. All data enter the map whatever these settings are."""

    update_budget: float = setting(
        0.0, "End the training of an update after this wall time. 0: no limit", "s", minimum=0.0,
        maximum=3600.0, mutable=True, name="training.budget",
    )  # fmt: skip

    def stop_condition(self) -> StopCondition | None:
        """The stop condition of an update that begins now; None: its own number of steps."""
        if not self.update_budget:
            return None
        end = perf_counter() + self.update_budget
        return lambda taken: perf_counter() >= end


#: An update trains for its own number of steps.
DEFAULT_TRAINING = TrainingSettings()


@dataclass(frozen=True)
class TimedBatches(Settings):
    """A batch is due at ``batch_size`` new samples, or when the oldest of them is ``batch_period``
    old. For a vehicle that does not wait for its map.
    """

    batch_size: int = setting(
        20, "Close a batch at this many waiting pings", minimum=1, maximum=100_000, mutable=True,
        name="batch.size",
    )  # fmt: skip
    batch_period: float = setting(
        10.0, "Close a batch when its oldest ping has waited this long, in ROS time", "s",
        minimum=0.1, maximum=3600.0, mutable=True, name="batch.period",
    )  # fmt: skip

    def batch_due(self, fresh: int, age_s: float, arrived: bool) -> bool:
        """Whether a batch is due: with so many new samples, the oldest of this age in s, and
        whether the vehicle has reached a waypoint since the last batch."""
        return fresh >= self.batch_size or age_s >= self.batch_period


@dataclass(frozen=True)
class WaypointBatches:
    """A batch holds the samples measured on the way to a waypoint (Algorithm 1 of the paper)."""

    def batch_due(self, fresh: int, age_s: float, arrived: bool) -> bool:
        """See ``TimedBatches``."""
        return arrived


#: Decides when a batch is due. A batch takes all samples that wait.
BatchPolicy = TimedBatches | WaypointBatches


class SampleQueue:
    """Accepted samples that wait for the model, in order.

    Samples of a failed batch are retried: they go into the next batch, but do not make one due.

    Args:
        policy: decides when a batch is due.
    """

    #: Number of samples at which it is ``full``. Callers then add no more; it drops nothing itself.
    capacity = 1_000_000

    def __init__(self, policy: BatchPolicy) -> None:
        self.policy = policy
        self._parts: list[Samples] = []
        self._retry_count = 0
        self._oldest_ns: int | None = None
        self._arrived = False

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def samples(self) -> Samples:
        """All samples that wait."""
        return Samples.joined(self._parts)

    @property
    def full(self) -> bool:
        """Whether no more should be accepted."""
        return len(self) >= self.capacity

    def add(self, samples: Samples, now_ns: int | None) -> None:
        """Queue new samples; their age counts from ``now_ns``, or from ``batch_due``."""
        if len(samples):
            self._parts.append(samples)
            # Join parts so that each is longer than the next: few parts, however long the queue.
            while len(self._parts) > 1 and len(self._parts[-1]) >= len(self._parts[-2]):
                self._parts[-2:] = [Samples.joined(self._parts[-2:])]
            if self._oldest_ns is None:
                self._oldest_ns = now_ns

    def waypoint_reached(self) -> None:
        """The vehicle has reached a waypoint. Ignored where it measured nothing on the way."""
        self._arrived = len(self) > self._retry_count

    def batch_due(self, now_ns: int) -> bool:
        """Whether a batch is due at ``now_ns``."""
        fresh = len(self) - self._retry_count
        if fresh <= 0:
            return False
        if self._oldest_ns is None or self._oldest_ns > now_ns:  # a recording's clock was set back
            self._oldest_ns = now_ns
        age_s = (now_ns - self._oldest_ns) / SECOND
        return self.policy.batch_due(fresh, age_s, self._arrived)

    def take(self) -> Samples:
        """Remove all samples and return them as a batch."""
        batch = self.samples
        self.clear()
        return batch

    def put_back(self, batch: Samples, now_ns: int, retry: bool) -> None:
        """Put a batch back; with ``retry`` it is not due again before new samples come."""
        if not len(batch):
            return
        self._parts.insert(0, batch)
        self._retry_count = len(batch) if retry else 0
        if not retry and self._oldest_ns is None:
            self._oldest_ns = now_ns

    def clear(self) -> None:
        """Remove all samples."""
        self._parts, self._retry_count, self._oldest_ns, self._arrived = [], 0, None, False
