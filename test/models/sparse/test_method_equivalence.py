"""The methods equal each other and the exact GP where they must."""

import pytest
import torch
from problems import XS, M, after_updates, make_online, scattered, set_options, soft_kernel

from poam_ros.models.interface import Dataset
from poam_ros.models.sparse.inducing import Inducing, SelectionInput, pivoted_from_old_and_new
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.online import ResolvedMethod

# Equivalences: Z and hyperparameters fixed


def fixed_z():
    """What makes a row's inducing inputs those that PCD chose of the first data."""

    def keep(given: SelectionInput) -> Inducing:
        if len(given.Z_old) == 0:
            return pivoted_from_old_and_new(given)
        return Inducing(given.old_and_new(), torch.arange(len(given.Z_old)))

    return {"select": keep, "learns": frozenset(), "train_first": False}


def run_fixed(method, parts):
    online = make_online(M, method=method, noise=0.05, replaced=fixed_z())
    for part in parts:
        online.update(part)
    return online


def batches(count=5):
    return [scattered(60, 0), *(scattered(30, k) for k in range(1, count))]


@pytest.mark.parametrize("method", ["ovc", "ssgp", "full", "pam", "sgpr"])
def test_with_z_and_hyperparameters_fixed_all_methods_agree(method):
    poam, other = (run_fixed(m, batches()).predict(XS) for m in ("poam", method))
    torch.testing.assert_close(other.mean, poam.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(other.variance, poam.variance, rtol=0, atol=1e-8)


def test_batch_sgpr_has_the_same_posterior():
    parts = batches()
    everything = Dataset(torch.cat([p.X for p in parts]), torch.cat([p.y for p in parts]))
    online = run_fixed("poam", parts)
    place = [int((z == everything.X).all(1).nonzero()[0]) for z in online.model.Z]

    def same(given):
        return Inducing(given.all_data(), torch.tensor(place))

    batch = make_online(M, method="sgpr", noise=0.05, replaced={"select": same})
    batch.update(everything)
    a, b = online.predict(XS), batch.predict(XS)
    torch.testing.assert_close(a.mean, b.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(a.variance, b.variance, rtol=0, atol=1e-8)


def moving(method, moved):
    """Updates with PCD on [Z'; X] while amplitude, network and maybe noise change in between."""
    update = ResolvedMethod.of(METHODS[method]).update
    online = make_online(M, noise=0.05, replaced={"update": update})
    for k, part in enumerate(batches(8)):
        with torch.no_grad():
            if moved in ("all", "kernel"):
                online.model.kernel.raw_amplitude.add_(0.05)
                for p in online.model.kernel.network.parameters():
                    p.mul_(1.02)
            if moved in ("all", "noise"):
                online.model.likelihood.noise = 0.05 * 1.3**k
        online.update(part)
    return online.predict(XS)


@pytest.mark.parametrize("moved", ["all", "noise", "kernel"])
def test_ssgp_equals_ovc_when_hyperparameters_move(moved):
    ovc, ssgp = moving("ovc++", moved), moving("ssgp++", moved)
    torch.testing.assert_close(ssgp.mean, ovc.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(ssgp.variance, ovc.variance, rtol=0, atol=1e-7)


def test_poam_differs_from_ovc_only_once_the_noise_has_moved():
    for moved, same in (("kernel", True), ("noise", False), ("all", False)):
        poam, ovc = moving("poam", moved), moving("ovc++", moved)
        gap = (poam.mean - ovc.mean).abs().max().item()
        assert (gap < 1e-8) if same else (gap > 1e-3)


def test_gpr_is_the_exact_gp():
    online, data = make_online(M, method="gpr", noise=0.05), scattered(80, 0)
    for part in torch.arange(80).chunk(3):
        online.update(data[part])
    model = online.model
    with torch.no_grad():
        K = model.kernel.forward(data.X, data.X) + 0.05 * torch.eye(80, dtype=torch.float64)
        Ks = model.kernel.forward(data.X, XS)
        mean = Ks.mT @ torch.linalg.solve(K, data.y)
        variance = model.kernel.amplitude - (Ks * torch.linalg.solve(K, Ks)).sum(0)
    ours = online.predict(XS, noise=False)
    # up to the jitter of 1e-6 on Kuu
    torch.testing.assert_close(ours.mean, mean, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.variance, variance, rtol=0, atol=1e-4)


def test_resampling_moves_a_few_and_random_choice_takes_no_point_twice():
    online = after_updates("ssgp", 3, steps=0)
    before = online.model.Z
    online.update(scattered(6, 50))
    stayed = (online.model.Z.unsqueeze(1) == before.unsqueeze(0)).all(-1).any(1)
    assert 0 < (~stayed).sum() <= max(1, round(0.01 * M))
    drawn = after_updates("poam-z-rand", 6, steps=0).model.Z
    assert len(torch.unique(drawn, dim=0)) == M


def test_learned_z_moves_and_the_rest_stays():
    for method, moves in (("poam-z-opt", True), ("ovc", True), ("poam", False), ("svgp", True)):
        online = after_updates(method, 3)
        everything = online.data.X
        at_data = (online.model.Z.unsqueeze(1) == everything.unsqueeze(0)).all(-1).any(1)
        assert bool(at_data.all()) != moves, method


def test_more_inducing_inputs_leave_a_learned_posterior_as_it_is():
    # Z grows from 40 to 60 while nothing is learned: q(u) must say the same of every place.
    online = make_online(60, method="svgp", noise=0.5, steps=4, minibatch=32, kernel=soft_kernel())
    online.update(scattered(40, 0))
    before, m = online.predict(XS), online.model.q.m
    set_options(online, steps=0)
    online.update(scattered(20, 1))
    assert len(online.model.Z) == 60
    after = online.predict(XS)
    torch.testing.assert_close(online.model.q.m[:40], m, rtol=0, atol=1e-9)
    torch.testing.assert_close(after.mean, before.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(after.variance, before.variance, rtol=0, atol=1e-8)


def test_the_authors_row_counts_the_first_batch_twice_and_pads_z():
    data = scattered(200, 0)
    crowded = Dataset(0.02 * data.X, data.y)  # PCD stops far below M
    paper, authors = (make_online(80, method=m) for m in ("poam", "poam-authors"))
    for online in (paper, authors):
        online.update(crowded)
    assert len(paper.model.Z) < 80 == len(authors.model.Z)
    assert len(torch.unique(authors.model.Z, dim=0)) == 80
    for times, online in enumerate((paper, authors), 1):
        Kuf = online.model.kernel.forward(online.model.Z, crowded.X).detach()
        torch.testing.assert_close(online.epoch.terms.vector, times * Kuf @ crowded.y)
        torch.testing.assert_close(online.epoch.terms.matrix, times * Kuf @ Kuf.mT)
    authors.update(scattered(5, 1))  # later batches count once
    assert authors.epoch.terms.matrix.isfinite().all()
