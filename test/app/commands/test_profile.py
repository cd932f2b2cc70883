"""The contents of the profile; its times are not tested."""

import json

import pytest

from poam_ros.app.cli import main

SMALL = ["--inducing", "30", "--batch", "5", "--queries", "50", "--grid", "8", "--repeats", "2"]


def test_one_json_object_a_line(capsys):
    assert main(["profile", "--samples", "60", "120", *SMALL, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["samples"] for line in lines] == [60, 120]
    for line in lines:
        assert line["inducing"] == 30
        parts = [line[f"{part}_s"] for part in ("inducing", "variational", "training")]
        assert all(part > 0 for part in parts)
        assert line["update_s"] >= max(parts) and line["predict_s"] > 0 and line["map_s"] > 0
        assert all(line[f"{name}_cpu_s"] > 0 for name in ("update", "predict", "map"))
        assert line["backend"] in ("native", "torch")


def test_any_method(capsys):
    assert main(["profile", "--method", "nngp", "--samples", "60", *SMALL, "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["method"] == "nngp" and line["inducing"] == 0
    assert line["update_s"] >= line["training_s"] > 0 and line["index_s"] > 0
    assert main(["profile", "--method", "ssgp++", "--samples", "60", *SMALL, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inducing_s"] > 0


def test_a_table_for_people(capsys):
    assert main(["profile", "--samples", "60", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "kernel: " in lines[0] and "threads: 1" in lines[0]
    assert "poam: samples 60, inducing 30, batch 5" in lines
    first = [line.split()[0] for line in lines[4:]]
    assert first == ["inducing", "variational", "training", "update", "50", "8"]


@pytest.mark.parametrize("option", ["--samples", "--inducing", "--batch", "--repeats"])
def test_wrong_numbers_are_one_line_and_status_2(option, capsys):
    assert main(["profile", *SMALL, option, "0"]) == 2
    error = capsys.readouterr().err
    assert f"{option[2:]}: expected a" in error and error.count("\n") == 1
