"""Soundings that a map has never seen, and what it says of them."""

from __future__ import annotations

import numpy as np

from ..geometry import Extent
from ..mapping import BathymetricMapper
from ..runs.held_out import HeldOut, log_loss
from .sounding_map import OnProgress, learn, predict
from .sounding_settings import SoundingMapSettings
from .soundings import Soundings


def validate(mapper: BathymetricMapper, held: Soundings, fold: int = 0) -> HeldOut:
    """Predict held-out soundings, as they were recorded: they are never screened.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = predict(mapper, held.xy)
    learned = mapper.z
    naive = log_loss(held.z, float(learned.mean()), float(learned.var()))
    std, number = np.sqrt(found.variance), np.full(len(held), fold)
    return HeldOut(held.row, held.xy, held.z, found.mean, std, number, naive)


def validate_fold(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> HeldOut:
    """A map without the held soundings (boolean [N]), asked for them. Raises as ``learn``."""
    mapper, _ = learn(soundings[np.flatnonzero(~held)], workspace, settings, on_progress)
    return validate(mapper, soundings[np.flatnonzero(held)], fold)
