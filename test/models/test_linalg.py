"""The jitter policy and the pivoted Cholesky decomposition; and every routine is its formula, by
SciPy's (float64) and by torch's (float32 here, or a GPU)."""

import numpy as np
import pytest
import torch
from problems import make_kernel, scattered

from poam_ros.core.errors import CholeskyError
from poam_ros.models import linalg
from poam_ros.models.linalg import add_jitter, cholesky, factorise_indefinite, pivoted_cholesky


def greedy_pivots(K: np.ndarray, rank: int, tolerance: float) -> list[int]:
    """The textbook algorithm, one pivot at a time."""
    K, left, pivots = K.copy(), K.diagonal().copy(), []
    factor = np.zeros((len(K), rank))
    for r in range(rank):
        p = int(np.argmax(left))
        if left[p] <= tolerance:
            break
        factor[:, r] = (K[:, p] - factor[:, :r] @ factor[p, :r]) / np.sqrt(left[p])
        left = left - factor[:, r] ** 2
        left[pivots + [p]] = 0.0
        pivots.append(p)
    return pivots


def uneven_covariance(count: int) -> torch.Tensor:
    """A covariance with distinct diagonal entries, so that no pivot is a tie."""
    K = make_kernel().forward(scattered(count, 0).X, scattered(count, 0).X).detach()
    scale = torch.linspace(1.0, 1.5, count, dtype=K.dtype)
    return K * scale.unsqueeze(0) * scale.unsqueeze(1)


@pytest.mark.parametrize(
    ("rank", "tolerance"), [(1, 1e-5), (10, 1e-5), (60, 1e-5), (200, 1e-5), (200, 0.3)]
)
def test_pivots_are_the_greedy_ones_until_what_is_left_is_tolerated(rank, tolerance):
    K = uneven_covariance(200)
    expected = greedy_pivots(K.numpy(), rank, tolerance)
    assert pivoted_cholesky(K, rank, tolerance).tolist() == expected
    assert (len(expected) < 100) == (rank < 100 or tolerance == 0.3)


def test_never_chooses_a_point_twice():
    kernel, X = make_kernel(), scattered(60, 2).X
    doubled = torch.cat([X, X, X[:7]])
    pivots = pivoted_cholesky(kernel.forward(doubled, doubled).detach(), 127, 1e-9)
    chosen = doubled[pivots]
    assert len(torch.unique(chosen, dim=0)) == len(chosen) <= 60


@pytest.mark.parametrize(("added", "least", "most"), [(2.0, 0.0, 0.0), (-1e-8, 1.1e-8, 1e-6)])
def test_adds_as_little_jitter_as_is_needed_and_reports_how_much(added, least, most):
    A = add_jitter(torch.ones(5, 5, dtype=torch.float64), added)
    L, jitter = cholesky(A, "A")
    assert least <= jitter <= most
    torch.testing.assert_close(L @ L.mT, add_jitter(A, jitter))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_gives_up_with_a_typed_error(value):
    A = torch.eye(4, dtype=torch.float64)
    A[2, 2] = value
    with pytest.raises(CholeskyError, match=r"Kuu \[4 x 4\]"):
        cholesky(A, "Kuu")


def test_an_indefinite_matrix_is_its_factor():
    # Zeros on the diagonal: pivots must be taken in pairs.
    A = torch.randn(9, 9, generator=torch.Generator().manual_seed(0)).double()
    A = A + A.mT - torch.diag((A + A.mT).diagonal())
    B = torch.randn(9, 4, generator=torch.Generator().manual_seed(1)).double()
    Q = factorise_indefinite(A)
    assert (Q.e != 0).any()
    product = B.mT @ A @ B
    torch.testing.assert_close(Q.quadratic_(B[Q.order]), product.diagonal())
    torch.testing.assert_close(Q.congruent_(B[Q.order]), product)


M, N = 7, 5


@pytest.fixture(params=[torch.float64, torch.float32], ids=["scipy", "torch"])
def random(request):
    """Random matrices; transposed ones too, which are not contiguous."""
    generator = torch.Generator().manual_seed(0)

    def make(rows, columns, transposed=False):
        shape = (columns, rows) if transposed else (rows, columns)
        A = torch.randn(shape, generator=generator, dtype=torch.float64).to(request.param)
        return A.mT if transposed else A

    return make


def close(found, expected):
    tolerance = 1e-12 if found.dtype == torch.float64 else 1e-3
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def lower(random, unit=False):
    """A lower triangular matrix, well conditioned."""
    diagonal = torch.ones(M) if unit else torch.linspace(2, 3, M)
    return (0.2 * random(M, M)).tril(-1) + torch.diag(diagonal).to(random(1, 1))


@pytest.mark.parametrize("transposed", [True, False])
def test_trsm_and_trmm(random, transposed):
    L, B = lower(random), random(M, N, transposed)
    kept = B.clone()
    close(linalg.trsm(L, B), torch.linalg.solve(L, B))
    close(linalg.trsm(L, B, transposed=True), torch.linalg.solve(L.mT, B))
    close(linalg.trsm(L, B.mT, right=True), torch.linalg.solve(L.mT, B).mT)
    close(linalg.trmm(B.mT, L), B.mT @ L)
    assert torch.equal(B, kept)
    unit = lower(random, unit=True)
    close(linalg.trmm_unit_(unit, B), unit.mT @ kept)


def test_entries_above_the_diagonal_are_not_read(random):
    L, B, A = lower(random), random(M, N), random(M, M)
    above = random(M, M).triu(1)
    S = A.tril() + A.tril(-1).mT
    close(linalg.trsm(L + above, B), torch.linalg.solve(L, B))
    close(linalg.trmm(B.mT, L + above), B.mT @ L)
    close(linalg.symm(S.tril() + above, B), S @ B)
    whitened = torch.linalg.solve(L, torch.linalg.solve(L, S).mT)
    close(linalg.whitened(L + above, S.tril() + above), whitened)


@pytest.mark.parametrize("transposed", [True, False])
def test_rank_updates(random, transposed):
    A, B, C = random(M, N, transposed), random(M, N, transposed), random(M, M)
    expected = C - A @ A.mT
    onto = C.clone()
    assert linalg.syrk(A, -1.0, onto) is onto
    close(onto.tril(), expected.tril())
    expected = 0.3 * C - (A @ B.mT + B @ A.mT)
    close(linalg.syr2k(A, B, -1.0, 0.3, C.clone()).tril(), expected.tril())


def test_factors_and_inverses(random):
    L = lower(random)
    found = linalg.potrf(L @ L.mT)
    close(found, L)
    assert torch.equal(found, found.tril())
    close(linalg.potri(L).tril(), torch.linalg.inv(L @ L.mT).tril())
    assert linalg.potrf(-(L @ L.mT)) is None


def test_mirrored_is_the_lower_triangle_on_both_sides(random):
    A = random(7, 7)
    expected = A.tril() + A.tril(-1).mT
    assert torch.equal(linalg.mirrored_(A.clone()), expected)
