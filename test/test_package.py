"""What pip, colcon and a newcomer read: metadata, console scripts, data files, tracked text."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import setuptools  # before another test imports the distutils that it replaces

import poam_ros

ROOT = Path(__file__).parent.parent
NODES = ("mapper", "planner", "simulator", "monitor")


@pytest.fixture(scope="module")
def setup_arguments() -> dict:
    """What setup.py passes to setuptools, without building anything."""
    taken = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", lambda **arguments: taken.update(arguments))
        source = (ROOT / "setup.py").read_text(encoding="utf-8")
        exec(compile(source, str(ROOT / "setup.py"), "exec"), {"__file__": str(ROOT / "setup.py")})
    return taken


@pytest.fixture(scope="module")
def manifest() -> ElementTree.Element:
    return ElementTree.parse(ROOT / "package.xml").getroot()


def tracked_files() -> list[Path]:
    """The files of the repository; skips where this is no checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_manifest_and_setup_say_the_same(setup_arguments, manifest):
    assert manifest.get("format") == "3"
    assert manifest.findtext("name") == setup_arguments["name"] == "poam_ros"
    assert manifest.findtext("version") == setup_arguments["version"] == poam_ros.__version__
    assert manifest.findtext("license") == setup_arguments["license"] == "Apache-2.0"
    assert manifest.findtext("maintainer") == setup_arguments["maintainer"]
    assert manifest.find("maintainer").get("email") == setup_arguments["maintainer_email"]
    assert [(link.get("type"), link.text) for link in manifest.findall("url")] == [
        ("website", setup_arguments["url"])
    ]
    assert manifest.findtext("export/build_type") == "ament_python"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_manifest_names_every_ros_package_that_is_imported(manifest):
    """An import that package.xml does not name fails on the machine of whoever used rosdep."""
    named = {element.text for element in manifest.findall("exec_depend")}
    ros = re.compile(r"^(rclpy|tf2_\w+|launch\w*|\w+_(msgs|srvs|interfaces))$")
    imported = set()
    for path in [*(ROOT / "poam_ros").rglob("*.py"), *(ROOT / "launch").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
    packages = {"tf2_ros": "tf2_ros_py"}  # a module that its package does not give its name
    assert {packages.get(name, name) for name in imported if ros.match(name)} <= named


def test_constraints_pin_whatever_is_asked_for(setup_arguments):
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w-]+)==", pins, re.MULTILINE))
    asked = [*setup_arguments["install_requires"]]
    for lines in setup_arguments["extras_require"].values():
        asked += lines
    assert {re.match(r"[\w-]+", line).group() for line in asked} <= pinned


def test_packages_and_data_files_exist_and_nothing_is_left_out(setup_arguments):
    found = (path.parent.relative_to(ROOT) for path in (ROOT / "poam_ros").rglob("__init__.py"))
    assert set(setup_arguments["packages"]) == {".".join(path.parts) for path in found}
    files = {name for _, names in setup_arguments["data_files"] for name in names}
    assert all((ROOT / name).is_file() for name in files)
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "launch").glob("*.launch.py")}
    here |= {str(path.relative_to(ROOT)) for path in (ROOT / "config").rglob("*.*")}
    assert here | {"resource/poam_ros", "package.xml"} == files


@pytest.mark.parametrize("name", [*NODES, "poam"])
def test_console_script_is_there(setup_arguments, name):
    scripts = dict(line.split(" = ") for line in setup_arguments["entry_points"]["console_scripts"])
    module, function = scripts[name].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_modules_that_the_documents_name_are_there():
    """A module that moved leaves its old name behind in prose."""
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*/**/*.py")]
    gone = []
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
            if not any(module.endswith(f"/{name}") for module in modules):
                gone.append(f"{page.name}: {name}")
    assert not gone


def test_no_path_of_a_machine_in_the_repository():
    """A path that exists on one machine only breaks on every other."""
    absolute = re.compile(r"/(?:work|home|root|Users)/\w")
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary
        found += [f"{path.relative_to(ROOT)}: {match}" for match in absolute.findall(text)]
    assert not found
