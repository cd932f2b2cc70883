"""Between a placed ping and one that the model may learn: the screen, and the disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.clock import Moment
from ..core.errors import InputError
from ..core.samples import Samples
from ..frontend.batching import Backlog, BatchPolicy
from ..frontend.events import Judged, Note, Outcome, Trouble
from ..frontend.gate import PingGate
from ..journal.records import Doubts, Step
from ..screening.screen import FALSE_ECHO, Screen, ScreeningSettings
from .recovery import Chronicle, Resumption

if TYPE_CHECKING:
    from .learner import Learner

#: Why pings are refused that waited to be judged, or were held, when all was to be forgotten.
RESET = "reset"


class Acceptance:
    """Placed pings in; accepted ones, numbered and kept, into the backlog.

    Without a screen all are accepted at once. With one they wait in a queue of its own; when that
    closes, they are judged, and what is believed is the model's next batch, as soon as it is kept.

    Its caller has the chronicle's lock, but for ``judge``, which takes its time.

    Attributes:
        queue: where new pings wait and close batches: the backlog, or the judgement's own.
        held: placed pings that are in doubt.
    """

    def __init__(
        self,
        gate: PingGate,
        backlog: Backlog,
        chronicle: Chronicle,
        settings: ScreeningSettings,
    ) -> None:
        self._gate, self._backlog, self._chronicle = gate, backlog, chronicle
        self.settings = settings
        self._screen = Screen(settings) if settings.enabled else None
        gate.screened = settings.enabled
        self.queue = Backlog(backlog.policy) if settings.enabled else backlog
        self.held = Samples.empty()
        self._judging = Samples.empty()  # taken from the queue, and not counted elsewhere yet
        self._believed = False  # of the last judgement: something that the model has not seen
        self._placed = self._judged = 0  # pings, since the beginning or a reset
        self._trouble = ""  # with what was remembered before a restart

    @property
    def on(self) -> bool:
        """Whether pings are judged at all."""
        return self._screen is not None

    @property
    def waiting(self) -> int:
        """Pings that wait for the model, judged or not."""
        return len(self._backlog) + (len(self.queue) if self.on else 0)

    @property
    def unsettled(self) -> int:
        """Pings that wait to be judged, or are held."""
        return self._gate.unjudged + self._gate.held

    @property
    def full(self) -> bool:
        """Whether no more should be taken: the model, or the judgement, is that far behind."""
        return self._backlog.full or self.queue.full

    def follow(self, policy: BatchPolicy) -> None:
        """From now on batches close by this."""
        self._backlog.policy = self.queue.policy = policy

    def add(self, placed: Samples, now_ns: int) -> Samples:
        """Queue what the gate has placed; returns what counts as accepted by now."""
        if self.on and len(placed):
            first, self._placed = self._placed, self._placed + len(placed)
            placed = replace(placed, number=np.arange(first, self._placed, dtype=np.int64))
            self._chronicle.keeping.wait(placed)
            self.queue.add(placed, now_ns)
        return self._keep(Samples.empty() if self.on else placed, now_ns)

    def go_on(self, resumption: Resumption) -> None:
        """Take up what waited to be judged, or was held, before a restart.

        Without a screen it stays where it is kept, until there is one again.
        """
        self._gate.refused.go_on(resumption.refused)
        if self._screen is None:
            return
        doubts, waiting = resumption.doubts, resumption.waiting
        held, self._judged = doubts.held, doubts.judged
        self._placed = int(waiting.number[-1]) + 1 if len(waiting) else doubts.judged
        try:
            if doubts.memory or len(held):
                self._screen.recall(held, doubts.memory)
        except InputError as error:
            self._trouble = f"{error}: {len(held)} held pings are judged anew"
            waiting, held = Samples.joined([held, waiting]), Samples.empty()
        self._gate.put_back(len(waiting), len(held))
        self.held = held
        self.queue.add(waiting, None)
        # As if there had been no restart: what was believed is learned before more is judged.
        self._believed = len(resumption.rest) > 0

    def closes(self, now_ns: int) -> bool:
        """Whether there is a batch, to be judged or to be learned."""
        if self._believed:
            return not self._unkept
        return self.queue.closes(now_ns)

    def take(self) -> Samples | None:
        """The batch to be learned; None while some of it is not kept."""
        if self.on and self._unkept:
            return None
        self._believed = False
        return self._backlog.take()

    def judge(self, learner: Learner, now: Moment, final: bool) -> Iterator[Outcome]:
        """Judge what waits for it; what is believed goes its way to the model, and is learned
        before more is judged: a judgement depends on nothing but the pings before it."""
        screen, chronicle, mapper = self._screen, self._chronicle, learner.mapper
        if screen is None or (self._believed and not final):
            return
        if self._trouble:
            text, self._trouble = self._trouble, ""
            yield Trouble(Note("screen", text), fault=False)
        with chronicle.lock:
            if chronicle.resetting:  # what waits here came after it
                return
            fresh = self._judging = self.queue.take()
        if not len(fresh) and not (final and len(self.held)):
            return
        predict = mapper.predict if mapper.initialised else None
        try:
            try:
                judgement = screen.judge(fresh, predict, final)
            except Exception as error:
                yield learner.failed(error, "pings are judged without the map")
                judgement = screen.judge(fresh, None, final)
        except BaseException:  # Ctrl-C: what was measured is never lost
            with chronicle.lock:
                if not chronicle.resetting:
                    self.queue.put_back(fresh, now.ros_ns, hold=True)
                    self._judging = Samples.empty()
            raise
        gate = self._gate
        with chronicle.lock:
            if chronicle.resetting:  # it was counted as forgotten
                return
            gate.unjudged -= len(fresh)
            self._judging = Samples.empty()
            gate.held, self.held = len(judgement.held), judgement.held
            gate.refused.refuse_placed(FALSE_ECHO, judgement.refused)
            self._believed |= len(judgement.accepted) > 0
            judged = gate.accept(judgement.accepted)
            accepted = self._keep(judged, now.ros_ns, self._doubts(fresh, judgement.held))
        yield Judged(accepted, judgement.held, judgement.refused)

    def learn(self, batch: Samples, learner: Learner, now: Moment, tries: int) -> Iterator[Outcome]:
        """Try a batch; the mission's last one, with all that came since, a few times."""
        backlog, chronicle = self._backlog, self._chronicle
        while len(batch) and tries:
            try:
                outcome, keep = learner.learn(batch)
            except BaseException:  # Ctrl-C: what was measured is never lost
                with chronicle.lock:
                    backlog.put_back(batch, now.ros_ns, hold=True)
                raise
            if not keep:
                report = getattr(outcome, "report", None)  # none of a batch that is given up
                chronicle.record(Step.of(batch, report, now.ros_ns))
            batch, tries = Samples.empty() if not keep else batch, tries - 1
            with chronicle.lock:
                if not chronicle.resetting:
                    backlog.put_back(batch, now.ros_ns, hold=True)
                    batch = backlog.take() if keep and tries else Samples.empty()
            yield outcome

    def forget(self) -> None:
        """All that waits to be judged or is held belongs to a mission that is over."""
        gate = self._gate
        if self.on:
            forgotten = self.held, self._judging, self.queue.samples
            gate.refused.refuse_placed(RESET, Samples.joined(forgotten))
        self._chronicle.keeping.keep(Samples.empty(), refused=gate.refused.news())
        gate.refused.clear()
        gate.unjudged = gate.held = 0
        self._judging = Samples.empty()
        self.held, self._believed = Samples.empty(), False
        self._placed = self._judged = 0
        self._trouble = ""
        self.queue.clear()
        self._backlog.clear()

    def clear(self) -> None:
        """Begin anew, on the thread that judges."""
        if self._screen is not None:
            self._screen.clear()

    @property
    def _unkept(self) -> int:
        return self._chronicle.keeping.waiting

    def _doubts(self, fresh: Samples, held: Samples) -> Doubts:
        """What the judgement of these pings leaves to the next one."""
        assert self._screen is not None
        self._judged = int(fresh.number[-1]) + 1 if len(fresh) else self._judged
        return Doubts(self._judged, held, self._screen.remembered())

    def _keep(self, accepted: Samples, now_ns: int, doubts: Doubts | None = None) -> Samples:
        """Have numbered pings kept, and who was refused meanwhile; what is kept by now, these or
        earlier ones, waits for the model."""
        kept = self._chronicle.keeping.keep(accepted, doubts, self._gate.refused.news())
        self._backlog.add(kept, now_ns)
        return kept
