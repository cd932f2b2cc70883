"""GeoTIFF and BAG, by rasterio's GDAL. Row 0 of a file is the north edge; both are in float32."""

from __future__ import annotations

import io
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from ...core.errors import requires_extra
from ...core.geodesy import GeoReference
from .chart import Chart

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
        _describe(file.createVariable("crs", "i4", ()), _projection(chart, chart.place))
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


def _projection(chart: Chart, place: GeoReference) -> dict[str, Any]:
    """The coordinate system as CF describes it (appendix F)."""
    found = {**place.system().to_cf(), "crs_wkt": chart.crs_wkt}
    return found if chart.datum is None else {**found, "geopotential_datum_name": chart.datum.name}


def _describe(thing: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        setattr(thing, key, value.encode() if isinstance(value, str) else value)


#: Of cells without a value in a BAG, by its specification.
BAG_NODATA = 1e6
#: A BAG names its vertical datum; the template's unknown one would be read as of depths.
_UNKNOWN = 'VERT_CS["unknown",VERT_DATUM["unknown",2005],UNIT["metre",1],AXIS["Up",UP]]'
#: Names of the GeoTIFF's bands; the first is elevation or depth.
BANDS = (
    "uncertainty (95 %)",
    "density (pings per cell)",
    "sigma (1 sigma)",
    "TVU within, S-44 ed. 6 (0: none, 1: 2, 2: 1a and 1b, 3: Special, 4: Exclusive)",
)


def geotiff(chart: Chart, name: str) -> dict[str, bytes]:
    """A GeoTIFF: elevation or depth and ``BANDS``; no value is NaN, provenance is in the tags."""
    layers = (chart.height, chart.uncertainty, chart.density, chart.deviation, chart.tvu)
    names = (chart.height_name, *BANDS)
    with requires_extra(name, "rasterio"):
        import rasterio
    with rasterio.MemoryFile() as file:
        packed = {"compress": "deflate", "predictor": 3, "interleave": "band"}
        options = {**_raster(chart), **packed, "nodata": np.nan, "count": len(layers)}
        with file.open(driver="GTiff", **options) as raster:
            for number, layer in enumerate(layers, start=1):
                raster.write(_north_first(layer), number)
                raster.set_band_description(number, names[number - 1])
            raster.units = ("metre", "metre", "", "metre", "")
            raster.update_tags(**chart.provenance)
        return {name: bytes(file.read())}


def bag(chart: Chart, name: str) -> dict[str, bytes]:
    """A Bathymetric Attributed Grid: elevation, positive up, and its 95 % uncertainty.

    What kind of uncertainty that is has a code in a BAG, and none for a Gaussian process: it is
    ``unknown``, and the abstract says what it is.
    """
    words = chart.provenance
    abstract = (
        f"{words['title']}. Elevations, positive up, are the predictive mean of a Gaussian process "
        f"of {words['samples']} soundings. The uncertainty is a Gaussian process's: 1.96 of its "
        "predictive standard deviations (95 %), noise included; it is not an estimate from "
        "repeated soundings. Cells without a sounding are interpolated. "
        f"Vertical datum: {words['vertical_datum']}."
    )
    steps = "; ".join(f"{key}: {text}" for key, text in words.items())
    title = f"<gmd:title><gco:CharacterString>{escape(words['title'])}</gco:CharacterString>"
    metadata = {
        "VAR_ABSTRACT": abstract, "VAR_PROCESS_STEP_DESCRIPTION": steps,
        "VAR_VERTICAL_UNCERT_CODE": "unknown", "VAR_DATE": words["export_time"][:10],
        "VAR_DATETIME": words["export_time"].rstrip("Z"),
        "VAR_XML_IDENTIFICATION_CITATION": f"<gmd:CI_Citation>{title}</gmd:title>"
        f"<gmd:date><gmd:CI_Date><gmd:date><gco:Date>{words['export_time'][:10]}</gco:Date>"
        "</gmd:date><gmd:dateType><gmd:CI_DateTypeCode codeList="
        '"http://www.isotc211.org/2005/resources/Codelist/gmxCodelists.xml#CI_DateTypeCode" '
        'codeListValue="creation">creation</gmd:CI_DateTypeCode></gmd:dateType></gmd:CI_Date>'
        "</gmd:date></gmd:CI_Citation>",
    }  # fmt: skip
    if chart.datum is None:
        metadata["VAR_VERT_WKT"] = _UNKNOWN
    with requires_extra(name, "rasterio"):
        import rasterio
    with rasterio.MemoryFile() as file:
        options = {**_raster(chart), **metadata, "nodata": BAG_NODATA}
        with file.open(driver="BAG", count=2, **options) as raster:
            for number, layer in enumerate((chart.elevation, chart.uncertainty), start=1):
                values = _north_first(layer)
                raster.write(np.where(np.isfinite(values), values, BAG_NODATA), number)
        return {name: bytes(file.read())}


def _raster(chart: Chart) -> dict[str, Any]:
    """What both kinds of raster are opened with."""
    from rasterio import Affine
    from rasterio.crs import CRS

    borders, (rows, columns) = chart.grid.borders, chart.grid.shape
    width, height = chart.cell
    corner = Affine(width, 0.0, borders.xmin, 0.0, -height, borders.ymax)
    crs = CRS.from_wkt(chart.crs_wkt)
    return {"width": columns, "height": rows, "dtype": "float32", "crs": crs, "transform": corner}


def _north_first(layer: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(layer[::-1], dtype=np.float32)
