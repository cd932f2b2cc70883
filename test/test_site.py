"""The documentation's site: every page is in its menu, and it builds without a warning."""

import re
import subprocess
import sys

import pytest
from pages import PAGES, ROOT

#: Pages of the menu that tools/site_pages.py makes; contents.md is docs/README.md.
MADE = {"index.md", "contents.md", "api.md", "contributing.md", "changelog.md"}


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    menu = re.findall(r"^ *- (?:[\w ]+: )?([\w-]+\.md)$", menu, re.MULTILINE)
    assert len(menu) == len(set(menu))
    assert set(menu) == MADE | {page.name for page in PAGES if page.name != "README.md"}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    for extra in ("mkdocs", "material", "mkdocstrings_handlers"):
        pytest.importorskip(extra, reason="needs the extra docs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    reference = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    assert 'id="poam_ros.BathymetricMapper.predict"' in reference
    assert (tmp_path / "config" / "robot.yaml").is_file()  # which pages link to
