"""The contents of the profile; its times are not tested."""

import json

import pytest
import torch
from problems import make_online, scattered

from poam_ros.app.cli import main
from poam_ros.models.registry import NeighbourOptions
from poam_ros.research.bench import rates as counts
from poam_ros.research.bench.rates import MachineRates, OperationCount
from poam_ros.research.bench.reference import ReferencePOAM

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
        assert line["backend"] in ("native", "torch") and line["gflops"] > 0
        assert all(line[f"{name}_bound_s"] > 0 for name in ("update", "predict", "map"))


@pytest.mark.slow
def test_any_method(capsys):
    assert main(["profile", "--method", "nngp", "--samples", "60", *SMALL, "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["method"] == "nngp" and line["inducing"] == 0
    assert line["update_s"] >= line["training_s"] > 0 and line["index_s"] > 0
    assert all(line[f"{name}_bound_s"] > 0 for name in ("update", "predict", "map"))
    assert main(["profile", "--method", "nngp", "--samples", "60", *SMALL, "--reference"]) == 0
    out = capsys.readouterr().out
    assert "nngp: samples 60" in out and "index" in out and "variational" not in out


def test_operations_are_counted_only_where_that_is_known(capsys):
    options = ["--method", "ssgp++", "--samples", "60", *SMALL]
    assert main(["profile", *options, "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["inducing_s"] > 0 and "update_bound_s" not in line
    assert main(["profile", *options]) == 0
    assert "ssgp++: samples 60, inducing 30" in capsys.readouterr().out


def test_operations_of_nngp_do_not_depend_on_the_data():
    options = NeighbourOptions()
    assert counts.neighbour_update(options, 2000) == counts.neighbour_update(options, 10**6)
    one, many = (counts.neighbour_prediction(options, n).flops for n in (1, 1001))
    assert many - one == pytest.approx(1000 * counts.conditional_work(options).flops)


def test_an_unknown_method_is_one_line_and_status_2(capsys):
    assert main(["profile", "--method", "nothing", *SMALL]) == 2
    assert "method: expected one of poam" in capsys.readouterr().err


def test_a_table_for_people(capsys):
    assert main(["profile", "--samples", "60", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "kernel: " in out and "threads: 1" in out and "variational" in out


@pytest.mark.parametrize("option", ["--samples", "--inducing", "--batch", "--repeats"])
def test_wrong_numbers_are_one_line_and_status_2(option, capsys):
    assert main(["profile", *SMALL, option, "0"]) == 2
    error = capsys.readouterr().err
    assert f"{option[2:]}: expected at least 1" in error and error.count("\n") == 1


@pytest.mark.slow
def test_the_reference_runs_beside(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "profile.png"
    options = ["--samples", "60", *SMALL, "--reference", "--json", "--plot", str(plot)]
    assert main(["profile", *options]) == 0
    line = json.loads(capsys.readouterr().out)
    for name in ("update", "predict", "map"):
        assert line[f"{name}_ratio"] > 0 and line[f"reference_{name}_cpu_s"] > 0
    assert plot.stat().st_size > 1000


def test_the_reference_needs_enough_samples(capsys):
    assert main(["profile", "--samples", "20", *SMALL, "--reference"]) == 2
    assert "at least as many samples as inducing" in capsys.readouterr().err


def test_the_reference_is_poam():
    # The same hyperparameters and Z, two batches: the same map, but for where jitter is added.
    # (Which Z is chosen hangs on a tie: the first pivot may be any point.)
    ours = make_online(60, noise=0.05)
    kernel = ours.model.kernel
    reference = ReferencePOAM(60, kernel.lengthscales, steps=0, minibatch=64)
    theirs = reference.model.covar_module
    theirs.base_kernel.network.load_state_dict(kernel.network.state_dict())
    theirs.outputscale = kernel.amplitude.item()
    reference.model.likelihood.noise = 0.05
    data, X = scattered(150, 0), scattered(200, 1).X
    for part in torch.arange(150).chunk(2):
        ours.update(data[part])
        reference.model.variational_strategy.inducing_points.data = ours.model.Z.clone()
        reference.update_variational(data[part])
    reference.train()
    expected, found = ours.predict(X), reference.predict(X)
    torch.testing.assert_close(found.mean, expected.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(found.variance, expected.variance, rtol=0, atol=1e-3)


def test_lower_bounds_add_up():
    assert OperationCount(6.0, 2.0).seconds(MachineRates(3.0, 4.0)) == 2.5
    parts = counts.update_work(500, 22, 256, 10, 10)
    total = parts.pop("update")
    assert sum(part.flops for part in parts.values()) == total.flops
    # A map needs fewer exponentials than its points on their own.
    assert (
        counts.map_work(500, 70, 70, 10).exponentials
        < counts.prediction_work(500, 4900, 10).exponentials / 9
    )
