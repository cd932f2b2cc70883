"""Data with and without noise of their own."""

import pytest
import torch

from poam_ros.models.interface import Dataset, DataStore


def data(count, noise=None):
    values = torch.arange(count).double()
    return Dataset(
        values[:, None].expand(count, 2), values, None if noise is None else noise + values
    )


def test_noise_is_stored_from_the_first_data_that_have_it():
    store = DataStore(data(3))
    early = store.data
    store.append(data(2))
    assert store.data.noise is None
    store.append(data(2, noise=5.0))
    assert early.noise is None and len(early) == 3
    store.append(data(4))
    assert store.data.noise.tolist() == [0.0] * 5 + [5.0, 6.0] + [0.0] * 4
    assert store.data[4:6].noise.tolist() == [0.0, 5.0]
    assert store.data[torch.tensor([6, 0])].noise.tolist() == [6.0, 0.0]


def test_returned_arrays_are_not_modified():
    store = DataStore(data(4, noise=1.0))
    first = store.data
    store.append(data(4, noise=2.0))
    rolled_back = DataStore(first)
    rolled_back.append(data(4, noise=9.0))
    assert store.data.noise.tolist() == [1, 2, 3, 4, 2, 3, 4, 5]
    assert rolled_back.data.noise.tolist() == [1, 2, 3, 4, 9, 10, 11, 12]


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"expected noise \[N\] like y \[3\], got \[2\]"):
        Dataset(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2))
