"""Samples: accepted pings with a place. Each has a number, from the front end to the file. Also the
queue of those that wait for the model, and the rules that decide when a batch is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .clock import SECOND
from .errors import InputError
from .settings import Settings, setting

#: The columns of ``Samples.applied``: sound speed assumed by the sonar, sound speed used for the
#: range (m/s), the water level (m), the direction of the beam in the map.
APPLIED = ("sound_speed_assumed", "sound_speed", "water_level", "beam_x", "beam_y", "beam_z")


@dataclass(frozen=True)
class Samples:
    """Accepted pings, in the order of acceptance.

    Attributes:
        number: counts from 0 since the start of the mission or its last reset [N], int64.
        stamp_ns: time of measurement [N], int64.
        xy: place [N, 2], in m.
        z: elevation [N], in m.
        noise_std: standard deviation of each elevation's own noise [N], in m; NaN if unknown.
        range: measured range [N], in m; NaN if unknown.
        applied: values that turned the range into an elevation, [N, 6] by ``APPLIED``; NaN if
            unknown.

    Raises:
        InputError: the shapes do not match.
    """

    number: np.ndarray
    stamp_ns: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    noise_std: np.ndarray
    range: np.ndarray = field(default=None)  # type: ignore[arg-type]
    applied: np.ndarray = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        one = (len(self.number),)
        two, columns = (*one, 2), (*one, len(APPLIED))
        for name, shape in (("range", one), ("applied", columns)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.full(shape, np.nan))
        shapes = [np.shape(array) for array in self.arrays]
        if shapes != [one, one, two, one, one, one, columns]:
            raise InputError(
                "samples: expected number, stamp_ns, z, noise_std, range [N], xy [N, 2] and "
                f"applied [N, {len(APPLIED)}], got {shapes}"
            )

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, index: slice | np.ndarray) -> Samples:
        return Samples(*(a[index] for a in self.arrays))

    @property
    def xyz(self) -> np.ndarray:
        """Places and elevations [N, 3], in m."""
        return np.column_stack((self.xy, self.z))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The attributes, in order."""
        numbers = self.number, self.stamp_ns
        return *numbers, self.xy, self.z, self.noise_std, self.range, self.applied

    def corrected(
        self, sound_speed: float | None = None, water_level: np.ndarray | float | None = None
    ) -> Samples:
        """The same pings with another sound speed, in m/s, or water level, in m ([N] or a number).

        Samples with unknown range or applied values stay unchanged.
        """
        assumed, used, level = self.applied[:, :3].T
        speed = used if sound_speed is None else np.full(len(self), sound_speed)
        over = level if water_level is None else np.broadcast_to(water_level, len(self))
        known = np.isfinite(self.range) & np.isfinite(self.applied).all(1)
        moved = self.applied[:, 3:] * (self.range * (speed - used) / assumed)[:, None]
        moved[:, 2] += over - level
        moved[~known] = 0.0
        applied = self.applied.copy()
        applied[known, 1], applied[known, 2] = speed[known], over[known]
        return replace(self, xy=self.xy + moved[:, :2], z=self.z + moved[:, 2], applied=applied)

    @classmethod
    def of(
        cls, xy: np.ndarray, z: np.ndarray, first: int = 0, noise_std: np.ndarray | None = None
    ) -> Samples:
        """Samples of places [N, 2] and elevations [N], numbered from ``first``, without stamps.

        noise_std: as the attribute, [N] or one for all; None: unknown.

        Raises:
            InputError: the shapes do not match.
        """
        xy, z = np.asarray(xy, dtype=float), np.asarray(z, dtype=float)
        std = np.asarray(np.nan if noise_std is None else noise_std, dtype=float)
        placed = xy.ndim == 2 and xy.shape[1] == 2 and z.shape == xy.shape[:1]
        if not placed or std.shape not in ((), z.shape):
            raise InputError(
                "update: expected pings xy [N, 2] and z [N], noise_std [N] or one for all, "
                f"got {list(xy.shape)} and {list(z.shape)}, {list(std.shape)}"
            )
        number = np.arange(first, first + len(z), dtype=np.int64)
        stamps = np.zeros(len(z), dtype=np.int64)
        return cls(number, stamps, xy, z, np.array(np.broadcast_to(std, z.shape)))

    @property
    def noise_variance(self) -> np.ndarray | None:
        """Variance of each ping's own noise [N], in m^2; 0 where unknown, None if all are."""
        known = ~np.isnan(self.noise_std)
        if not known.any():
            return None
        with np.errstate(over="ignore"):
            return np.square(np.where(known, self.noise_std, 0.0))

    def check(self) -> None:
        """Check that a map can be made from them.

        Raises:
            InputError: there are none, places or elevations are not finite, or a known standard
                deviation is not finite and positive.
        """
        if not len(self):
            raise InputError("update: expected at least one ping, got none")
        bad = ~np.isfinite(self.xyz).all(1)
        if bad.any():
            raise InputError(
                f"update: expected finite pings, got {bad.sum()} of {len(bad)} not finite"
            )
        std = self.noise_std
        wrong = std[~np.isnan(std) & ~((std > 0) & (std < np.inf))]
        if len(wrong):
            raise InputError(
                "update: expected finite noise_std above 0 m, or NaN if unknown, "
                f"got {wrong[0]:g} ({len(wrong)} of {len(self)})"
            )

    @classmethod
    def empty(cls) -> Samples:
        """No samples."""
        return cls.of(np.empty((0, 2)), np.empty(0))

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """All of them, one part after the other."""
        columns = zip(*(part.arrays for part in parts), strict=True)
        return cls(*map(np.concatenate, columns)) if parts else cls.empty()


def grown(buffer: Any, kept: int, rows: int) -> Any:
    """A buffer for at least so many rows, with the first ``kept`` rows of an array or tensor.

    The buffer itself if it is long enough, else one twice as long: appending takes amortised
    constant time, and views of the old one are never written into.
    """
    if rows <= len(buffer):
        return buffer
    shape = (max(rows, 2 * len(buffer)), *buffer.shape[1:])
    array = isinstance(buffer, np.ndarray)
    longer = np.empty(shape, buffer.dtype) if array else buffer.new_empty(shape)
    longer[:kept] = buffer[:kept]
    return longer


class SampleStore:
    """All samples so far. Appending takes amortised constant time.

    Neither the initial samples nor the views returned by ``data`` are ever written into.
    """

    def __init__(self, samples: Samples) -> None:
        self._kept, self._count = samples, len(samples)

    def __len__(self) -> int:
        return self._count

    @property
    def data(self) -> Samples:
        """A view of everything stored; no copy."""
        return self._kept[: self._count]

    def append(self, new: Samples) -> None:
        """Append new samples."""
        before, self._count = self._count, self._count + len(new)
        self._kept = Samples(*(grown(kept, before, self._count) for kept in self._kept.arrays))
        for kept, added in zip(self._kept.arrays, new.arrays, strict=True):
            kept[before : self._count] = added


@dataclass(frozen=True)
class TimedBatches(Settings):
    """A batch is due at ``batch_size`` new samples, or when the oldest of them is ``batch_period``
    old. For a vehicle that does not wait for its map.

    ``update_budget``: wall time after which training with a batch ends, in s; 0: no limit.
    """

    update_budget = 0.0
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
class LiveBatches(TimedBatches):
    """With a limit of the time that training takes. All data enter the map whatever it is."""

    update_budget: float = setting(
        0.0, "End the training of an update after this wall time. 0: no limit", "s", minimum=0.0,
        maximum=3600.0, mutable=True, name="training.budget",
    )  # fmt: skip


@dataclass(frozen=True)
class WaypointBatches:
    """A batch holds the samples measured on the way to a waypoint (Algorithm 1 of the paper)."""

    update_budget = 0.0

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
