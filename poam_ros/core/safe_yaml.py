"""Reads YAML files safely: plain values only, and a bounded number of them, aliases expanded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .errors import InputError
from .reading import allowance, read_whole

#: Bytes of memory that PyYAML takes for each character and for each node.
TEXT_FACTOR, NODE_BYTES = 64, 10_000
#: Maximum depth of nested mappings and lists.
DEEPEST = 50
MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """Counts nodes as if every alias were written out."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._left = self._most = allowance() // NODE_BYTES
        self._sizes: dict[int, int] = {}
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        before, alias = self._left, self.check_event(yaml.AliasEvent)
        self._left -= 1
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.YAMLError("nested too deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias:
            if id(node) not in self._sizes:
                raise yaml.YAMLError("an alias inside the value that it refers to")
            self._left = before - self._sizes[id(node)]
        if self._left < 0:
            raise yaml.YAMLError(f"more than {self._most} values, with those of its aliases")
        self._sizes[id(node)] = before - self._left
        return node


class _UniqueLoader(_Loader):
    """Refuses a repeated key; YAML would silently use its last value."""

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


def read_yaml(path: Path, unique: bool = False) -> Any:
    """The content of a YAML file.

    Args:
        path: of the file; UTF-8.
        unique: refuse a mapping with the same key twice.

    Raises:
        OSError: it cannot be read.
        InputError: it is no YAML, too large, or has too many values.
    """
    try:
        text = read_whole(path, TEXT_FACTOR).decode()
        return yaml.load(text, _UniqueLoader if unique else _Loader)
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise InputError(" ".join(str(error).split())) from None
