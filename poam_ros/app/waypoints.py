"""`poam waypoints`: write survey lines or a pilot survey as a plan for a ground station."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.files import atomic_write
from ..core.settings import Setting, instance, rows
from ..mavlink.settings import PlaceSettings
from ..planning.areas import AreaSettings
from ..planning.boustrophedon import BoustrophedonOptions, boustrophedon
from ..planning.pilots import PILOTS, path_length
from ..planning.routes import Routes
from ..planning.situation import Situation
from . import graph
from .command import Parser, add_settings

SURVEYS = ("boustrophedon", *PILOTS)
SURVEY = Setting("survey", "boustrophedon", "Survey to write", choices=SURVEYS)
ENDINGS = ".plan (QGroundControl), .waypoints (ArduPilot), .kml, .gpx"
#: Settings of the workspace and of what a plan says of the vehicle.
PLACES = ("workspace", "origin", "heading", "seed", "max_speed")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE",
        help=f"File to write. Its ending selects the format: {ENDINGS}.")  # fmt: skip
    table = (SURVEY, *rows(BoustrophedonOptions, AreaSettings))
    own = [graph.ROBOT_ROWS[name] for name in PLACES]
    degrees = [row for row in rows(PlaceSettings) if row.name == "workspace_degrees"]
    add_settings(parser, {row.name: row for row in (*degrees, *own, *table)}.values())


def run(args: argparse.Namespace) -> int:
    """Write the plan; returns the exit status."""
    from ..mavlink.places import given_frame, workspace_of
    from ..mavlink.plans import FORMATS, Plan, routed

    values: dict[str, Any] = {name: graph.ROBOT_ROWS[name].default for name in PLACES} | {
        "areas.file": ""
    }
    values |= {"workspace": (0.0,) * 4, SURVEY.name: SURVEY.default, **vars(args)}
    path: Path = args.file
    if path.suffix not in FORMATS:
        raise InputError(f"FILE: expected a name that ends with {ENDINGS}, got {path}")
    degrees = instance(PlaceSettings, values).workspace
    frame = given_frame(values)
    if frame is None:
        raise InputError("expected --workspace-degrees 'SOUTH WEST NORTH EAST', or --origin")
    if not (any(degrees) or any(values["workspace"]) or values["areas.file"]):
        raise InputError("expected --workspace, --workspace-degrees or --areas.file")
    workspace = workspace_of(values, frame)
    areas = instance(AreaSettings, values).open(workspace)
    draws = np.random.default_rng(values["seed"])
    if values["survey"] == "boustrophedon":
        begin = Situation(workspace.lower, workspace, routes=Routes(areas))
        options = instance(BoustrophedonOptions, values)
        lines = boustrophedon(None, begin, options, draws)  # type: ignore[arg-type]
    else:
        lines = PILOTS[values["survey"]](workspace, draws)
    driven = routed(lines, areas)
    if not len(driven):
        raise InputError("areas: no waypoint of the survey can be reached")
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
    except OSError as error:
        raise InputError(f"FILE: cannot write {path} ({error.strerror})") from None
    length = path_length(driven)
    hours = length / values["max_speed"] / 3600
    print(f"{path}: {len(driven)} waypoints, {length:.0f} m, {hours:.2f} h")
    return 0
