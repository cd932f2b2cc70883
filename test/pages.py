"""README and docs/*.md as data: fenced blocks, the commands in them, links, headings, tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = "<!-- test: run -->\n"
_SETTING = re.compile(r"[A-Z_]+=\S*")  # an environment variable before a command


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and whether the page wants it run."""

    page: Path
    line: int
    language: str
    text: str
    run: bool

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block; comments, variables before it left out."""
        text = self.text
        if self.language == "console":  # what is typed stands after a $
            text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
        commands = []
        for line in re.sub(r"\\\n", " ", text).splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
            lexer.whitespace_split, words = True, []
            for word in [*lexer, "&&"]:
                if word in ("&&", ";", "|"):
                    while words and _SETTING.fullmatch(words[0]):
                        words.pop(0)
                    commands += [words] if words else []
                    words = []
                else:
                    words.append(word)
        return commands


def blocks(*languages: str) -> Iterator[Block]:
    """Every fenced block of these languages, in all pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            if found[1] in languages:
                line = text.count("\n", 0, found.start()) + 1
                run = text[: found.start()].endswith(_RUN)
                yield Block(page, line, found[1], found[2], run)


def commands(program: str) -> Iterator[tuple[Block, list[str]]]:
    """Every command of a program in shell blocks, with where it stands."""
    for block in blocks("sh", "console"):
        yield from ((block, words) for words in block.commands if words[0] == program)


def prose(page: Path) -> str:
    """A page's text without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Targets of a page's links and pictures that are not on the network."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(page)))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def tables(page: Path) -> Iterator[list[dict[str, str]]]:
    """The tables of a page: rows by column."""
    rows: list[list[str]] = []
    for line in [*prose(page).splitlines(), ""]:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            rows.append([cell.strip() for cell in cells])
        elif rows:
            yield [dict(zip(rows[0], row, strict=False)) for row in rows[2:]]
            rows = []
