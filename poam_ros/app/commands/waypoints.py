"""`poam waypoints`: write survey lines, a pilot survey, or where the planner would drive next, as a
plan for a ground station."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InputError
from ...core.files import atomic_write
from ...core.geometry import path_length
from ...core.settings import Setting, instance, rows
from ...mavlink.frame import PlaceSettings
from ...planning.areas import AreaSettings
from ...planning.boustrophedon import BoustrophedonOptions, boustrophedon
from ...planning.pilots import PILOTS
from ...planning.planners import PLANNERS, Situation, planner_rows
from ...planning.routes import ClearanceSettings, DeepRoutes, Routes
from .. import graph
from ..command import Parser, add_settings

if TYPE_CHECKING:
    from ...core.geodesy import GeoReference
    from ...core.geometry import Extent
    from ...outputs.run import Run

log = logging.getLogger(__name__)

SURVEYS = ("boustrophedon", *PILOTS)
SURVEY = Setting("survey", "boustrophedon", "Survey to write", choices=SURVEYS)
AFTER = Setting(
    "after", "", "Folder of a mission, a run or a mapped log: write where the planner would drive "
    "next by its map, instead of a survey",
)  # fmt: skip
DURATION = Setting(
    "duration", 3600.0, "Time of a plan with --after, at max_speed", "s", minimum=1.0, maximum=1e6
)
ENDINGS = ".plan (QGroundControl), .waypoints (ArduPilot), .kml, .gpx"
#: Settings of the workspace, and those of the vehicle that a plan needs.
PLACES = ("workspace", "origin", "heading", "seed", "max_speed", "capture_radius", "planner")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE",
        help=f"File to write. Its ending selects the format: {ENDINGS}.")  # fmt: skip
    own = [graph.WORKSPACE, *(graph.ROBOT_ROWS[name] for name in PLACES if name != "workspace")]
    add_settings(parser, (*rows(PlaceSettings), *own, SURVEY, AFTER, DURATION))
    add_settings(parser, (row for row in rows(ClearanceSettings) if row.name == "min_depth"))
    parser.takes((*rows(AreaSettings, ClearanceSettings), *planner_rows()))


def run(args: argparse.Namespace) -> int:
    """Write the plan; returns the exit status."""
    from ...mavlink.plans import FORMATS, Plan, routed
    from ...outputs.run import Run

    path: Path = args.file
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends with {ENDINGS}")
    folder = Path(vars(args)[AFTER.name]) if AFTER.name in vars(args) else None
    if folder is not None and SURVEY.name in vars(args):
        raise InputError("--survey: not with --after, which writes where the planner would drive")
    if folder is None and DURATION.name in vars(args):
        raise InputError("--duration: only with --after")
    run = None if folder is None else Run.open(folder)
    values = _values(args, run)
    frame, workspace = _place(values)
    areas = instance(AreaSettings, values).open(workspace)
    draws, routes = np.random.default_rng(values["seed"]), Routes(areas)
    if values["min_depth"]:
        routes = DeepRoutes(areas, instance(ClearanceSettings, values))
    routes.set_vehicle(values["capture_radius"], values["max_speed"])
    if run is None:
        driven = routed(_survey(values, routes, draws), routes, values["capture_radius"])
    else:
        driven = _ahead(run, values, routes, draws)
    if not len(driven):
        raise InputError("areas: no waypoint of the survey can be reached")
    if narrows := routes.narrows(driven[0]):
        log.warning("%s", narrows)
    (x0, y0), (x1, y1) = workspace.lower, workspace.upper
    rectangle = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
    corners = rectangle if areas.polygon is None else areas.polygon
    plan = Plan(
        path.stem,
        [frame.to_degrees(place) for place in driven],
        [frame.to_degrees(place) for place in corners],
        [[frame.to_degrees(place) for place in keep_out] for keep_out in areas.keep_outs],
        values["max_speed"],
    )
    try:
        with atomic_write(path) as file:
            file.write(FORMATS[path.suffix](plan).encode())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    length = path_length(driven)
    hours = length / values["max_speed"] / 3600
    print(f"{path}: {len(driven)} waypoints, {length:.0f} m, {hours:.2f} h")
    return 0


def _values(args: argparse.Namespace, run: Run | None) -> dict[str, Any]:
    """The settings by name: defaults, what the run records, options."""
    others = (graph.ROBOT_ROWS[name] for name in PLACES)
    settings = SURVEY, AFTER, DURATION, *rows(AreaSettings, ClearanceSettings), *others
    values: dict[str, Any] = {row.name: row.default for row in (*settings, graph.WORKSPACE)}
    if run is not None:
        run.check_origin(vars(args).get("origin"))
        values |= {"workspace": run.drawn.grid.borders.bounds, **run.recorded}
    values |= vars(args)
    if values["min_depth"] and run is None:
        raise InputError("min_depth: expected --after as well: only a map says how deep it is")
    return values


def _place(values: dict[str, Any]) -> tuple[GeoReference, Extent]:
    """Frame and workspace; the frame's origin and heading are added to the values."""
    from ...mavlink.frame import given_frame, workspace_of

    frame = given_frame(values)
    if frame is None:
        raise InputError(
            "expected --workspace-degrees SOUTH WEST NORTH EAST, areas in degrees, or --origin"
        )
    values |= frame.values
    degrees, metres = instance(PlaceSettings, values).workspace, values["workspace"]
    if not (any(degrees) or any(metres) or instance(AreaSettings, values).has_polygon):
        raise InputError("expected --workspace, --workspace-degrees or --set areas.file=FILE")
    return frame, workspace_of(values, frame)


def _ahead(
    run: Run, values: dict[str, Any], routes: Routes, draws: np.random.Generator
) -> np.ndarray:
    """Where the planner would drive after the last ping of a map [K, 2], in m."""
    from ...mavlink.plans import planned_ahead

    drawn, xy = run.drawn, np.column_stack((run.samples["x"], run.samples["y"]))
    planner = PLANNERS[values["planner"]]
    options = instance(planner.options, values)
    if isinstance(routes, DeepRoutes) and len(xy):
        routes.learn(drawn)
        bottom = drawn.grid.interpolate(drawn.mean, xy[-1:])[0]
        # A boat's transducer, by water level and sonar mount; what is not recorded counts as 0.
        offset = run.node("mapper").get("sonar.offset")
        below = float(offset[2]) if isinstance(offset, list) and len(offset) == 3 else 0.0
        routes.sounded(xy[-1], run.water_level + below - bottom)
    return planned_ahead(
        lambda view, situation: planner.path(view, situation, options, draws), drawn, xy, routes,
        values["capture_radius"] / 2, values[DURATION.name] * values["max_speed"],
    )  # fmt: skip


def _survey(values: dict[str, Any], routes: Routes, draws: np.random.Generator) -> np.ndarray:
    """The waypoints of a survey that needs no map [K, 2], in m."""
    workspace = routes.areas.workspace
    if values[SURVEY.name] != "boustrophedon":
        return PILOTS[values[SURVEY.name]](workspace, draws)
    begin = Situation(workspace.lower, workspace, routes=routes)
    options = instance(BoustrophedonOptions, values)
    return boustrophedon(None, begin, options, draws)  # type: ignore[arg-type]
