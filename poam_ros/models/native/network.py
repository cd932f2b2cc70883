"""The network of the fields and Adam in C if it was built; otherwise torch does the same, more
slowly (see ``loader``)."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from .loader import load


class _Network(ctypes.Structure):
    """As in network.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("nodes", "hidden")),
        *((name, ctypes.c_void_p) for name in ("x", "room")),
    ]


class _Penalties(ctypes.Structure):
    """As in network.c."""

    _fields_ = [(name, ctypes.c_double) for name in ("field", "anisotropy", "spared", "weight")]


class _Adam(ctypes.Structure):
    """As in network.c."""

    _fields_ = [
        ("size", ctypes.c_int64),
        *(
            (name, ctypes.c_double)
            for name in ("beta1", "beta2", "epsilon", "keep", "correction1", "correction2")
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("rates", "theta", "first", "second", "average")
        ),
    ]  # fmt: skip


def _declared() -> Any:
    library = load("network")
    if library is not None:
        pointer, integer, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        network = ctypes.POINTER(_Network)
        library.network_room.argtypes = (integer, integer)
        library.network_room.restype = integer
        library.network_evaluate.argtypes = (network, pointer, pointer)
        library.network_evaluate.restype = None
        library.network_gradient.argtypes = (
            network, ctypes.POINTER(_Penalties), pointer, pointer, pointer, real, real, pointer,
        )  # fmt: skip
        library.network_gradient.restype = None
        library.network_adam.argtypes = (ctypes.POINTER(_Adam), pointer, pointer)
        library.network_adam.restype = None
    return library


_library = _declared()


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


def adam(
    gradient: Tensor, rates: Tensor, state: tuple[Tensor, Tensor, Tensor, Tensor], step: int,
    betas: tuple[float, float], epsilon: float, keep: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """theta, both moments and the average [P] of ``state`` after its step number ``step``."""
    correction1, correction2 = (1 - beta**step for beta in betas)
    after = torch.empty(4, len(rates), dtype=torch.float64)
    problem = _Adam(
        len(rates), *betas, epsilon, keep, correction1, correction2, rates.data_ptr(),
        *(part.data_ptr() for part in state),
    )  # fmt: skip
    _library.network_adam(problem, gradient.data_ptr(), after.data_ptr())
    return after.unbind()
