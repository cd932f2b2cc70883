"""Draws docs/display-*.svg: what `poam drive` shows on the simulated boat, by its own display."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from poam_ros.app.command import Parser
from poam_ros.app.commands import drive as command
from poam_ros.app.progress import picture
from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.settings import instance
from poam_ros.mavlink.drive import Drive
from poam_ros.mavlink.link import Link, LinkSettings

DOCS = Path(__file__).resolve().parents[1] / "docs"
MISSION = (
    "--practice 5 --pilot diagonal --max-samples 1500 --max-duration 600 --no-screening "
    "--workspace -15 15 -15 15"
)
BEGUN_NS = 1_700_000_000 * SECOND


def pictures(*options: str) -> dict[str, str]:
    """SVGs by the state that they show; ``options``: further options of `poam drive`."""
    parser, messages = Parser(), list[str]()
    command.add_arguments(parser)
    args = parser.parse_args([*MISSION.split(), *options])
    values = command.settings(args) | {"mission_dir": ""}
    boat = command.launch(args, values)
    drive = Drive(values, Link(instance(LinkSettings, values)), messages.append, threaded=False)

    def run(seconds: float) -> Moment:
        until = boat.time_s + seconds
        while boat.time_s < until:
            boat.step()
            now = Moment(BEGUN_NS + round(boat.time_s * SECOND), boat.time_s)
            drive.step(now)
        return now

    def drawn(now: Moment) -> str:
        screen = Console(record=True, width=100, file=io.StringIO(), legacy_windows=False)
        for line in messages[-2:]:
            screen.print(line, markup=False, highlight=False)
        screen.print(picture(command.progress(drive, now)))
        svg = screen.export_svg(title="poam drive", unique_id="poam")
        return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # nothing is fetched

    found = {}
    run(5)
    for state, act, seconds in (
        ("driving", lambda: drive.command("start"), 90),
        ("paused", lambda: drive.command("pause"), 3),
        ("resumed", lambda: drive.command("resume"), 20),
        ("taken-over", lambda: setattr(boat, "mode", "MANUAL"), 5),
    ):
        act()
        found[state] = drawn(run(seconds))
    drive.close(run(1))
    boat.close()
    return found


def words(svg: str) -> str:
    """The text of an SVG, without its numbers."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return re.sub(r"[\d.]+", "#", " ".join(" ".join(lines).replace("&#160;", " ").split()))


if __name__ == "__main__":
    for name, text in pictures(*sys.argv[1:]).items():
        if name != "resumed":
            (DOCS / f"display-{name}.svg").write_text(text, encoding="utf-8")
