"""What a page shows at one moment, from a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...frontend.refused_pings import RefusedPings
from ..exports.chart import Chart

#: Severity of a notice.
GOOD, NOTE, BAD = "good", "note", "bad"

#: Places of a finished map's track on a page, and of its refused pings, at most: of more, every
#: Nth.
MAX_PLACES = 20_000
#: Steps of a track so many times longer than usual are no track.
JUMP = 10.0


def _nowhere() -> np.ndarray:
    return np.empty((0, 2))


@dataclass(frozen=True)
class Notice:
    """A message on the page: text, advice and severity."""

    text: str
    advice: str = ""
    mark: str = GOOD


@dataclass(frozen=True)
class Curves:
    """Values over samples [N]; NaN where unknown.

    Attributes:
        samples: [N], ascending.
        metrics: by their titles.
        seconds: wall times in s, by what took them.
    """

    samples: np.ndarray = field(default_factory=lambda: np.empty(0))
    metrics: Mapping[str, np.ndarray] = field(default_factory=dict)
    seconds: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A survey at one moment. Places are [N, 2] in m, as the map's.

    Attributes:
        title: of the page.
        chart: the map; None while there is none.
        waiting: text shown while there is no map.
        samples: accepted pings so far, among them some that are not in the map yet.
        track: where the vehicle was.
        pings: accepted pings with known places.
        line: names of the survey lines of the pings [N]; empty where unknown.
        refused: pings that were refused; of a mission the newest of each reason.
        remarks: messages on the page.
    """

    title: str
    chart: Chart | None = None
    waiting: str = ""
    samples: int = 0
    track: np.ndarray = field(default_factory=_nowhere)
    pings: np.ndarray = field(default_factory=_nowhere)
    line: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=str))
    refused: RefusedPings = field(default_factory=RefusedPings.none)
    curves: Curves = field(default_factory=Curves)
    remarks: tuple[Notice, ...] = ()

    @property
    def somewhere(self) -> bool:
        """Whether there is a map, a track or pings."""
        return self.chart is not None or len(self.track) + len(self.pings) > 0


def scene_of(
    chart: Chart,
    curves: Curves | None = None,
    remarks: tuple[Notice, ...] = (),
    pings: np.ndarray | None = None,
) -> Scene:
    """The scene of a map; ``pings``: places [N, 2] of more pings than it has, as the mission goes
    on."""
    title, track, line = chart.provenance["title"], chart.track, chart.line
    if pings is not None and len(pings) > len(track):
        track, line = pings, np.empty(0, dtype=str)
    some = slice(None, None, max(1, -(-len(track) // MAX_PLACES)))
    return Scene(
        title, chart, samples=len(track), pings=track[some], track=track_with_breaks(track[some]),
        line=line[some], refused=chart.unmapped.refused, curves=curves or Curves(),
        remarks=remarks,
    )  # fmt: skip


def thinned_refused_pings(refused: RefusedPings) -> RefusedPings:
    """The refused pings that a page draws: those with places, of many every Nth."""
    placed = refused.placed
    return placed[np.arange(0, len(placed), max(1, -(-len(placed) // MAX_PLACES)))]


def track_with_breaks(track: np.ndarray) -> np.ndarray:
    """A track [N, 2] with a place of NaN in each step that is ``JUMP`` times the usual one: there
    it goes on from one line, or day, to the next."""
    steps = np.hypot(*np.diff(track, axis=0).T)
    moved = steps[steps > 0]
    usual = np.median(moved) if len(moved) else np.inf
    return np.insert(track, np.flatnonzero(steps > JUMP * usual) + 1, np.nan, axis=0)
