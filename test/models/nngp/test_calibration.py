"""Intervals that hold where whole survey lines are missing."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from problems import built

from poam_ros.core.errors import CholeskyError
from poam_ros.models.interface import Dataset, Drawn
from poam_ros.models.nngp.calibration import (
    errors_of,
    factor_of_sums,
    left_out,
    upper_limit,
    widening,
)
from poam_ros.models.nngp.conditional import simulate
from poam_ros.models.nngp.sites import TrainingData
from poam_ros.models.registry import NeighbourOptions

SHORT = NeighbourOptions(first_steps=40, early_steps=2, hidden=8, lattice=8, left_out=64)
SHORT_BUT_TRAINED = replace(SHORT, first_steps=400)
LINES, LONG = 12, 50


def survey(offset, seed=0):
    """Lines up and down over a smooth ground, each with an offset of its own, [LINES * LONG]."""
    generator = torch.Generator().manual_seed(seed)
    along, across = torch.linspace(-1, 1, LONG).double(), torch.linspace(-0.9, 0.9, LINES // 2)
    lines = [torch.stack([along, 0 * along + y.double()], 1) for y in across]
    X = torch.cat([*lines, *(line.flip(1) for line in lines)])
    own = offset * torch.randn(LINES, generator=generator).double().repeat_interleave(LONG)
    return Dataset(X, bottom(X) + own)


def bottom(X):
    """A smooth ground at X [N, 2]."""
    return torch.sin(2 * X[:, 0]) + torch.cos(3 * X[:, 1])


def learned(data, options=SHORT):
    model = built(options)
    model.update(data)
    return model


def test_contradicting_lines_widen_intervals():
    data = survey(offset=0.3)
    keep = torch.ones(len(data.X), dtype=torch.bool)
    keep[3 * LONG : 4 * LONG] = keep[8 * LONG : 9 * LONG] = False
    # Soundings with noises of their own keep the learned kernel.
    model = learned(Dataset(data.X[keep], data.y[keep], torch.full((int(keep.sum()),), 1e-8)))

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
    other = built(SHORT)
    other.restore(model.state())
    assert torch.equal(other.predict(data.X[~keep]).variance, wide.variance)
    model.update(Dataset(data.X[:1], data.y[:1], torch.full((1,), 1e-8)))  # nothing is known of it
    assert (model.predict(data.X[~keep]).variance < wide.variance).all()


def test_a_stationary_kernel_predicts_if_it_predicts_left_out_stretches_better():
    model, at = learned(survey(offset=0.0)), survey(offset=0.0).X + 0.05

    def error():
        return (model.predict(at).mean - bottom(at)).abs().mean()

    before = error()
    model.calibrate(LINES)
    assert error() < 0.5 * before
    found = model.fields(at)
    for name in ("lengthscale", "amplitude", "anisotropy"):
        assert found[name].std() < 1e-6
    other = built(SHORT)
    other.restore(model.state())
    assert torch.equal(other.predict(at).mean, model.predict(at).mean)
    assert other.stationary == model.stationary
    twin, new = learned(survey(offset=0.0)), Dataset(at[:9], bottom(at[:9]))
    twin.update(new)
    other.update(new)  # goes on from what training learned
    assert not other.stationary and torch.equal(other.predict(at).mean, twin.predict(at).mean)


def test_an_error_that_successive_soundings_share_is_no_bottom():
    """Lines, each off by a level of its own, cross. The map is nearer to the bottom than one that
    takes the errors for independent, and its intervals hold."""
    data, at = survey(offset=0.3), survey(offset=0.0).X + 0.05
    model = learned(data)
    model.calibrate(LINES)
    found, kernel = model.predict(at, noise=False), model._averaged()
    error = (found.mean - bottom(at)).abs()
    assert 0.03 < kernel.shared_variance < 0.3 and kernel.shared_sites > LONG / 5
    assert "successive soundings share" in model.stationary
    assert (error < 1.96 * found.variance.sqrt()).double().mean() > 0.9
    own, (added, factor, *_) = (
        kernel.noise + kernel.shared_variance,
        model._widening,
    )  # a sounding's
    close = partial(torch.testing.assert_close, rtol=1e-6, atol=0)
    close(model.predict(at).variance - found.variance, (factor * (own + added)).expand(len(at)))
    joint, sounded = (model.covariance(at[:5], noise=noise).diagonal() for noise in (False, True))
    close(sounded - joint, own.expand(5))
    model._widen(model._widening._replace(stationary=model._trainer.stationary(model._store.sites)))
    assert error.mean() < 0.95 * (model.predict(at).mean - bottom(at)).abs().mean()


@pytest.mark.parametrize("wider", [True, False])
def test_a_shared_error_is_taken_only_if_it_surely_predicts_better(wider, monkeypatch):
    """Not for a smaller log loss by wider variances alone, or for what it gains on one stretch."""
    model, kernels = learned(survey(offset=0.0)), []

    def errors(kernel, sites, left):
        kernels.append(kernel)
        one = torch.ones(len(left.site), dtype=torch.float64)
        if len(kernels) < 3:  # those without
            return one, 0.1 * one, True
        return (1.01 * one, one, True) if wider else (1.0 * (left.stretch > 0), 0.1 * one, True)

    monkeypatch.setattr("poam_ros.models.nngp.online.errors_of", errors)
    model.calibrate(LINES)
    assert kernels[2].shared_variance > 0 and not model.stationary


def test_the_learned_kernel_predicts_if_no_stationary_one_can_be_fitted(monkeypatch):
    data = survey(offset=0.0)
    model = learned(data)
    before = model.predict(data.X).mean

    def fails(A, name):
        raise CholeskyError(name)

    monkeypatch.setattr("poam_ros.models.nngp.training.cholesky", fails)
    model.calibrate(LINES)
    assert not model.stationary and torch.equal(model.predict(data.X).mean, before)


def test_a_kernel_that_differs_between_places_stays_where_the_bottom_does():
    X = survey(offset=0.0).X
    rough = torch.randn(len(X), generator=torch.Generator().manual_seed(1)).double()
    model = learned(Dataset(X, torch.where(X[:, 0] > 0, rough, 0.01 * X[:, 1])), SHORT_BUT_TRAINED)
    before = model.predict(X)
    model.calibrate(LINES)
    assert torch.equal(model.predict(X).mean, before.mean)


@pytest.mark.parametrize("stretches", [0, 1, 10_000])
def test_too_few_or_too_many_stretches_change_nothing(stretches):
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


def test_with_many_similar_stretches_the_limit_is_the_quantile():
    drawn, stretch = sizes(1000, 100, 0.0, seed=1)
    assert upper_limit(drawn, stretch) < 1.01 * drawn.quantile(0.95)


def test_with_two_contradicting_stretches_the_limit_is_the_largest_error():
    drawn, stretch = torch.tensor([1.0, 1.0, 1.0, 9.0]).double(), torch.tensor([0, 0, 1, 1])
    assert upper_limit(drawn, stretch) == 9.0


FEW = replace(SHORT, neighbours=12, candidate_neighbours=48, neighbour_spacing=0.0)


def test_sites_beside_a_stretch_do_not_predict_it():
    count, stretches = 160, 4
    x = torch.stack([torch.linspace(-1, 1, count).double(), torch.zeros(count).double()], 1)
    ones = torch.ones(count).double()
    found = left_out(TrainingData(x, ones, ones), stretches, k=4, pool=16, apart=0.0)
    long = count // stretches
    assert torch.equal(found.site, torch.arange(count))
    first = (found.stretch * long).unsqueeze(1)
    beyond = (first - found.near).maximum(found.near - first - long + 1)
    assert beyond.min() == long // 4 + 1


def test_sums_are_as_uncertain_as_the_means_of_stretches_are_wrong():
    model = learned(survey(offset=0.0), FEW)
    kernel, store = model._averaged(), model._store
    left = left_out(store.sites, 8, FEW.neighbours, FEW.candidate_neighbours, 0.0)
    generator = torch.Generator().manual_seed(0)
    mean_is = torch.empty(len(left.site), dtype=torch.float64)
    for number in range(8):
        rows = left.stretch == number
        x, near = store.sites.x[left.site[rows]].contiguous(), left.near[rows].contiguous()
        noise = torch.randn(len(x), 4000, generator=generator, dtype=torch.float64)
        given = Drawn(x[:0], noise[:0].mT)
        draws = simulate(kernel, store.sites, None, x, near, noise, given)
        of_draws = draws[:, ::3].mean(1).var()
        mean_is[rows] = (of_draws + kernel.noise / len(x[::3])).sqrt()
    sign = 1.0 - 2.0 * (torch.arange(len(mean_is)) % 2)
    assert factor_of_sums(kernel, store.sites, left, 3 * mean_is) == pytest.approx(9, rel=0.15)
    assert factor_of_sums(kernel, store.sites, left, 0.5 * mean_is) == 1.0
    # Errors that differ from sounding to sounding average out, however large.
    assert factor_of_sums(kernel, store.sites, left, 3 * sign * mean_is) == 1.0


@pytest.mark.parametrize("twice", [False, True])
def test_only_lines_near_each_other_show_the_noise(twice):
    data = survey(offset=0.0)
    first = len(data.X) // (1 if twice else 2)  # the second half runs along the first again
    model = learned(Dataset(data.X[:first], data.y[:first]), replace(FEW, tail=10.0))
    left = left_out(model._store.sites, 6, FEW.neighbours, FEW.candidate_neighbours, 0.0)
    assert errors_of(model._averaged(), model._store.sites, left)[2] == twice


def test_without_near_lines_small_variances_are_not_taken_for_noise():
    generator = torch.Generator().manual_seed(0)
    variance = torch.linspace(0.1, 10, 4000).double()
    error = (3 * variance).sqrt() * torch.randn(4000, generator=generator).double()
    stretch = torch.arange(4000) % 16
    assert widening(error, variance, stretch).added > 1.0
    found = widening(error, variance, stretch, telling=False)
    assert found.added < 0.05 and found.factor > 2.7
