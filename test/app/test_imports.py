"""What commands import: nothing slow that they do not need."""

import subprocess
import sys

import pytest
from sweep_folders import write_sweep

HEAVY = (
    "torch", "gpytorch", "matplotlib", "scipy", "dask", "distributed", "rclpy", "pandas", "bokeh",
)  # fmt: skip
COMMAND = "from poam_ros.app.cli import main\ntry: main({!r})\nexcept SystemExit: pass"


def heavy(program: str, env: dict[str, str]) -> set[str]:
    """Which of the heavy packages a program has loaded at its end."""
    asked = f"{program}\nimport sys\nprint('loaded', *{HEAVY} & sys.modules.keys())"
    asked = asked.replace(f"*{HEAVY}", f"*set({HEAVY})")
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [[], ["--version"], ["--help"], ["profile", "--help"], ["run", "--help"],
     ["benchmark", "--help"], ["sim", "--help"], ["view", "--help"], ["run", "--method", "magic"]],
    ids=" ".join,
)  # fmt: skip
def test_help_and_errors_import_nothing_slow(arguments, ros_env):
    assert heavy(COMMAND.format(arguments), ros_env) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_the_first_help_needs_no_numpy(arguments, ros_env):
    program = f"{COMMAND.format(arguments)}\nimport sys\nassert 'numpy' not in sys.modules"
    assert heavy(program, ros_env) == set()


@pytest.mark.slow
def test_a_report_loads_no_torch(tmp_path, ros_env):
    pytest.importorskip("matplotlib")
    samples = [500, 900, 1400]
    run = {"environment": "sea", "method": "poam", "seed": 0, "samples": samples}
    write_sweep(tmp_path, [{**run, "values": {"smse": [0.3, 0.2, 0.1]}}])
    loaded = heavy(COMMAND.format(["benchmark", str(tmp_path)]), ros_env)
    assert (tmp_path / "report" / "table.md").read_text()
    assert not loaded & {"torch", "gpytorch", "scipy", "dask", "distributed"}


@pytest.mark.ros
def test_the_monitor_loads_no_torch(ros_env):
    pytest.importorskip("rclpy")
    loaded = heavy("import poam_ros.ros.monitor.node", ros_env)
    assert loaded == {"rclpy"}


@pytest.mark.parametrize(
    "module",
    [
        "core.settings",
        "core.maps",
        "simulation.settings",
        "ros.common.parameters",
        "research.sweeps.configuration",
    ],
)
def test_settings_load_no_torch(module, ros_env):
    assert heavy(f"import poam_ros.{module}", ros_env) == set()


def test_public_names_are_imported_on_first_use(ros_env):
    light = "import poam_ros; assert set(poam_ros.__all__) <= set(dir(poam_ros))"
    assert heavy(f"{light}\nimport sys; assert 'numpy' not in sys.modules", ros_env) == set()
    assert heavy("from poam_ros import Extent, ModelSettings, SparseOptions", ros_env) == set()
    program = (
        "from poam_ros import BathymetricMapper as B; "
        "assert B.__module__ == 'poam_ros.models.mapper'"
    )
    assert "torch" in heavy(program, ros_env)
    with pytest.raises(ImportError):
        exec("from poam_ros import Nothing")
