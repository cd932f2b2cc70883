"""`poam map`: a recorded log becomes a map, and says how good it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..drivers.sounding_settings import SoundingMapSettings
from ..errors import InputError
from ..geometry import Extent
from ..gp.models import ModelSettings
from ..ros.bag_settings import BagSettings
from ..ros.parameters import ON_ROBOT
from ..settings import instance
from ..survey.gate_settings import GateSettings
from ..survey.screening import ScreeningSettings
from .interrupts import at_once
from .map_options import add_arguments as add_arguments

if TYPE_CHECKING:
    from ..drivers.soundings import Soundings

FLATTERS = (
    "note: soundings were held out one by one, and their neighbours on the track were not: this "
    "flatters the map. Give --by COLUMN with a column of survey lines to hold out whole lines."
)


def run(args: argparse.Namespace) -> int:
    """Map, validate and draw; returns the exit status."""
    _check(args)
    given = vars(args)
    model = ModelSettings.of({"method": ON_ROBOT["method"], **given})
    screening = instance(ScreeningSettings, given)
    settings = instance(SoundingMapSettings, given, model=model, screening=screening)
    soundings = _read(args, settings)
    workspace = soundings.workspace(args.room)
    if args.workspace:
        workspace = Extent.of(args.workspace)
        soundings = soundings.within(workspace)
        if not len(soundings):
            raise InputError(f"--workspace: expected one with soundings of {args.log}, got none")
    folder = args.output or Path("runs") / f"map-{args.log.stem}"
    _say(soundings)
    _map(args, soundings, workspace, settings, folder)
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
    if (args.workers > 1 or args.scheduler) and not args.folds:
        raise InputError("--workers, --scheduler: expected --folds with them")


def _read(args: argparse.Namespace, settings: SoundingMapSettings) -> Soundings:
    """The log's soundings, whatever it is."""
    with at_once("poam map"):
        from ..drivers.sounding_columns import read_mapping
        from ..drivers.soundings import read_soundings
        from ..ros.bag_files import is_bag

        if not is_bag(args.log):
            mapping = read_mapping(args.columns)
            return read_soundings(args.log, mapping, args.by, settings.water_level)
        from ..ros.bags import read_bag
    if args.by or args.columns:
        raise InputError(f"--by, --columns: expected a table of soundings, got {args.log}")
    given = vars(args)
    workspace = Extent.of(args.workspace) if args.workspace else None
    gate = instance(GateSettings, given, workspace=workspace)
    soundings, reach = read_bag(args.log, instance(BagSettings, given), gate)
    for name, reason in reach.torn.items():
        print(f"{name} ends before its end ({reason}): what stands before was read")
    print(f"{100 * reach.share:.0f} % of {reach.size / 1e6:.1f} MB could be read")
    return soundings


def _say(soundings: Soundings) -> None:
    width, height = np.ptp(soundings.xy, axis=0)
    refused = ", ".join(f"{n} {reason}" for reason, n in soundings.refused.items())
    print(
        f"{len(soundings)} soundings on {width:g} x {height:g} m"
        + (f" in {len(soundings.names)} groups" if soundings.names else "")
        + (f"; left out: {refused}" if refused else "")
    )


def _map(
    args: argparse.Namespace,
    soundings: Soundings,
    workspace: Extent,
    settings: SoundingMapSettings,
    folder: Path,
) -> None:
    with at_once("poam map"):
        from ..drivers.sounding_run import cell_size, map_soundings
        from ..geometry import map_grid
        from ..process import prepare
        from ..runs.held_out import split_folds, split_off, write_validation
        from .progress import work_progress

        prepare(settings.model.threads)
    grid = map_grid(workspace, args.resolution or cell_size(workspace))
    held = None
    if args.folds:  # what is wrong with them is said before the map is made
        split_folds(soundings.group, args.folds, settings.seed)
    if args.hold_out:
        held = split_off(soundings.group, args.hold_out, settings.seed)
    cells, count = grid.shape[0] * grid.shape[1], len(soundings)
    learned = count if held is None else int((~held).sum())
    with work_progress("map", learned + cells) as report:
        mapped = map_soundings(args.log, soundings, grid, workspace, settings, folder, held, report)
    checked = mapped.held_out
    print(f"{mapped.samples} soundings in the map, {mapped.false_echoes} refused as false echoes")
    if args.folds:
        from ..experiments.validation import cross_validate

        options = {"workers": args.workers, "scheduler": args.scheduler}
        with work_progress("validation", count * (args.folds - 1)) as report:
            checked = cross_validate(
                soundings, workspace, settings, args.folds, on_progress=report, **options
            )
    if checked is not None:
        scores = write_validation(folder, checked)
        print(
            f"{scores.count} soundings held out: RMSE {scores.rmse:.3g} m, MAE {scores.mae:.3g} m, "
            f"MSLL {scores.msll:.3f}, NLPD {scores.nlpd:.3f}, "
            f"{100 * scores.coverage95:.1f} % within the 95 % interval"
        )
        if not args.by:
            print(FLATTERS)


def _draw(folder: Path, validated: bool) -> None:
    from ..runs.sounding_figures import draw_sounding_map, draw_validation

    try:
        for draw in (draw_sounding_map, draw_validation)[: 1 + validated]:
            print(f"figure:  {draw(folder)}")
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[sim]')")
