"""`poam map`: map a recorded log, and validate the map."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InputError, quantity
from ...core.geodesy import GeoReference, hemispheres, place_text
from ...core.settings import Setting, rows
from ...importers.bags import BagSettings
from ...importers.look import stray
from ...mapping.soundings import SoundingMapSettings
from ...models.native.loader import announce
from ...models.prior import read_prior
from ...models.registry import MODELS
from ...outputs.chart import ExportSettings
from ...outputs.run import Run
from ...outputs.vectors import levels_of
from ...planning.tvu import ORDERS
from ..command import (
    Parser,
    add_setting,
    exit_on_interrupt,
    figures,
    log_name,
    reader,
)
from ..graph import WORKSPACE
from ..map_input import CONFIDENCE, FRONT_END, MODEL, SCREENING, MappingJob, read

if TYPE_CHECKING:
    from ...mapping.outline import Outline
    from ...mapping.sounding_map import SoundingMap
    from ...mapping.soundings import Soundings
    from ...outputs.chart import Chart
    from ...outputs.held_out import Validation

SINGLE_HELD_OUT = (
    "note: single soundings were held out, but not their neighbours on the track, so these results "
    "are too good. Give --by line to hold out whole survey lines: those of the column `line`, or "
    "without such a column those found in the track."
)
#: Options of the chart, which config.yaml records for the report, the page and exports.
OF_CHART = ("title", "remarks", "contour_interval")
#: Constant errors that are named at the end.
NAMED = 3

RESOLUTION = Setting("resolution", 1.0, "Cell size", "m", minimum=1e-3, maximum=1e6)
MARGIN = Setting("margin", 1.0, "Margin around the soundings", "m", minimum=0.0, maximum=1e6)
FRACTION = Setting("hold_out", 0.1, "Share held out", minimum=1e-6, maximum=1 - 1e-6)
#: All settings of a map.
SETTINGS = (*rows(SoundingMapSettings, BagSettings), *MODEL, *SCREENING, *FRONT_END)
#: Options of a map that parameter files also have.
LIMITS = (RESOLUTION, WORKSPACE)


def _level(text: str) -> Any:
    """A water level, or the file of a gauge."""
    from ...importers.cells import UNITS, value_with_unit

    if (level := value_with_unit(text)) and re.fullmatch(r"[-+.\d]+", level[0]):
        return float(level[0]) * UNITS[level[1]]
    row = next(row for row in rows(SoundingMapSettings) if row.name == "water.level")
    return reader(row)(text) if re.fullmatch(r"[-+.\deE]+", text) else Path(text)


WINDOW = ("XMIN", "XMAX", "YMIN", "YMAX")
#: The options by their groups in the help: option (or setting), value, help, and how it is parsed.
OPTIONS: dict[str, tuple[tuple[str, Any, str, dict[str, Any]], ...]] = {
    "soundings": (
        ("--reader", "NAME", "Reader (default: the first that knows the files).", {"default": ""}),
        ("--columns", "MEANING=NAME", "Columns of a table: x, y (m) or latitude, longitude; z (up) "
         "or depth; time; altitude (default: by names or values).", {"nargs": "+", "default": []}),
        ("--trust-columns", "", "Ask nothing: columns and values are right.",
         {"dest": "trusted", "action": "store_true"}),
        ("--units", "UNIT", "Unit of depths, as ft, and of x and y, as ft,ft (default: as named).",
         {}),
        ("--crs", "EPSG:N", "System of x and y (default: local metres).", {"default": ""}),
        ("--near", ("LATITUDE", "LONGITUDE"), "Leave out soundings far away from here.",
         {"nargs": 2, "type": float}),
        ("--exclude", "COLUMN=VALUE", "Leave out, as line=L7 or day=2025-01-12; repeatable.",
         {"action": "append", "default": []}),
        ("--water-level", "FILE|M", "Water surface: level (m) or gauge file (default: 0).",
         {"dest": "water.level", "default": argparse.SUPPRESS, "type": _level}),
        ("--draught", "M", "Depth of the transducer, added (m; default: 0).",
         {"type": float, "default": 0.0}),
        ("--keel", "M", "Depth of the keel, added to depths below it (m).",
         {"type": float, "default": 0.0}),
        (CONFIDENCE, "X", "Least confidence (default: tables: 50 % or not 0).",
         {"option": "--min-confidence"}),
        ("--calibrate", "", "Correct constant errors that crossings show.",
         {"action": "store_true"}),
        ("screening.enabled", "", "Refuse false echoes (default: yes).", {}),
        ("odom_topic", "", "Topic of the odometry in a recording (default: /odom).", {}),
        ("range_topic", "", "Topic of the ranges (default: /sonar/range).", {}),
        ("start", "", "Skip this much at the beginning (s; default: 0).", {}),
        ("stop", "", "Stop after this much (s; default: 0: at the end).", {}),
    ),
    "map": (
        ("--output", "DIR", "Folder of results (default: runs/map-LOG).", {"type": Path}),
        ("--workspace", WINDOW, "Limits of the map (m; default: around the soundings).",
         {"nargs": 4, "type": float}),
        ("--workspace-degrees", ("SOUTH", "WEST", "NORTH", "EAST"), "The same in degrees.",
         {"nargs": 4, "type": float}),
        ("--margin", "M", "Around the soundings (m; default: 1 % of the extent).",
         {"dest": "map_margin", "type": reader(MARGIN)}),
        ("--resolution", "M", "Cell size (m; default: map of 113 to 282 cells).",
         {"type": reader(RESOLUTION)}),
        ("--outline", "FILE", "Shore polygons: GeoJSON, GeoPackage, Shapefile, KML.",
         {"type": Path}),
        ("--extrapolate", "", "Map far from soundings (default: within an outline).",
         {"action": argparse.BooleanOptionalAction}),
        ("method", "NAME", f"Model of the map: {', '.join(MODELS)} (default: nngp).", {}),
        ("prior", "NAME", "Earlier map: GeoTIFF, or folder of a run.", {}),
        ("--title", "TEXT", "Title of report and exports (default: from DIR).", {"default": ""}),
        ("--remarks", "TEXT", "Text below the title (default: none).", {"default": ""}),
        ("contour_interval", "M", "Interval (m; default: for about 12 contours).", {}),
        ("--order", "", "S-44 order of the limits at crossings (default: 1a).",
         {"choices": tuple(ORDERS), "default": "1a"}),
    ),
    "validation": (
        ("--hold-out", "F", "Share of soundings to keep out and compare.",
         {"type": reader(FRACTION)}),
        ("--folds", "K", "Keep out every sounding once, in K further maps.", {"type": int}),
        ("--by", "COLUMN", "Keep out whole groups: `line` for survey lines.", {}),
        ("--workers", "N", "Number of processes (default: 1; more need dask).",
         {"type": int, "default": 1}),
        ("--scheduler", "ADDRESS", "Dask scheduler, such as tcp://10.0.0.5:8786.", {}),
    ),
}  # fmt: skip
#: Options that exclude each other.
EITHER = ("--hold-out", "--folds")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG",
        help="Tables of soundings (CSV, NMEA 0183, GPX, GeoJSON, GeoPackage, Shapefile), ArduPilot "
        "logs; or one BlueOS or ROS 2 recording, or mission folder.")  # fmt: skip
    settings = {row.name: row for row in (*SETTINGS, *rows(ExportSettings))}
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        either = group.add_mutually_exclusive_group()
        for name, metavar, text, how in options:
            if name in settings:
                add_setting(group, settings[name], text=text, metavar=metavar, **how)
                continue
            value = {"metavar": metavar} if metavar else {}
            adds = either if name in EITHER else group
            adds.add_argument(name, help=text.replace("%", "%%"), **value, **how)
    parser.takes((*SETTINGS, *LIMITS))


def run(args: argparse.Namespace) -> int:
    """Map, validate and draw; returns the exit status."""
    _check(args)
    announce()
    args.log = args.logs[0]
    folder = args.folder = args.output or Path("runs") / f"map-{log_name(args.log)}"
    survey = read(args)
    _print_soundings(survey.soundings)
    survey, outline = _with_outline(args, survey)
    survey = _with_prior(survey)
    heights = survey.soundings.z[np.isfinite(survey.soundings.z)]
    if (interval := vars(args).get("contour_interval")) and len(heights):
        levels_of(heights, interval)  # too many are refused before the work
    source = {**survey.soundings.source, "command": args.given}
    source |= {name: vars(args)[name] for name in OF_CHART if vars(args).get(name)}
    survey = replace(survey, soundings=replace(survey.soundings, source=source))
    with _client(args, survey) as client:
        mapped = _map(args, survey, outline, folder, client)
    run = Run.open(folder)
    chart = draw_figures(run, validated=bool(args.hold_out or args.folds))
    print_summary(run, chart)
    if mapped.suspected:
        print_suspected(mapped.suspected, args.given)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check what argparse cannot.

    Raises:
        InputError: options exclude or need each other, or a number is wrong.
    """
    if args.by and not (args.hold_out or args.folds):
        raise InputError("--by needs --hold-out or --folds")
    if args.workspace and args.workspace_degrees:
        raise InputError("--workspace: expected it in metres or in degrees, got both")
    if (args.workspace or args.workspace_degrees) and args.map_margin is not None:
        raise InputError("--margin cannot be combined with --workspace")
    if args.folds is not None and args.folds < 2:
        raise InputError(f"--folds: expected at least 2, got {args.folds}")
    if args.workers < 1:
        raise InputError(f"--workers: expected at least 1, got {args.workers}")


@contextmanager
def _client(args: argparse.Namespace, survey: MappingJob) -> Iterator[Any]:
    """A dask client if more than one process is to be used, else None."""
    if args.workers == 1 and args.scheduler is None:
        yield None
        return
    from ...core.workers import cluster

    threads = survey.settings.model.threads
    with cluster(args.workers, threads, args.workers, args.scheduler) as client:
        yield client


def _print_soundings(soundings: Soundings) -> None:
    width, height = np.ptp(soundings.xy, axis=0)
    refused = ", ".join(f"{n} {reason}" for reason, n in soundings.refused.items())
    kind = "lines found in the track" if "lines_found" in soundings.source else "groups"
    print(
        f"{quantity(len(soundings), 'sounding')} on {_length(width)} x {_length(height)} m"
        + (f" in {len(soundings.names)} {kind}" if soundings.names else "")
        + (f"; refused: {refused}" if refused else "")
    )
    # The only lines that show a mirrored position or an unnamed unit.
    low, high = soundings.z.min(), soundings.z.max()
    print(f"elevations from {low:.2f} to {high:.2f} m (positive up)")
    if (found := stray(soundings.xy)) is not None:
        few, far = found
        low, high = soundings.xy[~few].min(0), soundings.xy[~few].max(0)
        room = max(1.0, float((high - low).max()) / 100)
        box = np.column_stack((low - room, high + room)).ravel()
        print(
            f"{few.sum():,} of {len(few):,} soundings lie {far / 1000:.2g} km from the others; "
            f"--workspace {' '.join(f'{side:.0f}' for side in box)} leaves them out"
        )
    if (origin := soundings.projection) is not None:
        latitude, longitude = origin.latitude, origin.longitude
        text = place_text(latitude, longitude)
        if abs(longitude) <= 90:  # no value shows whether the columns of a file are swapped
            north, east = hemispheres(longitude, latitude)
            swapped = f"{abs(longitude):.2f}\u00b0 {north}, {abs(latitude):.2f}\u00b0 {east}"
            text += f"; if swapped: {swapped}"
        print(f"check this place: {text}")


def _length(metres: float) -> str:
    return f"{metres:,.0f}" if metres >= 1000 else f"{metres:.3g}"


def _with_outline(
    args: argparse.Namespace, survey: MappingJob
) -> tuple[MappingJob, Outline | None]:
    """The outline, if any, and the job with a workspace around it unless one was given."""
    if args.outline is None:
        return survey, None
    from ...mapping.outline import read_outline
    from ...outputs.volume import in_words

    soundings = survey.soundings
    outline = read_outline(args.outline, soundings.projection, soundings.xy)
    beyond = int((~outline.holds(soundings.xy)).sum())
    print(
        f"outline of {in_words('area', [outline.area] * 3)}"
        + (f", without {quantity(outline.islands, 'island')} inside it" if outline.islands else "")
        + (f"; also uses {quantity(beyond, 'sounding')} outside it" if beyond else "")
    )
    if args.workspace is None and survey.resolution is None:  # a mission keeps its own
        survey = replace(survey, workspace=survey.workspace.around(outline.box))
    survey = replace(survey, soundings=replace(soundings, land=outline.land))
    return survey, outline


def _with_prior(survey: MappingJob) -> MappingJob:
    """The job with the prior of its settings, unless it has its mission's."""
    settings, source = survey.settings, survey.soundings.source
    if settings.prior is not None:
        return survey
    place = GeoReference.given(source.get("origin"), source.get("heading"))
    prior = read_prior(settings.model.prior, survey.workspace, place)
    return replace(survey, settings=replace(settings, prior=prior))


def _map(
    args: argparse.Namespace, survey: MappingJob, outline: Outline | None, folder: Path, client: Any
) -> SoundingMap:
    with exit_on_interrupt("poam map"):
        from ...core.geometry import map_grid
        from ...core.process import configure_process
        from ...mapping.sounding_map import cell_size, cross_validate, map_soundings
        from ...outputs.folder import make_folder
        from ...outputs.held_out import split_folds, split_off, write_validation
        from ...outputs.html_report import CALIBRATED_NOTE
        from ..progress import work_progress

        configure_process(survey.settings.model.threads)
    soundings, workspace, settings = survey.soundings, survey.workspace, survey.settings
    cell = cell_size(workspace, np.inf if outline is None else outline.area)
    grid = map_grid(workspace, args.resolution or survey.resolution or cell)
    held_out, extrapolate = None, args.extrapolate
    if extrapolate is None:
        extrapolate = outline is not None
    if args.folds:  # raises an error before the map is made
        split_folds(soundings.group, args.folds, settings.seed)
    if args.hold_out:
        held_out = split_off(soundings.group, args.hold_out, settings.seed)
    cells, count = grid.shape[0] * grid.shape[1], len(soundings)
    learned = count if held_out is None else int((~held_out).sum())
    make_folder(folder)  # before the work
    with work_progress("map", learned + cells) as report:
        mapped = map_soundings(
            soundings, grid, workspace, settings, held_out, report, outline, extrapolate, client
        )
    mapped.write(folder, args.log, args.order)
    checked = mapped.held_out
    print(
        f"{quantity(mapped.samples, 'sounding')} in the map, "
        f"{len(mapped.echoes)} refused as false echo{'' if len(mapped.echoes) == 1 else 'es'}"
        + (f", {len(mapped.withdrawn)} withdrawn" if len(mapped.withdrawn) else "")
    )
    for sentence in mapped.sentences(args.order):
        print(sentence)
    if args.folds:
        with work_progress("validation", count * (args.folds - 1)) as report:
            checked = cross_validate(
                soundings, workspace, settings, args.folds, client, report, outline, extrapolate
            )
    if checked is not None:
        scores = write_validation(folder, mapped.marked(checked), soundings.files)
        _print_validation(scores)
        if not soundings.names:
            print(SINGLE_HELD_OUT)
        if args.calibrate:
            print(f"note: {CALIBRATED_NOTE}")
    return mapped


def _print_validation(found: Validation) -> None:
    scores = found.accepted or found.every
    print(
        f"{quantity(scores.count, 'sounding')} held out: RMSE {scores.rmse:.3g} m, "
        f"MAE {scores.mae:.3g} m, MSLL {scores.msll:.3f}, NLPD {scores.nlpd:.3f}, "
        f"{scores.covered}"
        + ("" if found.accepted else "; the screening leaves all of them out of the map")
    )
    print(found.where)
    if found.accepted and found.left_out:
        print(found.beside)


def draw_figures(run: Run, validated: bool = False) -> Chart | None:
    """Draw a run's figures and write its report, and print where; returns the report's chart, None
    without matplotlib."""
    from ...outputs.figures import draw_hypsometry, draw_validation
    from ...outputs.html_report import depth_chart, write_report
    from ...outputs.plates import draw_layers
    from ...outputs.volume import FILE

    with figures():
        chart = depth_chart(run)
        print(f"figure:  {draw_layers(chart, run.folder)}")
        if validated:
            print(f"figure:  {draw_validation(run)}")
        if (run.folder / FILE).exists():
            print(f"figure:  {draw_hypsometry(run.folder)}")
        print(f"report:  {write_report(run, chart)}")
        return chart
    return None


def print_summary(run: Run, chart: Chart | None = None) -> None:
    """Print the summary and the next command. ``chart``: of the run's report; None: read here."""
    from ...outputs.html_report import depth_chart, summary

    folder, chart = run.folder, depth_chart(run) if chart is None else chart
    for name, text in summary(run, chart).items():
        print(f"{name}: {text}")
    print(f"results: {folder}")
    ending = "gpkg" if chart.place is None else "geojson"
    # A command has a line of its own, and no line break in it, so that it can be copied.
    print(f"next:    poam view {quote(str(folder))}")
    print(f"or:      poam export {quote(str(folder))} --to contours.{ending} --depth")


def print_suspected(errors: Sequence[str], command: str) -> None:
    """Print which constant errors crossings show, and the command that corrects them."""
    more = f"; and {len(errors) - NAMED} more" if len(errors) > NAMED else ""
    print(f"not corrected, but shown by crossings: {'; '.join(errors[:NAMED])}{more}")
    print(f"correct: {command} --calibrate")
