"""What a mapper leaves of a mission in its folder, at the end or when it is cut short."""

from __future__ import annotations

from pathlib import Path

from ..maps import ElevationMap
from ..samples import Samples
from ..survey.refused import RefusedPings
from .folder import make_folder, write_map, write_samples
from .unmapped import write_refused


class Results:
    """The mapper's share of a run's folder: samples.csv, refused.csv and map.npz.

    Args:
        path: of the folder; empty: nothing is kept.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.folder = make_folder(Path(path).expanduser()) if path else None

    def keep(
        self, latest: ElevationMap | None, samples: Samples, refused: RefusedPings
    ) -> list[str]:
        """Write what there is; returns the names of the files of samples and map.

        Raises:
            OSError: they cannot be written.
        """
        if self.folder is None:
            return []
        write_refused(self.folder, refused)
        write_samples(self.folder / "samples.csv", samples.xy, samples.z)
        if latest is None:
            return ["samples.csv"]
        write_map(self.folder / "map.npz", latest)
        return ["samples.csv", "map.npz"]

    def keep_remains(
        self, latest: ElevationMap | None, samples: Samples, refused: RefusedPings
    ) -> list[str]:
        """As ``keep``, of a mission that was cut short: a pilot survey alone does not replace an
        earlier run's results."""
        if self.folder is None or not len(samples):
            return []
        earlier = (self.folder / "map.npz").exists()
        return [] if latest is None and earlier else self.keep(latest, samples, refused)
