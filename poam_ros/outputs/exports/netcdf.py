"""NetCDF by the Climate and Forecast conventions, in the classic format, which SciPy writes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from .chart import Chart
from .place import Mercator

#: Of a cell that is dry or has no value, in the layer of whole numbers.
_NOTHING = -1


def netcdf(chart: Chart, name: str) -> dict[str, bytes]:
    """A CF-1.8 file: elevation or depth [y, x], and its ancillary variables; row 0 is south."""
    from scipy.io import netcdf_file

    content = io.BytesIO()
    file = netcdf_file(content, "w", version=2)
    _describe(file, {"Conventions": "CF-1.8", **chart.provenance})
    _axes(file, chart)
    layers = _layers(chart)
    mapping = {}
    if chart.place is not None:
        mapping = {"grid_mapping": "crs"}
        _describe(file.createVariable("crs", "i4", ()), _projection(chart, chart.place.projection))
    for number, (key, (values, kind, more)) in enumerate(layers.items()):
        layer = file.createVariable(key, kind, ("y", "x"))
        layer[:] = values
        rest = " ".join([*layers][1:]) if number == 0 else ""
        _describe(layer, {**more, **mapping, **({"ancillary_variables": rest} if rest else {})})
    file.flush()
    return {name: content.getvalue()}


def _axes(file: Any, chart: Chart) -> None:
    for key, values in (("x", chart.grid.x), ("y", chart.grid.y)):
        file.createDimension(key, len(values))
        axis = file.createVariable(key, "f8", (key,))
        axis[:] = values
        known = {
            "standard_name": f"projection_{key}_coordinate",
            "long_name": "easting" if key == "x" else "northing",
        }
        local = {"long_name": f"{key} in the map's own frame"}
        where = local if chart.place is None else known
        _describe(axis, {**where, "units": "m", "axis": key.upper()})


def _layers(chart: Chart) -> dict[str, tuple[np.ndarray, str, dict[str, Any]]]:
    """Values, their type and their attributes, of each variable by name; the first is the map."""
    standard, nan = _standard_name(chart), np.float32(np.nan)
    whole = {"_FillValue": np.int32(_NOTHING)}
    metres = {"_FillValue": nan, "units": "m"}
    density = np.where(np.isfinite(chart.density), chart.density, _NOTHING)
    tvu = np.where(np.isfinite(chart.tvu), chart.tvu, _NOTHING)
    way = "down" if chart.settings.depth else "up"
    title = {"standard_name": standard, "long_name": f"{chart.height_name}, positive {way}"}
    return {
        chart.height_name: (chart.height, "f4", {**metres, **title}),
        "uncertainty": (chart.uncertainty, "f4", {**metres, "long_name": "uncertainty (95 %)"}),
        "sigma": (
            chart.deviation, "f4",
            {**metres, "standard_name": f"{standard} standard_error", "long_name": "1 sigma"},
        ),
        "density": (
            density, "i4",
            {**whole, "standard_name": f"{standard} number_of_observations", "units": "1",
             "long_name": "pings per cell; 0 where the map is interpolated"},
        ),
        "tvu": (
            tvu, "i4",
            {**whole, "long_name": "TVU within (IHO S-44 edition 6)",
             "flag_values": np.arange(5, dtype=np.int32),
             "flag_meanings": "none within_2 within_1a_1b within_special within_exclusive"},
        ),
    }  # fmt: skip


def _standard_name(chart: Chart) -> str:
    """From the table of CF's standard names."""
    if not chart.settings.depth:
        return "height_above_geopotential_datum"
    if chart.datum is None or chart.datum.is_water:
        return "sea_floor_depth_below_sea_surface"
    return "sea_floor_depth_below_geopotential_datum"


def _projection(chart: Chart, flat: Mercator) -> dict[str, Any]:
    """A transverse Mercator projection as CF describes it (appendix F)."""
    found = {
        "grid_mapping_name": "transverse_mercator",
        "latitude_of_projection_origin": flat.latitude,
        "longitude_of_central_meridian": flat.longitude,
        "scale_factor_at_central_meridian": flat.scale,
        "false_easting": flat.easting, "false_northing": flat.northing,
        "semi_major_axis": 6378137.0, "inverse_flattening": 298.257223563,
        "longitude_of_prime_meridian": 0.0, "horizontal_datum_name": "WGS_1984",
        "crs_wkt": chart.crs_wkt,
    }  # fmt: skip
    return found if chart.datum is None else {**found, "geopotential_datum_name": chart.datum.name}


def _describe(thing: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        setattr(thing, key, value.encode() if isinstance(value, str) else value)
