"""Ground that is stretched one way everywhere, and how dearly the kernel may say so."""

from dataclasses import replace

import torch
from problems import scattered

from poam_ros.models.data import Dataset
from poam_ros.models.registry import MODELS, NeighbourOptions

HELD = NeighbourOptions(
    first_steps=150, hidden=8, lattice=8, left_out=64, anisotropy_penalty=1e5, weight_penalty=0.0
)


def anisotropy(options):
    """Over the workspace, of ground that changes along x alone: least and largest ratio of axes."""
    X = scattered(300, 1).X
    model = MODELS["nngp"].build(options, 0, torch.device("cpu"))
    model.update(Dataset(X, torch.sin(6 * X[:, 0])))
    return model.fields(scattered(200, 2).X)["anisotropy"].aminmax()


def test_what_is_common_to_the_workspace_may_be_spared():
    least, most = anisotropy(replace(HELD, shared_anisotropy=0.0))
    assert least > 1.5
    assert most < 1.1 * least  # from place to place it is held as before
    _, most = anisotropy(HELD)
    assert most < 1.1
