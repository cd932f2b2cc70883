"""Which sites a query gets, in NumPy and in C."""

import numpy as np
import pytest
import torch
from problems import scattered

from poam_ros.models.nngp.sites import EVERYTHING, Index, NativeIndex, NumpyIndex, Subset, numbers

KINDS = list({NumpyIndex: None, Index: None})
K, POOL = 24, 96


def filled(kind, X, batch=170):
    index = kind()
    for part in X.split(batch):
        index.add(part)
    return index


def by_hand(X, x, k, pool, share=EVERYTHING, apart=0.0, elsewhere=False):
    """The rule in words: sort by distance, take the pool; those that lie apart come first, the
    others are dealt round the octants."""
    number = numbers(0, len(X)) * 2.0**-32
    v = (X.float().double() - x.float().double()).numpy()  # a search goes by places in float32
    squared = [dx * dx + dy * dy for dx, dy in v]
    able = []
    for i in range(len(X)):
        within = number[i] * 4**share.level - share.part
        if (
            0 <= within < 1
            and (within - share.start) % 1.0 < share.size
            and (squared[i] > 0 or not elsewhere)
        ):
            able.append(i)
    near = sorted(able, key=lambda i: (squared[i], i))[:pool]
    chosen, turns, dealt = [], {}, []
    for i in near if apart else []:
        # As the squared distance from the query is more than apart^2 of that from the chosen
        if len(chosen) < k and all(
            ((v[i] - v[j]) ** 2).sum() > apart**2 * squared[i] for j in chosen
        ):
            chosen.append(i)
    for place, i in enumerate(i for i in near if i not in chosen):
        octant = v[i][0] < 0, v[i][1] < 0, abs(v[i][1]) > abs(v[i][0])
        turns[octant] = turns.get(octant, 0) + 1
        dealt.append((turns[octant], place, i))
    chosen += [i for _, _, i in sorted(dealt)[: k - len(chosen)]]
    return chosen + [-1] * (k - len(chosen))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 5, 30, 400, 3000])
@pytest.mark.parametrize("share", [EVERYTHING, Subset(0.9, 0.3), Subset(0.4, 0.5, 2, 11)])
def test_neighbours_follow_the_rule(kind, count, share):
    X = 1.2 * scattered(count, 1).X
    index = filled(kind, X)
    # Inside, at the border and far outside
    queries = torch.cat([1.5 * scattered(8, 2).X, torch.tensor([[30.0, -2.0]]).double(), X[:1]])
    for elsewhere in (False, True):
        found = index.spread(queries, K, POOL, 0.0, share, elsewhere)
        expected = [by_hand(X, x, K, POOL, share, elsewhere=elsewhere) for x in queries]
        assert found.tolist() == expected
    assert 0 not in found[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("count", "pool", "apart"), [(20, 30, 0.3), (800, 96, 0.5), (800, 600, 0.2)]
)
def test_neighbours_that_lie_apart_come_first(kind, count, pool, apart):
    # Lines of a survey: what is nearest lies on one of them
    along = torch.linspace(-1, 1, count // 4).double()
    X = torch.cat([torch.stack([along, 0.0 * along + y], 1) for y in (-0.6, -0.1, 0.3, 0.9)])
    X = X + 1e-3 * scattered(len(X), 6).X
    queries, share = scattered(12, 7).X, Subset(0.1, 0.9)
    found = filled(kind, X).spread(queries, K, pool, apart, share)
    assert found.tolist() == [by_hand(X, x, K, pool, share, apart=apart) for x in queries]


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_ends_where_the_numbers_of_its_sites_are(kind):
    X = scattered(60, 8).X
    order = numbers(0, 60).argsort().tolist()
    low, high = (numbers(0, 60)[order[i]] * 2.0**-32 for i in (10, 50))
    index = filled(kind, X)
    for share, there in (
        (Subset(low, high - low), order[10:50]),
        (Subset(high, 1 - (high - low)), order[50:] + order[:10]),
        (Subset(low, (high - low) / 2**20), order[10:11]),
        (Subset(low + 2.0**-34, 2.0**-34), []),
    ):
        found = index.spread(X[:1], 60, 60, 0.0, share)[0].tolist()
        assert sorted(found) == sorted(there + [-1] * (60 - len(there)))


@pytest.mark.skipif(Index is NumpyIndex, reason="no compiled search")
def test_neighbours_apart_are_found_without_the_whole_pool():
    index, pool = filled(NativeIndex, scattered(20_000, 9).X), 1000
    index.spread(0.8 * scattered(50, 10).X, K, pool, 0.2)
    assert index.looked_at / 50 < pool / 2


@pytest.mark.parametrize("kind", KINDS)
def test_ties_go_to_the_earlier_site(kind):
    axis = torch.linspace(-1, 1, 21).double()
    X = torch.cartesian_prod(axis, axis)
    X = torch.cat([X, X[:50]])
    queries = torch.cartesian_prod(axis[:4], axis[9:12])
    found = filled(kind, X).spread(queries, K, POOL)
    assert found.tolist() == [by_hand(X, x, K, POOL) for x in queries]


@pytest.mark.parametrize("kind", KINDS)
def test_many_sites_at_one_place(kind):
    X = torch.cat([torch.zeros(2000, 2).double(), scattered(200, 3).X])
    found = filled(kind, X).spread(torch.zeros(1, 2).double(), K, POOL)
    assert found.tolist() == [list(range(K))]


def test_random_numbers_are_uniform_and_each_site_keeps_its_own():
    drawn = numbers(0, 20_000) * 2.0**-32
    assert np.array_equal(drawn[700:900], numbers(700, 200) * 2.0**-32)
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert counts.sum() == 20_000
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5


@pytest.mark.skipif(Index is NumpyIndex, reason="no compiled search")
@pytest.mark.parametrize("share", [EVERYTHING, Subset(0.3, 0.3), Subset(0.3, 0.9, 3, 50)])
def test_the_cost_of_a_query_does_not_depend_on_the_number_of_sites(share):
    for count in (1000, 4000, 100_000):
        index = filled(NativeIndex, scattered(count, 4).X, batch=5000)
        index.spread(scattered(50, 5).X, K, POOL, 0.0, share)
        assert index.looked_at / 50 < 12 * POOL / share.size
