"""What a person sees of a running mission, without a terminal and in one."""

import io
import sys

import pytest

from poam_ros.app.display import Display
from poam_ros.runs.recorder import Progress


@pytest.fixture
def shown(capsys):
    now = [0.0]

    def lines(*steps):
        """What is said for these (seconds, progress)."""
        with Display(clock=lambda: now[0]) as screen:
            for now[0], progress in steps:
                screen.show(progress)
        return capsys.readouterr().out.splitlines()

    return lines


def test_a_line_for_every_state_and_now_and_then(shown):
    pilot, done = (Progress(state, samples=7, max_samples=9) for state in ("pilot", "done"))
    assert shown((1, pilot), (2, pilot), (11, pilot)) == ["state pilot  samples 7/9  epoch 0"] * 2
    assert shown((1, pilot), (2, done), (13, done), (99, done)) == [
        "state pilot  samples 7/9  epoch 0",
        "state done  samples 7/9  epoch 0",
    ]


def test_more_samples_than_asked_for_are_no_fraction(shown):
    assert shown((1, Progress("done", 902, 900))) == ["state done  samples 902  epoch 0"]


def test_in_a_terminal_brackets_are_what_they_are(monkeypatch):
    pytest.importorskip("rich")
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Display() as display:
        display.show(Progress("pilot", problems={"mapper": "expected xy [b, 2]"}))
        display.say("mapper: [WARN] no odometry")
    shown = screen.getvalue()
    assert "[WARN] no odometry" in shown and "expected xy [b, 2]" in shown
    assert "state" in shown and "bold" not in shown
