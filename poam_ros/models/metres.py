"""Lengthscales that are set in metres; who makes a model knows its unit. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import InputError
from ..core.settings import setting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def _in_metres(which: str, scaled: str) -> Any:
    what = f"{which} lengthscale in m; 0: as {scaled} says"
    return setting(0.0, what, "m", minimum=0.0, maximum=1e6)


def shortest() -> Any:
    """The field ``shortest_lengthscale_m`` of a model's options."""
    return _in_metres("Shortest", "min_lengthscale, in nngp shortest_lengthscale,")


def longest() -> Any:
    """The field ``longest_lengthscale_m`` of a model's options."""
    return _in_metres("Longest", "max_lengthscale, in nngp longest_lengthscale,")


def initial() -> Any:
    """The field ``initial_lengthscale_m`` of a model's options."""
    return _in_metres("Initial", "initial_lengthscale")


def scaled(options: Options, in_metres: Mapping[str, str], unit: float) -> Options:
    """A model's options with what is given in m in units of ``unit`` m instead.

    Args:
        options: a frozen dataclass.
        in_metres: the settings in m, and the scaled ones that they replace where they are not 0.
        unit: half the workspace's longer side.

    Raises:
        InputError: the lengthscales do not fit together.
    """
    given = {name: getattr(options, name) for name in in_metres if getattr(options, name)}
    try:
        return replace(options, **{in_metres[name]: value / unit for name, value in given.items()})
    except InputError as error:
        values = ", ".join(f"{name} {value:g}" for name, value in given.items())
        raise InputError(
            f"{error}, in units of half the workspace's longer side, {unit:g} m ({values})"
        ) from None
