"""What commands import: nothing slow that they do not need."""

import subprocess
import sys

import pytest
from sweep_folders import write_sweep

from poam_ros.app.cli import COMMANDS

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


def test_help_and_errors_import_nothing_slow(ros_env):
    arguments = [[], ["--version"], ["run", "--method", "magic"]]
    arguments += [[command, "--help"] for command in COMMANDS]
    program = "\n".join(COMMAND.format(each) for each in arguments)
    assert heavy(program, ros_env) == set()


def test_the_first_help_needs_no_numpy(ros_env):
    program = "\n".join(COMMAND.format([each]) for each in ("--help", "--version"))
    assert heavy(f"{program}\nimport sys\nassert 'numpy' not in sys.modules", ros_env) == set()


@pytest.mark.slow
def test_a_report_loads_no_torch(tmp_path, ros_env):
    pytest.importorskip("matplotlib")
    samples = [500, 900, 1400]
    run = {"environment": "sea", "method": "poam", "seed": 0, "samples": samples}
    write_sweep(tmp_path, [{**run, "values": {"smse": [0.3, 0.2, 0.1]}}])
    loaded = heavy(COMMAND.format(["benchmark", str(tmp_path)]), ros_env)
    assert (tmp_path / "report" / "table.md").read_text()
    assert not loaded & {"torch", "gpytorch", "scipy", "dask", "distributed"}
