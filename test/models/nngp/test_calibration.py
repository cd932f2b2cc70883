"""Intervals that hold where whole survey lines are missing."""

import math
from dataclasses import replace

import pytest
import torch

from poam_ros.models.data import Dataset
from poam_ros.models.nngp import refit
from poam_ros.models.nngp.calibration import (
    errors_of,
    factor_of_sums,
    left_out,
    tells_noise,
    upper_limit,
    widening,
)
from poam_ros.models.nngp.fields import LEAST_NOISE
from poam_ros.models.nngp.kernel import TrainingData
from poam_ros.models.nngp.simulation import simulate
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


def test_contradicting_lines_widen_intervals():
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
POSITION = replace(FEW, max_position_error=0.1)
#: All but two of the lines.
KEPT = torch.ones(LINES, LONG, dtype=torch.bool)
KEPT[[3, 8]] = False
KEPT = KEPT.flatten()


def displaced(far):
    """Lines over a bank on one side and a flat on the other, each displaced across the bank."""
    data, generator = survey(offset=0.0), torch.Generator().manual_seed(1)
    moved = far * torch.randn(LINES, generator=generator).double().repeat_interleave(LONG)
    return Dataset(data.X, bank(data.X[:, 0] + moved))


def bank(x):
    return 3 * torch.tanh(2 * (x - 0.4))


def test_position_errors_become_noise_on_slopes():
    data = displaced(0.05)
    flat, steep = torch.tensor([[-0.6, 0.0], [0.4, 0.0]]).double().split(1)

    def calibrated(options):
        model = learned(Dataset(data.X[KEPT], data.y[KEPT]), options)
        model.calibrate(LINES - 2)
        found = model.predict(data.X[~KEPT])
        error, variance = data.y[~KEPT] - found.mean, found.variance
        wide, narrow = (model.predict(place).variance.item() for place in (steep, flat))
        return model, (variance.log() + error**2 / variance).mean(), wide / narrow

    (model, loss, ratio), (_, before, usual) = map(calibrated, (POSITION, FEW))
    assert loss < before - 0.5
    assert ratio > 10 > 2 > usual
    assert 0.02 < model._refit.position < 0.11  # of a few values, a factor of two apart
    other = MODELS["nngp"].build(POSITION, 0, torch.device("cpu"))
    other.restore(model.state())
    found, expected = other.predict(data.X), model.predict(data.X)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.variance, expected.variance)


@pytest.mark.parametrize(("data", "stretches"), [(survey(offset=0.3), LINES), (displaced(0.05), 7)])
def test_the_learned_kernel_stays_without_evidence_of_many_stretches(data, stretches):
    """Lines that are off by a constant, and too few stretches of those that are displaced."""
    model, widened = learned(data, POSITION), learned(data, FEW)
    for each in (model, widened):
        each.calibrate(stretches)
    found, expected = model.predict(data.X), widened.predict(data.X)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.variance, expected.variance)


def test_an_update_continues_from_the_learned_kernel():
    data, new = displaced(0.05), survey(offset=0.3)
    data = Dataset(data.X[KEPT], data.y[KEPT])
    model, other = learned(data, POSITION), learned(data, POSITION)
    model.calibrate(LINES - 2)
    assert model._refit is not None
    for each in (model, other):
        each.update(new)
    found, expected = model.predict(data.X), other.predict(data.X)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.variance, expected.variance)


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


def test_the_position_error_alone_is_fitted_if_no_full_refit_is_clearly_better(monkeypatch):
    monkeypatch.setattr(refit, "CLEARLY", torch.inf)
    data = displaced(0.05)
    kept = Dataset(data.X[KEPT], data.y[KEPT])
    model, widened = learned(kept, POSITION), learned(kept, FEW)
    learned_kernel, losses = model._averaged(), []
    for each in (model, widened):
        each.calibrate(LINES - 2)
        found = each.predict(data.X[~KEPT])
        error = data.y[~KEPT] - found.mean
        losses.append((found.variance.log() + error**2 / found.variance).mean())
    assert model._refit.position > 0
    assert torch.equal(model._averaged().F, learned_kernel.F)
    assert torch.allclose(model._averaged().noise, learned_kernel.noise)
    assert losses[0] < losses[1]


def test_intervals_come_from_fits_to_other_stretches():
    data = displaced(0.05)
    model = learned(Dataset(data.X[KEPT], data.y[KEPT]), POSITION)
    how = POSITION.neighbours, POSITION.candidate_neighbours, 0.0
    kernel, store = model._averaged(), model._store
    left = left_out(store.sites, LINES - 2, *how)
    slopes = refit.squared_slopes(kernel, store, *how)
    _, error, variance = refit.refit(kernel, store.sites, left, slopes, 0.1)
    even = left.stretch % 2 == 0
    found = refit._fitted(kernel, store.sites, left.part(~even), slopes, 0.1, refit.Variant(1.0))
    sites = refit._noisy(store.sites, found.position, slopes)
    expected = errors_of(found.applied(kernel), sites, left.part(even))
    assert torch.equal(error[even], expected[0]) and torch.equal(variance[even], expected[1])


def test_spurious_variations_of_fields_are_reduced():
    data = displaced(0.05)
    model = learned(Dataset(data.X[KEPT], data.y[KEPT]), POSITION)
    how = POSITION.neighbours, POSITION.candidate_neighbours, 0.0
    kernel, store = model._averaged(), model._store
    F, generator = kernel.F.clone(), torch.Generator().manual_seed(2)
    F[:, :2] += 0.5 * torch.randn(len(F), 2, generator=generator).double()
    kernel = replace(kernel, F=F)
    left = left_out(store.sites, LINES - 2, *how)
    found, *new = refit.refit(
        kernel, store.sites, left, refit.squared_slopes(kernel, store, *how), 0.1
    )
    assert found.share == 0.5
    assert refit.crps(*new) < 0.8 * refit.crps(*errors_of(kernel, store.sites, left))


def test_a_share_of_one_leaves_the_fields_bit_for_bit():
    kernel = learned(survey(offset=0.3))._averaged()
    learned_noise = float(kernel.noise - LEAST_NOISE)
    whole, half = (
        refit.Refit(0.0, 0.0, math.log(learned_noise), 0.0, share).applied(kernel).F
        for share in (1.0, 0.5)
    )
    assert torch.equal(whole, kernel.F)
    assert torch.allclose(half[:, :2].mean(0), kernel.F[:, :2].mean(0))
    assert torch.allclose(half[:, :2].std(0), 0.5 * kernel.F[:, :2].std(0))
    assert torch.equal(half[:, 2:], kernel.F[:, 2:])


def test_the_crps_is_that_of_many_draws():
    generator = torch.Generator().manual_seed(0)
    error, variance = (
        torch.tensor([-1.0, 0.5, 3.0]).double(),
        torch.tensor([0.3, 4.0, 1.0]).double(),
    )
    one, other = torch.randn(2, 400_000, 3, generator=generator).double() * variance.sqrt()
    # E |D - e| - E |D - D'| / 2
    expected = (one - error).abs().mean() - (one - other).abs().mean() / 2
    assert refit.crps(error, variance) == pytest.approx(expected.item(), rel=0.01)


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
        of_draws = simulate(kernel, store, x, near, noise)[:, ::3].mean(1).var()
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
    model = learned(Dataset(data.X[:first], data.y[:first]), replace(POSITION, tail=10.0))
    left = left_out(model._store.sites, 6, FEW.neighbours, FEW.candidate_neighbours, 0.0)
    assert tells_noise(model._averaged(), model._store.sites, left) == twice
    model.calibrate(6)
    assert twice or model._refit is None  # any noise would explain errors far from all lines


def test_without_near_lines_small_variances_are_not_taken_for_noise():
    generator = torch.Generator().manual_seed(0)
    variance = torch.linspace(0.1, 10, 4000).double()
    error = (3 * variance).sqrt() * torch.randn(4000, generator=generator).double()
    stretch = torch.arange(4000) % 16
    assert widening(error, variance, stretch).added > 1.0
    found = widening(error, variance, stretch, telling=False)
    assert found.added < 0.05 and found.factor > 2.7
