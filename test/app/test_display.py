"""The display of a running mission, with and without a terminal."""

import io
import re
import sys

import pytest

from poam_ros.app.progress import ProgressDisplay
from poam_ros.outputs.recorder import Progress


@pytest.fixture
def shown(capsys):
    now = [0.0]

    def lines(*steps):
        """The lines printed for these (seconds, progress)."""
        with ProgressDisplay(clock=lambda: now[0]) as screen:
            for now[0], progress in steps:
                screen.show(progress)
        return capsys.readouterr().out.splitlines()

    return lines


def test_a_line_is_printed_for_every_state_and_every_period(shown):
    pilot, done = (Progress(state, samples=7, max_samples=9) for state in ("pilot", "done"))
    assert shown((1, pilot), (2, pilot), (11, pilot)) == ["state pilot  samples 7/9  epoch 0"] * 2
    assert shown((1, pilot), (2, done), (13, done), (99, done)) == [
        "state pilot  samples 7/9  epoch 0",
        "state done  samples 7/9  epoch 0",
    ]


def test_pending_pings_are_shown_until_some_are_accepted(shown):
    first, then = Progress("pilot", 0, 900, pending=3), Progress("exploring", 5, 900, pending=4)
    assert shown((1, first), (2, then)) == [
        "state pilot  samples 0/900, 3 pending until the pilot survey is over  epoch 0",
        "state exploring  samples 5/900  epoch 0",
    ]


def terminal(monkeypatch):
    """A terminal on standard output, and what was written to it."""
    pytest.importorskip("rich")
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return screen


def on_screen(written):
    """The lines of a terminal after what was written to it, as rich moves its cursor."""
    lines, row, column = [""], 0, 0
    for code, number, action, character in re.findall(
        r"(\x1b\[[?]?(\d*)[\d;]*([A-Za-z]))|(.|\n|\r)", written
    ):
        if code:
            row -= int(number or 1) * (action == "A")
            if action == "K":
                lines[row] = ""
        elif character == "\n":
            row, column = row + 1, 0
            lines += [""] * (row == len(lines))
        elif character == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + character + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def test_a_terminal_shows_a_line_per_value_and_messages_below(monkeypatch):
    screen = terminal(monkeypatch)
    now = [1.0]
    with ProgressDisplay(clock=lambda: now[0]) as display:
        display.show(Progress("pilot", 450, 900))
        display.show(Progress("done", 902, 900))  # too soon to be drawn, but the last
        display.stop()
        display.print_line("results: runs/sim")
    lines = [line for line in on_screen(screen.getvalue()) if line]
    assert set(lines[-5]) <= set("\u2501\u2578\u257a")  # the bar
    assert [" ".join(line.split()) for line in lines[-4:]] == [
        "state done", "samples 902", "epoch 0", "results: runs/sim",
    ]  # fmt: skip


def test_a_typed_line_leaves_nothing_of_the_display_behind(monkeypatch):
    screen = terminal(monkeypatch)
    typing = io.StringIO()
    typing.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", typing)
    now = [1.0]
    with ProgressDisplay(clock=lambda: now[0]) as display:
        for now[0] in (1.0, 2.0, 3.0):
            display.show(Progress("pilot", 450, 900))
            screen.write("s\n")  # the terminal's echo
            display.typed()
            display.print_line("start: started")
        display.show(Progress("done", 902, 900))
    shown = on_screen(screen.getvalue())
    assert [line.split(":")[0].split()[0] for line in shown if line and "\u2501" not in line] == [
        *["start"] * 3, "state", "samples", "epoch",
    ]  # fmt: skip
    assert sum("\u2501" in line for line in shown) == 1


def test_a_terminal_shows_brackets_unchanged(monkeypatch):
    screen = terminal(monkeypatch)
    with ProgressDisplay() as display:
        display.show(Progress("pilot", problems={"mapper": "expected xy [b, 2]"}))
        display.print_line("mapper: [WARN] no odometry")
    shown = screen.getvalue()
    assert "[WARN] no odometry" in shown and "expected xy [b, 2]" in shown
    assert "state" in shown and "bold" not in shown


def test_reason_depth_and_time_left_are_shown(shown):
    progress = Progress("paused", 7, 9, reason="requested", depth="4.2 m", time_left=131.6)
    assert shown((1, progress)) == [
        "state paused  reason requested  samples 7/9  epoch 0  depth 4.2 m  left about 2 min 12 s"
    ]
    (line,) = shown((1, Progress("pilot", 10, 9, time_left=-1.0)))
    assert line == "state pilot  samples 10  epoch 0  left about 0 min 00 s"
