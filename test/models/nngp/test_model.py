"""The nearest-neighbour model as a map model: learning, state, rollback, constant work."""

from dataclasses import replace

import pytest
import torch
from problems import SHORT, built, same, scattered

from poam_ros.core.errors import CholeskyError, InputError
from poam_ros.models.interface import Dataset
from poam_ros.models.nngp.sites import Index, NumpyIndex, SiteStore
from poam_ros.models.registry import NeighbourOptions


def ground(count, seed):
    X = scattered(count, seed).X
    y = torch.sin(3 * X[:, 0]) + 0.5 * torch.cos(5 * X[:, 1])
    return Dataset(X, y)


def fed(*batches, options=SHORT):
    model = built(options)
    for batch in batches:
        model.update(batch)
    return model


def test_it_learns_a_smooth_bottom():
    model = fed(ground(300, 1), options=NeighbourOptions(first_steps=120))
    truth = ground(200, 2)
    found = model.predict(truth.X)
    assert (found.mean - truth.y).square().mean() < 0.02 * truth.y.var()
    inside = (found.mean - truth.y).abs() < 1.96 * found.variance.sqrt()
    assert inside.double().mean() > 0.9
    assert (found.variance > model.predict(truth.X, noise=False).variance).all()


def test_a_report_describes_the_update():
    model = built()
    report = model.update(ground(50, 1))
    assert report.steps == 15
    assert set(report.seconds) == {"index", "training"}
    assert model.update(ground(5, 2)).steps == 3
    assert len(model.data) == 55
    assert report.noise_std > 0
    assert report.support == len(model.support) == 0


def test_an_update_ended_early_equals_one_of_as_many_steps():
    early, short = built(), built(options=replace(SHORT, first_steps=4, early_steps=2))
    for count, steps, seed in ((50, 4, 1), (9, 2, 2)):
        report = early.update(ground(count, seed), lambda taken, steps=steps: taken >= steps)
        short.update(ground(count, seed))
        assert report.steps == steps
    same(early, short)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 23, 24, 25])
def test_the_first_batch_may_have_any_size(count):
    model = fed(ground(count, 1))
    found = model.predict(torch.cat([scattered(20, 2).X, torch.full((1, 2), 1e5).double()]))
    assert found.mean.isfinite().all()
    assert (found.variance > 0).all()


def test_repeated_places_count_as_one_with_less_noise():
    data = ground(40, 1)
    thrice = Dataset(data.X.repeat_interleave(3, 0), data.y.repeat_interleave(3))
    thrice = Dataset(thrice.X, thrice.y + torch.tensor([-0.3, 0.0, 0.3]).double().repeat(40))
    store = SiteStore()
    for part in range(0, 120, 7):  # a place may go on in the next batch
        store.append(thrice[slice(part, part + 7)])
    assert len(store) == 40
    assert len(store.pings) == 120
    torch.testing.assert_close(store.sites.y, data.y)
    torch.testing.assert_close(store.sites.noise, torch.full((40,), 1 / 3).double())


def test_identical_pings_and_a_vehicle_that_stands_still():
    still = Dataset(torch.zeros(500, 2).double(), torch.linspace(-1, 1, 500).double())
    model = fed(ground(30, 1), still, still)
    found = model.predict(torch.zeros(1, 2).double())
    assert found.mean.item() == pytest.approx(0.0, abs=0.2)
    assert found.variance.isfinite().all()


def test_a_model_is_restored_after_a_failed_update():
    model, twin = fed(ground(60, 1)), fed(ground(60, 1))
    bad = ground(40, 2)
    bad.y[:] = float("nan")
    state = model.state()
    with pytest.raises(CholeskyError):
        model.update(bad)
    model.restore(state)
    assert len(model.data) == 60
    same(model, twin)
    model.update(ground(5, 3))
    twin.update(ground(5, 3))
    same(model, twin)


def test_covariance_has_the_order_of_the_marginals():
    model = fed(ground(100, 1))
    x = scattered(6, 3).X
    joint, single = model.covariance(x), model.predict(x).variance
    assert joint.shape == (6, 6)
    assert torch.linalg.eigvalsh(joint).min() > 0
    assert (joint.diagonal() < single + 1e-6).all()
    assert (joint.diagonal() > 0.2 * single).all()
    assert model.covariance(x, noise=False).diagonal().lt(joint.diagonal()).all()


def test_the_covariance_of_too_many_neighbours_is_none():
    model = fed(ground(3000, 1), options=NeighbourOptions(first_steps=0))
    assert model.covariance(scattered(1000, 2).X) is None


def test_fields():
    found = fed(ground(80, 1)).fields(scattered(30, 2).X)
    assert set(found) == {"lengthscale", "amplitude", "anisotropy"}
    assert (found["anisotropy"] >= 1).all()
    assert all((values > 0).all() for values in found.values())


@pytest.mark.skipif(Index is NumpyIndex, reason="no compiled search")
def test_the_work_of_an_update_does_not_grow():
    options = NeighbourOptions(first_steps=1, early_steps=4, update_steps=4, hidden=8, lattice=8)
    looked = []
    for count in (8000, 32_000):
        model = fed(ground(count, 1), options=options)
        before = model._store._index.looked_at
        for seed in range(5):
            model.update(ground(20, 10 + seed))
        looked.append(model._store._index.looked_at - before)
    assert looked[1] < 1.6 * looked[0]


def test_training_does_not_search_far():
    data = ground(600, 1)

    def learned(**changed):
        return fed(data, options=replace(SHORT, **changed)).state().tree["learned"]["theta"]

    assert torch.equal(learned(), learned(candidate_neighbours=96, neighbour_spacing=0.0))


def test_before_any_data():
    with pytest.raises(ValueError, match="expected data before"):
        built().predict(torch.zeros(1, 2).double())
    assert built().covariance(torch.zeros(1, 2).double()) is None


def test_options_are_checked():
    with pytest.raises(
        InputError, match="candidate_neighbours: expected at least the 24 neighbours, got 10"
    ):
        NeighbourOptions(candidate_neighbours=10)


def test_a_store_knows_where_its_sites_are():
    X = torch.tensor([[0, 0], [0.001, 0.001], [0.5, -0.2], [0.5, -0.2], [1.5, 0], [2, 0]])
    data = Dataset(X.double(), torch.arange(6.0).double())
    whole, parts = SiteStore(), SiteStore()
    whole.append(data)
    for i in range(6):
        parts.append(data[i : i + 1])
    parts.restore(parts.pings)
    for store in (whole, parts):
        # What lies outside belongs to the cells of the border.
        assert store.occupied == 3


def test_anisotropy_shared_by_the_workspace_may_be_free_of_penalty():
    """The bottom changes along x alone: least and largest ratio of the axes over the workspace."""
    held = NeighbourOptions(
        first_steps=150, hidden=8, lattice=8, left_out=64, anisotropy_penalty=1e5,
        weight_penalty=0.0,
    )  # fmt: skip

    def ratios(options):
        X, model = scattered(300, 1).X, built(options)
        model.update(Dataset(X, torch.sin(6 * X[:, 0])))
        return model.fields(scattered(200, 2).X)["anisotropy"].aminmax()

    least, most = ratios(replace(held, shared_anisotropy=0.0))
    assert least > 1.5
    assert most < 1.1 * least  # from place to place it is held as before
    _, most = ratios(held)
    assert most < 1.1


def test_a_model_is_restored_after_forgetting_has_failed(monkeypatch):
    def fail():
        context.undo()
        raise MemoryError

    data, x = ground(400, 0), scattered(50, 9).X
    model, kept = fed(data), torch.arange(400) % 3 > 0
    before, state = model.predict(x), model.state()
    with monkeypatch.context() as context:
        context.setattr("poam_ros.models.nngp.sites.Index", fail)
        with pytest.raises(MemoryError):
            model.keep(kept)
    model.restore(state)
    assert len(model.data) == 400
    assert torch.equal(model.predict(x).mean, before.mean)
    model.keep(kept)
    assert len(model.data) == int(kept.sum())
    model.keep(torch.zeros(len(model.data), dtype=torch.bool))
    model.update(data[kept])  # also after all of them are forgotten
    assert len(model.data) == int(kept.sum()) and model.predict(x).mean.isfinite().all()


def test_pings_are_forgotten_at_once_as_one_after_the_other():
    """A mission does the former, its replay the latter."""
    data = ground(400, 0)
    first, second = torch.arange(400) % 3 > 0, torch.arange(400) % 7 > 0
    one, other = fed(data[:200], data[200:]), fed(data[:200], data[200:])
    one.keep(first & second)
    for part in (first, second[first]):
        other.keep(part)
    same(one, other)
