"""What README and docs/*.md show and claim: examples run, links lead somewhere, tables are true."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Block, anchors, blocks, links, tables

from poam_ros.app.cli import main
from poam_ros.frontend import refused_pings as refused
from poam_ros.ros.parameters import INNER, NODES

#: What makes the examples that are run small; a later option goes before an earlier one.
SMALL = {
    "map": [
        *("--set", "nngp.first_steps=20", "--set", "nngp.update_steps=1"),
        *("--set", "nngp.early_steps=1", "--set", "nngp.hidden=8"),
    ],
    "run": ["--max-samples", "30", "--set", "sparse.num_inducing=20"],
}


@pytest.mark.parametrize("block", list(blocks("python")), ids=str)
def test_python_of_the_pages_runs(block: Block, tmp_path, monkeypatch):
    """What needs ROS or a driver's messages is compiled only."""
    monkeypatch.chdir(tmp_path)
    code = compile(block.text, str(block), "exec", dont_inherit=True)
    wanted = re.findall(r"^(?:from|import) (\w+)", block.text, re.MULTILINE)
    if "rclpy" not in wanted and all(find_spec(name) for name in wanted):
        exec(code, {"__name__": "example"})


@pytest.mark.slow
def test_the_first_map_is_made_as_the_page_says(tmp_path, monkeypatch, capsys):
    """Its log by its own lines, then each command that it marks, with smaller models."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("rasterio")
    monkeypatch.chdir(tmp_path)
    page = [block for block in blocks("python", "sh") if block.page.name == "first-map.md"]
    lake = page[0].text.replace("1200", "400")  # 4 of its 12 lines
    exec(compile(lake, str(page[0]), "exec"), {})
    ran = [words for block in page if block.run for words in block.commands]
    assert [words[1] for words in ran] == ["map", "map", "export", "export"]
    for words in ran:
        assert main([*words[1:], *SMALL.get(words[1], ())]) == 0, words
    assert "400 soundings" in capsys.readouterr().out
    made = {path.name for path in Path("runs/lake").iterdir()} | set(map(str, Path().glob("*.*")))
    assert made >= {"maps.png", "validation.png", "validation.json", "lake.tif", "lake.html"}


@pytest.mark.slow
def test_the_marked_missions_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = ("first-map.md", "good-enough.md")  # which have tests of their own
    others = [b for b in blocks("sh") if b.run and b.page.name not in own]
    ran = [words for block in others for words in block.commands]
    assert {words[1] for words in ran} == {"run"}
    for words in ran:
        assert main([*words[1:], *SMALL["run"]]) == 0, words
        folder = Path(words[words.index("--output") + 1])
        assert (folder / "map.npz").is_file() and (folder / "maps.png").is_file()


@pytest.mark.slow
def test_missions_end_by_their_map_as_the_page_says(tmp_path, monkeypatch, capsys):
    """By its commands, but after minutes: fewer pings, and a share that so few can reach."""
    monkeypatch.chdir(tmp_path)
    page = [b for b in blocks("sh") if b.page.name == "good-enough.md" and b.run]
    known, near = (words for block in page for words in block.commands)
    short = ["--sonar-rate", "1", "--pilot", "diagonal", "--resolution", "2"]
    easy = ["--set", "target.tvu=2", "--set", "target.share=0.1", *SMALL["map"]]
    few = ["--max-samples", "250", "--set", "sparse.num_inducing=20"]
    for words, more, end in (
        (known, easy, r"TVU within 2 in \d\d\.\d % of the workspace"),
        (near, few, r".*; every place within max\(3 x the depth, 25 m\) of a ping"),
    ):
        assert main([*words[1:], *short, *more]) == 0, words
        assert re.search(f"^end: {end}$", capsys.readouterr().out, re.MULTILINE)
        folder = Path(words[words.index("--output") + 1])
        assert len((folder / "samples.csv").read_text().splitlines()) < 600


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target in links(page):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def test_every_page_is_in_the_index():
    index = {target.partition("#")[0] for target in links(ROOT / "docs" / "README.md")}
    assert {page.name for page in PAGES if page.name != "README.md"} <= index


def test_parameters_that_tables_name_are_there():
    rows = [row for table in (NODES, INNER) for part in table.values() for row in part]
    known = {row.name for row in rows}
    for page in PAGES:
        for table in tables(page):
            for row in table if table and "parameter" in table[0] else ():
                for name in re.findall(r"`([\w.]+)`", row["parameter"]):
                    assert name in known, f"{page.name}: {name}"


def test_every_reason_of_refusal_is_explained():
    said = [
        {name for row in table for name in re.findall(r"`(\w+)`", row["reason"])}
        for table in tables(ROOT / "docs" / "troubleshooting.md")
        if table and "reason" in table[0]
    ]
    assert set(refused.REASONS) == said[0]
    # Their numbers on the topic are their order.
    text = (ROOT / "docs" / "interfaces.md").read_text(encoding="utf-8")
    order = text.partition("counts from 0 in this order:")[2].partition(";")[0]
    assert re.findall(r"`(\w+)`", order) == list(refused.REASONS)


def test_the_table_of_interfaces_has_every_node():
    table = next(t for t in tables(ROOT / "docs" / "interfaces.md") if t and "node" in t[0])
    assert {re.findall(r"`(\w+)`", row["node"])[0] for row in table} == set(NODES)
