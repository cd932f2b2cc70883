"""All pings so far, gathered into sites: pings at one place, one after the other, are one."""

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


class SiteStore:
    """The pings as they came, the sites they make, and the index of the sites.

    A site's target is the mean of its pings', its noise the learned one over their number. A noise
    of each ping's own has its place here: the mean would be weighted, and the noise follow.

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
        self._x, self._sum, self._y, self._pings_of, self._noise = (
            torch.empty(0, *shape, dtype=torch.float64) for shape in ((2,), (), (), (), ())
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
        n = len(self)
        return Sites(self._x[:n], self._y[:n], self._noise[:n])

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
        self, x: Tensor, k: int, pool: int, share: Share = EVERYTHING, beyond: Tensor | None = None
    ) -> Tensor:
        """See ``PlainIndex.spread``."""
        return self._index.spread(x, k, pool, share, beyond)

    def _gather(self, new: Dataset) -> None:
        """The new pings join the last site, or begin others."""
        if not len(new):
            return
        old = self._count
        before = torch.cat([self._x[old - 1 : old] if old else new.X[:1] + 1.0, new.X[:-1]])
        begins = (new.X - before).abs().amax(1) > SAME_PLACE
        site = begins.long().cumsum(0) + (old - 1)
        self._count = int(site[-1]) + 1
        self._make_room()
        self._x[old : self._count] = new.X[begins]
        self._sum[old : self._count] = self._pings_of[old : self._count] = 0.0
        # One by one, so that the sums are the same whatever batches the pings come in.
        np.add.at(self._sum.numpy(), site.numpy(), new.y.numpy())
        np.add.at(self._pings_of.numpy(), site.numpy(), 1.0)
        changed = slice(max(old - 1, 0), self._count)
        self._noise[changed] = 1.0 / self._pings_of[changed]
        self._y[changed] = self._sum[changed] / self._pings_of[changed]
        self._index.add(self._x[old : self._count])
        self._survey(self._x[old : self._count])

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

    def _make_room(self) -> None:
        room = len(self._y)
        if self._count <= room:
            return
        more = max(self._count, 2 * room) - room
        self._x, self._sum, self._y, self._pings_of, self._noise = (
            torch.cat([kept, kept.new_empty(more, *kept.shape[1:])])
            for kept in (self._x, self._sum, self._y, self._pings_of, self._noise)
        )
