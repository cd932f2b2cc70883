"""What the tests of the nearest-neighbour model share."""

import pytest

from poam_ros.models.nngp import conditional, online


@pytest.fixture(scope="session", autouse=True)
def as_many_steps():
    """Also without the compiled parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(online, "FEWER_STEPS", 1)
        yield


@pytest.fixture(params=["native", "torch"])
def backend(request, monkeypatch):
    """Conditionals in C, and in torch."""
    if request.param == "native" and not conditional.compiled(1):
        pytest.skip("no compiled kernel")
    if request.param == "torch":
        monkeypatch.setattr(conditional, "compiled", lambda neighbours: False)
