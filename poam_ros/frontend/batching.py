"""When the samples that wait for the model become a batch."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from ..core.clock import SECOND
from ..core.maps import StopCondition
from ..core.samples import Samples
from ..core.settings import check, setting


@dataclass(frozen=True)
class TrainingSettings:
    """How much is trained. Nothing here decides whether data go into the map: they always do.

    Raises:
        InputError: a value is outside its range.
    """

    update_budget: float = setting(
        0.0,
        "End the training of an update after this wall time. 0: no such end",
        "s",
        minimum=0.0,
        maximum=3600.0,
        mutable=True,
        name="training.budget",
    )
    training_duty: float = setting(
        0.0,
        "Train for this share of the wall time between updates. 0: not at all",
        minimum=0.0,
        maximum=1.0,
        mutable=True,
        name="training.duty",
    )

    def __post_init__(self) -> None:
        check(self)

    def stop_condition(self) -> StopCondition | None:
        """For an update that begins now; None where it has no end but its own."""
        if not self.update_budget:
            return None
        end = perf_counter() + self.update_budget
        return lambda taken: perf_counter() >= end


#: An update's training ends by its own number of steps, and there is none between two.
DEFAULT_TRAINING = TrainingSettings()


class BatchPolicy(Protocol):
    """When a batch closes. All that waits goes into it."""

    def batch_due(self, fresh: int, age_s: float, arrived: bool) -> bool:
        """Whether it closes now, by the new samples, the age of the oldest, and whether the vehicle
        has arrived at a waypoint since the batch before; asked only where there is something new.
        """


@dataclass(frozen=True)
class TimedBatches:
    """A batch closes at ``batch_size`` new samples, or when the oldest of them is ``batch_period``
    old: what a vehicle's mapper does, which waits for nobody.

    Raises:
        InputError: a value is outside its range.
    """

    batch_size: int = setting(
        20,
        "Close a batch at this many waiting pings",
        minimum=1,
        maximum=100_000,
        mutable=True,
        name="batch.size",
    )
    batch_period: float = setting(
        10.0,
        "Close a batch when its oldest ping has waited this long, in ROS time",
        "s",
        minimum=0.1,
        maximum=3600.0,
        mutable=True,
        name="batch.period",
    )

    def __post_init__(self) -> None:
        check(self)

    def batch_due(self, fresh: int, age_s: float, arrived: bool) -> bool:
        """As the class says."""
        return fresh >= self.batch_size or age_s >= self.batch_period


@dataclass(frozen=True)
class WaypointBatches:
    """A batch is what was measured on the way to a waypoint (Algorithm 1 of the paper)."""

    def batch_due(self, fresh: int, age_s: float, arrived: bool) -> bool:
        """As the class says."""
        return arrived


class SampleQueue:
    """Accepted samples that wait for the model, in order.

    Those of a batch that failed are *held*: they go into the next batch, but do not close one.

    Args:
        policy: when a batch closes.
        capacity: samples from which on it is ``full``: whoever adds should add no more. It drops
            nothing by itself.
    """

    def __init__(self, policy: BatchPolicy, capacity: int = 1_000_000) -> None:
        self.policy, self.capacity = policy, capacity
        self._parts: list[Samples] = []
        self._retry_count = 0
        self._oldest_ns: int | None = None
        self._arrived = False

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def samples(self) -> Samples:
        """All that waits."""
        return Samples.joined(self._parts)

    @property
    def full(self) -> bool:
        """Whether no more should be accepted."""
        return len(self) >= self.capacity

    def add(self, samples: Samples, now_ns: int | None) -> None:
        """Queue new samples; their age counts from now, or from the next look without it."""
        if len(samples):
            self._parts.append(samples)
            # A few parts, each longer than the next, however long the model takes.
            while len(self._parts) > 1 and len(self._parts[-1]) >= len(self._parts[-2]):
                self._parts[-2:] = [Samples.joined(self._parts[-2:])]
            if self._oldest_ns is None:
                self._oldest_ns = now_ns

    def waypoint_reached(self) -> None:
        """The vehicle is at a waypoint; nothing closes where nothing was measured on the way."""
        self._arrived = len(self) > self._retry_count

    def batch_due(self, now_ns: int) -> bool:
        """Whether a batch closes now."""
        fresh = len(self) - self._retry_count
        if fresh <= 0:
            return False
        if self._oldest_ns is None or self._oldest_ns > now_ns:  # the clock was set back
            self._oldest_ns = now_ns
        age_s = (now_ns - self._oldest_ns) / SECOND
        return self.policy.batch_due(fresh, age_s, self._arrived)

    def take(self) -> Samples:
        """Everything, as a batch."""
        batch = self.samples
        self.clear()
        return batch

    def put_back(self, batch: Samples, now_ns: int, retry: bool) -> None:
        """Keep a batch for the next try, which waits for new samples if ``hold``."""
        if not len(batch):
            return
        self._parts.insert(0, batch)
        self._retry_count = len(batch) if retry else 0
        if not retry and self._oldest_ns is None:
            self._oldest_ns = now_ns

    def clear(self) -> None:
        """Forget all that waits."""
        self._parts, self._retry_count, self._oldest_ns, self._arrived = [], 0, None, False
