"""Fixtures of the tests of the sparse models."""

import pytest

from poam_ros.models.sparse import training


@pytest.fixture(scope="module", autouse=True)
def loose_convergence():
    """SSGP's L-BFGS-B would take most of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "CONVERGED", 1e-3)
        yield
