"""A row of METHODS with its functions, looked up when a model is built."""

from __future__ import annotations

from dataclasses import dataclass

from . import inducing, training, variational
from .inducing import Select
from .methods import Method
from .training import Objective, Train
from .variational import Update


@dataclass(frozen=True)
class Recipe:
    """A row of METHODS, its functions looked up."""

    select: Select
    update: Update
    objective: Objective
    train: Train
    learns: frozenset[str]
    train_first: bool
    own_noise: bool

    @classmethod
    def of(cls, method: Method) -> Recipe:
        """Of a row."""
        return cls(
            getattr(inducing, method.select),
            getattr(variational, method.update),
            getattr(training, method.objective),
            getattr(training, method.train),
            method.learns,
            method.train_first,
            method.own_noise,
        )
