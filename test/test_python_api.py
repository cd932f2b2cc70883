"""What docs/python.md promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poam_ros

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "python.md"


def test_the_example_of_the_page_runs():
    (example,) = re.findall(r"```python\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {"print": lambda *values: None}
    exec(compile(example, str(PAGE), "exec"), names)
    found, mapper = names["found"], names["mapper"]
    assert found.mean.shape == found.variance.shape == (2,) and mapper.samples == 300
    np.testing.assert_allclose(found.mean, [-12 + np.sin(10 / 9), -12 + np.sin(55 / 9)], atol=0.5)


@pytest.mark.slow
def test_the_top_level_loads_nothing_heavy_and_is_typed():
    script = (
        "import sys, poam_ros\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'numpy' not in sys.modules and set(poam_ros.__all__) <= set(dir(poam_ros))\n"
        "poam_ros.Extent(0, 1, 0, 1), poam_ros.ModelSettings(method='poam')\n"
        "assert 'torch' not in sys.modules\n"
        "assert all(getattr(poam_ros, name) for name in poam_ros.__all__)\n"
        "assert 'rclpy' not in sys.modules and 'gpytorch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (Path(poam_ros.__file__).parent / "py.typed").is_file()
    assert set(poam_ros._HOMES) == set(poam_ros.__all__) - {"__version__"}


@pytest.mark.soak
def test_a_strict_type_checker_takes_what_the_page_does(tmp_path):
    """Minutes, for mypy reads torch, too."""
    pytest.importorskip("mypy")
    examples = re.findall(r"```python\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "consumer.py").write_text("\n".join(examples), encoding="utf-8")
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "consumer.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    ours = [line for line in done.stdout.splitlines() if line.startswith("consumer.py")]
    assert "error" not in "".join(ours), done.stdout
