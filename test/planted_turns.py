"""CPU time of the turns of the planted missions: screening, crossings, learning and the map.

``python test/planted_turns.py TURNS RUNS NETWORK FIRST LAST [FAULT ...]`` prints a line for each
fault: over the turns of all seeds from FIRST to before LAST, each turn by the least of RUNS runs.
TURNS: of a mission after its pilot survey. NETWORK: default, small as in the tests, or poam.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
from kept import SMALL
from planted_missions import Planted, track

from poam_ros.core.process import configure_process
from poam_ros.models.nngp.options import NeighbourOptions

LEARNED = "hidden", "lattice", "left_out", "first_steps"
NETWORKS = {
    "default": {f"nngp.{name}": getattr(NeighbourOptions, name) for name in LEARNED},
    "small": {},
    "poam": {"method": "poam"},
}


class Timed(Planted):
    """A mission whose turns with an update are timed, without waiting for the disk, in s."""

    def __init__(self, *given: object, **changed: object) -> None:
        self.turns: list[float] = []
        super().__init__(*given, **changed)  # type: ignore[arg-type]

    def turn(self) -> None:
        updates, begin = self.session.status.updates, thread_time()
        super().turn()
        if self.session.status.updates > updates > 0:
            self.turns.append(thread_time() - begin)


def timed(seed: int, fault: str, turns: int, network: dict[str, Any]) -> list[float]:
    """CPU times of the turns of a mission, in s."""
    size = SMALL["batch.size"]
    tiles = 1
    while len(track(np.random.default_rng([seed, 3]), tiles)[0]) < 600 + turns * size:
        tiles += 1
    with tempfile.TemporaryDirectory() as folder:
        mission = Timed(Path(folder), seed, fault, True, tiles=tiles, **network)
        pilot = mission.changed["pilot_samples"]
        mission.until(min(len(mission.xy), pilot + (turns + 1) * size))
        mission.close()
    return mission.turns[:turns]


if __name__ == "__main__":
    configure_process(1)  # as the nodes do
    turns, runs, network, first, last, *faults = sys.argv[1:]
    for fault in faults or ("none", "leg2", "shallow"):
        found = [
            np.min([
                timed(seed, fault, int(turns), NETWORKS[network])
                for _ in range(int(runs))
            ], axis=0)
            for seed in range(int(first), int(last))
        ]  # fmt: skip
        ms = 1e3 * np.concatenate(found)
        p99 = np.quantile(ms, 0.99, method="inverted_cdf")
        text = f"median {np.median(ms):.1f}, p99 {p99:.1f}, longest {ms.max():.1f} ms"
        print(f"{fault:<11}{len(ms)} turns: {text}", flush=True)
