"""`poam drive`: a mission on an ArduPilot vehicle over MAVLink, in one process without ROS 2."""

from __future__ import annotations

import argparse
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.clock import SECOND, Moment
from ...core.errors import InputError, quantity, shown
from ...core.settings import Setting, instance, rows
from ...frontend.events import DONE
from ...mavlink.frame import PlaceSettings
from ...mavlink.link import NOT_READ, LinkSettings
from ...mavlink.simulated_boat import EVENTS, HOME, SimulatedBoat
from ...models.native.loader import announce
from ...models.registry import MODELS, option_rows
from ...planning.areas import AreaSettings
from ...planning.planners import PLANNERS, planner_rows
from .. import graph
from ..command import (
    INTERRUPTED,
    Parser,
    add_setting,
    add_settings,
    exit_on_interrupt,
)
from .map import draw_figures, print_summary

if TYPE_CHECKING:
    from ...mavlink.drive import Drive
    from ...outputs.recorder import Progress
    from ..progress import ProgressDisplay

#: Parameters that mean nothing without ROS 2: here nothing publishes a water level.
FOR_NODES = (
    "goals.action", "frame_id", "sonar.base_frame", "simulated", "water.await_level",
    "water.level_timeout",
)  # fmt: skip
ROWS = {name: row for name, row in graph.ROBOT_ROWS.items() if name not in FOR_NODES}
ROWS["workspace"] = graph.WORKSPACE
PLACES = rows(PlaceSettings)
PRACTICE = Setting(
    "practice", 1.0, "Drive a simulated boat over the terrain `lake` instead, at this multiple of "
    "real time", minimum=0.1, maximum=20.0,
)  # fmt: skip
#: The settings of the mission that are options of their own.
OPTIONS = (
    "workspace", "origin", "mission_dir", "output", "autostart", "max_samples", "max_duration",
    "on_done", "method", "prior", "planner", "pilot", "seed", "max_speed", "capture_radius",
    "min_depth", "screening.enabled",
)  # fmt: skip
#: What people type: a letter, or the word.
WORDS = {"s": "start", "p": "pause", "r": "resume", "x": "stop", "q": "quit"}
PERIOD_S = 0.05  # between two steps, at most
LONGEST_STEP_S = 1.0  # of simulated time between two steps in practice
SHORE = 5.0  # m, from the workspace to the edge of the lake, at least


def add_arguments(parser: Parser) -> None:
    link = rows(LinkSettings)
    (url,) = (row for row in link if row.name == "mavlink.url")
    add_setting(parser, url, "--mavlink", metavar="URL")
    parser.add_argument("--practice", nargs="?", const=1.0, type=float, metavar="SPEED",
        help=f"{PRACTICE.help} (default: 1)")  # fmt: skip
    add_settings(parser, (*PLACES, *(ROWS[name] for name in OPTIONS)))
    parser.takes((*link, *ROWS.values(), *option_rows(), *planner_rows()))


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of link, mapper and planner by name: defaults, file, options.

    Raises:
        InputError: a value is wrong, or there is no workspace.
    """
    own = ("practice", "params_file", "in_files")
    options = {name: value for name, value in vars(args).items() if name not in own}
    rows_by_name = dict(ROWS) | {row.name: row for row in (*rows(LinkSettings), *PLACES)}
    values: dict[str, Any] = {name: row.default for name, row in rows_by_name.items()}
    if args.practice is not None:
        values |= {"workspace": (-25.0, 25.0, -25.0, 25.0), "sonar.offset": (0.0, 0.0, -0.5)}
    values |= options
    degrees, metres = any(values["workspace_degrees"]), "workspace" in options
    if degrees and metres and "workspace" not in args.in_files:
        raise InputError("--workspace: expected it in metres or in degrees, got both")
    areas = instance(AreaSettings, values).has_polygon
    if not (degrees or metres or (args.practice is not None and not areas)):
        if not areas:
            raise InputError(
                "expected --workspace XMIN XMAX YMIN YMAX in metres from the first fix, "
                "--workspace-degrees SOUTH WEST NORTH EAST, --set areas.file=FILE or "
                "areas.polygon_degrees"
            )
        values["workspace"] = (0.0, 0.0, 0.0, 0.0)  # the rectangle around the areas' polygon
    if not values["mission_dir"]:
        values["mission_dir"] = f"missions/{datetime.now():%Y-%m-%d-%H%M%S}"
    for kind in (MODELS[values["method"]].options, PLANNERS[values["planner"]].options):
        instance(kind, values)  # raises an error now, not in the water
    return values


def run(args: argparse.Namespace) -> int:
    """Drive the mission; returns the exit status."""
    announce()
    with exit_on_interrupt("poam drive"):
        import poam_ros.models.mapper  # noqa: F401  # loads torch before anything moves

        from ...core.process import configure_process
        from ...mavlink.drive import Drive
        from ...mavlink.link import Link
        from ..progress import ProgressDisplay

    values = settings(args)
    with exit_on_interrupt("poam drive"):
        configure_process(values["threads"])
    speed, boat, longest_s, note = 1.0, None, math.inf, ""
    if args.practice is not None:
        speed = float(PRACTICE.convert(args.practice))  # type: ignore[arg-type]
        boat, longest_s = launch(args, values), LONGEST_STEP_S
        if speed != 1:
            note = f"time runs {speed:g} times as fast as real time, in the log and in the report"
    clock, link = _clock(speed, longest_s), Link(instance(LinkSettings, values))
    with ProgressDisplay() as display:
        drive = Drive(values, link, display.print_line, simulated=boat is not None)
        for text in filter(None, (link.settings.warning, _help(boat), note)):
            display.print_line(text)
        _listen(drive, boat, display)
        with _signals(drive) as stopped:
            try:
                while not drive.finished:
                    now = clock()
                    while boat is not None and boat.time_s < now.steady_s:
                        boat.step()
                    drive.step(now)
                    display.show(progress(drive, now))
                    link.wait(PERIOD_S)
            finally:
                drive.close(clock())
                display.show(progress(drive, clock()))
                if boat is not None:
                    boat.close()
    _sum_up(drive)
    return INTERRUPTED if stopped else int(drive.incomplete)


def _clock(speed: float, longest_s: float = math.inf) -> Callable[[], Moment]:
    """Both clocks, ``speed`` times as fast. The system clock is read once: somebody may set it.

    Between two readings they advance by at most ``longest_s``. With ``--practice``, a machine that
    is too slow then slows time down; otherwise the link would seem to stall, and no target would be
    sent.
    """
    begun_ns, read_s, seconds = time.time_ns(), time.monotonic(), 0.0

    def now() -> Moment:
        nonlocal read_s, seconds
        before_s, read_s = read_s, time.monotonic()
        seconds += min((read_s - before_s) * speed, longest_s)
        return Moment(begun_ns + round(seconds * SECOND), seconds)

    return now


def launch(args: argparse.Namespace, values: dict[str, Any]) -> SimulatedBoat:
    """A simulated boat, armed and in GUIDED. It has a link of its own: a real boat could be
    listening on the one in the settings."""
    from ...core.geodesy import GeoReference
    from ...core.geometry import Extent
    from ...mavlink.frame import given_frame, workspace_of
    from ...simulation.terrain import ENVIRONMENT, load_terrain

    if "mavlink.url" in vars(args):
        raise InputError("practice: not with --mavlink, as the simulated boat has its own link")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    values |= {"mavlink.url": f"udpin:127.0.0.1:{port}", "mavlink.system": 0}
    key = instance(LinkSettings, values).key
    frame = given_frame(values) or GeoReference(*HOME, values["heading"])
    placed = {**values, **frame.values}
    try:
        workspace = workspace_of(placed, frame)
        instance(AreaSettings, placed).open(workspace)
    except InputError as error:
        raise InputError(f"practice: {error}") from None
    home = GeoReference(frame.latitude, frame.longitude)  # whose y axis is north
    (x0, y0), (x1, y1) = workspace.lower, workspace.upper
    xy = frame.moved(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]), home)
    lake = ENVIRONMENT
    if not lake.grown(-SHORE).contains(xy).all():  # stretch it over workspace and boat
        (x0, y0), (x1, y1) = np.minimum(xy.min(axis=0), 0), np.maximum(xy.max(axis=0), 0)
        lake = Extent(x0, x1, y0, y1).grown(SHORE)
    terrain = load_terrain("lake", lake)
    place, top = (home.latitude, home.longitude), values["max_speed"]
    boat = SimulatedBoat(terrain, port, place, seed=values["seed"], key=key, speed=top)
    boat.recover()
    return boat


def _help(boat: SimulatedBoat | None) -> str:
    words = ", ".join(f"{letter} {word}" for letter, word in WORDS.items())
    text = f"type a letter and Enter: {words}"
    return text + ("" if boat is None else f"; events of the boat: {', '.join(EVENTS)}")


def _listen(drive: Drive, boat: SimulatedBoat | None, display: ProgressDisplay) -> None:
    """Read what people type, on a separate thread."""

    def read() -> None:
        # As bytes: a letter of another alphabet must not end the thread. Unbuffered: the thread
        # would hold the lock of the buffer when the process ends.
        for line in sys.stdin.buffer.raw:  # type: ignore[union-attr]
            display.typed()
            word = shown(line.decode(errors="replace").strip().lower())
            word = WORDS.get(word, word)
            if word in WORDS.values():
                drive.command(word)
            elif boat is not None and word in EVENTS:
                EVENTS[word](boat)
                display.print_line(f"to the boat: {word}")
            elif word:
                display.print_line(f"{word[:20]}: not a command; {_help(boat)}")

    threading.Thread(target=read, name="commands", daemon=True).start()


@contextmanager
def _signals(drive: Drive) -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM ends the mission properly; a second one ends the process."""
    seen: list[int] = []
    with ExitStack() as handlers:

        def end(number: int, _: object) -> None:
            seen.append(number)
            drive.command("quit")
            handlers.close()

        for number in (signal.SIGINT, signal.SIGTERM):
            handlers.callback(signal.signal, number, signal.signal(number, end))
        yield seen


def progress(drive: Drive, now: Moment) -> Progress:
    """What the display shows of a mission."""
    from ...frontend.pings import refusal_reason
    from ...outputs.recorder import Progress

    goal = drive.guidance is not None and drive.guidance.mission.goal is not None
    problems = {"control": drive.vehicle.control(goal and not drive.closed)}
    if drive.link.failing:
        problems["link"] = drive.link.failing
    elif drive.vehicle.status is None and (left := drive.link.left_out[NOT_READ]):
        problems["link"] = f"{left} messages {NOT_READ}, or older than a minute by this clock"
    if drive.disk_problem:
        problems["disk"] = drive.disk_problem
    if drive.session is None or drive.guidance is None:
        if drive.origin_fault != problems["control"]:
            problems["fix"] = drive.origin_fault
        return Progress("waiting for a position", problems=problems)
    mission, ledger = drive.guidance.mission, drive.session.ledger
    if ledger.rejected:
        problems["refused"] = _counts(ledger.rejected.most_common(3))
    budget, depth = mission.budget, ""
    if (ping := drive.newest_ping) is not None:
        fault = refusal_reason(ping)
        below = ping.range * drive.session.front_end.settings.sound_scale
        depth = f"none ({fault})" if fault else f"{below:.1f} m below the sonar"
    return Progress(
        mission.state, budget.taken, budget.max_samples, ledger.pending, epochs=drive.batches,
        reason="" if mission.active else mission.reason, depth=depth, problems=problems,
        time_left=budget.time_left(now.unadjusted_s) if mission.active else math.inf,
    )  # fmt: skip


def _counts(rejected: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in rejected)


def _sum_up(drive: Drive) -> None:
    """Print a summary of the mission, and what to do next."""
    from ...outputs.run import Run

    if drive.session is None or drive.guidance is None:
        print(f"no position: {drive.origin_fault}; nothing was mapped")
        return
    mission, ledger = drive.guidance.mission, drive.session.ledger
    refused, count = _counts(ledger.rejected.most_common()), sum(ledger.rejected.values())
    over = mission.state == DONE
    print(f"end: done: {mission.reason}" if over else
          f"end: quit while {mission.state} ({mission.reason})")  # fmt: skip
    print(
        f"{quantity(drive.session.samples, 'ping')} accepted, {count} refused"
        f"{f' ({refused})' if refused else ''}, {ledger.pending} undecided"
    )
    if drive.before_frame:
        lost = quantity(drive.before_frame, "ping")
        print(f"{lost} before the first position: not in the mission")
    print(
        f"{mission.track.length:.0f} m driven, {quantity(drive.vehicle.sent, 'target')} sent, "
        f"{100 * drive.link.lost_share:.1f} % of the autopilot's messages lost"
    )
    folder = Path(drive.values["output"] or drive.values["mission_dir"])
    if (folder / "map.npz").exists():
        chart, run = None, Run.open(folder)
        try:
            chart = draw_figures(run)
        except OSError as error:
            drive.incomplete = True
            print(f"warning: no figures in {folder} ({error.strerror})")
        print_summary(run, chart)
    else:
        print(f"no map yet; results: {folder}")
    if not over:
        print(f"to continue: the same command with --mission-dir {drive.values['mission_dir']}")
