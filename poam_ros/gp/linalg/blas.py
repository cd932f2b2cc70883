"""SciPy's BLAS and LAPACK on torch tensors, without Python's lock.

SciPy's own functions hold the lock while they work, and the callbacks of a node would have to wait.
Their addresses are public (scipy.linalg.cython_blas, for Cython and Numba); called through ctypes
they let other threads go on.

Fortran sees a contiguous torch matrix transposed: the lower triangle here is the upper one (``U``)
there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from scipy.linalg import cython_blas, cython_lapack
from torch import Tensor

#: An integer result of a routine.
Info = ctypes.c_int


def serves(*tensors: Tensor) -> bool:
    """Whether these tensors can be handed to ``call``."""
    return all(t.is_cpu and t.dtype == torch.float64 for t in tensors)


def call(name: str, *arguments: bytes | int | float | Tensor | ctypes.c_int) -> None:
    """Call a routine by its Fortran name. Tensors must be contiguous; results go into them."""
    _routine(name)(*map(_reference, arguments))


def _reference(argument: bytes | int | float | Tensor | ctypes.c_int) -> object:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if isinstance(argument, float):
        return ctypes.byref(ctypes.c_double(argument))
    return ctypes.byref(argument if isinstance(argument, ctypes.c_int) else Info(argument))


@cache
def _routine(name: str) -> Callable[..., None]:
    tables = (cython_blas.__pyx_capi__, cython_lapack.__pyx_capi__)
    capsule = next(table[name] for table in tables if name in table)
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None)(address)
