"""What the documentation site has besides docs/: pages of the root folder, files that pages link
to, and the reference of the Python API. A hook of MkDocs (mkdocs.yml)."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import poam_ros

ROOT = Path(__file__).parent.parent

#: Pages that have another place in the site than in the repository.
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"\[([^\[\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/, and the reference."""
    files.remove(files.src_uris["README.md"])  # the index of docs/, which is not the site's
    for source, place in MOVED.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "api.md", content=_reference()))
    for file in list(files.documentation_pages()):
        for target in _targets(file):
            place = _place(target)
            if (ROOT / target).is_file() and place not in files.src_uris:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between files of the repository lead to their places in the site."""
    folder = posixpath.dirname(_origin(page.file))
    here = posixpath.dirname(page.file.src_uri) or "."

    def moved(link: re.Match[str]) -> str:
        text, target, anchor = link.groups("")
        target = _joined(folder, target)
        if (ROOT / target).is_dir():
            return text  # a folder is no page
        return f"[{text}]({posixpath.relpath(_place(target), here)}{anchor})"

    return _LINK.sub(moved, markdown)


def _reference() -> str:
    """One section for every public name."""
    names = (name for name in poam_ros.__all__ if name[0].isalpha())
    head = "# Python API\n\n[From Python](python.md) introduces these names.\n\n"
    return head + "\n\n".join(f"::: poam_ros.{name}" for name in names) + "\n"


def _origin(file: File) -> str:
    """A page's place in the repository."""
    sources = {place: source for source, place in MOVED.items()}
    return sources.get(file.src_uri, f"docs/{file.src_uri}")


def _place(source: str) -> str:
    """A file's place in the site, by that in the repository."""
    return MOVED.get(source, source.removeprefix("docs/"))


def _targets(file: File) -> set[str]:
    """Files of the repository that a page links to."""
    folder = posixpath.dirname(_origin(file))
    return {_joined(folder, match[2]) for match in _LINK.finditer(file.content_string)}


def _joined(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(folder, target))
