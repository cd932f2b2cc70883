"""The options of the nearest-neighbour model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.errors import InputError
from ...core.settings import Settings, setting
from ..lengthscales import lengthscale_setting

#: Number of nearest sites, as a multiple of the neighbours, to choose these from if speed counts.
POOL = 4


@dataclass(frozen=True)
class NeighbourOptions(Settings):
    """Options of the nearest-neighbour model. Variances are of standardised targets.

    Lengths are in m, and are converted to units of half the workspace's longer side. 0 stands for a
    fixed share of that (``lengthscales``).

    Raises:
        InputError: a value is outside its range.
    """

    prefix = "nngp"

    tail: float = setting(
        10.0, "Tail of the covariance function: (1 + tail Q^(g/2))^(-1/tail). 0: exp(-Q^(g/2))",
        minimum=0.0, maximum=100.0,
    )  # fmt: skip
    neighbours: int = setting(24, "Samples that a prediction is made from", minimum=1, maximum=32)
    candidate_neighbours: int = setting(
        1000, "Nearest samples, in all octants, that the neighbours are chosen from", minimum=1,
        maximum=1000,
    )  # fmt: skip
    neighbour_spacing: float = setting(
        0.15, "Minimum spacing of the chosen neighbours, relative to their distance from the "
        "prediction, as far as possible. 0: none", minimum=0.0, maximum=2.0,
    )  # fmt: skip
    spread_training: bool = setting(
        False, "Choose neighbours in training, too, with this spacing from all candidates. Without "
        "it, training takes them from the nearest four times as many, in all octants, which is "
        "faster",
    )  # fmt: skip
    blending: float = setting(
        3.0, "Avoid steps in a map: find neighbours only at the nodes of a lattice, and blend the "
        "predictions of the four nodes around each cell. The value is the distance between nodes "
        "as a multiple of the mean spacing of the samples. 0: find neighbours for every cell",
        minimum=0.0, maximum=10.0,
    )  # fmt: skip
    left_out: int = setting(128, "Samples left out in one training step", "", 1, 100_000)
    first_steps: int = setting(
        250, "Training steps after the first batch", minimum=0, maximum=100_000
    )
    early_steps: int = setting(
        24, "Training steps per update while there are few samples", minimum=0, maximum=10_000
    )
    early_samples: int = setting(
        1500, "Number of samples below which early_steps applies", minimum=0,
        maximum=10_000_000,
    )  # fmt: skip
    update_steps: int = setting(12, "Training steps per update", minimum=0, maximum=10_000)
    global_rate: float = setting(
        2e-2, "Learning rate of offsets, noise and exponent", minimum=1e-9, maximum=1.0
    )
    network_rate: float = setting(
        1e-2, "Learning rate of the fields' network", minimum=1e-9, maximum=1.0
    )
    averaging: float = setting(
        0.98, "Share of the parameters' running average that one training step keeps", minimum=0.0,
        maximum=0.99999,
    )  # fmt: skip
    least_share: float = setting(
        1 / 64, "Minimum share of the samples from which left-out samples are predicted",
        minimum=1e-6, maximum=1.0,
    )  # fmt: skip
    gap_share: float = setting(
        0.5, "Share of the training steps that also leave out all samples around each left-out "
        "one, within the distance of a random place to its nearest sample", minimum=0.0,
        maximum=1.0,
    )  # fmt: skip
    hidden: int = setting(64, "Width of the network's two hidden layers", minimum=1, maximum=1024)
    lattice: int = setting(
        24, "Cells along a side of the lattice that the network is evaluated on", minimum=1,
        maximum=512,
    )  # fmt: skip
    weight_penalty: float = setting(
        0.3, "Penalty on the network's squared weights, divided by the number of places",
        minimum=0.0, maximum=1e6,
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
    mean_precision: float = setting(
        0.05, "Precision of the unknown local mean", minimum=1e-6, maximum=1e6
    )
    initial_lengthscale: float = lengthscale_setting("Initial lengthscale", 0.5)
    shortest_lengthscale: float = lengthscale_setting("Shortest lengthscale", 0.02)
    longest_lengthscale: float = lengthscale_setting("Longest lengthscale", 3.0)
    initial_noise: float = setting(2.5e-3, "Initial noise variance", minimum=1e-6, maximum=1e3)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidate_neighbours < self.neighbours:
            raise InputError(
                f"nngp.candidate_neighbours: expected at least the {self.neighbours} neighbours, "
                f"got {self.candidate_neighbours}"
            )

    @property
    def of_training(self) -> NeighbourOptions:
        """The options with the neighbours that training uses."""
        if self.spread_training:
            return self
        near = min(self.candidate_neighbours, POOL * self.neighbours)
        return replace(self, candidate_neighbours=near, neighbour_spacing=0.0)

    @property
    def lengthscales(self) -> tuple[float, float, float]:
        """Shortest, initial and longest, in units of half the workspace's longer side.

        Raises:
            InputError: they are not in this order.
        """
        low, high = self.shortest_lengthscale or 0.02, self.longest_lengthscale or 3.0
        initial = self.initial_lengthscale or 0.5
        if not low <= initial <= high:
            raise InputError(
                "nngp.initial_lengthscale: expected one between the shortest and the longest, "
                f"{low:g} and {high:g}, got {initial:g}"
            )
        return low, initial, high
