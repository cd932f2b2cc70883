"""`poam map`: a recorded log becomes a map, and says how good it is."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..drivers.sounding_settings import SoundingMapSettings
from ..errors import InputError
from ..geometry import Extent
from ..gp.models import ModelSettings, model_rows
from ..ros.parameters import ON_ROBOT
from ..settings import Setting, instance, rows
from ..survey.screening import ScreeningSettings
from .interrupts import at_once
from .options import add_settings

if TYPE_CHECKING:
    from ..drivers.soundings import Soundings

MODEL = tuple(
    replace(row, default=ON_ROBOT[row.name]) if row.name in ON_ROBOT else row
    for row in model_rows()
)
SCREENING = tuple(row for row in rows(ScreeningSettings) if row.name != "screening")
RESOLUTION = Setting("resolution", 1.0, "Cell size", "m", minimum=1e-3, maximum=1e6)
MARGIN = Setting("margin", 1.0, "Room round the soundings", "m", minimum=0.0, maximum=1e6)
FRACTION = Setting("hold_out", 0.1, "Share", minimum=1e-6, maximum=1 - 1e-6)
FLATTERS = (
    "note: soundings were held out one by one, and their neighbours on the track were not: this "
    "flatters the map. Give --by COLUMN with a column of survey lines to hold out whole lines."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("log", type=Path, metavar="LOG",
        help="CSV file with columns x,y,z (m) or latitude,longitude,depth")  # fmt: skip
    add("--output", type=Path, metavar="DIR", help="folder of results (default: runs/map-LOG)")
    add("--columns", nargs="+", default=[], metavar="MEANING=NAME",
        help="other names of columns, as in latitude=LAT longitude=LON depth=D; "
        "meanings: x, y or latitude, longitude; z (up) or depth (down)")  # fmt: skip
    add(
        "--workspace",
        nargs=4,
        type=float,
        metavar=("XMIN", "XMAX", "YMIN", "YMAX"),
        help="rectangle of the map in m; soundings outside are left out (default: their own box)",
    )
    add("--margin", type=_checked(MARGIN), metavar="M",
        help="room round that box in m (default: a hundredth of its longer side)")  # fmt: skip
    add("--resolution", type=_checked(RESOLUTION), metavar="M",
        help="cell size in m (default: about 256 cells along the longer side)")  # fmt: skip
    add_settings(parser, rows(SoundingMapSettings))
    _add_validation(parser.add_argument_group("validation"))
    group = parser.add_argument_group("false echoes")
    group.add_argument("--no-screening", dest="screening", action="store_false",
        help="believe every sounding")  # fmt: skip
    add_settings(group, SCREENING)
    add_settings(parser.add_argument_group("the model and its options"), MODEL)


def _add_validation(group: Any) -> None:
    add = group.add_argument
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--hold-out", type=_checked(FRACTION), metavar="F",
        help="keep this share of the soundings out of the map, and compare")  # fmt: skip
    kind.add_argument("--folds", type=int, metavar="K",
        help="hold out every sounding once, in K maps more")  # fmt: skip
    add("--by", metavar="COLUMN", help="hold out whole groups: survey lines (recommended)")
    add(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="folds side by side, in so many processes (default: in turn; needs dask)",
    )
    add("--scheduler", metavar="ADDRESS", help="or on a dask scheduler, as tcp://10.0.0.5:8786")


def _checked(row: Setting) -> Any:
    def read(text: str) -> Any:
        try:
            return row.read(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{row.name}: ")) from None

    return read


def run(args: argparse.Namespace) -> int:
    """Map, validate and draw; returns the exit status."""
    _check(args)
    given = vars(args)
    model = ModelSettings.of({"method": ON_ROBOT["method"], **given})
    screening = instance(ScreeningSettings, given)
    settings = instance(SoundingMapSettings, given, model=model, screening=screening)
    with at_once("poam map"):
        from ..drivers.sounding_columns import read_mapping
        from ..drivers.soundings import read_soundings

        soundings = read_soundings(
            args.log, read_mapping(args.columns), args.by, settings.water_level
        )
    workspace = soundings.workspace(args.margin)
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
    if args.workspace and args.margin is not None:
        raise InputError("--margin: expected no --workspace with it")
    if args.folds is not None and args.folds < 2:
        raise InputError(f"--folds: expected at least 2, got {args.folds}")
    if args.workers < 1:
        raise InputError(f"--workers: expected at least 1, got {args.workers}")
    if (args.workers > 1 or args.scheduler) and not args.folds:
        raise InputError("--workers, --scheduler: expected --folds with them")


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
