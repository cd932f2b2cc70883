"""Degrees to metres: a transverse Mercator of a survey's own, about its middle. Numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError

SEMI_MAJOR, FLATTENING = 6_378_137.0, 1 / 298.257223563  # m; WGS 84
#: Degrees of longitude from the middle; the series holds to a millimetre and beyond within it.
WIDEST = 30.0


@dataclass(frozen=True)
class LocalProjection:
    """Transverse Mercator on WGS 84 of scale 1 along the middle's meridian, degrees.

    x points east and y north at (latitude, longitude), which is (0, 0). A length that lies d off
    the meridian is too long by d^2 / (2 R^2): 1 cm in a kilometre at 30 km, 1.2 % at 1000 km.
    """

    latitude: float
    longitude: float

    @classmethod
    def about(cls, latitude: np.ndarray, longitude: np.ndarray) -> LocalProjection:
        """About the middle of places in degrees [N], also across 180 degrees of longitude.

        Raises:
            InputError: they are too far apart for one plane.
        """
        if not len(latitude):
            raise InputError("projection: expected at least one place, got none")
        around = np.radians(longitude)
        rough = np.degrees(np.arctan2(np.sin(around).mean(), np.cos(around).mean()))
        off = _wrapped(longitude - rough)
        middle = float(_wrapped(rough + (off.min() + off.max()) / 2))
        widest = float(np.abs(_wrapped(longitude - middle)).max())
        if widest > WIDEST:
            raise InputError(
                f"longitude: expected soundings within {2 * WIDEST:g} degrees of each other, "
                f"got {2 * widest:.1f}"
            )
        return cls(float((latitude.min() + latitude.max()) / 2), middle)

    @property
    def crs(self) -> str:
        """The same, as PROJ (rasterio, pyproj, QGIS) spells it."""
        return (
            f"+proj=tmerc +lat_0={self.latitude!r} +lon_0={self.longitude!r} +k=1 "
            "+x_0=0 +y_0=0 +datum=WGS84 +units=m +no_defs"
        )

    @property
    def georeference(self) -> dict[str, Any]:
        """As a run records where (0, 0) lies, where +y points, and in which coordinates."""
        return {"origin": [self.latitude, self.longitude], "heading": 0.0, "crs": self.crs}

    def metres(self, latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
        """x, y of places in degrees [N], [N, 2]; NaN where the series does not hold."""
        off = _wrapped(longitude - self.longitude)
        off = np.where(np.abs(off) <= WIDEST, off, np.nan)
        x, northing = _from_equator(latitude, off)
        _, origin = _from_equator(np.array([self.latitude]), np.zeros(1))
        return np.column_stack((x, northing - origin))


def _wrapped(degrees: np.ndarray | float) -> np.ndarray:
    """Within half a turn of zero."""
    return (np.asarray(degrees) + 180.0) % 360.0 - 180.0


def _from_equator(latitude: np.ndarray, off: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Easting and northing of places ``off`` the meridian, in m (Krueger's series in n; Karney,
    Transverse Mercator with an accuracy of a few nanometers, 2011, eqs. 7-11, 35)."""
    n = FLATTENING / (2 - FLATTENING)
    radius = SEMI_MAJOR / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    series = (
        n / 2 - 2 * n**2 / 3 + 5 * n**3 / 16 + 41 * n**4 / 180,
        13 * n**2 / 48 - 3 * n**3 / 5 + 557 * n**4 / 1440,
        61 * n**3 / 240 - 103 * n**4 / 140,
        49561 * n**4 / 161280,
    )
    phi, lam = np.radians(latitude), np.radians(off)
    e = 2 * np.sqrt(n) / (1 + n)
    # The conformal latitude's tangent.
    tau = np.sinh(np.arctanh(np.sin(phi)) - e * np.arctanh(e * np.sin(phi)))
    xi = np.arctan2(tau, np.cos(lam))
    eta = np.arcsinh(np.sin(lam) / np.hypot(tau, np.cos(lam)))
    x, y = eta.copy(), xi.copy()
    for j, a in enumerate(series, start=1):
        x += a * np.cos(2 * j * xi) * np.sinh(2 * j * eta)
        y += a * np.sin(2 * j * xi) * np.cosh(2 * j * eta)
    return radius * x, radius * y
