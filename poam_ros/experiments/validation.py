"""Every sounding held out once, in as many maps as there are folds: in turn, or side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..drivers.sounding_settings import SoundingMapSettings
from ..drivers.soundings import Soundings
from ..drivers.validation import validate_fold
from ..geometry import Extent
from ..runs.held_out import HeldOut, split_folds
from .tasks import fold_task
from .tiles import result


def cross_validate(
    soundings: Soundings,
    workspace: Extent,
    settings: SoundingMapSettings,
    folds: int,
    client: Any = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> HeldOut:
    """Hold out every group of soundings once.

    Args:
        soundings: of the record; their groups stay together.
        workspace: of every map.
        settings: of every map.
        folds: how many maps.
        client: of dask, whose workers map side by side; None: in turn, in this process.
        on_progress: called with how many soundings were learned, of all folds together.

    Raises:
        InputError: fewer groups than folds, or no map can be made without one of the folds.
        PoamError: a model fails for good, or a worker is lost.
    """
    fold = split_folds(soundings.group, folds, settings.seed)
    masks = [fold == number for number in range(folds)]
    sizes = np.array([int((~mask).sum()) for mask in masks])
    if client is None:
        parts = []
        for number, mask in enumerate(masks):
            report = partial(_add, on_progress, int(sizes[:number].sum()))
            parts.append(validate_fold(soundings, mask, number, workspace, settings, report))
        return HeldOut.joined(parts)
    from distributed import as_completed

    there = client.scatter(soundings, broadcast=True)
    tasks = {
        client.submit(fold_task, there, mask, number, workspace, settings, pure=False): number
        for number, mask in enumerate(masks)
    }
    done, parts = 0, []
    for future in as_completed(tasks, loop=client.loop):
        parts.append(result(future, f"fold {tasks[future]}"))
        done += int(sizes[tasks[future]])
        on_progress(done)
    return HeldOut.joined(parts)


def _add(on_progress: Callable[[int], None], before: int, done: int) -> None:
    on_progress(before + done)
