"""YAML as every file of it is read here: plain values only, and no more of them than a file of
settings has, however often it repeats them by aliases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .errors import InputError
from .reading import allowance, read_whole

#: Bytes of memory for each character, and for each node: what PyYAML makes of them.
TEXT_FACTOR, NODE_BYTES = 64, 10_000
#: Mappings and lists within each other.
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
                raise yaml.YAMLError("an alias within what it stands for")
            self._left = before - self._sizes[id(node)]
        if self._left < 0:
            raise yaml.YAMLError(f"more than {self._most} values, with those of its aliases")
        self._sizes[id(node)] = before - self._left
        return node


class _UniqueLoader(_Loader):
    """Refuses a key that is there twice, of which YAML would quietly keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # As written: merging (``<<: *a``) later puts keys beside those that they give way to.
        node = super().compose_mapping_node(anchor)
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        keys = [key.value if key.tag == MERGE else self.construct_object(key) for key in scalars]
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice[0]!r} is there twice in the mapping of line {line}")
        return node


def read_yaml(path: Path, unique: bool = False) -> Any:
    """What a YAML file holds.

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
