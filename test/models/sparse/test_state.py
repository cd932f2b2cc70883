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
from poam_ros.models.interface import ModelState
from poam_ros.models.registry import SparseOptions
from poam_ros.models.sparse.methods import METHODS
from poam_ros.models.sparse.online import build

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


def flattened(tree, prefix=""):
    """Names -> leaves of nested mappings."""
    flat = {}
    for name, value in tree.items():
        if hasattr(value, "items"):
            flat |= flattened(value, f"{prefix}{name}/") or {f"{prefix}{name}/": None}
        else:
            flat[prefix + name] = value
    return flat


def nested(flat):
    """What ``flattened`` was made of."""
    tree = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        if name:
            place[name] = value
    return tree


def through_files(state):
    """The state as arrays in an npz and the rest in JSON, and back."""
    flat, file = flattened(state.tree), io.BytesIO()
    np.savez(file, **{n: v.numpy() for n, v in flat.items() if isinstance(v, torch.Tensor)})
    text = json.dumps({n: v for n, v in flat.items() if not isinstance(v, torch.Tensor)})
    file.seek(0)
    with np.load(file) as arrays:
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return ModelState(nested({**tensors, **json.loads(text)}))


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
    kept = {n: v.clone() for n, v in flattened(state.tree).items() if isinstance(v, torch.Tensor)}
    first = go_on(online)
    online.restore(state)
    second = go_on(online)
    now = flattened(state.tree)
    assert all(torch.equal(now[name], value) for name, value in kept.items())
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("method", "failure"),
    [
        *((name, CholeskyError("no")) for name in
          ("poam", "svgp", "poam-z-opt", "poam-var-opt", "ovc", "ssgp")),
        ("poam", MemoryError()), ("poam", KeyboardInterrupt()),
    ],
)  # fmt: skip
def test_after_any_exception_a_model_is_unchanged(method, failure, monkeypatch):
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
    monkeypatch.setattr(other.model, "factorise", counted(other.model.factorise, every, None))
    other.update(scattered(6, 5))
    for fails in (1, len(every)):
        with monkeypatch.context() as broken, pytest.raises(type(failure)):
            factorise = counted(online.model.factorise, [], fails)
            broken.setattr(online.model, "factorise", factorise)
            online.update(scattered(6, 5))
    assert len(online.data) == 52
    assert all(torch.equal(a, b) for a, b in zip(go_on(online), go_on(twin), strict=True))


def test_a_state_copies_nothing_large():
    online = begun("poam")
    state = online.state().tree
    assert state["epoch"]["Kuu"] is online.epoch.Kuu
    assert state["q"]["root"] is online.model.q.root
    assert state["data"]["X"].data_ptr() == online.data.X.data_ptr()
