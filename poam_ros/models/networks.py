"""Small neural networks. Without GPyTorch, so that `nngp` starts without it."""

from __future__ import annotations

import torch
from torch import nn


def tanh_network(
    inputs: int, outputs: int, generator: torch.Generator | None, width: int = 10
) -> nn.Sequential:
    """Two hidden tanh layers, ten units wide as in the paper.

    ``generator``: draws the initial weights; None: torch's default generator.
    """
    first, second = _linear(inputs, width, generator), _linear(width, width, generator)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), _linear(width, outputs, generator))


def _linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with torch's usual initial values, drawn from the generator."""
    # Not `skip_init`: a meta device imports SymPy, which takes half a second.
    with torch.random.fork_rng(devices=[]):
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
    for values in layer.parameters():
        nn.init.uniform_(values, -(inputs**-0.5), inputs**-0.5, generator=generator)
    return layer
