"""What lies between a ping that is placed and one that is accepted: nothing, or the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..samples import Samples
from .batching import Backlog
from .events import Judged
from .gate import PingGate
from .screening import FALSE_ECHO, Screen, ScreeningSettings

if TYPE_CHECKING:
    from ..mapping import BathymetricMapper

#: Why pings are refused that waited to be judged, or were held, when all was to be forgotten.
RESET = "reset"


class Acceptance:
    """Placed pings in; numbered ones into the backlog, at once or when the screen believes them.

    Its caller has the lock of the backlog, but for ``judge``, which takes its time.

    Attributes:
        queue: where new pings wait and close batches: the backlog, or the judgement's own.
        held: placed pings that are in doubt.
    """

    def __init__(self, gate: PingGate, backlog: Backlog, settings: ScreeningSettings) -> None:
        self._gate, self._backlog, self.settings = gate, backlog, settings
        self._screen = Screen(settings) if settings.screening else None
        gate.screened = settings.screening
        self.queue = Backlog(backlog.policy) if settings.screening else backlog
        self.held = Samples.empty()

    @property
    def on(self) -> bool:
        """Whether pings are judged at all."""
        return self._screen is not None

    @property
    def waiting(self) -> int:
        """Pings that wait for the model, judged or not."""
        return len(self._backlog) + (len(self.queue) if self.on else 0)

    def add(self, placed: Samples, now_ns: int) -> Samples:
        """Queue what the gate has placed; returns what is accepted by that."""
        self.queue.add(placed, now_ns)
        return Samples.empty() if self.on else placed

    def judge(
        self, fresh: Samples, mapper: BathymetricMapper, final: bool
    ) -> tuple[Callable[[int], Judged], Exception | None]:
        """Judge pings of the queue: what files them, to be called with the time; and the model's
        failure, where its map could not be asked."""
        screen, trouble = self._screen, None
        assert screen is not None
        predict = mapper.predict if mapper.initialised else None
        try:
            judgement = screen.judge(fresh, predict, final)
        except Exception as error:
            trouble, judgement = error, screen.judge(fresh, None, final)

        def file(now_ns: int) -> Judged:
            gate = self._gate
            gate.unjudged -= len(fresh)
            gate.held, self.held = len(judgement.held), judgement.held
            if judgement.refused:
                gate.rejected[FALSE_ECHO] += judgement.refused
            accepted = gate.accept(judgement.accepted)
            self._backlog.add(accepted, now_ns)
            return Judged(accepted, judgement.held, judgement.refused)

        return file, trouble

    def forget(self) -> None:
        """All that waits to be judged or is held belongs to a mission that is over."""
        gate = self._gate
        if forgotten := gate.unjudged + gate.held:
            gate.rejected[RESET] += forgotten
        gate.unjudged = gate.held = 0
        self.held = Samples.empty()
        self.queue.clear()

    def clear(self) -> None:
        """Begin anew, on the thread that judges."""
        if self._screen is not None:
            self._screen.clear()
