"""The online model: functions of the rows, training without data, covariances."""

import pytest
import torch
from problems import make_kernel, make_online, scattered

from poam_ros.core.settings import rows
from poam_ros.models.kernels import KERNELS
from poam_ros.models.registry import MODELS, SparseOptions
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.online import build

XS = scattered(40, 99).X


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
    assert report.noise_std == pytest.approx(online.model.noise.item() ** 0.5)
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
    Kff = online.model.kernel.forward(online.data.X, online.data.X).detach()
    Ks = online.model.kernel.forward(online.data.X, XS).detach()
    V = Kff + online.model.noise.detach() * torch.eye(40, dtype=Kff.dtype)
    mean = Ks.mT @ torch.linalg.solve(V, online.data.y)
    torch.testing.assert_close(online.predict(XS).mean, mean, rtol=0, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_covariance_has_the_variances_on_its_diagonal(method):
    online = make_online(24, method=method, steps=2, minibatch=32, noise=0.5)
    online.update(scattered(40, 0))
    covariance, variance = online.covariance(XS), online.predict(XS).variance
    torch.testing.assert_close(covariance.diagonal(), variance, rtol=0, atol=1e-9)
    torch.testing.assert_close(covariance, covariance.mT, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(covariance).min() > 0.9 * online.model.noise.item()


def test_fields_and_support_have_their_shapes():
    online = make_online(24, kernel=make_kernel())
    online.update(scattered(40, 0))
    fields_ = online.fields(XS)
    assert list(fields_) == ["lengthscale"] and fields_["lengthscale"].shape == (40,)
    assert online.support is online.model.Z and len(online.support) == 24
