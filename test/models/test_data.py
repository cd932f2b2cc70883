"""Data with and without noise of their own."""

import pytest
import torch

from poam_ros.models.interface import Dataset


def data(count, noise=None):
    values = torch.arange(count).double()
    return Dataset(
        values[:, None].expand(count, 2), values, None if noise is None else noise + values
    )


def test_noise_is_known_from_the_first_data_that_have_it():
    early = data(3).more(data(2))
    every = early.more(data(2, noise=5.0)).more(data(4))
    assert early.noise is None and len(early) == 5
    assert every.noise.tolist() == [0.0] * 5 + [5.0, 6.0] + [0.0] * 4
    assert every[4:6].noise.tolist() == [0.0, 5.0]
    assert every[torch.tensor([6, 0])].noise.tolist() == [6.0, 0.0]


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"expected noise \[N\] like y \[3\], got \[2\]"):
        Dataset(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2))
