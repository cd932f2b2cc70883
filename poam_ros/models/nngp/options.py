"""The options of the nearest-neighbour model. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InputError
from ...core.settings import check, setting
from .. import metres


@dataclass(frozen=True)
class NeighbourOptions:
    """Of the nearest-neighbour model. Lengths are scaled: the workspace reaches from -1 to 1 along
    its longer side. Those in m come first where they are given. Variances are of standardised
    targets.

    Raises:
        InputError: a value is outside its range.
    """

    tail: float = setting(
        0.0, "How slowly covariances fall far off: (1 + tail Q^(g/2))^(-1/tail); 0: exp(-Q^(g/2))",
        minimum=0.0, maximum=100.0,
    )  # fmt: skip
    neighbours: int = setting(24, "Pings that a prediction is made from", minimum=1, maximum=32)
    pool: int = setting(
        96, "Nearest pings that these are chosen from, round all octants", minimum=1, maximum=1000
    )
    apart: float = setting(
        0.0, "Chosen ones lie so far from each other, times their distance from the prediction, as "
        "long as there are such; 0: nothing of the kind", minimum=0.0, maximum=2.0,
    )  # fmt: skip
    left_out: int = setting(128, "Left-out pings in one training step", minimum=1, maximum=100_000)
    first_steps: int = setting(
        250, "Training steps after the first batch", minimum=0, maximum=100_000
    )
    early_steps: int = setting(
        24, "Training steps per update while there are few pings", minimum=0, maximum=10_000
    )
    early_samples: int = setting(
        1500, "Number of pings below which they are few", minimum=0, maximum=10_000_000
    )
    update_steps: int = setting(12, "Training steps per update", minimum=0, maximum=10_000)
    global_rate: float = setting(
        2e-2, "Learning rate of offsets, noise and exponent", minimum=1e-9, maximum=1.0
    )
    network_rate: float = setting(
        1e-2, "Learning rate of the fields' network", minimum=1e-9, maximum=1.0
    )
    averaging: float = setting(
        0.98, "What a step leaves of the parameters' running average", minimum=0.0, maximum=0.99999
    )
    least_share: float = setting(
        1 / 64, "Smallest share of the pings that left-out ones are seen from", minimum=1e-6,
        maximum=1.0,
    )  # fmt: skip
    gap_share: float = setting(
        0.5, "Share of the training steps that leave out all pings round each left-out one, as far "
        "as the map's places are from theirs", minimum=0.0, maximum=1.0,
    )  # fmt: skip
    hidden: int = setting(64, "Width of the network's two hidden layers", minimum=1, maximum=1024)
    lattice: int = setting(
        24, "Cells a side of the lattice that the network is evaluated on", minimum=1, maximum=512
    )
    weight_penalty: float = setting(
        0.3, "Penalty on the network's squared weights, over the places", minimum=0.0, maximum=1e6
    )
    field_penalty: float = setting(
        60.0, "Penalty on the variances of log amplitude and log lengthscale over the workspace, "
        "over the places", minimum=0.0, maximum=1e6,
    )  # fmt: skip
    anisotropy_penalty: float = setting(
        60.0, "Penalty on the squared anisotropy, over the places", minimum=0.0, maximum=1e6
    )
    shared_anisotropy: float = setting(
        1.0, "Weight in that penalty of the anisotropy that the whole workspace has in common",
        minimum=0.0, maximum=1.0,
    )  # fmt: skip
    mean_precision: float = setting(
        0.05, "Precision of the unknown local mean", minimum=1e-6, maximum=1e6
    )
    initial_lengthscale: float = setting(0.5, "Initial lengthscale", minimum=1e-4, maximum=100.0)
    shortest_lengthscale: float = setting(0.02, "Shortest lengthscale", minimum=1e-4, maximum=100.0)
    longest_lengthscale: float = setting(3.0, "Longest lengthscale", minimum=1e-4, maximum=100.0)
    initial_lengthscale_m: float = metres.initial()
    shortest_lengthscale_m: float = metres.shortest()
    longest_lengthscale_m: float = metres.longest()
    initial_noise: float = setting(2.5e-3, "Initial noise variance", minimum=1e-6, maximum=1e3)

    def __post_init__(self) -> None:
        check(self)
        low, high = self.shortest_lengthscale, self.longest_lengthscale
        if not low <= self.initial_lengthscale <= high:
            raise InputError(
                "initial_lengthscale: expected one between the shortest and the longest, "
                f"{low:g} and {high:g}, got {self.initial_lengthscale:g}"
            )
        if self.pool < self.neighbours:
            raise InputError(
                f"pool: expected at least the {self.neighbours} neighbours, got {self.pool}"
            )
