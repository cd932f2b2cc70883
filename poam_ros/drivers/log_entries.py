"""What goes to the disk, in the order in which it happened."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..samples import Samples
from ..survey.logged import Step
from ..survey.refused import Refusal


@dataclass
class Mark:
    """A place in the record; ``steps``: how many the log of ``folder`` holds there."""

    steady_s: float
    reached: threading.Event = field(default_factory=threading.Event)
    folder: Path | None = None
    steps: int = 0


class Reset(NamedTuple):
    """What comes after it belongs into a new folder; ``torn``: but some of that was given up."""

    stamp_ns: int
    torn: bool = False


class Forget(NamedTuple):
    """Only so many steps of the log are what happened."""

    steps: int


class Refused(NamedTuple):
    """Pings that were refused; a bounded number of them."""

    rows: list[Refusal]


class Placed(NamedTuple):
    """Pings that wait to be judged."""

    samples: Samples


@dataclass
class Taken:
    """Pings that were accepted; ``counts``: whether they may be returned."""

    samples: Samples
    counts: bool = False


Entry = Taken | Placed | Refused | Step | Mark | Reset | Forget
