"""Samples: accepted pings, placed. Each has an identity that stays with it from gate to file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .errors import InputError

#: The columns of ``Samples.applied``: the sound speed that the sonar assumed and the one that its
#: range was corrected to (m/s), the water's level (m), the direction of the beam in the map.
APPLIED = ("sound_speed_assumed", "sound_speed", "water_level", "beam_x", "beam_y", "beam_z")


@dataclass(frozen=True)
class Samples:
    """Accepted pings, in the order of acceptance.

    Attributes:
        number: identity: counts from 0 since the mission's begin or its last reset [N], int64.
        stamp_ns: time of measurement [N], int64.
        xy: place [N, 2], in m.
        z: elevation [N], in m.
        noise_std: deviation of each elevation [N], in m; NaN where only the model's noise is known.
        range: what the sonar measured [N], in m; NaN where that is not known.
        applied: what made an elevation of it, [N, 6] by ``APPLIED``; NaN where nobody knows.

    Raises:
        InputError: if the shapes do not belong together.
    """

    number: np.ndarray
    stamp_ns: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    noise_std: np.ndarray
    range: np.ndarray = field(default=None)  # type: ignore[arg-type]
    applied: np.ndarray = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        count, columns = len(self.number), len(APPLIED)
        if self.range is None:
            object.__setattr__(self, "range", np.full(count, np.nan))
        if self.applied is None:
            object.__setattr__(self, "applied", np.full((count, columns), np.nan))
        shapes = [np.shape(array) for array in self.arrays]
        one = (count,)
        if shapes != [one, one, (count, 2), one, one, one, (count, columns)]:
            raise InputError(
                "samples: expected number, stamp_ns, z, noise_std, range [N], xy [N, 2] and "
                f"applied [N, {columns}], got {shapes}"
            )

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, index: slice | np.ndarray) -> Samples:
        return Samples(*(a[index] for a in self.arrays))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The attributes, in their order."""
        numbers = self.number, self.stamp_ns
        return *numbers, self.xy, self.z, self.noise_std, self.range, self.applied

    def corrected(
        self, sound_speed: float | None = None, water_level: np.ndarray | float | None = None
    ) -> Samples:
        """The same pings by another sound speed, in m/s, or water level, in m ([N] or one for all).

        Samples of which nobody knows what they were made of stay as they are.
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
        """Bare places [N, 2] and elevations [N], numbered from ``first``, without stamps.

        noise_std: as the attribute, [N] or one for all; None: nothing is known of any.

        Raises:
            InputError: if the shapes do not belong together.
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
        """Variance of each ping's own noise [N], m^2; 0 where not known, None where none is."""
        known = ~np.isnan(self.noise_std)
        if not known.any():
            return None
        with np.errstate(over="ignore"):
            return np.square(np.where(known, self.noise_std, 0.0))

    def check(self) -> None:
        """Whether a map can be made from them.

        Raises:
            InputError: there are none, places or elevations are not finite, or a deviation is
                given that is not finite and positive.
        """
        if not len(self):
            raise InputError("update: expected at least one ping, got none")
        bad = ~(np.isfinite(self.xy).all(1) & np.isfinite(self.z))
        if bad.any():
            raise InputError(
                f"update: expected finite pings, got {bad.sum()} of {len(bad)} that are not"
            )
        std = self.noise_std[~np.isnan(self.noise_std)]
        wrong = std[~((std > 0) & (std < np.inf))]
        if len(wrong):
            raise InputError(
                "update: expected noise_std above zero, in m, or NaN where it is not known, "
                f"got {wrong[0]:g} (of {len(wrong)} such pings among {len(self)})"
            )

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
