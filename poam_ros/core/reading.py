"""Reading files that others may have written, in bounded memory; YAML becomes plain values.

Messages do not name the file: the caller does.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, TextIO
from zipfile import ZipFile, is_zipfile

import numpy as np
import yaml

from .errors import InputError, shown

#: Environment variable: MiB of memory that the content of one file may take, and its default.
VARIABLE = "POAM_FILE_MEMORY"
DEFAULT_MIB = 1024.0
#: Bytes of memory per byte of text, at worst: of JSON, and of a record in a recording.
JSON_FACTOR = RECORD_FACTOR = 16
#: The same of a table whose rows are texts.
TEXT_FACTOR = 32
#: Characters of a line of a table.
LONGEST_LINE = 65_536
#: Bytes of memory that PyYAML takes for each character. Aliases of a file: each may stand for a few
#: that came before, all 20 for some thousand values.
YAML_FACTOR, MAX_ALIASES = 500, 20
#: Maximum depth of what is nested in YAML or XML.
DEEPEST = 50
MERGE = "tag:yaml.org,2002:merge"


def allowance() -> int:
    """Bytes of memory that the content of one file may take.

    Raises:
        InputError: ``VARIABLE`` is not a positive number.
    """
    text = os.environ.get(VARIABLE, "")
    with suppress(ValueError):
        if 0 < (mib := float(text or DEFAULT_MIB)) < math.inf:
            return int(mib * 2**20)
    raise InputError(f"{VARIABLE}: expected a number of MiB above 0, got {shown(text)}")


def refuse_larger(what: str, size: float, factor: int = 1) -> None:
    """Raise an ``InputError`` if something would take more memory than allowed.

    Args:
        what: its name, for the message.
        size: its size in bytes.
        factor: bytes of memory for each of these bytes.
    """
    if size * factor > (most := allowance()):
        raise InputError(
            f"{what} takes {size * factor / 2**20:.0f} MiB of memory, expected at most "
            f"{most / 2**20:g} ({VARIABLE}, in MiB)"
        )


@contextmanager
def open_geotiff(path: Path, factor: int) -> Iterator[Any]:
    """An open GeoTIFF, as a dataset of rasterio. Formats that refer to other files are refused.

    Args:
        path: of the file.
        factor: bytes of memory for each value.

    Raises:
        ImportError: rasterio is not installed.
        RasterioError: it is not a GeoTIFF.
        InputError: its values, or one of its blocks, which are unpacked whole, would take more
            memory than allowed.
    """
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # terrains need no georeference
        source = rasterio.open(path, driver="GTiff")
    with source:
        blocks = [rows * columns * source.count for rows, columns in source.block_shapes]
        refuse_larger("its raster", max([source.width * source.height, *blocks]), factor)
        yield source


class MemoryMeter:
    """Counts the memory that the content of one file takes while it is read.

    Args:
        what: name of the content, for the message.
    """

    def __init__(self, what: str = "its content") -> None:
        self._what, self._taken, self._most = what, 0, allowance()

    def add(self, size: int) -> None:
        """Count ``size`` bytes more. Raises an ``InputError`` if the sum is too large."""
        self._taken += size
        if self._taken > self._most:
            refuse_larger(self._what, self._taken)


def refuse_large_dataset(path: Path) -> None:
    """Refuse a GIS dataset that would take too much memory, or refers to other files. All files
    with the same stem count; an archive counts with its unpacked size.

    Raises:
        OSError: it cannot be read.
        InputError: see above.
    """
    with path.open("rb") as file:  # GDAL recognises a VRT by its content, whatever its name
        head = file.read(4096)
    if b"VRTDataSource" in head:
        raise InputError("it refers to other files")
    size = sum(part.stat().st_size for part in path.parent.glob(f"{escape(path.stem)}.*"))
    if head[:2] == b"PK":
        with ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    refuse_larger("its content", size, RECORD_FACTOR)


def read_whole(path: Path, factor: int = 1) -> bytes:
    """A file's bytes, each of which will take ``factor`` bytes of memory.

    Raises:
        OSError: it cannot be read.
        InputError: it is too large.
    """
    with path.open("rb") as file:
        content = file.read(allowance() // factor + 1)
    refuse_larger("its content", len(content), factor)
    return content


def parse_json(path: Path) -> Any:
    """The content of a JSON file in UTF-8, with or without a byte order mark. Raises an OSError,
    or as ``parse_json_text``."""
    return parse_json_text(read_whole(path, JSON_FACTOR).decode("utf-8-sig"))


def parse_json_text(text: str) -> Any:
    """The content of a JSON text. Raises a ValueError: it is not JSON, too large or too deep."""
    refuse_larger("its JSON", len(text), JSON_FACTOR)
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("nested too deep") from None


def lines(file: TextIO, where: str = "") -> Iterator[str]:
    """The lines of a text.

    Raises:
        InputError: one is too long to be a row of a table; its message begins with ``where``.
    """
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), 1):
        if len(line) >= LONGEST_LINE:
            raise InputError(
                f"{where}line {number}: expected a row of a table, got more than {LONGEST_LINE} "
                "characters without a line break"
            )
        yield line


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` by name; that of an ``.npy`` under the empty name.

    Raises:
        InputError: it takes too much memory.
        Exception: one of ``files.UNREADABLE``: it is damaged, or not such a file.
    """
    size = path.stat().st_size
    if is_zipfile(path):
        with ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    refuse_larger("its content", size)
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    with loaded:
        return dict(loaded)


class _Loader(yaml.SafeLoader):
    """Refuses a repeated key, of which YAML would silently use the last value, and many aliases,
    whose values may multiply."""

    _aliases = _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._aliases += self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._aliases > MAX_ALIASES or self._depth > DEEPEST:
            raise yaml.YAMLError(f"deeper than {DEEPEST}, or more than {MAX_ALIASES} aliases")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Before merging (``<<: *a``), which adds keys that the mapping's own override.
        node = super().compose_mapping_node(anchor)
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        keys = [key.value if key.tag == MERGE else self.construct_object(key) for key in scalars]
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice[0]!r} appears twice in the mapping at line {line}")
        return node


def read_yaml(path: Path) -> Any:
    """The content of a YAML file in UTF-8.

    Raises:
        OSError: it cannot be read.
        InputError: it is not YAML, too large, nested too deep, or has a key twice or many aliases.
    """
    try:
        return _Loader(read_whole(path, YAML_FACTOR).decode()).get_single_data()
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise InputError(" ".join(str(error).split())) from None
