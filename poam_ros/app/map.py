"""`poam map`: a recorded log becomes a map, and says how good it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..models.native.loader import announce
from .interrupts import exit_on_interrupt
from .map_options import add_arguments as add_arguments

if TYPE_CHECKING:
    from ..importers.outline import Outline
    from ..importers.soundings import Soundings
    from .map_input import MappingJob

FLATTERS = (
    "note: soundings were held out one by one, and their neighbours on the track were not: this "
    "flatters the map. Give --by line to hold out whole survey lines: those of the column `line` "
    "(or another one's name), or where there is none those found in the track."
)


def run(args: argparse.Namespace) -> int:
    """Map, validate and draw; returns the exit status."""
    _check(args)
    announce()
    with exit_on_interrupt("poam map"):
        from .map_input import read
    survey = read(args)
    folder = args.output or Path("runs") / f"map-{args.log.resolve().stem}"
    _say(survey.soundings)
    survey, outline = _outlined(args, survey)
    with _client(args, survey) as client:
        _map(args, survey, outline, folder, client)
    _draw(folder, validated=bool(args.hold_out or args.folds))
    _sum_up(folder)
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
def _client(args: argparse.Namespace, survey: MappingJob) -> Iterator[Any]:
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


def _outlined(args: argparse.Namespace, survey: MappingJob) -> tuple[MappingJob, Outline | None]:
    """The outline, if one is given, and a workspace that holds all of it where none was."""
    if args.outline is None:
        return survey, None
    from ..importers.outline import read_outline

    soundings = survey.soundings
    outline = read_outline(args.outline, soundings.projection, soundings.xy)
    beyond = int((~outline.holds(soundings.xy)).sum())
    print(
        f"outline of {outline.area:.6g} m^2"
        + (f"; {beyond} soundings lie outside of it, and are in the map" if beyond else "")
    )
    if args.workspace is None and survey.resolution is None:  # a mission's stays
        survey = replace(survey, workspace=survey.workspace.around(outline.box))
    return survey, outline


def _map(
    args: argparse.Namespace, survey: MappingJob, outline: Outline | None, folder: Path, client: Any
) -> None:
    with exit_on_interrupt("poam map"):
        from ..core.geometry import map_grid
        from ..core.process import configure_process
        from ..importers.mapping import cell_size, draw, map_soundings
        from ..outputs.held_out import split_folds, split_off, write_validation
        from .progress import work_progress

        configure_process(survey.settings.model.threads)
    if client is not None:
        from ..importers.parallel import draw_in_bands

        draw = partial(draw_in_bands, client)
    soundings, workspace, settings = survey.soundings, survey.workspace, survey.settings
    grid = map_grid(workspace, args.resolution or survey.resolution or cell_size(workspace))
    held, extrapolate = None, args.extrapolate
    if extrapolate is None:  # a vehicle's map is the one that it had
        extrapolate = outline is not None or soundings.taken is not None
    if args.folds:  # what is wrong with them is said before the map is made
        split_folds(soundings.group, args.folds, settings.seed)
    if args.hold_out:
        held = split_off(soundings.group, args.hold_out, settings.seed)
    cells, count = grid.shape[0] * grid.shape[1], len(soundings)
    learned = count if held is None else int((~held).sum())
    with work_progress("map", learned + cells) as report:
        mapped = map_soundings(
            args.log, soundings, grid, workspace, settings, folder, held, report, draw, outline,
            extrapolate,
        )  # fmt: skip
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
    from ..outputs.figures import draw_hypsometry, draw_sounding_map, draw_validation
    from ..outputs.report import write_report
    from ..outputs.volume import FILE

    draws = [draw_sounding_map]
    if validated:
        draws.append(draw_validation)
    if (folder / FILE).exists():
        draws.append(draw_hypsometry)
    try:
        for draw in draws:
            print(f"figure:  {draw(folder)}")
        print(f"report:  {write_report(folder)}")
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[sim]')")


def _sum_up(folder: Path) -> None:
    """What a person wants to know, and what to do next."""
    from ..outputs.exports.chart import ExportSettings, read_chart, recorded
    from ..outputs.report import summary

    settings = ExportSettings(**{**recorded(folder), "depth": True})
    for name, text in summary(folder, read_chart(folder, settings)).items():
        print(f"{name}: {text}")
    print(f"results: {folder}")
    ending = "gpkg" if settings.origin is None else "geojson"
    print(f"next:    poam view {folder}, or poam export {folder} --to contours.{ending} --depth")
