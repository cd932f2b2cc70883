"""From the autopilot's clock, milliseconds since its boot, to this computer's clock."""

from __future__ import annotations

from ..core.clock import SECOND

MILLISECOND = 1_000_000  # ns
#: Length of each of the two windows in which the fastest message is searched for, in ns. Crystals
#: differ by some 50 ppm: 1.5 ms in this time.
WINDOW_NS = 30 * SECOND
WRAP_MS = 2**32
#: A stamp this far behind the newest one comes from another boot, in ms.
REBOOT_MS = 10_000


class BootClock:
    """Converts times since boot to this computer's clock.

    A message arrives some time after its stamp, and this delay varies. The offset between the
    clocks is taken from the fastest message of the last minute. Converted stamps are therefore late
    by the shortest delay only, and never in the future.

    Attributes:
        boots: number of restarts of the autopilot that were noticed.
        age_s: delay of the newest message beyond the shortest delay, in s.
    """

    def __init__(self) -> None:
        self.boots, self.age_s = 0, 0.0
        self._newest_ms: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._wraps = 0
        self._begun: int | None = None  # ns, of the present window
        self._before: int | None = None  # smallest offset of the window before, ns
        self._present = 0

    def stamp(self, boot_ms: int, arrived_ns: int) -> int:
        """The time of measurement in ns of a message with a time since boot in ms.

        ``arrived_ns``: time of arrival by a clock that is never adjusted.
        """
        newest = self._newest_ms
        if newest is not None and newest - boot_ms > WRAP_MS // 2:
            self._wraps, newest = self._wraps + 1, None  # after 49.7 days
        elif newest is not None and boot_ms < newest - REBOOT_MS:
            self.boots, newest = self.boots + 1, None
            self._forget()
        self._newest_ms = boot_ms if newest is None else max(boot_ms, newest)
        measured = (boot_ms + self._wraps * WRAP_MS) * MILLISECOND
        offset = arrived_ns - measured
        if self._begun is None:
            self._begun, self._present = arrived_ns, offset
        elif arrived_ns - self._begun > WINDOW_NS:
            # After a silence the old offset is still right, but for drift: keep it for a window.
            self._before, self._present, self._begun = self._present, offset, arrived_ns
        self._present = min(self._present, offset)
        smallest = self._present if self._before is None else min(self._present, self._before)
        self.age_s = (offset - smallest) / SECOND
        return measured + smallest
