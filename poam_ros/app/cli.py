"""The `poam` command. Exit status 0: done, 2: the input is wrong, 1: it failed otherwise."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..drivers.mission_settings import MISSION_PILOTS
from ..errors import InputError, PoamError
from ..experiments.sweep_file import SHIPPED
from ..gp.models import MODELS, ModelSettings, SparseOptions
from ..planning.planners import PLANNERS
from ..settings import rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    args = _parser().parse_args(arguments)
    try:
        return args.handler(args)
    except InputError as error:
        print(f"poam {args.command}: {error}", file=sys.stderr)
        return 2
    except PoamError as error:
        print(f"poam {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\npoam {args.command}: interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, as everything here does; ``--help`` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, where there are any."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def _parser() -> argparse.ArgumentParser:
    from . import sim as local

    parser = _Parser(prog="poam", description="Probabilistic Online Attentive Mapping (POAM).")
    parser.add_argument("--version", action="version", version=f"poam_ros {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sim = commands.add_parser(
        "sim",
        help="the whole ROS 2 graph: simulator, mapper, planner, with live progress",
        formatter_class=_HelpFormatter,
    )
    local.add_arguments(sim)
    sim.set_defaults(handler=local.run)
    run = commands.add_parser(
        "run",
        help="one mission in lock-step, without ROS (Algorithm 1 of the paper)",
        formatter_class=_HelpFormatter,
    )
    _add_run_arguments(run)
    run.set_defaults(handler=_run)
    benchmark = commands.add_parser(
        "benchmark",
        help="missions side by side: environments x methods x seeds x pilots x planners",
    )
    _add_benchmark_arguments(benchmark)
    benchmark.set_defaults(handler=_benchmark)
    report = commands.add_parser("report", help="tables and figures of a benchmark, from its CSV")
    report.add_argument("folder", type=Path, metavar="DIR", help="folder of the benchmark")
    report.set_defaults(handler=_report)
    profile = commands.add_parser(
        "profile",
        help="time one update and one prediction, part by part",
        formatter_class=_HelpFormatter,
    )
    _add_profile_arguments(profile)
    profile.set_defaults(handler=_profile)
    return parser


def _add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--samples", type=int, nargs="+", default=[2000], metavar="N",
        help="pings in the map before (several: one after another)")  # fmt: skip
    add("--inducing", type=int, nargs="+", default=[500], metavar="N",
        help="largest number of inducing points")  # fmt: skip
    add("--batch", type=int, default=22, help="new pings in an update")
    add("--queries", type=int, default=4500, help="points of a prediction")
    add("--grid", type=int, nargs="+", default=[120], metavar="G", help="map of G x G points")
    add("--repeats", type=int, default=10, help="measurements of each, after warm-up")
    add("--threads", type=int, default=1, help="of the linear algebra")
    add("--device", default="cpu", help="torch device, such as cuda")
    add("--reference", action="store_true", help="time GPyTorch with autograd in the same run")
    add("--json", action="store_true", help="one JSON object a line instead of a table")
    add("--plot", type=Path, metavar="FILE", help="draw the cases (needs matplotlib)")
    add("--nodes", type=float, metavar="SECONDS",
        help="latencies of mapper and planner over real topics instead (needs ROS 2)")  # fmt: skip


def _profile(args: argparse.Namespace) -> int:
    if args.nodes is not None:
        return _profile_nodes(args)
    from ..bench.profile import ProfileSettings, machine, profile, table
    from ..bench.profile_plot import draw_profile
    from ..bench.rates import measure_rates

    names = ("batch", "queries", "repeats", "threads", "device", "reference")
    options = {name: getattr(args, name) for name in names}
    cases = [
        ProfileSettings(samples=n, inducing=m, grid=g, **options)
        for n in args.samples
        for m in args.inducing
        for g in args.grid
    ]
    rates, results = measure_rates(), []
    if not args.json:
        print(machine(cases[0], rates))
    for case in cases:
        results.append(profile(case, rates))
        print(json.dumps(results[-1]) if args.json else f"\n{table(results[-1])}", flush=True)
    if args.plot:
        draw_profile(results, args.plot)
    return 0


def _profile_nodes(args: argparse.Namespace) -> int:
    try:
        from ..bench.latency import measure
    except ImportError as error:
        raise InputError(f"--nodes: expected ROS 2 (rclpy), which is not there ({error})") from None
    if not args.nodes > 0:
        raise InputError(f"--nodes: expected a positive number of seconds, got {args.nodes:g}")
    result = measure(args.nodes)
    if args.json:
        print(json.dumps(result))
        return 0
    print(f"ms over {args.nodes:g} s: median, p99, worst")
    for name, spread in result.items():
        if isinstance(spread, dict) and spread["count"]:
            values = (1e3 * spread[f"{part}_s"] for part in ("median", "p99", "worst"))
            text = "".join(f"{value:9.1f}" for value in values)
            print(f"{name:16s}{text}   of {spread['count']}")
    return 0


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    model = SparseOptions()
    kernels = next(row.choices for row in rows(model) if row.name == "kernel")
    add = parser.add_argument
    add(
        "--terrain",
        default="jacksboro",
        help="built-in name (jacksboro, seamounts), SRTM tile (N17E073) or file",
    )
    add("--elevation-range", nargs=2, type=float, metavar=("LOW", "HIGH"),
        help="scale the terrain linearly to this range in m")  # fmt: skip
    add("--preparation", metavar="NAME",
        help="paper: 360 x 360 whole grey values 0..255 (default: as it is)")  # fmt: skip
    add("--kernel", default=model.kernel, help=f"one of: {', '.join(kernels)}")
    add("--method", default="poam", help=f"one of: {', '.join(MODELS)}")
    add("--planner", default="max-entropy", help=f"one of: {', '.join(PLANNERS)}")
    add("--planner-without-noise", action="store_true",
        help="entropy of the ground for the planner, not of a ping")  # fmt: skip
    add("--pilot", default="bezier", help=f"one of: {', '.join(MISSION_PILOTS)}")
    add("--seed", type=int, default=0, help="same seed, same mission")
    add("--max-samples", type=int, default=5000, help="pings until the mission is done")
    add("--sonar-rate", type=float, default=3.0, metavar="HZ", help="pings per second")
    add("--num-inducing", type=int, default=model.num_inducing, help="largest number of them")
    add("--resolution", type=float, default=0.5, help="cell size of the final map in m")
    add("--threads", type=int, default=1, help="of the linear algebra")
    add("--device", default="cpu", help="torch device, such as cuda")
    add("--output", type=Path, help="folder of results (default: runs/TERRAIN-METHOD-SEED)")


def _run(args: argparse.Namespace) -> int:
    from ..drivers.mission_settings import MissionSettings
    from ..drivers.missions import run_mission
    from ..process import prepare
    from ..world.simulation import SonarSettings
    from ..world.terrain import load_terrain
    from .progress import mission_progress

    settings = MissionSettings(
        planner=args.planner,
        planner_noise=not args.planner_without_noise,
        pilot=args.pilot,
        seed=_checked_seed(args.seed),
        max_samples=args.max_samples,
        resolution=args.resolution,
        model=ModelSettings(
            method=args.method,
            options=SparseOptions(kernel=args.kernel, num_inducing=args.num_inducing),
            threads=args.threads,
            device=args.device,
        ),
        sonar=SonarSettings(rate=args.sonar_rate),
    )
    elevation_range = tuple(args.elevation_range) if args.elevation_range else None
    terrain = load_terrain(
        args.terrain,
        elevation_range=elevation_range,
        preparation=args.preparation,
        seed=args.seed,
    )
    folder = args.output or Path("runs") / f"{terrain.name}-{args.method}-{args.seed}"
    prepare(settings.model.threads)
    with mission_progress(settings.max_samples) as on_epoch:
        records = run_mission(terrain, settings, folder, on_epoch)
    last = records[-1]
    print(
        f"{last.samples} samples in {last.time_s:.0f} s of mission time: "
        f"SMSE {last.metrics.smse:.4f}, MSLL {last.metrics.msll:.3f}, "
        f"RMSE {last.metrics.rmse:.2f} m"
    )
    _draw(folder)
    print(f"results: {folder}")
    return 0


def _draw(folder: Path) -> None:
    from ..runs.figures import draw_run

    try:
        for path in draw_run(folder):
            print(f"figure:  {path}")
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[sim]')")


def _add_benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("config", metavar="CONFIG",
        help=f"YAML file, or one that is shipped: {', '.join(SHIPPED)}")  # fmt: skip
    add("--output", type=Path, metavar="DIR",
        help="folder of results, new or begun (default: runs/benchmark-CONFIG)")  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, metavar="N", help="processes here (default: cores / model.threads)"
    )
    where.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="of a dask scheduler to work on instead, such as tcp://10.0.0.5:8786",
    )  # fmt: skip
    add("--terrains", type=Path, metavar="DIR",
        help="look there for terrains by name, before they are downloaded")  # fmt: skip


def _benchmark(args: argparse.Namespace) -> int:
    from ..experiments.sweep import run_sweep
    from ..experiments.sweep_file import find_sweep, read_sweep
    from .sweep_progress import sweep_progress

    config = find_sweep(args.config)
    folder = args.output or Path("runs") / f"benchmark-{config.stem}"
    settings = read_sweep(config)
    try:
        with sweep_progress() as on_run:
            status = run_sweep(
                settings,
                folder,
                workers=args.workers,
                scheduler=args.scheduler,
                terrains=args.terrains,
                on_run=on_run,
            )
    except KeyboardInterrupt:
        print(
            f"\npoam benchmark: interrupted; finished runs are in {folder}, "
            "the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    print(f"{status.finished} of {status.total} runs are in {folder}, {len(status.failed)} failed")
    if status.finished:
        _report(argparse.Namespace(folder=folder))
    return 1 if status.failed else 0


def _report(args: argparse.Namespace) -> int:
    from ..experiments.report import write_report

    try:
        for path in write_report(args.folder):
            print(path)
    except ImportError:
        print("no figures: matplotlib is not installed (pip install 'poam_ros[benchmark]')")
    return 0


def _checked_seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"seed: expected zero or more, got {seed}")
    return seed


if __name__ == "__main__":
    sys.exit(main())
