"""The mapper that takes notes of how long things take, for ``latency``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nav_msgs.msg import Odometry

from ...frontend.events import MapDrawn
from ...ros.common import messages
from ...ros.common.executor import run_node
from ...ros.mapper.node import SWITCH_INTERVAL_S, MapperNode

#: In the environment: the file that the notes go to.
NOTES = "POAM_LATENCY_FILE"


class TimedMapper(MapperNode):
    """Notes how old every odometry message is when its callback begins (s)."""

    def __init__(self, **options: Any) -> None:
        self.delays: list[float] = []
        self.drawn: list[dict[str, float]] = []
        self._cpu_s = 0.0
        super().__init__(**options)

    def _on_odometry(self, message: Odometry) -> None:
        self.delays.append((time.time_ns() - messages.stamp_to_ns(message.header.stamp)) * 1e-9)
        super()._on_odometry(message)

    def _publish_map(self, drawn: MapDrawn) -> None:
        start = time.perf_counter()
        super()._publish_map(drawn)
        publish_s = time.perf_counter() - start
        assert drawn.learned is not None
        walls = {"predict_s": drawn.predict_s, "update_s": drawn.learned.report.update_s}
        # All that this thread did since the last map; it has nothing else to do.
        before, self._cpu_s = self._cpu_s, time.thread_time()
        times = {"publish_s": publish_s, **walls, "all_s": publish_s + sum(walls.values())}
        times["all_cpu_s"] = self._cpu_s - before
        self.drawn.append({**times, "odometry": len(self.delays)})


def main(args: Sequence[str] | None = None) -> int:
    """Run the mapper that takes notes; return its exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    made: list[TimedMapper] = []

    def make() -> TimedMapper:
        made.append(TimedMapper())
        return made[0]

    status = run_node(make, args)
    if made:
        notes = {"delays": made[0].delays, "drawn": made[0].drawn}
        Path(os.environ[NOTES]).write_text(json.dumps(notes))
    return status


if __name__ == "__main__":
    sys.exit(main())
