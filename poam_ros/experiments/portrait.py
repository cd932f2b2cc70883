"""A mapper that travels to other processes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..geometry import Extent
from ..gp.models import ModelSettings
from ..gp.packing import Packed, pack, unpack
from ..mapping import BathymetricMapper, MapperState
from ..samples import Samples


@dataclass(frozen=True)
class Portrait:
    """A mapper that travels, and predicts: plain arrays, the pings but for one left behind."""

    workspace: Extent
    settings: ModelSettings
    packed: Packed
    offset: float
    deviation: float
    sample: Samples

    @classmethod
    def of(cls, mapper: BathymetricMapper) -> Portrait:
        """Of a mapper that has a map."""
        state = mapper.state()
        return cls(
            mapper.workspace, mapper.settings, pack(state.model), state.offset, state.deviation,
            state.samples[:1],
        )  # fmt: skip

    @cached_property
    def mapper(self) -> BathymetricMapper:
        """It again. Once on a worker, which keeps what was sent to it for all of its tasks."""
        mapper = BathymetricMapper(self.workspace, self.settings)
        model = unpack(self.packed)
        mapper.restore(MapperState(model, self.offset, self.deviation, self.sample))
        return mapper
