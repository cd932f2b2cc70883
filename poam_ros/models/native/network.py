"""The network of the fields in C if it was built; otherwise torch does the same, more
slowly (see ``loader``)."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from .loader import INTEGER, POINTER, REAL, declared, structure

#: As in network.c.
_Network = structure((INTEGER, "nodes hidden"), (POINTER, "x room"))
_Penalties = structure((REAL, "field anisotropy spared weight"))

_library = declared(
    "network",
    network_room=(INTEGER, INTEGER, INTEGER),
    network_evaluate=(None, ctypes.POINTER(_Network), POINTER, POINTER),
    network_gradient=(
        None, ctypes.POINTER(_Network), ctypes.POINTER(_Penalties), *[POINTER] * 3, REAL, REAL,
        POINTER,
    ),
)  # fmt: skip


def available() -> bool:
    """Whether the compiled library is available."""
    return _library is not None


class NativeNetwork:
    """The compiled network. See ``TorchNetwork``."""

    def __init__(self, nodes: Tensor, hidden: int) -> None:
        self._x = torch.cat([nodes, torch.ones(len(nodes), 1)], dim=1).float()
        self._room = torch.empty(_library.network_room(len(nodes), hidden)).float()
        self._network = _Network(len(nodes), hidden, self._x.data_ptr(), self._room.data_ptr())

    def evaluate(self, theta: Tensor) -> Tensor:
        """See ``TorchNetwork.evaluate``."""
        F = torch.empty(self._network.nodes, 4, dtype=torch.float64)
        _library.network_evaluate(self._network, theta.data_ptr(), F.data_ptr())
        return F

    def gradient(
        self, theta: Tensor, F: Tensor, by_F: Tensor, by_exponent: float, by_noise: float,
        penalties: tuple[float, float, float, float],
    ) -> Tensor:  # fmt: skip
        """See ``TorchNetwork.gradient``."""
        gradient, by_F = torch.empty_like(theta), by_F.contiguous()
        _library.network_gradient(
            self._network, _Penalties(*penalties), theta.data_ptr(), F.data_ptr(),
            by_F.data_ptr(), by_exponent, by_noise, gradient.data_ptr(),
        )  # fmt: skip
        return gradient
