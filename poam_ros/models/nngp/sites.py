"""The pings in the order of arrival, and the sites formed from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...core.geometry import Land
from ...core.samples import grown
from ..data import Dataset, DataStore
from .index import make_index
from .kernel import EVERYTHING, Subset, TrainingData
from .visible import spread_visible

#: A ping this near to the previous one, in scaled units, counts as at the same place.
SAME_PLACE = 1e-9
#: Cells along a side of [-1, 1]^2: further pings in a cell add little information on the fields.
CELLS = 128
#: Variances of pings' own noise are alike within a factor of 2^(1/KINDS); those below
#: ``NEGLIGIBLE`` count as none.
KINDS, NEGLIGIBLE = 2, 1e-9


class SiteStore:
    """The pings in the order of arrival, the sites formed from them, and the index of the sites.

    A site consists of n successive pings at one place with similar own noises r. Its target is
    their mean, with the variance (s2 + mean r) / n for any learned noise s2. The best mean would be
    weighted by 1 / (s2 + r) and change with s2, so pings with different noises form separate sites.
    For similar noises the plain mean is nearly the best (its variance is at most 3 % larger).

    Attributes:
        occupied: number of the CELLS x CELLS cells over [-1, 1]^2 that have a site.
        land: sites on different sides of it are not neighbours, in scaled units; None: no land.
    """

    def __init__(self) -> None:
        self.land: Land | None = None
        self._pings: DataStore | None = None
        self._forget()

    def _forget(self) -> None:
        self._index = make_index()
        self._count = self.occupied = 0
        self._cells = torch.zeros(CELLS * CELLS, dtype=torch.bool)
        # The sites at the place of the last ping, by kind of noise.
        self._here: dict[int, int] = {}
        self._place: Tensor | None = None
        # Place, target and noise of a site are adjacent in memory: conditionals access sites at
        # random.
        self._rows, self._sum, self._pings_of, self._sum_own, self._own = (
            torch.empty(0, *shape, dtype=torch.float64) for shape in ((4,), (), (), (), ())
        )

    def __len__(self) -> int:
        return self._count

    @property
    def pings(self) -> Dataset:
        """A view of all pings; no copy."""
        if self._pings is None:
            return Dataset(torch.empty(0, 2).double(), torch.empty(0).double())
        return self._pings.data

    @property
    def sites(self) -> TrainingData:
        """Views of the sites; no copy."""
        rows = self._rows[: len(self)]
        own = None if self.pings.noise is None else self._own[: len(self)]
        return TrainingData(rows[:, :2], rows[:, 2], rows[:, 3], own)

    @property
    def looked_at(self) -> int:
        """Number of sites that searches have looked at so far."""
        return self._index.looked_at

    def append(self, new: Dataset) -> None:
        """Add new pings."""
        if self._pings is None:
            self._pings = DataStore(new)
        else:
            self._pings.append(new)
        self._gather(new)

    def restore(self, pings: Dataset) -> None:
        """Replace everything by these pings."""
        self._pings = DataStore(pings) if len(pings) else None
        self._forget()
        self._gather(pings)

    def spread(
        self, x: Tensor, k: int, pool: int, apart: float = 0.0, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """See ``spread_visible``."""
        sites = self._rows[:, :2]
        return spread_visible(self._index, sites, self.land, x, k, pool, apart, share, elsewhere)

    def _gather(self, new: Dataset) -> None:
        """Add each new ping to a site at its place, or to a new site."""
        if not len(new):
            return
        old = self._count
        own = torch.zeros_like(new.y) if new.noise is None else new.noise
        site, begins = self._joined(new.X, own)
        self._make_room()
        self._rows[old : self._count, :2] = new.X[begins]
        for buffer in (self._sum, self._sum_own, self._pings_of):
            buffer[old : self._count] = 0.0
        # One by one, so that the sums do not depend on the batches.
        np.add.at(self._sum.numpy(), site, new.y.numpy())
        np.add.at(self._sum_own.numpy(), site, own.numpy())
        np.add.at(self._pings_of.numpy(), site, 1.0)
        changed = torch.from_numpy(site)
        pings = self._pings_of[changed]
        self._rows[changed, 2] = self._sum[changed] / pings
        self._rows[changed, 3] = 1.0 / pings
        self._own[changed] = self._sum_own[changed] / pings.square()
        self._index.add(self._rows[old : self._count, :2])
        self._survey(self._rows[old : self._count, :2])

    def _survey(self, x: Tensor) -> None:
        """Update the occupied cells with sites at x [n, 2]."""
        column, row = ((x + 1.0) * (CELLS / 2)).long().clamp(0, CELLS - 1).unbind(1)
        cell = (row * CELLS + column).unique()
        self.occupied += int((~self._cells[cell]).sum())
        self._cells[cell] = True

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

    def _make_room(self) -> None:
        self._rows, self._sum, self._pings_of, self._sum_own, self._own = (
            grown(kept, len(kept), self._count)
            for kept in (self._rows, self._sum, self._pings_of, self._sum_own, self._own)
        )
