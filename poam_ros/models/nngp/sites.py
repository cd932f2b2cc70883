"""The pings in the order of arrival, and the sites formed from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ...core.land import Land
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
#: Neighbours that the noise of position at a place is the mean of.
FEW = 8


class SiteStore:
    """The pings in the order of arrival, the sites formed from them, and the index of the sites.

    A site consists of n successive pings at one place with similar own noises r. Its target is
    their mean, with the variance (s2 + mean r) / n for any learned noise s2. The best mean would be
    weighted by 1 / (s2 + r) and change with s2, so pings with different noises form separate sites.
    For similar noises the plain mean is nearly the best (its variance is at most 3 % larger).

    Attributes:
        occupied: number of the CELLS x CELLS cells over [-1, 1]^2 that have a site.
        residual: of each site at its last check, in standard deviations [S]; NaN before.
        excess: noise variance of sites that contradict their neighbours [S]; 0 for the others.
        contradicting: number of sites with such noise.
        lost: places of pings that were taken out since the last check [n, 2].
        land: sites on different sides of it are not neighbours, in scaled units; None: no land.
        position_noise: noise variance from errors of position at each site [S]; None: none.
    """

    def __init__(self) -> None:
        self.land: Land | None = None
        self._pings: DataStore | None = None
        self._forget()

    def _forget(self) -> None:
        self._index = make_index()
        self._count = self.occupied = self.contradicting = self._turn = 0
        self._cells = torch.zeros(CELLS * CELLS, dtype=torch.bool)
        self._low, self._high = (torch.full((2,), v).double() for v in (torch.inf, -torch.inf))
        # The sites at the place of the last ping, by kind of noise.
        self._here: dict[int, int] = {}
        self._place: Tensor | None = None
        # Place, target and noise of a site are adjacent in memory: conditionals access sites at
        # random.
        self._rows, self._sum, self._pings_of, self._sum_own, self._own, self._residual = (
            torch.empty(0, *shape, dtype=torch.float64) for shape in ((4,), (), (), (), (), ())
        )
        self._excess = torch.empty(0, dtype=torch.float64)
        self._first = torch.empty(0, dtype=torch.int64)  # ping of each site
        self.lost = torch.empty(0, 2, dtype=torch.float64)
        self.position_noise: Tensor | None = None

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
        silent = self.pings.noise is None and not self.contradicting
        own = None if silent else self._own[: len(self)]
        if self.position_noise is not None:
            own = self.position_noise if own is None else own + self.position_noise
        return TrainingData(rows[:, :2], rows[:, 2], rows[:, 3], own)

    @property
    def box(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest coordinates of the sites [2]."""
        return self._low, self._high

    @property
    def looked_at(self) -> int:
        """Number of sites that searches have looked at so far."""
        return self._index.looked_at

    @property
    def residual(self) -> Tensor:
        """See the class; a view."""
        return self._residual[: len(self)]

    @property
    def excess(self) -> Tensor:
        """See the class; a view, which ``set_excess`` changes."""
        return self._excess[: len(self)]

    def measured(self, sites: Tensor) -> Tensor:
        """Noise variances that the pings of these sites [n] came with, besides the learned one."""
        return self._sum_own[sites] / self._pings_of[sites].square()

    def position_noise_at(self, near: Tensor) -> Tensor:
        """The noise variance [n] from errors of position of soundings with these neighbours [n, k]
        (-1 for none): the mean over the first few."""
        assert self.position_noise is not None
        few = near[:, :FEW]
        there = few >= 0
        return (self.position_noise[few.clamp_min(0)] * there).sum(1) / there.sum(1).clamp_min(1)

    def set_excess(self, sites: Tensor, excess: Tensor) -> None:
        """Set the noise variance of sites [n] that contradict their neighbours; 0 for others."""
        changed = (excess > 0).sum() - (self._excess[sites] > 0).sum()
        self.contradicting += int(changed)
        self._excess[sites] = excess
        self._own[sites] = self.measured(sites) + excess

    def next_checked(self, count: int) -> Tensor:
        """The next ``count`` sites in turn, cyclically [count]."""
        turn = (self._turn + torch.arange(min(count, len(self)))) % len(self)
        self._turn = (int(turn[-1]) + 1) % len(self)
        return turn

    def checked(self) -> dict[str, Tensor]:
        """Copies of the results of checks, for ``restore``."""
        found = {
            "residual": self.residual.clone(),
            "excess": self.excess.clone(),
            "lost": self.lost,
            "turn": torch.tensor(self._turn),
        }
        if self.position_noise is not None:
            found["position_noise"] = self.position_noise.clone()
        return found

    def append(self, new: Dataset) -> Tensor:
        """Add new pings; returns the new or changed sites [n], in order."""
        if self._pings is None:
            self._pings = DataStore(new)
        else:
            self._pings.append(new)
        return self._gather(new)

    def restore(self, pings: Dataset, checked: Mapping[str, Tensor] | None = None) -> None:
        """Replace everything by these pings; ``checked``: earlier results of checks; None: none."""
        self._pings = DataStore(pings) if len(pings) else None
        self._forget()
        self._gather(pings)
        if checked is not None:
            self.residual[:] = checked["residual"]
            self.set_excess(torch.arange(len(self)), checked["excess"])
            self._turn = int(checked["turn"])
            self.lost = checked.get("lost", self.lost)
            self.position_noise = checked.get("position_noise")

    def keep(self, rows: Tensor) -> None:
        """Forget all pings but these rows [N], boolean. The results of checks stay."""
        pings, first, residual, excess = self.pings, self._first, self._residual, self._excess
        site = torch.full((len(pings),), -1)
        site[first[: len(self)]] = torch.arange(len(self))
        lost = torch.cat([self.lost, pings.X[~rows]]).unique(dim=0)
        self.restore(pings[rows])
        old = site[rows][self._first[: len(self)]]
        (known,) = torch.nonzero(old >= 0, as_tuple=True)  # with the ping that began it
        self._residual[known] = residual[old[known]]
        self.set_excess(known, excess[old[known]])
        self.lost = lost

    def spread(
        self, x: Tensor, k: int, pool: int, share: Subset = EVERYTHING,
        beyond: Tensor | None = None, apart: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """See ``spread_visible``."""
        sites = self._rows[:, :2]
        return spread_visible(self._index, sites, self.land, x, k, pool, share, beyond, apart)

    def nearest(self, x: Tensor) -> Tensor:
        """The nearest site of each place [N, 2], also across land [N]."""
        return self._index.spread(x, 1, 1).squeeze(1)

    def _gather(self, new: Dataset) -> Tensor:
        """Add each new ping to a site at its place, or to a new site; see ``append``."""
        if not len(new):
            return torch.empty(0, dtype=torch.int64)
        old = self._count
        own = torch.zeros_like(new.y) if new.noise is None else new.noise
        site, begins = self._joined(new.X, own)
        self._make_room()
        self._rows[old : self._count, :2] = new.X[begins]
        for buffer in (self._sum, self._sum_own, self._pings_of, self._excess):
            buffer[old : self._count] = 0.0
        self._residual[old : self._count] = torch.nan
        self._first[old : self._count] = len(self.pings) - len(new) + begins.nonzero().squeeze(1)
        # One by one, so that the sums do not depend on the batches.
        np.add.at(self._sum.numpy(), site, new.y.numpy())
        np.add.at(self._sum_own.numpy(), site, own.numpy())
        np.add.at(self._pings_of.numpy(), site, 1.0)
        changed = torch.from_numpy(site)
        pings = self._pings_of[changed]
        self._rows[changed, 2] = self._sum[changed] / pings
        self._rows[changed, 3] = 1.0 / pings
        self._own[changed] = self.measured(changed) + self._excess[changed]
        self._index.add(self._rows[old : self._count, :2])
        self._survey(self._rows[old : self._count, :2])
        return changed.unique()

    def _survey(self, x: Tensor) -> None:
        """Update box and occupied cells with sites at x [n, 2]."""
        if not len(x):
            return
        low, high = x.aminmax(dim=0)
        self._low, self._high = self._low.minimum(low), self._high.maximum(high)
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
        room = len(self._rows)
        if self._count <= room:
            return
        more = max(self._count, 2 * room) - room
        buffers = "_rows _sum _pings_of _sum_own _own _residual _excess _first"
        for name in buffers.split():
            kept = getattr(self, name)
            setattr(self, name, torch.cat([kept, kept.new_empty(more, *kept.shape[1:])]))
