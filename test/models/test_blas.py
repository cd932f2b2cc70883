"""Every routine is its formula, by SciPy's (float64) and by torch's (float32 here, or a GPU)."""

import pytest
import torch

from poam_ros.models import linalg as blas

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
    close(blas.trsm(L, B), torch.linalg.solve(L, B))
    close(blas.trsm(L, B, transposed=True), torch.linalg.solve(L.mT, B))
    close(blas.trsm(L, B.mT, right=True), torch.linalg.solve(L.mT, B).mT)
    close(blas.trmm(B.mT, L), B.mT @ L)
    assert torch.equal(B, kept)
    unit = lower(random, unit=True)
    close(blas.trmm_unit_(unit, B), unit.mT @ kept)


def test_entries_above_the_diagonal_are_not_read(random):
    L, B, A = lower(random), random(M, N), random(M, M)
    above = random(M, M).triu(1)
    S = A.tril() + A.tril(-1).mT
    close(blas.trsm(L + above, B), torch.linalg.solve(L, B))
    close(blas.trmm(B.mT, L + above), B.mT @ L)
    close(blas.symm(S.tril() + above, B), S @ B)
    whitened = torch.linalg.solve(L, torch.linalg.solve(L, S).mT)
    close(blas.sygst(S.tril() + above, L + above).tril(), whitened.tril())


@pytest.mark.parametrize("transposed", [True, False])
def test_rank_updates(random, transposed):
    A, B, C = random(M, N, transposed), random(M, N, transposed), random(M, M)
    close(blas.syrk(A, 0.5).tril(), (0.5 * A @ A.mT).tril())
    close(blas.syr2k(A, B, 0.5).tril(), (0.5 * (A @ B.mT + B @ A.mT)).tril())
    expected = C - A @ A.mT
    onto = C.clone()
    assert blas.syrk(A, -1.0, onto=onto) is onto
    close(onto.tril(), expected.tril())
    expected = 0.3 * C - (A @ B.mT + B @ A.mT)
    close(blas.syr2k(A, B, -1.0, 0.3, onto=C.clone()).tril(), expected.tril())


def test_factors_and_inverses(random):
    L = lower(random)
    found = blas.potrf(L @ L.mT)
    close(found, L)
    assert torch.equal(found, found.tril())
    close(blas.potri(L).tril(), torch.linalg.inv(L @ L.mT).tril())
    assert blas.potrf(-(L @ L.mT)) is None
