"""Intervals that hold where whole survey lines are missing."""

import pytest
import torch

from poam_ros.models.data import Dataset
from poam_ros.models.nngp.calibration import upper_limit
from poam_ros.models.registry import MODELS, NeighbourOptions

SHORT = NeighbourOptions(first_steps=40, early_steps=2, hidden=8, lattice=8, left_out=64)
LINES, LONG = 12, 50


def survey(offset, seed=0):
    """Lines up and down over a smooth ground, each with an offset of its own, [LINES * LONG]."""
    generator = torch.Generator().manual_seed(seed)
    along, across = torch.linspace(-1, 1, LONG).double(), torch.linspace(-0.9, 0.9, LINES // 2)
    lines = [torch.stack([along, 0 * along + y.double()], 1) for y in across]
    X = torch.cat([*lines, *(line.flip(1) for line in lines)])
    own = offset * torch.randn(LINES, generator=generator).double().repeat_interleave(LONG)
    return Dataset(X, torch.sin(2 * X[:, 0]) + torch.cos(3 * X[:, 1]) + own)


def learned(data, options=SHORT):
    model = MODELS["nngp"].build(options, 0, torch.device("cpu"))
    model.update(data)
    return model


def test_lines_that_contradict_each_other_widen_intervals():
    data = survey(offset=0.3)
    keep = torch.ones(len(data.X), dtype=torch.bool)
    keep[3 * LONG : 4 * LONG] = keep[8 * LONG : 9 * LONG] = False
    model = learned(Dataset(data.X[keep], data.y[keep]))

    def covered():
        found = model.predict(data.X[~keep])
        inside = (data.y[~keep] - found.mean).abs() < 1.96 * found.variance.sqrt()
        return inside.double().mean().item(), found

    before, narrow = covered()
    model.calibrate(LINES - 2)
    after, wide = covered()
    assert before < after and after > 0.93
    assert torch.equal(narrow.mean, wide.mean)
    assert (wide.variance > narrow.variance + 0.3**2 / 2).all()  # about that of the offsets
    other = MODELS["nngp"].build(SHORT, 0, torch.device("cpu"))
    other.restore(model.state())
    assert torch.equal(other.predict(data.X[~keep]).variance, wide.variance)
    model.train(1)  # what is learned anew has not been looked at
    assert (model.predict(data.X[~keep]).variance < wide.variance).all()


@pytest.mark.parametrize("stretches", [0, 1, 10_000])
def test_too_few_or_too_many_stretches_say_nothing(stretches):
    data = survey(offset=0.3)
    model = learned(data)
    before = model.predict(data.X)
    model.calibrate(stretches)
    assert torch.equal(model.predict(data.X).variance, before.variance)


def sizes(stretches, long, unlike, seed):
    """Residuals' sizes [stretches * long]; the deviations of stretches differ by so much in log."""
    generator = torch.Generator().manual_seed(seed)
    scale = (unlike * torch.randn(stretches, generator=generator).double()).exp()
    drawn = torch.randn(stretches * long, generator=generator).double().abs()
    stretch = torch.arange(stretches).repeat_interleave(long)
    return drawn * scale[stretch], stretch


@pytest.mark.parametrize("unlike", [0.0, 0.5])
def test_the_limit_is_above_the_true_quantile_as_often_as_it_says(unlike):
    truth = sizes(20_000, 10, unlike, seed=1)[0].quantile(0.95)
    limits = torch.tensor([upper_limit(*sizes(16, 60, unlike, seed)) for seed in range(2, 402)])
    assert 0.8 < (limits > truth).double().mean() < 0.97  # about 0.9; their plain quantiles: 0.5
    assert limits.mean() < 1.5 * truth


def test_many_stretches_that_are_alike_need_no_more_than_their_quantile():
    drawn, stretch = sizes(1000, 100, 0.0, seed=1)
    assert upper_limit(drawn, stretch) < 1.01 * drawn.quantile(0.95)


def test_a_limit_of_two_stretches_that_contradict_each_other_is_their_largest():
    drawn, stretch = torch.tensor([1.0, 1.0, 1.0, 9.0]).double(), torch.tensor([0, 0, 1, 1])
    assert upper_limit(drawn, stretch) == 9.0
