"""The contract that every row of METHODS keeps, and the online model of it."""

from dataclasses import replace

import pytest
import torch
from problems import XS, M, after_updates, make_online, scattered, soft_kernel

from poam_ros.core.settings import rows
from poam_ros.models.interface import Dataset, ModelState, pack
from poam_ros.models.kernels import KERNELS, AttentiveKernel
from poam_ros.models.registry import MODELS, SparseOptions
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.model import SparseGP, build


@pytest.fixture(scope="module")
def updated():
    """Every method after 25 updates; made when asked for, once."""
    made = {}

    def get(method):
        if method not in made:
            made[method] = after_updates(method, 25)
        return made[method]

    return get


@pytest.mark.parametrize("method", METHODS)
def test_after_25_updates_everything_is_finite_and_in_shape(method, updated):
    online = updated(method)
    count = 40 + 24 * 6
    assert len(online.data) == count
    assert online.Z.shape == ((count if method == "gpr" else M), 2)
    prediction = online.predict(XS)
    assert prediction.mean.shape == prediction.variance.shape == (60,)
    assert prediction.mean.isfinite().all() and prediction.variance.isfinite().all()
    # with the noise, and not much more than the prior's
    noise, amplitude = online.noise.item(), online.kernel.amplitude.item()
    assert (prediction.variance >= noise).all()
    assert (prediction.variance <= 1.01 * (amplitude + noise)).all()
    hyperparameters = torch.cat([p.detach().reshape(-1) for p in online.parameters()])
    start = torch.cat([p.detach().reshape(-1) for p in soft_kernel().parameters()])
    assert hyperparameters.isfinite().all()
    assert (hyperparameters[-len(start) :] != start).any()


@pytest.mark.parametrize("method", METHODS)
def test_the_predictive_covariance_is_positive_semi_definite(method, updated):
    model = updated(method)
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


@pytest.mark.parametrize("method", [m for m in METHODS if m != "gpr"])
def test_z_is_filled_up_to_m_and_then_stays_full(method):
    online = make_online(60, method=method, steps=1, minibatch=16, kernel=soft_kernel(), noise=0.5)
    sizes = []
    for k in range(5):
        online.update(scattered(25, k))
        sizes.append(len(online.Z))
        assert len(torch.unique(online.Z, dim=0)) == sizes[-1]
    assert sizes == [25, 50, 60, 60, 60]


class Counting(AttentiveKernel):
    """Counts the entries of every covariance that is computed."""

    entries = 0

    def forward(self, x1, x2, diag=False, **params):
        K = super().forward(x1, x2, diag, **params)
        self.entries += K.numel()
        return K

    def inducing_covariances(self, Z, X):
        Kuu, Kuf = super().inducing_covariances(Z, X)
        self.entries += Kuu.numel() + Kuf.numel()
        return Kuu, Kuf


def work_and_memory(online):
    """Entries of covariances in one update, and numbers kept for the next, with little and more
    data in the store."""
    counted, work, kept = online.kernel, [], []
    for extra in (0, 1500):
        if extra:  # data appear in the store without a thousand updates
            tree, more = online.state().tree, scattered(extra, 5)
            data = Dataset(**tree["data"]).more(more)
            online.restore(ModelState({**tree, "data": vars(data)}))
        counted.entries = 0
        online.update(scattered(6, 60 + extra))
        work.append(counted.entries)
        arrays, _ = pack(online.state())
        kept.append(sum(a.size for name, a in arrays.items() if not name.startswith("data.")))
    return work, kept


def two_evaluations(epoch, enough):
    """Replaces L-BFGS-B: the number of evaluations depends on the data, their cost must not."""
    return [epoch.model.method.objective(epoch).item() for _ in range(2)]


@pytest.mark.parametrize("method", METHODS)
def test_constant_time_methods_do_not_grow_with_n(method):
    online = after_updates(method, 2, kernel=soft_kernel(Counting))
    if METHODS[method].train == "lbfgs":
        online.method = replace(online.method, train=two_evaluations)
    work, kept = work_and_memory(online)
    if METHODS[method].constant_time:
        assert work[1] == work[0]
        assert kept[1] == kept[0]
    else:
        assert work[1] > 5 * work[0]


def test_counted_operations_include_the_m_step(monkeypatch):
    monkeypatch.setattr(SparseGP, "draw", lambda model: model.data)
    work, _ = work_and_memory(after_updates("poam", 2, kernel=soft_kernel(Counting)))
    assert work[1] > 5 * work[0]


@pytest.mark.slow
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


def test_every_method_is_a_model_and_every_kernel_can_be_chosen():
    assert {name: MODELS[name].bounded_time for name in METHODS} == {
        name: method.constant_time and method.train == "adam" for name, method in METHODS.items()
    }
    choices = next(row.choices for row in rows(SparseOptions) if row.name == "sparse.kernel")
    assert choices == tuple(KERNELS)


def test_the_seed_determines_everything():
    def predicted(seed):
        online = build(METHODS["svgp"], SparseOptions(num_inducing=20, minibatch=32), seed, "cpu")
        online.update(scattered(60, 0))
        return online.predict(XS).mean

    state = torch.random.get_rng_state()
    assert torch.equal(predicted(1), predicted(1))
    assert not torch.equal(predicted(1), predicted(2))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("method", METHODS)
def test_a_report_describes_the_update(method):
    online = make_online(24, method=method, steps=3, minibatch=32, noise=0.5)
    report = online.update(scattered(40, 0))
    assert list(report.seconds) == ["inducing", "variational", "training"]
    assert min(report.seconds.values()) > 0
    assert report.steps >= 3 and report.support == len(online.support)
    assert report.noise_std == pytest.approx(online.noise.item() ** 0.5)
    assert report.jitter == online.extra_jitter and abs(report.loss) < 10


@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].train == "adam"])
def test_an_update_ended_early_equals_one_of_as_many_steps(method):
    early, short = (make_online(24, method=method, steps=s, minibatch=32) for s in (9, 3))
    for seed in (0, 1):
        assert early.update(scattered(40, seed), lambda taken: taken >= 3).steps == 3
        short.update(scattered(40, seed))
    assert torch.equal(early.predict(XS).mean, short.predict(XS).mean)
    assert early.update(scattered(5, 2), lambda taken: True).steps == 0
    assert len(early.data) == 85


def test_after_training_q_is_the_optimal_one_of_the_hyperparameters():
    online = make_online(24, method="gpr", steps=6, noise=0.5)
    online.update(scattered(40, 0))
    Kff = online.kernel.forward(online.data.X, online.data.X).detach()
    Ks = online.kernel.forward(online.data.X, XS).detach()
    V = Kff + online.noise.detach() * torch.eye(40, dtype=Kff.dtype)
    mean = Ks.mT @ torch.linalg.solve(V, online.data.y)
    torch.testing.assert_close(online.predict(XS).mean, mean, rtol=0, atol=1e-4)
