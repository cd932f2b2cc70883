"""Polygons of a workspace and of keep-outs in files: GeoJSON, GeoPackage, .plan, KML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import WGS84, LocalProjection, transformed
from ..core.reading import parse_json, read_whole
from ..core.vectors import PolygonLayer, read_polygon_layer

WORKSPACE, KEEP_OUT = KINDS = "workspace", "keep_out"
Area = tuple[str, np.ndarray]
SIDES = 64  # of the polygon that stands for a circle
XML_FACTOR = 16  # bytes of memory for each byte of a file


def read_areas(path: Path) -> tuple[list[Area], bool]:
    """Kind and corners [K, 2] of the polygons; and whether they are longitude, latitude for sure.

    Holes of a workspace are keep-outs.

    Raises:
        InputError: the file cannot be read, or has no polygons.
    """
    name, parse, polygons, degrees = FORMATS.get(path.suffix.lower(), GEOJSON)
    try:
        content = parse(path)
    except OSError as error:
        raise InputError(f"areas.file: cannot read {path}: {error.strerror}") from None
    except InputError as error:
        raise InputError(f"areas.file: cannot read {path}: {error}") from None
    except (ValueError, ElementTree.ParseError):
        raise InputError(f"areas.file: cannot read {path}: it is not {name}") from None
    try:
        found = list(polygons(content))
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(f"areas.file: expected {name} with polygons in {path}") from None
    if not found:
        raise InputError(f"areas.file: expected polygons in {path}, got none")
    for kind, _ in found:
        if kind not in KINDS:
            expected = f"kind {' or '.join(KINDS)} in {path}"
            raise InputError(f"areas.file: expected {expected}, got {kind}")
    return found, degrees


def _geojson(content: Any, kind: str = KEEP_OUT) -> Iterator[Area]:
    match content["type"]:
        case "FeatureCollection":
            for feature in content["features"]:
                yield from _geojson(feature)
        case "Feature":
            own = (content.get("properties") or {}).get("kind", KEEP_OUT)
            yield from _geojson(content["geometry"], own)
        case "Polygon":
            outer, *holes = (np.array(r, dtype=float)[:, :2] for r in content["coordinates"])
            yield kind, outer
            for hole in holes if kind == WORKSPACE else ():
                yield KEEP_OUT, hole
        case "MultiPolygon":
            for coordinates in content["coordinates"]:
                yield from _geojson({"type": "Polygon", "coordinates": coordinates}, kind)
        case other:
            raise ValueError(other)


def _plan(content: Any) -> Iterator[Area]:
    """The geofence: inclusions are workspaces, exclusions keep-outs.

    Source: https://docs.qgroundcontrol.com/master/en/qgc-dev-guide/file_formats/plan.html
    """
    fence = content["geoFence"]
    for polygon in fence.get("polygons", ()):
        corners = np.array(polygon["polygon"], dtype=float)[:, 1::-1]
        yield WORKSPACE if polygon["inclusion"] else KEEP_OUT, corners
    for one in fence.get("circles", ()):
        (latitude, longitude), radius = one["circle"]["center"][:2], one["circle"]["radius"]
        if not (abs(float(latitude)) <= 90 and abs(float(longitude)) <= 360):
            raise ValueError("no place on the Earth")
        # A polygon within the circle of a workspace, and around that of a keep-out.
        reach = float(radius) / (1.0 if one["inclusion"] else math.cos(math.pi / SIDES))
        angle = np.arange(SIDES) * (2 * math.pi / SIDES)
        ring = reach * np.column_stack((np.cos(angle), np.sin(angle)))
        place = LocalProjection(float(latitude), float(longitude))
        yield WORKSPACE if one["inclusion"] else KEEP_OUT, transformed(place.crs, WGS84, ring)


def _parse_xml(path: Path) -> ElementTree.Element:
    text = read_whole(path, XML_FACTOR)
    if b"<!" in text.replace(b"<!--", b"").replace(b"<![CDATA[", b""):  # entities may grow
        raise InputError("expected KML without a document type")
    return ElementTree.fromstring(text)


def _kml(root: ElementTree.Element) -> Iterator[Area]:
    """The polygons of all placemarks; the name says the kind: one that is not ``workspace`` is a
    keep-out."""
    for mark in root.iterfind(".//{*}Placemark"):
        name = (mark.findtext("{*}name") or "").strip().lower()
        kind = WORKSPACE if name == WORKSPACE else KEEP_OUT
        for polygon in mark.iterfind(".//{*}Polygon"):
            outer = polygon.findtext("{*}outerBoundaryIs//{*}coordinates")
            yield kind, _corners(outer or "")
            holes = polygon.iterfind("{*}innerBoundaryIs//{*}coordinates")
            for hole in holes if kind == WORKSPACE else ():
                yield KEEP_OUT, _corners(hole.text or "")


def _corners(text: str) -> np.ndarray:
    return np.array([corner.split(",")[:2] for corner in text.split()], dtype=float)


def _parse_layer(path: Path) -> PolygonLayer:
    try:
        return read_polygon_layer(path, "areas in this format", "kind")
    except InputError as error:  # the caller names the file
        raise InputError(str(error).removeprefix(f"{path}: ")) from None


def _layer(layer: PolygonLayer) -> Iterator[Area]:
    """The polygons of a layer, whose column ``kind`` is as the property of GeoJSON."""
    if layer.crs is None:
        raise InputError("areas.file: expected a file with a coordinate system")
    for rings, value in zip(layer.polygons, layer.values, strict=True):
        outer, *holes = (transformed(layer.crs, WGS84, ring) for ring in rings)
        kind = value or KEEP_OUT
        yield kind, outer
        for hole in holes if kind == WORKSPACE else ():
            yield KEEP_OUT, hole


#: What a file is called, its reader, that of its polygons, and whether they are in degrees.
Format = tuple[str, Callable[[Path], Any], Callable[[Any], Iterator[Area]], bool]
GEOJSON: Format = ("GeoJSON", parse_json, _geojson, False)
FORMATS: dict[str, Format] = {
    ".plan": ("a QGroundControl plan", parse_json, _plan, True),
    ".kml": ("KML", _parse_xml, _kml, True),
    ".gpkg": ("GeoPackage", _parse_layer, _layer, True),
    ".shp": ("a Shapefile", _parse_layer, _layer, True),
}
