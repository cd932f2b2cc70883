"""The contract that every row of METHODS keeps, and what the methods must equal."""

from dataclasses import replace

import pytest
import torch
from problems import make_kernel, make_online, scattered, set_options

from poam_ros.errors import CholeskyError
from poam_ros.gp.data import Dataset
from poam_ros.gp.interface import ModelState
from poam_ros.gp.kernels import attentive as kernels
from poam_ros.gp.kernels.others import KERNELS
from poam_ros.gp.models import SparseOptions
from poam_ros.gp.sparse import training
from poam_ros.gp.sparse.inducing import Choice, Inducing, pivoted_from_old_and_new
from poam_ros.gp.sparse.methods import METHODS
from poam_ros.gp.sparse.online import Recipe

M = 24
XS = scattered(60, 99).X


def soft_kernel():
    return make_kernel(sharpness=1.0)


def after_updates(method, count=50, *, batch=6, steps=2, **options):
    """An online model after a pilot of 40 and more updates, hyperparameters moving."""
    settings = {"noise": 0.5, "steps": steps, "minibatch": 32, "kernel": soft_kernel(), **options}
    online = make_online(M, method=method, **settings)
    online.update(scattered(40, 0))
    for k in range(1, count):
        online.update(scattered(batch, k))
    return online


@pytest.fixture(scope="module", autouse=True)
def loose_convergence():
    """SSGP's L-BFGS-B would take most of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "CONVERGED", 1e-3)
        yield


@pytest.fixture(scope="module")
def fifty():
    """Every method after 50 updates; made when asked for, once."""
    made = {}

    def get(method):
        if method not in made:
            made[method] = after_updates(method)
        return made[method]

    return get


@pytest.mark.parametrize("method", METHODS)
def test_after_fifty_updates_everything_is_finite_and_in_shape(method, fifty):
    online = fifty(method)
    count = 40 + 49 * 6
    assert len(online.data) == count
    assert online.model.Z.shape == ((count if method == "gpr" else M), 2)
    prediction = online.predict(XS)
    assert prediction.mean.shape == prediction.variance.shape == (60,)
    assert prediction.mean.isfinite().all() and prediction.variance.isfinite().all()
    # with the noise, and not much more than the prior's
    noise, amplitude = online.model.noise.item(), online.model.kernel.amplitude.item()
    assert (prediction.variance >= noise).all()
    assert (prediction.variance <= 1.01 * (amplitude + noise)).all()
    hyperparameters = torch.cat([p.detach().reshape(-1) for p in online.model.parameters()])
    start = torch.cat([p.detach().reshape(-1) for p in soft_kernel().parameters()])
    assert hyperparameters.isfinite().all()
    assert (hyperparameters[-len(start) :] != start).any()


@pytest.mark.parametrize("method", METHODS)
def test_the_predictive_covariance_is_positive_semi_definite(method, fifty):
    model = fifty(method).model
    with torch.no_grad():
        Kuu = model.kernel.forward(model.Z, model.Z)
        Kuu = Kuu + model.jitter * torch.eye(len(Kuu), dtype=Kuu.dtype)
        A = torch.linalg.solve(Kuu, model.kernel.forward(model.Z, XS))
        covariance = model.kernel.forward(XS, XS) - A.mT @ (Kuu - model.q.S) @ A
        mean = A.mT @ model.q.m
    assert torch.linalg.eigvalsh(0.5 * (covariance + covariance.mT)).min() > -1e-8
    # and it is the one that predictions are made from
    ours = model.predict(XS, noise=False)
    torch.testing.assert_close(ours.mean, mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(ours.variance, covariance.diagonal(), rtol=0, atol=1e-7)
    sign, logdet = torch.linalg.slogdet(model.q.S)
    assert sign > 0 and logdet.item() == pytest.approx(model.q.logdet.item(), rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_same_seeds_same_result(method):
    first, second = (after_updates(method, 5) for _ in range(2))
    assert torch.equal(first.predict(XS).mean, second.predict(XS).mean)
    assert torch.equal(first.model.Z, second.model.Z)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "gpr"])
def test_z_is_filled_up_to_m_and_then_stays_full(method):
    online = make_online(60, method=method, steps=1, minibatch=16, kernel=soft_kernel(), noise=0.5)
    sizes = []
    for k in range(5):
        online.update(scattered(25, k))
        sizes.append(len(online.model.Z))
        assert len(torch.unique(online.model.Z, dim=0)) == sizes[-1]
    assert sizes == [25, 50, 60, 60, 60]


class _Counted:
    """Counts the entries of every covariance that is computed."""

    def __init__(self, monkeypatch):
        self.entries = 0
        real = kernels.AttentiveKernel._blend

        def counted(kernel, X1, X2, W1, W2, base):
            K = real(kernel, X1, X2, W1, W2, base)
            self.entries += K.numel()
            return K

        monkeypatch.setattr(kernels.AttentiveKernel, "_blend", counted)


def with_more_data(state, more):
    """The state of a model that holds more data, all else being the same."""
    data = {name: torch.cat([t, getattr(more, name)]) for name, t in state.tree["data"].items()}
    return ModelState({**state.tree, "data": data})


def work_and_memory(online, monkeypatch):
    """Entries of covariances in one update, and numbers kept for the next, with little and more
    data in the store."""
    counted, work, kept = _Counted(monkeypatch), [], []
    for extra in (0, 1500):
        if extra:  # data appear in the store without a thousand updates
            online.restore(with_more_data(online.state(), scattered(extra, 5)))
        counted.entries = 0
        online.update(scattered(6, 60 + extra))
        work.append(counted.entries)
        kept.append(sum(t.numel() for t in _tensors(online.epoch)) + online.model.q.root.numel())
    return work, kept


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))


def two_evaluations(step, objective, optimizer, steps):
    """In L-BFGS-B's place: how many it takes is the data's affair, what each costs is not."""
    return [objective(step).item() for _ in range(2)]


@pytest.mark.parametrize("method", METHODS)
def test_constant_time_methods_do_not_grow_with_n(method, monkeypatch):
    online = after_updates(method, 2)
    if METHODS[method].train == "lbfgs":
        online.recipe = replace(online.recipe, train=two_evaluations)
    work, kept = work_and_memory(online, monkeypatch)
    if METHODS[method].constant_time:
        assert work[1] == work[0]
        assert kept[1] == kept[0]
    else:
        assert work[1] > 5 * work[0]


def test_the_count_of_work_sees_the_m_step(monkeypatch):
    monkeypatch.setattr(training.MStep, "draw", lambda step: step.data)
    work, _ = work_and_memory(after_updates("poam", 2), monkeypatch)
    assert work[1] > 5 * work[0]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("method", METHODS)
def test_every_kernel_goes_with_every_method(method, kernel):
    made = KERNELS[kernel](SparseOptions(), torch.Generator().manual_seed(0))
    before = [p.detach().clone() for p in made.parameters()]
    online = after_updates(method, 3, kernel=made)
    prediction = online.predict(XS)
    assert prediction.mean.isfinite().all() and (prediction.variance > 0).all()
    lengthscale = made.lengthscale_at(XS)
    assert lengthscale.shape == (60,) and (lengthscale > 0).all()
    assert all((p != b).any() for p, b in zip(made.parameters(), before, strict=True))


@pytest.mark.parametrize("method", ["svgp", "poam-z-opt", "poam-var-opt", "ovc", "ssgp"])
def test_a_failed_update_leaves_the_learned_as_they_were(method, monkeypatch):
    online, twin, other = (after_updates(method, 5) for _ in range(3))
    calls = []

    def counted(real, last):
        def factorise(K, name):
            calls.append(name)
            if len(calls) == last:
                raise CholeskyError("the last matrix of the update")
            return real(K, name)

        return factorise

    monkeypatch.setattr(other.model, "factorise", counted(other.model.factorise, None))
    other.update(scattered(6, 20))
    last, calls = len(calls), []
    with monkeypatch.context() as broken:
        broken.setattr(online.model, "factorise", counted(online.model.factorise, last))
        with pytest.raises(CholeskyError):
            online.update(scattered(6, 20))
    assert len(online.data) == len(twin.data)
    for each in (online, twin):
        each.update(scattered(6, 77))
    assert torch.equal(online.predict(XS).mean, twin.predict(XS).mean)


# Equivalences: Z and hyperparameters fixed


def fixed_z():
    """What makes a row's inducing inputs those that PCD chose of the first data."""

    def keep(choice: Choice) -> Inducing:
        if len(choice.Z_old) == 0:
            return pivoted_from_old_and_new(choice)
        return Inducing(choice.old_and_new(), torch.arange(len(choice.Z_old)))

    return {"select": keep, "learns": frozenset(), "train_first": False}


def run_fixed(method, parts):
    online = make_online(M, method=method, noise=0.05, recipe=fixed_z())
    for part in parts:
        online.update(part)
    return online


def batches(count=5):
    return [scattered(60, 0), *(scattered(30, k) for k in range(1, count))]


@pytest.mark.parametrize("method", ["ovc", "ssgp", "full", "pam", "sgpr"])
def test_with_z_and_hyperparameters_fixed_all_are_one(method):
    poam, other = (run_fixed(m, batches()).predict(XS) for m in ("poam", method))
    torch.testing.assert_close(other.mean, poam.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(other.variance, poam.variance, rtol=0, atol=1e-8)


def test_batch_sgpr_is_the_same_posterior_in_one_go():
    parts = batches()
    everything = Dataset(torch.cat([p.X for p in parts]), torch.cat([p.y for p in parts]))
    online = run_fixed("poam", parts)
    place = [int((z == everything.X).all(1).nonzero()[0]) for z in online.model.Z]

    def same(choice):
        return Inducing(choice.everything(), torch.tensor(place))

    batch = make_online(M, method="sgpr", noise=0.05, recipe={"select": same})
    batch.update(everything)
    a, b = online.predict(XS), batch.predict(XS)
    torch.testing.assert_close(a.mean, b.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(a.variance, b.variance, rtol=0, atol=1e-8)


def moving(method, moved):
    """Updates with PCD on [Z'; X] while amplitude, network and maybe noise change in between."""
    update = Recipe.of(METHODS[method]).update
    online = make_online(M, noise=0.05, recipe={"update": update})
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
    Kuf = authors.model.kernel.forward(authors.model.Z, crowded.X).detach()
    torch.testing.assert_close(authors.epoch.terms.vector, 2 * Kuf @ crowded.y)
    authors.update(scattered(5, 1))  # later batches count once
    assert authors.epoch.terms.matrix.isfinite().all()
