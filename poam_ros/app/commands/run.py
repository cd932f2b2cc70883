"""`poam run`: simulate a mission in lock-step."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import count
from pathlib import Path

from ...core.samples import TimedBatches
from ...core.settings import Setting, instance, rows
from ...mission.target import TargetSettings
from ...models.native.loader import announce
from ...models.registry import ModelSettings, option_rows
from ...planning.planners import PLANNERS, planner_rows
from ...planning.routes import ClearanceSettings
from ...ros.parameters import TERRAIN
from ...screening import ScreeningSettings
from ...simulation.settings import MissionSettings
from ...simulation.simulator import SonarSettings
from ..command import Parser, add_settings, exit_on_interrupt, figures

PREPARATION = Setting(
    "preparation", "", "Prepare the terrain. paper: as 360 x 360 integer grey values 0..255"
)
SETTINGS = {
    row.name: row
    for row in (
        TERRAIN, PREPARATION, *option_rows(), *planner_rows(),
        *rows(
            MissionSettings, SonarSettings, TimedBatches, ScreeningSettings, TargetSettings,
            ClearanceSettings, ModelSettings,
        ),
    )
}  # fmt: skip
#: The settings that are options of their own.
OPTIONS = (
    "method", "planner", "pilot", "policy", "seed", "max_samples", "sonar_rate", "resolution",
    "min_depth", "screening.enabled", "prior", "threads", "device",
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    add_settings(parser, (TERRAIN, PREPARATION))
    parser.add_argument("--elevation-range", nargs=2, type=float, metavar=("LOW", "HIGH"),
        help="Scale the terrain linearly to this range (m).")  # fmt: skip
    add_settings(parser, (SETTINGS[name] for name in OPTIONS))
    parser.add_argument("--output", type=Path, metavar="DIR",
        help="Folder of results (default: runs/TERRAIN-METHOD-SEED).")  # fmt: skip
    parser.takes(SETTINGS.values())


def run(args: argparse.Namespace) -> int:
    """Run the mission and draw its figures; returns the exit status."""
    announce()
    with exit_on_interrupt("poam run"):
        from ...core.process import configure_process
        from ...simulation.lockstep import run_mission
        from ...simulation.terrain import load_terrain
        from ..progress import scores_text, work_progress

    options = vars(args)
    model = ModelSettings.of(options)
    settings = instance(
        MissionSettings, options, model=model, sonar=instance(SonarSettings, options),
        batches=instance(TimedBatches, options), screening=instance(ScreeningSettings, options),
        target=instance(TargetSettings, options), clearance=instance(ClearanceSettings, options),
    )  # fmt: skip
    planning = instance(PLANNERS[settings.planner].options, options)
    settings = replace(settings, planner_options=planning)
    terrain = load_terrain(
        options.get(TERRAIN.name, TERRAIN.default),
        elevation_range=tuple(args.elevation_range) if args.elevation_range else None,
        preparation=options.get("preparation") or None,
        seed=settings.seed,
    )
    name = f"{terrain.name}-{model.method}-{settings.seed}"
    folder = args.output or Path("runs") / name
    with exit_on_interrupt("poam run"):
        configure_process(model.threads)
    ended: list[str] = []
    epochs = count(1)
    with work_progress("run", settings.max_samples, 10) as report:
        records = run_mission(
            terrain, settings, folder,
            lambda record: report(record.samples, scores_text(next(epochs), record)), ended.append,
        )  # fmt: skip
    last = records[-1]
    print(
        f"{last.samples} samples in {last.time_s:.0f} s of mission time: "
        f"SMSE {last.smse:.4f}, MSLL {last.msll:.3f}, "
        f"RMSE {last.rmse:.2f} m"
    )
    print(f"end: {ended[0]}")
    with figures():
        from ...outputs.figures import draw_run

        for path in draw_run(folder):
            print(f"figure:  {path}")
    print(f"results: {folder}")
    return 0
