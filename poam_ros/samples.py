"""Samples: accepted pings, placed. Each has an identity that stays with it from gate to file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import InputError

#: The columns of ``Samples.measured``: the range as reported (m), the sound speed (m/s) that the
#: sonar assumed and the one it was corrected to, the water level (m), the direction of the beam.
MEASURED = (
    "range", "sound_speed_assumed", "sound_speed", "water_level", "beam_x", "beam_y", "beam_z",
)  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Accepted pings, in the order of acceptance.

    Attributes:
        number: identity: counts from 0 since the mission's begin or its last reset [N], int64.
        stamp_ns: time of measurement [N], int64.
        xy: place [N, 2], in m.
        z: elevation [N], in m.
        noise_std: deviation of each elevation [N], in m; NaN where only the model's noise is known.
        measured: what each was made of, [N, 7] by ``MEASURED``; NaN where nobody knows.

    Raises:
        InputError: if the shapes do not belong together.
    """

    number: np.ndarray
    stamp_ns: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    noise_std: np.ndarray
    measured: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        count, columns = len(self.number), len(MEASURED)
        if self.measured is None:
            object.__setattr__(self, "measured", np.full((count, columns), np.nan))
        shapes = [np.shape(array) for array in self.arrays]
        if shapes != [(count,), (count,), (count, 2), (count,), (count,), (count, columns)]:
            raise InputError(
                "samples: expected number, stamp_ns, z, noise_std [N], xy [N, 2] and measured "
                f"[N, {columns}], got {shapes}"
            )

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, index: slice | np.ndarray) -> Samples:
        return Samples(*(a[index] for a in self.arrays))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The attributes, in their order."""
        return self.number, self.stamp_ns, self.xy, self.z, self.noise_std, self.measured

    def corrected(
        self, sound_speed: float | None = None, water_level: np.ndarray | float | None = None
    ) -> Samples:
        """The same pings by another sound speed, in m/s, or water level, in m ([N] or one for all).

        Samples of which nobody knows what they were made of stay as they are.
        """
        reported, assumed, used, level = self.measured[:, :4].T
        speed = used if sound_speed is None else np.full(len(self), sound_speed)
        over = level if water_level is None else np.broadcast_to(water_level, len(self))
        known = np.isfinite(self.measured).all(1)
        moved = self.measured[:, 4:] * (reported * (speed - used) / assumed)[:, None]
        moved[:, 2] += over - level
        moved[~known] = 0.0
        measured = self.measured.copy()
        measured[known, 2], measured[known, 3] = speed[known], over[known]
        xy, z = self.xy + moved[:, :2], self.z + moved[:, 2]
        return Samples(self.number, self.stamp_ns, xy, z, self.noise_std, measured)

    @classmethod
    def of(cls, xy: np.ndarray, z: np.ndarray, first: int = 0) -> Samples:
        """Bare places [N, 2] and elevations [N], numbered from ``first``; no stamps, no noise."""
        xy, z = np.asarray(xy, dtype=float), np.asarray(z, dtype=float)
        number = np.arange(first, first + len(z), dtype=np.int64)
        return cls(number, np.zeros(len(z), dtype=np.int64), xy, z, np.full(len(z), np.nan))

    @classmethod
    def empty(cls) -> Samples:
        """No samples."""
        return cls.of(np.empty((0, 2)), np.empty(0))

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """All of them, one part after the other."""
        if not parts:
            return cls.empty()
        return cls(
            *(np.concatenate(arrays) for arrays in zip(*(p.arrays for p in parts), strict=True))
        )


class SampleStore:
    """All samples so far. Appending costs amortised constant time, whatever N is.

    Begins with samples that it never writes into; nor does it write into what it gave out.
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
        """Add new samples behind the old; the buffers double when they are full."""
        count = self._count + len(new)
        if count > len(self._kept):
            room = max(count, 2 * len(self._kept)) - self._count
            spare = Samples.of(np.empty((room, 2)), np.empty(room))
            self._kept = Samples.joined((self.data, spare))
        place = slice(self._count, count)
        for kept, added in zip(self._kept.arrays, new.arrays, strict=True):
            kept[place] = added
        self._count = count
