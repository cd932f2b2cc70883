"""GeoTIFF and BAG, by rasterio's GDAL. Row 0 of a file is the north edge; both are in float32."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from .chart import Chart
from .needs import needing

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
    with needing(name, "rasterio"):
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
    with needing(name, "rasterio"):
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
