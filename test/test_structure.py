"""How modules depend on each other; pyproject.toml has the layers, which `make lint` checks."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAME = "poam_ros"

TORCH = ("torch", "gpytorch", "linear_operator")
ROS = (
    "rclpy", "rosidl_runtime_py", "tf2_ros", "tf2_py", "action_msgs", "builtin_interfaces",
    "diagnostic_msgs", "geometry_msgs", "nav2_msgs", "nav_msgs", "rcl_interfaces", "rosgraph_msgs",
    "sensor_msgs", "std_msgs", "std_srvs", "unique_identifier_msgs", "visualization_msgs",
)  # fmt: skip
#: What an extra brings: loaded by the function that needs it, so that the rest runs without.
EXTRAS = (
    "matplotlib", "PIL", "rich", "dask", "distributed", "rasterio", "pooch", "rosbags", "mcap",
    "bokeh", "pyogrio", "pyproj", "contourpy", "pynmeagps", "pymavlink", "serial",
)  # fmt: skip
#: What loads torch, or ROS 2 or the launch tools, when it is imported.
HEAVY = (
    "models", "ros", "simulation.lockstep", "mapping.drawing", "mapping.resurvey",
    "mapping.sounding_map", "research.sweep", "app.launching",
)  # fmt: skip
#: Parts of these that load nothing heavy: what only wants to know which models there are.
LIGHT = ("models.registry", "models.sparse.methods", "models.nngp.options", "ros.parameters")


@cache
def modules() -> dict[str, ast.Module]:
    """The parsed source of every module of the package, by dotted name within it."""
    named = {}
    for path in sorted((ROOT / NAME).rglob("*.py")):
        parts = path.relative_to(ROOT / NAME).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in named.items()}


def within(module: str, *places: str) -> bool:
    """Whether a module is one of the places, or in one."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


def run_python(script: str) -> str:
    """What a script prints in a Python of its own, in this checkout."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def import_without(names: list[str], missing: tuple[str, ...]) -> None:
    """Import modules of ours where others are not installed."""
    run_python(
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"  # None makes an import of it fail
        f"for name in {names!r}:\n    importlib.import_module(name)\n"
    )


def test_light_modules_import_where_nothing_heavy_is_installed():
    light = [f"{NAME}.{m}" for m in modules() if within(m, *LIGHT) or not within(m, *HEAVY)]
    import_without([name.removesuffix(".") for name in light], TORCH + ROS + EXTRAS)


def test_extras_are_loaded_by_the_function_that_needs_them():
    heavy = [m for m in modules() if within(m, *HEAVY) and not within(m, "ros", "app")]
    import_without([f"{NAME}.{module}" for module in heavy], ROS + EXTRAS)


@pytest.mark.ros
def test_nodes_come_up_without_torch():
    """They load it when their parameters are known to be right."""
    pytest.importorskip("rclpy")
    nodes = [f"{NAME}.{module}" for module in modules() if within(module, "ros")]
    import_without(nodes, TORCH + EXTRAS)


def test_nngp_starts_without_gpytorch():
    """Nor SymPy, which a module on torch's meta device imports: half a second of every start."""
    found = run_python(
        "import sys\n"
        "from poam_ros import BathymetricMapper, Extent, ModelSettings\n"
        "BathymetricMapper(Extent(0, 60, 0, 40), ModelSettings(method='nngp'))\n"
        "print({'torch', 'gpytorch', 'sympy'} & set(sys.modules))\n"
    )
    assert found == "{'torch'}\n"


def test_the_package_itself_loads_nothing():
    """Importing any module runs poam_ros/__init__.py first."""
    found = run_python(
        "import sys, poam_ros\nprint([m for m in sys.modules if m.startswith('poam_ros.')])"
    )
    assert found == "[]\n"


def test_no_modules_import_each_other_in_a_circle():
    """But for names that only the type checker needs."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph(NAME, cache_dir=None, exclude_type_checking_imports=True)
    known = {m: graph.find_modules_directly_imported_by(m) - {NAME} for m in graph.modules}
    TopologicalSorter(known).prepare()  # raises an error that names the circle


def test_the_page_on_the_architecture_names_every_package():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = [path.name for path in (ROOT / NAME).iterdir() if (path / "__init__.py").exists()]
    assert not [name for name in packages if f"`{name}/`" not in page]


#: What reads the system clock, and the modules that do: for stamps, dates in names and documents.
SYSTEM_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "datetime.utcnow"}
STAMPING = {
    "app.commands.doctor", "app.commands.drive", "mapping.exclusions", "mavlink.simulated_boat",
    "outputs.chart", "ros.simulator",
}  # fmt: skip


def test_the_system_clock_is_read_for_stamps_alone():
    """GPS and NTP set it: what guards or waits goes by the steady clock, and so do log lines that
    are limited in time, for which rclpy's default is the system clock."""
    readers, unlimited = set(), set()
    for name, tree in modules().items():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            words = {word.arg for word in call.keywords}
            if ast.unparse(call.func) in SYSTEM_CLOCK:
                readers.add(name)
            if "throttle_duration_sec" in words and "throttle_time_source_type" not in words:
                unlimited.add(name)
    assert (readers, unlimited) == (STAMPING, set())
