"""The profile says what it promises; how fast that is belongs to no test."""

import json

import pytest

from poam_ros.cli import main

SMALL = ["--inducing", "30", "--batch", "5", "--queries", "50", "--repeats", "2"]


def test_one_json_object_a_line(capsys):
    assert main(["profile", "--samples", "60", "120", *SMALL, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["samples"] for line in lines] == [60, 120]
    for line in lines:
        assert line["inducing"] == 30
        parts = [line[f"{part}_s"] for part in ("inducing", "variational", "training")]
        assert all(part > 0 for part in parts)
        assert line["update_s"] >= max(parts) and line["predict_s"] > 0


def test_a_table_for_people(capsys):
    assert main(["profile", "--samples", "60", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "kernel: " in out and "threads: 1" in out and "variational" in out


@pytest.mark.parametrize("option", ["--samples", "--inducing", "--batch", "--repeats"])
def test_wrong_numbers_are_one_line_and_status_2(option, capsys):
    assert main(["profile", *SMALL, option, "0"]) == 2
    error = capsys.readouterr().err
    assert f"{option[2:]}: expected at least 1" in error and error.count("\n") == 1
