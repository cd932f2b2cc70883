"""The options of the nearest-neighbour model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.errors import InputError
from ...core.settings import Settings, setting

#: Number of nearest sites, as a multiple of the neighbours, that training chooses these from.
POOL = 4


@dataclass(frozen=True)
class NeighbourOptions(Settings):
    """Options of the nearest-neighbour model. Variances are of standardised targets.

    Further fields, which are no settings:
        tail: of the covariance function, (1 + tail Q^(g/2))^(-1/tail). 0: exp(-Q^(g/2)).
        left_out: samples left out in one training step.
        early_samples: number of samples below which ``early_steps`` applies.
        global_rate, network_rate: learning rates of offsets, noise and exponent, and of the fields'
            network.
        averaging: share of the parameters' running average that one training step keeps.
        least_share: minimum share of the samples from which left-out ones are predicted.
        weight_penalty: on the network's squared weights, divided by the number of places.
        mean_precision: of the unknown local mean.
        lengthscales: shortest, initial and longest, in units of half the workspace's longer side.
        initial_noise: initial noise variance.

    Raises:
        InputError: a value is outside its range.
    """

    prefix = "nngp"

    neighbours: int = setting(24, "Samples that a prediction is made from", minimum=1, maximum=32)
    candidate_neighbours: int = setting(
        1000, "Nearest samples, in all octants, that the neighbours are chosen from", minimum=1,
        maximum=1000,
    )  # fmt: skip
    neighbour_spacing: float = setting(
        0.15, "Minimum spacing of the chosen neighbours, relative to their distance from the "
        "prediction, as far as possible. 0: none", minimum=0.0, maximum=2.0,
    )  # fmt: skip
    blending: float = setting(
        3.0, "Avoid steps in a map: find neighbours only at the nodes of a lattice, and blend the "
        "predictions of the four nodes around each cell. The value is the distance between nodes "
        "as a multiple of the mean spacing of the samples. 0: find neighbours for every cell",
        minimum=0.0, maximum=10.0,
    )  # fmt: skip
    first_steps: int = setting(
        250, "Training steps after the first batch", minimum=0, maximum=100_000
    )
    early_steps: int = setting(
        24, "Training steps per update while there are few samples", minimum=0, maximum=10_000
    )
    update_steps: int = setting(12, "Training steps per update", minimum=0, maximum=10_000)
    hidden: int = setting(64, "Width of the network's two hidden layers", minimum=1, maximum=1024)
    lattice: int = setting(
        24, "Cells along a side of the lattice that the network is evaluated on", minimum=1,
        maximum=512,
    )  # fmt: skip
    field_penalty: float = setting(
        60.0, "Penalty on the variances of log amplitude and log lengthscale over the workspace, "
        "divided by the number of places", minimum=0.0, maximum=1e6,
    )  # fmt: skip
    anisotropy_penalty: float = setting(
        60.0, "Penalty on the squared anisotropy, divided by the number of places", minimum=0.0,
        maximum=1e6,
    )  # fmt: skip
    shared_anisotropy: float = setting(
        1.0, "Weight, in that penalty, of the anisotropy shared by the whole workspace",
        minimum=0.0, maximum=1.0,
    )  # fmt: skip
    tail: float = 10.0
    left_out: int = 128
    early_samples: int = 1500
    global_rate: float = 2e-2
    network_rate: float = 1e-2
    averaging: float = 0.98
    least_share: float = 1 / 64
    weight_penalty: float = 0.3
    mean_precision: float = 0.05
    lengthscales: tuple[float, float, float] = (0.02, 0.5, 3.0)
    initial_noise: float = 2.5e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidate_neighbours < self.neighbours:
            raise InputError(
                f"nngp.candidate_neighbours: expected at least the {self.neighbours} neighbours, "
                f"got {self.candidate_neighbours}"
            )

    @property
    def of_training(self) -> NeighbourOptions:
        """The options with the neighbours that training uses: fewer candidates are faster, and
        predict held-out lines as well."""
        near = min(self.candidate_neighbours, POOL * self.neighbours)
        return replace(self, candidate_neighbours=near, neighbour_spacing=0.0)
