"""The pings in the order of arrival, and the sites formed from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...core.geometry import Land
from ...core.samples import grown
from ..interface import Dataset
from .conditional import TrainingData
from .index import EVERYTHING, Index, Subset, spread_visible

#: A ping this near to the previous one, in scaled units, counts as at the same place.
SAME_PLACE = 1e-9
#: Cells along a side of [-1, 1]^2: further pings in a cell add little information on the fields.
CELLS = 128
#: Blocks of them along a side; those with sites make up the surveyed area.
BLOCKS = 16
#: Variances of pings' own noise are alike within a factor of 2^(1/KINDS); those below
#: ``NEGLIGIBLE`` count as none.
KINDS, NEGLIGIBLE = 2, 1e-9
#: Columns of the sites, 64 bytes a row, as conditionals access sites at random: place (2), target,
#: noise in units of the learned one, own noise; sum of targets, number of pings, sum of own noises.
TARGET, NOISE, OWN, SUM, PINGS, SUM_OWN, COLUMNS = range(2, 9)


class SiteStore:
    """The pings in the order of arrival, the sites formed from them, and the index of the sites.

    A site consists of n successive pings at one place with similar own noises r. Its target is
    their mean, with the variance (s2 + mean r) / n for any learned noise s2. The best mean would be
    weighted by 1 / (s2 + r) and change with s2, so pings with different noises form separate sites.
    For similar noises the plain mean is nearly the best (its variance is at most 3 % larger).

    Attributes:
        pings: all of them.
        occupied: number of the CELLS x CELLS cells over [-1, 1]^2 that have a site.
        land: sites on different sides of it are not neighbours, in scaled units; None: no land.
    """

    def __init__(self) -> None:
        self.land: Land | None = None
        self._forget()

    def _forget(self) -> None:
        self.pings = Dataset(torch.empty(0, 2).double(), torch.empty(0).double())
        self._index = Index()
        self._count = self.occupied = 0
        self._cells = torch.zeros(CELLS * CELLS, dtype=torch.bool)
        # The sites at the place of the last ping, by kind of noise.
        self._here: dict[int, int] = {}
        self._place: Tensor | None = None
        self._rows = torch.empty(0, COLUMNS, dtype=torch.float64)

    def __len__(self) -> int:
        return self._count

    @property
    def sites(self) -> TrainingData:
        """Views of the sites; no copy."""
        rows = self._rows[: len(self)]
        own = None if self.pings.noise is None else rows[:, OWN]
        return TrainingData(rows[:, :2], rows[:, TARGET], rows[:, NOISE], own)

    @property
    def spacing(self) -> float:
        """Mean spacing of the sites over the surveyed area, in scaled units."""
        parts = self._cells.view(BLOCKS, CELLS // BLOCKS, BLOCKS, CELLS // BLOCKS)
        occupied = int(parts.any(3).any(1).sum())
        return float(2.0 / BLOCKS * (occupied / max(1, len(self))) ** 0.5)

    def restore(self, pings: Dataset) -> None:
        """Replace everything by these pings."""
        self._forget()
        if len(pings):
            self.append(pings)

    def append(self, new: Dataset) -> None:
        """Add new pings, each to a site at its place, or to a new site."""
        self.pings = self.pings.more(new)
        if not len(new):
            return
        old = self._count
        own = torch.zeros_like(new.y) if new.noise is None else new.noise
        site, begins = self._joined(new.X, own)
        self._rows = grown(self._rows, old, self._count)
        self._rows[old : self._count] = 0.0
        self._rows[old : self._count, :2] = new.X[begins]
        # One by one, so that the sums do not depend on the batches.
        for column, values in ((SUM, new.y), (PINGS, torch.ones_like(own)), (SUM_OWN, own)):
            np.add.at(self._rows[:, column].numpy(), site, values.numpy())
        changed = torch.from_numpy(site)
        rows = self._rows[changed]
        pings = rows[:, PINGS]
        self._rows[changed, TARGET] = rows[:, SUM] / pings
        self._rows[changed, NOISE] = 1.0 / pings
        self._rows[changed, OWN] = rows[:, SUM_OWN] / pings.square()
        x = self._rows[old : self._count, :2]
        self._index.add(x)
        across, up = ((x + 1.0) * (CELLS / 2)).long().clamp(0, CELLS - 1).unbind(1)
        self._cells[up * CELLS + across] = True
        self.occupied = int(self._cells.sum())

    def spread(
        self, x: Tensor, k: int, pool: int, apart: float = 0.0, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """See ``spread_visible``."""
        sites = self._rows[:, :2]
        return spread_visible(self._index, sites, self.land, x, k, pool, apart, share, elsewhere)

    def _joined(self, X: Tensor, own: Tensor) -> tuple[np.ndarray, Tensor]:
        """The site of each new ping [N], including new sites; and which pings begin one."""
        before = torch.cat([X[:1] + 1.0 if self._place is None else self._place, X[:-1]])
        moved = ((X - before).abs().amax(1) > SAME_PLACE).tolist()
        kinds = (KINDS * (own + NEGLIGIBLE).log2()).floor().long().tolist()
        sites, begins = np.empty(len(X), dtype=np.int64), np.zeros(len(X), dtype=bool)
        for ping, (moves, kind) in enumerate(zip(moved, kinds, strict=True)):
            if moves:
                self._here = {}
            if kind not in self._here:
                self._here[kind], begins[ping] = self._count, True
                self._count += 1
            sites[ping] = self._here[kind]
        self._place = X[-1:].clone()
        return sites, torch.from_numpy(begins)
