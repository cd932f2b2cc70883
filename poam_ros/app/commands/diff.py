"""`poam diff`: the change of the bottom between two surveys."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ...core.errors import InputError
from ...core.settings import Setting
from ..command import Parser, exit_on_interrupt, figures, log_name, reader, text_of
from . import map as map_command

OFFSET = Setting("offset", 0.0, "Offset", "m", minimum=-1e4, maximum=1e4)


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    for name, text in (("before", "first"), ("after", "second")):
        add(name, type=Path, metavar=name.upper(),
            help=f"The {text} survey: a folder of `poam map`, or a log to be mapped.")  # fmt: skip
    add("--output", type=Path, metavar="DIR",
        help="Folder of results (default: runs/diff-BEFORE-AFTER).")  # fmt: skip
    add("--resolution", type=reader(map_command.RESOLUTION), metavar="M",
        help="Cell size (m; default: that of the first map, or coarser for at most 20,000 "
        "cells).")  # fmt: skip
    add("--offset", type=reader(OFFSET), metavar="M",
        help="Constant offset of the second survey's elevations, not counted as change (m; "
        "default: estimated; 0: both have the same datum).")  # fmt: skip
    add("--extrapolate", action="store_true",
        help="Compare all cells of both maps, not only those between soundings of both "
        "surveys.")  # fmt: skip
    parser.takes(map_command.SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Compare two surveys; returns the exit status."""
    with exit_on_interrupt("poam diff"):
        from ...core.process import configure_process
        from ...mapping.resurvey import Survey, change_between
        from ...outputs import change as changes
        from ...outputs.folder import make_folder
        from ..progress import work_progress

    own = "diff-" + "-".join(map(log_name, (args.before, args.after)))
    folder = make_folder(args.output or Path("runs") / own)
    before, after = (
        Survey.read(_mapped(path, folder / name, args))
        for path, name in ((args.before, "before"), (args.after, "after"))
    )
    configure_process(before.settings.model.threads)
    with work_progress("mapping", len(before.soundings) + len(after.soundings)) as report:
        change = change_between(
            before, after, args.resolution, args.offset, report, args.extrapolate
        )
    print(f"table:   {changes.write_change(folder, change)}")
    try:
        print(f"raster:  {changes.write_change_raster(folder, change, before.place)}")
    except InputError as error:
        print(f"no raster: {error}")
    numbers = changes.summary(change, estimated=args.offset is None)
    with figures():
        print(f"figure:  {changes.draw_change(folder, change)}")
        names = before.folder.resolve().name, after.folder.resolve().name
        print(f"report:  {changes.write_change_report(folder, change, names, numbers)}")
    for name, text in numbers.items():
        print(f"{name}: {text}")
    return 0


def _mapped(path: Path, folder: Path, args: argparse.Namespace) -> Path:
    """The run's folder of a survey; a log is mapped into ``folder``, with the settings given."""
    if (path / "map.npz").exists():
        return path
    if not path.exists():
        raise InputError(f"{path}: expected a folder of `poam map`, or a log, but there is nothing")
    parser = Parser(prog="poam map")
    map_command.add_arguments(parser)
    words = [str(path), "--output", str(folder)]
    for row in map_command.SETTINGS:
        if row.name in args:
            words += ["--set", f"{row.name}={text_of(vars(args)[row.name])}"]
    args = parser.parse_args(words)
    args.given = shlex.join(["poam", "map", *words])
    map_command.run(args)
    return folder
