"""`poam view`: a page of a run's folder, or of the live graph, served on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path

from ..core.errors import InputError
from ..core.settings import rows
from ..outputs.exports.chart import ExportSettings
from ..outputs.exports.formats import settings_for
from .options import add_settings

NO_BOKEH = "poam view needs bokeh (pip install 'poam_ros[view]')"
NO_RCLPY = (
    "RUN: expected the folder of a run or mission; the live graph needs ROS 2's rclpy, which this "
    "Python does not have (pip install 'poam_ros[ros]', or source a ROS 2's setup file)"
)
_ADDRESS = "where the page is served (default: 127.0.0.1, this machine alone; there is no password)"
_DEPTH = "depths under the water's level, not elevations"
_NAMESPACE = "of the live graph's nodes, without slashes at its ends (default: none)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", nargs="?", default=None,
        help="folder of a run or mission (default: the live ROS graph)")  # fmt: skip
    add("--port", type=int, default=5006, help="of the page (default: 5006; 0: any that is free)")
    add("--address", default="127.0.0.1", help=_ADDRESS)
    add("--namespace", default="", metavar="NAME", help=_NAMESPACE)
    level = [row for row in rows(ExportSettings) if row.name == "water.level"]
    add_settings(parser, level, "--water-level")
    add("--depth", action=argparse.BooleanOptionalAction, default=False, help=_DEPTH)


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; returns the exit status.

    Raises:
        InputError: an option or the folder is wrong, or what it takes is not installed.
    """
    if importlib.util.find_spec("bokeh") is None:
        raise InputError(NO_BOKEH)
    if not 0 <= args.port <= 65535:
        raise InputError(f"--port: expected a number from 0 to 65535, got {args.port}")
    given = {"depth": args.depth}
    if "water.level" in args:
        given["water_level"] = vars(args)["water.level"]
    from .view_server import serve

    if args.run is not None:
        from ..outputs.view.folders import FolderView

        if args.namespace:
            raise InputError("--namespace: expected no RUN with it: it is of the live graph")
        folder = FolderView(args.run, settings_for(args.run, args.run / "map.html", given))
        return serve(folder.scene, str(args.run), args.address, args.port)
    if importlib.util.find_spec("rclpy") is None:
        raise InputError(NO_RCLPY)
    if not re.fullmatch(r"([A-Za-z_]\w*(/[A-Za-z_]\w*)*)?", args.namespace):
        raise InputError(f"--namespace: expected names of a ROS graph, got {args.namespace}")
    from .view_graph import LiveGraph

    with LiveGraph(args.namespace, ExportSettings(**given)) as graph:
        return serve(graph.scene, "the live graph", args.address, args.port)
