"""What a person sees of a running mission, without a terminal."""

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
