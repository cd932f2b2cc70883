"""Voyages over a lake, with a model that takes no time."""

import pytest
from toy import Toy, ToyOptions
from voyages import Voyage

from poam_ros.models.registry import MODELS, ModelEntry


@pytest.fixture
def voyage(monkeypatch):
    """`voyage(values, boat)`: a new one, closed at the end unless it is closed already."""
    pytest.importorskip("pymavlink")
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    begun = []

    def begin(values=None, boat=None, **others):
        begun.append(Voyage(values, boat, **others))
        return begun[-1]

    yield begin
    for one in begun:
        if not one.closed:
            one.close()
