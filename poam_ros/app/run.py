"""`poam run`: one mission in lock-step."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ..core.settings import instance, rows
from ..frontend.batching import TimedBatches
from ..mission.target import TargetSettings
from ..models.registry import ModelSettings, model_rows
from ..planning.planners import PLANNERS, planner_rows
from ..ros.common.parameters import TERRAIN
from ..screening.screen import ScreeningSettings
from ..simulation.settings import MissionSettings
from ..simulation.world.sonar import SONAR_NAMES, SonarSettings
from .interrupts import at_once
from .options import add_settings

_TABLE = (
    TERRAIN, *rows(MissionSettings), *model_rows(), *rows(SonarSettings, SONAR_NAMES),
    *rows(TimedBatches), *rows(ScreeningSettings), *rows(TargetSettings),
)  # fmt: skip
_ROWS = {row.name: row for row in _TABLE}
OPTIONS = (
    "terrain", "method", "kernel", "num_inducing", "noise_variance", "learning_rate",
    "shortest_lengthscale_m", "longest_lengthscale_m",
    "initial_lengthscale_m", "planner", "pilot", "policy", "seed", "max_samples", "sonar_rate",
    "resolution", "batch_size", "batch_period", "training_rate", "threads", "device", "screening",
    "false_echo",
    *(row.name for row in rows(TargetSettings)),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_settings(parser, (_ROWS[name] for name in OPTIONS))
    group = parser.add_argument_group("options of the planners")
    add_settings(group, planner_rows())
    add("--elevation-range", nargs=2, type=float, metavar=("LOW", "HIGH"),
        help="scale the terrain linearly to this range in m")  # fmt: skip
    add("--preparation", metavar="NAME",
        help="paper: 360 x 360 whole grey values 0..255 (default: as it is)")  # fmt: skip
    add("--planner-without-noise", dest="planner_noise", action="store_false",
        help="entropy of the ground for the planner, not of a ping")  # fmt: skip
    add("--output", type=Path, help="folder of results (default: runs/TERRAIN-METHOD-SEED)")


def run(args: argparse.Namespace) -> int:
    """Run the mission and draw its figures; returns the exit status."""
    with at_once("poam run"):
        from ..core.process import prepare
        from ..simulation.run import run_mission
        from ..simulation.world.terrain import load_terrain
        from .progress import mission_progress

    given = vars(args)
    model, sonar = ModelSettings.of(given), instance(SonarSettings, given, SONAR_NAMES)
    batches = instance(TimedBatches, given)
    settings = instance(
        MissionSettings, given, model=model, sonar=sonar, batches=batches,
        screening=instance(ScreeningSettings, given), target=instance(TargetSettings, given),
    )  # fmt: skip
    options = instance(PLANNERS[settings.planner].options, given)
    settings = replace(settings, planner_options=options)
    terrain = load_terrain(
        given.get(TERRAIN.name, TERRAIN.default),
        elevation_range=tuple(args.elevation_range) if args.elevation_range else None,
        preparation=args.preparation,
        seed=settings.seed,
    )
    name = f"{terrain.name}-{model.method}-{settings.seed}"
    folder = args.output or Path("runs") / name
    with at_once("poam run"):
        prepare(model.threads)
    ended: list[str] = []
    with mission_progress(settings.max_samples) as on_epoch:
        records = run_mission(terrain, settings, folder, on_epoch, ended.append)
    last = records[-1]
    print(
        f"{last.samples} samples in {last.time_s:.0f} s of mission time: "
        f"SMSE {last.metrics.smse:.4f}, MSLL {last.metrics.msll:.3f}, "
        f"RMSE {last.metrics.rmse:.2f} m"
    )
    print(f"end: {ended[0]}")
    _draw(folder)
    print(f"results: {folder}")
    return 0


def _draw(folder: Path) -> None:
    from ..outputs.figures import draw_run

    try:
        for path in draw_run(folder):
            print(f"figure:  {path}")
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[sim]')")
