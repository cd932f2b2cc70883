"""The options of `poam sim`, and what its nodes are started with."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..ros.parameters import NODES, TERRAIN, VIEWERS
from . import graph
from .options import add_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``poam sim``: those of sim.launch.py."""
    whole, add = ("output", "keep"), parser.add_argument
    add_settings(parser, (graph.ROWS[name] for name in graph.FORWARDED if name not in whole))
    add("--output", type=Path, metavar="PATH", help="the run's folder (default: runs/sim-...)")
    add("--params-file", type=Path, metavar="PATH", help=graph.PARAMS_FILE.description)
    add("--namespace", default="", help=f"{graph.NAMESPACE.description} (default: none)")
    add("--rviz", action="store_true", help=graph.RVIZ.description)
    add("--keep", action="store_true", default=None, help=graph.ROWS["keep"].description)


def resolve(args: argparse.Namespace) -> dict[str, Any]:
    """The options with what follows from them, checked before anything is started."""
    from ..runs.folder import make_folder
    from ..world.terrain import load_terrain

    options: dict[str, Any] = {**dict.fromkeys(graph.FORWARDED), **vars(args)}
    file = options["params_file"]
    if file is not None and not file.is_file():
        raise InputError(f"--params-file: no such file: {file}")
    if options["rviz"] and shutil.which("rviz2") is None:
        raise InputError(
            "--rviz: there is no rviz2 on the path (it comes with ROS 2, not with pip)"
        )
    if options["terrain"] is not None or file is None:
        load_terrain(options["terrain"] or str(TERRAIN.default))
    if options["output"] is None:
        terrain = Path(options["terrain"] or str(TERRAIN.default)).stem
        options["output"] = Path("runs") / f"sim-{terrain}-{options['seed'] or 0}"
    options["namespace"] = options["namespace"].strip("/")
    if not re.fullmatch(r"|[A-Za-z_]\w*(/[A-Za-z_]\w*)*", options["namespace"], re.ASCII):
        raise InputError(
            "--namespace: expected letters, digits and underscores, parted by slashes, got "
            f"{options['namespace']!r}"
        )
    options["output"] = options["output"].expanduser()
    make_folder(options["output"])
    make_folder(options["output"] / "log")
    return options


def ros_arguments(node: str, options: dict[str, Any]) -> list[str]:
    """What a node is started with: namespace, remappings and parameters, as ROS spells them.

    The options' parameters are written beside the logs, for the node by its name: those of `-p`
    would give way to whatever a parameter file says of the node by name.
    """
    given = {name: options[name] for name in graph.FORWARDED if options[name] is not None}
    given["output"] = str(options["output"])
    values = {row.name: given[row.name] for row in (NODES | VIEWERS)[node] if row.name in given}
    name = f"/{options['namespace']}/{node}".replace("//", "/")
    own = options["output"] / "log" / f"{node}.yaml"
    content = {name: {"ros__parameters": {**values, **graph.fixed(node)}}}
    own.write_text(json.dumps(content, indent=1), encoding="utf-8")  # JSON is YAML
    files = [own] if options["params_file"] is None else [options["params_file"], own]
    arguments = [word for file in files for word in ("--params-file", str(file))]
    return ["--ros-args", *_place(options["namespace"]), *arguments]


def rviz_command(options: dict[str, Any]) -> list[str]:
    """How RViz is started beside the graph."""
    command = ["rviz2", "-d", str(graph.rviz_layout()), "--ros-args", "-p", "use_sim_time:=true"]
    return command + _place(options["namespace"])


def _place(namespace: str) -> list[str]:
    rules = [f"__ns:=/{namespace}"] if namespace else []
    rules += [f"{old}:={new}" for old, new in graph.remappings(namespace)]
    return [word for rule in rules for word in ("-r", rule)]
