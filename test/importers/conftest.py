"""What the tests of the importers share."""

import pytest

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings


@pytest.fixture
def write(tmp_path):
    def write(text, name="log.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


@pytest.fixture
def read(write):
    """The soundings of a text."""

    def read(text, columns=None, name="log.csv", **options):
        return read_soundings(write(text, name), ReadOptions(columns or {}, **options))

    return read
