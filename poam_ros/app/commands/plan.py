"""`poam plan`: how long a survey takes until its map meets a target, before it is flown."""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InputError, quantity
from ...core.geometry import Current, Extent, path_length
from ...core.settings import Setting, instance, rows
from ...planning.areas import AreaSettings, NavigableArea
from ...planning.pilots import PILOTS
from ...planning.tvu import ORDERS
from ..command import Parser, add_setting, add_settings, spelling
from ..graph import ROBOT_ROWS, WORKSPACE, WORKSPACE_DEGREES, place_in_metres

if TYPE_CHECKING:
    from ...planning.boustrophedon import Bottom

log = logging.getLogger(__name__)

#: Seconds.
DAY = 86_400.0
GOALS = ("goals.metres", "goals.degrees", "goals.file")
#: Standard deviation of a ping where nothing is known, in m.
NOISE = 0.1
#: Nodes have parameters ``speed`` and ``max_duration`` of another meaning: of simulated time, in s.
OWN = (
    replace(ROBOT_ROWS["target.tvu"], default="1b", choices=ORDERS, description="S-44 order whose "
            "total vertical uncertainty must be met"),
    replace(ROBOT_ROWS["target.share"], default=0.95, minimum=1e-6,
            description="Share of the workspace that must meet it"),
    Setting("plan.speed", 1.0, "Speed of the vehicle through water", "m/s", 1e-3, 1e3),
    Setting("current", (0.0, 0.0), "Velocity of the water along the map's x and y", "m/s"),
    Setting("plan.turning_radius", 0.67, "Smallest turning radius of the vehicle", "m", 0.0, 1e5),
    Setting("pilot", "bezier", "Pilot survey", choices=PILOTS),
    Setting("plan.max_duration", 1.0, "Refuse a survey longer than this", "days", 1e-6, 1e4),
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--like", type=Path, metavar="RUN",
        help="Folder of an earlier run over this or a similar bottom (map.npz, samples.csv).",
    )  # fmt: skip
    source.add_argument("--deviation", nargs=2, type=float, metavar=("LOW", "HIGH"),
        help="How uncertain the depth is 1 m from a ping: the ends of the 90 %% interval of its "
        "standard deviation (m).")  # fmt: skip
    add("--depth", type=float, metavar="M", help="Depth, with --deviation (m).")
    add("--noise", type=float, metavar="M",
        help="Standard deviation of a ping, with --deviation (m; default: 0.1).")  # fmt: skip
    text = "Rectangle to be surveyed (m; default: that of --like)."
    add_setting(parser, WORKSPACE, text=text)
    add_setting(parser, WORKSPACE_DEGREES, text="The same, in degrees.")
    text = "Water level above the datum of --like (m; default: as recorded, or 0)."
    add_setting(parser, ROBOT_ROWS["water.level"], text=text)
    for row in OWN:
        add_setting(parser, row, spelling(row.name.removeprefix("plan.")))
    add("--to", type=Path, metavar="FILE", help="Write the lines' end points as a table: x, y (m).")
    add_settings(parser, (row for row in rows(AreaSettings) if row.name == "origin"))
    parser.takes((*rows(AreaSettings), *(ROBOT_ROWS[name] for name in GOALS)))


def run(args: argparse.Namespace) -> int:
    """Print the survey and its length; returns the exit status."""
    from ...mavlink.plans import routed
    from ...outputs.folder import millimetres, write_table
    from ...planning.boustrophedon import forecast
    from ...planning.planners import Situation
    from ...planning.routes import Routes

    values = {row.name: row.default for row in OWN} | vars(args)
    order, share, longest = (
        values[name] for name in ("target.tvu", "target.share", "plan.max_duration")
    )
    for name in ("depth", "noise"):
        if args.like is not None and vars(args)[name] is not None:
            raise InputError(f"--{name}: only with --deviation; --like knows it")
    (east, north), speed = values["current"], values["plan.speed"]
    current = Current(east, north, speed)
    bottom, areas, goals = _bottom(args)
    rng = np.random.default_rng(0)  # the same forecast for the same input
    pilot = PILOTS[values["pilot"]](areas.workspace, rng) if goals is None else goals
    radius, routes = values["plan.turning_radius"], Routes(areas)
    routes.set_vehicle(2 * radius, speed)
    if goals is not None or not areas.unrestricted:
        pilot = routed(pilot, routes, 2 * radius)
    if not len(pilot):
        raise InputError("areas: no waypoint before the survey can be reached")
    if narrows := routes.narrows(pilot[0], "the turning diameter"):
        log.warning("%s", narrows)
    there = Situation(pilot[-1], areas.workspace, turning_radius=radius, routes=routes)
    estimate = forecast(bottom, there, order, share, pilot, rng)
    speed = current.mean_speed(np.concatenate((pilot, estimate.path)))
    days = estimate.length / speed / DAY
    if days > longest:
        at_most = f"{longest:g} day" + ("" if longest == 1 else "s")
        raise InputError(
            f"target: {order} in {share:.0%} of the workspace needs {estimate.lines} lines "
            f"{estimate.spacing:.3g} m apart, {estimate.length / 1000:,.0f} km: {days:,.1f} days "
            f"at {speed:.4g} m/s, expected at most {at_most}; give a smaller workspace, a target "
            "that is easier to meet (--target-tvu, --target-share), or "
            f"--max-duration {np.ceil(days):g}"
        )
    depths = dict.fromkeys(f"{m:.1f}" for m in (bottom.depth.min(), bottom.depth.max()))
    parts, lines = quantity(len(bottom.depth), "part"), quantity(estimate.lines, "line")
    apart = " along the middle" if estimate.lines == 1 else f", {estimate.spacing:.3g} m apart"
    enough = ", which may meet it alone" if estimate.low <= path_length(pilot) else ""
    time, first, last = (m / speed / 60 for m in (estimate.length, estimate.low, estimate.high))
    print(
        f"bottom:  {parts}, depth {' to '.join(depths)} m; standard deviation of a ping "
        f"{bottom.noise:.2g} m\n"
        f"target:  {order} in {share:.0%} of the workspace\n"
        f"survey:  {lines}{apart}, after the pilot survey{enough}\n"
        f"length:  {estimate.length:.0f} m (90 %: {estimate.low:.0f} to {estimate.high:.0f})\n"
        f"time:    {time:.0f} min at {speed:.4g} m/s (90 %: {first:.0f} to {last:.0f})\n"
        f"options: --planner boustrophedon --set boustrophedon.spacing={estimate.spacing:.3g} "
        f"--set target.tvu={order} --set target.share={share:g}"
    )
    if args.to is not None:
        write_table(args.to, ("x", "y"), [[*map(millimetres, xy)] for xy in estimate.path.tolist()])
        print(f"lines:   {args.to}")
    return 0


def _bottom(args: argparse.Namespace) -> tuple[Bottom, NavigableArea, np.ndarray | None]:
    """What is known of the bottom, the area of the survey, and goals before it [K, 2] in m."""
    from ...mission.guidance import given_places
    from ...outputs.run import Run
    from ...planning.boustrophedon import Bottom

    if "workspace" in args and "workspace_degrees" in args:
        raise InputError("--workspace: expected it in metres or in degrees, got both")
    run = None if args.like is None else Run.open(args.like)
    recorded = {} if run is None else run.recorded
    values: dict[str, Any] = {row.name: row.default for row in rows(AreaSettings)}
    values |= {name: ROBOT_ROWS[name].default for name in (*GOALS, "home_degrees")}
    values |= recorded | {"workspace_degrees": WORKSPACE_DEGREES.default} | vars(args)
    if "workspace" not in args:
        values |= {"workspace": None, **place_in_metres(values)}
    if run is None:
        if args.depth is None or values["workspace"] is None:
            raise InputError(
                "expected --depth and --workspace (or --workspace-degrees, --set areas.file=FILE) "
                "with --deviation"
            )
        low, high = args.deviation
        noise = NOISE if args.noise is None else args.noise
        bottom = Bottom.stated(low, high, args.depth, noise)
    else:
        level = vars(args).get("water.level", recorded.get("water_level", 0.0))
        run.check_origin(vars(args).get("origin"))
        xy = np.column_stack((run.samples["x"], run.samples["y"]))
        bottom = Bottom.of_map(run.drawn, xy, level)
        values["workspace"] = values["workspace"] or run.drawn.grid.borders.bounds
    workspace = Extent.of(values["workspace"])
    return bottom, instance(AreaSettings, values).open(workspace), given_places(values)[0]
