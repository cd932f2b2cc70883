"""Soundings that contradict those around them under a smooth kernel and little noise."""

from dataclasses import replace

import pytest
import torch
from problems import scattered

from poam_ros.models.data import Dataset
from poam_ros.models.nngp import conditional
from poam_ros.models.nngp.conditional import condition, first_limited, log_loss
from poam_ros.models.nngp.contradictions import AGAIN, affected, find_contradictions
from poam_ros.models.nngp.fields import ParameterLayout
from poam_ros.models.nngp.kernel import Kernel, TrainingData
from poam_ros.models.nngp.sites import SiteStore
from poam_ros.models.registry import MODELS, NeighbourOptions

LAYOUT = ParameterLayout(hidden=4, lattice=4)
NOISE = 0.02**2


def smooth(exponent=1.95, noise=NOISE):
    """A stationary kernel of lengthscale 0.8."""
    F = torch.zeros(len(LAYOUT.nodes()), 4).double()
    F[:, 1] = torch.tensor(0.8).log()
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (exponent, noise))
    return Kernel(F, *numbers, (0.02, 3.0), 0.05)


def ground(x):
    return 1.5 * (torch.sin(2 * x[:, 0]) + torch.cos(2 * x[:, 1]))


def lines(false, seed=0):
    """Eight lines and three that cross them, with some soundings 0.25 off their place."""
    generator = torch.Generator().manual_seed(seed)
    along = torch.linspace(-1, 1, 150).double()
    rows = [torch.stack([along, torch.full_like(along, y)], 1) for y in torch.linspace(-1, 1, 8)]
    rows += [torch.stack([torch.full_like(along, x), along], 1) for x in (-0.6, 0.1, 0.7)]
    x = torch.cat(rows)
    y = ground(x) + NOISE**0.5 * torch.randn(len(x), generator=generator).double()
    wrong = torch.randperm(len(x), generator=generator)[:false]
    angle = 6.283 * torch.rand(false, generator=generator).double()
    x[wrong] += 0.25 * torch.stack([angle.cos(), angle.sin()], 1)
    return Dataset(x, y)


def filled(pings, checked=True):
    """A store of these pings, all of them checked."""
    store = SiteStore()
    sites = store.append(pings)
    if checked:
        find_contradictions(smooth(), store, sites, 24, 4.0)
    return store


def predicted(store, x):
    near = store.spread(x, 24, 96)
    return condition(smooth(), store.sites, x, near), store.sites.y[near]


def model(**options):
    options = NeighbourOptions(**{"first_steps": 40, "early_steps": 5, **options})
    return MODELS["nngp"].build(options, 0, torch.device("cpu"))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_false_soundings_cause_neither_land_nor_pits(seed):
    pings, x = lines(40, seed), scattered(400, 9).X
    store = filled(pings)
    found, targets = predicted(store, x)
    reach = 4.0001 * found.variance.sqrt()
    assert (found.mean >= targets.amin(1) - reach).all()
    assert (found.mean <= targets.amax(1) + reach).all()
    before, _ = predicted(filled(pings, checked=False), x)
    clean, _ = predicted(filled(lines(0, seed)), x)
    error, error_before = (p.mean - ground(x) for p in (found, before))
    assert error.abs().mean() < 0.5 * error_before.abs().mean()
    loss, loss_before, loss_clean = (
        log_loss(ground(x), p.mean, p.variance).mean() for p in (found, before, clean)
    )
    assert loss_clean < loss < loss_before - 1
    assert 0 < store.contradicting < 60


def test_a_clean_record_is_learned_and_predicted_bit_for_bit_as_before(monkeypatch):
    pings, x, found = lines(0), scattered(100, 9).X, []
    for checks in (True, False):
        if not checks:
            monkeypatch.setattr(
                "poam_ros.models.nngp.online.find_contradictions", lambda *arguments: None
            )
        learned = model(first_steps=120)
        learned.update(pings)
        learned.update(pings[:10])
        assert learned._store.contradicting == 0
        found.append(learned.predict(x))
    assert torch.equal(found[0].mean, found[1].mean)
    assert torch.equal(found[0].variance, found[1].variance)


def test_the_learned_noise_does_not_change_which_sites_contradict():
    pings = lines(40)
    found = []
    for noise in (NOISE, NOISE / 100):
        store = SiteStore()
        find_contradictions(smooth(noise=noise), store, store.append(pings), 24, 4.0)
        found.append(store.contradicting)
    assert found[1] <= 1.5 * found[0]


def test_compiled_equals_torch(monkeypatch):
    if not conditional.native.available():
        pytest.skip("no compiled kernel")
    pings = replace(lines(40, 4), noise=torch.linspace(0, 0.01, 1650).double())
    compiled = filled(pings)
    monkeypatch.setattr(conditional.native, "usable", lambda neighbours: False)
    store = filled(pings)
    assert torch.equal(store.excess > 0, compiled.excess > 0)
    torch.testing.assert_close(store.excess, compiled.excess, rtol=1e-6, atol=1e-9)


def test_a_sounding_confirmed_by_others_no_longer_contradicts():
    pings = lines(0)
    step = torch.tensor([[0.03, 0.0]], dtype=torch.float64)
    pings.y[40] += 0.5
    store = filled(pings)
    assert store.excess[40] > 0.1
    beside = torch.cat([pings.X[40:41] + (i - 3) / 30 * step for i in range(6)])
    new = store.append(Dataset(beside, pings.y[40].expand(6).clone()))
    find_contradictions(smooth(), store, affected(store, new, 24), 24, 4.0)
    assert store.excess[40] == 0


def test_an_update_checks_new_sites_their_neighbours_and_some_in_turn():
    store = filled(lines(40))
    begin = store.next_checked(1).item()
    new = store.append(scattered(5, 3))
    checked = affected(store, new, 24)
    assert set(new.tolist()) <= set(checked.tolist())
    assert len(checked) <= 5 * 25 + AGAIN
    assert begin + 1 in checked
    assert store.next_checked(1).item() == begin + 1 + AGAIN


def test_pings_with_own_noise_keep_it():
    noise = torch.full((1650,), 0.01).double()
    store = filled(replace(lines(40), noise=noise))
    assert store.contradicting
    torch.testing.assert_close(store.sites.own - store.excess, noise, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("backend")
def test_a_mean_outside_the_range_of_its_neighbours_is_limited():
    # Two slopes in a row of nearly no noise: the prediction beyond them goes on and on.
    along = torch.linspace(-0.3, 0.0, 24).double()
    sites = TrainingData(
        torch.stack([along, torch.zeros(24).double()], 1),
        40 * along.square(),
        torch.ones(24).double(),
    )
    F = smooth().F.clone()
    F[:, 0] = -4.0
    kernel = replace(smooth(2.0 - 1e-6, 1e-6), F=F)
    x = torch.tensor([[-0.6, 0.0], [-0.15, 0.0]], dtype=torch.float64)
    near = torch.arange(24).expand(2, 24).contiguous()
    found = condition(kernel, sites, x, near)
    assert found.limited == 1
    reach = 4.0001 * found.variance.sqrt()
    assert (found.mean <= sites.y.max() + reach).all()
    assert (found.mean >= sites.y.min() - reach).all()
    for k in range(5):  # wherever it is among the others
        places = torch.cat([x[1:].expand(k, 2), x, x[1:].expand(3, 2)])
        rows = torch.zeros(len(places), dtype=torch.long)
        every = torch.arange(len(places))
        assert torch.equal(first_limited(kernel, sites, places, near[:1], rows, every), x[:1])
        for others in (every[every != k], every[:0]):
            assert not len(first_limited(kernel, sites, places, near[:1], rows, others))


def test_a_restored_model_continues_bit_for_bit():
    pings, x = lines(40), scattered(50, 9).X
    one, two = model(), model()
    for part in (pings[:900], pings[900:1200]):
        one.update(part)
    assert one._store.contradicting
    state = one.state()
    one.update(pings[1200:])
    two.restore(state)
    two.update(pings[1200:])
    assert torch.equal(one._store.excess, two._store.excess)
    assert torch.equal(one.predict(x).mean, two.predict(x).mean)


def test_a_failed_update_leaves_no_trace(monkeypatch):
    pings = lines(40)
    learned = model()
    for part in (pings[:900], pings[900:1200]):
        learned.update(part)
    before = learned._store.checked()
    monkeypatch.setattr(learned, "_train", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learned.update(pings[1200:])
    after = learned._store.checked()
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=0, atol=0, equal_nan=True)


def test_contradicting_sites_are_known_by_their_places():
    learned = model(max_residual=4.0)
    learned.update(lines(40))
    found = learned.doubts.contradicting
    assert len(found) == learned._store.contradicting > 0
    assert (found[:, None] == learned.data.X).all(2).any(1).all()


def test_the_loss_of_left_out_soundings_shows_false_ones():
    losses = [model(first_steps=80).update(lines(false)).loss for false in (0, 20, 60)]
    assert losses[0] + 0.1 < losses[1] < losses[2] - 0.1


def test_forgetting_that_fails_changes_nothing(monkeypatch):
    def fail():
        context.undo()
        raise MemoryError

    pings, x, kept = lines(40), scattered(50, 9).X, torch.arange(1650) % 3 > 0
    learned = model()
    learned.update(pings)
    before = learned.predict(x)
    with monkeypatch.context() as context:
        context.setattr("poam_ros.models.nngp.sites.make_index", fail)
        with pytest.raises(MemoryError):
            learned.keep(kept)
    found = learned.predict(x)
    assert len(learned.data) == 1650 and torch.equal(found.mean, before.mean)
    learned.keep(kept)
    assert len(learned.data) == int(kept.sum())
    learned.keep(torch.zeros(len(learned.data), dtype=torch.bool))
    learned.update(pings[kept])  # also after all of them are forgotten
    assert len(learned.data) == int(kept.sum()) and learned.predict(x).mean.isfinite().all()


def test_pings_are_forgotten_at_once_as_one_after_the_other():
    """A mission does the former, its replay the latter."""
    at_once, after = model(), model()
    first, second = torch.arange(1650) % 3 > 0, torch.arange(1650) % 7 > 0
    for learned, parts in ((at_once, [first & second]), (after, [first, second[first]])):
        for part in (lines(40)[:900], lines(40)[900:]):
            learned.update(part)
        for part in parts:
            learned.keep(part)
    found, expected = after._store.checked(), at_once._store.checked()
    assert (expected["excess"] > 0).any() and len(expected["lost"]) > 500
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True)


def test_sites_beside_forgotten_pings_are_checked_with_the_next_update():
    """False pings outnumber a true line that crosses them, until they are forgotten."""
    along, zero = torch.linspace(-1, 1, 81).double(), torch.zeros(81).double()
    false = torch.cat([torch.stack([along, zero + y], 1) for y in (-0.02, 0.0, 0.02)])
    X, y = torch.cat([false, torch.stack([zero, along], 1)]), torch.zeros(4 * 81).double()
    y[: 3 * 81] = 3.0
    y += 0.02 * torch.randn(len(y), generator=torch.Generator().manual_seed(0)).double()
    learned = model(max_residual=4.0)
    learned.update(Dataset(X, y))
    crossed = 3 * 81 + 40
    assert learned._store.excess[crossed] > 0
    learned.keep(torch.arange(len(y)) >= 3 * 81)
    assert learned._store.excess[crossed - 3 * 81] > 0  # not checked yet
    learned.update(Dataset(X[-1:] + 0.1, y[-1:]))
    assert learned._store.excess[crossed - 3 * 81] == 0
    assert len(learned._store.lost) == 0
