"""All pings so far, gathered into sites: pings at one place, of like noise, are one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..data import Dataset, DataStore
from .index import make_index
from .problem import EVERYTHING, Share, Sites

#: A ping this near to the one before, in scaled units, is taken at the same place.
SAME_PLACE = 1e-9
#: Cells a side of [-1, 1]^2: pings in one of them say little more of the fields than one does.
CELLS = 128
#: Variances of pings' own noise are alike within a factor of 2^(1/KINDS); smaller ones than the
#: negligible are none.
KINDS, NEGLIGIBLE = 2, 1e-9


class SiteStore:
    """The pings as they came, the sites they make, and the index of the sites.

    One site are n pings one after the other at one place whose own noises r are alike. Its target
    is their mean, of which (s2 + mean r) / n is the variance whatever the learned noise s2. Their
    best mean would be weighted by 1 / (s2 + r) and change with s2, so pings at one place whose
    noises are unlike stay sites of their own; among like ones the plain mean is nearly the best
    (its variance at most 3 % larger).

    Attributes:
        occupied: of CELLS x CELLS cells over [-1, 1]^2, how many have a site.
    """

    def __init__(self) -> None:
        self._pings: DataStore | None = None
        self._forget()

    def _forget(self) -> None:
        self._index = make_index()
        self._count = self.occupied = 0
        self._cells = torch.zeros(CELLS * CELLS, dtype=torch.bool)
        self._low, self._high = (torch.full((2,), v).double() for v in (torch.inf, -torch.inf))
        # At the place of the last ping: the site of each kind of noise.
        self._here: dict[int, int] = {}
        self._place: Tensor | None = None
        # Place, target and noise of a site side by side: conditionals fetch them from anywhere.
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
    def sites(self) -> Sites:
        """Views of the sites; no copy."""
        rows = self._rows[: len(self)]
        own = None if self.pings.noise is None else self._own[: len(self)]
        return Sites(rows[:, :2], rows[:, 2], rows[:, 3], own)

    @property
    def box(self) -> tuple[Tensor, Tensor]:
        """The least and the largest coordinates of the sites [2]."""
        return self._low, self._high

    @property
    def looked_at(self) -> int:
        """Sites that searches have looked at so far."""
        return self._index.looked_at

    def append(self, new: Dataset) -> None:
        """Take new pings."""
        if self._pings is None:
            self._pings = DataStore(new)
        else:
            self._pings.append(new)
        self._gather(new)

    def restore(self, pings: Dataset) -> None:
        """Hold these pings, and no others."""
        self._pings = DataStore(pings) if len(pings) else None
        self._forget()
        self._gather(pings)

    def spread(
        self, x: Tensor, k: int, pool: int, share: Share = EVERYTHING,
        beyond: Tensor | None = None, apart: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """See ``PlainIndex.spread``."""
        return self._index.spread(x, k, pool, share, beyond, apart)

    def _gather(self, new: Dataset) -> None:
        """The new pings join sites at their place, or begin others."""
        if not len(new):
            return
        old = self._count
        own = torch.zeros_like(new.y) if new.noise is None else new.noise
        site, begins = self._joined(new.X, own)
        self._make_room()
        self._rows[old : self._count, :2] = new.X[begins]
        for buffer in (self._sum, self._sum_own, self._pings_of):
            buffer[old : self._count] = 0.0
        # One by one, so that the sums are the same whatever batches the pings come in.
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
        """Where sites are, by and large, with those at x [n, 2]."""
        if not len(x):
            return
        low, high = x.aminmax(dim=0)
        self._low, self._high = self._low.minimum(low), self._high.maximum(high)
        column, row = ((x + 1.0) * (CELLS / 2)).long().clamp(0, CELLS - 1).unbind(1)
        cell = (row * CELLS + column).unique()
        self.occupied += int((~self._cells[cell]).sum())
        self._cells[cell] = True

    def _joined(self, X: Tensor, own: Tensor) -> tuple[np.ndarray, Tensor]:
        """The site of each new ping [N], counting those that they begin; and which begin one."""
        before = torch.cat([X[:1] + 1.0 if self._place is None else self._place, X[:-1]])
        moved = ((X - before).abs().amax(1) > SAME_PLACE).tolist()
        kinds = (KINDS * (own + NEGLIGIBLE).log2()).floor().long().tolist()
        sites = np.empty(len(X), dtype=np.int64)
        begins = torch.zeros(len(X), dtype=torch.bool)
        for ping, (moves, kind) in enumerate(zip(moved, kinds, strict=True)):
            if moves:
                self._here = {}
            if kind not in self._here:
                self._here[kind], begins[ping] = self._count, True
                self._count += 1
            sites[ping] = self._here[kind]
        self._place = X[-1:].clone()
        return sites, begins

    def _make_room(self) -> None:
        room = len(self._rows)
        if self._count <= room:
            return
        more = max(self._count, 2 * room) - room
        self._rows, self._sum, self._pings_of, self._sum_own, self._own = (
            torch.cat([kept, kept.new_empty(more, *kept.shape[1:])])
            for kept in (self._rows, self._sum, self._pings_of, self._sum_own, self._own)
        )
