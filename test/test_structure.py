"""The layers and imports of the package, read from its sources; docs/architecture.md explains them.

An import inside a function or under TYPE_CHECKING counts like any other: it says who knows
whom. Only for what importing a module costs do those that run with the module count alone.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAME = "poam_ros"

#: The layers, the lowest first, and the packages in each. A module may import from its own package
#: and from the layers below, and from no other package of its layer.
LAYERS = (
    ("core",),
    ("models",),
    ("planning", "simulation.world"),
    ("frontend",),
    ("screening", "journal"),
    ("learning",),
    ("mission",),
    ("outputs",),
    ("mapping",),
    ("simulation",),
    ("mavlink",),
    ("importers",),
    ("ros",),
    ("research",),
    ("app",),
    ("launch",),
)
PACKAGES = sorted((name for layer in LAYERS for name in layer), key=len, reverse=True)
#: Who may change the process it runs in (threads, allocator): where a process begins.
ENTRIES = ("app", "research.profile", "ros", "research.sweeps.sweep", "mapping.parallel")

TORCH = {"torch", "gpytorch", "linear_operator"}
MAY_KNOW_TORCH = ("models", "core.process", "research.profile")
#: Read by everything that only wants to know which models there are.
TABLES_WITHOUT_TORCH = ("models.registry", "models.sparse.methods", "models.nngp.options")
ROS_SUFFIXES = ("_msgs", "_srvs", "_interfaces")
ROS = {"rclpy", "rosidl_runtime_py", "tf2_ros", "tf2_py"}
LAUNCH_TOOLS = {"launch", "launch_ros"}
#: What an extra brings: loaded by the function that needs it, so that the rest runs without.
EXTRAS = {
    "matplotlib", "PIL", "rich", "dask", "distributed", "rasterio", "pooch", "rosbags", "mcap",
    "bokeh", "pyogrio", "pyproj", "contourpy", "pynmeagps", "pymavlink",
    "serial",
}  # fmt: skip

#: What runs where there is neither torch nor ROS 2 nor an extra.
LIGHT = (
    "core.errors", "core.geometry", "core.clock", "core.settings", "core.samples", "core.maps",
    "planning", "simulation.world", "frontend", "screening", "journal", "learning", "mission",
    "outputs", "mapping.soundings", "importers.tables", "importers.bags", "importers.bag_files",
    "importers.readers", "research.sweeps.sweep_report", "research.sweeps.folder",
    "mavlink", "app.cli", "app.commands", "app.nodes",
    "app.graph", "ros.common.parameters", "importers.messages", *TABLES_WITHOUT_TORCH,
)  # fmt: skip
#: What comes up without torch: the nodes load it when their parameters are known to be right.
WITHOUT_TORCH = (*LIGHT, "ros", "app.launching")

LIMIT = 400  # lines of a file
#: Longer files, and why they are not cut.
LONG = {
    f"{NAME}/models/native/conditional.c": "one loop for each width of vectors, and a gradient",
    f"{NAME}/models/native/search.c": "an index and its searches, of one structure",
}


@dataclass(frozen=True)
class Import:
    """``source`` imports ``target``; ``runs`` with the module, or later, or never."""

    source: str
    target: str
    line: int
    runs: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def path_of(module: str) -> Path:
    """The file of one of our modules."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


#: What reads the system clock, and the modules that do: for stamps, dates in names and documents.
SYSTEM_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "datetime.utcnow"}
STAMPING = {
    "app.commands.doctor", "app.commands.drive", "mapping.edits", "mavlink.simulated_boat",
    "outputs.exports.chart", "ros.simulator.node",
}  # fmt: skip


@cache
def modules() -> dict[str, ast.Module]:
    """The parsed source of every module of the package, by dotted name, launch files included."""
    named = {}
    for path in sorted((ROOT / NAME).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    named |= {f"launch.{path.name[:-3]}": path for path in (ROOT / "launch").glob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in named.items()}


def imports(body: list[ast.stmt], runs: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """The import statements below, and whether each runs with the module."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, runs
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(node.body, False)
            yield from imports(node.orelse, runs)
        else:
            inside = runs and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for field in ("body", "orelse", "finalbody"):
                yield from imports(getattr(node, field, []), inside)
            for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                yield from imports(part.body, inside)


def targets(module: str, node: ast.stmt) -> Iterator[str]:
    """The modules that a statement names, ours in full."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = path_of(module).name == "__init__.py"
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + package]
        base = ".".join([*parts, *filter(None, [node.module])])
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        yield inner if inner in modules() else base


@cache
def all_imports() -> tuple[Import, ...]:
    """Every import of the package."""
    return tuple(
        Import(module, target, node.lineno, runs)
        for module, tree in modules().items()
        for node, runs in imports(tree.body)
        for target in targets(module, node)
    )


def ours() -> list[Import]:
    """The imports between our own modules, but for those of the package itself."""
    return [a for a in all_imports() if a.target in modules() and NAME not in (a.source, a.target)]


def within(module: str, *places: str) -> bool:
    """Whether a module of ours is one of the places, or in one."""
    inner = module.removeprefix(f"{NAME}.")
    return any(inner == place or inner.startswith(f"{place}.") for place in places)


def package(module: str) -> str:
    """The package of LAYERS that a module is in; empty without one."""
    return next((name for name in PACKAGES if within(module, name)), "")


def listed(found: list) -> str:
    return "\n" + "\n".join(sorted(map(str, found)))


def test_every_module_is_in_a_layer():
    homeless = [m for m in modules() if m != NAME and not package(m)]
    assert not homeless, f"in no package of LAYERS: {listed(homeless)}"
    assert {package(m) for m in modules()} - {""} == set(PACKAGES), "LAYERS names what is gone"


def test_the_page_on_the_architecture_names_every_package():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing = [name for name in PACKAGES if f"`{name.replace('.', '/')}/`" not in page]
    assert not missing


def test_imports_point_to_lower_layers():
    height = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for edge in ours():
        source, target = package(edge.source), package(edge.target)
        if source != target and source and target and height[source] <= height[target]:
            wrong.append(edge)
    assert not wrong, f"imports of a layer above, or beside: {listed(wrong)}"


def test_the_package_itself_loads_nothing():
    """Importing any module runs poam_ros/__init__.py first."""
    early = [a for a in all_imports() if a.source == NAME and a.runs and a.target in modules()]
    assert not early, listed(early)


def test_no_modules_import_each_other_in_a_circle():
    known = {module: {a.target for a in ours() if a.source == module} for module in modules()}
    done: set[str] = set()

    def circle(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module not in done:
            for target in sorted(known[module]):
                if found := circle(target, [*trail, module]):
                    return found
            done.add(module)
        return []

    found = [text for module in modules() if (text := " -> ".join(circle(module, [])))]
    assert not found, f"a circle: {found[0]}"


def foreign(names: set[str], suffixes: tuple[str, ...] = ()) -> list[Import]:
    """Imports of packages that are not ours."""
    tops = [(a, a.target.split(".")[0]) for a in all_imports() if a.target not in modules()]
    return [a for a, top in tops if top in names or (suffixes and top.endswith(suffixes))]


def test_torch_stays_with_the_model():
    wrong = [
        a
        for a in foreign(TORCH)
        if not within(a.source, *MAY_KNOW_TORCH) or within(a.source, *TABLES_WITHOUT_TORCH)
    ]
    assert not wrong, f"torch is known to {', '.join(MAY_KNOW_TORCH)} alone: {listed(wrong)}"


def test_ros_stays_in_its_package():
    """And what starts it: the command when it starts the nodes.

    The reader of bags names message types, for the type checker alone.
    """
    wrong = [
        a
        for a in foreign(ROS, ROS_SUFFIXES)
        if not within(a.source, "ros")
        and (a.runs or not within(a.source, "app", "importers.messages"))
    ]
    assert not wrong, f"ROS 2 outside poam_ros/ros: {listed(wrong)}"
    tools = [a for a in foreign(LAUNCH_TOOLS) if not within(a.source, "launch", "app.launching")]
    assert not tools, f"the launch tools outside of app/launching.py: {listed(tools)}"


def test_extras_are_loaded_by_the_function_that_needs_them():
    early = [a for a in foreign(EXTRAS) if a.runs]
    assert not early, f"loaded with the module, whoever imports it: {listed(early)}"


def test_the_system_clock_is_read_for_stamps_alone():
    """GPS and NTP set it: what guards or waits goes by the steady clock."""
    readers = {
        name.removeprefix(f"{NAME}.")
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SYSTEM_CLOCK
    }
    assert {name for name in readers if not within(name, "research")} == STAMPING


def test_no_log_line_is_limited_by_the_system_clock():
    """rclpy's own limit goes by it by default: a clock set back would silence the line."""
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and "throttle_duration_sec" in (given := {word.arg for word in node.keywords})
        and "throttle_time_source_type" not in given
    ]
    assert not wrong, listed(wrong)


def test_only_entry_points_change_the_process():
    of_process = [a for a in ours() if within(a.target, "core.process")]
    wrong = [a for a in of_process if not within(a.source, *ENTRIES)]
    assert not wrong, listed(wrong)


def loaded_with(module: str) -> dict[str, str]:
    """Every module, ours or not, that comes with importing one of ours, and who asked for it."""
    asked: dict[str, str] = {module: ""}
    waiting = [module]
    while waiting:
        source = waiting.pop()
        wanted = [a.target for a in all_imports() if a.source == source and a.runs]
        for target in [*wanted, source.rpartition(".")[0]]:
            if target and target not in asked:
                asked[target] = source
                if target in modules():
                    waiting.append(target)
    return asked


@pytest.mark.parametrize("place", WITHOUT_TORCH)
def test_comes_up_without_torch(place):
    found = []
    for module in filter(lambda name: within(name, place), modules()):
        asked = loaded_with(module)
        for heavy in (name for name in asked if name.split(".")[0] in TORCH):
            trail = [heavy]
            while asked[trail[-1]]:
                trail.append(asked[trail[-1]])
            found.append(" <- ".join(trail))
            break
    assert not found, f"importing {place} loads torch: {listed(found)}"


def run_python(script):
    """A script of this checkout in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_light_packages_import_where_nothing_heavy_is_installed():
    """What the sources say, said by Python: no torch, no ROS 2, none of the extras."""
    wanted = [module for module in modules() if within(module, *LIGHT)]
    messages = {a.target.partition(".")[0] for a in foreign(set(), ROS_SUFFIXES)}
    missing = sorted(TORCH | ROS | EXTRAS | messages)
    script = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"  # None makes an import of it fail
        f"for name in {wanted!r}:\n    importlib.import_module(name)\n"
    )
    done = run_python(script)
    assert done.returncode == 0, done.stderr


def test_nngp_starts_without_gpytorch():
    """Nor SymPy, which a module on torch's meta device imports: half a second of every start."""
    script = (
        "import sys\n"
        "from poam_ros import BathymetricMapper, Extent, ModelSettings\n"
        "BathymetricMapper(Extent(0, 60, 0, 40), ModelSettings(method='nngp'))\n"
        "print({'torch', 'gpytorch', 'sympy'} & set(sys.modules))\n"
    )
    done = run_python(script)
    assert done.stdout == "{'torch'}\n", done.stderr


def test_no_file_is_long_but_tables():
    files = [*(ROOT / NAME).rglob("*.py"), *(ROOT / NAME).rglob("*.c")]
    files += [*(ROOT / "launch").glob("*.py"), ROOT / "setup.py"]
    lines = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in files
    }
    long = {name: count for name, count in lines.items() if count > LIMIT}
    extra = [f"{name}: {count} lines" for name, count in long.items() if name not in LONG]
    assert not extra, f"longer than {LIMIT} lines: {listed(extra)}"
    short = set(LONG) - set(long)
    assert not short, f"no exception needed any more: {listed([*short])}"
