"""The choice of inducing inputs among few and among many candidates."""

import pytest
import torch
from problems import make_kernel, make_online, scattered

from poam_ros.models.sparse import inducing
from poam_ros.models.sparse.inducing import SelectionInput, pivoted_from_old_and_new


@pytest.mark.parametrize("rank", [1, 30, 400])
def test_many_candidates_give_the_same_choice_without_their_whole_covariance(rank, monkeypatch):
    kernel, Z, X = make_kernel(), scattered(50, 0).X, scattered(350, 1).X * 0.4
    amplitude = kernel.amplitude.item()
    given = SelectionInput(kernel, Z, X, X, rank, 1e-4, torch.Generator())
    with torch.no_grad():
        whole = pivoted_from_old_and_new(given)
        monkeypatch.setattr(inducing, "MAX_STORED", 100)
        by_rows = pivoted_from_old_and_new(given)
    K, chosen = whole.candidates.K, [whole.index, by_rows.index]
    assert K is not None and by_rows.candidates.K is None
    assert len(torch.unique(chosen[1])) == len(chosen[1])
    # Equal but for ties of rounding, which lead to other points: about as many, that explain as
    # much.
    assert abs(len(chosen[0]) - len(chosen[1])) <= max(2, 0.03 * len(chosen[0]))
    for c in chosen:
        L = torch.linalg.cholesky(K[c][:, c] + 1e-10 * torch.eye(len(c)))
        V = torch.linalg.solve_triangular(L, K[c], upper=False)
        left = (K.diagonal() - V.square().sum(0)).max()
        assert len(c) == rank or left < 1.01e-4 * amplitude


def test_a_long_pilot_survey_is_one_batch_like_any_other(monkeypatch):
    data, Xs = scattered(600, 0), scattered(100, 7).X
    online = make_online(200)
    online.update(data)
    monkeypatch.setattr(inducing, "MAX_STORED", 100)
    by_rows = make_online(200)
    by_rows.update(data)
    a, b = online.predict(Xs), by_rows.predict(Xs)
    # Ties may be decided otherwise; the map must not care.
    assert (a.mean - b.mean).abs().mean() < 0.1 * a.mean.std()
    by_rows.update(scattered(200, 1))
    assert by_rows.predict(Xs).variance.isfinite().all()
