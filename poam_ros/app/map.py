"""`poam map`: a recorded log becomes a map, and says how good it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from .interrupts import at_once
from .map_options import add_arguments as add_arguments

if TYPE_CHECKING:
    from ..importers.soundings import Soundings
    from .map_reading import Survey

FLATTERS = (
    "note: soundings were held out one by one, and their neighbours on the track were not: this "
    "flatters the map. Give --by line to hold out whole survey lines: those of the column `line` "
    "(or another one's name), or where there is none those found in the track."
)


def run(args: argparse.Namespace) -> int:
    """Map, validate and draw; returns the exit status."""
    _check(args)
    with at_once("poam map"):
        from .map_reading import read
    survey = read(args)
    folder = args.output or Path("runs") / f"map-{args.log.resolve().stem}"
    _say(survey.soundings)
    with _client(args, survey) as client:
        _map(args, survey, folder, client)
    _draw(folder, validated=bool(args.hold_out or args.folds))
    print(f"results: {folder}")
    return 0


def _check(args: argparse.Namespace) -> None:
    """What argparse cannot see.

    Raises:
        InputError: options that do not go together, or a wrong number.
    """
    if args.by and not (args.hold_out or args.folds):
        raise InputError("--by: expected --hold-out or --folds with it")
    if args.workspace and args.room is not None:
        raise InputError("--margin: expected no --workspace with it")
    if args.folds is not None and args.folds < 2:
        raise InputError(f"--folds: expected at least 2, got {args.folds}")
    if args.workers < 1:
        raise InputError(f"--workers: expected at least 1, got {args.workers}")


@contextmanager
def _client(args: argparse.Namespace, survey: Survey) -> Iterator[Any]:
    """Of dask, where bands of the map and folds go side by side; else None."""
    if args.workers == 1 and args.scheduler is None:
        yield None
        return
    from ..importers.parallel import cluster

    threads = survey.settings.model.threads
    with cluster(args.workers, threads, args.workers, args.scheduler) as client:
        yield client


def _say(soundings: Soundings) -> None:
    width, height = np.ptp(soundings.xy, axis=0)
    refused = ", ".join(f"{n} {reason}" for reason, n in soundings.refused.items())
    kind = "lines found in the track" if "lines_found" in soundings.source else "groups"
    print(
        f"{len(soundings)} soundings on {width:g} x {height:g} m"
        + (f" in {len(soundings.names)} {kind}" if soundings.names else "")
        + (f"; left out: {refused}" if refused else "")
    )


def _map(args: argparse.Namespace, survey: Survey, folder: Path, client: Any) -> None:
    with at_once("poam map"):
        from ..core.geometry import map_grid
        from ..core.process import prepare
        from ..importers.mapping import cell_size, draw, map_soundings
        from ..outputs.held_out import split_folds, split_off, write_validation
        from .progress import work_progress

        prepare(survey.settings.model.threads)
    if client is not None:
        from ..importers.parallel import draw_in_bands

        draw = partial(draw_in_bands, client)
    soundings, workspace, settings = survey.soundings, survey.workspace, survey.settings
    grid = map_grid(workspace, args.resolution or survey.resolution or cell_size(workspace))
    held = None
    if args.folds:  # what is wrong with them is said before the map is made
        split_folds(soundings.group, args.folds, settings.seed)
    if args.hold_out:
        held = split_off(soundings.group, args.hold_out, settings.seed)
    cells, count = grid.shape[0] * grid.shape[1], len(soundings)
    learned = count if held is None else int((~held).sum())
    with work_progress("map", learned + cells) as report:
        mapped = map_soundings(
            args.log, soundings, grid, workspace, settings, folder, held, report, draw
        )
    checked = mapped.held_out
    print(f"{mapped.samples} soundings in the map, {mapped.false_echoes} refused as false echoes")
    for sentence in mapped.sentences:
        print(sentence)
    if args.folds:
        from ..importers.parallel import cross_validate

        with work_progress("validation", count * (args.folds - 1)) as report:
            checked = cross_validate(soundings, workspace, settings, args.folds, client, report)
    if checked is not None:
        scores = write_validation(folder, checked)
        print(
            f"{scores.count} soundings held out: RMSE {scores.rmse:.3g} m, MAE {scores.mae:.3g} m, "
            f"MSLL {scores.msll:.3f}, NLPD {scores.nlpd:.3f}, "
            f"{100 * scores.coverage95:.1f} % within the 95 % interval"
        )
        if not soundings.names:
            print(FLATTERS)


def _draw(folder: Path, validated: bool) -> None:
    from ..outputs.figures import draw_sounding_map, draw_validation

    try:
        for draw in (draw_sounding_map, draw_validation)[: 1 + validated]:
            print(f"figure:  {draw(folder)}")
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[sim]')")
