"""Lengthscales set in metres, and their conversion to a model's unit. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.settings import declared, setting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def lengthscale_setting(what: str, share: float) -> Any:
    """A field of a model's options, in m; 0 for a share of half the workspace's longer side."""
    text = f"{what}. 0: {share:g} times half the workspace's longer side"
    return setting(0.0, text, "m", minimum=0.0, maximum=1e6)


def scaled(options: Options, unit: float) -> Options:
    """A model's options with all lengths converted from m to units of ``unit`` m."""
    lengths = [own for own, row in declared(options).items() if row.unit == "m"]
    return replace(options, **{own: getattr(options, own) / unit for own in lengths})
