"""A model's state: after it is restored, the model continues identically."""

import io
import json
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from problems import scattered

from poam_ros.core.errors import CholeskyError
from poam_ros.models.interface import pack, unpack
from poam_ros.models.registry import SparseOptions
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.model import build

XS = scattered(40, 99).X
OPTIONS = SparseOptions(num_inducing=24, minibatch=32, steps=2, noise_variance=0.5)


def begun(method):
    """A model after a pilot survey and two batches."""
    return deepcopy(_begun(method))


@cache
def _begun(method):
    online = build(METHODS[method], OPTIONS, 3, "cpu")
    for k, count in enumerate((40, 6, 6)):
        online.update(scattered(count, k))
    return online


def through_files(state):
    """The state as arrays in an npz and the rest in JSON, and back."""
    (arrays, values), file = pack(state), io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file) as arrays:
        return unpack(arrays, json.loads(json.dumps(values)))


def go_on(online):
    """Predictions after one more batch and after another."""
    online.update(scattered(6, 7))
    trained = online.predict(XS)
    online.update(scattered(6, 8))
    last = online.predict(XS)
    return [trained.mean, trained.variance, last.mean, last.variance, online.support]


@pytest.mark.parametrize("method", METHODS)
def test_a_model_restored_from_files_continues_identically(method):
    online = begun(method)
    other = build(METHODS[method], OPTIONS, 4, "cpu")
    other.restore(through_files(online.state()))
    for ours, theirs in zip(go_on(online), go_on(other), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("method", METHODS)
def test_later_updates_do_not_modify_a_state(method):
    online = begun(method)
    state = online.state()
    kept = {name: array.copy() for name, array in pack(state)[0].items()}
    first = go_on(online)
    online.restore(state)
    second = go_on(online)
    now, _ = pack(state)
    assert all(np.array_equal(now[name], value, equal_nan=True) for name, value in kept.items())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("method", "failure"),
    [
        *((name, CholeskyError("no")) for name in
          ("poam", "svgp", "poam-z-opt", "poam-var-opt", "ovc", "ssgp")),
        ("poam", MemoryError()), ("poam", KeyboardInterrupt()),
    ],
)  # fmt: skip
def test_a_model_is_restored_after_any_exception(method, failure, monkeypatch):
    """At the first or the last matrix of an update."""

    def counted(real, calls, fails):
        def factorise(K, name):
            calls.append(name)
            if len(calls) == fails:
                raise failure
            return real(K, name)

        return factorise

    online, twin = begun(method), begun(method)
    every, other = [], begun(method)
    monkeypatch.setattr(other, "factorise", counted(other.factorise, every, None))
    other.update(scattered(6, 5))
    for fails in (1, len(every)):
        state = online.state()
        with monkeypatch.context() as broken, pytest.raises(type(failure)):
            factorise = counted(online.factorise, [], fails)
            broken.setattr(online, "factorise", factorise)
            online.update(scattered(6, 5))
        online.restore(state)
    assert len(online.data) == 52
    assert all(torch.equal(a, b) for a, b in zip(go_on(online), go_on(twin), strict=True))
